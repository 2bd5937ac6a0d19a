#include "runtime/engine/speculation.h"

#include <algorithm>
#include <array>

#include "runtime/engine/engine.h"
#include "runtime/engine/model_drafter.h"

namespace qrt {
namespace {

// What is chosen behind a token and the guesses that follow it, row by row.
struct Verification {
  Sampler& sampler;
  const Verdicts verdicts;
  std::span<const int32_t> guesses;
  std::span<int32_t> chosen;
  size_t count = 0;  // of them
  size_t right = 0;  // guesses
  bool done = false;
  int32_t fault = 0;  // negative: of the last row that was looked at

  static int32_t Look(void* self, qrt_session*, uint64_t position, const float* logits, size_t vocab_size) {
    static_cast<Verification*>(self)->Look(position, {logits, vocab_size});
    return 0;
  }

  void Look(uint64_t position, std::span<const float> logits) {
    if (done) return;
    RecordLast();
    Take(sampler.SampleStep(position + 1, logits));
  }

  // Before the row behind it is looked at: the last that is chosen is recorded by the caller, and a check may
  // be cancelled between its steps.
  void RecordLast() {
    if (count != 0) sampler.Accept(chosen[count - 1]);
  }

  void Take(int32_t token) {
    if (token < 0) {
      done = true;
      fault = token;
      return;
    }
    const size_t i = count++;
    bool guessed = i < guesses.size() && guesses[i] == token;
    if (verdicts.agrees != nullptr && i < guesses.size()) {
      guessed = verdicts.agrees(verdicts.ctx, static_cast<uint32_t>(i)) != 0;
      if (guessed) token = guesses[i];
    }
    chosen[i] = token;
    right += guessed;
    const bool ends = verdicts.ends != nullptr && verdicts.ends(verdicts.ctx, token) != 0;
    done = !guessed || ends;
  }
};

Status AppendAndSample(Session& session, const int32_t* token, Sampler& sampler, int32_t* next) {
  qrt_append_options options = {};
  options.want = QRT_LOGITS_NONE;
  Batch batch(session.engine());
  QRT_RETURN_IF_ERROR(batch.Add(session, token, 1, &options, &sampler, next));
  return batch.Run();
}

// As Generate, of one token.
Status DecodeOne(Session& session, int32_t token, Sampler& sampler, Verdicts verdicts,
                 std::span<int32_t> chosen, Generated* out) {
  QRT_RETURN_IF_ERROR(AppendAndSample(session, &token, sampler, chosen.data()));
  out->tokens = out->steps = 1;
  if (verdicts.ends != nullptr) verdicts.ends(verdicts.ctx, chosen[0]);
  return Status();
}

// Times what a session does, by the clock of what adapts to it (null: nothing does), without the steps of
// others that it waited for.
template <typename Adapts>
class Laps {
 public:
  Laps(const Session& session, const Adapts* adapts)
      : session_(session), adapts_(adapts), begin_(adapts != nullptr ? Worked() : 0) {}
  // Nanoseconds since the last call, or since this was made.
  uint64_t Next() {
    if (adapts_ == nullptr) return 0;
    const uint64_t now = Worked(), lap = now - begin_;
    begin_ = now;
    return lap;
  }

 private:
  uint64_t Worked() const { return adapts_->Now() - session_.waited(); }

  const Session& session_;
  const Adapts* const adapts_;
  uint64_t begin_;
};

// Whether the device can choose behind each of so many tokens, so that no logits come back. Each row has a
// list of its own of tokens to penalize: with long windows they are too many together.
bool DeviceChooses(const Session& session, const Sampler& sampler, uint64_t rows) {
  return session.engine().device().samples() && rows * (sampler.penalties() + rows) <= QRT_GPU_MAX_PENALTIES;
}

// Whether the device guesses so many tokens behind `token` and checks them without the host in between. What
// a sampler penalizes depends on the guesses, which the host knows too late for that.
bool DeviceGuesses(const Session& session, const Sampler& sampler, uint64_t guesses) {
  ModelDrafter* drafter = session.drafter()->of_model();
  if (drafter == nullptr || sampler.penalizes()) return false;
  const Schedule::Choice& choice = session.engine().schedule().ForTokens(guesses + 1);
  return choice.gives_logits && choice.rows > guesses && drafter->ChainsTo(session.position(), guesses);
}

// How many tokens the device may decode behind one before they are looked at; 1: it looks at each.
uint32_t Ahead(Session& session, const Sampler& sampler, uint64_t room) {
  const Engine& engine = session.engine();
  if (session.drafter() != nullptr || sampler.penalizes() || engine.part_count() != 1 ||
      !engine.device().chains() || !engine.schedule().ForTokens(1).gives_logits) {
    return 1;
  }
  // All but one of them may have to be taken back.
  const uint64_t most = std::min<uint64_t>(session.most_back(), TokensAhead::kMost - 1) + 1;
  return session.tokens_ahead().Choose(static_cast<uint32_t>(std::min(most, room)));
}

// Where the tokens behind the first of those that are fed come from.
enum class Source : uint8_t {
  kGuessed,        // they are there
  kDeviceGuesses,  // a draft's steps on the device, in the run that checks them
  kDeviceDecodes,  // they are what is chosen
};

// Feeds a token and those behind it, and looks at what is chosen behind each.
Status Feed(Session& session, std::span<int32_t> fed, Source source, Verification& rows) {
  Batch batch(session.engine());
  if (source == Source::kGuessed && !DeviceChooses(session, rows.sampler, fed.size())) {
    qrt_append_options options = {};
    options.want = QRT_LOGITS_ALL;
    options.on_logits = Verification::Look;
    options.ctx = &rows;
    QRT_RETURN_IF_ERROR(batch.Add(session, fed.data(), fed.size(), &options));
    return batch.Run();
  }
  std::array<int32_t, kMostTokensAtOnce> choices;
  size_t count = 0;
  if (source == Source::kDeviceDecodes) {
    QRT_RETURN_IF_ERROR(batch.AddAhead(session, fed, rows.sampler, choices.data(), &count));
  } else {
    QRT_RETURN_IF_ERROR(batch.AddGuesses(session, fed, rows.sampler, choices.data(), &count));
  }
  if (source == Source::kDeviceGuesses) batch.Guess(*session.drafter()->of_model(), fed.subspan(1));
  Status status = batch.Run();
  if (source == Source::kDeviceDecodes && count != 0) {
    std::copy_n(choices.begin(), count - 1, fed.begin() + 1);
  }
  for (size_t i = 0; i < count && !rows.done; ++i) {
    rows.RecordLast();
    rows.Take(choices[i]);
  }
  return status;
}

// Checks the guesses behind fed[0] in one step, or decodes ahead. As Generate.
Status Check(Session& session, std::span<int32_t> fed, Source source, Sampler& sampler, Verdicts verdicts,
             std::span<int32_t> chosen, Generated* out) {
  const uint64_t begin = session.position();
  Verification rows{sampler, verdicts, fed.subspan(1), chosen};
  Status status = Feed(session, fed, source, rows);
  if (session.position() == begin) return status;  // nothing was begun
  out->tokens = rows.count;
  out->steps = source == Source::kDeviceDecodes ? rows.count : 1;
  out->accepted = source == Source::kDeviceDecodes ? 0 : rows.right;
  // A step that failed leaves a session that cannot step back either. What was cancelled between two steps
  // goes on from the last token chosen; the next call stops.
  if (session.damaged()) return status;
  // Behind a fault is what plain decoding feeds to find it: the first of those fed may be all.
  const uint64_t keeps = begin + rows.count + (rows.fault < 0 ? 1 : 0);
  if (session.position() > keeps) QRT_RETURN_IF_ERROR(session.Rewind(session.position() - keeps));
  session.DropLogits();
  if (rows.fault < 0) {
    if (status.code() == Code::kCancelled) session.Cancel();
    return Batch::NumericFault(session.engine(), rows.fault, keeps - 1);
  }
  if (!status.ok()) {
    if (status.code() != Code::kCancelled || rows.count == 0) return status;
    session.Cancel();
    return Status();
  }
  return Status();
}

// A token, or as many as the device may decode before the host looks. As Generate.
Status DecodeWithoutDraft(Session& session, int32_t token, Sampler& sampler, Verdicts verdicts,
                          std::span<int32_t> chosen, Generated* out) {
  TokensAhead& ahead = session.tokens_ahead();
  const uint64_t room = std::min<uint64_t>(chosen.size(), session.capacity() - session.position());
  const uint32_t count = Ahead(session, sampler, std::max<uint64_t>(room, 1));
  Laps laps(session, &ahead);
  if (count == 1) {
    QRT_RETURN_IF_ERROR(DecodeOne(session, token, sampler, verdicts, chosen, out));
  } else {
    std::array<int32_t, TokensAhead::kMost> fed = {};
    fed[0] = token;
    verdicts.agrees = nullptr;  // there are no guesses
    QRT_RETURN_IF_ERROR(
        Check(session, std::span(fed).first(count), Source::kDeviceDecodes, sampler, verdicts, chosen, out));
  }
  ahead.Saw(count, laps.Next());
  return Status();
}

}  // namespace

Status Generate(Session& session, int32_t token, Sampler& sampler, Verdicts verdicts,
                std::span<int32_t> chosen, Generated* out) {
  *out = Generated();
  if (session.drafter() == nullptr) {
    return DecodeWithoutDraft(session, token, sampler, verdicts, chosen, out);
  }
  std::array<int32_t, Session::kMaxDraftTokens + 1> fed = {};
  fed[0] = token;
  Source source = Source::kGuessed;
  const uint64_t begin = session.position(), room = session.capacity() - begin;
  const bool known = token >= 0 && static_cast<uint32_t>(token) < session.engine().plan().vocab_size;
  DraftLength* adapts = session.draft_length();
  Laps laps(session, adapts);
  if (known && room > 1) {
    uint64_t most = std::min<uint64_t>(
        {session.draft_tokens(), chosen.size() - 1, room - 1, session.engine().schedule().max_rows() - 1});
    if (adapts != nullptr) most = adapts->Choose(static_cast<uint32_t>(most));
    if (most != 0 && DeviceGuesses(session, sampler, most)) {
      source = Source::kDeviceGuesses;
      out->guessed = most;
    } else if (most != 0) {
      out->guessed = session.drafter()->Propose(begin, token, std::span(fed).subspan(1, most));
    }
  }
  // Of a device that guesses in the run that checks, next to nothing: the check's time is that of both.
  const uint64_t guessing = laps.Next();
  if (out->guessed == 0) {
    QRT_RETURN_IF_ERROR(DecodeOne(session, token, sampler, verdicts, chosen, out));
  } else {
    QRT_RETURN_IF_ERROR(
        Check(session, std::span(fed).first(1 + out->guessed), source, sampler, verdicts, chosen, out));
  }
  if (adapts != nullptr) {
    adapts->Saw(
        {static_cast<uint32_t>(out->guessed), static_cast<uint32_t>(out->accepted), guessing, laps.Next()});
  }
  return Status();
}

}  // namespace qrt
