// gated_delta in three launches: convolution with norms and gates of each row; the delta rule of each
// sequence, token by token; the gated norm of each row. The order of operations on a token does not depend on
// how the tokens of a sequence are dealt to steps.
// With Expansion::chunked_delta the rule takes whole chunks of 16 rows of a sequence at a time, by matrices
// that a fourth launch makes for all chunks at once, and what is left token by token. Then bits depend on
// where a sequence is cut, though not on multiples of 16 rows, and on nothing else.
#ifndef QCC_CODEGEN_GPU_KERNELS_GATED_DELTA_H_
#define QCC_CODEGEN_GPU_KERNELS_GATED_DELTA_H_

#include <cstdint>
#include <string>

#include "codegen/gpu/kernels/builder.h"
#include "runtime/abi/gpu_step.h"

namespace qcc::gpu {

struct DeltaSpec {
  int key_heads = 0, value_heads = 0, key_dim = 0, value_dim = 0, taps = 0, ld_ab = 0;
  bool l2_max = false;
  bool grouped = false;  // value heads that follow one another share a key head; else those that it divides

  // i32, of a value head.
  Val KeyHead(Val value_head) const;
  int keys() const { return key_heads * key_dim; }
  int values() const { return value_heads * value_dim; }
  int channels() const { return 2 * keys() + values(); }
  // Columns of the state that a workgroup of the rule has; kDeltaParts threads share one.
  int columns() const { return value_dim % 16 ? 8 : 16; }
  std::string name() const;
};

inline constexpr int kDeltaThreads = 128;  // of the convolution, and of the advance of its state
inline constexpr int kDeltaParts = 8;
inline constexpr int kDeltaChunk = QRT_GPU_CUT_ROWS;
// Floats that EmitDeltaChunk writes for a chunk and value head, with w the values less what the state at the
// chunk's begin gives for the keys, decayed: [16][16] from w to u, decayed to the chunk's end; [16][16] from
// w to what the chunk's own tokens add to the output; [16] decays since the chunk's begin.
inline constexpr int kDeltaChunkWords = 2 * kDeltaChunk * kDeltaChunk + kDeltaChunk;

// The value from number `at` on, seen from a sequence's first row: rows of the step, before them the taps - 1
// columns of the state. Addresses are i64; `at` is i32, at least 1 - taps.
Val ConvColumn(const DeltaSpec& spec, Val qkv, Val conv_state, Val row_begin, Val at, Val channel);

// ---- arguments: conv_state and delta_state are offsets into a sequence's state ----

// mixed: [R][channels] like qkv; gates: [R][2 * value_heads + key_heads]: decay, beta, k.q.
template <typename T>
struct DeltaMixArgs {
  T step, seqs, qkv, alpha, beta, conv_w, ssm_a, dt_bias, conv_state, mixed, gates, l2_eps, query_scale;
};
template <typename T>
struct DeltaChunkArgs {
  T step, seqs, mixed, gates, chunks;  // chunks: written
};
// Chunked: one more, the chunks.
template <typename T>
struct DeltaRuleArgs {
  T step, seqs, qkv, mixed, gates, conv_state, delta_state, out;
};
template <typename T>
struct DeltaNormArgs {
  T step, z, norm_w, out, norm_eps;  // out: read and written
};

void EmitDeltaMix(Builder& b, const DeltaSpec& spec);
// Workgroups of the mix: key heads, blocks of value channels, one for the gates.
uint32_t DeltaMixGroups(const DeltaSpec& spec);

// Grid: value heads, rows / 16. The chunk whose first row is r is number r / 16 in `chunks`:
// [rows / 16][value_heads][kDeltaChunkWords].
void EmitDeltaChunk(Builder& b, const DeltaSpec& spec);

// `sequences`: how many sequences go side by side. Advances the state of the convolution, too.
void EmitDeltaRule(Builder& b, const DeltaSpec& spec, int sequences, bool chunked);
uint32_t DeltaRuleGroups(const DeltaSpec& spec);

void EmitDeltaNorm(Builder& b, const DeltaSpec& spec);

}  // namespace qcc::gpu

#endif  // QCC_CODEGEN_GPU_KERNELS_GATED_DELTA_H_
