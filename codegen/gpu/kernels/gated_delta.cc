#include "codegen/gpu/kernels/gated_delta.h"

#include <algorithm>
#include <bit>

#include "codegen/gpu/kernels/families.h"
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

int CeilDiv(int a, int b) {
  return (a + b - 1) / b;
}
Val FloatArg(Builder& b, int index) {
  return b.AsF32(b.Truncate(b.Arg(index)));
}
Arg FloatNumber(double value) {
  return Number(std::bit_cast<uint32_t>(static_cast<float>(value)));
}

int NormThreads(const DeltaSpec& s) {
  return s.value_dim <= 64 ? 64 : 128;
}

}  // namespace

std::string DeltaSpec::name() const {
  return ".k" + std::to_string(key_heads) + "x" + std::to_string(key_dim) + ".v" +
         std::to_string(value_heads) + "x" + std::to_string(value_dim) + ".t" + std::to_string(taps);
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

void EmitDeltaMix(Builder& b, const DeltaSpec& s) {
  const Val step = b.Arg(0), seqs = b.Arg(1), qkv = b.Arg(2), alpha = b.Arg(3), beta = b.Arg(4),
            conv_w = b.Arg(5), ssm_a = b.Arg(6), dt_bias = b.Arg(7), mixed = b.Arg(9), gates = b.Arg(10);
  const Val l2_eps = FloatArg(b, 11), query_scale = FloatArg(b, 12);
  Reducer reducer(b, kDeltaThreads, kDeltaThreads, 2);
  const Val group = b.BlockX(), row = b.BlockY(), thread = b.Thread();
  const int gate_width = 2 * s.value_heads + s.key_heads;
  const int value_groups = CeilDiv(s.values(), kDeltaThreads);

  const auto compute = [&] {
    const Val seq = RowSeq(step, row);
    const Val conv_state = SeqState(seqs, seq) + b.Arg(8);
    const Val row_begin = SeqRowBegin(seqs, seq), time = row - row_begin;
    const auto mix = [&](Val channel) {
      Val sum;
      for (int i = 0; i < s.taps; ++i) {
        const Val x = ConvColumn(s, qkv, conv_state, row_begin, time + (i - (s.taps - 1)), channel);
        const Val w = b.Load(Type::kF32, conv_w, (channel + static_cast<double>(i * s.channels())) << 2);
        sum = sum ? Fma(w, x, sum) : w * x;
      }
      return Silu(sum);
    };
    const auto store = [&](Val channel, Val value) {
      b.Store(mixed, (row * s.channels() + channel) << 2, value);
    };
    const Val gate_row = row * gate_width;

    b.If(LtS(group, b.I32(s.key_heads)), [&] {
      const int turns = CeilDiv(s.key_dim, kDeltaThreads);
      std::vector<Val> inside, channel, query, key;
      Val query_sum = b.F32(0.f), key_sum = query_sum, dot = query_sum;
      for (int i = 0; i < turns; ++i) {
        const Val at = thread + i * kDeltaThreads;
        inside.push_back(LtS(at, b.I32(s.key_dim)));
        channel.push_back(group * s.key_dim + MinS(at, b.I32(s.key_dim - 1)));
        query.push_back(Select(inside[i], mix(channel[i]), b.F32(0.f)));
        key.push_back(Select(inside[i], mix(channel[i] + s.keys()), b.F32(0.f)));
        query_sum = Fma(query[i], query[i], query_sum);
        key_sum = Fma(key[i], key[i], key_sum);
      }
      const std::vector<Val> sums = reducer(Reduction::kSum, {query_sum, key_sum});
      const auto factor = [&](Val sum, Val numerator) {
        const Val norm = b.Call(Builder::Fn::kSqrt, s.l2_max ? sum : sum + l2_eps);
        return DivF(numerator, s.l2_max ? MaxF(norm, l2_eps) : norm);
      };
      const Val query_factor = factor(sums[0], query_scale), key_factor = factor(sums[1], b.F32(1.f));
      for (int i = 0; i < turns; ++i) {
        query[i] = query[i] * query_factor;
        key[i] = key[i] * key_factor;
        dot = Fma(key[i], query[i], dot);
        b.If(inside[i], [&] {
          store(channel[i], query[i]);
          store(channel[i] + s.keys(), key[i]);
        });
      }
      dot = reducer.Sum(dot);
      b.If(Eq(thread, 0), [&] { b.Store(gates, (gate_row + group + 2 * s.value_heads) << 2, dot); });
    });
    const Val value = (group - s.key_heads) * kDeltaThreads + thread;
    b.If(And(LtS(b.I32(s.key_heads - 1), group), LtS(value, b.I32(s.values()))),
         [&] { store(value + 2 * s.keys(), mix(value + 2 * s.keys())); });
    b.If(Eq(group, s.key_heads + value_groups), [&] {
      b.For(thread, b.I32(s.value_heads), b.I32(kDeltaThreads), [&](Val head) {
        const Val at = (row * s.ld_ab + head) << 2, of_head = head << 2;
        const Val rate = b.Load(Type::kF32, ssm_a, of_head) *
                         Softplus(b.Load(Type::kF32, alpha, at) + b.Load(Type::kF32, dt_bias, of_head));
        b.Store(gates, (gate_row + head) << 2, Exp(rate));
        b.Store(gates, (gate_row + head + s.value_heads) << 2, Sigmoid(b.Load(Type::kF32, beta, at)));
      });
    });
  };
  b.If(LtS(row, StepRows(step)), compute);
}

void EmitDeltaNorm(Builder& b, const DeltaSpec& s) {
  const Val step = b.Arg(0), z = b.Arg(1), weight = b.Arg(2), out = b.Arg(3), eps = FloatArg(b, 4);
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

std::vector<Launch> Expand_gated_delta(const Dispatch& d, Expansion& expansion) {
  const auto integer = [&](const char* key) { return static_cast<int>(d.integer(key)); };
  DeltaSpec s;
  s.key_heads = integer("key_heads");
  s.value_heads = integer("value_heads");
  s.key_dim = integer("key_dim");
  s.value_dim = integer("value_dim");
  s.taps = integer("taps");
  s.ld_ab = integer("ld_ab");
  s.l2_max = d.string("l2_form") == "max";
  if (s.key_dim % 8 || s.value_dim % 8 || s.key_dim > kMaxDim || s.value_dim > kMaxDim || s.taps < 2 ||
      s.taps > kMaxTaps) {
    return {};
  }
  const uint64_t rows = static_cast<uint64_t>(d.rows);
  const uint64_t channels = static_cast<uint64_t>(s.channels()), values = static_cast<uint64_t>(s.values());
  const uint64_t value_heads = static_cast<uint64_t>(s.value_heads), taps = static_cast<uint64_t>(s.taps);
  const uint64_t gate_width = static_cast<uint64_t>(2 * s.value_heads + s.key_heads);
  // Decode has one row of each sequence, prefill mostly one sequence.
  const uint64_t sequences = d.rows <= kMaxDecodeRows ? rows : 1;
  const uint64_t state_bytes = 4 * value_heads * static_cast<uint64_t>(s.key_dim * s.value_dim);
  const uint64_t conv_bytes = 4 * channels * (taps - 1);
  const int side_by_side = static_cast<int>(d.rows <= kMaxDecodeRows ? d.rows : kMaxSideBySide);
  const Arg mixed = expansion.Scratch(4 * rows * channels), gates = expansion.Scratch(4 * rows * gate_width);
  const Arg conv_state = Number(d.arg("conv_state").value), delta_state = Number(d.arg("delta_state").value);

  Launch mix;
  mix.name = "gated_delta.mix" + s.name() + ".ab" + std::to_string(s.ld_ab) + (s.l2_max ? ".max" : ".sum");
  mix.emit = [s](Builder& b) { EmitDeltaMix(b, s); };
  mix.workgroup_size = kDeltaThreads;
  mix.grid[0] = DeltaMixGroups(s);
  mix.grid[1] = static_cast<uint32_t>(rows);
  mix.args = {StepArg(expansion),
              StepSeqsArg(expansion),
              d.arg("qkv"),
              d.arg("alpha"),
              d.arg("beta"),
              d.arg("conv_w"),
              d.arg("ssm_a"),
              d.arg("dt_bias"),
              conv_state,
              mixed,
              gates,
              FloatNumber(d.real("l2_eps")),
              FloatNumber(d.real("scale"))};
  mix.read_bytes = 4 * rows * (channels + 2 * value_heads) + 4 * channels * taps + 8 * value_heads +
                   sequences * conv_bytes;
  mix.write_bytes = 4 * rows * (channels + gate_width);
  mix.ops = rows * channels * (2 * taps + 20);

  const bool chunked = expansion.chunked_delta() && rows >= kDeltaChunk;
  const uint64_t slots = rows / kDeltaChunk;
  Launch chunk;
  if (chunked) {
    chunk.name = "gated_delta.chunk" + s.name();
    chunk.emit = [s](Builder& b) { EmitDeltaChunk(b, s); };
    chunk.workgroup_size = kDeltaThreads;
    chunk.grid[0] = static_cast<uint32_t>(s.value_heads);
    chunk.grid[1] = static_cast<uint32_t>(slots);
    chunk.args = {StepArg(expansion), StepSeqsArg(expansion), mixed, gates,
                  expansion.Scratch(4 * slots * value_heads * kDeltaChunkWords)};
    chunk.barrier = true;
    chunk.read_bytes = 4 * rows * (2 * static_cast<uint64_t>(s.keys()) + gate_width);
    chunk.write_bytes = 4 * slots * value_heads * kDeltaChunkWords;
    // Both dot products of each pair of tokens, the inverse, and its product with P.
    chunk.ops = slots * value_heads * kDeltaChunk * kDeltaChunk *
                (4 * static_cast<uint64_t>(s.key_dim) + 3 * kDeltaChunk);
  }

  Launch rule;
  rule.name =
      "gated_delta.rule" + s.name() + ".s" + std::to_string(side_by_side) + (chunked ? ".chunks" : "");
  rule.emit = [s, side_by_side, chunked](Builder& b) { EmitDeltaRule(b, s, side_by_side, chunked); };
  rule.workgroup_size = s.columns() * kDeltaParts;
  rule.grid[0] = DeltaRuleGroups(s);
  rule.grid[2] = static_cast<uint32_t>(side_by_side);
  rule.args = {
      StepArg(expansion), StepSeqsArg(expansion), d.arg("qkv"), mixed, gates, conv_state, delta_state,
      d.arg("out")};
  if (chunked) rule.args.push_back(chunk.args.back());
  rule.barrier = true;
  rule.read_bytes =
      4 * rows * (channels + gate_width) + sequences * (state_bytes + conv_bytes) + chunk.write_bytes;
  rule.write_bytes = 4 * rows * values + sequences * (state_bytes + conv_bytes);
  rule.ops = rows * state_bytes / 4 * 7;

  Launch norm;
  norm.name = "gated_delta.norm" + s.name();
  norm.emit = [s](Builder& b) { EmitDeltaNorm(b, s); };
  norm.workgroup_size = NormThreads(s);
  norm.grid[0] = static_cast<uint32_t>(s.value_heads);
  norm.grid[1] = static_cast<uint32_t>(rows);
  norm.args = {StepArg(expansion), d.arg("z"), d.arg("norm_w"), d.arg("out"),
               FloatNumber(d.real("norm_eps"))};
  norm.barrier = true;
  norm.read_bytes = 8 * rows * values + 4 * static_cast<uint64_t>(s.value_dim);
  norm.write_bytes = 4 * rows * values;
  norm.ops = rows * values * 24;
  if (!chunked) return {mix, rule, norm};
  return {mix, chunk, rule, norm};
}

}  // namespace qcc::gpu
