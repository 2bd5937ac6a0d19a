// Prototypes of the CPU micro-kernels: the contract between them, the code generator that emits calls, and
// the tests. Families, roles and int8 rows: dialects/plan/kernel_families.md. Weight layouts:
// dialects/plan/tile_layout.h.
//
// Shape of every signature: pointers, then constants (int64_t or float; literals after inlining), then the
// rows of the step, then the half-open range [begin, end) of work items that this call does. Ranges may be
// empty. Items are independent: any split over threads gives the same bits. Unless stated, pointers need no
// alignment beyond their element's; weights are fastest when the weight section is 64-byte aligned. No kernel
// reads or writes outside the extents given here, and none fails: what they demand of shapes is checked by
// the compiler (limits.h).
#ifndef QCC_CODEGEN_CPU_KERNELS_KERNELS_H_
#define QCC_CODEGEN_CPU_KERNELS_KERNELS_H_

#include <stdint.h>

#include "runtime/abi/program.h"

#ifdef __cplusplus
extern "C" {
#endif

// linear epilogues
#define QK_STORE 0   // y = W x
#define QK_ADD 1     // y += W x
#define QK_SWIGLU 2  // y = silu(G x) * (U x); w is x16_pair: groups of G and U alternate

// y[r][16 g ..16 g + 16) for r < rows and output groups g in [begin, end); y has row stride ld >= 16 * groups
// floats. int8: xq = int8 rows of k values (stride int8_row_bytes(k)); f32: x has row stride k. k: a multiple
// of 32 (int8) and of the format's block.
typedef void qk_linear_int8_fn(const uint8_t* xq, const uint8_t* w, float* y, int64_t k, int64_t ld,
                               int64_t epilogue, int64_t rows, int64_t begin, int64_t end);
typedef void qk_linear_f32_fn(const float* x, const uint8_t* w, float* y, int64_t k, int64_t ld,
                              int64_t epilogue, int64_t rows, int64_t begin, int64_t end);
// out[r][0..cols) = decoded row tokens[r] of the x16 table, r in [begin, end).
typedef void qk_embed_fn(const uint8_t* table, const int32_t* tokens, float* out, int64_t cols, int64_t rows,
                         int64_t begin, int64_t end);

#define QK_PLAIN_FORMAT(id, suffix)          \
  qk_linear_f32_fn qk_linear_##suffix##_f32; \
  qk_embed_fn qk_embed_##suffix;
#define QK_BLOCK_FORMAT(id, suffix) \
  QK_PLAIN_FORMAT(id, suffix)       \
  qk_linear_int8_fn qk_linear_##suffix##_int8;
#include "codegen/cpu/kernels/kernels.def"

// For r in [begin, end): v = x[row_ids ? row_ids[r] : r], n = v * rsqrt(mean(v^2) + eps) * weight; written to
// out[r] (if not null) as f32 and to out_q (if not null) as int8 row r. cols % 32 == 0 when out_q is given.
void qk_norm(const float* x, const float* weight, float* out, uint8_t* out_q, const int32_t* row_ids,
             int64_t cols, float eps, int64_t rows, int64_t begin, int64_t end);
// int8 rows [begin, end) of x. cols % 32 == 0.
void qk_quantize(const float* x, uint8_t* out_q, int64_t cols, int64_t rows, int64_t begin, int64_t end);
// out = silu(gate) * up, rows [begin, end) of cols values.
void qk_swiglu(const float* gate, const float* up, float* out, int64_t cols, int64_t rows, int64_t begin,
               int64_t end);
// y += x, rows [begin, end) of cols values.
void qk_add(const float* x, float* y, int64_t cols, int64_t rows, int64_t begin, int64_t end);

// out[r] = cos[pairs], sin[pairs] of angle position * inv_freq[i], times magnitude. positions: [rows][4] (t,
// h, w, e). Sections all 0: stream t everywhere. Otherwise interleaved M-RoPE: pair i takes h if i % 3 == 1
// and i < 3 * section_h, w if i % 3 == 2 and i < 3 * section_w, t if i % 3 == 0 and i < 3 * section_t, else
// e.
void qk_rope_table(const double* inv_freq, const int32_t* positions, float* out, int64_t pairs,
                   int64_t section_t, int64_t section_h, int64_t section_w, int64_t section_e,
                   float magnitude, int64_t rows, int64_t begin, int64_t end);

// Rows [begin, end): per head RMS norm of q (to out [rows][q_heads * head_dim]) and k, rotation of their
// first rot_dims (pairs i, i + rot_dims / 2; rope rows of rot_dims floats from qk_rope_table), k and v stored
// to the row's sequence. kv_offset: bytes per token before this layer (plan.state): the layer's K
// [kv_heads][capacity][head_dim] begins at seq.kv + kv_offset * capacity, V of the same shape follows. gated:
// q holds per head head_dim queries, then head_dim gates (row stride 2 * q_heads * head_dim). kv_f16: element
// of the cache, 1 = f16, 0 = f32.
void qk_norm_rope_store(const float* q, const float* k, const float* v, const float* q_norm,
                        const float* k_norm, const float* rope, float* out, const qrt_seq* seqs,
                        int64_t n_seqs, int64_t kv_offset, int64_t q_heads, int64_t kv_heads,
                        int64_t head_dim, int64_t rot_dims, int64_t gated, float eps, int64_t kv_f16,
                        int64_t rows, int64_t begin, int64_t end);

// Work item i: kv head i / rows, row i % rows (kv_heads * rows items). q [rows][q_heads * head_dim] as
// written by qk_norm_rope_store; gate: null, or its gated `q` input: out *= sigmoid(gate). Causal: row sees
// cache positions 0 .. past + (row - row_begin) of its sequence, which must have been stored (barrier
// before).
void qk_attention(const float* q, const float* gate, const qrt_seq* seqs, int64_t n_seqs, float* out,
                  int64_t kv_offset, int64_t q_heads, int64_t kv_heads, int64_t head_dim, float scale,
                  int64_t kv_f16, int64_t rows, int64_t begin, int64_t end);

// Work item = key head h, with value heads h, h + key_heads, ... conv_offset, delta_offset: bytes into
// seq.state of the layer's conv state f32 [taps - 1][channels] (oldest first) and delta state f32
// [value_heads][key_dim][value_dim]; channels = 2 * key_heads * key_dim + value_heads * value_dim (q, k, v).
// conv_w [taps][channels]. Row strides: qkv channels, z and out value_heads * value_dim, alpha and beta
// ld_ab. Unit length of q and k: x / sqrt(sum x^2 + l2_eps); with l2_max, x / max(sqrt(sum x^2), l2_eps).
void qk_gated_delta(const float* qkv, const float* z, const float* alpha, const float* beta,
                    const float* conv_w, const float* ssm_a, const float* dt_bias, const float* norm_w,
                    const qrt_seq* seqs, int64_t n_seqs, float* out, int64_t conv_offset,
                    int64_t delta_offset, int64_t key_heads, int64_t value_heads, int64_t key_dim,
                    int64_t value_dim, int64_t taps, float l2_eps, int64_t l2_max, float norm_eps,
                    float scale, int64_t ld_ab, int64_t rows, int64_t begin, int64_t end);

// Returns when all n_threads threads of the step have called it; what any did before is visible to all after.
void qk_barrier(qrt_barrier* barrier, int64_t n_threads);

#ifdef __cplusplus
}
#endif
#endif  // QCC_CODEGEN_CPU_KERNELS_KERNELS_H_
