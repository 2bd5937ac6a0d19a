#include "runtime/engine/lookup_drafter.h"

#include <algorithm>

namespace qrt {

LookupDrafter::LookupDrafter(uint64_t capacity) {
  tokens_.reserve(capacity + 1);
}

void LookupDrafter::Forget(uint64_t position) {
  begin_ = position;
  tokens_.clear();
}

void LookupDrafter::BackTo(uint64_t position) {
  if (position < begin_ || position > begin_ + tokens_.size()) return Forget(position);
  tokens_.resize(position - begin_);
}

void LookupDrafter::Follow(uint64_t position, std::span<const int32_t> tokens, const float*) {
  BackTo(position);
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
}

size_t LookupDrafter::Propose(uint64_t position, int32_t token, std::span<int32_t> guesses) {
  BackTo(position);
  tokens_.push_back(token);
  const size_t size = tokens_.size();
  size_t longest = kShortest - 1, after = 0;  // the latest of the longest
  for (size_t end = size - 1; end >= kShortest; --end) {
    size_t same = 0;
    while (same < std::min(kLongest, end) && tokens_[end - 1 - same] == tokens_[size - 1 - same]) ++same;
    if (same <= longest) continue;
    longest = same;
    after = end;
    if (same == kLongest) break;
  }
  size_t count = 0;
  for (; after != 0 && count < guesses.size() && after + count < size; ++count) {
    guesses[count] = tokens_[after + count];
  }
  tokens_.pop_back();
  return count;
}

}  // namespace qrt
