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
#include <functional>
#include <optional>

#include "codegen/gpu/kernels/gated_delta.h"
#include "codegen/gpu/kernels/gated_delta_block.h"
#include "codegen/gpu/kernels/gated_delta_mix.h"
#include "codegen/gpu/kernels/kernel_args.h"
#include "codegen/gpu/kernels/step.h"

namespace qcc::gpu {
namespace {

using F = DeltaFactors;

constexpr int kParts = kDeltaParts, kBlock = kDeltaBlock, kGroup = 4;
static_assert(kBlock == 2 * kParts && kParts % kGroup == 0);
constexpr int kFactorsArg = static_cast<int>(kArgCount<DeltaRuleArgs>);  // behind the others
constexpr int kReadTokens = kParts / 2;  // how far apart a part's sums by keys and by queries are

// The rule for the workgroup's columns of one value head.
class Rule {
 public:
  Rule(Builder& b, const DeltaSpec& s, const DeltaRuleForm& form, const DeltaMixed& mixed, Val delta_state,
       Val out)
      : b_(b),
        s_(s),
        form_(form),
        width_(s.columns()),
        threads_(width_ * kParts),
        mixed_(mixed),
        delta_state_(delta_state),
        out_(out),
        block_(b, s, threads_, mixed),
        part_(block_.part()),
        column_(block_.vector()),
        memory_(b.AllocShared(Type::kF32, rows_at() + (StagesRows() ? block_.RowWords() : 0))) {
    if (!form.own_dots) factors_ = b.Arg(kFactorsArg);
  }

  // All rows of a sequence, in two steps, so that its state comes while its row is mixed. `group`: the
  // workgroup.
  void LoadState(Val group, const SeqFields& seq);
  void Run(const SeqFields& seq);

 private:
  // Where what lies in workgroup memory: factors of the block's tokens; their betas; their decays; w and o
  // [16][width] as far as they follow from S; u [16][width], which are w before their group is solved.
  static constexpr int kBetas = kBlock * F::kCount, kDecays = kBetas + kBlock, kRows = kDecays + kBlock;
  int w_at() const { return kRows; }
  int o_at() const { return kRows + kBlock * width_; }
  int u_at() const { return kRows + 2 * kBlock * width_; }
  int scratch_at() const { return kRows + 3 * kBlock * width_; }
  int rows_at() const { return (scratch_at() + block_.ScratchWords() + 3) / 4 * 4; }
  // Of prompts: a step of few tokens reads each row once.
  bool StagesRows() const {
    return !form_.own_dots && block_.CanStageRows() &&
           4 * (rows_at() + block_.RowWords()) <= b_.profile().max_shared;
  }

  void Stage(const DeltaPiece& piece);
  void StageOfPrompt(const DeltaPiece& piece);
  void MakeFactors(const DeltaPiece& piece);
  void ReadState(const DeltaPiece& piece, const std::vector<Val>& state);
  void Solve(const DeltaPiece& piece, Val keeps);
  std::vector<Val> SolveGroup(const DeltaPiece& piece, Val first);
  std::vector<Val> Fold(const DeltaPiece& piece, std::vector<Val> state);

  // A row of [16][width], the thread's column.
  Val Row(int at, Val t) const { return b_.LoadShared(memory_, t * width_ + column_ + at); }
  Val Factor(Val t, Val number) const { return b_.LoadShared(memory_, t * F::kCount + number); }
  static Val InStep(const DeltaPiece& piece, Val t) { return And(LeS(piece.begin, t), LtS(t, piece.end)); }
  // A token of the step, which has factors and a beta: `t` if it is one.
  static Val FactorRow(const DeltaPiece& piece, Val t) { return MaxS(MinS(t, piece.end - 1), piece.begin); }
  // A value of the workgroup's columns, of all heads' values; and what was mixed for it of a token.
  Val Value() const { return first_value_ + column_; }
  Val Value(const DeltaPiece& piece, Val t) const {
    const Val at = mixed_.Value(s_, piece.origin + t, first_value_, column_);
    return b_.Load(Type::kF32, mixed_.mixed, at << 2);
  }

  Builder& b_;
  const DeltaSpec& s_;
  const DeltaRuleForm& form_;
  const int width_, threads_;  // columns of the workgroup; its threads
  const DeltaMixed mixed_;
  const Val delta_state_, out_;
  const DeltaBlock block_;
  const Val part_, column_;
  const Shared memory_;
  Val factors_;                        // null: own dots
  Val head_, key_head_, first_value_;  // first_value_: of the workgroup's, among the values of all heads
  // By LoadState: of the thread's elements of S, the byte offset and what is there before the step.
  std::vector<Val> places_, before_;
};

void Rule::LoadState(Val group, const SeqFields& seq) {
  const int per_head = s_.value_dim / width_;
  head_ = DivU(group, per_head);
  key_head_ = s_.KeyHead(head_);
  first_value_ = group * width_;
  const Val own_column = RemU(group, per_head) * width_ + column_;
  const Val state = seq.Blocks(delta_state_).Of(ShrU(seq.past, 4));
  places_.clear();
  before_.clear();
  for (int i = 0; i < block_.elements(); ++i) {
    places_.push_back(((head_ * s_.key_dim + block_.Number(i)) * s_.value_dim + own_column) << 2);
    before_.push_back(b_.Load(Type::kF32, state, places_.back()));
  }
}

void Rule::Run(const SeqFields& seq) {
  const SeqStateBlocks states = seq.Blocks(delta_state_);
  const Val past = seq.past, end = past + seq.row_count, first = ShrU(past, 4), live = ShrU(end, 4);
  static_assert(kBlock == 1 << 4);
  b_.For(first, ShrU(end - 1, 4) + 1, b_.I32(1), before_, [&](Val block, const std::vector<Val>& state) {
    const Val begin = block << 4;
    const DeltaPiece piece = {.state = states.Of(block),
                              .origin = seq.row_begin + (begin - past),
                              .begin = MaxS(past - begin, b_.I32(0)),
                              .end = end - begin};
    // The next step may begin anywhere from 16 tokens back on.
    const Val keeps = LtS(live - 2, block);
    Stage(piece);
    if (form_.own_dots) MakeFactors(piece);
    ReadState(piece, state);
    Solve(piece, keeps);
    return b_.IfElse(
        LeS(b_.I32(kBlock), piece.end),
        [&] {
          const std::vector<Val> next = Fold(piece, state);
          b_.If(LtS(live - 3, block), [&] {
            const Val to = states.Of(block + 1);
            for (size_t i = 0; i < next.size(); ++i) b_.Store(to, places_[i], next[i]);
          });
          return next;
        },
        [&] { return state; });
  });
}

// Where rows are staged: them, factors and betas of the step's tokens; values of these, and u of those before
// them, in the places of w. All is asked for before any of it is stored, so that a block waits for memory
// once: each scheduler has only one of the four subgroups.
void Rule::StageOfPrompt(const DeltaPiece& piece) {
  constexpr int kQuads = F::kCount / 4;
  const Val thread = b_.Thread(), last = piece.EndHere() - 1;
  const auto in_step = [&](Val t) { return MaxS(MinS(t, last), piece.begin); };
  const std::vector<Val> rows = block_.LoadRows(piece, key_head_);
  std::vector<Val> factors, values;
  for (int turn = 0; turn < kBlock * kQuads; turn += threads_) {
    const Val number = thread + turn, t = b_.Binary(Builder::Op::kDivU, number, b_.I32(kQuads));
    const Val row = (piece.origin + in_step(t)) * s_.value_heads + head_;
    factors.push_back(b_.Load(Type::kF32x4, factors_, (row * kQuads + (number - t * kQuads)) << 4));
  }
  const Val beta_at = mixed_.Beta(s_, piece.origin + in_step(thread), head_);
  const Val beta = b_.Load(Type::kF32, mixed_.gates, beta_at << 2);
  for (int i = 0; i < kBlock; i += kParts) {
    const Val t = part_ + i, before = LtS(t, piece.begin);
    const Val value = mixed_.Value(s_, piece.origin + in_step(t), first_value_, column_) << 2;
    values.push_back(b_.Load(Type::kF32, Select(before, piece.state, mixed_.mixed),
                             Select(before, block_.EntryAt(t, Value(), s_.entry().u), value)));
  }
  b_.BeginLoads();
  b_.Barrier();  // of the block before, all may still be read
  block_.StoreRows(rows, memory_, rows_at());
  for (size_t i = 0; i < factors.size(); ++i) {
    const Val to = thread + static_cast<int>(i) * threads_;
    const auto store = [&] {
      for (int c = 0; c < 4; ++c) b_.StoreShared(memory_, to * 4 + c, b_.Extract(factors[i], c));
    };
    const bool all = static_cast<int>(i + 1) * threads_ <= kBlock * kQuads;
    all ? store() : b_.If(LtS(to, b_.I32(kBlock * kQuads)), store);
  }
  b_.If(LtS(thread, b_.I32(kBlock)), [&] { b_.StoreShared(memory_, thread + kBetas, beta); });
  for (int i = 0; i < kBlock; i += kParts) {
    const Val t = part_ + i, at = t * width_ + column_, zero = b_.F32(0.f);
    const Val& value = values[static_cast<size_t>(i / kParts)];
    b_.StoreShared(memory_, at + w_at(), Select(LtS(t, piece.end), value, zero));
    b_.StoreShared(memory_, at + o_at(), zero);
  }
  b_.Barrier();
}

// Factors (or the decays that they are made of) and betas of the step's tokens; w and o of others.
void Rule::Stage(const DeltaPiece& piece) {
  if (StagesRows()) return StageOfPrompt(piece);
  const Val thread = b_.Thread();
  b_.Barrier();  // of the block before, all may still be read
  if (factors_) {
    const Val end = piece.EndHere() * F::kCount;
    b_.For(piece.begin * F::kCount, end, b_.I32(threads_), [&](Val turn) {
      const Val at = turn + thread, t = DivU(at, F::kCount), c = RemU(at, F::kCount);
      b_.If(LtS(at, end), [&] {
        const Val row = (piece.origin + t) * s_.value_heads + head_;
        b_.StoreShared(memory_, at, b_.Load(Type::kF32, factors_, (row * F::kCount + c) << 2));
      });
    });
  } else {
    block_.StageDecays(piece, head_, memory_, kDecays);
  }
  b_.If(And(InStep(piece, thread), LtS(thread, b_.I32(kBlock))), [&] {
    const Val at = mixed_.Beta(s_, piece.origin + thread, head_);
    b_.StoreShared(memory_, thread + kBetas, b_.Load(Type::kF32, mixed_.gates, at << 2));
  });
  for (int i = 0; i < kBlock; i += kParts) {
    const Val t = part_ + i;
    b_.If(LtS(t, piece.begin), [&] {
      const Val u = b_.Load(Type::kF32, piece.state, block_.EntryAt(t, Value(), s_.entry().u));
      b_.StoreShared(memory_, t * width_ + column_ + w_at(), u);
      b_.StoreShared(memory_, t * width_ + column_ + o_at(), u);
    });
    b_.If(LeS(piece.end, t), [&] {
      b_.StoreShared(memory_, t * width_ + column_ + w_at(), b_.F32(0.f));
      b_.StoreShared(memory_, t * width_ + column_ + o_at(), b_.F32(0.f));
    });
  }
  b_.Barrier();
}

void Rule::MakeFactors(const DeltaPiece& piece) {
  block_.StoreDecays(memory_, kDecays, memory_, 0);
  b_.Barrier();
  const Val is_key = LtS(part_, b_.I32(kReadTokens)), end = piece.EndHere();
  b_.For(b_.I32(0), b_.I32(kBlock), b_.I32(width_), [&](Val turn) {
    const Val i = column_ + turn;
    const std::vector<Val> key = block_.Key(piece, key_head_, MinS(i, end - 1));
    b_.For(piece.begin, end, b_.I32(form_.tokens), [&](Val first) {
      const Val dot = block_.Products(key, piece, key_head_, first, form_.tokens, memory_, scratch_at(), {});
      const Val number = RemU(part_, kReadTokens), t = first + number;
      const Val at = i + Select(is_key, b_.I32(F::kKey), b_.I32(F::kQuery));
      const Val is_token = And(LtS(number, b_.I32(form_.tokens)), LtS(t, end));
      b_.If(And(is_token, b_.Compare(Builder::Cmp::kNe, at, b_.I32(F::kSinceBegin))), [&] {
        const Val decay = b_.LoadShared(memory_, t * F::kCount + i + F::kDecay);
        b_.StoreShared(memory_, t * F::kCount + at, decay * Select(is_key, dot * -1.0, dot));
      });
    });
  });
}

// w and o of the step's tokens as far as they follow from S.
void Rule::ReadState(const DeltaPiece& piece, const std::vector<Val>& state) {
  const Val is_key = LtS(part_, b_.I32(kReadTokens)), end = piece.EndHere();
  const std::optional<int> rows = StagesRows() ? std::optional(rows_at()) : std::nullopt;
  b_.For(piece.begin, end, b_.I32(form_.tokens), [&](Val first) {
    const Val sum =
        block_.Products(state, piece, key_head_, first, form_.tokens, memory_, scratch_at(), rows);
    const Val number = RemU(part_, kReadTokens), t = first + number;
    b_.If(And(LtS(number, b_.I32(form_.tokens)), LtS(t, end)), [&] {
      const Val decayed = Factor(t, b_.I32(F::kSinceBegin)) * sum;
      const Val at = Select(is_key, b_.I32(w_at()), b_.I32(o_at())) + t * width_ + column_;
      const Val value = rows ? b_.LoadShared(memory_, at) : Value(piece, t);
      b_.StoreShared(memory_, at, Select(is_key, value - decayed, decayed));
    });
  });
  b_.Barrier();
}

// Four tokens at a time. Of the block's tokens two are a thread's own: it takes off their w, and adds to
// their o, what each group of four gives, when all threads of the column have worked out that group's u.
void Rule::Solve(const DeltaPiece& piece, Val keeps) {
  const Val own[2] = {part_, part_ + kParts};
  // [w, o] of both. Of tokens before the step's w is their u.
  std::vector<Val> sums;
  for (int at : {w_at(), o_at()}) {
    for (const Val& t : own) sums.push_back(Row(at, t));
  }
  sums = b_.For(b_.I32(0), piece.EndHere(), b_.I32(kGroup), sums, [&](Val first, std::vector<Val> so_far) {
    const Val turn = ShrU(first, 3), in_group = part_ - (first & (kParts - 1));
    const Val is_own = And(LeS(b_.I32(0), in_group), LtS(in_group, b_.I32(kGroup)));
    static_assert(kParts == 1 << 3);
    b_.If(is_own, [&] {
      b_.StoreShared(memory_, (first + in_group) * width_ + column_ + u_at(),
                     Select(Eq(turn, 0), so_far[0], so_far[1]));
    });
    b_.Barrier();
    const std::vector<Val> u = SolveGroup(piece, first);
    b_.Barrier();
    b_.If(is_own, [&] {
      Val mine = u[0];
      for (int x = 1; x < kGroup; ++x) mine = Select(Eq(in_group, x), u[static_cast<size_t>(x)], mine);
      const Val t = first + in_group;
      b_.StoreShared(memory_, t * width_ + column_ + u_at(), mine);
      b_.If(And(keeps, InStep(piece, t)),
            [&] { b_.Store(piece.state, block_.EntryAt(t, Value(), s_.entry().u), mine); });
    });
    for (size_t k = 0; k < 2; ++k) {
      const Val row = FactorRow(piece, own[k]), is_new = LeS(piece.begin, own[k]);
      for (int x = 0; x < kGroup; ++x) {
        const Val i = first + x, before = LtS(i, own[k]), it = u[static_cast<size_t>(x)];
        so_far[k] = Select(And(is_new, before), Fma(Factor(row, i + F::kKey), it, so_far[k]), so_far[k]);
        const Val more = Fma(Factor(row, i + F::kQuery), it, so_far[k + 2]);
        so_far[k + 2] = Select(LeS(i, own[k]), more, so_far[k + 2]);
      }
    }
    return so_far;
  });
  for (size_t k = 0; k < 2; ++k) {
    b_.If(InStep(piece, own[k]),
          [&] { b_.Store(out_, ((piece.origin + own[k]) * s_.values() + Value()) << 2, sums[k + 2]); });
  }
  b_.Barrier();
}

// The u of tokens first .. first + 3, of whose w only what these do to one another is not taken off.
std::vector<Val> Rule::SolveGroup(const DeltaPiece& piece, Val first) {
  std::vector<Val> u;
  for (int x = 0; x < kGroup; ++x) {
    const Val t = first + x, row = FactorRow(piece, t), before = Row(u_at(), t);
    Val w = before;
    for (int y = 0; y < x; ++y) w = Fma(Factor(row, first + (F::kKey + y)), u[static_cast<size_t>(y)], w);
    u.push_back(Select(LtS(t, piece.begin), before, w * b_.LoadShared(memory_, row + kBetas)));
  }
  return u;
}

// S of the next block.
std::vector<Val> Rule::Fold(const DeltaPiece& piece, std::vector<Val> state) {
  const Val last = b_.I32(kBlock - 1), decay = Factor(last, b_.I32(F::kSinceBegin));
  for (Val& element : state) element = element * decay;
  const int at_once = form_.own_dots ? 2 : 4;  // loads that do not wait for one another
  const auto add = [&](Val first, std::vector<Val> next, const std::function<std::vector<Val>(Val)>& key_of) {
    std::vector<std::vector<Val>> keys;
    keys.reserve(static_cast<size_t>(at_once));
    for (int x = 0; x < at_once; ++x) keys.push_back(key_of(first + x));
    for (int x = 0; x < at_once; ++x) {
      const Val i = first + x, decayed = Factor(last, i + F::kDecay) * Row(u_at(), i);
      const std::vector<Val>& key = keys[static_cast<size_t>(x)];
      for (size_t e = 0; e < next.size(); ++e) next[e] = Fma(decayed, key[e], next[e]);
    }
    return next;
  };
  const auto from_memory = [&](Val place) { return block_.Key(piece, key_head_, place); };
  const auto staged = [&](Val place) { return block_.StagedKey(place, memory_, rows_at()); };
  return b_.For(b_.I32(0), b_.I32(kBlock), b_.I32(at_once), state,
                [&](Val first, const std::vector<Val>& next) {
                  if (!StagesRows()) return add(first, next, from_memory);
                  // Tokens before the step's were not staged.
                  return b_.IfElse(
                      LeS(piece.begin, first), [&] { return add(first, next, staged); },
                      [&] { return add(first, next, from_memory); });
                });
}

// What the workgroup reads of its sequence's only row; and what later steps need of it.
void MixRow(Builder& b, const DeltaSpec& s, const DeltaMixRuleArgs<Val>& args, const DeltaMixed& own,
            DeltaMixer& mixer, const SeqFields& seq) {
  const int width = s.columns(), per_head = s.value_dim / width, per_key = s.value_heads / s.key_heads;
  const Val group = b.BlockX(), thread = b.Thread(), row = seq.row_begin, position = seq.past;
  const Val head = DivU(group, per_head), key_head = s.KeyHead(head);
  // Of the workgroups that mix the same, one keeps it. Nobody else reads the place of this token.
  const Val has_head = Eq(RemU(group, per_head), 0);
  const Val has_key = And(has_head, s.grouped ? Eq(RemU(head, per_key), 0) : LtS(head, b.I32(s.key_heads)));
  const DeltaBlock entries(b, s, kDeltaThreads, own);
  const Val slot = seq.Blocks(args.delta_state).Of(ShrU(position, 4));
  const Val place = position & (kBlock - 1);
  const auto store = [&](Val base, Val number, Val value) { b.Store(base, number << 2, value); };
  mixer.SetRow(seq);
  const Val first = group * width;
  const DeltaMixer::HeadTaps of_head = mixer.LoadHead(key_head);
  const DeltaMixer::Taps of_value = mixer.LoadTaps(first + MinS(thread, b.I32(width - 1)) + 2 * s.keys());
  const DeltaMixer::Gate gate = mixer.LoadGate(head);
  b.BeginLoads();
  mixer.QueryAndKey(of_head, [&](Val number, Val query, Val key) {
    store(own.mixed, own.Query(s, row, key_head) + number, query);
    store(own.mixed, own.Key(s, row, key_head) + number, key);
    b.If(has_key,
         [&] { b.Store(slot, entries.EntryAt(place, key_head * s.key_dim + number, s.entry().k), key); });
  });
  b.If(LtS(thread, b.I32(width)),
       [&] { store(own.mixed, own.Value(s, row, first, thread), mixer.Mixed(of_value)); });
  b.If(Eq(thread, 0), [&] {
    const Val decay = DeltaMixer::Decay(gate);
    store(own.gates, own.Decay(s, row, head), decay);
    store(own.gates, own.Beta(s, row, head), DeltaMixer::Beta(gate));
    b.If(has_head, [&] { b.Store(slot, entries.EntryAt(place, head, s.entry().d), decay); });
  });
  KeepColumn(b, s, args.in.qkv, row, seq.Blocks(args.in.conv_state), position, group * kDeltaThreads + thread,
             b.I32(static_cast<int32_t>(DeltaRuleGroups(s)) * kDeltaThreads));
  b.Barrier();
}

}  // namespace

uint32_t DeltaRuleGroups(const DeltaSpec& s) {
  return static_cast<uint32_t>(s.values() / s.columns());
}

void EmitDeltaRule(Builder& b, const DeltaSpec& s, const DeltaRuleForm& form) {
  using Ahead = std::function<void(const SeqFields& seq)>;
  const auto emit = [&](Val step, Val seqs, Rule& rule, const Ahead& ahead) {
    b.For(b.BlockZ(), StepSeqs(step), b.I32(form.sequences), [&](Val number) {
      const SeqFields seq = LoadSeq(seqs, number);
      b.If(LtS(b.I32(0), seq.row_count), [&] {
        rule.LoadState(b.BlockX(), seq);
        if (ahead) ahead(seq);
        rule.Run(seq);
      });
    });
  };
  if (!form.own_mix) {
    const auto args = ReadArgs<DeltaRuleArgs>(b);
    Rule rule(b, s, form, {args.mixed, args.gates, true, form.replaced}, args.delta_state, args.out);
    return emit(args.step, args.seqs, rule, nullptr);
  }
  const auto args = ReadArgs<DeltaMixRuleArgs>(b);
  const DeltaMixed own = OwnMixed(b, s, args.own, b.BlockX());
  DeltaMixer mixer(b, s, args.in);
  Rule rule(b, s, form, own, args.delta_state, args.out);
  emit(args.in.step, args.in.seqs, rule, [&](const SeqFields& seq) { MixRow(b, s, args, own, mixer, seq); });
}

}  // namespace qcc::gpu
