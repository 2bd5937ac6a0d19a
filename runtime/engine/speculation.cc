#include "runtime/engine/speculation.h"

#include <algorithm>
#include <array>

#include "runtime/engine/engine.h"

namespace qrt {
namespace {

// The logits behind a token and the guesses that follow it, row by row.
struct Verification {
  Sampler& sampler;
  const LastToken last;
  std::span<const int32_t> guesses;
  std::span<int32_t> chosen;
  size_t count = 0;  // of them
  size_t right = 0;  // guesses
  bool done = false;
  bool faulty = false;  // the last row that was looked at

  static int32_t Look(void* self, qrt_session*, uint64_t, const float* logits, size_t vocab_size) {
    static_cast<Verification*>(self)->Look({logits, vocab_size});
    return 0;
  }

  void Look(std::span<const float> logits) {
    if (done) return;
    const int32_t token = sampler.SampleStep(logits);
    if (token < 0) {
      done = faulty = true;
      return;
    }
    const size_t i = count++;
    chosen[i] = token;
    const bool guessed = i < guesses.size() && guesses[i] == token;
    right += guessed;
    const bool ends = last.is != nullptr && last.is(last.ctx, token) != 0;
    done = !guessed || ends;
    if (!done) sampler.Accept(token);
  }
};

Status AppendAndSample(Session& session, const int32_t* token, Sampler& sampler, int32_t* next) {
  qrt_append_options options = {};
  options.want = QRT_LOGITS_NONE;
  Batch batch(session.engine());
  QRT_RETURN_IF_ERROR(batch.Add(session, token, 1, &options, &sampler, next));
  return batch.Run();
}

}  // namespace

Status Generate(Session& session, int32_t token, Sampler& sampler, LastToken last, std::span<int32_t> chosen,
                Generated* out) {
  *out = Generated();
  std::array<int32_t, Session::kMaxDraftTokens + 1> fed;
  fed[0] = token;
  const uint64_t begin = session.position(), room = session.capacity() - begin;
  const bool known = token >= 0 && static_cast<uint32_t>(token) < session.engine().plan().vocab_size;
  if (session.drafter() != nullptr && known && room > 1) {
    const size_t most = std::min<uint64_t>(
        {session.draft_tokens(), chosen.size() - 1, room - 1, session.engine().schedule().max_rows() - 1});
    out->guessed = session.drafter()->Propose(begin, token, std::span(fed).subspan(1, most));
  }
  if (out->guessed == 0) {
    QRT_RETURN_IF_ERROR(AppendAndSample(session, &token, sampler, chosen.data()));
    out->tokens = 1;
    if (last.is != nullptr) last.is(last.ctx, chosen[0]);
    return Status();
  }

  Verification rows{sampler, last, std::span(fed).subspan(1, out->guessed), chosen};
  qrt_append_options options = {};
  options.want = QRT_LOGITS_ALL;
  options.on_logits = Verification::Look;
  options.ctx = &rows;
  Status status;
  {
    Batch batch(session.engine());
    QRT_RETURN_IF_ERROR(batch.Add(session, fed.data(), 1 + out->guessed, &options));
    status = batch.Run();
  }
  out->tokens = rows.count;
  out->accepted = rows.right;
  // A step that failed leaves a session that cannot step back either. What was cancelled between two steps
  // goes on from the last token chosen; the next call stops.
  if (session.damaged()) return status;
  const uint64_t keeps = begin + rows.count;
  if (session.position() > keeps) QRT_RETURN_IF_ERROR(session.Rewind(session.position() - keeps));
  session.DropLogits();
  if (!status.ok()) {
    if (status.code() != Code::kCancelled || rows.count == 0) return status;
    session.Cancel();
    return Status();
  }
  // The same logits again, for the error that plain decoding gives.
  if (rows.faulty) return AppendAndSample(session, &fed[rows.count], sampler, &chosen[rows.count]);
  return Status();
}

}  // namespace qrt
