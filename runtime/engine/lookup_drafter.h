// Guesses that a sequence goes on as it did the last time that it said the same.
#ifndef RUNTIME_ENGINE_LOOKUP_DRAFTER_H_
#define RUNTIME_ENGINE_LOOKUP_DRAFTER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/engine/drafter.h"

namespace qrt {

// Of the earlier places where the last few tokens stand (the longest such end, at most kLongest, at least
// kShortest), the latest: what follows there is the guess. Sees what the session was fed since it was last
// reset or restored.
class LookupDrafter final : public Drafter {
 public:
  static constexpr size_t kLongest = 4, kShortest = 2;

  // For sessions of `capacity` tokens. Throws std::bad_alloc.
  explicit LookupDrafter(uint64_t capacity);

  bool wants_rows() const override { return false; }
  void Follow(uint64_t position, std::span<const int32_t> tokens, const float* rows) override;
  size_t Propose(uint64_t position, int32_t token, std::span<int32_t> guesses) override;
  void BackTo(uint64_t position) override;
  void Forget(uint64_t position) override;

 private:
  uint64_t begin_ = 0;           // position of the first token that it knows
  std::vector<int32_t> tokens_;  // from there on; the capacity is reserved
};

}  // namespace qrt

#endif  // RUNTIME_ENGINE_LOOKUP_DRAFTER_H_
