// The delta rule. A workgroup has some columns of a value head's state S [key][value] and, in registers, all
// of their elements: the state is read and written once a step, however many tokens the step has. Eight
// threads share a column. Per token, with d = decay, b = beta:
//   u = b (v - d S^T k);  o = d S^T q + (k.q) u;  S = d S + k u^T
// which is "decay, read, write, read out" with both reads before the write. Per chunk of 16 tokens, with g
// the decay since its begin and the matrices A and B of EmitDeltaChunk (the WY form of the product of its
// writes):
//   w = v - g S^T k;  u = A w;  o = g S^T q + B w;  S = g_last S + sum k u^T
// where nothing waits for the token before.
#include <algorithm>

#include "codegen/gpu/kernels/gated_delta.h"
#include "codegen/gpu/kernels/kernel_args.h"
#include "codegen/gpu/kernels/reduce.h"
#include "codegen/gpu/kernels/step.h"

namespace qcc::gpu {
namespace {

constexpr int kParts = kDeltaParts;
constexpr int kMaxTokens = 16;     // staged at once
constexpr int kStageWords = 2048;  // for their queries and keys: half of the least workgroup memory
constexpr int C = kDeltaChunk;
constexpr const DeltaRuleArgs<int>& kAt = kArg<DeltaRuleArgs>;
constexpr int kChunksArg = static_cast<int>(kArgCount<DeltaRuleArgs>);  // behind the others
constexpr int kReadTokens = kParts / 2;  // of a chunk, read at once: with k and q as many sums as threads

// A copy of the last taps - 1 columns of old state and new rows, a channel a thread.
void AdvanceConv(Builder& b, const DeltaSpec& s, Val qkv, Val conv_state, Val row_begin, Val row_count,
                 Val channel) {
  std::vector<Val> columns;
  for (int i = 0; i < s.taps - 1; ++i) {
    columns.push_back(ConvColumn(s, qkv, conv_state, row_begin, row_count + (i - (s.taps - 1)), channel));
  }
  for (int i = 0; i < s.taps - 1; ++i) {
    b.Store(conv_state, (channel + (i * s.channels())) << 2, columns[i]);
  }
}

// The rule for the workgroup's columns of one value head. Workgroup memory is one block: of the serial form
// queries, keys, values and gates of the staged tokens; of chunks w and the state's part of o, u, and what
// SumScattered needs.
class Rule {
 public:
  Rule(Builder& b, const DeltaSpec& s, bool chunked)
      : b_(b),
        s_(s),
        width_(s.columns()),
        threads_(width_ * kParts),
        elements_(s.key_dim / kParts),
        vector_(elements_ % 4 == 0   ? 4
                : elements_ % 2 == 0 ? 2
                                     : 1),
        tokens_(std::min(kMaxTokens, kStageWords / (2 * s.key_dim))),
        over_parts_(b, threads_, kParts, 2),
        mixed_(b.Arg(kAt.mixed)),
        gates_(b.Arg(kAt.gates)),
        out_(b.Arg(kAt.out)),
        part_(RemU(b.Thread(), kParts)),
        column_(DivU(b.Thread(), kParts)) {
    const int serial = tokens_ * (2 * s.key_dim + width_ + 3);
    const int chunk = chunked ? 3 * C * width_ + SumScatteredWords(b.profile(), threads_, kParts) : 0;
    memory_ = b.AllocShared(Type::kF32, std::max(serial, chunk));
    if (chunked) chunks_ = b.Arg(kChunksArg);
  }

  // All rows of a sequence. `group`: the workgroup, of those with columns.
  void Run(Val group, Val row_begin, Val row_count, Val state_address) {
    const int per_head = s_.value_dim / width_;
    head_ = DivU(group, per_head);
    key_head_ = s_.KeyHead(head_);
    first_value_ = group * width_;
    const Val base = state_address + b_.ExtendU(head_) * (4ll * s_.key_dim * s_.value_dim);
    const Val own_column = RemU(group, per_head) * width_ + column_;
    std::vector<Val> place, state;
    for (int i = 0; i < elements_; ++i) {
      place.push_back(((part_ * vector_ + Offset(i)) * s_.value_dim + own_column) << 2);
      state.push_back(b_.Load(Type::kF32, base, place.back()));
    }
    Val done = b_.I32(0);
    if (chunks_) {
      done = row_count & -C;
      b_.Barrier();  // of the sequence before, staged tokens may still be read
      state = b_.For(b_.I32(0), done, b_.I32(C), state,
                     [&](Val t0, const std::vector<Val>& before) { return Chunk(row_begin + t0, before); });
    }
    state = b_.For(done, row_count, b_.I32(tokens_), state, [&](Val t0, const std::vector<Val>& before) {
      return Tokens(row_begin + t0, MinS(row_count - t0, b_.I32(tokens_)), before);
    });
    for (int i = 0; i < elements_; ++i)
      b_.Store(base, place[static_cast<size_t>(i)], state[static_cast<size_t>(i)]);
  }

 private:
  // Row of the thread's element `i` of its column, less part * vector_: as vectors that lie side by side in a
  // row of queries or keys.
  int Offset(int i) const { return i / vector_ * vector_ * kParts + i % vector_; }

  // The thread's elements of a query or key; `first`: float of `mixed` where that begins.
  std::vector<Val> Elements(Val first) const {
    const Type type = vector_ == 4 ? Type::kF32x4 : vector_ == 2 ? Type::kF32x2 : Type::kF32;
    std::vector<Val> elements;
    for (int i = 0; i < elements_; i += vector_) {
      const Val loaded = b_.Load(type, mixed_, (first + part_ * vector_ + Offset(i)) << 2);
      for (int lane = 0; lane < vector_; ++lane) {
        elements.push_back(vector_ == 1 ? loaded : b_.Extract(loaded, lane));
      }
    }
    return elements;
  }
  // Where the head's query of a row begins; its key lies keys() behind.
  Val Query(Val row) const { return row * s_.channels() + key_head_ * s_.key_dim; }

  // In two chains.
  Val Dot(const std::vector<Val>& a, const std::vector<Val>& b) const {
    Val sum[2];
    for (size_t i = 0; i < a.size(); ++i) {
      Val& chain = sum[i % 2];
      chain = chain ? Fma(a[i], b[i], chain) : a[i] * b[i];
    }
    return sum[1] ? sum[0] + sum[1] : sum[0];
  }

  std::vector<Val> Chunk(Val row, std::vector<Val> state) {
    const int y_at = C * width_, u_at = 2 * y_at, scratch_at = 3 * y_at;
    const Val chunk = (ShrU(row, 4) * s_.value_heads + head_) * kDeltaChunkWords;
    static_assert(C == 1 << 4);

    // w and the state's part of o. Thread `part` ends with the sum of token part % 4 by k or by q.
    b_.For(b_.I32(0), b_.I32(C), b_.I32(kReadTokens), [&](Val t0) {
      std::vector<Val> by_key, sums;
      for (int t = 0; t < kReadTokens; ++t) {
        const Val query = Query(row + t0 + t);
        by_key.push_back(Dot(state, Elements(query + s_.keys())));
        sums.push_back(Dot(state, Elements(query)));
      }
      sums.insert(sums.begin(), by_key.begin(), by_key.end());
      const Val sum = SumScattered(b_, threads_, std::move(sums), memory_, scratch_at);
      const Val t = t0 + RemU(part_, kReadTokens);
      const Val decayed = b_.Load(Type::kF32, chunks_, (chunk + t + 2 * C * C) << 2) * sum;
      const Val value = b_.Load(Type::kF32, mixed_,
                                ((row + t) * s_.channels() + first_value_ + column_ + 2 * s_.keys()) << 2);
      const Val is_key = LtS(part_, b_.I32(kReadTokens));
      const Val at = Select(is_key, t, t + C) * width_ + column_;
      b_.StoreShared(memory_, at, Select(is_key, value - decayed, decayed));
    });
    b_.Barrier();

    // u and o of tokens part and part + 8.
    std::vector<Val> w;
    for (int i = 0; i < C; ++i) w.push_back(b_.LoadShared(memory_, column_ + i * width_));
    for (int turn = 0; turn < C / kParts; ++turn) {
      const Val t = part_ + turn * kParts;
      const auto row_of = [&](int matrix) {
        std::vector<Val> line;
        for (int i = 0; i < C; i += 4) {
          const Val four = b_.Load(Type::kF32x4, chunks_, (chunk + t * C + (matrix * C * C + i)) << 2);
          for (int lane = 0; lane < 4; ++lane) line.push_back(b_.Extract(four, lane));
        }
        return line;
      };
      const Val at = t * width_ + column_;
      b_.StoreShared(memory_, at + u_at, Dot(row_of(0), w));
      b_.Store(out_, ((row + t) * s_.values() + first_value_ + column_) << 2,
               b_.LoadShared(memory_, at + y_at) + Dot(row_of(1), w));
    }
    b_.Barrier();

    const Val decay = b_.Load(Type::kF32, chunks_, (chunk + (2 * C * C + C - 1)) << 2);
    for (Val& element : state) element = element * decay;
    return b_.For(b_.I32(0), b_.I32(C), b_.I32(kReadTokens), state, [&](Val t0, std::vector<Val> next) {
      for (int t = 0; t < kReadTokens; ++t) {
        const std::vector<Val> key = Elements(Query(row + t0 + t) + s_.keys());
        const Val u = b_.LoadShared(memory_, (t0 + t) * width_ + column_ + u_at);
        for (size_t i = 0; i < next.size(); ++i) next[i] = Fma(u, key[i], next[i]);
      }
      return next;
    });
  }

  // `count` tokens, at most tokens_, one by one.
  std::vector<Val> Tokens(Val row, Val count, const std::vector<Val>& before) {
    const int k_at = tokens_ * s_.key_dim, v_at = 2 * k_at, gates_at = v_at + tokens_ * width_;
    const int gate_width = 2 * s_.value_heads + s_.key_heads;
    const Val thread = b_.Thread();
    const auto stage = [&](int to, int row_width, Val from) {
      const Val end = count * row_width;
      b_.For(b_.I32(0), end, b_.I32(threads_), [&](Val first) {
        const Val at = first + thread;
        b_.If(LtS(at, end), [&] {
          const Val source = (row + DivU(at, row_width)) * s_.channels() + from + RemU(at, row_width);
          b_.StoreShared(memory_, at + to, b_.Load(Type::kF32, mixed_, source << 2));
        });
      });
    };
    b_.Barrier();
    stage(0, s_.key_dim, key_head_ * s_.key_dim);
    stage(k_at, s_.key_dim, key_head_ * s_.key_dim + s_.keys());
    stage(v_at, width_, first_value_ + 2 * s_.keys());
    b_.If(LtS(thread, count), [&] {
      const Val gate_row = (row + thread) * gate_width;
      const Val gate[3] = {gate_row + head_, gate_row + head_ + s_.value_heads,
                           gate_row + key_head_ + 2 * s_.value_heads};
      for (int i = 0; i < 3; ++i) {
        b_.StoreShared(memory_, thread + (gates_at + i * tokens_), b_.Load(Type::kF32, gates_, gate[i] << 2));
      }
    });
    b_.Barrier();

    return b_.For(b_.I32(0), count, b_.I32(1), before, [&](Val t, const std::vector<Val>& so_far) {
      std::vector<Val> next = so_far, key, query;
      const Val at = t * s_.key_dim + part_ * vector_;
      for (int i = 0; i < elements_; ++i) {
        key.push_back(b_.LoadShared(memory_, at + (Offset(i) + k_at)));
        query.push_back(b_.LoadShared(memory_, at + Offset(i)));
      }
      const std::vector<Val> read = over_parts_(Reduction::kSum, {Dot(next, key), Dot(next, query)});
      const Val decay = b_.LoadShared(memory_, t + gates_at),
                beta = b_.LoadShared(memory_, t + (gates_at + tokens_)),
                dot = b_.LoadShared(memory_, t + (gates_at + 2 * tokens_));
      const Val u = (b_.LoadShared(memory_, t * width_ + column_ + v_at) - read[0] * decay) * beta;
      for (size_t i = 0; i < next.size(); ++i) next[i] = Fma(u, key[i], next[i] * decay);
      b_.If(Eq(part_, 0), [&] {
        b_.Store(out_, ((row + t) * s_.values() + first_value_ + column_) << 2, Fma(u, dot, read[1] * decay));
      });
      return next;
    });
  }

  Builder& b_;
  const DeltaSpec& s_;
  const int width_, threads_;    // columns of the workgroup; its threads
  const int elements_, vector_;  // of a column, per thread; as vectors of this many
  const int tokens_;             // staged at once
  Reducer over_parts_;
  Shared memory_;
  const Val mixed_, gates_, out_;
  Val chunks_;
  const Val part_, column_;            // the thread's place
  Val head_, key_head_, first_value_;  // first_value_: of the workgroup's, among the values of all heads
};

}  // namespace

uint32_t DeltaRuleGroups(const DeltaSpec& s) {
  return static_cast<uint32_t>(s.values() / s.columns() + CeilDiv(s.channels(), s.columns() * kParts));
}

void EmitDeltaRule(Builder& b, const DeltaSpec& s, int sequences, bool chunked) {
  const Val step = b.Arg(kAt.step), seqs = b.Arg(kAt.seqs), qkv = b.Arg(kAt.qkv);
  const int threads = s.columns() * kParts, rule_groups = s.values() / s.columns();
  Rule rule(b, s, chunked);
  const Val group = b.BlockX(), thread = b.Thread();
  b.For(b.BlockZ(), StepSeqs(step), b.I32(sequences), [&](Val seq) {
    const Val address = SeqState(seqs, seq);
    const Val row_begin = SeqRowBegin(seqs, seq), row_count = SeqRowCount(seqs, seq);
    const Val is_rule = LtS(group, b.I32(rule_groups)), has_rows = LtS(b.I32(0), row_count);
    b.If(And(is_rule, has_rows),
         [&] { rule.Run(group, row_begin, row_count, address + b.Arg(kAt.delta_state)); });
    const Val channel = (group - rule_groups) * threads + thread;
    b.If(And(And(LtS(b.I32(rule_groups - 1), group), has_rows), LtS(channel, b.I32(s.channels()))),
         [&] { AdvanceConv(b, s, qkv, address + b.Arg(kAt.conv_state), row_begin, row_count, channel); });
  });
}

}  // namespace qcc::gpu
