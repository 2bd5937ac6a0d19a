// attention: rows of a sequence and a kv head at a time, in f32 or, over a cache of integers, in these.
// Whole, or in parts of the cache and a fold of them, with the same bits.
#include "codegen/cpu/kernels/attention_f32.h"
#include "codegen/cpu/kernels/attention_int16.h"
#include "codegen/cpu/kernels/sequences.h"

namespace qk {
namespace {

QK_INLINE bool in_integers(const attention_args& a) {
  return a.kv == QK_KvElement_B16;
}

QK_INLINE void attend(const AttentionRows& rows) {
  const int64_t head_dim = rows.a.head_dim;
  if (in_integers(rows.a)) {
    Int16Attention::Scales scales;
    const Int16Attention attention = Int16Attention::make(rows, scales);
    // Which elements are paired leaves integer sums as they are.
    if (head_dim % (2 * kLanes) == 0) {
      attention.run<kLanes>();
    } else {
      attention.run<4>();
    }
  } else {
    F32Attention::Sums sums;
    const F32Attention attention = F32Attention::make(rows, sums);
    if (head_dim % kLanes == 0) {
      attention.run<kLanes>();
    } else {
      attention.run<8>();
    }
  }
}

// Rows that are taken together, from row0 on: of one sequence, with parts of one length.
struct RowsTogether {
  const qrt_seq& seq;
  int64_t first, n;                          // position of row0; how many rows
  int64_t part;                              // positions of a part
  int64_t end() const { return first + n; }  // positions that the last of them sees
  QK_INLINE RowsTogether from(const attention_args& a, int64_t row0) {
    const int64_t group = a.q_heads / a.kv_heads;
    const qrt_seq& seq = sequence_of_row(a.seqs, a.n_seqs, row0);
    const int64_t first = seq.past + (row0 - seq.row_begin), part = AttentionParts::Positions(first + 1);
    int64_t n = in_integers(a) ? Int16AttentionScratch::Rows(group) : F32AttentionScratch::Rows(group);
    if (n > seq.row_begin + seq.row_count - row0) n = seq.row_begin + seq.row_count - row0;
    if (n > AttentionParts::kMost * part - first) n = AttentionParts::kMost * part - first;
    // Said once more where it is a literal: what several rows need is then no part of the program.
    return {seq, first, a.n_rows == 1 ? 1 : n, part};
  }
};

// The output of a head, of C times 8 columns from c on: `count` parts that begin at `part`.
template <int C>
QK_INLINE void fold_columns(const attention_args& a, const float* part, const Fold* folds, int64_t count,
                            int64_t stride, int64_t head, int64_t c, float inverse) {
  F32<8> values[C];
  unroll<C>([&](int j) QK_LAMBDA { values[j] = loadf<8>(part + c + 8 * j); });
  for (int64_t i = 1; i < count; ++i) {
    unroll<C>([&](int j) QK_LAMBDA {
      values[j] = Fold::of<8>(values[j], loadf<8>(part + i * stride + c + 8 * j), folds[i]);
    });
  }
  unroll<C>([&](int j) QK_LAMBDA { write_columns(a, head, c + 8 * j, values[j] * inverse); });
}

// The first n of `rows`, from row0 on, over positions [from, to) of a kv head.
QK_INLINE void attend(const attention_args& a, const RowsTogether& rows, int64_t row0, int64_t n,
                      int64_t kv_head, int64_t from, int64_t to, float* left) {
  const int64_t head_bytes = rows.seq.kv_capacity * a.head_dim * (a.kv == QK_KvElement_F32 ? 4 : 2);
  const uint8_t* k = rows.seq.kv + a.kv_offset * rows.seq.kv_capacity + kv_head * head_bytes;
  attend({a, a.q_heads / a.kv_heads, kv_head, row0, n, rows.first, k, k + a.kv_heads * head_bytes, rows.part,
          from, to, left});
}

}  // namespace
}  // namespace qk

QK_SIGNATURE(qk_attention, attention)
QK_EXPORT void qk_attention(const attention_args* args) {
  using namespace qk;
  const attention_args a = *args;
  for (int64_t item = a.begin; item < a.end;) {
    const int64_t kv_head = item / a.n_rows, row0 = item % a.n_rows;
    const RowsTogether rows = RowsTogether::from(a, row0);
    const int64_t n = rows.n < a.end - item ? rows.n : a.end - item;
    attend(a, rows, row0, n, kv_head, 0, rows.first + n, nullptr);
    item += n;
  }
}

QK_SIGNATURE_AS(qk_attention_parts, "qk_attention_parts", attention)
QK_EXPORT void qk_attention_parts(const attention_args* args) {
  using namespace qk;
  const attention_args a = *args;
  // Parts that there are, in the order of rows, kv heads, positions; each thread has some that follow each
  // other.
  int64_t parts = 0;
  for (int64_t row0 = 0; row0 < a.n_rows;) {
    const RowsTogether rows = RowsTogether::from(a, row0);
    parts += a.kv_heads * AttentionParts::Count(rows.end());
    row0 += rows.n;
  }
  const int64_t items = a.kv_heads * a.n_rows * AttentionParts::kMost;
  const int64_t begin = a.begin * parts / items, end = a.end * parts / items;
  int64_t at = 0;  // the number of the first part of a kv head
  for (int64_t row0 = 0; row0 < a.n_rows && at < end;) {
    const RowsTogether rows = RowsTogether::from(a, row0);
    const int64_t count = AttentionParts::Count(rows.end());
    for (int64_t kv_head = 0; kv_head < a.kv_heads; ++kv_head, at += count) {
      const int64_t from = (begin > at ? begin - at : 0) * rows.part;
      int64_t to = (end < at + count ? end - at : count) * rows.part;
      if (to > rows.end()) to = rows.end();
      if (from < to)
        attend(a, rows, row0, rows.n, kv_head, from, to, reinterpret_cast<float*>(a.shared_scratch));
    }
    row0 += rows.n;
  }
}

QK_SIGNATURE_AS(qk_attention_fold, "qk_attention_fold", attention)
QK_EXPORT void qk_attention_fold(const attention_args* args) {
  using namespace qk;
  const attention_args a = *args;
  const SharedAttentionScratch at(a.n_rows, a.q_heads, a.head_dim);
  for (int64_t head = a.begin; head < a.end; ++head) {
    const int64_t row = head / a.q_heads;
    const qrt_seq& seq = sequence_of_row(a.seqs, a.n_seqs, row);
    const int64_t count = AttentionParts::Count(seq.past + (row - seq.row_begin) + 1);
    const float* part =
        reinterpret_cast<const float*>(a.shared_scratch) + head * AttentionParts::kMost * at.stride;
    Fold folds[AttentionParts::kMost];
    float top = part[at.top], sum = part[at.top + 1];
    for (int64_t i = 1; i < count; ++i) {
      const float* own = part + i * at.stride + at.top;
      folds[i] = fold_part(top, own[0]);
      sum = Fold::of(sum, own[1], folds[i]);
    }
    const float inverse = 1.f / sum;
    constexpr int kColumns = 4;  // registers of them that are folded side by side
    int64_t c = 0;
    for (; c + kColumns * 8 <= a.head_dim; c += kColumns * 8)
      fold_columns<kColumns>(a, part, folds, count, at.stride, head, c, inverse);
    for (; c < a.head_dim; c += 8) fold_columns<1>(a, part, folds, count, at.stride, head, c, inverse);
  }
}
