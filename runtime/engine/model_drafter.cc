#include "runtime/engine/model_drafter.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "runtime/engine/engine.h"

namespace qrt {

Status ModelDrafter::Init(const qrt_allocator* allocator) {
  const uint64_t bytes = (kMaxLag + 1) * engine_.row_bytes();
  if (!rows_.Allocate(allocator, bytes)) {
    return Status(Code::kOutOfMemory, 6001,
                  "no memory for a draft's rows: " + std::to_string(bytes) + " bytes", "session",
                  "free memory");
  }
  if (!engine_.chains_drafts()) return Status();
  const DeviceResult result = engine_.Allocate(engine_.draft_part(), bytes, &kept_);
  return result == DeviceResult::kOk
             ? Status()
             : engine_.Failure(engine_.draft_part(), result, "memory for a draft's rows");
}

ModelDrafter::~ModelDrafter() {
  if (!kept_.empty()) engine_.Free(engine_.draft_part(), &kept_);
}

float* ModelDrafter::row(uint64_t i) const {
  return reinterpret_cast<float*>(rows_.data() + i * engine_.row_bytes());
}

void ModelDrafter::ForgetRow() const {
  std::memset(row(0), 0, engine_.row_bytes());
}

bool ModelDrafter::FetchRows() {
  if (!on_device_) return true;
  on_device_ = false;
  const CopyRange range = {&kept_, 0, rows_.data(), (lag_ + 1) * engine_.row_bytes()};
  return engine_.OnDevice(engine_.draft_part(), [&](Device& device) {
    return device.Read({&range, 1});
  }) == DeviceResult::kOk;
}

void ModelDrafter::Forget(uint64_t position) {
  begin_ = position;
  fed_ = lag_ = 0;
  ahead_ = on_device_ = false;
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
  on_device_ = false;
  ForgetRow();
}

void ModelDrafter::Follow(uint64_t position, std::span<const int32_t> tokens, const float* rows) {
  BackTo(position);
  if (tokens.empty()) return;
  if (!FetchRows()) return Forget(position + tokens.size());
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
  return engine_.RunDraft(program, Sequence(past, tokens.size()), begin_ + past, tokens.data(), logits);
}

qrt_seq ModelDrafter::Sequence(uint64_t past, uint64_t count) const {
  qrt_seq seq = {};
  seq.kv = reinterpret_cast<uint8_t*>(kv_.address);
  seq.kv_capacity = static_cast<int64_t>(kv_capacity_);
  seq.past = static_cast<int64_t>(past);
  seq.row_count = static_cast<int64_t>(count);
  return seq;
}

int32_t ModelDrafter::Likeliest(uint64_t i) const {
  const std::span<const float> logits = engine_.draft_logits(i);
  const auto best = std::max_element(logits.begin(), logits.end());
  return *best == *best ? engine_.draft_schedule().token(static_cast<size_t>(best - logits.begin())) : -1;
}

size_t ModelDrafter::Propose(uint64_t position, int32_t token, std::span<int32_t> guesses) {
  if (guesses.empty()) return 0;
  const Engine::Turn turn(engine_.step_);
  waited_ += turn.waited();
  BackTo(position);
  if (!FetchRows()) Forget(position);
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

bool ModelDrafter::ChainsTo(uint64_t position, size_t count) {
  if (kept_.empty() || count == 0 || count >= kMostChainSteps) return false;
  BackTo(position);
  const DraftSchedule& schedule = engine_.draft_schedule();
  const uint64_t rows = lag_ + 1;
  return rows <= schedule.WithLogits(rows).rows && (count == 1 || schedule.next()) &&
         fed_ + lag_ + count <= kv_capacity_;
}

DeviceResult ModelDrafter::RunChain(const StepRequest& check, std::span<int32_t> guesses) {
  const DraftSchedule& schedule = engine_.draft_schedule();
  const size_t part = engine_.draft_part();
  const uint64_t row_bytes = engine_.row_bytes(), rows = lag_ + 1, position = begin_ + fed_ + lag_;
  const DeviceBuffer* arena = &engine_.stage(part).device->arena();
  std::array<int32_t, 4 * (kMaxLag + kMostChainSteps)> positions;
  std::array<int32_t, kMaxLag + 1> out_rows;
  for (size_t i = 0; i < positions.size(); ++i) {
    positions[i] = static_cast<int32_t>(begin_ + fed_) + static_cast<int32_t>(i / 4);
  }
  for (size_t i = 0; i < out_rows.size(); ++i) out_rows[i] = static_cast<int32_t>(i);
  tokens_[lag_] = check.tokens[0];
  std::array<qrt_seq, kMostChainSteps> seqs = {};
  std::array<ChainStep, kMostChainSteps> chain = {};
  for (size_t i = 0; i < guesses.size(); ++i) {
    const uint64_t past = fed_ + (i == 0 ? 0 : lag_ + i), count = i == 0 ? rows : 1;
    seqs[i] = Sequence(past, count);
    ChainStep& link = chain[i];
    link.hands = Hands::kGuess;
    link.fed = i == 0 ? 0 : 1;
    link.step.program = i == 0 ? schedule.WithLogits(rows).program : *schedule.next();
    link.step.seqs = &seqs[i];
    link.step.n_seqs = 1;
    link.step.n_rows = link.step.n_out = static_cast<int64_t>(count);
    link.step.tokens = i == 0 ? tokens_.data() : check.tokens;
    link.step.positions = &positions[4 * (past - fed_)];
    link.step.out_rows = out_rows.data();
  }
  chain[0].before = {&kept_, 0, arena, 0, rows * row_bytes};
  if (guesses.size() > 1 && rows > 1) chain[1].before = {arena, (rows - 1) * row_bytes, arena, 0, row_bytes};
  ChainStep& last = chain[guesses.size()];
  last.step = check;
  last.fed = static_cast<uint32_t>(guesses.size());
  last.after = {arena, 0, &kept_, 0, static_cast<uint64_t>(check.n_rows) * row_bytes};

  const DeviceResult result = engine_.OnDevice(part, [&](Device& device) {
    const CopyRange range = {&kept_, 0, rows_.data(), rows * row_bytes};
    const DeviceResult placed = on_device_ ? DeviceResult::kOk : device.Write({&range, 1});
    if (placed != DeviceResult::kOk) return placed;
    return device.RunChain({chain.data(), guesses.size() + 1}, guesses.data());
  });
  if (result != DeviceResult::kOk) {
    Forget(position);
    return result;
  }
  // The next token counts as fed, the guesses wait with the rows that the trunk left ahead of them.
  fed_ += rows;
  lag_ = static_cast<uint32_t>(guesses.size());
  std::copy(guesses.begin(), guesses.end(), tokens_.begin());
  ahead_ = false;
  on_device_ = true;
  return DeviceResult::kOk;
}

}  // namespace qrt
