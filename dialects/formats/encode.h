// What the encoders of block formats share. Not for other rooms.
#ifndef QCC_DIALECTS_FORMATS_ENCODE_H_
#define QCC_DIALECTS_FORMATS_ENCODE_H_

#include <cmath>
#include <cstdint>
#include <cstring>

#include "dialects/formats/blocks.h"
#include "dialects/formats/codecs.h"
#include "dialects/formats/fit.h"

namespace qcc::codecs {

// Range of the stored group scales, biases applied.
constexpr int lowest_scale(const FormatDescription& d) {
  const bool is_i8 = d.plain.scale == GroupScale::kI8 && d.layout.scale.bits() == 8;
  return is_i8 ? -128 : d.layout.scale_plus;
}
constexpr int highest_scale(const FormatDescription& d) {
  return lowest_scale(d) + ((1 << d.layout.scale.bits()) - 1) * d.layout.scale_times;
}

// The scale as the block will hold it: `bits` takes its encoding.
inline float store_half(float v, uint16_t* bits) {
  uint8_t bytes[2];
  const float stored = store_scale(v, bytes);
  *bits = load_u16(bytes);
  return stored;
}

// Code of the value nearest to x, which is in units of the scale; of two at the same distance the even one
// (formats without a table) or the lower one.
inline int nearest_code(const FormatDescription& d, float x) {
  const PlainForm& p = d.plain;
  if (p.table_size == 0) return nearest_clamped(x, p.low(), d.ternary ? 1 : p.high()) + p.offset;
  int code = 0;
  for (int i = 1; i < p.table_size; ++i) {
    code += x > 0.5f * static_cast<float>(p.table[i - 1] + p.table[i]) ? 1 : 0;
  }
  return code;
}

inline int value_of(const PlainForm& p, int code) {
  return p.table_size != 0 ? p.table[code] : code - p.offset;
}

// Squared error of a group under scale s; `code` takes the codes.
template <int kRow, int N>
float quantise_group(const float* x, float s, uint8_t* code) {
  constexpr const PlainForm& p = kDescriptions[kRow].plain;
  const float inv = s != 0 ? 1.0f / s : 0.0f;
  float error = 0;
  for (int i = 0; i < N; ++i) {
    const int c = nearest_code(kDescriptions[kRow], x[i] * inv);
    code[i] = static_cast<uint8_t>(c);
    const float e = s * static_cast<float>(value_of(p, c)) - x[i];
    error += e * e;
  }
  return error;
}

// Four weights side by side. Written out because compilers turn the clamps of single weights into branches,
// which random weights mispredict: that takes ten times as long.
using Four = float __attribute__((vector_size(16)));

inline Four load_four(const float* x) {
  Four v;
  std::memcpy(&v, x, sizeof v);
  return v;
}
inline Four four_of(float v) {
  return Four{v, v, v, v};
}

// value_of(nearest_code(x)) of each: the values are small integers, so sums of them are exact.
template <int kRow>
Four nearest_values(Four x) {
  constexpr const FormatDescription& d = kDescriptions[kRow];
  constexpr const PlainForm& p = d.plain;
  if constexpr (p.table_size == 0) {
    constexpr float kLow = p.low(), kHigh = d.ternary ? 1 : p.high();
    constexpr float kInteger = 12582912.0f;  // as in nearest_clamped
    const Four above = x > four_of(kLow) ? x : four_of(kLow);
    return ((above < four_of(kHigh) ? above : four_of(kHigh)) + four_of(kInteger)) - four_of(kInteger);
  } else {
    Four value = four_of(p.table[0]);
    for (int i = 1; i < p.table_size; ++i) {
      const float bound = 0.5f * static_cast<float>(p.table[i - 1] + p.table[i]);
      const float step = static_cast<float>(p.table[i] - p.table[i - 1]);
      value += x > four_of(bound) ? four_of(step) : four_of(0);
    }
    return value;
  }
}

// Sums over a group of x * value and value^2, with x in units of the scale 1 / inv. Eight sums side by side,
// whose order is fixed.
template <int kRow, int N>
void sum_values(const float* x, float inv, double* xv, double* vv) {
  static_assert(N % 8 == 0);
  Four xvs[2] = {}, vvs[2] = {};
  for (int i = 0; i < N; i += 8) {
    for (int k = 0; k < 2; ++k) {
      const Four t = load_four(x + i + 4 * k) * four_of(inv);
      const Four v = nearest_values<kRow>(t);
      xvs[k] += t * v;
      vvs[k] += v * v;
    }
  }
  *xv = 0;
  *vv = 0;
  for (int k = 0; k < 8; ++k) {
    *xv += xvs[k / 4][k % 4];
    *vv += vvs[k / 4][k % 4];
  }
}

// Scale s of x ~ s * value for the values of row kRow, by squared error. The weight of largest magnitude
// meets the end of the range that reaches farther; formats with up to four values clip much more than that
// (the best ternary scale of normal weights is half their maximum) and, if they are not symmetric, try both
// directions.
template <int kRow, int N>
float fit_values(const float* x, EncodeEffort effort) {
  constexpr const FormatDescription& d = kDescriptions[kRow];
  constexpr const PlainForm& p = d.plain;
  constexpr bool kCoarse = p.bits <= 2;
  constexpr int kHigh = d.ternary ? 1 : p.high();
  constexpr int kEnd = -p.low() > kHigh ? p.low() : kHigh;
  constexpr int kDirections = kCoarse && -p.low() != kHigh ? 2 : 1;
  float extreme = 0;
  for (int i = 0; i < N; ++i) {
    if (std::fabs(x[i]) > std::fabs(extreme)) extreme = x[i];
  }
  if (extreme == 0) return 0;
  const float base = extreme / static_cast<float>(kEnd);
  const bool fast = effort == EncodeEffort::kFast;
  if (fast && !kCoarse) return base;
  const int first = kCoarse ? 0 : -9, last = kCoarse ? (fast ? 3 : 40) : 9;
  const double step = kCoarse ? (fast ? 0.5 : 0.05) : 0.1 / std::fabs(static_cast<double>(kEnd));
  double best_gain = -1;
  float best = base;
  for (int k = first; k <= last; ++k) {
    for (int direction = 0; direction < kDirections; ++direction) {
      const float inv = static_cast<float>((direction == 0 ? 1 : -1) * (1 + step * k) / base);
      if (!std::isfinite(inv)) continue;
      double xv, vv;
      sum_values<kRow, N>(x, inv, &xv, &vv);
      if (vv == 0) continue;
      const double gain = xv / inv * (xv / inv) / vv;
      if (gain > best_gain) {
        best_gain = gain;
        best = static_cast<float>(xv / vv / inv);
      }
    }
  }
  return best;
}

}  // namespace qcc::codecs

#endif  // QCC_DIALECTS_FORMATS_ENCODE_H_
