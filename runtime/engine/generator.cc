#include "runtime/engine/generator.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <iterator>
#include <new>
#include <utility>

#include "runtime/base/at_end.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/prefix_store.h"
#include "runtime/engine/speculation.h"
#include "runtime/text/unicode.h"

namespace qrt {
namespace {

class Clock {
 public:
  double Seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

bool Stopped(const Listener& listener) {
  return listener.stop != nullptr && listener.stop(listener.ctx) != 0;
}

bool Told(const Listener& listener, const std::string& text) {
  return text.empty() || listener.on_text == nullptr ||
         listener.on_text(listener.ctx, text.data(), text.size()) == 0;
}

// What may be in the session already: a token is chosen only behind one that is fed.
std::span<const int32_t> BeforeLast(std::span<const int32_t> prompt) {
  return prompt.first(prompt.empty() ? 0 : prompt.size() - 1);
}

bool FedTold(const Listener& listener) {
  return listener.on_prompt == nullptr || listener.on_prompt(listener.ctx) == 0;
}

// Of a step that was cancelled: a listener that is asked says whether somebody wants that now; the cancel may
// be left over from one that ended the last answer.
bool CancelCounts(const Listener& listener) {
  return listener.stop == nullptr || Stopped(listener);
}

}  // namespace

Generator::Reuse Generator::Within(std::span<const int32_t> prompt) const {
  if (!holds()) return {};
  const size_t most = std::min(held_.size(), prompt.size());
  const auto agrees =
      std::mismatch(held_.begin(), held_.begin() + static_cast<ptrdiff_t>(most), prompt.begin());
  const auto common = static_cast<size_t>(agrees.first - held_.begin());
  if (held_.size() - common <= session_.rewindable()) return {common, true};
  const bool returns = checkpoint_ && checkpoint_->holds() && checkpoint_->position() <= common;
  return {returns ? static_cast<size_t>(checkpoint_->position()) : 0, false};
}

size_t Generator::Reusable(std::span<const int32_t> prompt) const {
  return Within(BeforeLast(prompt)).tokens;
}

Status Generator::Begin(std::span<const int32_t> prompt, bool chooses, size_t* shared) {
  const Reuse here = Within(chooses ? BeforeLast(prompt) : prompt);
  PrefixStore* const store = session_.engine().prefixes();
  PrefixStore::Found found;
  if (store != nullptr) found = store->Find(prompt, session_.capacity());
  *shared = found.shared;
  unfed_.reset();
  next_.reset();
  rest_.clear();
  if (found.reused > here.tokens) {
    held_.clear();
    QRT_RETURN_IF_ERROR(store->Begin(session_, prompt, &found));
    held_.assign(prompt.begin(), prompt.begin() + static_cast<ptrdiff_t>(found.reused));
  } else if (here.tokens == 0) {
    held_.clear();
    QRT_RETURN_IF_ERROR(session_.Reset());
  } else {
    const size_t back = held_.size() - here.tokens;
    held_.resize(here.tokens);
    QRT_RETURN_IF_ERROR(here.by_rewind ? session_.Rewind(back) : session_.RewindTo(*checkpoint_));
  }
  moves_ = session_.moves();
  return Status();
}

Status Generator::FeedTo(std::span<const int32_t> prompt, size_t end, const AnswerRequest& request,
                         int32_t* next, bool* stopped) {
  qrt_append_options options = {};
  options.want = QRT_LOGITS_NONE;
  // Who is asked before each step gets one step at a time.
  const size_t most =
      request.listener.stop != nullptr ? session_.engine().schedule().max_rows() : prompt.size();
  while (held_.size() < end) {
    *stopped = Stopped(request.listener);
    if (*stopped) return Status();
    const size_t count = std::min(end - held_.size(), most);
    const bool chooses = next != nullptr && held_.size() + count == end;
    Status status;
    {
      Batch batch(session_.engine());
      QRT_RETURN_IF_ERROR(batch.Add(session_, prompt.data() + held_.size(), count, &options,
                                    chooses ? request.sampler : nullptr, chooses ? next : nullptr));
      status = batch.Run();
    }
    held_.assign(prompt.begin(), prompt.begin() + static_cast<ptrdiff_t>(session_.position()));
    moves_ = session_.moves();
    if (status.ok()) continue;
    if (status.code() != Code::kCancelled) return status;
    *stopped = CancelCounts(request.listener);
    if (*stopped) return Status();
  }
  *stopped = Stopped(request.listener);
  return Status();
}

Status Generator::FeedAll(std::span<const int32_t> prompt, size_t keep, const AnswerRequest& request,
                          int32_t* next, Answer* answer, bool* stopped) {
  if (prompt.empty()) {
    return Status(Code::kInvalidArgument, 5305, "the prompt is empty", "", "give one token at least");
  }
  if (prompt.size() > session_.capacity()) {
    return Status(Code::kContextFull, 5310,
                  std::to_string(prompt.size()) + " tokens do not fit into a context of " +
                      std::to_string(session_.capacity()),
                  "", "make the session with a larger context, or shorten the prompt");
  }
  QRT_RETURN_IF_ERROR(Batch::CheckTokens(session_.engine(), prompt));
  if (request.sampler != nullptr) {
    QRT_RETURN_IF_ERROR(Batch::CheckSampler(session_.engine(), *request.sampler));
  }
  size_t shared = 0;
  const Clock reusing;
  held_.reserve(prompt.size());  // what the session has taken is noted without fail
  std::vector<int32_t> unfed(prompt.begin(), prompt.end());
  // However it ends, what was not fed is still to be.
  const AtEnd note_rest([&] {
    unfed.erase(unfed.begin(), unfed.begin() + static_cast<ptrdiff_t>(held_.size()));
    rest_ = std::move(unfed);
    rest_keep_ = keep;
  });
  QRT_RETURN_IF_ERROR(Begin(prompt, next != nullptr, &shared));
  answer->reuse_seconds = reusing.Seconds();
  answer->reused_tokens = held_.size();
  const Clock feeding;
  const AtEnd count([&] {
    answer->prompt_seconds = feeding.Seconds();
    answer->prompt_tokens = held_.size() - answer->reused_tokens;
  });
  if (request.sampler != nullptr) Prepare(prompt, *request.sampler);
  if (keep != 0 && keep == held_.size()) QRT_RETURN_IF_ERROR(TakeCheckpoint());
  PrefixStore* const store = session_.engine().prefixes();
  // Of the last block a token stays to be fed: kept prefixes leave one.
  const size_t last = store != nullptr ? (prompt.size() - 1) / PrefixStore::kBlock * PrefixStore::kBlock : 0;
  std::array<size_t, 3> stops = {shared, keep, last};
  std::sort(stops.begin(), stops.end());
  for (const size_t stop : stops) {
    if (stop <= held_.size() || stop > prompt.size() || (stop == prompt.size() && next != nullptr)) continue;
    QRT_RETURN_IF_ERROR(FeedTo(prompt, stop, request, nullptr, stopped));
    if (*stopped) break;
    if (stop == keep) QRT_RETURN_IF_ERROR(TakeCheckpoint());
    if (stop == shared || stop == last) QRT_RETURN_IF_ERROR(Keep());
  }
  if (!*stopped) QRT_RETURN_IF_ERROR(FeedTo(prompt, prompt.size(), request, next, stopped));
  if (*stopped) answer->finish = Finish::kCancelled;
  return Status();
}

Status Generator::TakeCheckpoint() {
  if (checkpoint_ && checkpoint_->holds() && checkpoint_->position() == held_.size()) return Status();
  checkpoint_.emplace(session_);
  Status status = checkpoint_->Take(allocator_);
  if (status.code() != Code::kOutOfMemory) return status;
  checkpoint_.reset();
  return Status();
}

Status Generator::Keep() {
  uint64_t kept = 0;
  try {
    Status status = session_.engine().prefixes()->Keep(session_, held_, &kept);
    if (status.code() != Code::kOutOfMemory) return status;
  } catch (const std::bad_alloc&) {
    return Status();
  }
  return Status();
}

Status Generator::Feed(std::span<const int32_t> prompt, size_t keep, const AnswerRequest& request,
                       Answer* answer) {
  *answer = Answer();
  bool stopped = false;
  answer->finish = Finish::kLength;
  return FeedAll(prompt, keep, request, nullptr, answer, &stopped);
}

Status Generator::Run(std::span<const int32_t> prompt, size_t keep, const AnswerRequest& request,
                      Answer* answer) {
  return FeedAndDecode(prompt, keep, CutOf(prompt, false), request, answer);
}

Status Generator::FeedAndDecode(std::span<const int32_t> prompt, size_t keep, std::string_view cut,
                                const AnswerRequest& request, Answer* answer) {
  *answer = Answer();
  bool stopped = false;
  int32_t token = -1;
  QRT_RETURN_IF_ERROR(FeedAll(prompt, keep, request, &token, answer, &stopped));
  if (!stopped) return Decode(token, cut, request, answer);
  if (token >= 0) next_ = token;  // stopped behind the prompt
  return Status();
}

Status Generator::Continue(const AnswerRequest& request, Answer* answer) {
  if (next_ && rest_.empty() && holds()) {
    *answer = Answer();
    QRT_RETURN_IF_ERROR(Batch::CheckSampler(session_.engine(), *request.sampler));
    answer->reused_tokens = held_.size();
    Prepare(held_, *request.sampler);
    return Decode(*next_, CutOf(held_, true), request, answer);
  }
  // The last token of the text is not in the session, nothing was chosen behind it, or something else has
  // moved the session.
  std::vector<int32_t> tokens = Tokens();
  const size_t keep = rest_.empty() ? 0 : rest_keep_;
  tokens.insert(tokens.end(), rest_.begin(), rest_.end());
  if (!next_) return FeedAndDecode(tokens, keep, CutOf(tokens, true), request, answer);
  *answer = Answer();
  bool stopped = false;
  {
    const AtEnd stays([this, chosen = *next_] { next_ = chosen; });
    QRT_RETURN_IF_ERROR(FeedAll(tokens, keep, request, nullptr, answer, &stopped));
  }
  return stopped ? Status() : Decode(*next_, CutOf(tokens, true), request, answer);
}

void Generator::Prepare(std::span<const int32_t> tokens, Sampler& sampler) {
  sampler.Reset();
  for (const int32_t token : tokens) sampler.Accept(token);
}

std::vector<int32_t> Generator::Tokens() const {
  std::vector<int32_t> tokens = held_;
  if (unfed_) tokens.push_back(*unfed_);
  return tokens;
}

Status Generator::Resume(std::span<const int32_t> tokens, std::optional<int32_t> next) {
  const uint64_t held = session_.position();
  if (tokens.size() < held || tokens.size() - held > 1) {
    return Status(Code::kInvalidArgument, 5354,
                  std::to_string(tokens.size()) + " tokens for a session that holds " + std::to_string(held),
                  "", "give all tokens of the sequence, and at most one that the session has not taken");
  }
  if (next && tokens.size() > held) {
    return Status(Code::kInvalidArgument, 5354, "a token to follow behind one that the session has not taken",
                  "", "give one of them: nothing was chosen behind the other");
  }
  QRT_RETURN_IF_ERROR(Batch::CheckTokens(session_.engine(), tokens));
  if (next) QRT_RETURN_IF_ERROR(Batch::CheckTokens(session_.engine(), {&*next, 1}));
  rest_.clear();
  moves_ = session_.moves();
  held_.assign(tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(held));
  unfed_.reset();
  if (tokens.size() > held) unfed_ = tokens.back();
  next_ = next;
  return Status();
}

std::string Generator::CutOf(std::span<const int32_t> tokens, bool answer) const {
  std::string end;  // the last bytes of the text, enough for any character
  for (size_t i = tokens.size(); i > 0 && end.size() < 4; --i) {
    if (!tokenizer_.IsControl(tokens[i - 1])) {
      end.insert(0, tokenizer_.TokenBytes(tokens[i - 1]));
    } else if (!answer) {
      break;
    }
  }
  text::Utf8Stream stream;
  std::string whole;
  stream.Push(end, &whole);
  return std::string(stream.unfinished());
}

Status Generator::Decode(int32_t token, std::string_view cut, const AnswerRequest& request, Answer* answer) {
  const bool wanted = FedTold(request.listener);
  const Clock decoding;
  AnswerText writing(tokenizer_, request.endings, cut);
  const AtEnd fill([&] {
    answer->decode_seconds = decoding.Seconds();
    answer->tokens = writing.tokens();
    answer->finish = writing.finish();
    answer->cut = writing.cut();
    answer->text = std::move(writing).text();
  });
  if (!wanted) writing.Close();
  Status status = Write(token, request, writing, answer);
  Told(request.listener, writing.Rest());
  return status;
}

Status Generator::Write(int32_t token, const AnswerRequest& request, AnswerText& writing, Answer* answer) {
  next_ = token;
  writing.Take(token);
  for (;;) {
    if (writing.counted()) {
      request.sampler->Accept(*next_);
      unfed_ = std::exchange(next_, std::nullopt);
    }
    if (!Told(request.listener, writing.TakeText())) writing.Mute();
    if (writing.ended()) return Status();
    if (session_.position() == session_.capacity()) {
      writing.EndAtLength();
      return Status();
    }
    if (!writing.closed() && Stopped(request.listener)) writing.Close();
    QRT_RETURN_IF_ERROR(Step(request, writing, answer));
  }
}

Status Generator::Step(const AnswerRequest& request, AnswerText& writing, Answer* answer) {
  // Before the session moves: what it takes is noted without fail.
  if (held_.capacity() - held_.size() < kMostTokensAtOnce)
    held_.reserve(2 * held_.size() + kMostTokensAtOnce);
  struct Taking {
    AnswerText& writing;
    bool no_memory;
  } taking = {writing, false};
  Verdicts verdicts;
  verdicts.ends = [](void* ctx, int32_t chosen) -> int32_t {
    auto& into = *static_cast<Taking*>(ctx);
    try {
      return into.writing.Take(chosen) ? 0 : 1;
    } catch (const std::bad_alloc&) {  // not through a step
      into.no_memory = true;
      return 1;
    }
  };
  verdicts.ctx = &taking;
  std::array<int32_t, kMostTokensAtOnce> chosen;
  const int32_t token = *unfed_;
  Generated made;
  Status status;
  for (;;) {
    const std::span<int32_t> room = std::span(chosen).first(writing.closed() ? 1 : chosen.size());
    status = Generate(session_, token, *request.sampler, verdicts, room, &made);
    if (status.code() != Code::kCancelled) break;
    if (CancelCounts(request.listener)) writing.Close();
  }
  if (made.tokens == 0) return status;
  held_.push_back(token);
  held_.insert(held_.end(), chosen.begin(), chosen.begin() + made.tokens - 1);
  answer->steps += made.steps;
  answer->decoded += made.tokens;
  answer->guessed += made.guessed;
  answer->accepted += made.accepted;
  const int32_t last = chosen[made.tokens - 1];
  if (!status.ok()) {  // behind the last, which was fed, too: what was held is fed again
    unfed_ = last;
    return status;
  }
  moves_ = session_.moves();
  unfed_.reset();
  next_ = last;
  if (taking.no_memory) throw std::bad_alloc();
  return Status();
}

}  // namespace qrt
