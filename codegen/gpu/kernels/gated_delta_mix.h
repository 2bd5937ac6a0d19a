// The convolution, norms and gates of a row, for the kernels that make them.
#ifndef QCC_CODEGEN_GPU_KERNELS_GATED_DELTA_MIX_H_
#define QCC_CODEGEN_GPU_KERNELS_GATED_DELTA_MIX_H_

#include <functional>

#include "codegen/gpu/kernels/gated_delta.h"
#include "codegen/gpu/kernels/kernel_args.h"
#include "codegen/gpu/kernels/reduce.h"
#include "codegen/gpu/kernels/step.h"

namespace qcc::gpu {

// Four floats at a time: number `begin` and every `stride`-th, of `quads`.
void CopyQuads(Builder& b, int quads, Val from, Val at, Val to, Val to_at, Val begin, Val stride);
// What later tokens' convolutions read of a row's: its inputs, at its position's place of a block.
void KeepColumn(Builder& b, const DeltaSpec& s, Val qkv, Val row, const SeqStateBlocks& columns, Val position,
                Val begin, Val stride);

class DeltaMixer {
 public:
  // For workgroups of kDeltaThreads.
  DeltaMixer(Builder& b, const DeltaSpec& s, const DeltaMixInput<Val>& in)
      : b_(b), s_(s), in_(in), l2_eps_(FloatOf(in.l2_eps)), query_scale_(FloatOf(in.query_scale)) {}

  void SetRow(Val row);
  // The only row of its sequence.
  void SetRow(const SeqFields& seq);

  // In two steps, so that what is loaded may be asked for together (Builder::BeginLoads).
  // Of a channel: its inputs at the taps' tokens, and their weights.
  struct Taps {
    std::vector<Val> x, w;
  };
  Taps LoadTaps(Val channel) const;
  // The channel's value after the convolution.
  Val Mixed(const Taps& taps) const;
  // Of a head's query and key, the thread's numbers, one of each turn.
  struct HeadTaps {
    std::vector<Taps> query, key;
  };
  HeadTaps LoadHead(Val key_head) const;
  // Hands each number of the query and the key to `store`, by the thread that has it. All threads call.
  void QueryAndKey(const HeadTaps& taps, const std::function<void(Val number, Val query, Val key)>& store);
  struct Gate {
    Val ssm_a, alpha, dt_bias, beta;
  };
  Gate LoadGate(Val head) const;
  static Val Decay(const Gate& gate);
  static Val Beta(const Gate& gate);

 private:
  // The channel's input at a token that may lie before the step's first.
  Val Column(Val position, Val channel) const;
  // What normalises elements with this sum of squares, times `numerator`.
  Val Factor(Val sum, Val numerator) const;
  // The thread's number of a head's query or key in turn `turn`.
  Val Number(int turn) const { return b_.Thread() + turn * kDeltaThreads; }

  Builder& b_;
  const DeltaSpec& s_;
  const DeltaMixInput<Val> in_;
  const Val l2_eps_, query_scale_;
  Reducer reducer_{b_, kDeltaThreads, kDeltaThreads, 2};
  // By SetRow. origin_: row of the sequence's first token, had the step begun with it.
  SeqStateBlocks columns_;
  Val row_, position_, past_, origin_;
};

}  // namespace qcc::gpu

#endif  // QCC_CODEGEN_GPU_KERNELS_GATED_DELTA_MIX_H_
