#include "runtime/qrun/log_sum_exp.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numbers>

namespace qrun {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
// So far below the highest logit the sum of any number of others is nothing.
constexpr float kNothing = 600;
// Added to a small double, this leaves its integer part in the lowest bits.
constexpr double kRounder = 0x1.8p52;
// 1 / i!: of |x| <= ln(2) / 2 the next term is below 3e-13 of e^x.
constexpr double kTerms[] = {1.0,       1.0,        1.0 / 2,     1.0 / 6,      1.0 / 24,     1.0 / 120,
                             1.0 / 720, 1.0 / 5040, 1.0 / 40320, 1.0 / 362880, 1.0 / 3628800};

// Inlined into functions for a processor, which alone may use its vectors; each takes as many numbers at a
// time, so that sums are added in one order.
struct Row {
  static constexpr size_t kLanes = 8;
  using Float [[gnu::vector_size(4 * kLanes)]] = float;
  using Double [[gnu::vector_size(8 * kLanes)]] = double;
  using Bits [[gnu::vector_size(8 * kLanes)]] = int64_t;

  // Of the logits from `at` on; behind the last, impossible ones.
  [[gnu::always_inline]] static void Load(std::span<const float> logits, size_t at, Float* x) {
    if (at + kLanes <= logits.size()) {
      std::memcpy(x, logits.data() + at, sizeof *x);
    } else {
      *x = Float{} - kInfinity;
      std::memcpy(x, logits.data() + at, (logits.size() - at) * sizeof(float));
    }
  }

  // Adds e^(x - highest).
  [[gnu::always_inline]] static void Add(const Float& x, float highest, Double* sums) {
    const float least = highest - kNothing;
    const Float inside = x > least ? x : Float{} + least;
    const Double distance = __builtin_convertvector(inside, Double) - static_cast<double>(highest);
    const Double rounded = distance * std::numbers::log2e + kRounder;
    const Double fraction = distance - (rounded - kRounder) * std::numbers::ln2;
    Double power = Double{} + kTerms[std::size(kTerms) - 1];
    for (size_t i = std::size(kTerms) - 1; i-- > 0;) power = power * fraction + kTerms[i];
    Bits exponent;
    std::memcpy(&exponent, &rounded, sizeof exponent);
    exponent = (exponent + 1023) << 52;
    Double scale;
    std::memcpy(&scale, &exponent, sizeof scale);
    *sums += power * scale;
  }

  [[gnu::always_inline]] static LogSumExp Sum(std::span<const float> logits) {
    Float highest = Float{} - kInfinity, odd = {};
    for (size_t i = 0; i < logits.size(); i += kLanes) {
      Float x;
      Load(logits, i, &x);
      highest = x > highest ? x : highest;
      odd = x < kInfinity ? odd : Float{} + 1;
    }
    for (size_t lane = 0; lane < kLanes; ++lane) {
      if (odd[lane] == 0) continue;
      const auto is_number = [](float logit) { return logit < kInfinity; };
      const auto bad = std::find_if_not(logits.begin(), logits.end(), is_number);
      return {0, static_cast<size_t>(bad - logits.begin())};
    }
    float top = -kInfinity;
    for (size_t lane = 0; lane < kLanes; ++lane) top = std::max(top, highest[lane]);
    Double sums = {};
    for (size_t i = 0; i < logits.size(); i += kLanes) {
      Float x;
      Load(logits, i, &x);
      Add(x, top, &sums);
    }
    double sum = 0;
    for (size_t lane = 0; lane < kLanes; ++lane) sum += sums[lane];
    return {top + std::log(sum), logits.size()};
  }
};

#ifdef __x86_64__
[[gnu::target("avx512f,avx512bw,avx512dq,avx512vl")]] LogSumExp SumAvx512(std::span<const float> logits) {
  return Row::Sum(logits);
}
[[gnu::target("avx2,fma")]] LogSumExp SumAvx2(std::span<const float> logits) {
  return Row::Sum(logits);
}
#endif

}  // namespace

LogSumExp LogSumExpOnAny(std::span<const float> logits) {
  return Row::Sum(logits);
}

LogSumExp LogSumExpOf(std::span<const float> logits) {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl"))
    return SumAvx512(logits);
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return SumAvx2(logits);
#endif
  return Row::Sum(logits);
}

}  // namespace qrun
