// The delta rule. A workgroup has some columns of a value head's state S [key][value] and, in registers, all
// of their elements: the state is read and written once a step, however many tokens the step has. Eight
// threads share a column, element by element in turn. Per token, with d = decay, b = beta:
//   u = b (v - d S^T k);  o = d S^T q + (k.q) u;  S = d S + k u^T
// which is "decay, read, write, read out" with both reads before the write.
#include <algorithm>

#include "codegen/gpu/kernels/gated_delta.h"
#include "codegen/gpu/kernels/reduce.h"
#include "codegen/gpu/kernels/step.h"

namespace qcc::gpu {
namespace {

constexpr int kParts = kDeltaParts;
constexpr int kMaxTokens = 16;     // staged at once
constexpr int kStageWords = 2048;  // for their queries and keys: half of the least workgroup memory

int CeilDiv(int a, int b) {
  return (a + b - 1) / b;
}

// A copy of the last taps - 1 columns of old state and new rows, a channel a thread.
void AdvanceConv(Builder& b, const DeltaSpec& s, Val qkv, Val conv_state, Val row_begin, Val row_count,
                 Val channel) {
  std::vector<Val> columns;
  for (int i = 0; i < s.taps - 1; ++i) {
    columns.push_back(ConvColumn(s, qkv, conv_state, row_begin, row_count + (i - (s.taps - 1)), channel));
  }
  for (int i = 0; i < s.taps - 1; ++i) {
    b.Store(conv_state, (channel + static_cast<double>(i * s.channels())) << 2, columns[i]);
  }
}

}  // namespace

uint32_t DeltaRuleGroups(const DeltaSpec& s) {
  return static_cast<uint32_t>(s.values() / s.columns() + CeilDiv(s.channels(), s.columns() * kParts));
}

void EmitDeltaRule(Builder& b, const DeltaSpec& s, int sequences) {
  const Val step = b.Arg(0), seqs = b.Arg(1), qkv = b.Arg(2), mixed = b.Arg(3), gates = b.Arg(4);
  const Val out = b.Arg(7);
  const int width = s.columns(), threads = width * kParts, elements = s.key_dim / kParts;
  const int tokens = std::min(kMaxTokens, kStageWords / (2 * s.key_dim));
  const int gate_width = 2 * s.value_heads + s.key_heads;
  const Shared staged_q = b.AllocShared(Type::kF32, tokens * s.key_dim);
  const Shared staged_k = b.AllocShared(Type::kF32, tokens * s.key_dim);
  const Shared staged_v = b.AllocShared(Type::kF32, tokens * width);
  const Shared staged_gates = b.AllocShared(Type::kF32, tokens * 3);
  Reducer over_parts(b, threads, kParts, 2);
  const Val group = b.BlockX(), thread = b.Thread();
  const int rule_groups = s.values() / width, per_head = s.value_dim / width;

  const auto rule = [&](Val row_begin, Val row_count, Val state_address) {
    const Val head = DivU(group, per_head), key_head = RemU(head, s.key_heads);
    const Val part = RemU(thread, kParts), column = DivU(thread, kParts);
    const Val first_value = group * width;  // of the values of all heads
    const Val base = state_address + b.ExtendU(head) * static_cast<double>(4ll * s.key_dim * s.value_dim);
    const Val own_column = RemU(group, per_head) * width + column;
    std::vector<Val> place, state;
    for (int i = 0; i < elements; ++i) {
      place.push_back(((part + i * kParts) * s.value_dim + own_column) << 2);
      state.push_back(b.Load(Type::kF32, base, place[i]));
    }

    const auto block = [&](Val t0, const std::vector<Val>& before) {
      const Val row = row_begin + t0, count = MinS(row_count - t0, b.I32(tokens));
      const auto stage = [&](const Shared& to, int row_width, int row_stride, Val from) {
        const Val end = count * row_width;
        b.For(b.I32(0), end, b.I32(threads), [&](Val first) {
          const Val at = first + thread;
          b.If(LtS(at, end), [&] {
            const Val source = (row + DivU(at, row_width)) * row_stride + from + RemU(at, row_width);
            b.StoreShared(to, at, b.Load(Type::kF32, mixed, source << 2));
          });
        });
      };
      b.Barrier();
      stage(staged_q, s.key_dim, s.channels(), key_head * s.key_dim);
      stage(staged_k, s.key_dim, s.channels(), key_head * s.key_dim + s.keys());
      stage(staged_v, width, s.channels(), first_value + 2 * s.keys());
      b.If(LtS(thread, count), [&] {
        const Val gate_row = (row + thread) * gate_width;
        const Val gate[3] = {gate_row + head, gate_row + head + s.value_heads,
                             gate_row + key_head + 2 * s.value_heads};
        for (int i = 0; i < 3; ++i) {
          b.StoreShared(staged_gates, thread + static_cast<double>(i * tokens),
                        b.Load(Type::kF32, gates, gate[i] << 2));
        }
      });
      b.Barrier();

      return b.For(b.I32(0), count, b.I32(1), before, [&](Val t, const std::vector<Val>& so_far) {
        std::vector<Val> next = so_far, key;
        const Val at = t * s.key_dim + part;
        // Two chains each.
        Val by_key[2], by_query[2];
        for (int i = 0; i < elements; ++i) {
          key.push_back(b.LoadShared(staged_k, at + i * kParts));
          const Val query = b.LoadShared(staged_q, at + i * kParts);
          Val &k = by_key[i % 2], &q = by_query[i % 2];
          k = k ? Fma(next[i], key[i], k) : next[i] * key[i];
          q = q ? Fma(next[i], query, q) : next[i] * query;
        }
        const std::vector<Val> read =
            over_parts(Reduction::kSum, {by_key[1] ? by_key[0] + by_key[1] : by_key[0],
                                         by_query[1] ? by_query[0] + by_query[1] : by_query[0]});
        const Val decay = b.LoadShared(staged_gates, t), beta = b.LoadShared(staged_gates, t + tokens),
                  dot = b.LoadShared(staged_gates, t + 2 * tokens);
        const Val u = (b.LoadShared(staged_v, t * width + column) - read[0] * decay) * beta;
        for (int i = 0; i < elements; ++i) next[i] = Fma(u, key[i], next[i] * decay);
        b.If(Eq(part, 0), [&] {
          b.Store(out, ((row + t) * s.values() + first_value + column) << 2, Fma(u, dot, read[1] * decay));
        });
        return next;
      });
    };
    state = b.For(b.I32(0), row_count, b.I32(tokens), state, block);
    for (int i = 0; i < elements; ++i) b.Store(base, place[i], state[i]);
  };

  b.For(b.BlockZ(), StepSeqs(step), b.I32(sequences), [&](Val seq) {
    const Val address = SeqState(seqs, seq);
    const Val row_begin = SeqRowBegin(seqs, seq), row_count = SeqRowCount(seqs, seq);
    const Val is_rule = LtS(group, b.I32(rule_groups)), has_rows = LtS(b.I32(0), row_count);
    b.If(And(is_rule, has_rows), [&] { rule(row_begin, row_count, address + b.Arg(6)); });
    const Val channel = (group - rule_groups) * threads + thread;
    b.If(And(And(LtS(b.I32(rule_groups - 1), group), has_rows), LtS(channel, b.I32(s.channels()))),
         [&] { AdvanceConv(b, s, qkv, address + b.Arg(5), row_begin, row_count, channel); });
  });
}

}  // namespace qcc::gpu
