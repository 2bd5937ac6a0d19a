// What choosing a token asks of all logits of a vocabulary: their range, and the sum of their weights. With
// the widest vectors of the processor; the results are the same with any.
#ifndef RUNTIME_ENGINE_TOKEN_WEIGHTS_H_
#define RUNTIME_ENGINE_TOKEN_WEIGHTS_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace qrt {

// Of logits that are numbers; as it begins, of none.
struct LogitRange {
  float lowest = std::numeric_limits<float>::infinity();
  float highest = -std::numeric_limits<float>::infinity();
  bool numbers = true;  // false: one of those looked at is NaN or infinity, and the range says nothing
};

// Logits that are looked at together: those of a word of a bit mask.
inline constexpr size_t kGlance = 32;

// The most logits that are weighed in a call.
inline constexpr size_t kWeighedTogether = 256;

struct TokenPasses {
  const char* vectors;  // of which processors

  // How many of the `words` times kGlance logits can be passed over: from the first on, up to the first
  // kGlance of which one is above `bound` or no number, or whose word of `all` is not all ones, or of `none`
  // not 0 (null: as if they were). *range takes in those that are passed over. The result is in words.
  size_t (*pass_over)(const float* logits, size_t words, float bound, const uint32_t* all,
                      const uint32_t* none, LogitRange* range);
  // The range of `count` logits, copied to `to`.
  LogitRange (*copy)(const float* logits, size_t count, float* to);
  // weights[i] = the weight of logits[i], which is a number or -infinity (weight 0), beside a highest one
  // whose fixed point is `highest` (sampling_fixed.h: Weight of the distance, to the bit). Returns their sum.
  uint64_t (*weigh)(const float* logits, size_t count, int64_t highest, uint64_t scale, uint64_t* weights);
};

// What this processor can run, the fastest first.
std::span<const TokenPasses> AllTokenPasses();

}  // namespace qrt

#endif  // RUNTIME_ENGINE_TOKEN_WEIGHTS_H_
