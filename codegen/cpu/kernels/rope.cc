// rope_table and qk_norm_rope_store.
#include "codegen/cpu/kernels/integer_rows.h"
#include "codegen/cpu/kernels/kernels.h"
#include "codegen/cpu/kernels/math.h"
#include "codegen/cpu/kernels/row_ops.h"
#include "codegen/cpu/kernels/sequences.h"

QK_SIGNATURE(qk_rope_table, rope_table)
QK_EXPORT void qk_rope_table(const rope_table_args* args) {
  const rope_table_args a = *args;
  const int64_t pairs = a.pairs;
  const int64_t section_t = a.sections[0], section_h = a.sections[1], section_w = a.sections[2];
  const bool sections = section_t + section_h + section_w + a.sections[3] > 0;
  const float magnitude = static_cast<float>(a.magnitude);
  for (int64_t r = a.begin; r < a.end; ++r) {
    const int32_t* at = a.positions + r * 4;
    float* cos_row = a.out + r * 2 * pairs;
    float* sin_row = cos_row + pairs;
    for (int64_t i = 0; i < pairs; ++i) {
      int64_t stream = 0;
      if (sections) {
        const int64_t m = i % 3;
        stream = m == 1 && i < 3 * section_h   ? 1
                 : m == 2 && i < 3 * section_w ? 2
                 : m == 0 && i < 3 * section_t ? 0
                                               : 3;
      }
      double s, c;
      qk::sincos64(static_cast<double>(at[stream]) * a.inv_freq[i], &s, &c);
      cos_row[i] = static_cast<float>(c * magnitude);
      sin_row[i] = static_cast<float>(s * magnitude);
    }
  }
}

namespace qk {
namespace {

// dst = rope(norm(src) * weight): head_dim values, the first rot_dims of them rotated.
QK_INLINE void norm_rope(const float* src, const float* weight, const float* rope, float* dst,
                         int64_t head_dim, int64_t rot_dims, float eps) {
  const float scale = rms_scale(src, head_dim, eps);
  const int64_t half = rot_dims / 2;
  const float *cos_row = rope, *sin_row = rope + half;
  for (int64_t i = 0; i < half; ++i) {
    const float a = (src[i] * scale) * weight[i], b = (src[i + half] * scale) * weight[i + half];
    dst[i] = a * cos_row[i] - b * sin_row[i];
    dst[i + half] = a * sin_row[i] + b * cos_row[i];
  }
  for (int64_t i = rot_dims; i < head_dim; ++i) dst[i] = (src[i] * scale) * weight[i];
}

// bits: of integers (IntegerRow).
QK_INLINE void store_kv(const float* src, uint8_t* row, int64_t head_dim, int64_t element, int32_t bits) {
  if (element == QK_KvElement_B16) {
    store_integers(src, row, head_dim, bits);
  } else if (element == QK_KvElement_F16) {
    for (int64_t i = 0; i < head_dim; i += 8) store<U16<8>>(row + i * 2, float_to_half<8>(loadf<8>(src + i)));
  } else {
    for (int64_t i = 0; i < head_dim; i += 8) store<F32<8>>(row + i * 4, loadf<8>(src + i));
  }
}

}  // namespace
}  // namespace qk

QK_SIGNATURE(qk_norm_rope_store, qk_norm_rope_store)
QK_EXPORT void qk_norm_rope_store(const qk_norm_rope_store_args* args) {
  using namespace qk;
  const qk_norm_rope_store_args a = *args;
  const int64_t q_heads = a.q_heads, kv_heads = a.kv_heads, head_dim = a.head_dim, rot_dims = a.rot_dims;
  const int64_t row_bytes = head_dim * (a.kv == QK_KvElement_F32 ? 4 : 2);
  for (int64_t r = a.begin; r < a.end; ++r) {
    const float* angles = a.rope + r * rot_dims;
    const int64_t q_stride = head_dim * (a.gated ? 2 : 1);
    for (int64_t h = 0; h < q_heads; ++h) {
      norm_rope(a.q + (r * q_heads + h) * q_stride, a.q_norm, angles, a.out + (r * q_heads + h) * head_dim,
                head_dim, rot_dims, a.eps);
    }
    const qrt_seq& seq = sequence_of_row(a.seqs, a.n_seqs, r);
    const int64_t at = seq.past + (r - seq.row_begin);
    uint8_t* k_cache = seq.kv + a.kv_offset * seq.kv_capacity;
    uint8_t* v_cache = k_cache + kv_heads * seq.kv_capacity * row_bytes;
    for (int64_t h = 0; h < kv_heads; ++h) {
      float head[qcc::cpu::kMaxHeadDim];
      norm_rope(a.k + (r * kv_heads + h) * head_dim, a.k_norm, angles, head, head_dim, rot_dims, a.eps);
      const int64_t row = (h * seq.kv_capacity + at) * row_bytes;
      store_kv(head, k_cache + row, head_dim, a.kv, IntegerRow::KeyBits(head_dim));
      store_kv(a.v + (r * kv_heads + h) * head_dim, v_cache + row, head_dim, a.kv, IntegerRow::kValueBits);
    }
  }
}
