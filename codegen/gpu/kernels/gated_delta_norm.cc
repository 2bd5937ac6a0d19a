#include "codegen/gpu/kernels/gated_delta.h"
#include "codegen/gpu/kernels/gated_delta_block.h"
#include "codegen/gpu/kernels/kernel_args.h"
#include "codegen/gpu/kernels/math.h"
#include "codegen/gpu/kernels/reduce.h"
#include "codegen/gpu/kernels/step.h"

namespace qcc::gpu {
namespace {

constexpr int kCopies = 4;  // of four floats, by a thread

// A value head's outputs of a row.
void EmitNorm(Builder& b, const DeltaSpec& s, const DeltaNormArgs<Val>& args, Val head, Val row) {
  const int threads = s.norm_threads(), dim = s.value_dim;
  Reducer reducer(b, threads, threads);
  const Val first = (row * s.value_heads + head) * dim, thread = b.Thread();
  std::vector<Val> inside, at, value;
  Val sum = b.F32(0.f);
  for (int i = 0; i < dim; i += threads) {
    inside.push_back(LtS(thread + i, b.I32(dim)));
    at.push_back(MinS(thread + i, b.I32(dim - 1)));
    const std::vector<Val> own = b.IfElse(
        inside.back(),
        [&] { return std::vector<Val>{b.Load(Type::kF32, args.out, (first + at.back()) << 2)}; },
        [&] { return std::vector<Val>{b.F32(0.f)}; });
    value.push_back(own[0]);
    sum = Fma(own[0], own[0], sum);
  }
  const Val mean = DivF(reducer.Sum(sum), b.F32(static_cast<float>(dim)));
  const Val scale = DivF(b.F32(1.f), b.Call(Builder::Fn::kSqrt, mean + FloatOf(args.norm_eps)));
  for (size_t i = 0; i < value.size(); ++i) {
    b.If(inside[i], [&] {
      const Val gate = Silu(b.Load(Type::kF32, args.z, (first + at[i]) << 2));
      b.Store(args.out, (first + at[i]) << 2,
              ((value[i] * scale) * b.Load(Type::kF32, args.norm_w, at[i] << 2)) * gate);
    });
  }
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
  const int threads = s.norm_threads();
  const Val begin = group * threads + b.Thread();
  const Val stride = b.I32((static_cast<int>(DeltaNormGroups(s)) - s.value_heads) * threads);
  const auto copy = [&](int quads, Val from, Val at, Val to, Val to_at) {
    b.For(begin, b.I32(quads), stride,
          [&](Val quad) { b.Store(to, (quad << 4) + to_at, b.Load(Type::kF32x4, from, (quad << 4) + at)); });
  };
  // Two blocks where they lie apart: the next step may begin up to 16 tokens back. In one place each column
  // and entry has a writer of its own, too.
  const Val columns = Select(conv.Shared(), b.I32(kBlock), b.I32(2 * kBlock));
  b.If(LtS(last - columns, position), [&] {
    copy(s.channels() / 4, args.qkv, row * (4 * s.channels()), conv.Of(block), place * (4 * s.channels()));
  });
  const Val blocks = Select(delta.Shared(), b.I32(1), b.I32(2));
  b.If(LtS(ShrU(last, 4) - blocks, block), [&] {
    const DeltaBlock entries(b, s, threads, {args.mixed, args.gates});
    const Val slot = delta.Of(block);
    copy(s.keys() / 4, args.mixed, (row * s.channels() + s.keys()) << 2, slot,
         entries.EntryAt(place, s.entry().k));
    b.For(begin, b.I32(s.value_heads), stride, [&](Val head) {
      b.Store(slot, entries.EntryAt(place, head, s.entry().d),
              b.Load(Type::kF32, args.gates, (row * s.gates() + head) << 2));
    });
  });
}

}  // namespace

uint32_t DeltaNormGroups(const DeltaSpec& s) {
  return static_cast<uint32_t>(s.value_heads + CeilDiv(s.channels(), 4 * kCopies * s.norm_threads()));
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
