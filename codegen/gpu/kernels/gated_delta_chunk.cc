// What a chunk of tokens needs besides the state, for all chunks of a step side by side. For tokens i <= t of
// a chunk, with D_ti the product of the decays after i up to t, b = beta:
//   L = strictly lower part of b_t D_ti (k_t.k_i);  u = (I + L)^-1 diag(b) w
//   P = lower part, with the diagonal, of D_ti (q_t.k_i);  o = (decay) S^T q + P u
// The products D are of at most 16 decays between 0 and 1, never quotients, which would be 0 / 0 after a
// token that forgets everything. One workgroup makes one chunk of one value head.
#include "codegen/gpu/kernels/gated_delta.h"
#include "codegen/gpu/kernels/step.h"

namespace qcc::gpu {
namespace {

constexpr int C = kDeltaChunk;
constexpr int kStride = kDeltaThreads / C;  // a thread has the pairs (t0, i), (t0 + kStride, i), ...
constexpr int kTurns = C / kStride;
static_assert(kStride * kTurns == C);

}  // namespace

void EmitDeltaChunk(Builder& b, const DeltaSpec& s) {
  const Val step = b.Arg(0), seqs = b.Arg(1), mixed = b.Arg(2), gates = b.Arg(3), chunks = b.Arg(4);
  const Shared decay = b.AllocShared(Type::kF32, C), beta = b.AllocShared(Type::kF32, C);
  const Shared minus_l = b.AllocShared(Type::kF32, C * C);  // [t][i]
  const Shared p = b.AllocShared(Type::kF32, C * C);        // [t][i]
  const Shared inverse = b.AllocShared(Type::kF32, C * C);  // [t][i], of I + L
  const Val head = b.BlockX(), slot = b.BlockY(), thread = b.Thread();
  const Val key_head = RemU(head, s.key_heads);
  const int gate_width = 2 * s.value_heads + s.key_heads;
  const Val i = RemU(thread, C), t0 = DivU(thread, C);

  // Decays of tokens first .. end - 1.
  const auto product = [&](Val first, Val end) {
    return b.For(first, end, b.I32(1), {b.F32(1.f)}, [&](Val at, const std::vector<Val>& so_far) {
      return std::vector<Val>{so_far[0] * b.LoadShared(decay, at)};
    })[0];
  };

  const auto compute = [&](Val row) {
    b.If(LtS(thread, b.I32(C)), [&] {
      const Val at = (row + thread) * gate_width + head;
      b.StoreShared(decay, thread, b.Load(Type::kF32, gates, at << 2));
      b.StoreShared(beta, thread, b.Load(Type::kF32, gates, (at + s.value_heads) << 2));
    });

    // Of token t0 + turn * kStride with token i: k.k and q.k, each in two chains.
    const std::vector<Val> sums = b.For(
        b.I32(0), b.I32(s.key_dim), b.I32(4), std::vector<Val>(static_cast<size_t>(4 * kTurns), b.F32(0.f)),
        [&](Val element, const std::vector<Val>& so_far) {
          std::vector<Val> next = so_far;
          const Val in_row = key_head * s.key_dim + element;
          const auto load = [&](Val token, int first) {
            return b.Load(Type::kF32x4, mixed, ((row + token) * s.channels() + in_row + first) << 2);
          };
          const Val own = load(i, s.keys());
          for (int turn = 0; turn < kTurns; ++turn) {
            const Val other[2] = {load(t0 + turn * kStride, s.keys()), load(t0 + turn * kStride, 0)};
            for (int kind = 0; kind < 2; ++kind) {
              for (int lane = 0; lane < 4; ++lane) {
                Val& sum = next[static_cast<size_t>((turn * 2 + kind) * 2 + lane % 2)];
                sum = Fma(b.Extract(other[kind], lane), b.Extract(own, lane), sum);
              }
            }
          }
          return next;
        });
    b.Barrier();
    for (int turn = 0; turn < kTurns; ++turn) {
      const Val t = t0 + turn * kStride, at = t * C + i, within = product(i + 1, t + 1);
      const auto dot = [&](int kind) {
        const size_t first = static_cast<size_t>((turn * 2 + kind) * 2);
        return (sums[first] + sums[first + 1]) * within;
      };
      b.StoreShared(minus_l, at, Select(LtS(i, t), dot(0) * (b.LoadShared(beta, t) * -1.0), b.F32(0.f)));
      b.StoreShared(p, at, Select(LtS(t, i), b.F32(0.f), dot(1)));
    }
    b.Barrier();

    // A column of the inverse each: forward substitution.
    b.If(LtS(thread, b.I32(C)), [&] {
      std::vector<Val> x;
      for (int t = 0; t < C; ++t) {
        Val sum = Select(Eq(thread, t), b.F32(1.f), b.F32(0.f));
        for (int before = 0; before < t; ++before) {
          sum = Fma(b.LoadShared(minus_l, b.I32(t * C + before)), x[static_cast<size_t>(before)], sum);
        }
        b.StoreShared(inverse, thread + t * C, sum);
        x.push_back(sum);
      }
    });
    b.Barrier();

    const Val base = (slot * s.value_heads + head) * kDeltaChunkWords;
    const Val own_beta = b.LoadShared(beta, i);
    for (int turn = 0; turn < kTurns; ++turn) {
      const Val t = t0 + turn * kStride, at = t * C;
      Val sum;
      for (int m = 0; m < C; ++m) {
        const Val x = b.LoadShared(p, at + m), y = b.LoadShared(inverse, i + m * C);
        sum = sum ? Fma(x, y, sum) : x * y;
      }
      const Val tail = product(t + 1, b.I32(C));
      b.Store(chunks, (base + at + i) << 2, b.LoadShared(inverse, at + i) * own_beta * tail);
      b.Store(chunks, (base + at + i + C * C) << 2, sum * own_beta);
    }
    b.If(LtS(thread, b.I32(C)),
         [&] { b.Store(chunks, (base + thread + 2 * C * C) << 2, product(b.I32(0), thread + 1)); });
  };

  // A whole chunk that begins among rows slot * C and following C - 1 has the last of them; so there is at
  // most one, and it belongs to that row's sequence.
  const Val last = slot * C + (C - 1);
  b.If(LtS(last, StepRows(step)), [&] {
    const Val seq = RowSeq(step, last), begin = SeqRowBegin(seqs, seq);
    const Val first = (last - begin) & -C;
    b.If(LtS(first + (C - 1), SeqRowCount(seqs, seq)), [&] { compute(begin + first); });
  });
}

}  // namespace qcc::gpu
