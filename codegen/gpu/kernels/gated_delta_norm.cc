#include "codegen/gpu/kernels/gated_delta.h"
#include "codegen/gpu/kernels/gated_delta_block.h"
#include "codegen/gpu/kernels/gated_delta_mix.h"
#include "codegen/gpu/kernels/gated_norm.h"
#include "codegen/gpu/kernels/kernel_args.h"
#include "codegen/gpu/kernels/reduce.h"
#include "codegen/gpu/kernels/step.h"

namespace qcc::gpu {
namespace {

constexpr int kCopies = 4;  // of four floats, by a thread

// A value head's outputs of a row.
void EmitNorm(Builder& b, const DeltaSpec& s, const DeltaNormArgs<Val>& args, Val head, Val row) {
  const int dim = s.value_dim;
  Reducer reducer(b, kNormThreads, kNormThreads);
  const Val first = (row * s.value_heads + head) * dim;
  const Val squares = reducer.Sum(OwnSquares(b, b.Thread(), args.out, first, dim));
  const Val scale = GatedNormScale(b, squares, dim, FloatOf(args.norm_eps));
  b.For(b.Thread(), b.I32(dim), b.I32(kNormThreads), [&](Val column) {
    const Val at = (first + column) << 2;
    const Val weight = b.Load(Type::kF32, args.norm_w, column << 2), gate = b.Load(Type::kF32, args.z, at);
    b.Store(args.out, at, GatedNormed(b.Load(Type::kF32, args.out, at), scale, weight, gate));
  });
}

// Of a row, the `group`th part of what its sequence keeps.
void EmitKeep(Builder& b, const DeltaSpec& s, const DeltaNormArgs<Val>& args, Val group, Val row) {
  constexpr int kBlock = kDeltaBlock;
  const Val seq = RowSeq(args.step, row), position = RowPosition(args.step, row);
  const SeqStateBlocks conv = SeqStates(args.seqs, seq, args.conv_state),
                       delta = SeqStates(args.seqs, seq, args.delta_state);
  const Val last = SeqPast(args.seqs, seq) + SeqRowCount(args.seqs, seq) - 1;
  const Val place = position & (kBlock - 1), block = ShrU(position, 4);
  static_assert(kBlock == 1 << 4);
  const int threads = kNormThreads;
  const Val begin = group * threads + b.Thread();
  const Val stride = b.I32((static_cast<int>(DeltaNormGroups(s)) - s.value_heads) * threads);
  // Two blocks where they lie apart: the next step may begin up to 16 tokens back. In one place each column
  // and entry has a writer of its own, too.
  const Val columns = Select(conv.Shared(), b.I32(kBlock), b.I32(2 * kBlock));
  b.If(LtS(last - columns, position),
       [&] { KeepColumn(b, s, args.qkv, row, conv, position, begin, stride); });
  const Val blocks = Select(delta.Shared(), b.I32(1), b.I32(2));
  b.If(LtS(ShrU(last, 4) - blocks, block), [&] {
    const DeltaBlock entries(b, s, threads, {args.mixed, args.gates});
    const Val slot = delta.Of(block);
    CopyQuads(b, s.keys() / 4, args.mixed, (row * s.channels() + s.keys()) << 2, slot,
              entries.EntryAt(place, s.entry().k), begin, stride);
    b.For(begin, b.I32(s.value_heads), stride, [&](Val head) {
      b.Store(slot, entries.EntryAt(place, head, s.entry().d),
              b.Load(Type::kF32, args.gates, (row * s.gates() + head) << 2));
    });
  });
}

}  // namespace

uint32_t DeltaNormGroups(const DeltaSpec& s) {
  return static_cast<uint32_t>(s.value_heads + CeilDiv(s.channels(), 4 * kCopies * kNormThreads));
}

void EmitDeltaNorm(Builder& b, const DeltaSpec& s) {
  const auto args = ReadArgs<DeltaNormArgs>(b);
  const Val group = b.BlockX(), row = b.BlockY();
  b.If(LtS(row, StepRows(args.step)), [&] {
    const Val heads = b.I32(s.value_heads);
    b.If(LtS(group, heads), [&] { EmitNorm(b, s, args, group, row); });
    b.If(LeS(heads, group), [&] { EmitKeep(b, s, args, group - heads, row); });
  });
}

}  // namespace qcc::gpu
