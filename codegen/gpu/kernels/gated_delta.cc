#include "codegen/gpu/kernels/gated_delta.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "codegen/gpu/kernels/families.h"
#include "codegen/gpu/kernels/gated_delta_block.h"
#include "codegen/gpu/kernels/kernel_args.h"
#include "codegen/gpu/kernels/norm.h"
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

namespace {

// The launches of one dispatch, and what they share. Bytes and operations are those of a step of a full
// bucket: in decode one token of each sequence, in the middle of its block, in prefill all of one sequence.
class DeltaLaunches {
 public:
  DeltaLaunches(const DeltaSpec& s, const Dispatch<plan::GatedDeltaSpec>& d, Expansion& expansion)
      : s_(s), d_(d), expansion_(expansion) {}

  std::vector<Launch> All() {
    std::vector<Launch> launches = AheadOfNorm();
    launches.push_back(Norm());
    return launches;
  }
  std::vector<Launch> AheadOfNorm() {
    // With more rows each would be mixed again by all workgroups of the rule.
    if (mixes_in_rule_) return {MixedRule()};
    if (decodes_) return {Mix(), Rule(nullptr)};
    const Launch dots = Dots();
    return {Mix(), dots, Rule(&dots)};
  }
  // What later steps need.
  bool KeepsAheadOfNorm() const { return mixes_in_rule_ || kept_rows_ != 0; }

 private:
  Launch MixedRule();
  DeltaMixInput<Arg> MixInput() const;
  std::string MixName() const { return ".ab" + std::to_string(s_.ld_ab) + (s_.l2_max ? ".max" : ".sum"); }
  Launch Mix() const;
  Launch Dots();
  Launch Rule(const Launch* dots) const;  // null: makes its factors itself
  Launch Norm() const;

  const DeltaSpec& s_;
  const Dispatch<plan::GatedDeltaSpec>& d_;
  Expansion& expansion_;
  const bool decodes_ = d_.rows <= kMaxDecodeRows, mixes_in_rule_ = d_.rows == 1 && MixesInRule(s_);
  // Whose mix keeps what later steps need.
  const int kept_rows_ =
      decodes_ && !mixes_in_rule_ && KeepsInMix(s_, d_.rows) ? static_cast<int>(d_.rows) : 0;
  const uint64_t rows_ = static_cast<uint64_t>(d_.rows), blocks_ = CeilDiv(rows_, kDeltaBlock);
  const uint64_t channels_ = static_cast<uint64_t>(s_.channels());
  const uint64_t keys_ = static_cast<uint64_t>(s_.keys());
  const uint64_t values_ = static_cast<uint64_t>(s_.values());
  const uint64_t value_heads_ = static_cast<uint64_t>(s_.value_heads), taps_ = static_cast<uint64_t>(s_.taps);
  const uint64_t gate_width_ = static_cast<uint64_t>(s_.gates());
  const uint64_t sequences_ = decodes_ ? rows_ : 1;
  const uint64_t state_bytes_ = 4 * value_heads_ * static_cast<uint64_t>(s_.key_dim * s_.value_dim);
  const uint64_t entry_bytes_ = 4 * static_cast<uint64_t>(s_.entry().floats);
  const uint64_t kept_bytes_ = 4 * (channels_ + keys_ + value_heads_);  // of a row, but for u
  const uint64_t mixed_rows_ = rows_ + static_cast<uint64_t>(kept_rows_);
  const Arg mixed_ = expansion_.Scratch(4 * mixed_rows_ * channels_),
            gates_ = expansion_.Scratch(4 * mixed_rows_ * gate_width_);
  const Arg conv_state_ = Number(d_.bindings.conv_state->value),
            delta_state_ = Number(d_.bindings.delta_state->value);
};

DeltaMixInput<Arg> DeltaLaunches::MixInput() const {
  return {.step = StepArg(expansion_),
          .seqs = StepSeqsArg(expansion_),
          .qkv = *d_.bindings.qkv,
          .alpha = *d_.bindings.alpha,
          .beta = *d_.bindings.beta,
          .conv_w = *d_.bindings.conv_w,
          .ssm_a = *d_.bindings.ssm_a,
          .dt_bias = *d_.bindings.dt_bias,
          .conv_state = conv_state_,
          .l2_eps = FloatNumber(d_.spec.l2_eps),
          .query_scale = FloatNumber(d_.spec.scale)};
}

Launch DeltaLaunches::Mix() const {
  Launch mix;
  mix.name =
      "gated_delta.mix" + s_.name() + MixName() + (kept_rows_ ? ".keep" + std::to_string(kept_rows_) : "");
  mix.emit = [s = s_, rows = kept_rows_](Builder& b) { EmitDeltaMix(b, s, rows); };
  mix.workgroup_size = kDeltaThreads;
  mix.grid[0] = DeltaMixGroups(s_);
  mix.grid[1] = static_cast<uint32_t>(rows_);
  const DeltaMixArgs<Arg> args = {.in = MixInput(), .mixed = mixed_, .gates = gates_};
  mix.args = kept_rows_ ? ListArgs<DeltaMixKeepArgs>({.mix = args, .delta_state = delta_state_})
                        : ListArgs<DeltaMixArgs>(args);
  mix.read_bytes = 4 * rows_ * (channels_ + 2 * value_heads_) + 4 * channels_ * taps_ + 8 * value_heads_ +
                   sequences_ * 4 * channels_ * (taps_ - 1);
  mix.write_bytes = 4 * rows_ * (channels_ + gate_width_);
  if (kept_rows_) mix.write_bytes += rows_ * kept_bytes_;
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
                              .own_dots = dots == nullptr,
                              .replaced = kept_rows_};
  Launch rule;
  rule.name = "gated_delta.rule" + s_.name() + ".s" + std::to_string(form.sequences) + ".t" +
              std::to_string(form.tokens) + (form.own_dots ? "" : ".dots") +
              (form.replaced ? ".kept" + std::to_string(form.replaced) : "");
  rule.emit = [s = s_, form](Builder& b) { EmitDeltaRule(b, s, form); };
  rule.workgroup_size = s_.columns() * kDeltaParts;
  // Three, with which 132 multiprocessors have room for 48 heads. Four would spill.
  rule.at_once = 3;
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

Launch DeltaLaunches::MixedRule() {
  const Launch mix = Mix();
  Launch rule = Rule(nullptr);
  const DeltaRuleForm form = {.own_dots = true, .own_mix = true};
  rule.name = "gated_delta.mix_rule" + s_.name() + MixName();
  rule.emit = [s = s_, form](Builder& b) { EmitDeltaRule(b, s, form); };
  const uint64_t own = rule.grid[0] * 4 * static_cast<uint64_t>(s_.own_floats());
  rule.args = ListArgs<DeltaMixRuleArgs>({.in = MixInput(),
                                          .own = expansion_.Scratch(own),
                                          .delta_state = delta_state_,
                                          .out = *d_.bindings.out});
  rule.barrier = false;
  rule.read_bytes += mix.read_bytes;
  rule.write_bytes += own + kept_bytes_;
  rule.ops += mix.ops;
  return rule;
}

Launch DeltaLaunches::Norm() const {
  Launch norm;
  norm.name = "gated_delta.norm" + s_.name();
  norm.emit = [s = s_](Builder& b) { EmitDeltaNorm(b, s); };
  norm.workgroup_size = kNormThreads;
  norm.grid[0] = KeepsAheadOfNorm() ? static_cast<uint32_t>(s_.value_heads) : DeltaNormGroups(s_);
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
  const uint64_t kept_rows = KeepsAheadOfNorm() ? 0 : std::min<uint64_t>(rows_, 2 * kDeltaBlock);
  const uint64_t kept = kept_rows * kept_bytes_;
  norm.read_bytes = 8 * rows_ * values_ + 4 * static_cast<uint64_t>(s_.value_dim) + kept;
  norm.write_bytes = 4 * rows_ * values_ + kept;
  norm.ops = rows_ * values_ * 24;
  return norm;
}

// Nothing where there are no kernels for it, which `expansion` is told.
std::optional<DeltaSpec> SpecOf(const Dispatch<plan::GatedDeltaSpec>& d, Expansion& expansion) {
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
  if (s.grouped && s.value_heads % s.key_heads) return std::nullopt;
  for (const auto& [key, dim] : {std::pair("key_dim", s.key_dim), std::pair("value_dim", s.value_dim)}) {
    if (dim % 8 == 0 && dim <= kMaxDim) continue;
    expansion.Refuse(key, dim, "up to " + std::to_string(kMaxDim) + ", in multiples of 8");
    return std::nullopt;
  }
  if (s.taps >= 2 && s.taps <= kMaxTaps) return s;
  expansion.Refuse("taps", s.taps, "2 to " + std::to_string(kMaxTaps));
  return std::nullopt;
}

}  // namespace

std::vector<Launch> Expand_gated_delta(const Dispatch<plan::GatedDeltaSpec>& d, Expansion& expansion) {
  const std::optional<DeltaSpec> s = SpecOf(d, expansion);
  return s ? DeltaLaunches(*s, d, expansion).All() : std::vector<Launch>();
}

std::vector<Launch> ExpandUnnormed(const Dispatch<plan::GatedDeltaSpec>& d, Expansion& expansion) {
  const std::optional<DeltaSpec> s = SpecOf(d, expansion);
  if (!s) return {};
  DeltaLaunches launches(*s, d, expansion);
  return launches.KeepsAheadOfNorm() ? launches.AheadOfNorm() : std::vector<Launch>();
}

}  // namespace qcc::gpu
