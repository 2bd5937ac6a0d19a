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
#include "runtime/qrun/stop_text.h"
#include "runtime/qrun/utf8_stream.h"

namespace qrun {
namespace {

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

Outcome SamplingFlags::MakeSampler(const Model& model, const Verbosity& said, SamplerPtr* out,
                                   uint64_t* seed_used) const {
  if (greedy && temperature.value_or(0) != 0) {
    return Outcome::Fail(kExitUsage, 101, "--greedy and --temp contradict each other");
  }
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

Outcome Endings::Check(const Model& model) const {
  for (const int64_t id : ids) {
    if (id < model.info.vocab_size) continue;
    return Outcome::Fail(kExitUsage, 101,
                         "--stop-id is " + std::to_string(id) + ", expected an id of the vocabulary, 0 to " +
                             std::to_string(model.info.vocab_size - 1),
                         "", "qrun tokenize MODEL.qbin -p TEXT --special shows ids");
  }
  if (std::find(texts.begin(), texts.end(), "") != texts.end()) {
    return Outcome::Fail(kExitUsage, 101, "--stop is \"\", expected a text");
  }
  return Outcome();
}

bool Endings::EndsAt(const qrt_text* text, int32_t token) const {
  return std::find(ids.begin(), ids.end(), token) != ids.end() ||
         (!ignore_end && qrt_text_is_end(text, token) != 0);
}

void DraftFlags::AddTo(Options& options, const std::string& usual) {
  options.Text(
      "--draft", "off|mtp|lookup|FILE", &draft,
      "who guesses tokens that the model then checks, for the same text in fewer steps: its NextN block, "
      "what the text said before, or an artifact of qcc compile --draft; default: " +
          usual);
  options.IntegerOr(
      "auto", QRT_DRAFT_TOKENS_AUTO, "--draft-len", "N|auto", 1, 15, &length,
      "tokens to guess at once; auto: as many as make the text come fastest, none where guesses "
      "do not pay; default: auto");
}

std::string DraftFlags::File() const {
  const bool word = !draft || draft == "off" || draft == "mtp" || draft == "lookup";
  return word ? "" : *draft;
}

Outcome DraftFlags::Choose(const Model& model, Drafting* out) const {
  qrt_engine_info info = {};
  QRUN_RETURN_IF_ERROR(DescribeEngine(model, &info));
  *out = {info.drafts != 0 ? QRT_DRAFT_MODEL : QRT_DRAFT_NONE,
          static_cast<uint32_t>(length.value_or(QRT_DRAFT_TOKENS_AUTO))};
  if (draft == "off") out->draft = QRT_DRAFT_NONE;
  if (draft == "lookup") out->draft = QRT_DRAFT_LOOKUP;
  if (draft == "mtp") out->draft = QRT_DRAFT_MODEL;
  if (length && out->draft == QRT_DRAFT_NONE) {
    return Outcome::Fail(kExitUsage, 101, "--draft-len is given, but nothing drafts", "",
                         "give --draft lookup, or an artifact with a draft (qcc compile of a model with a "
                         "NextN block, or --mtp)");
  }
  return Outcome();
}

const char* Name(Finish finish) {
  return finish == Finish::kStop ? "stop" : finish == Finish::kLength ? "length" : "interrupted";
}

Outcome Generator::Feed(const std::vector<int32_t>& prompt, size_t end, int32_t* next, bool* interrupted) {
  qrt_append_options options = {};
  options.struct_size = sizeof options;
  options.want = QRT_LOGITS_NONE;
  options.sampler = next != nullptr ? sampler_.get() : nullptr;
  options.next = next;
  while (held_.size() < end) {
    *interrupted = Interrupts::Take();
    if (*interrupted) break;
    qrt_error error = NewError();
    Interrupts::Watch(session_.get());
    const qrt_status status = qrt_session_append(session_.get(), prompt.data() + held_.size(),
                                                 end - held_.size(), &options, &error);
    Interrupts::Watch(nullptr);
    const size_t position = qrt_session_position(session_.get());
    held_.assign(prompt.begin(), prompt.begin() + static_cast<ptrdiff_t>(position));
    if (status != QRT_OK && status != QRT_CANCELLED) return Outcome::Of(error);
    // Cancelled with the flag down: left over from an interrupt that was taken already; go on.
  }
  *interrupted = *interrupted || Interrupts::Take();
  return Outcome();
}

Outcome Generator::TraceLayers() {
  QRUN_RETURN_IF_ERROR(CheckTraceable(session_.get()));
  trace_layers_ = true;
  return Outcome();
}

Outcome Generator::Reuse(const std::vector<int32_t>& prompt) {
  // The whole prompt in the session is too much: a token is chosen only behind one that is fed.
  const size_t most = std::min(held_.size(), prompt.size() - 1);
  const auto agrees =
      std::mismatch(held_.begin(), held_.begin() + static_cast<ptrdiff_t>(most), prompt.begin());
  const auto common = static_cast<size_t>(agrees.first - held_.begin());
  const bool rewinds = held_.size() - common <= qrt_session_rewindable(session_.get());
  const size_t marked = qrt_checkpoint_position(checkpoint_.get());
  const bool returns = qrt_checkpoint_holds(checkpoint_.get()) != 0 && marked <= common;
  const size_t here = rewinds ? common : returns ? marked : 0;
  if (cache_ != nullptr) {
    size_t kept = 0;
    QRUN_RETURN_IF_ERROR(cache_->Restore(session_.get(), prompt, here, &kept));
    if (kept != 0) {
      held_.assign(prompt.begin(), prompt.begin() + static_cast<ptrdiff_t>(kept));
      return Outcome();
    }
  }
  if (here == 0) {
    QRUN_CALL(qrt_session_reset(session_.get(), &error));
  } else if (rewinds) {
    QRUN_CALL(qrt_session_rewind(session_.get(), held_.size() - here, &error));
  } else {
    QRUN_CALL(qrt_session_rewind_to(session_.get(), checkpoint_.get(), &error));
  }
  held_.resize(here);
  return Outcome();
}

Outcome Generator::FeedRest(const std::vector<int32_t>& prompt, size_t keep, int32_t* next,
                            bool* interrupted) {
  size_t branch = 0, end = 0;  // where the next process may go on from
  if (cache_ != nullptr) {
    branch = cache_->shared();
    end = (prompt.size() - 1) / PromptCache::kBlock * PromptCache::kBlock;
  }
  size_t stops[] = {branch, keep, end};
  std::sort(std::begin(stops), std::end(stops));
  for (const size_t stop : stops) {
    if (stop <= held_.size() || stop >= prompt.size()) continue;
    QRUN_RETURN_IF_ERROR(Feed(prompt, stop, nullptr, interrupted));
    if (*interrupted) return Outcome();
    if (stop == keep) {
      qrt_checkpoint* checkpoint = nullptr;
      QRUN_CALL(qrt_session_checkpoint(session_.get(), &checkpoint, &error));
      checkpoint_.reset(checkpoint);
    }
    if (stop == branch || stop == end) QRUN_RETURN_IF_ERROR(cache_->Add(session_.get(), held_));
  }
  return Feed(prompt, prompt.size(), next, interrupted);
}

Outcome Generator::Run(const std::vector<int32_t>& prompt, size_t keep, Answer* answer) {
  *answer = Answer();
  if (prompt.empty()) {
    return Outcome::Fail(kExitInput, 8002, "the prompt is empty", "",
                         "give -p TEXT, -f FILE or text on standard input");
  }
  const double begin = Seconds();
  QRUN_RETURN_IF_ERROR(Reuse(prompt));
  answer->reuse_seconds = Seconds() - begin;
  unfed_.reset();
  next_.reset();
  answer->reused_tokens = held_.size();
  answer->prompt_tokens = prompt.size() - held_.size();
  Prepare(prompt);
  const double start = Seconds();
  bool interrupted = false;
  int32_t token = 0;
  QRUN_RETURN_IF_ERROR(FeedRest(prompt, keep, &token, &interrupted));
  answer->prompt_seconds = Seconds() - start;
  Outcome outcome;
  if (interrupted) {
    answer->finish = Finish::kInterrupted;
  } else {
    if (trace_layers_) QRUN_RETURN_IF_ERROR(PrintLayers(session_.get()));
    outcome = Decode(token, answer);
  }
  if (cache_ != nullptr) cache_->WritePending();  // nobody waits for it any more
  return outcome;
}

void Generator::Prepare(const std::vector<int32_t>& tokens) {
  qrt_sampler_reset(sampler_.get());
  for (const int32_t token : tokens) qrt_sampler_accept(sampler_.get(), token);
}

Outcome Generator::Continue(std::string cut, Answer* answer) {
  cut_ = std::move(cut);
  if (!next_) {
    // The last token of the text is not in the session, or nothing was chosen behind it.
    std::vector<int32_t> tokens = held_;
    if (unfed_) tokens.push_back(*unfed_);
    return Run(tokens, 0, answer);
  }
  *answer = Answer();
  answer->reused_tokens = held_.size();
  Prepare(held_);
  return Decode(*next_, answer);
}

Outcome Generator::Save(SavedSession* out) const {
  out->tokens = held_;
  out->held = held_.size();
  if (unfed_) out->tokens.push_back(*unfed_);
  out->next = next_;
  out->snapshot.resize(qrt_session_save_size(session_.get()));
  QRUN_CALL(qrt_session_save(session_.get(), out->snapshot.data(), out->snapshot.size(), nullptr, &error));
  return Outcome();
}

Outcome Generator::Load(const SavedSession& saved) {
  QRUN_CALL(qrt_session_restore(session_.get(), saved.snapshot.data(), saved.snapshot.size(), &error));
  const uint32_t vocabulary = model_.info.vocab_size;
  bool good = qrt_session_position(session_.get()) == saved.held && saved.tokens.size() - saved.held <= 1;
  for (const int32_t token : saved.tokens) good = good && static_cast<uint32_t>(token) < vocabulary;
  if (!good || static_cast<uint32_t>(saved.next.value_or(0)) >= vocabulary) {
    held_.clear();
    unfed_.reset();
    next_.reset();
    QRUN_CALL(qrt_session_reset(session_.get(), &error));
    return Outcome::Fail(kExitInput, 8004, "the saved session's tokens do not agree with its snapshot");
  }
  held_.assign(saved.tokens.begin(), saved.tokens.begin() + static_cast<ptrdiff_t>(saved.held));
  unfed_.reset();
  if (saved.held < saved.tokens.size()) unfed_ = saved.tokens.back();
  next_ = saved.next;
  return Outcome();
}

Outcome Generator::Decode(int32_t token, Answer* answer) {
  qrt_engine_info before = {}, after = {};
  qrt_draft_counters drafts = {};
  drafts.struct_size = sizeof drafts;
  QRUN_RETURN_IF_ERROR(DescribeEngine(model_, &before));
  QRUN_CALL(qrt_session_draft_counters(session_.get(), &drafts, &error));
  const qrt_draft_counters drafts_before = drafts;
  const double start = Seconds();
  Outcome outcome = WriteTokens(token, answer);
  answer->decode_seconds = Seconds() - start;
  if (!outcome.ok()) return outcome;
  QRUN_RETURN_IF_ERROR(DescribeEngine(model_, &after));
  answer->submissions = after.submissions - before.submissions;
  answer->bytes_to_host = after.bytes_to_host - before.bytes_to_host;
  answer->transfers = after.transfers - before.transfers;
  QRUN_CALL(qrt_session_draft_counters(session_.get(), &drafts, &error));
  answer->drafted = drafts.guessed - drafts_before.guessed;
  answer->accepted = drafts.accepted - drafts_before.accepted;
  return Outcome();
}

std::vector<int32_t> Generator::Sequence() const {
  std::vector<int32_t> tokens = held_;
  if (unfed_ && !endings_.EndsAt(model_.text.get(), *unfed_)) tokens.push_back(*unfed_);
  return tokens;
}

// The text of an answer, token by token, and where it ends.
class AnswerText {
 public:
  AnswerText(const Endings& endings, const qrt_text* text, std::string cut, Answer* answer)
      : endings_(endings), text_(text), answer_(answer), stop_(endings.texts) {
    Push(std::exchange(cut, std::string()));
  }

  // Takes the next chosen token. False: it ended the answer; counted() tells whether it is part of it.
  bool Take(int32_t token) {
    counted_ = false;
    if (closed_) return End(Finish::kStop);
    if (answer_->tokens != 0 && Interrupts::Take()) return End(Finish::kInterrupted);
    if (endings_.most_tokens >= 0 && answer_->tokens == static_cast<size_t>(endings_.most_tokens)) {
      return End(Finish::kLength);
    }
    counted_ = true;
    ++answer_->tokens;
    if (endings_.EndsAt(text_, token)) return End(Finish::kStop);
    if (qrt_text_is_special(text_, token)) return true;
    size_t length = 0;
    const char* bytes = qrt_text_token_bytes(text_, token, &length);
    Push({bytes, length});
    return !stop_.found() || End(Finish::kStop);
  }
  bool counted() const { return counted_; }
  bool ended() const { return ended_; }
  // Nobody reads on: the next token ends the answer and is no part of it.
  void Close() { closed_ = true; }

  // What can be written now.
  std::string TakeText() { return std::exchange(ready_, std::string()); }
  // The same at the end of the answer.
  std::string Rest() {
    if (!stop_.found()) {
      const std::string held = stop_.Finish();
      answer_->text += held + stream_.unfinished();
      ready_ += held + stream_.Finish();
    }
    return TakeText();
  }

 private:
  bool End(Finish finish) {
    answer_->finish = finish;
    ended_ = true;
    return false;
  }
  void Push(std::string_view bytes) {
    const std::string text = stop_.Push(stream_.Push(bytes));
    answer_->text += text;
    ready_ += text;
  }

  const Endings& endings_;
  const qrt_text* const text_;
  Answer* const answer_;
  Utf8Stream stream_;
  StopText stop_;
  std::string ready_;
  bool counted_ = false, ended_ = false, closed_ = false;
};

Outcome Generator::Step(int32_t token, AnswerText& writing, Answer* answer) {
  qrt_generate_options options = {};
  options.struct_size = sizeof options;
  options.sampler = sampler_.get();
  options.ends = [](void* ctx, int32_t chosen) -> int32_t {
    return static_cast<AnswerText*>(ctx)->Take(chosen) ? 0 : 1;
  };
  options.ctx = &writing;
  qrt_error error = NewError();
  int32_t chosen[16];
  size_t count = 0;
  qrt_status status = QRT_CANCELLED;
  while (status == QRT_CANCELLED) {
    status = qrt_session_generate(session_.get(), token, &options, chosen, std::size(chosen), &count, &error);
  }
  if (status != QRT_OK) return Outcome::Of(error);
  held_.push_back(token);
  held_.insert(held_.end(), chosen, chosen + count - 1);
  unfed_.reset();
  next_ = chosen[count - 1];
  ++answer->steps;
  answer->decoded += count;
  return Outcome();
}

Outcome Generator::WriteTokens(int32_t token, Answer* answer) {
  // A model must not steer the terminal that it is shown on; what goes into a file or a pipe stays as it is.
  const bool shown = isatty(STDOUT_FILENO) != 0;
  AnswerText writing(endings_, model_.text.get(), std::exchange(cut_, std::string()), answer);
  next_ = token;
  writing.Take(token);
  Outcome written;
  for (;;) {
    if (writing.counted()) {
      qrt_sampler_accept(sampler_.get(), *next_);
      unfed_ = std::exchange(next_, std::nullopt);
    }
    const std::string text = writing.TakeText();
    if (written.ok()) written = WriteStdout(shown ? ForTerminal(text) : text);
    if (writing.ended()) break;
    if (!written.ok()) writing.Close();
    if (qrt_session_position(session_.get()) == qrt_session_capacity(session_.get())) {
      answer->finish = Finish::kLength;
      break;
    }
    QRUN_RETURN_IF_ERROR(Step(*unfed_, writing, answer));
  }
  const std::string rest = writing.Rest();
  if (written.ok()) written = WriteStdout(shown ? ForTerminal(rest) : rest);
  return written;
}

void PrintTiming(const Model& model, const qrt_session* session, const Answer& answer, uint64_t seed,
                 bool json) {
  qrt_engine_info info = {};
  if (!DescribeEngine(model, &info).ok()) return;
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
        ", \"cpu\": %s, \"threads\": %u, \"device\": %s, \"device_weight_bytes\": %" PRIu64
        ", \"decode_submissions\": %" PRIu64 ", \"decode_bytes_to_host\": %" PRIu64
        ", \"decode_transfers\": %" PRIu64 ", \"decode_steps\": %zu, \"drafted_tokens\": %" PRIu64
        ", \"accepted_tokens\": %" PRIu64 ", \"tokens_per_step\": %.3f, \"peak_rss_bytes\": %" PRIu64 "}\n",
        model.load_seconds, answer.prompt_tokens, answer.reused_tokens, answer.reuse_seconds,
        answer.prompt_seconds, prompt_rate, answer.tokens, answer.decode_seconds, decode_rate,
        Name(answer.finish), qrt_session_position(session), qrt_session_capacity(session), seed,
        Quoted(info.cpu).c_str(), info.threads, Quoted(info.device).c_str(), info.device_weight_bytes,
        answer.submissions, answer.bytes_to_host, answer.transfers, answer.steps, answer.drafted,
        answer.accepted, per_step, PeakRssBytes());
    return;
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
               "%.1f/s%s; %s; %" PRIu64 " of %" PRIu64 " tokens of context; %s, %s, %u threads; %" PRIu64
               " bytes read back%s; peak %.1f MiB; seed %" PRIu64 "\n",
               model.load_seconds, answer.prompt_tokens, answer.reused_tokens, answer.reuse_seconds,
               prompt_rate, answer.tokens, decode_rate, drafts, Name(answer.finish),
               qrt_session_position(session), qrt_session_capacity(session), OneLine(info.device).c_str(),
               OneLine(info.cpu).c_str(), info.threads, answer.bytes_to_host, transfers.c_str(),
               static_cast<double>(PeakRssBytes()) / 1048576.0, seed);
}

}  // namespace qrun
