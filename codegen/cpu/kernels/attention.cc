// attention: rows of a sequence and a kv head at a time, in f32 or, where its outputs become int8 rows anyway
// and the cache is f16, in integers of 16 bits.
#include "codegen/cpu/kernels/attention_f32.h"
#include "codegen/cpu/kernels/attention_int16.h"
#include "codegen/cpu/kernels/sequences.h"

namespace qk {
namespace {

QK_INLINE bool in_integers(const attention_args& a) {
  return a.kv == QK_KvElement_F16 && a.numerics == QK_Numerics_Int8;
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

}  // namespace
}  // namespace qk

QK_SIGNATURE(qk_attention, attention)
QK_EXPORT void qk_attention(const attention_args* args) {
  using namespace qk;
  const attention_args a = *args;
  const int64_t group = a.q_heads / a.kv_heads, element = a.kv == QK_KvElement_F16 ? 2 : 4;
  const int64_t together =
      in_integers(a) ? Int16AttentionScratch::Rows(group) : F32AttentionScratch::Rows(group);
  for (int64_t item = a.begin; item < a.end;) {
    const int64_t kv_head = item / a.n_rows, row0 = item % a.n_rows;
    const qrt_seq& seq = sequence_of_row(a.seqs, a.n_seqs, row0);
    int64_t n = seq.row_begin + seq.row_count - row0;
    if (n > a.end - item) n = a.end - item;
    if (n > together) n = together;
    item += n;
    const int64_t head_bytes = seq.kv_capacity * a.head_dim * element;
    const uint8_t* k = seq.kv + a.kv_offset * seq.kv_capacity + kv_head * head_bytes;
    attend({a, group, kv_head, row0, n, seq.past + (row0 - seq.row_begin), k, k + a.kv_heads * head_bytes});
  }
}
