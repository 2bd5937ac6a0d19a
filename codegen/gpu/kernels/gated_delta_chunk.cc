// What a chunk of tokens needs besides the state, for all chunks of a step side by side. For tokens i <= t of
// a chunk, with D_ti the product of the decays after i up to t, b = beta:
//   L = strictly lower part of b_t D_ti (k_t.k_i);  u = (I + L)^-1 diag(b) w
//   P = lower part, with the diagonal, of D_ti (q_t.k_i);  o = (decay) S^T q + P u
// The products D are of at most 16 decays between 0 and 1, never quotients, which would be 0 / 0 after a
// token that forgets everything. One workgroup makes one chunk of one value head.
#include "codegen/gpu/kernels/gated_delta.h"
#include "codegen/gpu/kernels/kernel_args.h"
#include "codegen/gpu/kernels/step.h"

namespace qcc::gpu {
namespace {

constexpr int C = kDeltaChunk;
constexpr int kStride = kDeltaThreads / C;  // a thread has the pairs (t0, i), (t0 + kStride, i), ...
constexpr int kTurns = C / kStride;
static_assert(kStride * kTurns == C);

class ChunkKernel {
 public:
  ChunkKernel(Builder& b, const DeltaSpec& s) : b_(b), s_(s) {}
  void Emit();

 private:
  void EmitChunk(Val row);
  void LoadGates(Val row);
  std::vector<Val> Dots(Val row);
  std::vector<Val> AddDots(Val row, Val element, std::vector<Val> sums) const;
  void StoreMatrices(const std::vector<Val>& sums);
  void Invert();
  void Leave();
  // Product of the decays of tokens first .. end - 1.
  Val Decay(Val first, Val end);
  // The thread's token of a turn.
  Val Token(int turn) const { return t0_ + turn * kStride; }

  Builder& b_;
  const DeltaSpec& s_;
  const DeltaChunkArgs<Val> args_ = ReadArgs<DeltaChunkArgs>(b_);
  const Shared decay_ = b_.AllocShared(Type::kF32, C), beta_ = b_.AllocShared(Type::kF32, C);
  const Shared minus_l_ = b_.AllocShared(Type::kF32, C* C);  // [t][i]
  const Shared p_ = b_.AllocShared(Type::kF32, C* C);        // [t][i]
  const Shared inverse_ = b_.AllocShared(Type::kF32, C* C);  // [t][i], of I + L
  const Val head_ = b_.BlockX(), slot_ = b_.BlockY(), thread_ = b_.Thread();
  const Val key_head_ = s_.KeyHead(head_);
  const Val i_ = RemU(thread_, C), t0_ = DivU(thread_, C);
};

void ChunkKernel::Emit() {
  // A whole chunk that begins among rows slot * C and following C - 1 has the last of them; so there is at
  // most one, and it belongs to that row's sequence.
  const Val last = slot_ * C + (C - 1);
  b_.If(LtS(last, StepRows(args_.step)), [&] {
    const Val seq = RowSeq(args_.step, last), begin = SeqRowBegin(args_.seqs, seq);
    const Val first = (last - begin) & -C;
    b_.If(LtS(first + (C - 1), SeqRowCount(args_.seqs, seq)), [&] { EmitChunk(begin + first); });
  });
}

void ChunkKernel::EmitChunk(Val row) {
  LoadGates(row);
  const std::vector<Val> sums = Dots(row);
  b_.Barrier();
  StoreMatrices(sums);
  b_.Barrier();
  Invert();
  b_.Barrier();
  Leave();
}

Val ChunkKernel::Decay(Val first, Val end) {
  return b_.For(first, end, b_.I32(1), {b_.F32(1.f)}, [&](Val at, const std::vector<Val>& so_far) {
    return std::vector<Val>{so_far[0] * b_.LoadShared(decay_, at)};
  })[0];
}

void ChunkKernel::LoadGates(Val row) {
  const int gate_width = 2 * s_.value_heads + s_.key_heads;
  b_.If(LtS(thread_, b_.I32(C)), [&] {
    const Val at = (row + thread_) * gate_width + head_;
    b_.StoreShared(decay_, thread_, b_.Load(Type::kF32, args_.gates, at << 2));
    b_.StoreShared(beta_, thread_, b_.Load(Type::kF32, args_.gates, (at + s_.value_heads) << 2));
  });
}

// [turn][k.k, q.k][two chains], of the thread's token with token i.
std::vector<Val> ChunkKernel::Dots(Val row) {
  return b_.For(b_.I32(0), b_.I32(s_.key_dim), b_.I32(4), std::vector<Val>(size_t{4 * kTurns}, b_.F32(0.f)),
                [&](Val element, const std::vector<Val>& so_far) { return AddDots(row, element, so_far); });
}

std::vector<Val> ChunkKernel::AddDots(Val row, Val element, std::vector<Val> sums) const {
  const Val in_row = key_head_ * s_.key_dim + element;
  const auto load = [&](Val token, int first) {
    return b_.Load(Type::kF32x4, args_.mixed, ((row + token) * s_.channels() + in_row + first) << 2);
  };
  const Val own = load(i_, s_.keys());
  for (int turn = 0; turn < kTurns; ++turn) {
    const Val other[2] = {load(Token(turn), s_.keys()), load(Token(turn), 0)};
    for (int kind = 0; kind < 2; ++kind) {
      for (int lane = 0; lane < 4; ++lane) {
        Val& sum = sums[static_cast<size_t>((turn * 2 + kind) * 2 + lane % 2)];
        sum = Fma(b_.Extract(other[kind], lane), b_.Extract(own, lane), sum);
      }
    }
  }
  return sums;
}

void ChunkKernel::StoreMatrices(const std::vector<Val>& sums) {
  for (int turn = 0; turn < kTurns; ++turn) {
    const Val t = Token(turn), at = t * C + i_, within = Decay(i_ + 1, t + 1);
    const auto dot = [&](int kind) {
      const size_t first = static_cast<size_t>((turn * 2 + kind) * 2);
      return (sums[first] + sums[first + 1]) * within;
    };
    b_.StoreShared(minus_l_, at, Select(LtS(i_, t), dot(0) * (b_.LoadShared(beta_, t) * -1.0), b_.F32(0.f)));
    b_.StoreShared(p_, at, Select(LtS(t, i_), b_.F32(0.f), dot(1)));
  }
}

// A column of the inverse each: forward substitution.
void ChunkKernel::Invert() {
  b_.If(LtS(thread_, b_.I32(C)), [&] {
    std::vector<Val> x;
    for (int t = 0; t < C; ++t) {
      Val sum = Select(Eq(thread_, t), b_.F32(1.f), b_.F32(0.f));
      for (int before = 0; before < t; ++before) {
        sum = Fma(b_.LoadShared(minus_l_, b_.I32(t * C + before)), x[static_cast<size_t>(before)], sum);
      }
      b_.StoreShared(inverse_, thread_ + t * C, sum);
      x.push_back(sum);
    }
  });
}

void ChunkKernel::Leave() {
  const Val base = (slot_ * s_.value_heads + head_) * kDeltaChunkWords;
  const Val own_beta = b_.LoadShared(beta_, i_);
  for (int turn = 0; turn < kTurns; ++turn) {
    const Val t = Token(turn), at = t * C;
    Val sum;
    for (int m = 0; m < C; ++m) {
      const Val x = b_.LoadShared(p_, at + m), y = b_.LoadShared(inverse_, i_ + m * C);
      sum = sum ? Fma(x, y, sum) : x * y;
    }
    const Val tail = Decay(t + 1, b_.I32(C));
    b_.Store(args_.chunks, (base + at + i_) << 2, b_.LoadShared(inverse_, at + i_) * own_beta * tail);
    b_.Store(args_.chunks, (base + at + i_ + C * C) << 2, sum * own_beta);
  }
  b_.If(LtS(thread_, b_.I32(C)),
        [&] { b_.Store(args_.chunks, (base + thread_ + 2 * C * C) << 2, Decay(b_.I32(0), thread_ + 1)); });
}

}  // namespace

void EmitDeltaChunk(Builder& b, const DeltaSpec& s) {
  ChunkKernel(b, s).Emit();
}

}  // namespace qcc::gpu
