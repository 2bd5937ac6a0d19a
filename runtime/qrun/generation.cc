#include "runtime/qrun/generation.h"

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <iterator>
#include <string_view>
#include <utility>

#include "runtime/qrun/escape.h"
#include "runtime/qrun/layer_trace.h"
#include "runtime/qrun/process.h"
#include "runtime/qrun/stage_times.h"

namespace qrun {
namespace {

constexpr const char* kDraftWords[] = {"off", "mtp", "lookup"};  // else --draft names a file
constexpr char kNothingDrafts[] = "--draft-len is given, but nothing drafts";

double PerSecond(size_t count, double seconds) {
  return seconds > 0 ? static_cast<double>(count) / seconds : 0;
}

}  // namespace

void SamplingFlags::AddTo(Options& options) {
  options.Number("--temp", "X", 0, 100, &temperature, "temperature; 0 takes the likeliest token");
  options.Integer("--top-k", "N", 0, 1 << 30, &top_k, "sample from the N likeliest; 0: off");
  options.Number("--top-p", "X", 0, 1, &top_p, "sample from the likeliest that reach probability X; 1: off");
  options.Number("--min-p", "X", 0, 1, &min_p, "leave out what is below X times the likeliest; 0: off");
  options.Number("--repeat-penalty", "X", 0.01, 100, &repeat_penalty, "weaken tokens that occurred; 1: off");
  options.Number("--presence-penalty", "X", -100, 100, &presence_penalty,
                 "subtract from logits of tokens that occurred; 0: off");
  options.Number("--frequency-penalty", "X", -100, 100, &frequency_penalty,
                 "subtract from logits of tokens as often as they occurred; 0: off");
  options.Integer("-s, --seed", "N", 0, INT64_MAX, &seed,
                  "the same seed gives the same text; default: random");
  options.Flag("--greedy", &greedy, "the same as --temp 0");
}

Outcome SamplingFlags::Check() const {
  if (!greedy || temperature.value_or(0) == 0) return Outcome();
  return Outcome::Fail(kExitUsage, 101, "--greedy and --temp contradict each other");
}

Outcome SamplingFlags::MakeSampler(const Model& model, const Verbosity& said, SamplerPtr* out,
                                   uint64_t* seed_used) const {
  qrt_sampler_options options = {};
  options.struct_size = sizeof options;
  QRUN_CALL(qrt_sampler_defaults(model.artifact.get(), &options, &error));
  if (temperature) options.temperature = static_cast<float>(*temperature);
  if (greedy) options.temperature = 0;
  if (top_k) options.top_k = static_cast<int32_t>(*top_k);
  if (top_p) options.top_p = static_cast<float>(*top_p);
  if (min_p) options.min_p = static_cast<float>(*min_p);
  if (repeat_penalty) options.repeat_penalty = static_cast<float>(*repeat_penalty);
  if (presence_penalty) options.presence_penalty = static_cast<float>(*presence_penalty);
  if (frequency_penalty) options.frequency_penalty = static_cast<float>(*frequency_penalty);
  if (seed) {
    options.seed = static_cast<uint64_t>(*seed);
  } else if (getrandom(&options.seed, sizeof options.seed, 0) != sizeof options.seed) {
    return Outcome::Fail(kExitInternal, 9001, "the system gives no random bytes", "", "choose a --seed");
  }
  if (options.temperature == 0) {
    const std::pair<const char*, bool> unused[] = {{"--top-k", top_k.has_value()},
                                                   {"--top-p", top_p.has_value()},
                                                   {"--min-p", min_p.has_value()},
                                                   {"--seed", seed.has_value()}};
    for (const auto& [name, given] : unused) {
      if (given) said.Warn(std::string(name) + " has no effect: temperature 0 takes the likeliest token");
    }
  }
  options.seed &= INT64_MAX;  // so that what is reported can be given back as --seed
  *seed_used = options.seed;
  qrt_sampler* sampler = nullptr;
  QRUN_CALL(qrt_sampler_create(model.artifact.get(), &options, &sampler, &error));
  out->reset(sampler);
  return Outcome();
}

void Endings::AddTo(Options& options) {
  options.Texts("--stop", "TEXT", &texts,
                "end the answer where TEXT comes, which is not written; several: each");
  options.Integers("--stop-id", "N", 0, INT32_MAX, &ids, "end the answer at token N, too; several: each");
  options.Flag("--ignore-eos", &ignore_end, "go on behind tokens that end a turn or the text");
}

Outcome Endings::Check() const {
  if (std::find(texts.begin(), texts.end(), "") == texts.end()) return Outcome();
  return Outcome::Fail(kExitUsage, 101, "--stop is \"\", expected a text");
}

Outcome Endings::CheckIds(const Model& model) const {
  for (const int64_t id : ids) {
    if (id < model.info.vocab_size) continue;
    return Outcome::Fail(kExitUsage, 101,
                         "--stop-id is " + std::to_string(id) + ", expected an id of the vocabulary, 0 to " +
                             std::to_string(model.info.vocab_size - 1),
                         "", "qrun tokenize MODEL.qbin -p TEXT --special shows ids");
  }
  return Outcome();
}

bool Endings::EndsAt(const qrt_text* text, int32_t token) const {
  return std::find(ids.begin(), ids.end(), token) != ids.end() ||
         (!ignore_end && qrt_text_is_end(text, token) != 0);
}

void Endings::TakeEndOff(const qrt_text* text, uint64_t held, std::vector<int32_t>* tokens) const {
  if (tokens->size() > held && EndsAt(text, tokens->back())) tokens->pop_back();
}

void DraftFlags::AddTo(Options& options, const std::string& usual) {
  options.Name(
      "--draft", "off|mtp|lookup|FILE", &draft,
      "who guesses tokens that the model then checks, for the same text in fewer steps: its NextN block, "
      "what the text said before, or an artifact: of qcc compile --draft, or of a smaller model with the "
      "same tokenizer; default: " +
          usual,
      {std::begin(kDraftWords), std::end(kDraftWords)}, true);
  options.IntegerOr(
      "auto", QRT_DRAFT_TOKENS_AUTO, "--draft-len", "N|auto", 1, 15, &length,
      "tokens to guess at once; auto: as many as make the text come fastest, none where guesses "
      "do not pay; default: auto");
  options.IntegerOr("auto", QRT_TOKENS_AHEAD_AUTO, "--tokens-ahead", "N|auto", 1, 16, &ahead,
                    "on a GPU, without a draft and penalties: tokens that it decodes before the host looks "
                    "at them, so that "
                    "it does not wait in between; auto: as many as take 20 ms, up to 8; default: auto");
}

std::string DraftFlags::File() const {
  const auto* const end = std::end(kDraftWords);
  return !draft || std::find(std::begin(kDraftWords), end, *draft) != end ? "" : *draft;
}

Outcome DraftFlags::Check() const {
  if (!length || draft != "off") return Outcome();
  return Outcome::Fail(kExitUsage, 101, kNothingDrafts, "--draft off", "leave one of them out");
}

Outcome DraftFlags::Choose(const Model& model, Drafting* out) const {
  qrt_engine_info info = {};
  QRUN_RETURN_IF_ERROR(DescribeEngine(model, &info));
  *out = {info.drafts != 0 ? QRT_DRAFT_MODEL : QRT_DRAFT_NONE,
          static_cast<uint32_t>(length.value_or(QRT_DRAFT_TOKENS_AUTO)), Ahead()};
  if (draft == "off") out->draft = QRT_DRAFT_NONE;
  if (draft == "lookup") out->draft = QRT_DRAFT_LOOKUP;
  if (draft == "mtp") out->draft = QRT_DRAFT_MODEL;
  if (length && out->draft == QRT_DRAFT_NONE) {
    return Outcome::Fail(kExitUsage, 101, kNothingDrafts, "",
                         "give --draft lookup, or an artifact with a draft (qcc compile of a model with a "
                         "NextN block, or --mtp)");
  }
  return WarnOfAhead(model);
}

Outcome DraftFlags::WarnOfAhead(const Model& model) const {
  if (ahead.value_or(QRT_TOKENS_AHEAD_AUTO) == QRT_TOKENS_AHEAD_AUTO) return Outcome();
  qrt_engine_info info = {};
  QRUN_RETURN_IF_ERROR(DescribeEngine(model, &info));
  const std::string device = info.device;  // of a model in parts all of them
  const bool gpu = device.find("vulkan") != std::string::npos || device.find("cuda") != std::string::npos;
  if (!gpu) model.said.Warn("--tokens-ahead has no effect: the model runs on device " + device);
  return Outcome();
}

const char* Name(Finish finish) {
  return finish == Finish::kStop ? "stop" : finish == Finish::kLength ? "length" : "interrupted";
}

// Whom the library tells of an answer.
struct Generator::Telling {
  explicit Telling(const Generator& generator) : generator(generator) {}

  const Generator& generator;
  // A model must not steer the terminal that it is shown on; what goes into a file or a pipe stays as it is.
  const bool shown = isatty(STDOUT_FILENO) != 0;
  Outcome written;
  qrt_engine_info before = {};  // the answer

  Outcome OnPrompt() {
    if (generator.trace_layers_) QRUN_RETURN_IF_ERROR(PrintLayers(generator.session()));
    return DescribeEngine(generator.model_, &before);
  }
  void OnText(std::string_view text) { written = WriteStdout(shown ? ForTerminal(text) : text); }
  // Nobody reads on, and the user does not wait: an answer that is interrupted as every other.
  bool TakeInterrupt() {
    if (written.exit_code() != kExitInterrupted) return false;
    Interrupts::Take();
    written = Outcome();
    return true;
  }
};

Outcome Generator::Open() {
  qrt_generator* generator = nullptr;
  QRUN_CALL(qrt_generator_create(session_.get(), model_.text.get(), &generator, &error));
  generator_.reset(generator);
  return Outcome();
}

Outcome Generator::TraceLayers() {
  QRUN_RETURN_IF_ERROR(CheckTraceable(session_.get()));
  trace_layers_ = true;
  return Outcome();
}

Outcome Generator::MakePrompt(const std::vector<Turn>& turns, const TemplateFlags& flags, Prompt* out) {
  const Messages messages(turns);
  const qrt_chat_options options = flags.Options();
  return EncodeChat(
      [&](int32_t* tokens, size_t capacity, size_t* count, qrt_error* error) {
        return qrt_generator_encode_chat(generator_.get(), messages.data(), messages.size(), &options, tokens,
                                         capacity, count, &out->keep, error);
      },
      &out->tokens);
}

template <typename Call>
Outcome Generator::Make(Call call, Answer* answer) {
  std::vector<const char*> stops;
  stops.reserve(endings_.texts.size());
  for (const std::string& text : endings_.texts) stops.push_back(text.c_str());
  const std::vector<int32_t> ids(endings_.ids.begin(), endings_.ids.end());
  Telling telling(*this);
  qrt_answer_options options = {};
  options.struct_size = sizeof options;
  options.sampler = sampler_.get();
  options.max_tokens = endings_.most_tokens < 0 ? QRT_NO_LIMIT : static_cast<uint64_t>(endings_.most_tokens);
  options.stop_texts = stops.data();
  options.stop_text_count = stops.size();
  options.stop_tokens = ids.data();
  options.stop_token_count = ids.size();
  options.ignore_end = endings_.ignore_end;
  options.on_text = [](void* ctx, const char* utf8, size_t length) -> int32_t {
    Telling& to = *static_cast<Telling*>(ctx);
    if (to.written.ok()) to.OnText({utf8, length});
    return to.written.ok() ? 0 : 1;
  };
  options.on_prompt = [](void* ctx) -> int32_t {
    Telling& to = *static_cast<Telling*>(ctx);
    to.written = to.OnPrompt();
    return to.written.ok() ? 0 : 1;
  };
  options.stop = [](void*) -> int32_t { return Interrupts::Take(); };
  options.ctx = &telling;
  qrt_answer made = {};
  made.struct_size = sizeof made;
  qrt_error error = NewError();
  Interrupts::Watch(session_.get());
  const qrt_status status = call(options, &made, &error);
  Interrupts::Watch(nullptr);
  const bool unread = telling.TakeInterrupt();
  if (made.text != nullptr) answer->text.assign(made.text, made.text_length);
  const bool cancelled = made.finish == QRT_FINISH_CANCELLED && telling.written.ok();
  answer->finish = cancelled || unread                ? Finish::kInterrupted
                   : made.finish == QRT_FINISH_LENGTH ? Finish::kLength
                                                      : Finish::kStop;
  if (answer->prompt_tokens == 0) answer->reused_tokens = made.reused_tokens;  // of several calls the first's
  answer->prompt_tokens += made.prompt_tokens;
  answer->tokens = made.tokens;
  answer->steps = made.steps;
  answer->decoded = made.decoded_tokens;
  answer->drafted = made.guessed_tokens;
  answer->accepted = made.accepted_tokens;
  answer->reuse_seconds += made.reuse_seconds;
  answer->prompt_seconds += made.prompt_seconds;
  answer->decode_seconds = made.decode_seconds;
  if (status != QRT_OK) return Outcome::Of(error);
  if (made.tokens == 0) return std::move(telling.written);
  qrt_engine_info after = {};
  QRUN_RETURN_IF_ERROR(DescribeEngine(model_, &after));
  answer->submissions = after.submissions - telling.before.submissions;
  answer->bytes_to_host = after.bytes_to_host - telling.before.bytes_to_host;
  answer->transfers = after.transfers - telling.before.transfers;
  return std::move(telling.written);
}

Outcome Generator::FeedCached(const Prompt& prompt, Answer* answer) {
  const std::vector<int32_t>& tokens = prompt.tokens;
  // Refused as a whole when it is to be answered, not after most of it was read.
  if (tokens.size() > qrt_session_capacity(session_.get())) return Outcome();
  const double begin = Seconds();
  size_t kept = 0;
  const size_t has = qrt_generator_reusable(generator_.get(), tokens.data(), tokens.size());
  QRUN_RETURN_IF_ERROR(cache_->Restore(session_.get(), tokens, has, &kept));
  if (kept != 0) {
    QRUN_CALL(qrt_generator_resume(generator_.get(), tokens.data(), kept, -1, nullptr, 0, nullptr, &error));
  }
  answer->reuse_seconds = Seconds() - begin;
  // Where the next process may go on from.
  const size_t end = (tokens.size() - 1) / PromptCache::kBlock * PromptCache::kBlock;
  size_t fed = std::max(kept, has);
  for (const size_t stop : {cache_->shared(), end}) {
    if (stop <= fed) continue;
    QRUN_RETURN_IF_ERROR(Make(
        [&](const qrt_answer_options& options, qrt_answer* made, qrt_error* error) {
          return qrt_generator_feed(generator_.get(), tokens.data(), stop, prompt.keep, &options, made,
                                    error);
        },
        answer));
    if (answer->finish == Finish::kInterrupted) return Outcome();
    fed = stop;
    QRUN_RETURN_IF_ERROR(cache_->Add(session_.get(), {tokens.data(), stop}));
  }
  return Outcome();
}

Outcome Generator::Run(const Prompt& prompt, Answer* answer) {
  *answer = Answer();
  if (prompt.tokens.empty()) {
    return Outcome::Fail(kExitInput, 8002, "the prompt is empty: the chat template makes nothing of it", "",
                         "use --raw, or a model with another template");
  }
  if (cache_ != nullptr) QRUN_RETURN_IF_ERROR(FeedCached(prompt, answer));
  Outcome outcome;
  if (answer->finish != Finish::kInterrupted) {
    outcome = Make(
        [&](const qrt_answer_options& options, qrt_answer* made, qrt_error* error) {
          return qrt_generate(generator_.get(), prompt.tokens.data(), prompt.tokens.size(), prompt.keep,
                              &options, made, error);
        },
        answer);
  }
  if (cache_ != nullptr) cache_->WritePending();  // nobody waits for it any more
  return outcome;
}

Outcome Generator::Continue(Answer* answer) {
  *answer = Answer();
  return Make([&](const qrt_answer_options& options, qrt_answer* made,
                  qrt_error* error) { return qrt_generate_more(generator_.get(), &options, made, error); },
              answer);
}

std::vector<int32_t> Generator::Tokens(std::optional<int32_t>* next) const {
  size_t count = 0;
  int32_t chosen = -1;
  qrt_generator_tokens(generator_.get(), nullptr, 0, &count, nullptr, nullptr);
  std::vector<int32_t> tokens(count);
  qrt_generator_tokens(generator_.get(), tokens.data(), tokens.size(), &count, &chosen, nullptr);
  if (chosen >= 0) *next = chosen;
  return tokens;
}

Outcome Generator::Save(SavedSession* out) const {
  out->next.reset();
  out->tokens = Tokens(&out->next);
  out->held = qrt_session_position(session_.get());
  out->snapshot.resize(qrt_session_save_size(session_.get()));
  QRUN_CALL(qrt_session_save(session_.get(), out->snapshot.data(), out->snapshot.size(), nullptr, &error));
  return Outcome();
}

Outcome Generator::Load(const SavedSession& saved, const TemplateFlags* flags) {
  QRUN_CALL(qrt_session_restore(session_.get(), saved.snapshot.data(), saved.snapshot.size(), &error));
  qrt_error error = NewError();
  qrt_status status = QRT_INVALID_ARGUMENT;
  if (qrt_session_position(session_.get()) == saved.held) {
    const Messages messages(flags != nullptr ? saved.turns : std::vector<Turn>());
    const qrt_chat_options options = flags != nullptr ? flags->Options() : TemplateFlags().Options();
    status =
        qrt_generator_resume(generator_.get(), saved.tokens.data(), saved.tokens.size(),
                             saved.next.value_or(-1), messages.data(), messages.size(), &options, &error);
  }
  if (status == QRT_OK) return Outcome();
  if (status == QRT_CANCELLED) return Outcome::Silent(kExitInterrupted);
  if (status != QRT_INVALID_ARGUMENT) return Outcome::Of(error);
  QRUN_CALL(qrt_session_reset(session_.get(), &error));
  if (error.code == kToolsRefused) return Outcome::Of(error);
  return Outcome::Fail(kExitInput, 8004, "the saved session's tokens do not agree with its snapshot");
}

std::vector<int32_t> Generator::Sequence() const {
  std::optional<int32_t> next;
  std::vector<int32_t> tokens = Tokens(&next);
  endings_.TakeEndOff(model_.text.get(), qrt_session_position(session_.get()), &tokens);
  return tokens;
}

Outcome PrintTiming(const Model& model, const qrt_session* session, const Answer& answer, uint64_t seed,
                    bool json, bool stages) {
  qrt_engine_info info = {};
  QRUN_RETURN_IF_ERROR(DescribeEngine(model, &info));
  std::vector<TimedProgram> programs;
  if (stages) {
    QRUN_RETURN_IF_ERROR(ReadStageTimes(model, &programs));
    QRUN_CALL(qrt_engine_time_stages(model.engine.get(), &error));
  }
  const double prompt_rate = PerSecond(answer.prompt_tokens, answer.prompt_seconds);
  const double decode_rate = PerSecond(answer.decoded, answer.decode_seconds);
  const double per_step =
      answer.steps == 0 ? 0 : static_cast<double>(answer.decoded) / static_cast<double>(answer.steps);
  if (json) {
    std::fprintf(
        stderr,
        "{\"load_seconds\": %.6f, \"prompt_tokens\": %zu, \"reused_tokens\": %zu, \"reuse_seconds\": %.6f, "
        "\"prompt_seconds\": %.6f, "
        "\"prompt_tokens_per_second\": %.3f, \"generated_tokens\": %zu, \"decode_seconds\": %.6f, "
        "\"decode_tokens_per_second\": %.3f, \"reason\": \"%s\", \"position\": %" PRIu64
        ", \"context\": %" PRIu64 ", \"seed\": %" PRIu64
        ", \"cpu\": %s, \"threads\": %u, \"mean_threads\": %.3f, \"device\": %s, \"device_weight_bytes\": "
        "%" PRIu64 ", \"decode_submissions\": %" PRIu64 ", \"decode_bytes_to_host\": %" PRIu64
        ", \"decode_transfers\": %" PRIu64 ", \"decode_steps\": %zu, \"drafted_tokens\": %" PRIu64
        ", \"accepted_tokens\": %" PRIu64 ", \"tokens_per_step\": %.3f, \"peak_rss_bytes\": %" PRIu64 "%s}\n",
        model.load_seconds, answer.prompt_tokens, answer.reused_tokens, answer.reuse_seconds,
        answer.prompt_seconds, prompt_rate, answer.tokens, answer.decode_seconds, decode_rate,
        Name(answer.finish), qrt_session_position(session), qrt_session_capacity(session), seed,
        Quoted(info.cpu).c_str(), info.threads, MeanThreads(info), Quoted(info.device).c_str(),
        info.device_weight_bytes, answer.submissions, answer.bytes_to_host, answer.transfers, answer.steps,
        answer.drafted, answer.accepted, per_step, PeakRssBytes(),
        stages ? (", \"programs\": " + StageJson(programs)).c_str() : "");
    return Outcome();
  }
  const std::string transfers =
      info.parts > 1 ? "; " + std::to_string(answer.transfers) + " transfers between devices" : "";
  char drafts[160] = "";
  if (answer.drafted != 0) {
    std::snprintf(drafts, sizeof drafts,
                  "; drafted %" PRIu64 ", accepted %" PRIu64 ", %zu steps, %.2f tokens per step",
                  answer.drafted, answer.accepted, answer.steps, per_step);
  }
  std::fprintf(stderr,
               "qrun: load %.3f s; prompt %zu tokens (%zu reused in %.3f s), %.1f/s; answer %zu tokens, "
               "%.1f/s%s; %s; %" PRIu64 " of %" PRIu64 " tokens of context; %s, %s, %s; %" PRIu64
               " bytes read back%s; peak %.1f MiB; seed %" PRIu64 "\n",
               model.load_seconds, answer.prompt_tokens, answer.reused_tokens, answer.reuse_seconds,
               prompt_rate, answer.tokens, decode_rate, drafts, Name(answer.finish),
               qrt_session_position(session), qrt_session_capacity(session), OneLine(info.device).c_str(),
               OneLine(info.cpu).c_str(), ThreadsText(info).c_str(), answer.bytes_to_host, transfers.c_str(),
               static_cast<double>(PeakRssBytes()) / 1048576.0, seed);
  if (stages) std::fputs(StageTables(programs).c_str(), stderr);
  return Outcome();
}

}  // namespace qrun
