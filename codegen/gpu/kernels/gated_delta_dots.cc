// DeltaFactors of a step's tokens. A workgroup has 16 rows and a key head; each eight threads have a key of
// the block.
#include "codegen/gpu/kernels/gated_delta.h"
#include "codegen/gpu/kernels/gated_delta_block.h"
#include "codegen/gpu/kernels/kernel_args.h"
#include "codegen/gpu/kernels/step.h"

namespace qcc::gpu {
namespace {

using F = DeltaFactors;

constexpr int kBlock = kDeltaBlock;
constexpr int kTokens = 4;  // at once
constexpr int kDots = 2 * kBlock;
static_assert(kDeltaThreads == kBlock * kDeltaParts);

class DotsKernel {
 public:
  DotsKernel(Builder& b, const DeltaSpec& s) : b_(b), s_(s) {}
  void Emit();

 private:
  void FindPieces();
  void EmitPiece(Val row, Val count);
  // Of the piece's tokens from place `from` on.
  void Dots(const DeltaPiece& piece, Val from);
  void LeaveHead(const DeltaPiece& piece, Val from, Val head);

  Builder& b_;
  const DeltaSpec& s_;
  const DeltaDotsArgs<Val> args_ = ReadArgs<DeltaDotsArgs>(b_);
  const DeltaBlock block_{b_, s_, kDeltaThreads, {args_.mixed, args_.gates}};
  // Of each row: how many from it on are of one block of a sequence, where it is the first of them; else 0.
  const Shared counts_ = b_.AllocShared(Type::kI32, kBlock);
  // [t][-k.k of 16, k.q of 16], and behind them what sums need.
  const Shared dots_ = b_.AllocShared(Type::kF32, kBlock* kDots + block_.ScratchWords());
  const Shared decays_ = b_.AllocShared(Type::kF32, kBlock);
  const Shared factors_ = b_.AllocShared(Type::kF32, kBlock* F::kCount);
  const Val key_head_ = b_.BlockX(), first_row_ = b_.BlockY() * kBlock, thread_ = b_.Thread();
};

void DotsKernel::Emit() {
  FindPieces();
  b_.Barrier();
  b_.For(b_.I32(0), b_.I32(kBlock), b_.I32(1), [&](Val i) {
    const Val count = b_.LoadShared(counts_, i);
    b_.If(LtS(b_.I32(0), count), [&] { EmitPiece(first_row_ + i, count); });
  });
}

void DotsKernel::FindPieces() {
  const Val row = first_row_ + thread_;
  b_.If(LtS(thread_, b_.I32(kBlock)), [&] {
    const Val count = b_.IfElse(
        LtS(row, StepRows(args_.step)),
        [&] {
          const Val seq = RowSeq(args_.step, row), place = RowPosition(args_.step, row) & (kBlock - 1);
          const Val begin = SeqRowBegin(args_.seqs, seq), end = begin + SeqRowCount(args_.seqs, seq);
          const Val most = MinS(MinS(b_.I32(kBlock) - place, end - row), b_.I32(kBlock) - thread_);
          const Val continues = And(And(LtS(begin, row), LtS(b_.I32(0), place)), LtS(b_.I32(0), thread_));
          return std::vector<Val>{Select(continues, b_.I32(0), most)};
        },
        [&] { return std::vector<Val>{b_.I32(0)}; })[0];
    b_.StoreShared(counts_, thread_, count);
  });
}

void DotsKernel::EmitPiece(Val row, Val count) {
  const Val seq = RowSeq(args_.step, row), position = RowPosition(args_.step, row);
  const Val from = position & (kBlock - 1), past = SeqPast(args_.seqs, seq);
  const DeltaPiece piece = {
      .state = SeqStates(args_.seqs, seq, args_.delta_state).Of(ShrU(position, 4)),
      .origin = row - from,
      .begin = MaxS(past - (position - from), b_.I32(0)),
      .end = from + count,
  };
  static_assert(kBlock == 1 << 4);
  Dots(piece, from);
  const int heads = s_.value_heads / s_.key_heads;
  const Val first = s_.grouped ? key_head_ * heads : key_head_;
  const Val end = s_.grouped ? first + heads : b_.I32(s_.value_heads);
  b_.For(first, end, b_.I32(s_.grouped ? 1 : s_.key_heads), [&](Val head) { LeaveHead(piece, from, head); });
}

void DotsKernel::Dots(const DeltaPiece& piece, Val from) {
  const Val i = block_.vector(), is_key = LtS(block_.part(), b_.I32(kTokens));
  const std::vector<Val> key = block_.Key(piece, key_head_, MinS(i, piece.end - 1));
  b_.Barrier();  // of the piece before, dots may still be read
  b_.For(from, piece.end, b_.I32(kTokens), [&](Val first) {
    const Val dot = block_.Products(key, piece, key_head_, first, kTokens, dots_, kBlock * kDots, {});
    const Val t = first + RemU(block_.part(), kTokens);
    b_.If(LtS(t, piece.end), [&] {
      b_.StoreShared(dots_, t * kDots + i + Select(is_key, b_.I32(0), b_.I32(kBlock)),
                     Select(is_key, dot * -1.0, dot));
    });
  });
}

void DotsKernel::LeaveHead(const DeltaPiece& piece, Val from, Val head) {
  b_.Barrier();  // of the head before, decays and factors may still be read
  block_.StageDecays(piece, head, decays_, 0);
  b_.Barrier();
  block_.StoreDecays(decays_, 0, factors_, 0);
  b_.Barrier();
  const Val count = (piece.end - from) * F::kCount;
  b_.For(b_.I32(0), count, b_.I32(kDeltaThreads), [&](Val turn) {
    const Val at = turn + thread_;
    b_.If(LtS(at, count), [&] {
      const Val t = from + DivU(at, F::kCount), c = RemU(at, F::kCount), i = c & (kBlock - 1);
      const Val is_dot =
          And(LtS(c, b_.I32(F::kDecay)), b_.Compare(Builder::Cmp::kNe, c, b_.I32(F::kSinceBegin)));
      const Val decay = b_.LoadShared(factors_, t * F::kCount + Select(is_dot, i + F::kDecay, c));
      const Val dot = b_.LoadShared(dots_, t * kDots + (c & (kDots - 1)));
      b_.Store(args_.factors, (((piece.origin + t) * s_.value_heads + head) * F::kCount + c) << 2,
               Select(is_dot, decay * dot, decay));
    });
  });
}

}  // namespace

void EmitDeltaDots(Builder& b, const DeltaSpec& s) {
  DotsKernel(b, s).Emit();
}

}  // namespace qcc::gpu
