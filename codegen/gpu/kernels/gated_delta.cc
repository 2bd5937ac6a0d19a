#include "codegen/gpu/kernels/gated_delta.h"

#include <algorithm>

#include "codegen/gpu/kernels/families.h"
#include "codegen/gpu/kernels/gated_delta_block.h"
#include "codegen/gpu/kernels/kernel_args.h"
#include "codegen/gpu/kernels/math.h"
#include "codegen/gpu/kernels/reduce.h"
#include "codegen/gpu/kernels/step.h"

namespace qcc::gpu {
namespace {

// Limits of registers: see EmitDeltaRule. A block has all columns that a token's convolution reads.
constexpr int kMaxDim = 256, kMaxTaps = 16;
// Sequences of a prefill step that have workgroups of their own; more take turns.
constexpr int kMaxSideBySide = 4;
constexpr int64_t kMaxDecodeRows = 8;

}  // namespace

std::string DeltaSpec::name() const {
  return ".k" + std::to_string(key_heads) + "x" + std::to_string(key_dim) + ".v" +
         std::to_string(value_heads) + "x" + std::to_string(value_dim) + ".t" + std::to_string(taps) +
         (grouped ? ".grouped" : "");
}

Val DeltaSpec::KeyHead(Val value_head) const {
  return grouped ? DivU(value_head, value_heads / key_heads) : RemU(value_head, key_heads);
}

uint32_t DeltaMixGroups(const DeltaSpec& s) {
  return static_cast<uint32_t>(s.key_heads + CeilDiv(s.values(), kDeltaThreads) + 1);
}

namespace {

// Of a row, a workgroup has a head's query and key, or some values, or the gates.
class MixKernel {
 public:
  MixKernel(Builder& b, const DeltaSpec& s) : b_(b), s_(s) {}
  void Emit() {
    b_.If(LtS(row_, StepRows(step_)), [&] { EmitRow(); });
  }

 private:
  static constexpr const DeltaMixArgs<int>& kAt = kArg<DeltaMixArgs>;

  void EmitRow();
  void QueryAndKey();
  void Values();
  void Gates();
  // The channel's value after the convolution.
  Val Mixed(Val channel) const;
  void Store(Val channel, Val value) { b_.Store(mixed_, (row_ * s_.channels() + channel) << 2, value); }
  // The channel's input at a token that may lie before the step's first.
  Val Column(Val position, Val channel) const;
  // What normalises elements with this sum of squares, times `numerator`.
  Val Factor(Val sum, Val numerator) const;

  Builder& b_;
  const DeltaSpec& s_;
  const Val step_ = b_.Arg(kAt.step), seqs_ = b_.Arg(kAt.seqs), qkv_ = b_.Arg(kAt.qkv),
            alpha_ = b_.Arg(kAt.alpha), beta_ = b_.Arg(kAt.beta), conv_w_ = b_.Arg(kAt.conv_w),
            ssm_a_ = b_.Arg(kAt.ssm_a), dt_bias_ = b_.Arg(kAt.dt_bias), mixed_ = b_.Arg(kAt.mixed),
            gates_ = b_.Arg(kAt.gates);
  const Val l2_eps_ = FloatOf(b_.Arg(kAt.l2_eps)), query_scale_ = FloatOf(b_.Arg(kAt.query_scale));
  Reducer reducer_{b_, kDeltaThreads, kDeltaThreads, 2};
  const Val group_ = b_.BlockX(), row_ = b_.BlockY(), thread_ = b_.Thread();
  const int value_groups_ = CeilDiv(s_.values(), kDeltaThreads);
  // By EmitRow. origin_: row of the sequence's first token, had the step begun with it.
  SeqStateBlocks columns_;
  Val position_, past_, origin_, gate_row_;
};

void MixKernel::EmitRow() {
  const Val seq = RowSeq(step_, row_);
  columns_ = SeqStates(seqs_, seq, b_.Arg(kAt.conv_state));
  position_ = RowPosition(step_, row_);
  past_ = SeqPast(seqs_, seq);
  origin_ = row_ - position_;
  gate_row_ = row_ * s_.gates();
  b_.If(LtS(group_, b_.I32(s_.key_heads)), [&] { QueryAndKey(); });
  Values();
  b_.If(Eq(group_, s_.key_heads + value_groups_), [&] { Gates(); });
}

Val MixKernel::Column(Val position, Val channel) const {
  static_assert(kDeltaBlock == 1 << 4);
  const Val in_step = LeS(past_, position);
  const Val row = Select(in_step, position + origin_, position & (kDeltaBlock - 1));
  const Val base = Select(in_step, qkv_, columns_.Of(ShrS(position, 4)));
  return b_.Load(Type::kF32, base, (row * s_.channels() + channel) << 2);
}

Val MixKernel::Mixed(Val channel) const {
  Val sum;
  for (int i = 0; i < s_.taps; ++i) {
    const Val x = Column(position_ + (i - (s_.taps - 1)), channel);
    const Val w = b_.Load(Type::kF32, conv_w_, (channel + i * s_.channels()) << 2);
    sum = sum ? Fma(w, x, sum) : w * x;
  }
  return Silu(sum);
}

Val MixKernel::Factor(Val sum, Val numerator) const {
  const Val norm = b_.Call(Builder::Fn::kSqrt, s_.l2_max ? sum : sum + l2_eps_);
  return DivF(numerator, s_.l2_max ? MaxF(norm, l2_eps_) : norm);
}

void MixKernel::QueryAndKey() {
  const int turns = CeilDiv(s_.key_dim, kDeltaThreads);
  std::vector<Val> inside, channel, query, key;
  Val query_sum = b_.F32(0.f), key_sum = query_sum;
  for (int i = 0; i < turns; ++i) {
    const Val at = thread_ + i * kDeltaThreads;
    inside.push_back(LtS(at, b_.I32(s_.key_dim)));
    channel.push_back(group_ * s_.key_dim + MinS(at, b_.I32(s_.key_dim - 1)));
    query.push_back(Select(inside[i], Mixed(channel[i]), b_.F32(0.f)));
    key.push_back(Select(inside[i], Mixed(channel[i] + s_.keys()), b_.F32(0.f)));
    query_sum = Fma(query[i], query[i], query_sum);
    key_sum = Fma(key[i], key[i], key_sum);
  }
  const std::vector<Val> sums = reducer_(Reduction::kSum, {query_sum, key_sum});
  const Val query_factor = Factor(sums[0], query_scale_), key_factor = Factor(sums[1], b_.F32(1.f));
  for (int i = 0; i < turns; ++i) {
    b_.If(inside[i], [&] {
      Store(channel[i], query[i] * query_factor);
      Store(channel[i] + s_.keys(), key[i] * key_factor);
    });
  }
}

void MixKernel::Values() {
  const Val value = (group_ - s_.key_heads) * kDeltaThreads + thread_;
  b_.If(And(LtS(b_.I32(s_.key_heads - 1), group_), LtS(value, b_.I32(s_.values()))),
        [&] { Store(value + 2 * s_.keys(), Mixed(value + 2 * s_.keys())); });
}

void MixKernel::Gates() {
  b_.For(thread_, b_.I32(s_.value_heads), b_.I32(kDeltaThreads), [&](Val head) {
    const Val at = (row_ * s_.ld_ab + head) << 2, of_head = head << 2;
    const Val rate = b_.Load(Type::kF32, ssm_a_, of_head) *
                     Softplus(b_.Load(Type::kF32, alpha_, at) + b_.Load(Type::kF32, dt_bias_, of_head));
    b_.Store(gates_, (gate_row_ + head) << 2, Exp(rate));
    b_.Store(gates_, (gate_row_ + head + s_.value_heads) << 2, Sigmoid(b_.Load(Type::kF32, beta_, at)));
  });
}

}  // namespace

void EmitDeltaMix(Builder& b, const DeltaSpec& s) {
  MixKernel(b, s).Emit();
}

namespace {

// The launches of one dispatch, and what they share. Bytes and operations are those of a step of a full
// bucket: in decode one token of each sequence, in the middle of its block, in prefill all of one sequence.
class DeltaLaunches {
 public:
  DeltaLaunches(const DeltaSpec& s, const Dispatch<plan::GatedDeltaSpec>& d, Expansion& expansion)
      : s_(s), d_(d), expansion_(expansion) {}

  std::vector<Launch> All() {
    if (decodes_) return {Mix(), Rule(nullptr), Norm()};
    const Launch dots = Dots();
    return {Mix(), dots, Rule(&dots), Norm()};
  }

 private:
  Launch Mix() const;
  Launch Dots();
  Launch Rule(const Launch* dots) const;  // null: makes its factors itself
  Launch Norm() const;

  const DeltaSpec& s_;
  const Dispatch<plan::GatedDeltaSpec>& d_;
  Expansion& expansion_;
  const bool decodes_ = d_.rows <= kMaxDecodeRows;
  const uint64_t rows_ = static_cast<uint64_t>(d_.rows), blocks_ = CeilDiv(rows_, kDeltaBlock);
  const uint64_t channels_ = static_cast<uint64_t>(s_.channels());
  const uint64_t keys_ = static_cast<uint64_t>(s_.keys());
  const uint64_t values_ = static_cast<uint64_t>(s_.values());
  const uint64_t value_heads_ = static_cast<uint64_t>(s_.value_heads), taps_ = static_cast<uint64_t>(s_.taps);
  const uint64_t gate_width_ = static_cast<uint64_t>(s_.gates());
  const uint64_t sequences_ = decodes_ ? rows_ : 1;
  const uint64_t state_bytes_ = 4 * value_heads_ * static_cast<uint64_t>(s_.key_dim * s_.value_dim);
  const uint64_t entry_bytes_ = 4 * static_cast<uint64_t>(s_.entry().floats);
  const Arg mixed_ = expansion_.Scratch(4 * rows_ * channels_),
            gates_ = expansion_.Scratch(4 * rows_ * gate_width_);
  const Arg conv_state_ = Number(d_.bindings.conv_state->value),
            delta_state_ = Number(d_.bindings.delta_state->value);
};

Launch DeltaLaunches::Mix() const {
  Launch mix;
  mix.name = "gated_delta.mix" + s_.name() + ".ab" + std::to_string(s_.ld_ab) + (s_.l2_max ? ".max" : ".sum");
  mix.emit = [s = s_](Builder& b) { EmitDeltaMix(b, s); };
  mix.workgroup_size = kDeltaThreads;
  mix.grid[0] = DeltaMixGroups(s_);
  mix.grid[1] = static_cast<uint32_t>(rows_);
  mix.args = ListArgs<DeltaMixArgs>({.step = StepArg(expansion_),
                                     .seqs = StepSeqsArg(expansion_),
                                     .qkv = *d_.bindings.qkv,
                                     .alpha = *d_.bindings.alpha,
                                     .beta = *d_.bindings.beta,
                                     .conv_w = *d_.bindings.conv_w,
                                     .ssm_a = *d_.bindings.ssm_a,
                                     .dt_bias = *d_.bindings.dt_bias,
                                     .conv_state = conv_state_,
                                     .mixed = mixed_,
                                     .gates = gates_,
                                     .l2_eps = FloatNumber(d_.spec.l2_eps),
                                     .query_scale = FloatNumber(d_.spec.scale)});
  mix.read_bytes = 4 * rows_ * (channels_ + 2 * value_heads_) + 4 * channels_ * taps_ + 8 * value_heads_ +
                   sequences_ * 4 * channels_ * (taps_ - 1);
  mix.write_bytes = 4 * rows_ * (channels_ + gate_width_);
  mix.ops = rows_ * channels_ * (2 * taps_ + 20);
  return mix;
}

Launch DeltaLaunches::Dots() {
  Launch dots;
  dots.name = "gated_delta.dots" + s_.name();
  dots.emit = [s = s_](Builder& b) { EmitDeltaDots(b, s); };
  dots.workgroup_size = kDeltaThreads;
  dots.grid[0] = static_cast<uint32_t>(s_.key_heads);
  dots.grid[1] = static_cast<uint32_t>(blocks_);
  dots.write_bytes = 4 * rows_ * value_heads_ * DeltaFactors::kCount;
  dots.args = ListArgs<DeltaDotsArgs>({.step = StepArg(expansion_),
                                       .seqs = StepSeqsArg(expansion_),
                                       .mixed = mixed_,
                                       .gates = gates_,
                                       .delta_state = delta_state_,
                                       .factors = expansion_.Scratch(dots.write_bytes)});
  dots.barrier = true;
  dots.read_bytes = 4 * rows_ * (2 * keys_ + value_heads_);
  // Each token's key and query with the keys of its block, and 16 decays.
  dots.ops = rows_ * kDeltaBlock * (4 * keys_ + 3 * value_heads_);
  return dots;
}

Launch DeltaLaunches::Rule(const Launch* dots) const {
  // In decode a sequence has one token, rarely more.
  const int most = static_cast<int>(decodes_ ? std::min<int64_t>(d_.rows, 2) : 4);
  const DeltaRuleForm form = {.sequences = decodes_ ? static_cast<int>(d_.rows) : kMaxSideBySide,
                              .tokens = most,
                              .own_dots = dots == nullptr};
  Launch rule;
  rule.name = "gated_delta.rule" + s_.name() + ".s" + std::to_string(form.sequences) + ".t" +
              std::to_string(form.tokens) + (form.own_dots ? "" : ".dots");
  rule.emit = [s = s_, form](Builder& b) { EmitDeltaRule(b, s, form); };
  rule.workgroup_size = s_.columns() * kDeltaParts;
  rule.grid[0] = DeltaRuleGroups(s_);
  rule.grid[2] = static_cast<uint32_t>(form.sequences);
  rule.args = ListArgs<DeltaRuleArgs>({.step = StepArg(expansion_),
                                       .seqs = StepSeqsArg(expansion_),
                                       .mixed = mixed_,
                                       .gates = gates_,
                                       .delta_state = delta_state_,
                                       .out = *d_.bindings.out});
  if (dots) rule.args.push_back(dots->args[static_cast<size_t>(kArg<DeltaDotsArgs>.factors)]);
  rule.barrier = true;
  // Decode: S is read for each token, with the entries of half a block, and written for one in 16. Prefill:
  // S is read once, and written for the last two blocks.
  rule.read_bytes = 4 * rows_ * (channels_ + gate_width_) + sequences_ * state_bytes_ +
                    (dots ? dots->write_bytes : sequences_ * kDeltaBlock / 2 * entry_bytes_);
  rule.write_bytes = 4 * rows_ * values_ + (dots ? std::min<uint64_t>(blocks_, 2) * state_bytes_
                                                 : sequences_ * (4 * values_ + state_bytes_ / kDeltaBlock));
  // S^T k and S^T q of a token, a sixteenth of what each S becomes, and the block's other tokens.
  const uint64_t dims = static_cast<uint64_t>(s_.key_dim);
  rule.ops = rows_ * values_ * (6 * dims + 4 * kDeltaBlock / 2);
  return rule;
}

Launch DeltaLaunches::Norm() const {
  Launch norm;
  norm.name = "gated_delta.norm" + s_.name();
  norm.emit = [s = s_](Builder& b) { EmitDeltaNorm(b, s); };
  norm.workgroup_size = s_.norm_threads();
  norm.grid[0] = DeltaNormGroups(s_);
  norm.grid[1] = static_cast<uint32_t>(rows_);
  norm.args = ListArgs<DeltaNormArgs>({.step = StepArg(expansion_),
                                       .seqs = StepSeqsArg(expansion_),
                                       .z = *d_.bindings.z,
                                       .norm_w = *d_.bindings.norm_w,
                                       .qkv = *d_.bindings.qkv,
                                       .mixed = mixed_,
                                       .gates = gates_,
                                       .conv_state = conv_state_,
                                       .delta_state = delta_state_,
                                       .out = *d_.bindings.out,
                                       .norm_eps = FloatNumber(d_.spec.norm_eps)});
  norm.barrier = true;
  const uint64_t kept = std::min<uint64_t>(rows_, 2 * kDeltaBlock) * 4 * (channels_ + keys_ + value_heads_);
  norm.read_bytes = 8 * rows_ * values_ + 4 * static_cast<uint64_t>(s_.value_dim) + kept;
  norm.write_bytes = 4 * rows_ * values_ + kept;
  norm.ops = rows_ * values_ * 24;
  return norm;
}

}  // namespace

std::vector<Launch> Expand_gated_delta(const Dispatch<plan::GatedDeltaSpec>& d, Expansion& expansion) {
  DeltaSpec s;
  s.key_heads = static_cast<int>(d.spec.key_heads);
  s.value_heads = static_cast<int>(d.spec.value_heads);
  s.key_dim = static_cast<int>(d.spec.key_dim);
  s.value_dim = static_cast<int>(d.spec.value_dim);
  s.taps = static_cast<int>(d.spec.taps);
  s.ld_ab = static_cast<int>(d.spec.ld_ab);
  s.l2_max = d.spec.l2_form == plan::L2Form::Max;
  // With a value head to each key head there is one order.
  s.grouped = d.spec.heads == plan::HeadOrder::Grouped && s.value_heads != s.key_heads;
  if (s.grouped && s.value_heads % s.key_heads) return {};
  if (s.key_dim % 8 || s.value_dim % 8 || s.key_dim > kMaxDim || s.value_dim > kMaxDim || s.taps < 2 ||
      s.taps > kMaxTaps) {
    return {};
  }
  return DeltaLaunches(s, d, expansion).All();
}

}  // namespace qcc::gpu
