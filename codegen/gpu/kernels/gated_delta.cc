#include "codegen/gpu/kernels/gated_delta.h"

#include <algorithm>

#include "codegen/gpu/kernels/families.h"
#include "codegen/gpu/kernels/kernel_args.h"
#include "codegen/gpu/kernels/math.h"
#include "codegen/gpu/kernels/reduce.h"
#include "codegen/gpu/kernels/step.h"

namespace qcc::gpu {
namespace {

// Limits of registers: see EmitDeltaRule.
constexpr int kMaxDim = 256, kMaxTaps = 16;
// Sequences of a step that have workgroups of their own; more take turns.
constexpr int64_t kMaxSideBySide = 4;
constexpr int64_t kMaxDecodeRows = 8;

int NormThreads(const DeltaSpec& s) {
  return s.value_dim <= 64 ? 64 : 128;
}

}  // namespace

std::string DeltaSpec::name() const {
  return ".k" + std::to_string(key_heads) + "x" + std::to_string(key_dim) + ".v" +
         std::to_string(value_heads) + "x" + std::to_string(value_dim) + ".t" + std::to_string(taps) +
         (grouped ? ".grouped" : "");
}

Val DeltaSpec::KeyHead(Val value_head) const {
  return grouped ? DivU(value_head, value_heads / key_heads) : RemU(value_head, key_heads);
}

Val ConvColumn(const DeltaSpec& s, Val qkv, Val conv_state, Val row_begin, Val at, Val channel) {
  Builder& b = *qkv.builder();
  const Val old = LtS(at, b.I32(0));
  const Val row = Select(old, at + (s.taps - 1), at + row_begin);
  return b.Load(Type::kF32, Select(old, conv_state, qkv), (row * s.channels() + channel) << 2);
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
  Val conv_state_, row_begin_, time_, gate_row_;  // by EmitRow; time_: row of the sequence's in this step
};

void MixKernel::EmitRow() {
  const Val seq = RowSeq(step_, row_);
  conv_state_ = SeqState(seqs_, seq) + b_.Arg(kAt.conv_state);
  row_begin_ = SeqRowBegin(seqs_, seq);
  time_ = row_ - row_begin_;
  gate_row_ = row_ * (2 * s_.value_heads + s_.key_heads);
  b_.If(LtS(group_, b_.I32(s_.key_heads)), [&] { QueryAndKey(); });
  Values();
  b_.If(Eq(group_, s_.key_heads + value_groups_), [&] { Gates(); });
}

Val MixKernel::Mixed(Val channel) const {
  Val sum;
  for (int i = 0; i < s_.taps; ++i) {
    const Val x = ConvColumn(s_, qkv_, conv_state_, row_begin_, time_ + (i - (s_.taps - 1)), channel);
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
  Val query_sum = b_.F32(0.f), key_sum = query_sum, dot = query_sum;
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
    query[i] = query[i] * query_factor;
    key[i] = key[i] * key_factor;
    dot = Fma(key[i], query[i], dot);
    b_.If(inside[i], [&] {
      Store(channel[i], query[i]);
      Store(channel[i] + s_.keys(), key[i]);
    });
  }
  dot = reducer_.Sum(dot);
  b_.If(Eq(thread_, 0), [&] { b_.Store(gates_, (gate_row_ + group_ + 2 * s_.value_heads) << 2, dot); });
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

void EmitDeltaNorm(Builder& b, const DeltaSpec& s) {
  const auto args = ReadArgs<DeltaNormArgs>(b);
  const Val step = args.step, z = args.z, weight = args.norm_w, out = args.out, eps = FloatOf(args.norm_eps);
  const int threads = NormThreads(s), dim = s.value_dim;
  Reducer reducer(b, threads, threads);
  const Val head = b.BlockX(), row = b.BlockY(), thread = b.Thread();
  b.If(LtS(row, StepRows(step)), [&] {
    const Val first = (row * s.value_heads + head) * dim;
    std::vector<Val> inside, at, value;
    Val sum = b.F32(0.f);
    for (int i = 0; i < dim; i += threads) {
      inside.push_back(LtS(thread + i, b.I32(dim)));
      at.push_back(MinS(thread + i, b.I32(dim - 1)));
      const std::vector<Val> own = b.IfElse(
          inside.back(), [&] { return std::vector<Val>{b.Load(Type::kF32, out, (first + at.back()) << 2)}; },
          [&] { return std::vector<Val>{b.F32(0.f)}; });
      value.push_back(own[0]);
      sum = Fma(own[0], own[0], sum);
    }
    const Val mean = DivF(reducer.Sum(sum), b.F32(static_cast<float>(dim)));
    const Val scale = DivF(b.F32(1.f), b.Call(Builder::Fn::kSqrt, mean + eps));
    for (size_t i = 0; i < value.size(); ++i) {
      b.If(inside[i], [&] {
        const Val gate = Silu(b.Load(Type::kF32, z, (first + at[i]) << 2));
        b.Store(out, (first + at[i]) << 2,
                ((value[i] * scale) * b.Load(Type::kF32, weight, at[i] << 2)) * gate);
      });
    }
  });
}

namespace {

// The launches of one dispatch, and what they share.
class DeltaLaunches {
 public:
  DeltaLaunches(const DeltaSpec& s, const Dispatch<plan::GatedDeltaSpec>& d, Expansion& expansion)
      : s_(s), d_(d), expansion_(expansion) {}

  std::vector<Launch> All() {
    if (!expansion_.chunked_delta() || rows_ < kDeltaChunk) return {Mix(), Rule(nullptr), Norm()};
    const Launch chunk = Chunk();
    return {Mix(), chunk, Rule(&chunk), Norm()};
  }

 private:
  Launch Mix() const;
  Launch Chunk();
  Launch Rule(const Launch* chunk) const;  // null: token by token
  Launch Norm() const;

  const DeltaSpec& s_;
  const Dispatch<plan::GatedDeltaSpec>& d_;
  Expansion& expansion_;
  const uint64_t rows_ = static_cast<uint64_t>(d_.rows);
  const uint64_t channels_ = static_cast<uint64_t>(s_.channels());
  const uint64_t values_ = static_cast<uint64_t>(s_.values());
  const uint64_t value_heads_ = static_cast<uint64_t>(s_.value_heads), taps_ = static_cast<uint64_t>(s_.taps);
  const uint64_t gate_width_ = static_cast<uint64_t>(2 * s_.value_heads + s_.key_heads);
  // Decode has one row of each sequence, prefill mostly one sequence.
  const uint64_t sequences_ = d_.rows <= kMaxDecodeRows ? rows_ : 1;
  const uint64_t state_bytes_ = 4 * value_heads_ * static_cast<uint64_t>(s_.key_dim * s_.value_dim);
  const uint64_t conv_bytes_ = 4 * channels_ * (taps_ - 1);
  const Arg mixed_ = expansion_.Scratch(4 * rows_ * channels_),
            gates_ = expansion_.Scratch(4 * rows_ * gate_width_);
  const Arg conv_state_ = Number(d_.bindings.conv_state->value);
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
                   sequences_ * conv_bytes_;
  mix.write_bytes = 4 * rows_ * (channels_ + gate_width_);
  mix.ops = rows_ * channels_ * (2 * taps_ + 20);
  return mix;
}

Launch DeltaLaunches::Chunk() {
  const uint64_t slots = rows_ / kDeltaChunk;
  Launch chunk;
  chunk.name = "gated_delta.chunk" + s_.name();
  chunk.emit = [s = s_](Builder& b) { EmitDeltaChunk(b, s); };
  chunk.workgroup_size = kDeltaThreads;
  chunk.grid[0] = static_cast<uint32_t>(s_.value_heads);
  chunk.grid[1] = static_cast<uint32_t>(slots);
  chunk.write_bytes = 4 * slots * value_heads_ * kDeltaChunkWords;
  chunk.args = ListArgs<DeltaChunkArgs>({.step = StepArg(expansion_),
                                         .seqs = StepSeqsArg(expansion_),
                                         .mixed = mixed_,
                                         .gates = gates_,
                                         .chunks = expansion_.Scratch(chunk.write_bytes)});
  chunk.barrier = true;
  chunk.read_bytes = 4 * rows_ * (2 * static_cast<uint64_t>(s_.keys()) + gate_width_);
  // Both dot products of each pair of tokens, the inverse, and its product with P.
  chunk.ops = slots * value_heads_ * kDeltaChunk * kDeltaChunk *
              (4 * static_cast<uint64_t>(s_.key_dim) + 3 * kDeltaChunk);
  return chunk;
}

Launch DeltaLaunches::Rule(const Launch* chunk) const {
  const int side_by_side = static_cast<int>(d_.rows <= kMaxDecodeRows ? d_.rows : kMaxSideBySide);
  const bool chunked = chunk != nullptr;
  Launch rule;
  rule.name =
      "gated_delta.rule" + s_.name() + ".s" + std::to_string(side_by_side) + (chunked ? ".chunks" : "");
  rule.emit = [s = s_, side_by_side, chunked](Builder& b) { EmitDeltaRule(b, s, side_by_side, chunked); };
  rule.workgroup_size = s_.columns() * kDeltaParts;
  rule.grid[0] = DeltaRuleGroups(s_);
  rule.grid[2] = static_cast<uint32_t>(side_by_side);
  rule.args = ListArgs<DeltaRuleArgs>({.step = StepArg(expansion_),
                                       .seqs = StepSeqsArg(expansion_),
                                       .qkv = *d_.bindings.qkv,
                                       .mixed = mixed_,
                                       .gates = gates_,
                                       .conv_state = conv_state_,
                                       .delta_state = Number(d_.bindings.delta_state->value),
                                       .out = *d_.bindings.out});
  if (chunk) rule.args.push_back(chunk->args[static_cast<size_t>(kArg<DeltaChunkArgs>.chunks)]);
  rule.barrier = true;
  rule.read_bytes = 4 * rows_ * (channels_ + gate_width_) + sequences_ * (state_bytes_ + conv_bytes_) +
                    (chunk ? chunk->write_bytes : 0);
  rule.write_bytes = 4 * rows_ * values_ + sequences_ * (state_bytes_ + conv_bytes_);
  rule.ops = rows_ * state_bytes_ / 4 * 7;
  return rule;
}

Launch DeltaLaunches::Norm() const {
  Launch norm;
  norm.name = "gated_delta.norm" + s_.name();
  norm.emit = [s = s_](Builder& b) { EmitDeltaNorm(b, s); };
  norm.workgroup_size = NormThreads(s_);
  norm.grid[0] = static_cast<uint32_t>(s_.value_heads);
  norm.grid[1] = static_cast<uint32_t>(rows_);
  norm.args = ListArgs<DeltaNormArgs>({.step = StepArg(expansion_),
                                       .z = *d_.bindings.z,
                                       .norm_w = *d_.bindings.norm_w,
                                       .out = *d_.bindings.out,
                                       .norm_eps = FloatNumber(d_.spec.norm_eps)});
  norm.barrier = true;
  norm.read_bytes = 8 * rows_ * values_ + 4 * static_cast<uint64_t>(s_.value_dim);
  norm.write_bytes = 4 * rows_ * values_;
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
