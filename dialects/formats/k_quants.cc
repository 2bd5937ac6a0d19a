// The 256-weight super-blocks: Q4_K, Q5_K (8 groups of 32 with a 6-bit scale and minimum) and Q6_K (16 groups
// of 16 with an 8-bit scale).
#include <algorithm>
#include <cmath>
#include <cstring>

#include "dialects/formats/codecs.h"
#include "dialects/formats/fit.h"

namespace qcc::codecs {
namespace {

constexpr int kSuper = 256;
constexpr int kGroups = 8;
constexpr int kGroup = 32;

struct ScaleMin {
  uint8_t scale;
  uint8_t min;
};

// Scale and minimum of group j from the 12 packed bytes: groups 0-3 lie in the low 6 bits of bytes 0-3 and
// 4-7; of groups 4-7 the low nibbles lie in bytes 8-11 and the upper two bits on top of bytes 0-7.
ScaleMin unpack_scale_min(const uint8_t* b, int j) {
  if (j < 4) return {static_cast<uint8_t>(b[j] & 63), static_cast<uint8_t>(b[j + 4] & 63)};
  return {static_cast<uint8_t>((b[j + 4] & 15) | ((b[j - 4] >> 6) << 4)),
          static_cast<uint8_t>((b[j + 4] >> 4) | ((b[j] >> 6) << 4))};
}

void pack_scale_min(const ScaleMin* g, uint8_t* b) {
  for (int j = 0; j < 4; ++j) {
    b[j] = static_cast<uint8_t>(g[j].scale | ((g[j + 4].scale >> 4) << 6));
    b[j + 4] = static_cast<uint8_t>(g[j].min | ((g[j + 4].min >> 4) << 6));
    b[j + 8] = static_cast<uint8_t>((g[j + 4].scale & 15) | ((g[j + 4].min & 15) << 4));
  }
}

// Codes of the whole super-block under y = (d * scale) * q - dmin * min; returns the squared error.
double quantise_affine(const float* x, float d, float dmin, const ScaleMin* g, int nmax, uint8_t* q) {
  double error = 0;
  for (int j = 0; j < kGroups; ++j) {
    float s = d * static_cast<float>(g[j].scale);
    float m = dmin * static_cast<float>(g[j].min);
    float inv = s != 0 ? 1.0f / s : 0.0f;
    float group_error = 0;
    for (int i = j * kGroup; i < (j + 1) * kGroup; ++i) {
      int code = nearest_clamped((x[i] + m) * inv, 0, nmax);
      q[i] = static_cast<uint8_t>(code);
      float e = s * static_cast<float>(code) - m - x[i];
      group_error += e * e;
    }
    error += group_error;
  }
  return error;
}

// d and dmin that minimise the squared error for codes and group parameters already chosen (normal equations
// of x ~ d * (scale * q) - dmin * min). False where they are singular or the answer is not usable.
bool refit_affine(const float* x, const ScaleMin* g, const uint8_t* q, float* d, float* dmin) {
  double aa = 0, ab = 0, bb = 0, ax = 0, bx = 0;
  for (int i = 0; i < kSuper; ++i) {
    double a = static_cast<double>(g[i / kGroup].scale) * q[i];
    double b = -static_cast<double>(g[i / kGroup].min);
    aa += a * a;
    ab += a * b;
    bb += b * b;
    ax += a * x[i];
    bx += b * x[i];
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

// Chooses everything but the bit layout: header (d, dmin, packed scales: 16 bytes) and one code per weight.
void encode_affine_super(const float* src, int nmax, EncodeEffort effort, uint8_t* header, uint8_t* q) {
  float x[kSuper];
  copy_finite(src, kSuper, x);
  float scale[kGroups], min[kGroups];
  float max_scale = 0, max_min = 0;
  for (int j = 0; j < kGroups; ++j) {
    Line line = fit_affine<kGroup>(x + j * kGroup, nmax, /*offset_at_most_zero=*/true, effort);
    scale[j] = line.scale;
    min[j] = -line.offset;
    max_scale = std::max(max_scale, scale[j]);
    max_min = std::max(max_min, min[j]);
  }
  float d = store_scale(max_scale / 63.0f, header);
  float dmin = store_scale(max_min / 63.0f, header + 2);
  ScaleMin g[kGroups];
  float inv_d = d != 0 ? 1.0f / d : 0.0f;
  float inv_dmin = dmin != 0 ? 1.0f / dmin : 0.0f;
  for (int j = 0; j < kGroups; ++j) {
    g[j].scale = static_cast<uint8_t>(nearest_clamped(scale[j] * inv_d, 0, 63));
    g[j].min = static_cast<uint8_t>(nearest_clamped(min[j] * inv_dmin, 0, 63));
  }
  double error = quantise_affine(x, d, dmin, g, nmax, q);
  for (int round = 0; effort == EncodeEffort::kBest && round < 2; ++round) {
    float new_d = d, new_dmin = dmin;
    if (!refit_affine(x, g, q, &new_d, &new_dmin)) break;
    uint8_t new_header[4], new_q[kSuper];
    new_d = store_scale(new_d, new_header);
    new_dmin = store_scale(new_dmin, new_header + 2);
    double new_error = quantise_affine(x, new_d, new_dmin, g, nmax, new_q);
    if (!(new_error < error)) break;
    error = new_error;
    d = new_d;
    dmin = new_dmin;
    std::memcpy(header, new_header, sizeof new_header);
    std::memcpy(q, new_q, sizeof new_q);
  }
  pack_scale_min(g, header + 4);
}

}  // namespace

// half d; half dmin; u8 scales[12]; u8 qs[128]. Bytes 32p..32p+31 of qs: low nibbles group 2p, high nibbles
// group 2p+1.
void decode_Q4_K(const uint8_t* src, float* dst) {
  float d = load_half(src);
  float dmin = load_half(src + 2);
  const uint8_t* qs = src + 16;
  for (int j = 0; j < kGroups; ++j) {
    ScaleMin g = unpack_scale_min(src + 4, j);
    float s = d * static_cast<float>(g.scale);
    float m = dmin * static_cast<float>(g.min);
    for (int l = 0; l < kGroup; ++l) {
      int q = (qs[(j / 2) * kGroup + l] >> (4 * (j & 1))) & 15;
      dst[j * kGroup + l] = s * static_cast<float>(q) - m;
    }
  }
}

void encode_Q4_K(const float* src, uint8_t* dst, EncodeEffort effort) {
  uint8_t q[kSuper];
  encode_affine_super(src, 15, effort, dst, q);
  for (int p = 0; p < 4; ++p) {
    for (int l = 0; l < kGroup; ++l) {
      dst[16 + p * kGroup + l] = static_cast<uint8_t>(q[64 * p + l] | (q[64 * p + 32 + l] << 4));
    }
  }
}

// half d; half dmin; u8 scales[12]; u8 qh[32]; u8 qs[128]. As Q4_K; bit j of qh[l] is bit 4 of weight l of
// group j.
void decode_Q5_K(const uint8_t* src, float* dst) {
  float d = load_half(src);
  float dmin = load_half(src + 2);
  const uint8_t* qh = src + 16;
  const uint8_t* qs = src + 48;
  for (int j = 0; j < kGroups; ++j) {
    ScaleMin g = unpack_scale_min(src + 4, j);
    float s = d * static_cast<float>(g.scale);
    float m = dmin * static_cast<float>(g.min);
    for (int l = 0; l < kGroup; ++l) {
      int q = ((qs[(j / 2) * kGroup + l] >> (4 * (j & 1))) & 15) | (((qh[l] >> j) & 1) << 4);
      dst[j * kGroup + l] = s * static_cast<float>(q) - m;
    }
  }
}

void encode_Q5_K(const float* src, uint8_t* dst, EncodeEffort effort) {
  uint8_t q[kSuper];
  encode_affine_super(src, 31, effort, dst, q);
  std::memset(dst + 16, 0, 32);
  for (int j = 0; j < kGroups; ++j) {
    for (int l = 0; l < kGroup; ++l) dst[16 + l] |= static_cast<uint8_t>((q[j * kGroup + l] >> 4) << j);
  }
  for (int p = 0; p < 4; ++p) {
    for (int l = 0; l < kGroup; ++l) {
      dst[48 + p * kGroup + l] =
          static_cast<uint8_t>((q[64 * p + l] & 15) | ((q[64 * p + 32 + l] & 15) << 4));
    }
  }
}

// u8 ql[128]; u8 qh[64]; i8 scales[16]; half d. Per half of 128 weights, for l < 32 and k < 4: weight l + 32k
// has its low nibble in ql[l + 32(k & 1)] (low half of the byte for k < 2) and its upper two bits at bit 2k
// of qh[l].
void decode_Q6_K(const uint8_t* src, float* dst) {
  float d = load_half(src + 208);
  for (int half = 0; half < 2; ++half) {
    const uint8_t* ql = src + 64 * half;
    const uint8_t* qh = src + 128 + 32 * half;
    const uint8_t* sc = src + 192 + 8 * half;
    float* y = dst + 128 * half;
    for (int k = 0; k < 4; ++k) {
      for (int l = 0; l < 32; ++l) {
        int q = ((ql[l + 32 * (k & 1)] >> (4 * (k >> 1))) & 15) | (((qh[l] >> (2 * k)) & 3) << 4);
        float s = d * static_cast<float>(static_cast<int8_t>(sc[l / 16 + 2 * k]));
        y[l + 32 * k] = s * static_cast<float>(q - 32);
      }
    }
  }
}

namespace {

// Codes of a Q6_K super-block under y = (d * scale) * q; returns the squared error.
double quantise_symmetric(const float* x, float d, const int8_t* scale, int8_t* q) {
  double error = 0;
  for (int j = 0; j < 16; ++j) {
    float s = d * static_cast<float>(scale[j]);
    float inv = s != 0 ? 1.0f / s : 0.0f;
    float group_error = 0;
    for (int i = j * 16; i < (j + 1) * 16; ++i) {
      int code = nearest_clamped(x[i] * inv, -32, 31);
      q[i] = static_cast<int8_t>(code);
      float e = s * static_cast<float>(code) - x[i];
      group_error += e * e;
    }
    error += group_error;
  }
  return error;
}

}  // namespace

void encode_Q6_K(const float* src, uint8_t* dst, EncodeEffort effort) {
  float x[kSuper];
  copy_finite(src, kSuper, x);
  float scale[16];
  float extreme = 0;
  for (int j = 0; j < 16; ++j) {
    scale[j] = fit_symmetric<16>(x + 16 * j, 32, effort);
    if (std::fabs(scale[j]) > std::fabs(extreme)) extreme = scale[j];
  }
  // The group scale of largest magnitude becomes -128, the end of the i8 range that has one code more.
  float d = store_scale(extreme / -128.0f, dst + 208);
  float inv_d = d != 0 ? 1.0f / d : 0.0f;
  int8_t sc[16], q[kSuper];
  for (int j = 0; j < 16; ++j) sc[j] = static_cast<int8_t>(nearest_clamped(scale[j] * inv_d, -128, 127));
  double error = quantise_symmetric(x, d, sc, q);
  for (int round = 0; effort == EncodeEffort::kBest && round < 2; ++round) {
    double aa = 0, ax = 0;
    for (int i = 0; i < kSuper; ++i) {
      double a = static_cast<double>(sc[i / 16]) * q[i];
      aa += a * a;
      ax += a * x[i];
    }
    if (aa == 0) break;
    uint8_t new_d_bytes[2];
    int8_t new_q[kSuper];
    float new_d = store_scale(static_cast<float>(ax / aa), new_d_bytes);
    double new_error = quantise_symmetric(x, new_d, sc, new_q);
    if (!(new_error < error)) break;
    error = new_error;
    std::memcpy(dst + 208, new_d_bytes, 2);
    std::memcpy(q, new_q, sizeof new_q);
  }
  for (int half = 0; half < 2; ++half) {
    uint8_t code[128];
    for (int i = 0; i < 128; ++i) code[i] = static_cast<uint8_t>(q[128 * half + i] + 32);
    for (int l = 0; l < 64; ++l) {
      dst[64 * half + l] = static_cast<uint8_t>((code[l] & 15) | (code[l + 64] << 4));
    }
    for (int l = 0; l < 32; ++l) {
      dst[128 + 32 * half + l] =
          static_cast<uint8_t>((code[l] >> 4) | ((code[l + 32] >> 4) << 2) | ((code[l + 64] >> 4) << 4) |
                               ((code[l + 96] >> 4) << 6));
    }
  }
  for (int j = 0; j < 16; ++j) dst[192 + j] = static_cast<uint8_t>(sc[j]);
}

}  // namespace qcc::codecs
