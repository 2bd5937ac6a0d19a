// The encoder of the codebook formats: each 4 or 8 weights become the nearest point of a grid. Not for other
// rooms.
#ifndef QCC_DIALECTS_FORMATS_ENCODE_POINTS_H_
#define QCC_DIALECTS_FORMATS_ENCODE_POINTS_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "dialects/formats/encode.h"

namespace qcc::codecs {

// Index of the point nearest to `target` (magnitudes in the units of book.level).
inline int nearest_point(const Codebook& book, const float* levels_of_points, const float* target) {
  int best = 0;
  float best_distance = std::numeric_limits<float>::infinity();
  for (int i = 0; i < book.count; ++i) {
    const float* point = levels_of_points + i * book.width;
    float distance = 0;
    for (int k = 0; k < book.width; ++k) distance += (point[k] - target[k]) * (point[k] - target[k]);
    if (distance < best_distance) {
      best_distance = distance;
      best = i;
    }
  }
  return best;
}

// A codebook prepared for search: its points as floats, and for every combination of levels the nearest
// point. 3^8 or 8^4 combinations; a constant of the format, so it is computed once.
struct PointSearch {
  explicit PointSearch(const Codebook& book)
      : points(static_cast<size_t>(book.count * book.width)), of_cell(static_cast<size_t>(book.cells())) {
    for (int i = 0; i < book.count; ++i) {
      int digits = book.points[i];
      for (int k = 0; k < book.width; ++k, digits /= book.levels) {
        points[static_cast<size_t>(i * book.width + k)] = book.level[digits % book.levels];
      }
    }
    for (int cell = 0; cell < book.cells(); ++cell) {
      float target[8];
      int digits = cell;
      for (int k = 0; k < book.width; ++k, digits /= book.levels)
        target[k] = book.level[digits % book.levels];
      of_cell[static_cast<size_t>(cell)] = static_cast<uint16_t>(nearest_point(book, points.data(), target));
    }
  }
  const float* point(const Codebook& book, int index) const { return points.data() + index * book.width; }

  std::vector<float> points;      // count x width
  std::vector<uint16_t> of_cell;  // nearest point of each combination of levels
};

template <int kRow>
const PointSearch& point_search() {
  static const PointSearch search(kDescriptions[kRow].layout.book);
  return search;
}

// Weights that are decided together: those that share a sign field or a delta.
template <int kRow>
constexpr int run_length() {
  constexpr const BlockLayout& l = kDescriptions[kRow].layout;
  return l.columns_per_delta != 0 ? l.columns_per_delta : kSignGroup;
}

// A run before its scale is known. With a sign field: the magnitudes, and the signs apart; where a 7-bit
// field forces one sign to be wrong, it is that of the smallest magnitude, which then counts as negative.
template <int kRow>
struct Run {
  static constexpr int kLength = run_length<kRow>();
  static constexpr bool kHasDelta = kDescriptions[kRow].layout.delta.bits != 0;

  void Take(const float* weights) {
    signs = 0;
    for (int i = 0; i < kLength; ++i) x[i] = weights[i];
    if constexpr (!kHasDelta) {
      int smallest = 0;
      for (int i = 0; i < kLength; ++i) {
        signs = static_cast<uint8_t>(signs | (x[i] < 0 ? 1 : 0) << i);
        x[i] = std::fabs(x[i]);
        if (x[i] < x[smallest]) smallest = i;
      }
      if (kDescriptions[kRow].layout.sign.bits == 7 && std::popcount(signs) % 2 != 0) {
        signs = static_cast<uint8_t>(signs ^ 1 << smallest);
        x[smallest] = -x[smallest];
      }
    }
  }
  float x[kLength];
  uint8_t signs;
};

// A run as points: x ~ scale * value, where value is the level, or 8 * level + 1 or - 1 with `delta` 0 or 1.
template <int kRow>
struct RunPoints {
  static constexpr int kPoints = run_length<kRow>() / kDescriptions[kRow].layout.book.width;
  uint16_t index[kPoints];
  uint8_t delta = 0;
  float xv = 0, vv = 0;  // sums of x * value and of value^2

  // Squared error, less the sum of x^2.
  double error(double scale) const { return scale * (scale * vv - 2.0 * xv); }
};

// Which combination of levels `width` weights round to: weight k has the level whose number is how many of
// `bounds` it exceeds, and counts levels^k times.
template <int kWidth, int kLevels>
int cell_of(const float* x, const float* bounds) {
  using Counts = int32_t __attribute__((vector_size(16)));
  Counts sum = {};
  for (int k = 0, unit = 1; k < kWidth; k += 4) {
    const Counts units = {unit, unit * kLevels, unit * kLevels * kLevels, unit * kLevels * kLevels * kLevels};
    for (int i = 0; i + 1 < kLevels; ++i) sum += (load_four(x + k) > four_of(bounds[i])) & units;
    unit *= kLevels * kLevels * kLevels * kLevels;
  }
  return sum[0] + sum[1] + sum[2] + sum[3];
}

// The points for one scale and delta. `exact` searches all points; otherwise each weight is first rounded to
// a level, which is several hundred times faster.
template <int kRow>
void choose_points(const Run<kRow>& run, float scale, bool exact, RunPoints<kRow>& out) {
  constexpr const Codebook& book = kDescriptions[kRow].layout.book;
  constexpr float kStep = Run<kRow>::kHasDelta ? 8.0f : 1.0f;
  const float shift = !Run<kRow>::kHasDelta ? 0.0f : (out.delta != 0 ? -1.0f : 1.0f);
  const PointSearch& search = point_search<kRow>();
  float bounds[book.levels - 1];
  for (int i = 1; i < book.levels; ++i) {
    bounds[i - 1] = scale * (kStep * 0.5f * static_cast<float>(book.level[i - 1] + book.level[i]) + shift);
  }
  out.xv = 0;
  out.vv = 0;
  Four squares = {};
  for (int g = 0; g < out.kPoints; ++g) {
    const float* x = run.x + g * book.width;
    int index;
    if (exact) {
      const float inv = scale != 0 ? 1.0f / scale : 0.0f;
      float target[book.width];
      for (int k = 0; k < book.width; ++k) target[k] = (x[k] * inv - shift) / kStep;
      index = nearest_point(book, search.points.data(), target);
    } else {
      index = search.of_cell[static_cast<size_t>(cell_of<book.width, book.levels>(x, bounds))];
    }
    out.index[g] = static_cast<uint16_t>(index);
    const float* point = search.point(book, index);
    for (int k = 0; k < book.width; k += 4) {
      const Four v = kStep * load_four(point + k) + shift;
      const Four product = load_four(x + k) * v;
      for (int i = 0; i < 4; ++i) out.xv += product[i];
      squares += v * v;
    }
  }
  for (int i = 0; i < 4; ++i) out.vv += squares[i];  // of integers: exact in any order
}

// The points for one scale, with the better delta.
template <int kRow>
void best_points(const Run<kRow>& run, float scale, bool exact, RunPoints<kRow>& out) {
  out.delta = 0;
  choose_points<kRow>(run, scale, exact, out);
  if constexpr (Run<kRow>::kHasDelta) {
    RunPoints<kRow> other;
    other.delta = 1;
    choose_points<kRow>(run, scale, exact, other);
    if (other.error(scale) < out.error(scale)) out = other;
  }
}

template <int kRow>
struct PointBlock {
  static constexpr int kRuns = kDescriptions[kRow].plain.block / run_length<kRow>();
  PlainBlock scales;  // base and scale only
  RunPoints<kRow> points[kRuns];
};

// Scale of one group, by squared error. The largest magnitude is tried at the upper levels, beyond them (a
// few weights clip), and at the lowest (constant groups); kBest tries many more over the same range.
template <int kRow>
float fit_points(const Run<kRow>* runs, EncodeEffort effort) {
  constexpr const PlainForm& p = kDescriptions[kRow].plain;
  constexpr int kRuns = p.columns_per_scale / run_length<kRow>();
  constexpr const int8_t* kEnd = p.table + p.table_size;
  constexpr float kTop = kEnd[-1], kLowest = p.table[p.table_size / 2];
  float largest = 0;
  for (int r = 0; r < kRuns; ++r) {
    for (float v : runs[r].x) largest = std::max(largest, std::fabs(v));
  }
  if (largest == 0) return 0;
  std::array<float, 24> reach = {kTop, kEnd[-2], kLowest, 1.2f * kTop};
  size_t tries = 4;
  if constexpr (Run<kRow>::kHasDelta) {
    for (float beyond : {1.45f, 1.8f}) reach[tries++] = beyond * kTop;
  } else if constexpr (kEnd[-3] > kLowest) {
    reach[tries++] = kEnd[-3];
  }
  for (int k = 0; effort == EncodeEffort::kBest && k < 16; ++k) {
    reach[tries++] = kTop * (0.8f + 0.1f * static_cast<float>(k));
  }
  double best_gain = -1;
  float best = largest / kTop;
  for (size_t t = 0; t < tries; ++t) {
    const float s = largest / reach[t];
    double xv = 0, vv = 0;
    for (int r = 0; r < kRuns; ++r) {
      RunPoints<kRow> points;
      best_points<kRow>(runs[r], s, /*exact=*/false, points);
      xv += points.xv;
      vv += points.vv;
    }
    if (!(xv > 0)) continue;
    const double gain = xv * xv / vv;
    if (gain > best_gain) {
      best_gain = gain;
      best = static_cast<float>(xv / vv);
    }
  }
  return best;
}

// Points of the whole block under its scales; returns the squared error, less the sum of the squares.
template <int kRow>
double quantise_points(const Run<kRow>* runs, float d, bool exact, PointBlock<kRow>& b) {
  constexpr const PlainForm& p = kDescriptions[kRow].plain;
  double error = 0;
  for (int r = 0; r < b.kRuns; ++r) {
    const int group = r * run_length<kRow>() / p.columns_per_scale;
    const float s = d * p.factor * static_cast<float>(b.scales.scale[group]);
    best_points<kRow>(runs[r], s, exact, b.points[r]);
    error += b.points[r].error(s);
  }
  return error;
}

template <int kRow>
void put_points(const Run<kRow>* runs, const PointBlock<kRow>& b, uint8_t* dst) {
  constexpr const BlockLayout& l = kDescriptions[kRow].layout;
  constexpr int kPoints = RunPoints<kRow>::kPoints;
  put_scales<kRow>(b.scales, dst);
  for (int r = 0; r < b.kRuns; ++r) {
    for (int k = 0; k < kPoints; ++k) l.index.put(b.points[r].index[k], dst, r * kPoints + k);
    if constexpr (l.sign.bits != 0) l.sign.put(runs[r].signs, dst, r);
    if constexpr (l.delta.bits != 0) l.delta.put(b.points[r].delta, dst, r);
  }
}

// A power of two near the largest magnitude: in units of it, sums of squares stay within f32.
inline float unit_of(const float* x, int n) {
  float largest = 0;
  for (int i = 0; i < n; ++i) largest = std::max(largest, std::fabs(x[i]));
  return std::ldexp(1.0f, largest == 0 ? 0 : std::clamp(std::ilogb(largest), -120, 120));
}

template <int kRow>
void encode_points(const float* src, uint8_t* dst, EncodeEffort effort) {
  constexpr const FormatDescription& desc = kDescriptions[kRow];
  constexpr const PlainForm& p = desc.plain;
  constexpr int kRunsOfGroup = p.columns_per_scale / run_length<kRow>();
  const bool exact = effort == EncodeEffort::kBest;
  float x[p.block], scale[p.scales()];
  copy_finite(src, p.block, x);
  const float unit = unit_of(x, p.block);
  for (float& v : x) v /= unit;
  PointBlock<kRow> b;
  Run<kRow> runs[PointBlock<kRow>::kRuns];
  for (int r = 0; r < b.kRuns; ++r) runs[r].Take(x + r * run_length<kRow>());
  float largest = 0;
  for (int g = 0; g < p.scales(); ++g) {
    scale[g] = fit_points<kRow>(runs + g * kRunsOfGroup, effort) / p.factor;
    largest = std::max(largest, scale[g]);
  }
  float d = store_half(largest / highest_scale(desc) * unit, &b.scales.base[0]) / unit;
  const float inv = d != 0 ? 1.0f / d : 0.0f;
  for (int g = 0; g < p.scales(); ++g) {
    const int stored = nearest_clamped((scale[g] * inv - desc.layout.scale_plus) / desc.layout.scale_times, 0,
                                       (1 << desc.layout.scale.bits()) - 1);
    b.scales.scale[g] = static_cast<uint8_t>(stored * desc.layout.scale_times + desc.layout.scale_plus);
  }
  const double error = quantise_points<kRow>(runs, d, exact, b);
  if (exact) {
    // The best base scale for the points that were chosen, if points chosen anew under it come closer.
    double aa = 0, ax = 0;
    for (int r = 0; r < b.kRuns; ++r) {
      const double s = p.factor * b.scales.scale[r / kRunsOfGroup];
      ax += s * b.points[r].xv;
      aa += s * s * b.points[r].vv;
    }
    PointBlock<kRow> trial = b;
    d = store_half(ax > 0 ? static_cast<float>(ax / aa) * unit : 0, &trial.scales.base[0]) / unit;
    if (quantise_points<kRow>(runs, d, exact, trial) < error) b = trial;
  }
  std::memset(dst, 0, static_cast<size_t>(block_bytes(desc)));
  put_points<kRow>(runs, b, dst);
}

}  // namespace qcc::codecs

#endif  // QCC_DIALECTS_FORMATS_ENCODE_POINTS_H_
