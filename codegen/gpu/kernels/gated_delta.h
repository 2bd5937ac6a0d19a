// gated_delta in one to four launches: convolution with norms and gates of each row; the delta rule of each
// sequence, block by block of dialects/layouts/sequence_state.h; the gated norm of each row. What the
// sequence keeps of the step's last rows is written beside the norms in programs of many rows, which also
// have the products of their keys and queries made by a launch of its own ahead of the rule, for all blocks
// side by side; by the first launch in programs of few rows; by the rule in those of one row, where it mixes
// what it reads, too. Every number follows from a token's position and what came before it, by the same
// operations in the same order whatever the step: nothing depends on how the tokens of a sequence are dealt
// to steps.
#ifndef QCC_CODEGEN_GPU_KERNELS_GATED_DELTA_H_
#define QCC_CODEGEN_GPU_KERNELS_GATED_DELTA_H_

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/gpu/kernels/launch.h"
#include "dialects/layouts/sequence_state.h"

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
  // Of a row of `gates`: decays, betas.
  int gates() const { return 2 * value_heads; }
  // Of a row, what a workgroup of the rule reads: query, key, its columns of the value, decay, beta.
  int own_values() const { return 2 * key_dim + columns(); }
  int own_floats() const { return own_values() + 4; }
  layouts::DeltaEntry entry() const { return {key_heads, value_heads, key_dim, value_dim}; }
  std::string name() const;
};

inline constexpr int kDeltaThreads = 128;  // of the convolution, and of the dots
inline constexpr int kDeltaParts = 8;
inline constexpr int kDeltaBlock = static_cast<int>(layouts::kStateBlock);

// ---- arguments: conv_state and delta_state are offsets into a sequence's state ----

template <typename T>
struct DeltaMixInput {
  T step, seqs, qkv, alpha, beta, conv_w, ssm_a, dt_bias, conv_state, l2_eps, query_scale;
};
// mixed: [R][channels] like qkv; gates: [R][2 * value_heads]: decay, beta.
template <typename T>
struct DeltaMixArgs {
  DeltaMixInput<T> in;
  T mixed, gates;
};
// With what the sequence keeps. mixed, gates: [2 R], see DeltaMixed::replaced.
template <typename T>
struct DeltaMixKeepArgs {
  DeltaMixArgs<T> mix;
  T delta_state;
};
template <typename T>
struct DeltaDotsArgs {
  T step, seqs, mixed, gates, delta_state, factors;  // factors: written
};
// With the dots in a launch of their own: one more, the factors.
template <typename T>
struct DeltaRuleArgs {
  T step, seqs, mixed, gates, delta_state, out;
};
// With a mix of its own: `own` [groups][DeltaSpec::own_floats()] is what a workgroup mixes for itself. What
// later steps need of the row it keeps itself.
template <typename T>
struct DeltaMixRuleArgs {
  DeltaMixInput<T> in;
  T own, delta_state, out;
};
template <typename T>
struct DeltaNormArgs {
  T step, seqs, z, norm_w, qkv, mixed, gates, conv_state, delta_state, out,
      norm_eps;  // out: read and written
};

// `kept_rows`: keeps what later steps need of the rows, too, of which there are so many at most; 0: does not.
void EmitDeltaMix(Builder& b, const DeltaSpec& spec, int kept_rows);
// Whether it can: of the columns that rows replace, their convolutions read none.
inline bool KeepsInMix(const DeltaSpec& s, int64_t rows) {
  return rows + s.taps - 1 <= kDeltaBlock;
}
// Workgroups of the mix: key heads, blocks of value channels, one for the gates.
uint32_t DeltaMixGroups(const DeltaSpec& spec);

// Grid: key heads, rows / 16. factors: [R][value_heads][DeltaFactors::kCount].
void EmitDeltaDots(Builder& b, const DeltaSpec& spec);

// `sequences`: how many sequences go side by side. `tokens`: of which the state is read at once, at most 4;
// no number depends on either. `own_dots`: makes the factors itself. `own_mix`: and what they are made of, in
// programs of one row. `replaced`: of own dots, DeltaMixed::replaced.
struct DeltaRuleForm {
  int sequences = 1, tokens = 1;
  bool own_dots = false, own_mix = false;
  int replaced = 0;
};
// Whether the rule's workgroups can mix: sums are added in the order that the mix's has.
inline bool MixesInRule(const DeltaSpec& s) {
  return s.columns() * kDeltaParts == kDeltaThreads;
}
void EmitDeltaRule(Builder& b, const DeltaSpec& spec, const DeltaRuleForm& form);
uint32_t DeltaRuleGroups(const DeltaSpec& spec);

// Of a row, value heads first; behind them, unless an earlier launch did that, the workgroups that keep what
// a later step needs of it: its column of the convolution, its key and decays. The entries' u is the rule's.
void EmitDeltaNorm(Builder& b, const DeltaSpec& spec);
uint32_t DeltaNormGroups(const DeltaSpec& spec);

// gated_delta without its norm, for readers that make it of `out` (Making::kGatedNormed). Empty where the
// norm is also what keeps.
std::vector<Launch> ExpandUnnormed(const Dispatch<plan::GatedDeltaSpec>& dispatch, Expansion& expansion);

}  // namespace qcc::gpu

#endif  // QCC_CODEGEN_GPU_KERNELS_GATED_DELTA_H_
