#include "codegen/gpu/kernels/gated_delta_mix.h"

#include <optional>
#include <vector>

#include "codegen/gpu/kernels/gated_delta_block.h"
#include "codegen/gpu/kernels/math.h"

namespace qcc::gpu {

void CopyQuads(Builder& b, int quads, Val from, Val at, Val to, Val to_at, Val begin, Val stride) {
  b.For(begin, b.I32(quads), stride,
        [&](Val quad) { b.Store(to, (quad << 4) + to_at, b.Load(Type::kF32x4, from, (quad << 4) + at)); });
}

void KeepColumn(Builder& b, const DeltaSpec& s, Val qkv, Val row, const SeqStateBlocks& columns, Val position,
                Val begin, Val stride) {
  static_assert(kDeltaBlock == 1 << 4);
  const int bytes = 4 * s.channels();
  CopyQuads(b, s.channels() / 4, qkv, row * bytes, columns.Of(ShrU(position, 4)),
            (position & (kDeltaBlock - 1)) * bytes, begin, stride);
}

void DeltaMixer::SetRow(Val row) {
  const Val seq = RowSeq(in_.step, row);
  row_ = row;
  columns_ = SeqStates(in_.seqs, seq, in_.conv_state);
  position_ = RowPosition(in_.step, row);
  past_ = SeqPast(in_.seqs, seq);
  origin_ = row - position_;
}

void DeltaMixer::SetRow(const SeqFields& seq) {
  row_ = seq.row_begin;
  columns_ = seq.Blocks(in_.conv_state);
  position_ = past_ = seq.past;
  origin_ = row_ - position_;
}

Val DeltaMixer::Column(Val position, Val channel) const {
  static_assert(kDeltaBlock == 1 << 4);
  const Val in_step = LeS(past_, position);
  const Val row = Select(in_step, position + origin_, position & (kDeltaBlock - 1));
  const Val base = Select(in_step, in_.qkv, columns_.Of(ShrS(position, 4)));
  return b_.Load(Type::kF32, base, (row * s_.channels() + channel) << 2);
}

DeltaMixer::Taps DeltaMixer::LoadTaps(Val channel) const {
  Taps taps;
  for (int i = 0; i < s_.taps; ++i) {
    taps.x.push_back(Column(position_ + (i - (s_.taps - 1)), channel));
    taps.w.push_back(b_.Load(Type::kF32, in_.conv_w, (channel + i * s_.channels()) << 2));
  }
  return taps;
}

Val DeltaMixer::Mixed(const Taps& taps) const {
  Val sum = taps.w[0] * taps.x[0];
  for (size_t i = 1; i < taps.x.size(); ++i) sum = Fma(taps.w[i], taps.x[i], sum);
  return Silu(sum);
}

Val DeltaMixer::Factor(Val sum, Val numerator) const {
  const Val norm = b_.Call(Builder::Fn::kSqrt, s_.l2_max ? sum : sum + l2_eps_);
  return DivF(numerator, s_.l2_max ? AtLeast(norm, l2_eps_) : norm);
}

DeltaMixer::HeadTaps DeltaMixer::LoadHead(Val key_head) const {
  HeadTaps taps;
  for (int i = 0; i < CeilDiv(s_.key_dim, kDeltaThreads); ++i) {
    const Val channel = key_head * s_.key_dim + MinS(Number(i), b_.I32(s_.key_dim - 1));
    taps.query.push_back(LoadTaps(channel));
    taps.key.push_back(LoadTaps(channel + s_.keys()));
  }
  return taps;
}

void DeltaMixer::QueryAndKey(const HeadTaps& taps,
                             const std::function<void(Val number, Val query, Val key)>& store) {
  const int turns = static_cast<int>(taps.query.size());
  std::vector<Val> inside, query, key;
  Val query_sum = b_.F32(0.f), key_sum = query_sum;
  for (int i = 0; i < turns; ++i) {
    const size_t turn = static_cast<size_t>(i);
    inside.push_back(LtS(Number(i), b_.I32(s_.key_dim)));
    query.push_back(Select(inside[turn], Mixed(taps.query[turn]), b_.F32(0.f)));
    key.push_back(Select(inside[turn], Mixed(taps.key[turn]), b_.F32(0.f)));
    query_sum = Fma(query[turn], query[turn], query_sum);
    key_sum = Fma(key[turn], key[turn], key_sum);
  }
  const std::vector<Val> sums = reducer_(Reduction::kSum, {query_sum, key_sum});
  const Val query_factor = Factor(sums[0], query_scale_), key_factor = Factor(sums[1], b_.F32(1.f));
  for (int i = 0; i < turns; ++i) {
    const size_t turn = static_cast<size_t>(i);
    b_.If(inside[turn], [&] { store(Number(i), query[turn] * query_factor, key[turn] * key_factor); });
  }
}

DeltaMixer::Gate DeltaMixer::LoadGate(Val head) const {
  const Val of_head = head << 2, of_row = (row_ * s_.ld_ab + head) << 2;
  return {b_.Load(Type::kF32, in_.ssm_a, of_head), b_.Load(Type::kF32, in_.alpha, of_row),
          b_.Load(Type::kF32, in_.dt_bias, of_head), b_.Load(Type::kF32, in_.beta, of_row)};
}

Val DeltaMixer::Decay(const Gate& gate) {
  return Exp(gate.ssm_a * Softplus(gate.alpha + gate.dt_bias));
}

Val DeltaMixer::Beta(const Gate& gate) {
  return Sigmoid(gate.beta);
}

uint32_t DeltaMixGroups(const DeltaSpec& s) {
  return static_cast<uint32_t>(s.key_heads + CeilDiv(s.values(), kDeltaThreads) + 1);
}

namespace {

// What later steps need of a row, in its place; what was there of the sequence's first block, where the row
// is of the second, goes to DeltaMixed::replaced.
class Keeper {
 public:
  Keeper(Builder& b, const DeltaSpec& s, const DeltaMixKeepArgs<Val>& args, int rows, Val row)
      : b_(b),
        s_(s),
        args_(args),
        block_(b, s, kDeltaThreads, {args.mix.mixed, args.mix.gates}),
        rows_(rows),
        row_(row) {
    const Val seqs = args.mix.in.seqs, seq = RowSeq(args.mix.in.step, row);
    const SeqStateBlocks states = SeqStates(seqs, seq, args.delta_state);
    columns_ = SeqStates(seqs, seq, args.mix.in.conv_state);
    position_ = RowPosition(args.mix.in.step, row);
    const Val block = ShrU(position_, 4), first = ShrU(SeqPast(seqs, seq), 4);
    static_assert(kDeltaBlock == 1 << 4);
    place_ = position_ & (kDeltaBlock - 1);
    state_ = states.Of(block);
    first_state_ = states.Of(first);
    is_later_ = LtS(first, block);
  }
  void Key(Val number, Val key) {
    Keep(number, s_.entry().k, key, args_.mix.mixed, ReplacedRow() * s_.channels() + s_.keys());
  }
  void Decay(Val head, Val decay) {
    Keep(head, s_.entry().d, decay, args_.mix.gates, ReplacedRow() * s_.gates());
  }
  // All workgroups of the row together.
  void Column() {
    const int threads = static_cast<int>(DeltaMixGroups(s_)) * kDeltaThreads;
    KeepColumn(b_, s_, args_.mix.in.qkv, row_, columns_, position_, b_.BlockX() * kDeltaThreads + b_.Thread(),
               b_.I32(threads));
  }

 private:
  Val ReplacedRow() const { return row_ + rows_; }
  // Number `number` of an entry from `first` on; what it replaces from number `to` of `replaced` on.
  void Keep(Val number, int64_t first, Val value, Val replaced, Val to) {
    const Val at = block_.EntryAt(place_, number, first);
    b_.If(is_later_, [&] { b_.Store(replaced, (to + number) << 2, b_.Load(Type::kF32, first_state_, at)); });
    b_.Store(state_, at, value);
  }

  Builder& b_;
  const DeltaSpec& s_;
  const DeltaMixKeepArgs<Val>& args_;
  const DeltaBlock block_;
  const int rows_;
  const Val row_;
  SeqStateBlocks columns_;
  Val position_, place_, state_, first_state_, is_later_;
};

}  // namespace

// Of a row, a workgroup has a head's query and key, or some values, or the gates.
void EmitDeltaMix(Builder& b, const DeltaSpec& s, int kept_rows) {
  const auto keep_args = kept_rows ? ReadArgs<DeltaMixKeepArgs>(b) : DeltaMixKeepArgs<Val>();
  const auto args = ReadArgs<DeltaMixArgs>(b);
  const Val group = b.BlockX(), row = b.BlockY(), thread = b.Thread();
  const int value_groups = CeilDiv(s.values(), kDeltaThreads);
  DeltaMixer mixer(b, s, args.in);
  std::optional<Keeper> keeper;
  const auto store = [&](Val channel, Val value) {
    b.Store(args.mixed, (row * s.channels() + channel) << 2, value);
  };
  b.If(LtS(row, StepRows(args.in.step)), [&] {
    mixer.SetRow(row);
    if (kept_rows) keeper.emplace(b, s, keep_args, kept_rows, row);
    if (keeper) keeper->Column();
    b.If(LtS(group, b.I32(s.key_heads)), [&] {
      const DeltaMixer::HeadTaps taps = mixer.LoadHead(group);
      b.BeginLoads();
      mixer.QueryAndKey(taps, [&](Val number, Val query, Val key) {
        const Val channel = group * s.key_dim + number;
        store(channel, query);
        store(channel + s.keys(), key);
        if (keeper) keeper->Key(channel, key);
      });
    });
    const Val value = (group - s.key_heads) * kDeltaThreads + thread;
    b.If(And(LtS(b.I32(s.key_heads - 1), group), LtS(value, b.I32(s.values()))),
         [&] { store(value + 2 * s.keys(), mixer.Mixed(mixer.LoadTaps(value + 2 * s.keys()))); });
    b.If(Eq(group, s.key_heads + value_groups), [&] {
      b.For(thread, b.I32(s.value_heads), b.I32(kDeltaThreads), [&](Val head) {
        const DeltaMixer::Gate gate = mixer.LoadGate(head);
        const Val at = (row * s.gates() + head) << 2, decay = DeltaMixer::Decay(gate);
        b.Store(args.gates, at, decay);
        if (keeper) keeper->Decay(head, decay);
        b.Store(args.gates, at + 4 * s.value_heads, DeltaMixer::Beta(gate));
      });
    });
  });
}

}  // namespace qcc::gpu
