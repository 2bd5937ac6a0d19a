// The delta rule. A workgroup has some columns of a value head's state and, in registers, all of their
// elements of S, the state before the block of 16 tokens. Eight threads share a column. Of a token, with P
// the decay since the block's begin, g_i the decay since token i of the block, b = beta:
//   w = v - P (S^T k) - sum over i before it of g_i (k_i.k) u_i;  u = b w
//   o = P (S^T q) + sum over i up to it of g_i (k_i.q) u_i
// with sums by ascending i, of which each term is fused. With a block's last token
//   S = P S + sum over i of (g_i u_i) k_i^T
// becomes the S of the next block. So S is read once and written once in 16 tokens, and of a token only its u
// is kept; S^T k and S^T q of a block's tokens wait for none of them.
#include <algorithm>

#include "codegen/gpu/kernels/gated_delta.h"
#include "codegen/gpu/kernels/gated_delta_block.h"
#include "codegen/gpu/kernels/kernel_args.h"
#include "codegen/gpu/kernels/step.h"

namespace qcc::gpu {
namespace {

using F = DeltaFactors;

constexpr int kParts = kDeltaParts, kBlock = kDeltaBlock;
constexpr const DeltaRuleArgs<int>& kAt = kArg<DeltaRuleArgs>;
constexpr int kFactorsArg = static_cast<int>(kArgCount<DeltaRuleArgs>);  // behind the others
constexpr int kReadTokens = kParts / 2;  // how far apart a part's sums by keys and by queries are

// The rule for the workgroup's columns of one value head.
class Rule {
 public:
  Rule(Builder& b, const DeltaSpec& s, const DeltaRuleForm& form)
      : b_(b),
        s_(s),
        form_(form),
        width_(s.columns()),
        threads_(width_ * kParts),
        mixed_(b.Arg(kAt.mixed)),
        gates_(b.Arg(kAt.gates)),
        out_(b.Arg(kAt.out)),
        block_(b, s, threads_, mixed_, gates_),
        part_(block_.part()),
        column_(block_.vector()),
        memory_(b.AllocShared(Type::kF32, scratch_at() + block_.ScratchWords())) {
    if (!form.own_dots) factors_ = b.Arg(kFactorsArg);
  }

  // All rows of a sequence. `group`: the workgroup.
  void Run(Val group, Val seqs, Val seq);

 private:
  // Where what lies in workgroup memory: factors of the block's tokens; their betas; their decays; w and o
  // [16][width] less what the block's own tokens change; u [16][width].
  static constexpr int kBetas = kBlock * F::kCount, kDecays = kBetas + kBlock, kRows = kDecays + kBlock;
  int w_at() const { return kRows; }
  int o_at() const { return kRows + kBlock * width_; }
  int u_at() const { return kRows + 2 * kBlock * width_; }
  int scratch_at() const { return kRows + 3 * kBlock * width_; }

  void Stage(const DeltaPiece& piece);
  void MakeFactors(const DeltaPiece& piece);
  void ReadState(const DeltaPiece& piece, const std::vector<Val>& state);
  void SolveTokens(const DeltaPiece& piece, Val keeps);
  void SolveBlock(const DeltaPiece& piece, Val keeps);
  void Leave(const DeltaPiece& piece, Val keeps, Val t, Val u, Val o);
  std::vector<Val> Fold(const DeltaPiece& piece, std::vector<Val> state);

  // A row of [16][width], the thread's column.
  Val Row(int at, Val t) const { return b_.LoadShared(memory_, t * width_ + column_ + at); }
  Val Factor(Val t, int number) const { return b_.LoadShared(memory_, t * F::kCount + number); }
  // A value of the workgroup's columns, of all heads' values.
  Val Value() const { return first_value_ + column_; }

  Builder& b_;
  const DeltaSpec& s_;
  const DeltaRuleForm& form_;
  const int width_, threads_;  // columns of the workgroup; its threads
  const Val mixed_, gates_, out_;
  const DeltaBlock block_;
  const Val part_, column_;
  const Shared memory_;
  Val factors_;                        // null: own dots
  Val head_, key_head_, first_value_;  // first_value_: of the workgroup's, among the values of all heads
};

void Rule::Run(Val group, Val seqs, Val seq) {
  const int per_head = s_.value_dim / width_;
  head_ = DivU(group, per_head);
  key_head_ = s_.KeyHead(head_);
  first_value_ = group * width_;
  const SeqStateBlocks states = SeqStates(seqs, seq, b_.Arg(kAt.delta_state));
  const Val past = SeqPast(seqs, seq), row_begin = SeqRowBegin(seqs, seq);
  const Val end = past + SeqRowCount(seqs, seq), first = ShrU(past, 4), live = ShrU(end, 4);
  static_assert(kBlock == 1 << 4);
  const Val own_column = RemU(group, per_head) * width_ + column_;
  const Val state_before = states.Of(first);
  std::vector<Val> place, before;
  for (int i = 0; i < block_.elements(); ++i) {
    place.push_back(((head_ * s_.key_dim + block_.Number(i)) * s_.value_dim + own_column) << 2);
    before.push_back(b_.Load(Type::kF32, state_before, place.back()));
  }
  // What is read before it is written: columns of blocks that begin ahead of the step's tokens.
  for (int i = 0; i < kBlock; i += kParts) {
    b_.StoreShared(memory_, (part_ + i) * width_ + column_ + w_at(), b_.F32(0.f));
    b_.StoreShared(memory_, (part_ + i) * width_ + column_ + o_at(), b_.F32(0.f));
  }
  b_.For(first, ShrU(end - 1, 4) + 1, b_.I32(1), before, [&](Val block, const std::vector<Val>& state) {
    const Val begin = block << 4;
    const DeltaPiece piece = {.state = states.Of(block),
                              .origin = row_begin + (begin - past),
                              .begin = MaxS(past - begin, b_.I32(0)),
                              .end = MinS(end - begin, b_.I32(kBlock))};
    // The next step may begin anywhere from 16 tokens back on.
    const Val keeps = LtS(live - 2, block);
    Stage(piece);
    if (form_.own_dots) MakeFactors(piece);
    ReadState(piece, state);
    if (form_.own_dots) {
      SolveTokens(piece, keeps);
    } else {
      SolveBlock(piece, keeps);
    }
    return b_.IfElse(
        Eq(piece.end, kBlock),
        [&] {
          const std::vector<Val> next = Fold(piece, state);
          b_.If(LtS(live - 3, block), [&] {
            const Val to = states.Of(block + 1);
            for (size_t i = 0; i < next.size(); ++i) b_.Store(to, place[i], next[i]);
          });
          return next;
        },
        [&] { return state; });
  });
}

// Factors (or the decays that they are made of), betas, u of tokens before the step's.
void Rule::Stage(const DeltaPiece& piece) {
  const Val thread = b_.Thread();
  b_.Barrier();  // of the block before, all may still be read
  if (factors_) {
    b_.For(b_.I32(0), b_.I32(kBlock * F::kCount), b_.I32(threads_), [&](Val turn) {
      const Val at = turn + thread, t = DivU(at, F::kCount), c = RemU(at, F::kCount);
      // Of other places than the step's: of some row that it has.
      const Val row = piece.origin + MaxS(MinS(t, piece.end - 1), piece.begin);
      b_.StoreShared(memory_, at,
                     b_.Load(Type::kF32, factors_, ((row * s_.value_heads + head_) * F::kCount + c) << 2));
    });
  } else {
    block_.StageDecays(piece, head_, memory_, kDecays);
  }
  b_.If(LtS(thread, b_.I32(kBlock)), [&] {
    const Val row = piece.origin + MaxS(MinS(thread, piece.end - 1), piece.begin);
    const Val at = row * s_.gates() + head_ + s_.value_heads;
    b_.StoreShared(memory_, thread + kBetas, b_.Load(Type::kF32, gates_, at << 2));
  });
  for (int i = 0; i < kBlock; i += kParts) {
    const Val t = part_ + i;
    const Val u = b_.IfElse(
        LtS(t, piece.begin),
        [&] {
          const Val at = block_.EntryAt(t, Value(), s_.entry().u);
          return std::vector<Val>{b_.Load(Type::kF32, piece.state, at)};
        },
        [&] { return std::vector<Val>{b_.F32(0.f)}; })[0];
    b_.StoreShared(memory_, t * width_ + column_ + u_at(), u);
  }
  b_.Barrier();
}

void Rule::MakeFactors(const DeltaPiece& piece) {
  block_.StoreDecays(memory_, kDecays, memory_, 0);
  b_.Barrier();
  const Val is_key = LtS(part_, b_.I32(kReadTokens));
  for (int turn = 0; turn < kBlock; turn += width_) {
    const Val i = column_ + turn;
    const std::vector<Val> key = block_.Key(piece, key_head_, MinS(i, piece.end - 1));
    b_.For(piece.begin, piece.end, b_.I32(form_.tokens), [&](Val first) {
      const Val dot = block_.Products(key, piece, key_head_, first, form_.tokens, memory_, scratch_at());
      const Val number = RemU(part_, kReadTokens), t = first + number;
      const Val at = i + Select(is_key, b_.I32(F::kKey), b_.I32(F::kQuery));
      const Val is_token = And(LtS(number, b_.I32(form_.tokens)), LtS(t, piece.end));
      b_.If(And(is_token, b_.Compare(Builder::Cmp::kNe, at, b_.I32(F::kSinceBegin))), [&] {
        const Val decay = b_.LoadShared(memory_, t * F::kCount + i + F::kDecay);
        b_.StoreShared(memory_, t * F::kCount + at, decay * Select(is_key, dot * -1.0, dot));
      });
    });
  }
}

// w and o of the step's tokens as far as they follow from S.
void Rule::ReadState(const DeltaPiece& piece, const std::vector<Val>& state) {
  const Val is_key = LtS(part_, b_.I32(kReadTokens));
  b_.For(piece.begin, piece.end, b_.I32(form_.tokens), [&](Val first) {
    const Val sum = block_.Products(state, piece, key_head_, first, form_.tokens, memory_, scratch_at());
    const Val number = RemU(part_, kReadTokens), t = first + number;
    b_.If(And(LtS(number, b_.I32(form_.tokens)), LtS(t, piece.end)), [&] {
      const Val decayed = Factor(t, F::kSinceBegin) * sum;
      const Val value =
          b_.Load(Type::kF32, mixed_, ((piece.origin + t) * s_.channels() + Value() + 2 * s_.keys()) << 2);
      const Val at = Select(is_key, b_.I32(w_at()), b_.I32(o_at())) + t * width_ + column_;
      b_.StoreShared(memory_, at, Select(is_key, value - decayed, decayed));
    });
  });
  b_.Barrier();
}

// What a token leaves. One thread of a column calls.
void Rule::Leave(const DeltaPiece& piece, Val keeps, Val t, Val u, Val o) {
  b_.Store(out_, ((piece.origin + t) * s_.values() + Value()) << 2, o);
  b_.If(keeps, [&] { b_.Store(piece.state, block_.EntryAt(t, Value(), s_.entry().u), u); });
}

// Few tokens: one after the other, each with a barrier.
void Rule::SolveTokens(const DeltaPiece& piece, Val keeps) {
  b_.For(piece.begin, piece.end, b_.I32(1), [&](Val t) {
    Val w = Row(w_at(), t), o = Row(o_at(), t);
    for (int i = 0; i < kBlock; ++i) {
      const Val earlier = LtS(b_.I32(i), t), u = Row(u_at(), b_.I32(i));
      // The last token is before none.
      if (i + 1 < kBlock) w = Select(earlier, Fma(Factor(t, F::kKey + i), u, w), w);
      o = Select(earlier, Fma(Factor(t, F::kQuery + i), u, o), o);
    }
    const Val u = w * b_.LoadShared(memory_, t + kBetas);
    o = Fma(b_.LoadShared(memory_, t * F::kCount + t + F::kQuery), u, o);
    b_.Barrier();
    b_.If(Eq(part_, 0), [&] {
      b_.StoreShared(memory_, t * width_ + column_ + u_at(), u);
      Leave(piece, keeps, t, u, o);
    });
    b_.Barrier();
  });
}

// Many: all threads of a column work out all of its u, and each the outputs of two tokens.
void Rule::SolveBlock(const DeltaPiece& piece, Val keeps) {
  std::vector<Val> u;
  for (int t = 0; t < kBlock; ++t) {
    const Val at = b_.I32(t);
    Val w = Row(w_at(), at);
    for (int i = 0; i < t; ++i) w = Fma(Factor(at, F::kKey + i), u[static_cast<size_t>(i)], w);
    const Val own = w * b_.LoadShared(memory_, b_.I32(t + kBetas));
    u.push_back(Select(LtS(at, piece.begin), Row(u_at(), at), own));
  }
  b_.Barrier();
  for (int turn = 0; turn < kBlock; turn += kParts) {
    const Val t = part_ + turn;
    Val own = u[static_cast<size_t>(turn)], o = Row(o_at(), t);
    for (int i = 1; i < kParts; ++i) own = Select(Eq(part_, i), u[static_cast<size_t>(turn + i)], own);
    for (int i = 0; i < turn + kParts; ++i) {
      const Val sum = Fma(Factor(t, F::kQuery + i), u[static_cast<size_t>(i)], o);
      o = i < turn ? sum : Select(LeS(b_.I32(i), t), sum, o);
    }
    b_.StoreShared(memory_, t * width_ + column_ + u_at(), own);
    b_.If(And(LeS(piece.begin, t), LtS(t, piece.end)), [&] { Leave(piece, keeps, t, own, o); });
  }
  b_.Barrier();
}

// S of the next block.
std::vector<Val> Rule::Fold(const DeltaPiece& piece, std::vector<Val> state) {
  const Val last = b_.I32(kBlock - 1), decay = Factor(last, F::kSinceBegin);
  for (Val& element : state) element = element * decay;
  return b_.For(b_.I32(0), b_.I32(kBlock), b_.I32(1), state, [&](Val i, std::vector<Val> next) {
    const std::vector<Val> key = block_.Key(piece, key_head_, i);
    const Val decayed = b_.LoadShared(memory_, i + ((kBlock - 1) * F::kCount + F::kDecay)) * Row(u_at(), i);
    for (size_t e = 0; e < next.size(); ++e) next[e] = Fma(decayed, key[e], next[e]);
    return next;
  });
}

}  // namespace

uint32_t DeltaRuleGroups(const DeltaSpec& s) {
  return static_cast<uint32_t>(s.values() / s.columns());
}

void EmitDeltaRule(Builder& b, const DeltaSpec& s, const DeltaRuleForm& form) {
  const Val step = b.Arg(kAt.step), seqs = b.Arg(kAt.seqs), group = b.BlockX();
  Rule rule(b, s, form);
  b.For(b.BlockZ(), StepSeqs(step), b.I32(form.sequences),
        [&](Val seq) { b.If(LtS(b.I32(0), SeqRowCount(seqs, seq)), [&] { rule.Run(group, seqs, seq); }); });
}

}  // namespace qcc::gpu
