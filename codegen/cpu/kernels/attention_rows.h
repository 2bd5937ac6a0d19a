// What both forms of attention share: rows of a sequence that go over its cache together. Kernels only.
//
// Both ask for keys and values ahead, in the order in which they lie: where a loop reads pieces of several
// rows in turns, what it asks for goes from line to line all the same, as memory gives lines that follow each
// other faster (Zen 5, two threads, loops that only read so: 43 to 48 GB/s).
#ifndef QCC_CODEGEN_CPU_KERNELS_ATTENTION_ROWS_H_
#define QCC_CODEGEN_CPU_KERNELS_ATTENTION_ROWS_H_

#include "codegen/cpu/kernels/kernels.h"
#include "codegen/cpu/kernels/math.h"
#include "codegen/cpu/kernels/scratch.h"

namespace qk {

using qcc::cpu::AttentionParts;
using qcc::cpu::SharedAttentionScratch;

// Bytes from the keys of a row that are multiplied to those asked for.
inline constexpr int64_t kKeysAhead = 12288;

// Sums over a part of the cache join those over the parts before it: those times `keep`, its own times `add`.
struct Fold {
  float keep, add;
  template <int N>
  QK_INLINE F32<N> of(F32<N> sum, F32<N> part, const Fold& f) {
    return fma<N>(part, F32<N>(f.add), sum * f.keep);
  }
  QK_INLINE float of(float sum, float part, const Fold& f) { return fma1(part, f.add, sum * f.keep); }
};
// top: the greatest score of the parts before, then of this one too.
QK_INLINE Fold fold_part(float& top, float part_top) {
  const float highest = part_top > top ? part_top : top;
  const F32<4> scales = exp<4>(F32<4>{top - highest, part_top - highest, 0.f, 0.f});
  top = highest;
  return {scales.x, scales.y};
}

// Columns from c on of the output of a head, counted among all of the step, [row][q_heads]: times its gate.
QK_INLINE void write_columns(const attention_args& a, int64_t head, int64_t c, F32<8> o) {
  if (a.gated) o = o * sigmoid<8>(loadf<8>(a.gate + (head * 2 + 1) * a.head_dim + c));
  store<F32<8>>(a.out + head * a.head_dim + c, o);
}

// Some rows of one sequence, one after the other, and one kv head with its `group` query heads. Query i of
// them: head i % group of row i / group.
struct AttentionRows {
  const attention_args a;
  int64_t group;
  int64_t kv_head, row0, n;  // rows [row0, row0 + n) of the step
  int64_t first;             // position of row0
  const uint8_t *k, *v;      // the head's cache, [position][head_dim]
  int64_t part;              // positions of a part: the same for all of the rows
  int64_t from, to;          // which positions are gone over: whole parts, or to the last that a row sees
  float* left;               // where parts are left for a fold (SharedAttentionScratch); null: folded here

  int64_t queries() const { return n * group; }
  // Where the head of query i is counted among all of the step, [row][q_heads].
  int64_t head_of(int64_t i) const { return (row0 + i / group) * a.q_heads + kv_head * group + i % group; }
  const float* query(int64_t i) const { return a.q + head_of(i) * a.head_dim; }
  // How many positions from t0 on query i may see.
  int64_t seen(int64_t i, int64_t t0) const { return first + i / group + 1 - t0; }
  int64_t end_of_part(int64_t begin) const { return begin + part < to ? begin + part : to; }

  // Sums over a part of query i: values [head_dim], the greatest score, the sum of weights.
  struct Sums {
    float *values, &top, &sum;
  };
  // The part that begins at `begin` is done. total: where the sums of all parts before it are, and go. N:
  // lanes.
  template <int N>
  __attribute__((always_inline)) void finish_part(int64_t i, int64_t begin, const Sums& own,
                                                  const Sums& total) const {
    const int64_t sees = seen(i, begin);
    if (sees <= 0) return;
    if (left != nullptr) return leave<N>(i, begin, own);
    const bool last = sees <= part;
    if (begin == 0) {
      if (last) return write(i, own.values, own.sum);
      copy<N>(total.values, own.values);
      total.top = own.top;
      total.sum = own.sum;
      return;
    }
    const Fold fold = fold_part(total.top, own.top);
    for (int64_t c = 0; c < a.head_dim; c += N) {
      float* values = total.values + c;
      store<F32<N>>(values, Fold::of<N>(loadf<N>(values), loadf<N>(own.values + c), fold));
    }
    total.sum = Fold::of(total.sum, own.sum, fold);
    if (last) write(i, total.values, total.sum);
  }

 private:
  template <int N>
  __attribute__((always_inline)) void copy(float* to_values, const float* values) const {
    for (int64_t c = 0; c < a.head_dim; c += N) store<F32<N>>(to_values + c, loadf<N>(values + c));
  }
  template <int N>
  __attribute__((always_inline)) void leave(int64_t i, int64_t begin, const Sums& own) const {
    const SharedAttentionScratch at(a.n_rows, a.q_heads, a.head_dim);
    float* to_part = left + (head_of(i) * AttentionParts::kMost + begin / part) * at.stride;
    copy<N>(to_part, own.values);
    to_part[at.top] = own.top;
    to_part[at.top + 1] = own.sum;
  }
  __attribute__((always_inline)) void write(int64_t i, const float* values, float sum) const {
    const float inverse = 1.f / sum;
    for (int64_t c = 0; c < a.head_dim; c += 8)
      write_columns(a, head_of(i), c, loadf<8>(values + c) * inverse);
  }
};

// Lane i: the sum of all lanes of a[i]. Neighbours, then pairs, then fours: the same tree for every i.
template <class T>
using Four = T __attribute__((ext_vector_type(4)));
template <class T>
using Eight = T __attribute__((ext_vector_type(8)));
template <class T>
using Sixteen = T __attribute__((ext_vector_type(16)));
template <class T>
QK_INLINE Four<T> reduce_each_of(const Four<T> (&a)[4]) {
  const Four<T> b =
      __builtin_shufflevector(a[0], a[1], 0, 4, 2, 6) + __builtin_shufflevector(a[0], a[1], 1, 5, 3, 7);
  const Four<T> c =
      __builtin_shufflevector(a[2], a[3], 0, 4, 2, 6) + __builtin_shufflevector(a[2], a[3], 1, 5, 3, 7);
  return __builtin_shufflevector(b, c, 0, 1, 4, 5) + __builtin_shufflevector(b, c, 2, 3, 6, 7);
}
template <class T>
QK_INLINE Eight<T> reduce_each_of(const Eight<T> (&a)[8]) {
  Eight<T> b[4], c[2];
  unroll<4>([&](int i) QK_LAMBDA {
    b[i] = __builtin_shufflevector(a[2 * i], a[2 * i + 1], 0, 8, 2, 10, 4, 12, 6, 14) +
           __builtin_shufflevector(a[2 * i], a[2 * i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
  });
  unroll<2>([&](int i) QK_LAMBDA {
    c[i] = __builtin_shufflevector(b[2 * i], b[2 * i + 1], 0, 1, 8, 9, 4, 5, 12, 13) +
           __builtin_shufflevector(b[2 * i], b[2 * i + 1], 2, 3, 10, 11, 6, 7, 14, 15);
  });
  return __builtin_shufflevector(c[0], c[1], 0, 1, 2, 3, 8, 9, 10, 11) +
         __builtin_shufflevector(c[0], c[1], 4, 5, 6, 7, 12, 13, 14, 15);
}
template <class T>
QK_INLINE Sixteen<T> reduce_each_of(const Sixteen<T> (&a)[16]) {
  Eight<T> low[8], high[8];
  unroll<8>([&](int i) QK_LAMBDA {
    low[i] = a[i].lo + a[i].hi;
    high[i] = a[i + 8].lo + a[i + 8].hi;
  });
  Sixteen<T> r;
  r.lo = reduce_each_of<T>(low);
  r.hi = reduce_each_of<T>(high);
  return r;
}

// score [kVectors * 16] of one query in a tile become exp(score - top), top being the highest so far, of
// which the query may see the first `count`. Returns what earlier sums are to be multiplied by. A score that
// is not finite makes the sum none.
template <int kVectors>
QK_INLINE float softmax_step(float* score, int64_t count, float& top, float& sum) {
  F32<16> s[kVectors], high = F32<16>(-__builtin_inff()), wrong = F32<16>(0.f);
  QK_UNROLL
  for (int b = 0; b < kVectors; ++b) {
    const I32<16> lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const F32<16> all = loadf<16>(score + 16 * b);
    const I32<16> seen = lane + 16 * b < I32<16>(static_cast<int32_t>(count));
    s[b] = seen ? all : F32<16>(-__builtin_inff());
    const F32<16> zero = all - all;
    wrong += seen ? zero : F32<16>(0.f);
    high = max<16>(high, s[b]);
  }
  const float tile_top = reduce_max(high);
  const float new_top = tile_top > top ? tile_top : top;
  const float keep = exp<4>(F32<4>(top - new_top)).x;
  F32<16> total = F32<16>(0.f);
  QK_UNROLL
  for (int b = 0; b < kVectors; ++b) {
    s[b] = exp<16>(s[b] - new_top);
    total = b == 0 ? s[b] : total + s[b];
    store<F32<16>>(score + 16 * b, s[b]);
  }
  total += wrong;
  top = new_top;
  sum = sum * keep + reduce_add(total);
  return keep;
}

}  // namespace qk

#endif  // QCC_CODEGEN_CPU_KERNELS_ATTENTION_ROWS_H_
