// attention: online softmax over tiles of the cache at absolute positions, so that a row's result depends on
// its own query and position only. All query heads of one kv head, and up to kRows rows of one sequence,
// share each tile.
#include "codegen/cpu/kernels/kernels.h"
#include "codegen/cpu/kernels/math.h"
#include "codegen/cpu/kernels/sequences.h"

namespace qk {
namespace {

using qcc::cpu::kMaxHeadDim;
using qcc::cpu::kMaxQueryGroup;

constexpr int kTile = 32;     // cache positions per step of the softmax
constexpr int kRows = 8;      // rows that share a tile
constexpr int kQueries = 64;  // at most kRows * group and kMaxQueryGroup
static_assert(kQueries >= kMaxQueryGroup);

struct Scratch {
  alignas(64) float k[kTile * kMaxHeadDim];
  alignas(64) float v[kTile * kMaxHeadDim];
};

// `count` rows of the cache as f32.
QK_INLINE void load_tile(const uint8_t* src, int64_t count, int64_t head_dim, int64_t kv_f16, float* dst) {
  const int64_t n = count * head_dim;
  if (kv_f16) {
    for (int64_t i = 0; i < n; i += 8) store<F32<8>>(dst + i, half_to_float<8>(load<U16<8>>(src + i * 2)));
  } else {
    for (int64_t i = 0; i < n; i += 8) store<F32<8>>(dst + i, load<F32<8>>(src + i * 4));
  }
}

// Dot products of q with 8 rows of k; rows past the end of the tile hold anything and are masked by the
// caller. Lane c of partial sum j adds up columns c, c + 8, ...; then one tree over the lanes.
QK_INLINE F32<8> dots8(const float* q, const float* k, int64_t head_dim) {
  F32<8> a[8];
  QK_UNROLL
  for (int j = 0; j < 8; ++j) a[j] = F32<8>(0.f);
  for (int64_t c = 0; c < head_dim; c += 8) {
    const F32<8> x = loadf<8>(q + c);
    QK_UNROLL
    for (int j = 0; j < 8; ++j) a[j] = fma<8>(x, loadf<8>(k + j * head_dim + c), a[j]);
  }
  // Transpose-and-add: after three rounds lane j is the sum over the lanes of a[j].
  F32<8> b[4], d[2];
  QK_UNROLL
  for (int i = 0; i < 4; ++i) {
    b[i] = __builtin_shufflevector(a[2 * i], a[2 * i + 1], 0, 8, 2, 10, 4, 12, 6, 14) +
           __builtin_shufflevector(a[2 * i], a[2 * i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
  }
  QK_UNROLL
  for (int i = 0; i < 2; ++i) {
    d[i] = __builtin_shufflevector(b[2 * i], b[2 * i + 1], 0, 1, 8, 9, 4, 5, 12, 13) +
           __builtin_shufflevector(b[2 * i], b[2 * i + 1], 2, 3, 10, 11, 6, 7, 14, 15);
  }
  return __builtin_shufflevector(d[0], d[1], 0, 1, 2, 3, 8, 9, 10, 11) +
         __builtin_shufflevector(d[0], d[1], 4, 5, 6, 7, 12, 13, 14, 15);
}

// out[c] = out[c] * keep + sum over j < count, in order, of p[j] * v[j][c], for N vectors of 8 columns.
template <int N>
QK_INLINE void add_values(float* out, float keep, const float* p, const float* v, int64_t count,
                          int64_t head_dim) {
  F32<8> a[N];
  QK_UNROLL
  for (int i = 0; i < N; ++i) a[i] = loadf<8>(out + i * 8) * keep;
  for (int64_t j = 0; j < count; ++j) {
    const F32<8> w = F32<8>(p[j]);
    QK_UNROLL
    for (int i = 0; i < N; ++i) a[i] = fma<8>(w, loadf<8>(v + j * head_dim + i * 8), a[i]);
  }
  QK_UNROLL
  for (int i = 0; i < N; ++i) store<F32<8>>(out + i * 8, a[i]);
}

struct Query {
  float top;  // largest score so far
  float sum;  // of exp(score - top)
};

}  // namespace
}  // namespace qk

QK_EXPORT void qk_attention(const float* q, const float* gate, const qrt_seq* seqs, int64_t n_seqs,
                            float* out, int64_t kv_offset, int64_t q_heads, int64_t kv_heads,
                            int64_t head_dim, float scale, int64_t kv_f16, int64_t rows, int64_t begin,
                            int64_t end) {
  using namespace qk;
  const int64_t group = q_heads / kv_heads, element = kv_f16 ? 2 : 4;
  const int64_t fit = kQueries / group, max_rows = fit < kRows ? fit : kRows;
  Scratch tile;
  Query state[kQueries];
  alignas(64) float query[kQueries * kMaxHeadDim];
  alignas(64) float acc[kQueries * kMaxHeadDim];

  for (int64_t item = begin; item < end;) {
    const int64_t kv_head = item / rows, row0 = item % rows;
    const qrt_seq& seq = sequence_of_row(seqs, n_seqs, row0);
    int64_t n = seq.row_begin + seq.row_count - row0;
    if (n > end - item) n = end - item;
    if (n > max_rows) n = max_rows;
    item += n;

    const int64_t first = seq.past + (row0 - seq.row_begin);  // position of row0
    const uint8_t* k_cache =
        seq.kv + kv_offset * seq.kv_capacity + kv_head * seq.kv_capacity * head_dim * element;
    const uint8_t* v_cache = k_cache + kv_heads * seq.kv_capacity * head_dim * element;
    for (int64_t i = 0; i < n * group; ++i) {
      const float* src = q + ((row0 + i / group) * q_heads + kv_head * group + i % group) * head_dim;
      for (int64_t c = 0; c < head_dim; c += 8) {
        store<F32<8>>(query + i * head_dim + c, loadf<8>(src + c) * scale);
        store<F32<8>>(acc + i * head_dim + c, F32<8>(0.f));
      }
      state[i] = {-__builtin_inff(), 0.f};
    }

    for (int64_t t0 = 0; t0 < first + n; t0 += kTile) {
      const int64_t left = first + n - t0, held = left < kTile ? left : kTile;
      load_tile(k_cache + t0 * head_dim * element, held, head_dim, kv_f16, tile.k);
      load_tile(v_cache + t0 * head_dim * element, held, head_dim, kv_f16, tile.v);
      for (int64_t i = 0; i < n * group; ++i) {
        const int64_t seen = first + i / group + 1 - t0;  // positions of this tile that the row may see
        if (seen <= 0) continue;
        const int64_t count = seen < kTile ? seen : kTile;
        F32<8> s[kTile / 8];
        QK_UNROLL
        for (int b = 0; b < kTile / 8; ++b) {
          const I32<8> lane = {0, 1, 2, 3, 4, 5, 6, 7};
          const F32<8> d = dots8(query + i * head_dim, tile.k + b * 8 * head_dim, head_dim);
          s[b] = lane + b * 8 < I32<8>(static_cast<int32_t>(count)) ? d : F32<8>(-__builtin_inff());
        }
        const float tile_top = reduce_max(max<8>(max<8>(s[0], s[1]), max<8>(s[2], s[3])));
        const float top = tile_top > state[i].top ? tile_top : state[i].top;
        const float keep = exp<4>(F32<4>(state[i].top - top)).x;
        alignas(32) float p[kTile];
        QK_UNROLL
        for (int b = 0; b < kTile / 8; ++b) {
          s[b] = exp<8>(s[b] - top);
          store<F32<8>>(p + b * 8, s[b]);
        }
        state[i] = {top, state[i].sum * keep + reduce_add((s[0] + s[1]) + (s[2] + s[3]))};
        int64_t c = 0;
        for (; c + 64 <= head_dim; c += 64) {
          add_values<8>(acc + i * head_dim + c, keep, p, tile.v + c, count, head_dim);
        }
        for (; c < head_dim; c += 8)
          add_values<1>(acc + i * head_dim + c, keep, p, tile.v + c, count, head_dim);
      }
    }

    for (int64_t i = 0; i < n * group; ++i) {
      const int64_t head = (row0 + i / group) * q_heads + kv_head * group + i % group;
      const float inverse = 1.f / state[i].sum;
      for (int64_t c = 0; c < head_dim; c += 8) {
        F32<8> o = loadf<8>(acc + i * head_dim + c) * inverse;
        if (gate) o = o * sigmoid<8>(loadf<8>(gate + (head * 2 + 1) * head_dim + c));
        store<F32<8>>(out + head * head_dim + c, o);
      }
    }
  }
}
