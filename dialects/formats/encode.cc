// Encoders of the formats whose codes are bits or base-3 digits, one for each way of scaling them: each reads
// what it needs from the description.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "dialects/formats/encode.h"
#include "dialects/formats/encode_points.h"

namespace qcc::codecs {
namespace {

constexpr int kMaxBlock = 256;

// --- one scale for each group, nothing else ---

// Nearest unsigned E4M3 number, at most 448 (0x7e); never 0, which would lose the group.
uint16_t nearest_ue4m3(float v) {
  if (!(v < 448)) return 0x7e;
  if (v < 0x1p-6f) return static_cast<uint16_t>(std::max(nearest_clamped(v * 0x1p9f, 0, 8), 1));
  const uint32_t bits =
      std::bit_cast<uint32_t>(v);  // 3 of 23 mantissa bits stay, exponent bias 127 becomes 7
  return static_cast<uint16_t>(((bits + 0x7ffff + (bits >> 20 & 1)) >> 20) - (120 << 3));
}

// The encoding to start from, for weights that reach `largest`, and the range that is safe: larger E8M0
// scales make infinite weights.
uint16_t first_scale(const PlainForm& p, float largest, int* low, int* high) {
  if (p.base == BaseScale::kE8m0) {
    // 2^(e - 127) * factor * 8 is the power of two at or below the largest weight: that is between 8 and 16
    // in units of the scale, and the table ends at 12.
    *low = 0;
    *high = 252;
    const int e = std::ilogb(largest) - std::ilogb(p.factor) + 127 - 3;
    return static_cast<uint16_t>(std::clamp(e, *low, *high));
  }
  *low = 1;
  *high = 0x7e;
  return nearest_ue4m3(largest / (static_cast<float>(p.high()) * p.factor));
}

// Scales of 8 bits: one of few values, so kBest tries the neighbours.
template <int kRow, int N>
void encode_small_scale(const float* x, EncodeEffort effort, uint16_t* base, uint8_t* code) {
  constexpr const PlainForm& p = kDescriptions[kRow].plain;
  float largest = 0;
  for (int i = 0; i < N; ++i) largest = std::max(largest, std::fabs(x[i]));
  *base = 0;
  if (largest == 0) {
    quantise_group<kRow, N>(x, 0, code);
    return;
  }
  int low, high;
  const int first = first_scale(p, largest, &low, &high);
  // Of E4M3, 8 numbers an octave, as far as the step between the two largest values (4 to 6) and one more.
  const int reach = effort == EncodeEffort::kFast ? 0 : (p.base == BaseScale::kE8m0 ? 1 : 6);
  float best = std::numeric_limits<float>::infinity();
  for (int k = 0; k <= 2 * reach; ++k) {
    const int bits = first + (k % 2 == 0 ? k / 2 : -(k + 1) / 2);
    if (bits < low || bits > high) continue;
    uint8_t trial[N];
    const float s = base_value(p.base, static_cast<uint16_t>(bits)) * p.factor;
    const float error = quantise_group<kRow, N>(x, s, trial);
    if (k != 0 && !(error < best)) continue;
    best = error;
    *base = static_cast<uint16_t>(bits);
    std::memcpy(code, trial, N);
  }
}

template <int kRow, int N>
void encode_one_scale(const float* x, EncodeEffort effort, uint16_t* base, uint8_t* code) {
  constexpr const PlainForm& p = kDescriptions[kRow].plain;
  if constexpr (p.base != BaseScale::kHalf) {
    encode_small_scale<kRow, N>(x, effort, base, code);
  } else if constexpr (p.bits == 8) {
    // Fine enough that the largest magnitude fits both ends: codes stay within +-127.
    float amax = 0;
    for (int i = 0; i < N; ++i) amax = std::fabs(x[i]) > amax ? std::fabs(x[i]) : amax;
    const float d = store_half(amax / 127.0f, base);
    const float inv = d != 0 ? 1.0f / d : 0.0f;
    for (int i = 0; i < N; ++i) {
      code[i] = static_cast<uint8_t>(nearest_clamped(x[i] * inv, -127, 127) + p.offset);
    }
  } else if constexpr (p.bits == 1) {
    // Signs: whatever the scale, the codes are the same.
    double sum = 0;
    for (int i = 0; i < N; ++i) sum += std::fabs(x[i]);
    const float d = store_half(static_cast<float>(sum / N), base);
    quantise_group<kRow, N>(x, d, code);
  } else {
    float scale;
    if constexpr (p.table_size == 0 && p.bits > 2) {
      scale = fit_symmetric<N>(x, p.offset, effort);
    } else {
      scale = fit_values<kRow, N>(x, effort);
    }
    quantise_group<kRow, N>(x, store_half(scale, base), code);
  }
}

// --- a scale and a half minimum ---

template <int kRow, int N>
void encode_affine(const float* x, EncodeEffort effort, PlainBlock& out) {
  constexpr int kMax = kDescriptions[kRow].plain.high();
  const Line line = fit_affine<N>(x, kMax, /*offset_at_most_zero=*/false, effort);
  const float d = store_half(line.scale, &out.base[0]);
  const float m = store_half(line.offset, &out.minimum);
  const float inv = d != 0 ? 1.0f / d : 0.0f;
  for (int i = 0; i < N; ++i) out.code[i] = static_cast<uint8_t>(nearest_clamped((x[i] - m) * inv, 0, kMax));
}

// --- integer scales and minima of groups under two halves ---

// Codes of the whole super-block under y = (d * scale) * q - dmin * min; returns the squared error.
template <int kRow>
double quantise_affine(const float* x, float d, float dmin, PlainBlock& b) {
  constexpr const PlainForm& p = kDescriptions[kRow].plain;
  double error = 0;
  for (int j = 0; j < p.scales(); ++j) {
    float s = d * static_cast<float>(b.scale[j]);
    float m = dmin * static_cast<float>(b.min[j]);
    float inv = s != 0 ? 1.0f / s : 0.0f;
    float group_error = 0;
    for (int i = j * p.columns_per_scale; i < (j + 1) * p.columns_per_scale; ++i) {
      int code = nearest_clamped((x[i] + m) * inv, 0, p.high());
      b.code[i] = static_cast<uint8_t>(code);
      float e = s * static_cast<float>(code) - m - x[i];
      group_error += e * e;
    }
    error += group_error;
  }
  return error;
}

// d and dmin that minimise the squared error for codes and group parameters already chosen (normal equations
// of x ~ d * (scale * q) - dmin * min). False where they are singular or the answer is not usable.
template <int kRow>
bool refit_affine(const float* x, const PlainBlock& b, float* d, float* dmin) {
  constexpr const PlainForm& p = kDescriptions[kRow].plain;
  double aa = 0, ab = 0, bb = 0, ax = 0, bx = 0;
  for (int i = 0; i < p.block; ++i) {
    double a = static_cast<double>(b.scale[i / p.columns_per_scale]) * b.code[i];
    double c = -static_cast<double>(b.min[i / p.columns_per_scale]);
    aa += a * a;
    ab += a * c;
    bb += c * c;
    ax += a * x[i];
    bx += c * x[i];
  }
  double nd, nm;
  if (bb == 0) {
    if (aa == 0) return false;
    nd = ax / aa;
    nm = *dmin;
  } else {
    double det = aa * bb - ab * ab;
    if (!(det > 1e-9 * aa * bb)) return false;
    nd = (ax * bb - bx * ab) / det;
    nm = (bx * aa - ax * ab) / det;
  }
  if (!(nd > 0) || !(nm >= 0) || !(nd < 65504) || !(nm < 65504)) return false;
  *d = static_cast<float>(nd);
  *dmin = static_cast<float>(nm);
  return true;
}

template <int kRow>
void encode_affine_groups(const float* x, EncodeEffort effort, PlainBlock& out) {
  constexpr const PlainForm& p = kDescriptions[kRow].plain;
  constexpr int kTop = highest_scale(kDescriptions[kRow]);
  float scale[p.scales()], min[p.scales()];
  float max_scale = 0, max_min = 0;
  for (int j = 0; j < p.scales(); ++j) {
    Line line = fit_affine<p.columns_per_scale>(x + j * p.columns_per_scale, p.high(),
                                                /*offset_at_most_zero=*/true, effort);
    scale[j] = line.scale;
    min[j] = -line.offset;
    max_scale = std::max(max_scale, scale[j]);
    max_min = std::max(max_min, min[j]);
  }
  float d = store_half(max_scale / static_cast<float>(kTop), &out.base[0]);
  float dmin = store_half(max_min / static_cast<float>(kTop), &out.minimum);
  float inv_d = d != 0 ? 1.0f / d : 0.0f;
  float inv_dmin = dmin != 0 ? 1.0f / dmin : 0.0f;
  for (int j = 0; j < p.scales(); ++j) {
    out.scale[j] = static_cast<uint8_t>(nearest_clamped(scale[j] * inv_d, 0, kTop));
    out.min[j] = static_cast<uint8_t>(nearest_clamped(min[j] * inv_dmin, 0, kTop));
  }
  double error = quantise_affine<kRow>(x, d, dmin, out);
  for (int round = 0; effort == EncodeEffort::kBest && round < 2; ++round) {
    if (!refit_affine<kRow>(x, out, &d, &dmin)) break;
    PlainBlock trial = out;
    d = store_half(d, &trial.base[0]);
    dmin = store_half(dmin, &trial.minimum);
    double new_error = quantise_affine<kRow>(x, d, dmin, trial);
    if (!(new_error < error)) break;
    error = new_error;
    out = trial;
  }
}

// --- integer scales of groups under one half ---

template <int kRow>
double quantise_groups(const float* x, float d, PlainBlock& b) {
  constexpr const PlainForm& p = kDescriptions[kRow].plain;
  constexpr int kGroup = p.columns_per_scale;
  double error = 0;
  for (int j = 0; j < p.scales(); ++j) {
    const float s = d * static_cast<float>(static_cast<int8_t>(b.scale[j]));
    error += quantise_group<kRow, kGroup>(x + j * kGroup, s, b.code + j * kGroup);
  }
  return error;
}

template <int kRow>
void encode_groups(const float* x, EncodeEffort effort, PlainBlock& out) {
  constexpr const PlainForm& p = kDescriptions[kRow].plain;
  constexpr int kGroup = p.columns_per_scale;
  constexpr int kLow = lowest_scale(kDescriptions[kRow]), kHigh = highest_scale(kDescriptions[kRow]);
  float scale[p.scales()];
  float extreme = 0;
  for (int j = 0; j < p.scales(); ++j) {
    if constexpr (p.table_size == 0) {
      scale[j] = fit_symmetric<kGroup>(x + j * kGroup, p.offset, effort);
    } else {
      scale[j] = fit_values<kRow, kGroup>(x + j * kGroup, effort);
    }
    if (std::fabs(scale[j]) > std::fabs(extreme)) extreme = scale[j];
  }
  // The group scale of largest magnitude becomes the low end of the range, which has one number more.
  float d = store_half(extreme / static_cast<float>(kLow), &out.base[0]);
  float inv_d = d != 0 ? 1.0f / d : 0.0f;
  for (int j = 0; j < p.scales(); ++j) {
    out.scale[j] = static_cast<uint8_t>(nearest_clamped(scale[j] * inv_d, kLow, kHigh));
  }
  double error = quantise_groups<kRow>(x, d, out);
  for (int round = 0; effort == EncodeEffort::kBest && round < 2; ++round) {
    double aa = 0, ax = 0;
    for (int i = 0; i < p.block; ++i) {
      double a = static_cast<double>(static_cast<int8_t>(out.scale[i / kGroup])) * value_of(p, out.code[i]);
      aa += a * a;
      ax += a * x[i];
    }
    if (aa == 0) break;
    PlainBlock trial = out;
    d = store_half(static_cast<float>(ax / aa), &trial.base[0]);
    double new_error = quantise_groups<kRow>(x, d, trial);
    if (!(new_error < error)) break;
    error = new_error;
    out = trial;
  }
}

template <int kRow>
void encode_codes(const float* src, uint8_t* dst, EncodeEffort effort) {
  constexpr const FormatDescription& d = kDescriptions[kRow];
  constexpr const PlainForm& p = d.plain;
  float x[kMaxBlock];
  copy_finite(src, p.block, x);
  PlainBlock b;
  if constexpr (p.minimum == Minimum::kScaled) {
    encode_affine_groups<kRow>(x, effort, b);
  } else if constexpr (p.minimum == Minimum::kHalf) {
    encode_affine<kRow, p.block>(x, effort, b);
  } else if constexpr (p.scale != GroupScale::kNone) {
    encode_groups<kRow>(x, effort, b);
  } else {
    for (int k = 0; k < p.bases(); ++k) {
      const int at = k * p.columns_per_base;
      encode_one_scale<kRow, p.columns_per_base>(x + at, effort, &b.base[k], b.code + at);
    }
  }
  std::memset(dst, 0, static_cast<size_t>(block_bytes(d)));
  put_scales<kRow>(b, dst);
  if constexpr (d.layout.trits[0].run != 0) {
    put_trits<kRow>(b.code, dst);
  } else {
    put_bits<kRow>(b.code, dst);
  }
}

template <int kRow>
void encode_as(const float* src, uint8_t* dst, EncodeEffort effort) {
  if constexpr (kDescriptions[kRow].layout.book.count != 0) {
    encode_points<kRow>(src, dst, effort);
  } else {
    encode_codes<kRow>(src, dst, effort);
  }
}

}  // namespace

#define QCC_ENCODE_kPlain(id)
#define QCC_ENCODE_kBlock(id)                                             \
  void encode_##id(const float* src, uint8_t* dst, EncodeEffort effort) { \
    encode_as<static_cast<int>(Format::id)>(src, dst, effort);            \
  }
#define QCC_FORMAT(id, name, ggml_id, elems, bytes, cls) QCC_ENCODE_##cls(id)
#include "dialects/formats/formats.def"
#undef QCC_FORMAT

}  // namespace qcc::codecs
