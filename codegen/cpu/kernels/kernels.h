// Prototypes of the CPU micro-kernels: the contract between them, the code generator that emits calls, and
// the tests. Families, roles and int8 rows: dialects/plan/kernel_families.md. Weight layouts:
// dialects/layouts/x16.h.
//
// Every kernel takes one struct (kernel_args.h); its constants are literals after inlining. [begin, end) are
// the work items that this call does; the range may be empty. Items are independent: any split over threads
// gives the same bits. Unless stated, pointers need no alignment beyond their element's; weights are fastest
// when the weight section is 64-byte aligned. No kernel reads or writes outside the extents given here, and
// none fails: what they demand of shapes is checked by the compiler (limits.h).
#ifndef QCC_CODEGEN_CPU_KERNELS_KERNELS_H_
#define QCC_CODEGEN_CPU_KERNELS_KERNELS_H_

#include <stdint.h>

#include "codegen/cpu/kernels/kernel_args.h"
#include "runtime/abi/program.h"

#ifdef __cplusplus
extern "C" {
#endif

// y[r][16 g ..16 g + 16) for r < n_rows and output groups g in [begin, end); a row of y has 16 * groups
// floats. Epilogues: y = W x, y += W x, y = silu(G x) * (U x), where w is x16_pair: groups of G and U
// alternate. W x (G x, U x) is multiplied by scale (U x: up_scale) where there is one. int8: xq has int8
// rows, int8x2 of two terms (stride layouts::Int8RowBytes(k)); f32: x has row stride k. k: a multiple of 32
// (int8) and of the format's block.
typedef void qk_linear_fn(const linear_args* args);
// The product of each row with the matrices of its experts. An expert's groups [n / 16] of weights follow the
// last expert's, in each the same operations as linear's. Lists as of qk_moe_group; with one expert there are
// none, and each row is its slot. store, swiglu: y[s][n] from x[row of s], for slots s; items: for each
// expert that has rows, by its place in the list, for each group, one for each of its rows. A call does a
// group, with all rows, whose first item it has. add: y[r][16 g ..) += weights[s] * (W_e x[s]) for groups g
// in [begin, end), one after the other by ascending e. Row r of x (xq) has then top_k * k columns, those of
// slot s = (r, i) from i * k on. scale: of each expert or, with scale_count 1, one for all. n: a multiple of
// 16; k: as of linear.
typedef void qk_moe_linear_fn(const moe_linear_args* args);
// out[r][0..cols) = decoded row tokens[r] of the x16 table, r in [begin, end).
typedef void qk_embed_fn(const embed_args* args);

// Symbols have the format's name (formats.def) in place of the enumerator: qk_linear_q4_k_int8.
#define QK_PLAIN_FORMAT(id, name)                                                  \
  qk_linear_fn qk_linear_##id##_f32 __asm__("qk_linear_" name "_f32");             \
  qk_moe_linear_fn qk_moe_linear_##id##_f32 __asm__("qk_moe_linear_" name "_f32"); \
  qk_embed_fn qk_embed_##id __asm__("qk_embed_" name);
#define QK_BLOCK_FORMAT(id, name)                                        \
  QK_PLAIN_FORMAT(id, name)                                              \
  qk_linear_fn qk_linear_##id##_int8 __asm__("qk_linear_" name "_int8"); \
  qk_moe_linear_fn qk_moe_linear_##id##_int8 __asm__("qk_moe_linear_" name "_int8");
#include "codegen/cpu/kernels/kernels.def"

// Rows [begin, end) of logits, align16(experts) floats apart: the top_k experts of the largest logits, of
// equal ones those with the lower ids, NaN below all; ids ascend. Their weights: softmax over all experts, or
// sigmoids; divided by their sum, or norm_floor where it is less, with `normalise`; times scale. factor =
// sigmoid(x . shared_router). A NaN logit or product makes the weights that it enters NaN. `groups` and
// `order`, as qk_moe_group writes them, of n_rows = 1 only.
void qk_moe_route(const moe_route_args* args);
// One item. order: the slots row * top_k + i by ids[row][i], then ascending. groups: [0] experts that have
// slots, [1 ...] their ids, ascending, [1 + experts ...] where the slots of each begin in `order`, and behind
// them n_rows * top_k. ids are in [0, experts).
void qk_moe_group(const moe_group_args* args);

// For r in [begin, end): v = x[r], or x[out_rows[r]] where `source` says so, n = v * rsqrt(mean(v^2) + eps) *
// weight; written to out[r] (if not null) as f32 to out_q (if not null) as int8 row r, to out_q2
// (if not null) as one of two terms. cols % 32 == 0 when one of the last two is given.
void qk_norm(const norm_args* args);
// int8 rows [begin, end) of x, to out_q and (of two terms) to out_q2, where not null. cols % 32 == 0.
void qk_quantize(const quantize_args* args);
// out = silu(gate) * up, rows [begin, end) of cols values.
void qk_swiglu(const swiglu_args* args);
// y += x, rows [begin, end) of cols values.
void qk_add(const add_args* args);
// out[r] = a[r], then b[r], rows [begin, end).
void qk_concat(const concat_args* args);
// out[r] = x[out_rows[r]], rows [begin, end).
void qk_select_rows(const select_rows_args* args);

// out[r] = cos[pairs], sin[pairs] of angle position * inv_freq[i], times magnitude. positions: [n_rows][4]
// (t, h, w, e). Sections all 0: stream t everywhere. Otherwise interleaved M-RoPE: pair i takes h if i % 3 ==
// 1 and i < 3 * section h, w if i % 3 == 2 and i < 3 * section w, t if i % 3 == 0 and i < 3 * section t, else
// e.
void qk_rope_table(const rope_table_args* args);

// Rows [begin, end): per head RMS norm of q (to out [n_rows][q_heads * head_dim]) and k, rotation of their
// first rot_dims (pairs i, i + rot_dims / 2; rope rows of rot_dims floats from qk_rope_table), k and v stored
// to the row's sequence. kv_offset: bytes per token before this layer (plan.state): the layer's K
// [kv_heads][capacity][head_dim] begins at seq.kv + kv_offset * capacity, V of the same shape follows; of b16
// rows of head_dim are integers in units of their own (runtime/abi/integer_row.h). gated:
// q holds per head head_dim queries, then head_dim gates (row stride 2 * q_heads * head_dim).
void qk_norm_rope_store(const qk_norm_rope_store_args* args);

// Work item i: kv head i / n_rows, row i % n_rows (kv_heads * n_rows items). q [n_rows][q_heads * head_dim]
// as written by qk_norm_rope_store; gated: `gate` is its gated `q` input, out *= sigmoid(gate). Causal: row
// sees cache positions 0 .. past + (row - row_begin) of its sequence, which must have been stored (barrier
// before). What it sees is gone over in parts (scratch.h: AttentionParts), whose sums are folded in order.
void qk_attention(const attention_args* args);
// The same of few rows, by threads that share the parts: n_rows * kv_heads * AttentionParts::kMost items, as
// many of which have something to do as there are parts. What each leaves goes to shared_scratch.
void qk_attention_parts(const attention_args* args);
// Behind it and a barrier. Work item: a head of `out`, [n_rows][q_heads].
void qk_attention_fold(const attention_args* args);

// Work item = key head h, with its r = value_heads / key_heads value heads: h, h + key_heads, ... (tiled) or
// h * r, h * r + 1, ... (grouped). conv_state_offset, delta_state_offset: bytes into seq.state of the layer's
// conv state f32 [taps - 1][channels] (oldest first) and delta state f32 [value_heads][key_dim][value_dim];
// channels = 2 * key_heads * key_dim + value_heads * value_dim (q, k, v). conv_w [taps][channels]. Row
// strides: qkv channels, z and out value_heads * value_dim, alpha and beta ld_ab. Unit length of q and k: x /
// sqrt(sum x^2 + l2_eps); with l2_form max, x / max(sqrt(sum x^2), l2_eps).
void qk_gated_delta(const gated_delta_args* args);

// Rows [begin, end): the last one of each sequence goes, as it is, to its state at last_offset.
void qk_trace(const trace_args* args);

// A share of a dispatch's items for the calling thread: range[0] to range[1] - 1. Returns 0 where nothing is
// left. Each thread asks with round 0, 1, ... until then; together the threads get every item once. ticket:
// of the barrier's, no other dispatch's between the same two barriers; -1: all is shared out in round 0.
int64_t qk_share(const qrt_step_args* args, int64_t thread, int64_t threads, int64_t ticket, int64_t items,
                 int64_t round, int64_t* range);

// Returns when all n_threads threads of the step have called it; what any did before is visible to all after.
// All tickets are 0 then.
void qk_barrier(qrt_barrier* barrier, int64_t n_threads);

// The thread is done with a stage; -1: the step begins. Nothing where args->stage_clocks is null.
void qk_end_stage(const qrt_step_args* args, int64_t thread, int64_t stage);

#ifdef __cplusplus
}
#endif
#endif  // QCC_CODEGEN_CPU_KERNELS_KERNELS_H_
