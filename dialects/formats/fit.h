// Least-squares fits that the block encoders share: codes on a straight line with one or two parameters.
#ifndef QCC_DIALECTS_FORMATS_FIT_H_
#define QCC_DIALECTS_FORMATS_FIT_H_

#include <cmath>
#include <cstdint>
#include <limits>

#include "dialects/formats/codecs.h"

namespace qcc::codecs {

struct Line {
  float scale = 0;
  float offset = 0;  // x ~ scale * q + offset
};

// Scale s of x ~ s * q with q in [-nmax, nmax - 1], by squared error. The element of largest magnitude
// decides the sign (its code is -nmax, the end that has one code more). kBest tries inverse scales around
// nmax / |x|max and refits each.
template <int N>
float fit_symmetric(const float* x, int nmax, EncodeEffort effort) {
  float extreme = 0;
  for (int i = 0; i < N; ++i) {
    if (std::fabs(x[i]) > std::fabs(extreme)) extreme = x[i];
  }
  if (extreme == 0) return 0;
  float base = -extreme / static_cast<float>(nmax);
  if (effort == EncodeEffort::kFast) return base;
  // Minimising the error of s = Sxq / Sqq equals maximising Sxq^2 / Sqq.
  double best_gain = -1;
  float best = base;
  for (int step = -9; step <= 9; ++step) {
    double trial = static_cast<double>(base) * nmax / (nmax + 0.1 * step);
    double inv = 1.0 / trial;
    if (!std::isfinite(inv)) continue;
    double sxq = 0, sqq = 0;
    for (int i = 0; i < N; ++i) {
      int q = nearest_clamped(static_cast<float>(x[i] * inv), -nmax, nmax - 1);
      sxq += static_cast<double>(x[i]) * q;
      sqq += static_cast<double>(q) * q;
    }
    if (sqq == 0) continue;
    double gain = sxq * sxq / sqq;
    if (gain > best_gain) {
      best_gain = gain;
      best = static_cast<float>(sxq / sqq);
    }
  }
  return best;
}

// x ~ s * q + o with q in [0, nmax], s >= 0. With `offset_at_most_zero` (K-quants store only -o >= 0) zero is
// part of the range. kBest tries ranges a little narrower and wider than [min, max] and refits scale and
// offset for each.
template <int N>
Line fit_affine(const float* x, int nmax, bool offset_at_most_zero, EncodeEffort effort) {
  float lo = x[0], hi = x[0];
  for (int i = 1; i < N; ++i) {
    lo = x[i] < lo ? x[i] : lo;
    hi = x[i] > hi ? x[i] : hi;
  }
  if (offset_at_most_zero && lo > 0) lo = 0;
  if (offset_at_most_zero && hi < lo) hi = lo;
  Line best;
  best.offset = lo;
  best.scale = static_cast<float>((static_cast<double>(hi) - lo) / nmax);
  if (effort == EncodeEffort::kFast || best.scale == 0) return best;
  double best_error = std::numeric_limits<double>::infinity();
  double range = static_cast<double>(hi) - lo;
  double sum_x = 0, sum_xx = 0;
  for (int i = 0; i < N; ++i) {
    sum_x += x[i];
    sum_xx += static_cast<double>(x[i]) * x[i];
  }
  for (int step = -5; step <= 12; ++step) {
    double inv = (nmax + 0.1 * step) / range;
    if (!std::isfinite(inv)) continue;
    double sq = 0, sqq = 0, sxq = 0;
    for (int i = 0; i < N; ++i) {
      int q = nearest_clamped(static_cast<float>((x[i] - static_cast<double>(lo)) * inv), 0, nmax);
      sq += q;
      sqq += static_cast<double>(q) * q;
      sxq += static_cast<double>(x[i]) * q;
    }
    double det = N * sqq - sq * sq;
    if (det <= 0) continue;
    double s = (N * sxq - sum_x * sq) / det;
    double o = (sum_x - s * sq) / N;
    if (offset_at_most_zero && o > 0) {
      o = 0;
      s = sqq > 0 ? sxq / sqq : 0;
    }
    if (s < 0) continue;
    double error = sum_xx + s * s * sqq + N * o * o - 2 * s * sxq - 2 * o * sum_x + 2 * s * o * sq;
    if (error < best_error) {
      best_error = error;
      best.scale = static_cast<float>(s);
      best.offset = static_cast<float>(o);
    }
  }
  return best;
}

}  // namespace qcc::codecs

#endif  // QCC_DIALECTS_FORMATS_FIT_H_
