// qrt.h for C++17: handles that release themselves, results that hold a value or an error. Header only; the
// contract of every function (threads, lifetimes, errors, units) is that of the C function that it calls,
// which its comment names where the name does not.
//
//   auto artifact = qrt::Artifact::Open("model.qbin");
//   if (!artifact) return Complain(artifact.error().message());
//   auto engine = qrt::Engine::Create(*artifact);
//
// Nothing here throws, and it compiles with -fno-exceptions; what fails for want of memory is
// QRT_OUT_OF_MEMORY. With QRT_HPP_EXCEPTIONS defined before the include there is also Result::value(), which
// throws qrt::Exception. Callables that are passed in must not throw.
#ifndef QRT_QRT_HPP_
#define QRT_QRT_HPP_

#include <qrt/qrt.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "result.hpp"

namespace qrt {
inline namespace cpp1 {

// "1.2.3" of the library.
inline const char* Version() {
  return qrt_version();
}
inline const char* StatusName(qrt_status status) {
  return qrt_status_name(status);
}
inline Result<qrt_cpu_info> DescribeCpu() {
  return internal::Info<qrt_cpu_info>(qrt_cpu_describe);
}
inline Result<std::vector<qrt_device_info>> ListDevices() {
  return internal::Fill<std::vector<qrt_device_info>>(
      4, [](qrt_device_info* devices, std::size_t room, std::size_t* count, qrt_error* error) {
        devices[0].struct_size = sizeof *devices;
        return qrt_devices_list(devices, room, count, error);
      });
}
// Async-signal-safe: false where no file is mapped at `address`.
inline bool MappedFileAt(const void* address, Span<char> path, std::uint64_t* offset) {
  return qrt_mapped_file_at(address, path.data(), path.size(), offset) != 0;
}
// The longest prefix that ends with a whole UTF-8 sequence.
inline std::string_view WholePrefix(std::string_view bytes) {
  return bytes.substr(0, qrt_utf8_whole_prefix(bytes.data(), bytes.size()));
}

class Artifact : public internal::Handle<qrt_artifact, qrt_artifact_release> {
 public:
  using Handle::Handle;

  static Result<Artifact> Open(const char* path, const qrt_artifact_options* options = nullptr) {
    return internal::Make<Artifact, qrt_artifact>(
        [&](qrt_artifact** out, qrt_error* error) { return qrt_artifact_open(path, options, out, error); });
  }
  static Result<Artifact> Open(const std::string& path, const qrt_artifact_options* options = nullptr) {
    return Open(path.c_str(), options);
  }
  // The bytes stay the caller's, where and as they are, until the last object made from them is gone.
  static Result<Artifact> OpenMemory(Span<const unsigned char> bytes, const char* name = nullptr,
                                     const qrt_artifact_options* options = nullptr) {
    return internal::Make<Artifact, qrt_artifact>([&](qrt_artifact** out, qrt_error* error) {
      return qrt_artifact_open_memory(bytes.data(), bytes.size(), name, options, out, error);
    });
  }

  Result<qrt_artifact_info> Describe() const {
    return internal::Info<qrt_artifact_info>(
        [&](qrt_artifact_info* info, qrt_error* error) { return qrt_artifact_describe(get(), info, error); });
  }
  Result<qrt_code_info> Code(std::uint32_t index) const {
    return internal::Info<qrt_code_info>(
        [&](qrt_code_info* info, qrt_error* error) { return qrt_artifact_code(get(), index, info, error); });
  }
  Result<qrt_memory_plan> MemoryPlan(std::uint64_t context_tokens, std::uint32_t sessions) const {
    return internal::Info<qrt_memory_plan>([&](qrt_memory_plan* plan, qrt_error* error) {
      return qrt_artifact_memory_plan(get(), context_tokens, sessions, plan, error);
    });
  }
  // What the model's makers recommend.
  Result<qrt_sampler_options> SamplerDefaults() const {
    return internal::Info<qrt_sampler_options>([&](qrt_sampler_options* options, qrt_error* error) {
      return qrt_sampler_defaults(get(), options, error);
    });
  }
  Outcome Verify() const {
    return internal::Call(
        [&](qrt_error* error) { return qrt_artifact_verify(get(), nullptr, nullptr, error); });
  }
  // `progress(done, total)` -> bool, in bytes; false: stop.
  template <typename F>
  Outcome Verify(F progress) const {
    return internal::Call([&](qrt_error* error) {
      return qrt_artifact_verify(
          get(),
          [](void* ctx, std::uint64_t done, std::uint64_t total) -> std::int32_t {
            return (*static_cast<F*>(ctx))(done, total) ? 0 : 1;
          },
          &progress, error);
    });
  }
};

class Sampler : public internal::Handle<qrt_sampler, qrt_sampler_release> {
 public:
  using Handle::Handle;

  // nullptr: what the artifact recommends.
  static Result<Sampler> Create(const Artifact& artifact, const qrt_sampler_options* options = nullptr) {
    return internal::Make<Sampler, qrt_sampler>([&](qrt_sampler** out, qrt_error* error) {
      return qrt_sampler_create(artifact.get(), options, out, error);
    });
  }

  Result<std::int32_t> Sample(Span<const float> logits) {
    std::int32_t token = 0;
    Error error;
    if (qrt_sampler_sample(get(), logits.data(), logits.size(), &token, error.out()) != QRT_OK) return error;
    return token;
  }
  void Accept(std::int32_t token) { qrt_sampler_accept(get(), token); }
  // The next Sample is for the token that has `position` tokens before it.
  void Seek(std::uint64_t position) { qrt_sampler_seek(get(), position); }
  void Reset() { qrt_sampler_reset(get()); }
};

class Engine : public internal::Handle<qrt_engine, qrt_engine_release> {
 public:
  using Handle::Handle;

  static Result<Engine> Create(const Artifact& artifact, const qrt_engine_options* options = nullptr) {
    return internal::Make<Engine, qrt_engine>([&](qrt_engine** out, qrt_error* error) {
      return qrt_engine_create(artifact.get(), options, out, error);
    });
  }

  Result<qrt_engine_info> Describe() const {
    return internal::Info<qrt_engine_info>(
        [&](qrt_engine_info* info, qrt_error* error) { return qrt_engine_describe(get(), info, error); });
  }
  Result<qrt_check_report> Check() {
    return internal::Info<qrt_check_report>(
        [&](qrt_check_report* report, qrt_error* error) { return qrt_engine_check(get(), report, error); });
  }
  Outcome TimeStages() {
    return internal::Call([&](qrt_error* error) { return qrt_engine_time_stages(get(), error); });
  }
  std::size_t stages() const { return qrt_engine_stages(get()); }
  Result<qrt_stage_info> Stage(std::size_t index, std::uint32_t thread) const {
    return internal::Info<qrt_stage_info>([&](qrt_stage_info* info, qrt_error* error) {
      return qrt_engine_stage(get(), index, thread, info, error);
    });
  }
  // The longest kept prefix of `tokens` stays until it is unpinned. How many tokens it has.
  Result<std::uint64_t> PinPrefix(Span<const std::int32_t> tokens) {
    std::uint64_t pinned = 0;
    Error error;
    if (qrt_engine_pin_prefix(get(), tokens.data(), tokens.size(), &pinned, error.out()) != QRT_OK) {
      return error;
    }
    return pinned;
  }
  Outcome UnpinPrefix(Span<const std::int32_t> tokens) {
    return internal::Call([&](qrt_error* error) {
      return qrt_engine_unpin_prefix(get(), tokens.data(), tokens.size(), error);
    });
  }
  // Items of Session::Item, each of another session.
  Outcome Append(Span<const qrt_batch_item> items) {
    return internal::Call(
        [&](qrt_error* error) { return qrt_engine_append(get(), items.data(), items.size(), error); });
  }
};

// Used by the thread of its session, which it keeps alive.
class Checkpoint : public internal::Handle<qrt_checkpoint, qrt_checkpoint_release> {
 public:
  using Handle::Handle;

  std::uint64_t position() const { return qrt_checkpoint_position(get()); }
  std::uint64_t bytes() const { return qrt_checkpoint_bytes(get()); }
  bool holds() const { return qrt_checkpoint_holds(get()) != 0; }
};

class Session : public internal::Handle<qrt_session, qrt_session_release> {
 public:
  using Handle::Handle;

  // `context_tokens` 0: the smaller of 4096 and the model's context length.
  static Result<Session> Create(const Engine& engine, std::uint64_t context_tokens = 0) {
    qrt_session_options options = Sized<qrt_session_options>();
    options.context_tokens = context_tokens;
    return Create(engine, options);
  }
  static Result<Session> Create(const Engine& engine, const qrt_session_options& options) {
    return internal::Make<Session, qrt_session>([&](qrt_session** out, qrt_error* error) {
      return qrt_session_create(engine.get(), &options, out, error);
    });
  }

  // Another session that goes on from here.
  Result<Session> Fork() const {
    return internal::Make<Session, qrt_session>(
        [&](qrt_session** out, qrt_error* error) { return qrt_session_fork(get(), out, error); });
  }

  std::uint64_t position() const { return qrt_session_position(get()); }
  std::uint64_t capacity() const { return qrt_session_capacity(get()); }
  // Whether another device or code variant made some of the sequence.
  bool foreign() const { return qrt_session_foreign(get()) != 0; }
  // How many tokens Rewind can take back now.
  std::uint64_t rewindable() const { return qrt_session_rewindable(get()); }
  Outcome Rewind(std::uint64_t tokens) {
    return internal::Call([&](qrt_error* error) { return qrt_session_rewind(get(), tokens, error); });
  }
  Outcome Reset() {
    return internal::Call([&](qrt_error* error) { return qrt_session_reset(get(), error); });
  }
  Result<Checkpoint> TakeCheckpoint() {
    return internal::Make<Checkpoint, qrt_checkpoint>(
        [&](qrt_checkpoint** out, qrt_error* error) { return qrt_session_checkpoint(get(), out, error); });
  }
  Outcome RewindTo(const Checkpoint& checkpoint) {
    return internal::Call(
        [&](qrt_error* error) { return qrt_session_rewind_to(get(), checkpoint.get(), error); });
  }
  // The longest prefix of `tokens` that the engine keeps.
  Result<qrt_prefix> Begin(Span<const std::int32_t> tokens) {
    return internal::Info<qrt_prefix>([&](qrt_prefix* prefix, qrt_error* error) {
      return qrt_session_begin(get(), tokens.data(), tokens.size(), prefix, error);
    });
  }
  // `tokens`: all that the session was fed. How many of them are kept.
  Result<std::uint64_t> Keep(Span<const std::int32_t> tokens) const {
    std::uint64_t kept = 0;
    Error error;
    if (qrt_session_keep(get(), tokens.data(), tokens.size(), &kept, error.out()) != QRT_OK) return error;
    return kept;
  }

  Outcome Append(Span<const std::int32_t> tokens, qrt_logits_want want = QRT_LOGITS_LAST) {
    qrt_append_options options = Sized<qrt_append_options>();
    options.want = want;
    return Append(tokens, options);
  }
  Outcome Append(Span<const std::int32_t> tokens, const qrt_append_options& options) {
    return internal::Call([&](qrt_error* error) {
      return qrt_session_append(get(), tokens.data(), tokens.size(), &options, error);
    });
  }
  // The token that `sampler` chooses behind `tokens`; it is not recorded (Sampler::Accept).
  Result<std::int32_t> Next(Span<const std::int32_t> tokens, Sampler& sampler) {
    std::int32_t token = 0;
    Outcome outcome = Append(tokens, Choosing(sampler, &token));
    if (!outcome) return outcome.error();
    return token;
  }
  // Appends `token` and chooses what follows, one token or as many more as the session's draft guessed right,
  // at most `most`: qrt_session_generate. All but the last are in the session and recorded in the sampler.
  Result<std::vector<std::int32_t>> Generate(std::int32_t token, Sampler& sampler, std::size_t most = 16) {
    const std::uint64_t room = capacity() - position() + 1;  // the last one need not fit
    std::vector<std::int32_t> tokens;
    if (!internal::Resize(tokens, most < room ? most : static_cast<std::size_t>(room))) {
      return Error::OutOfMemory();
    }
    std::size_t count = 0;
    qrt_generate_options options = Sized<qrt_generate_options>();
    options.sampler = sampler.get();
    Error error;
    if (qrt_session_generate(get(), token, &options, tokens.data(), tokens.size(), &count, error.out()) !=
        QRT_OK) {
      return error;
    }
    tokens.resize(count);
    return tokens;
  }
  Result<qrt_draft_counters> DraftCounters() const {
    return internal::Info<qrt_draft_counters>([&](qrt_draft_counters* out, qrt_error* error) {
      return qrt_session_draft_counters(get(), out, error);
    });
  }
  // `receive(position, logits)` -> bool for every token, in order; false: stop (QRT_CANCELLED).
  template <typename F>
  Outcome AppendForAllLogits(Span<const std::int32_t> tokens, F receive) {
    qrt_append_options options = Sized<qrt_append_options>();
    options.want = QRT_LOGITS_ALL;
    options.ctx = &receive;
    options.on_logits = [](void* ctx, qrt_session*, std::uint64_t position, const float* logits,
                           std::size_t vocab_size) -> std::int32_t {
      return (*static_cast<F*>(ctx))(position, Span<const float>(logits, vocab_size)) ? 0 : 1;
    };
    return Append(tokens, options);
  }
  // Of the last token, `vocab_size` of them; empty where the last append wanted none.
  Span<const float> Logits(std::uint32_t vocab_size) const {
    const float* logits = qrt_session_logits(get());
    return {logits, logits == nullptr ? 0 : std::size_t{vocab_size}};
  }

  // For Engine::Append. Tokens, sampler and `next` are used by it, not copied.
  qrt_batch_item Item(Span<const std::int32_t> tokens, const qrt_append_options& options) {
    return {get(), tokens.data(), tokens.size(), options};
  }
  qrt_batch_item Item(Span<const std::int32_t> tokens, Sampler& sampler, std::int32_t* next) {
    return Item(tokens, Choosing(sampler, next));
  }

  // Any thread, and signal handlers.
  void Cancel() { qrt_session_cancel(get()); }
  // Any thread: of a request that ended before it was seen.
  void ForgetCancel() { qrt_session_forget_cancel(get()); }

  std::size_t TracedLayers() const { return qrt_session_traced_layers(get()); }
  // `index`: below TracedLayers().
  Result<qrt_layer_trace> Trace(std::size_t index) const {
    qrt_layer_trace trace = Sized<qrt_layer_trace>();
    Error error;
    if (qrt_session_trace(get(), index, &trace, error.out()) != QRT_OK) return error;
    return trace;
  }

  std::size_t Values() const { return qrt_session_values(get()); }
  // `index`: below Values(). `row`: NULL, or as long as the value is.
  Result<qrt_layer_value> Value(std::size_t index, float* row = nullptr) const {
    return internal::Info<qrt_layer_value>([&](qrt_layer_value* value, qrt_error* error) {
      return qrt_session_value(get(), index, value, row, error);
    });
  }

  std::uint64_t SaveSize() const { return qrt_session_save_size(get()); }
  // How many bytes were written.
  Result<std::size_t> Save(Span<unsigned char> buffer) const {
    std::size_t written = 0;
    Error error;
    if (qrt_session_save(get(), buffer.data(), buffer.size(), &written, error.out()) != QRT_OK) return error;
    return written;
  }
  Result<std::vector<unsigned char>> Save() const {
    return internal::Fill<std::vector<unsigned char>>(
        static_cast<std::size_t>(SaveSize()),
        [&](unsigned char* bytes, std::size_t room, std::size_t* count, qrt_error* error) {
          return qrt_session_save(get(), bytes, room, count, error);
        });
  }
  Outcome Restore(Span<const unsigned char> saved) {
    return internal::Call(
        [&](qrt_error* error) { return qrt_session_restore(get(), saved.data(), saved.size(), error); });
  }

 private:
  static qrt_append_options Choosing(Sampler& sampler, std::int32_t* next) {
    qrt_append_options options = Sized<qrt_append_options>();
    options.want = QRT_LOGITS_NONE;
    options.sampler = sampler.get();
    options.next = next;
    return options;
  }
};

class Text : public internal::Handle<qrt_text, qrt_text_release> {
 public:
  using Handle::Handle;
  using Tokens = std::vector<std::int32_t>;

  static Result<Text> Create(const Artifact& artifact) {
    return internal::Make<Text, qrt_text>(
        [&](qrt_text** out, qrt_error* error) { return qrt_text_create(artifact.get(), out, error); });
  }

  // `flags`: QRT_TOKENIZE_*, or 0.
  Result<Tokens> Tokenize(std::string_view utf8, std::uint32_t flags = 0) const {
    return internal::Fill<Tokens>(
        utf8.size(), [&](std::int32_t* tokens, std::size_t room, std::size_t* count, qrt_error* error) {
          return qrt_text_tokenize(get(), utf8.data(), utf8.size(), flags, tokens, room, count, error);
        });
  }
  // Borrowed from this object.
  std::string_view TokenBytes(std::int32_t token) const {
    std::size_t length = 0;
    const char* bytes = qrt_text_token_bytes(get(), token, &length);
    return {bytes, length};
  }
  Result<std::string> Detokenize(Span<const std::int32_t> tokens) const {
    return internal::Fill<std::string>(
        8 * tokens.size(), [&](char* bytes, std::size_t room, std::size_t* length, qrt_error* error) {
          return qrt_text_detokenize(get(), tokens.data(), tokens.size(), bytes, room, length, error);
        });
  }
  // Rising.
  Result<Tokens> EndTokens() const {
    return internal::Fill<Tokens>(
        16, [&](std::int32_t* tokens, std::size_t room, std::size_t* count, qrt_error* error) {
          return qrt_text_end_tokens(get(), tokens, room, count, error);
        });
  }
  bool IsEnd(std::int32_t token) const { return qrt_text_is_end(get(), token) != 0; }
  bool IsSpecial(std::int32_t token) const { return qrt_text_is_special(get(), token) != 0; }
  std::int32_t BeginToken() const { return qrt_text_begin_token(get()); }  // -1: none

  Result<Tokens> EncodeChat(Span<const qrt_chat_message> messages,
                            const qrt_chat_options* options = nullptr) const {
    return internal::Fill<Tokens>(
        512, [&](std::int32_t* tokens, std::size_t room, std::size_t* count, qrt_error* error) {
          return qrt_text_encode_chat(get(), messages.data(), messages.size(), options, tokens, room, count,
                                      error);
        });
  }
  // To look at; the model's prompt comes from EncodeChat.
  Result<std::string> RenderChat(Span<const qrt_chat_message> messages,
                                 const qrt_chat_options* options = nullptr) const {
    return internal::Fill<std::string>(
        2048, [&](char* bytes, std::size_t room, std::size_t* length, qrt_error* error) {
          return qrt_text_render_chat(get(), messages.data(), messages.size(), options, bytes, room, length,
                                      error);
        });
  }
};

// Prompts in, text out. Keeps session and text alive; between calls the session is read only.
class Generator : public internal::Handle<qrt_generator, qrt_generator_release> {
 public:
  using Handle::Handle;
  using Tokens = std::vector<std::int32_t>;

  static Result<Generator> Create(Session& session, const Text& text) {
    return internal::Make<Generator, qrt_generator>([&](qrt_generator** out, qrt_error* error) {
      return qrt_generator_create(session.get(), text.get(), out, error);
    });
  }

  // Options of an answer, which uses `sampler`.
  static qrt_answer_options Choosing(Sampler& sampler, std::uint64_t max_tokens = QRT_NO_LIMIT) {
    qrt_answer_options options = Sized<qrt_answer_options>();
    options.sampler = sampler.get();
    options.max_tokens = max_tokens;
    return options;
  }
  // The same, with `receive(std::string_view)` -> bool for the text as it comes; false: the answer ends.
  template <typename F>
  static qrt_answer_options Telling(F& receive, Sampler& sampler, std::uint64_t max_tokens = QRT_NO_LIMIT) {
    qrt_answer_options options = Choosing(sampler, max_tokens);
    options.ctx = const_cast<void*>(static_cast<const void*>(&receive));
    options.on_text = [](void* ctx, const char* utf8, std::size_t length) -> std::int32_t {
      return (*static_cast<F*>(ctx))(std::string_view(utf8, length)) ? 0 : 1;
    };
    return options;
  }

  // qrt_generate. The answer's text is borrowed from this object, until the next call.
  Result<qrt_answer> Generate(Span<const std::int32_t> prompt, const qrt_answer_options& options,
                              std::uint64_t keep = 0) {
    return internal::Info<qrt_answer>([&](qrt_answer* answer, qrt_error* error) {
      return qrt_generate(get(), prompt.data(), prompt.size(), keep, &options, answer, error);
    });
  }
  Result<qrt_answer> Chat(Span<const qrt_chat_message> messages, const qrt_answer_options& options,
                          const qrt_chat_options* chat = nullptr) {
    return internal::Info<qrt_answer>([&](qrt_answer* answer, qrt_error* error) {
      return qrt_generate_chat(get(), messages.data(), messages.size(), chat, &options, answer, error);
    });
  }
  Result<qrt_answer> More(const qrt_answer_options& options) {
    return internal::Info<qrt_answer>([&](qrt_answer* answer, qrt_error* error) {
      return qrt_generate_more(get(), &options, answer, error);
    });
  }
  Result<qrt_answer> Feed(Span<const std::int32_t> prompt, std::uint64_t keep = 0,
                          const qrt_answer_options* options = nullptr) {
    return internal::Info<qrt_answer>([&](qrt_answer* answer, qrt_error* error) {
      return qrt_generator_feed(get(), prompt.data(), prompt.size(), keep, options, answer, error);
    });
  }
  // The prompt that Chat would answer; *keep (may be null): as Generate takes it.
  Result<Tokens> EncodeChat(Span<const qrt_chat_message> messages, const qrt_chat_options* chat = nullptr,
                            std::uint64_t* keep = nullptr) {
    return internal::Fill<Tokens>(
        512, [&](std::int32_t* tokens, std::size_t room, std::size_t* count, qrt_error* error) {
          return qrt_generator_encode_chat(get(), messages.data(), messages.size(), chat, tokens, room, count,
                                           keep, error);
        });
  }
  std::size_t Reusable(Span<const std::int32_t> prompt) const {
    return qrt_generator_reusable(get(), prompt.data(), prompt.size());
  }
  // All tokens; *next (may be null): chosen to follow, or -1.
  Result<Tokens> AllTokens(std::int32_t* next = nullptr) const {
    return internal::Fill<Tokens>(
        512, [&](std::int32_t* tokens, std::size_t room, std::size_t* count, qrt_error* error) {
          return qrt_generator_tokens(get(), tokens, room, count, next, error);
        });
  }
  // The session was restored: qrt_generator_resume.
  Outcome Resume(Span<const std::int32_t> tokens, std::int32_t next = -1,
                 Span<const qrt_chat_message> messages = {}, const qrt_chat_options* chat = nullptr) {
    return internal::Call([&](qrt_error* error) {
      return qrt_generator_resume(get(), tokens.data(), tokens.size(), next, messages.data(), messages.size(),
                                  chat, error);
    });
  }
};

}  // namespace cpp1
}  // namespace qrt

#endif  // QRT_QRT_HPP_
