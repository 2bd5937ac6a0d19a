// qrt_generator_* and qrt_generate*.
#include "runtime/engine/generator.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/at_end.h"
#include "runtime/capi/handles.h"
#include "runtime/capi/text.h"
#include "runtime/text/conversation.h"

using qrt::Status;
using qrt::capi::Guard;
using qrt::capi::NullArgument;
using qrt::capi::Ref;

struct qrt_generator {
  qrt_generator(const qrt::capi::Services& services, qrt_session* session, qrt_text* text)
      : services(services),
        session(session),
        text(text),
        conversation(text->tokenizer),
        generator(session->session, text->tokenizer, this->services.allocator_or_null()) {}
  std::atomic<uint32_t> refs{1};
  const qrt::capi::Services services;
  const qrt::capi::Ref<qrt_session> session;
  const qrt::capi::Ref<qrt_text> text;
  qrt::text::Conversation conversation;
  std::vector<int32_t> asked;  // the conversation's last prompt; empty: none
  qrt::Generator generator;
  qrt::Answer answer;  // the last one
};

namespace qrt::capi {
namespace {

Status Create(qrt_session* session, qrt_text* text, qrt_generator** out) {
  if (session == nullptr) return NullArgument("session");
  if (text == nullptr) return NullArgument("text");
  if (out == nullptr) return NullArgument("out");
  const uint32_t vocabulary = session->engine->engine->plan().vocab_size;
  if (text->tokenizer.size() > vocabulary) {
    return Status(Code::kInvalidArgument, 5355,
                  "the text's vocabulary has " + std::to_string(text->tokenizer.size()) +
                      " tokens, the session's model " + std::to_string(vocabulary),
                  "", "make both from the same artifact");
  }
  Owned<qrt_generator> handle(NewHandle<qrt_generator>(session->services, session, text));
  *out = handle.release();
  return Status();
}

Status ReadRequest(const qrt_generator& generator, const qrt_answer_options* options, bool answers,
                   AnswerRequest* out) {
  qrt_answer_options read = {};
  QRT_RETURN_IF_ERROR(ReadOptions(options, sizeof read, "options", &read));
  if (answers && read.sampler == nullptr) return NullArgument("options->sampler");
  if (read.stop_texts == nullptr && read.stop_text_count != 0) return NullArgument("options->stop_texts");
  if (read.stop_tokens == nullptr && read.stop_token_count != 0) return NullArgument("options->stop_tokens");
  if (read.sampler != nullptr) out->sampler = &read.sampler->sampler;
  Endings& endings = out->endings;
  endings.most_tokens = read.max_tokens;
  for (size_t i = 0; i < read.stop_text_count; ++i) {
    if (read.stop_texts[i] == nullptr) return NullArgument("options->stop_texts[]");
    endings.texts.emplace_back(read.stop_texts[i]);
  }
  const uint32_t vocabulary = generator.session->engine->engine->plan().vocab_size;
  for (size_t i = 0; i < read.stop_token_count; ++i) {
    if (static_cast<uint32_t>(read.stop_tokens[i]) >= vocabulary) {
      return Status(Code::kInvalidArgument, 5304,
                    "stop token " + std::to_string(read.stop_tokens[i]) + " is outside the vocabulary of " +
                        std::to_string(vocabulary));
    }
    endings.tokens.push_back(read.stop_tokens[i]);
  }
  endings.ignore_end = read.ignore_end != 0;
  out->listener = {read.on_text, read.on_prompt, read.stop, read.ctx};
  return Status();
}

// `out`: null, or one that CheckInfo takes.
void WriteAnswer(const Answer& answer, qrt_answer* out) {
  if (out == nullptr) return;
  qrt_answer written = {};
  written.finish = static_cast<qrt_finish>(answer.finish);
  written.text = answer.text.c_str();
  written.text_length = answer.text.size();
  written.cut_bytes = answer.cut;
  written.reused_tokens = answer.reused_tokens;
  written.prompt_tokens = answer.prompt_tokens;
  written.tokens = answer.tokens;
  written.steps = answer.steps;
  written.decoded_tokens = answer.decoded;
  written.guessed_tokens = answer.guessed;
  written.accepted_tokens = answer.accepted;
  written.reuse_seconds = answer.reuse_seconds;
  written.prompt_seconds = answer.prompt_seconds;
  written.decode_seconds = answer.decode_seconds;
  static_cast<void>(WriteInfo(written, sizeof written, "answer", out));
}

// Checks what every answer takes, lets `call(request)` make it in generator->answer, and hands it out, whole
// or as far as it came.
template <typename Call>
Status Answering(qrt_generator* generator, const qrt_answer_options* options, bool answers, qrt_answer* out,
                 Call call) {
  if (generator == nullptr) return NullArgument("generator");
  if (out != nullptr) QRT_RETURN_IF_ERROR(CheckInfo(sizeof *out, "answer", out));
  generator->answer = Answer();
  const AtEnd write([&] { WriteAnswer(generator->answer, out); });
  AnswerRequest request;
  if (options != nullptr || answers) {
    QRT_RETURN_IF_ERROR(ReadRequest(*generator, options, answers, &request));
  }
  return call(request);
}

// All tokens up to the end of the answer; none: there is none.
std::vector<int32_t> AnsweredTokens(const qrt_generator& generator, const Endings& endings) {
  if (generator.answer.tokens == 0) return {};
  std::vector<int32_t> sequence = generator.generator.Tokens();
  if (endings.EndsAt(generator.text->tokenizer, sequence.back())) sequence.pop_back();
  return sequence;
}

// The conversation's next prompt begins with this answer, if it is one to its last prompt.
void Remember(qrt_generator& generator, std::span<const int32_t> prompt, const Endings& endings) {
  const bool asked = !generator.asked.empty() &&
                     std::equal(prompt.begin(), prompt.end(), generator.asked.begin(), generator.asked.end());
  if (!asked) {
    generator.conversation.Clear();
    generator.asked.clear();
    return;
  }
  generator.conversation.Answered(generator.answer.text, AnsweredTokens(generator, endings));
}

Status Generate(qrt_generator* generator, std::span<const int32_t> prompt, uint64_t keep,
                const AnswerRequest& request) {
  // Where it fails there is no answer, and the conversation goes on from the one before.
  QRT_RETURN_IF_ERROR(generator->generator.Run(prompt, keep, request, &generator->answer));
  Remember(*generator, prompt, request.endings);
  return Status();
}

Status MakePrompt(qrt_generator* generator, const qrt_chat_message* messages, size_t count,
                  const qrt_chat_options* options, text::Prompt* prompt) {
  text::Chat chat;
  QRT_RETURN_IF_ERROR(ReadChat(*generator->text.get(), messages, count, options, &chat));
  QRT_RETURN_IF_ERROR(generator->conversation.Make(chat, prompt));
  generator->asked.clear();  // if there is no memory for it, this one is not asked either
  generator->asked = prompt->tokens;
  return Status();
}

}  // namespace
}  // namespace qrt::capi

extern "C" {

qrt_status qrt_generator_create(qrt_session* session, qrt_text* text, qrt_generator** out, qrt_error* error) {
  return Guard(error, [&] { return qrt::capi::Create(session, text, out); });
}

void qrt_generator_release(qrt_generator* generator) {
  Ref<qrt_generator>::Drop(generator);
}

qrt_status qrt_generate(qrt_generator* generator, const int32_t* tokens, size_t count, uint64_t keep,
                        const qrt_answer_options* options, qrt_answer* answer, qrt_error* error) {
  return Guard(error, [&] {
    if (tokens == nullptr && count != 0) return NullArgument("tokens");
    return qrt::capi::Answering(generator, options, true, answer, [&](const qrt::AnswerRequest& request) {
      return qrt::capi::Generate(generator, {tokens, count}, keep, request);
    });
  });
}

qrt_status qrt_generate_chat(qrt_generator* generator, const qrt_chat_message* messages, size_t count,
                             const qrt_chat_options* chat, const qrt_answer_options* options,
                             qrt_answer* answer, qrt_error* error) {
  return Guard(error, [&] {
    return qrt::capi::Answering(
        generator, options, true, answer, [&](const qrt::AnswerRequest& request) -> Status {
          qrt::text::Prompt prompt;
          QRT_RETURN_IF_ERROR(qrt::capi::MakePrompt(generator, messages, count, chat, &prompt));
          return qrt::capi::Generate(generator, prompt.tokens, prompt.keep, request);
        });
  });
}

qrt_status qrt_generate_more(qrt_generator* generator, const qrt_answer_options* options, qrt_answer* answer,
                             qrt_error* error) {
  return Guard(error, [&] {
    return qrt::capi::Answering(generator, options, true, answer, [&](const qrt::AnswerRequest& request) {
      qrt::Answer& answer = generator->answer;
      QRT_RETURN_IF_ERROR(generator->generator.Continue(request, &answer));
      if (answer.tokens == 0) return Status();
      generator->conversation.WentOn(answer.text, qrt::capi::AnsweredTokens(*generator, request.endings));
      return Status();
    });
  });
}

qrt_status qrt_generator_feed(qrt_generator* generator, const int32_t* tokens, size_t count, uint64_t keep,
                              const qrt_answer_options* options, qrt_answer* answer, qrt_error* error) {
  return Guard(error, [&] {
    if (tokens == nullptr && count != 0) return NullArgument("tokens");
    return qrt::capi::Answering(generator, options, false, answer, [&](const qrt::AnswerRequest& request) {
      return generator->generator.Feed({tokens, count}, keep, request, &generator->answer);
    });
  });
}

qrt_status qrt_generator_encode_chat(qrt_generator* generator, const qrt_chat_message* messages, size_t count,
                                     const qrt_chat_options* chat, int32_t* tokens, size_t capacity,
                                     size_t* needed, uint64_t* keep, qrt_error* error) {
  return Guard(error, [&]() -> Status {
    if (generator == nullptr) return NullArgument("generator");
    QRT_RETURN_IF_ERROR(qrt::capi::CheckArray(tokens, capacity));
    qrt::text::Prompt prompt;
    QRT_RETURN_IF_ERROR(qrt::capi::MakePrompt(generator, messages, count, chat, &prompt));
    QRT_RETURN_IF_ERROR(
        qrt::capi::FillArray(prompt.tokens.data(), prompt.tokens.size(), tokens, capacity, needed));
    if (keep != nullptr) *keep = prompt.keep;
    return Status();
  });
}

size_t qrt_generator_reusable(const qrt_generator* generator, const int32_t* tokens, size_t count) {
  if (generator == nullptr || tokens == nullptr) return 0;
  return generator->generator.Reusable({tokens, count});
}

qrt_status qrt_generator_tokens(const qrt_generator* generator, int32_t* tokens, size_t capacity,
                                size_t* needed, int32_t* next, qrt_error* error) {
  return Guard(error, [&]() -> Status {
    if (generator == nullptr) return NullArgument("generator");
    QRT_RETURN_IF_ERROR(qrt::capi::CheckArray(tokens, capacity));
    const std::vector<int32_t> all = generator->generator.Tokens();
    QRT_RETURN_IF_ERROR(qrt::capi::FillArray(all.data(), all.size(), tokens, capacity, needed));
    if (next != nullptr) *next = generator->generator.next().value_or(-1);
    return Status();
  });
}

qrt_status qrt_generator_resume(qrt_generator* generator, const int32_t* tokens, size_t count, int32_t next,
                                const qrt_chat_message* messages, size_t message_count,
                                const qrt_chat_options* chat, qrt_error* error) {
  return Guard(error, [&]() -> Status {
    if (generator == nullptr) return NullArgument("generator");
    if (tokens == nullptr && count != 0) return NullArgument("tokens");
    const std::optional<int32_t> chosen = next < 0 ? std::nullopt : std::optional(next);
    const qrt::text::Tokenizer& tokenizer = generator->text->tokenizer;
    qrt::text::Conversation conversation(tokenizer);
    if (message_count != 0) {
      qrt::text::Chat read;
      QRT_RETURN_IF_ERROR(qrt::capi::ReadChat(*generator->text.get(), messages, message_count, chat, &read));
      QRT_RETURN_IF_ERROR(conversation.Load(read, {tokens, tokens + count}));
    }
    QRT_RETURN_IF_ERROR(generator->generator.Resume({tokens, count}, chosen));
    const std::vector<int32_t>& asked = generator->asked;
    const bool begins_prompt = message_count == 0 && count != 0 && count <= asked.size() &&
                               std::equal(tokens, tokens + count, asked.begin());
    if (begins_prompt) return Status();  // which may be answered next
    generator->asked.clear();
    generator->conversation = std::move(conversation);
    return Status();
  });
}

}  // extern "C"
