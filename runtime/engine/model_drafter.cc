#include "runtime/engine/model_drafter.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <string>

#include "runtime/engine/engine.h"

namespace qrt {

Status ModelDrafter::Init(const qrt_allocator* allocator) {
  const uint64_t bytes = (kMaxLag + 1) * engine_.row_bytes();
  if (rows_.Allocate(allocator, bytes)) return Status();
  return Status(Code::kOutOfMemory, 6001, "no memory for a draft's rows: " + std::to_string(bytes) + " bytes",
                "session", "free memory");
}

float* ModelDrafter::row(uint64_t i) const {
  return reinterpret_cast<float*>(rows_.data() + i * engine_.row_bytes());
}

void ModelDrafter::ForgetRow() const {
  std::memset(row(0), 0, engine_.row_bytes());
}

void ModelDrafter::Forget(uint64_t position) {
  begin_ = position;
  fed_ = lag_ = 0;
  ahead_ = false;
  ForgetRow();
}

void ModelDrafter::BackTo(uint64_t position) {
  if (position == this->position()) return;
  ahead_ = false;
  if (position > this->position() || position < begin_) return Forget(position);
  if (position >= begin_ + fed_) {
    lag_ = static_cast<uint32_t>(position - begin_ - fed_);
    return;
  }
  fed_ = position - begin_;
  lag_ = 0;
  ForgetRow();
}

void ModelDrafter::Follow(uint64_t position, std::span<const int32_t> tokens, const float* rows) {
  BackTo(position);
  if (tokens.empty()) return;
  const uint64_t bytes = engine_.row_bytes(), floats = bytes / sizeof(float);
  if (ahead_ && lag_ == 0 && tokens[0] == ahead_token_) {
    ++fed_;
    std::memcpy(row(0), rows, bytes);
    tokens = tokens.subspan(1);
    rows += floats;
  }
  ahead_ = false;
  if (lag_ + tokens.size() > kMaxLag) {
    // Those that wait have rows of their own; the first of the new ones has the last of these.
    uint64_t last = 0;
    tokens_[lag_] = tokens[0];
    const float* latest = rows + (tokens.size() - 1) * floats;
    const bool fed = Feed({tokens_.data(), lag_ + 1}, row(0), After::kNothing, &last) &&
                     Feed(tokens.subspan(1), rows, After::kNothing, &last);
    if (!fed) return Forget(position + tokens.size());
    lag_ = 0;
    std::memcpy(row(0), latest, bytes);
    return;
  }
  std::copy(tokens.begin(), tokens.end(), tokens_.begin() + lag_);
  std::memcpy(row(lag_ + 1), rows, tokens.size() * bytes);
  lag_ += static_cast<uint32_t>(tokens.size());
}

bool ModelDrafter::Feed(std::span<const int32_t> tokens, const float* rows, After after,
                        uint64_t* last_rows) {
  const DraftSchedule& schedule = engine_.draft_schedule();
  const uint64_t floats = engine_.row_bytes() / sizeof(float);
  while (!tokens.empty()) {
    const uint64_t most =
        std::min(schedule.WithLogits(tokens.size()).rows, engine_.schedule().max_out_rows());
    const bool logits = after == After::kLogits && tokens.size() <= most;
    const Schedule::Choice& choice =
        logits ? schedule.WithLogits(tokens.size()) : schedule.WithoutLogits(tokens.size());
    const uint64_t left = tokens.size() - (after == After::kLogits && !logits ? 1 : 0);
    uint64_t count = std::min<uint64_t>({left, choice.rows, engine_.schedule().max_rows()});
    if (choice.gives_logits) count = std::min<uint64_t>(count, engine_.schedule().max_out_rows());
    if (!engine_.PlaceDraftRows(rows, count)) return false;
    if (!RunProgram(choice.program, tokens.first(count), fed_, choice.gives_logits)) return false;
    fed_ += count;
    tokens = tokens.subspan(count);
    rows += count * floats;
    *last_rows = count;
  }
  return true;
}

bool ModelDrafter::RunProgram(uint32_t program, std::span<const int32_t> tokens, uint64_t past, bool logits) {
  if (past + tokens.size() > kv_capacity_) return false;
  qrt_seq seq = {};
  seq.kv = reinterpret_cast<uint8_t*>(kv_.address);
  seq.kv_capacity = static_cast<int64_t>(kv_capacity_);
  seq.past = static_cast<int64_t>(past);
  seq.row_count = static_cast<int64_t>(tokens.size());
  return engine_.RunDraft(program, seq, begin_ + past, tokens.data(), logits);
}

int32_t ModelDrafter::Likeliest(uint64_t i) const {
  const std::span<const float> logits = engine_.draft_logits(i);
  const auto best = std::max_element(logits.begin(), logits.end());
  return *best == *best ? engine_.draft_schedule().token(static_cast<size_t>(best - logits.begin())) : -1;
}

size_t ModelDrafter::Propose(uint64_t position, int32_t token, std::span<int32_t> guesses) {
  if (guesses.empty()) return 0;
  const std::lock_guard<std::mutex> lock(engine_.step_);
  BackTo(position);
  const DraftSchedule& schedule = engine_.draft_schedule();
  tokens_[lag_] = token;
  uint64_t last_rows = 0;
  const uint64_t fed = fed_;
  if (!Feed({tokens_.data(), lag_ + 1}, row(0), After::kLogits, &last_rows)) {
    Forget(position);
    return 0;
  }
  // The token itself is the session's only when the trunk has taken it.
  fed_ = fed + lag_;
  std::memmove(row(0), row(lag_), engine_.row_bytes());
  lag_ = 0;
  ahead_ = true;
  ahead_token_ = token;
  guesses[0] = Likeliest(last_rows - 1);
  if (guesses[0] < 0) return 0;
  if (guesses.size() == 1 || !schedule.next()) return 1;
  if (!engine_.KeepDraftRow(last_rows - 1)) return 1;
  for (size_t i = 1; i < guesses.size(); ++i) {
    if (!RunProgram(*schedule.next(), guesses.subspan(i - 1, 1), fed_ + i, true)) return i;
    guesses[i] = Likeliest(0);
    if (guesses[i] < 0) return i;
  }
  return guesses.size();
}

}  // namespace qrt
