#include "runtime/engine/second_model.h"

#include <algorithm>

#include "runtime/engine/engine.h"

namespace qrt {

Status SecondModel::Init(uint32_t vocab_size, const qrt_allocator* allocator) {
  vocab_size_ = vocab_size;
  const Engine& engine = session_.engine();
  QRT_RETURN_IF_ERROR(session_.Init({capacity_, Session::kMaxDraftTokens}, allocator));
  SamplerOptions options;
  options.temperature = 0;
  Result<Sampler> sampler = Sampler::Create(engine.plan().vocab_size, options);
  if (!sampler.ok()) return sampler.status();
  greedy_.emplace(std::move(*sampler));
  known_.reserve(capacity_ + 1);
  held_.reserve(capacity_ + 1);
  return Status();
}

void SecondModel::Forget(uint64_t position) {
  begin_ = position;
  known_.clear();
  agreed_ = 0;
}

void SecondModel::BackTo(uint64_t position) {
  if (position < begin_ || position > begin_ + known_.size()) return Forget(position);
  known_.resize(position - begin_);
  agreed_ = std::min(agreed_, known_.size());
}

void SecondModel::Follow(uint64_t position, std::span<const int32_t> tokens, const float*) {
  BackTo(position);
  known_.insert(known_.end(), tokens.begin(), tokens.end());
}

bool SecondModel::Agree() {
  const size_t both = std::min(known_.size(), held_.size());
  while (agreed_ < both && known_[agreed_] == held_[agreed_]) ++agreed_;
  if (!session_.damaged() && held_.size() == agreed_ && session_.position() == agreed_) return true;
  const uint64_t back = session_.position() - std::min<uint64_t>(agreed_, session_.position());
  if (session_.position() == held_.size() && back <= session_.rewindable() && session_.Rewind(back).ok()) {
    held_.resize(agreed_);
    return true;
  }
  held_.clear();
  agreed_ = 0;
  return session_.Reset().ok();
}

bool SecondModel::Feed(std::span<const int32_t> tokens, int32_t* next) {
  qrt_append_options options = {};
  options.want = QRT_LOGITS_NONE;
  Batch batch(session_.engine());
  const bool fed =
      batch.Add(session_, tokens.data(), tokens.size(), &options, next != nullptr ? &*greedy_ : nullptr, next)
          .ok() &&
      batch.Run().ok();
  if (fed) held_.insert(held_.end(), tokens.begin(), tokens.end());
  return fed;
}

size_t SecondModel::Propose(uint64_t position, int32_t token, std::span<int32_t> guesses) {
  BackTo(position);
  if (!Agree()) return 0;
  const std::span<const int32_t> behind = std::span(known_).subspan(agreed_);
  const size_t most = session_.engine().schedule().max_rows();
  if (behind.size() >= most) {
    Feed(behind.first(most), nullptr);
    return 0;
  }
  known_.push_back(token);  // room for it is reserved
  size_t count = 0;
  for (std::span<const int32_t> fed = std::span(known_).subspan(agreed_); count < guesses.size();) {
    int32_t next = -1;
    if (!Feed(fed, &next) || static_cast<uint32_t>(next) >= vocab_size_) break;
    guesses[count] = next;
    fed = guesses.subspan(count++, 1);
  }
  known_.pop_back();
  return count;
}

}  // namespace qrt
