#include "runtime/engine/token_weights.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "runtime/engine/sampling_fixed.h"

namespace qrt {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

uint64_t ExactWeight(float logit, int64_t highest, uint64_t scale) {
  if (logit == -kInfinity) return 0;
  return sampling::Weight(highest - sampling::FixedOf(std::bit_cast<uint32_t>(logit)), scale);
}

uint64_t WeighExactly(const float* logits, size_t count, int64_t highest, uint64_t scale, uint64_t* weights) {
  uint64_t total = 0;
  for (size_t i = 0; i < count; ++i) total += weights[i] = ExactWeight(logits[i], highest, scale);
  return total;
}

// Inlined into functions for a processor, which alone may use its vectors.
#define QRT_INLINE [[gnu::always_inline]] inline

template <class T, size_t kBytes>
using Vector [[gnu::vector_size(kBytes)]] = T;

template <class To, class From>
QRT_INLINE To As(const From& bits) {
  return std::bit_cast<To>(bits);
}

// With vectors of kLanes numbers: as many as the processor has doubles in one. Of more, and of comparisons of
// doubles, g++ 12 makes code for one number at a time.
template <size_t kLanes>
struct Passes {
  using Float = Vector<float, 4 * kLanes>;
  using Double = Vector<double, 8 * kLanes>;
  using Int = Vector<int32_t, 4 * kLanes>;
  using Word = Vector<uint32_t, 4 * kLanes>;
  using Wide = Vector<int64_t, 8 * kLanes>;

  QRT_INLINE static Float Load(const float* logits) {
    Float x;
    std::memcpy(&x, logits, sizeof x);
    return x;
  }
  template <class Mask>
  QRT_INLINE static bool Any(const Mask& mask) {
    auto any = mask[0];
    for (size_t i = 1; i < kLanes; ++i) any |= mask[i];
    return any != 0;
  }

  // ---- ranges ----

  struct Range {
    Float lowest = Float{} + kInfinity, highest = Float{} - kInfinity;
    Int odd = {};  // not 0: no number was seen

    QRT_INLINE void Add(const Float& x) {
      lowest = x < lowest ? x : lowest;
      highest = x > highest ? x : highest;
      odd |= (As<Int>(x) & 0x7F800000) == 0x7F800000;
    }
    QRT_INLINE LogitRange Whole() const {
      LogitRange range;
      for (size_t i = 0; i < kLanes; ++i) {
        range.lowest = std::min(range.lowest, lowest[i]);
        range.highest = std::max(range.highest, highest[i]);
      }
      range.numbers = !Any(odd);
      return range;
    }
  };

  QRT_INLINE static size_t PassOver(const float* logits, size_t words, float bound, const uint32_t* all,
                                    const uint32_t* none, LogitRange* range) {
    Range lanes;
    size_t word = 0;
    for (; word < words; ++word) {
      if (all != nullptr && all[word] != ~uint32_t{0}) break;
      if (none != nullptr && none[word] != 0) break;
      Range with = lanes;
      for (size_t i = 0; i < kGlance; i += kLanes) with.Add(Load(logits + word * kGlance + i));
      if (Any(with.odd | (with.highest > bound))) break;
      lanes = with;
    }
    const LogitRange seen = lanes.Whole();
    range->lowest = std::min(range->lowest, seen.lowest);
    range->highest = std::max(range->highest, seen.highest);
    return word;
  }

  QRT_INLINE static LogitRange Copy(const float* logits, size_t count, float* to) {
    Range lanes;
    size_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
      const Float x = Load(logits + i);
      lanes.Add(x);
      std::memcpy(to + i, &x, sizeof x);
    }
    LogitRange range = lanes.Whole();
    for (; i < count; ++i) {
      to[i] = logits[i];
      range.lowest = std::min(range.lowest, logits[i]);
      range.highest = std::max(range.highest, logits[i]);
      range.numbers = range.numbers && sampling::IsNumber(std::bit_cast<uint32_t>(logits[i]));
    }
    return range;
  }

  // ---- weights ----

  // Weights are found in double, and where that leaves open which integer it is, again in integers. The
  // number of halvings is wrong by 2^-46 at most (up to 63, rounded twice), the polynomial by some 2^-48, so
  // a weight by less than 2^-45 of itself; the integers' own 13 roundings are 2^-58. The margin is four times
  // that.
  static constexpr double kMargin = 0x1p-43, kLeastMargin = 0x1p-30;
  // Added to a double below it and taken off again, this rounds it to an integer, which its lowest bits are.
  static constexpr double kRounder = 0x1p52;
  // Logits closer to 0 have fixed points of 32 bits.
  static constexpr float kNear = 128;
  static_assert(QRT_SAMPLING_POINT == 24, "2^24 times a logit below 2^7 fits in 32 bits");
  // From here on weights are 0.
  static constexpr int32_t kMostHalvings = 63;

  // Where *open is not 0, the weight has yet to be found in integers.
  QRT_INLINE static Wide WeighLanes(const Float& x, uint32_t top, double factor, Wide* open) {
    const Int near = ((As<Int>(x) & 0x7FFFFFFF) - std::bit_cast<int32_t>(kNear)) >> 31;
    const Float inside = As<Float>(As<Int>(x) & near);
    const Int fixed = __builtin_convertvector(inside * float{1 << QRT_SAMPLING_POINT}, Int);
    // Unsigned, by what signed numbers can be made to.
    const Word distance = top - As<Word>(fixed);
    const Double wide = __builtin_convertvector(As<Int>(distance ^ 0x80000000), Double) + 0x1p31;
    const Double halvings = wide * factor;  // less than 2^32 times 2^-2
    const Int whole = __builtin_convertvector(halvings, Int);
    const Double fraction = halvings - __builtin_convertvector(whole, Double);
    Double sum = Double{} + static_cast<double>(qrt_sampling_terms[QRT_SAMPLING_TERMS - 1]);
    for (size_t t = QRT_SAMPLING_TERMS - 1; t-- > 0;)
      sum = static_cast<double>(qrt_sampling_terms[t]) - sum * fraction;
    const Int beyond = whole - kMostHalvings;
    constexpr int kExponent = 1023 + QRT_SAMPLING_WEIGHT_BITS - 62 - kMostHalvings;  // terms are times 2^62
    const Wide exponent = __builtin_convertvector(kExponent - (beyond & beyond >> 31), Wide) << 52;
    const Double weight = sum * As<Double>(exponent);
    const Double rounded = (weight + kRounder) - kRounder, off = weight - rounded;
    const Double sure = As<Double>(As<Wide>(off) & INT64_MAX) - (weight * kMargin + kLeastMargin);
    *open = As<Wide>(sure) >> 63 | ~__builtin_convertvector(near, Wide);
    return As<Wide>(rounded + kRounder) - std::bit_cast<int64_t>(kRounder) + (As<Wide>(off) >> 63);
  }

  QRT_INLINE static Wide WeighAndStore(const float* logits, int64_t highest, uint64_t scale, double factor,
                                       uint64_t* weights) {
    Wide open;
    Wide found = WeighLanes(Load(logits), static_cast<uint32_t>(highest), factor, &open);
    std::memcpy(weights, &found, sizeof found);
    if (!Any(open)) return found;
    for (size_t i = 0; i < kLanes; ++i) {
      if (open[i]) weights[i] = ExactWeight(logits[i], highest, scale);
    }
    std::memcpy(&found, weights, sizeof found);
    return found;
  }

  QRT_INLINE static uint64_t Weigh(const float* logits, size_t count, int64_t highest, uint64_t scale,
                                   uint64_t* weights) {
    if (highest < INT32_MIN || highest > INT32_MAX)
      return WeighExactly(logits, count, highest, scale, weights);
    const double factor = static_cast<double>(scale) * 0x1p-64;
    Wide sums = {};
    size_t i = 0;
    for (; i + kLanes <= count; i += kLanes)
      sums += WeighAndStore(logits + i, highest, scale, factor, weights + i);
    if (i < count) {
      float last[kLanes];
      uint64_t found[kLanes];
      std::fill(std::copy_n(logits + i, count - i, last), last + kLanes, -kInfinity);
      sums += WeighAndStore(last, highest, scale, factor, found);
      std::copy_n(found, count - i, weights + i);
    }
    uint64_t total = 0;
    for (size_t j = 0; j < kLanes; ++j) total += static_cast<uint64_t>(sums[j]);
    return total;
  }
};

#define QRT_PASSES(Name, lanes, target)                                                             \
  target size_t PassOver##Name(const float* logits, size_t words, float bound, const uint32_t* all, \
                               const uint32_t* none, LogitRange* range) {                           \
    return Passes<lanes>::PassOver(logits, words, bound, all, none, range);                         \
  }                                                                                                 \
  target LogitRange Copy##Name(const float* logits, size_t count, float* to) {                      \
    return Passes<lanes>::Copy(logits, count, to);                                                  \
  }                                                                                                 \
  target uint64_t Weigh##Name(const float* logits, size_t count, int64_t highest, uint64_t scale,   \
                              uint64_t* weights) {                                                  \
    return Passes<lanes>::Weigh(logits, count, highest, scale, weights);                            \
  }                                                                                                 \
  constexpr TokenPasses k##Name = {#Name, PassOver##Name, Copy##Name, Weigh##Name};

#ifdef __x86_64__
QRT_PASSES(Avx512, 8, [[gnu::target("avx512f,avx512bw,avx512dq,avx512vl")]])
QRT_PASSES(Avx2, 4, [[gnu::target("avx2,fma")]])
#endif
QRT_PASSES(Any, 4, )

// Each processor runs what stands behind what it can run, too.
constexpr TokenPasses kAll[] = {
#ifdef __x86_64__
    kAvx512, kAvx2,
#endif
    kAny};

}  // namespace

std::span<const TokenPasses> AllTokenPasses() {
  const std::span<const TokenPasses> all(kAll);
#ifdef __x86_64__
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return all.subspan(2);
  if (!__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512dq") ||
      !__builtin_cpu_supports("avx512vl"))
    return all.subspan(1);
#endif
  return all;
}

}  // namespace qrt
