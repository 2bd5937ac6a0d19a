// quantize, and the int8 rows of others.
#include <bit>
#include <cstddef>
#include <cstdint>

#include "codegen/gpu/kernels/families.h"
#include "codegen/gpu/kernels/kernel_args.h"
#include "codegen/gpu/kernels/math.h"
#include "codegen/gpu/kernels/quotients.h"
#include "codegen/gpu/kernels/row_quantizer.h"
#include "codegen/gpu/kernels/step.h"
#include "dialects/layouts/layouts.h"

namespace qcc::gpu {
namespace {

constexpr int kThreads = 128;

template <typename T>
struct QuantizeArgs {
  T x, out_q, step;
};

}  // namespace

RowQuantizer::RowQuantizer(Builder& builder, int workgroup_size, int64_t k, int terms)
    : b_(builder),
      k_(k),
      terms_(terms),
      block_(builder, workgroup_size, 8),
      half_(builder, workgroup_size, 4) {}

int64_t RowQuantizer::row_bytes() const {
  return layouts::Int8RowBytes(terms_ * k_);
}

void RowQuantizer::Write(Val out_q, Val row, Val quad, Val active, const std::vector<Val>& values) {
  const std::vector<Val> scales = Scales(values);
  std::vector<Val> rest;
  WriteTerm(out_q, row, quad, active, values, scales[0], terms_ == 2 ? &rest : nullptr);
  if (terms_ == 2) WriteTerm(out_q, row, quad + k_ / 4, active, rest, scales[1], nullptr);
}

Val RowQuantizer::ScaleOf(Val peak) {
  const Val divided = DivF(peak, b_.F32(127.f));
  if (b_.profile().exact_division) return divided;
  // Small numbers are made greater: what is left of them would be subnormal, which a device may take for 0.
  constexpr float kSmall = 0x1p-64f, kUp = 0x1p80f;
  const Val small = LtF(peak, b_.F32(kSmall)), one = b_.F32(1.f);
  const Val scale = Over127(peak * Select(small, b_.F32(kUp), one)) * Select(small, b_.F32(1.f / kUp), one);
  // A subnormal scale is rounded twice so, and 128 times the scale of a great one is infinite.
  constexpr int32_t kLow = std::bit_cast<int32_t>(0x1p-118f), kHigh = std::bit_cast<int32_t>(0x1p127f);
  return Select(LtU(b_.AsI32(peak) - kLow, b_.I32(kHigh - kLow)), scale, divided);
}

std::vector<Val> RowQuantizer::Scales(const std::vector<Val>& values) {
  Val peak = b_.Call(Builder::Fn::kAbs, values[0]);
  for (int c = 1; c < 4; ++c) peak = MaxMagnitude(peak, b_.Call(Builder::Fn::kAbs, values[c]));
  const Val d = ScaleOf(block_.MaxMagnitude(peak));
  if (terms_ == 1) return {d};
  // The ratio is exact where the second is subnormal, too.
  const Val second = d * (1 / layouts::kTermRatio);
  return {second * layouts::kTermRatio, second};
}

RoundedQuad RowQuantizer::Round(const std::vector<Val>& values, Val scale, std::vector<Val>* rest) {
  const Val none = b_.Compare(Builder::Cmp::kEqF, scale, b_.F32(0.f));
  const Val divisor = Select(none, b_.F32(1.f), scale);
  // A scale that is subnormal may be too small by its rounding, and half of the first is 128 of the second:
  // keep the codes in range. Scale 0: all codes 0.
  const Val top = Select(none, b_.F32(0.f), b_.F32(127.f)),
            bottom = Select(none, b_.F32(0.f), b_.F32(-127.f));
  Val word, sum;
  for (int c = 0; c < 4; ++c) {
    const Val code = RoundEvenToI32(MaxF(MinF(DivF(values[c], divisor), top), bottom));
    const Val byte = c == 3 ? code << 24 : (code & 0xff) << (8 * c);
    word = c ? word | byte : byte;
    sum = c ? sum + code : code;
    if (rest) rest->push_back(values[c] - b_.ToF32(code) * scale);
  }
  return {word, b_.ToF32(sum)};
}

Val RowQuantizer::HalfSum(const RoundedQuad& rounded) {
  return b_.ToI32(half_.Sum(rounded.sum));
}

void RowQuantizer::WriteTerm(Val out_q, Val row, Val quad, Val active, const std::vector<Val>& values,
                             Val scale, std::vector<Val>* rest) {
  const RoundedQuad rounded = Round(values, scale, rest);
  const Val half_sum = HalfSum(rounded), whole_sum = Sum(rounded);
  b_.If(active, [&] {
    b_.Store(out_q, row + (quad << 2), rounded.word);
    b_.If(Eq(quad & 7, 0), [&] {
      const Val at = row + ShrU(quad, 1);
      b_.Store(out_q, at + layouts::Int8ScalesAt(terms_ * k_), scale);
      b_.Store(out_q, at + layouts::Int8WeightedAt(terms_ * k_), scale * whole_sum);
    });
    b_.If(Eq(quad & 3, 0), [&] { b_.Store(out_q, row + quad + layouts::Int8SumsAt(terms_ * k_), half_sum); });
  });
}

namespace {

Launch QuantizeLaunch(int64_t k, int64_t rows, int terms, const Arg& x, const Arg& out_q,
                      Expansion& expansion) {
  Launch launch;
  launch.name = "quantize.k" + std::to_string(k) + (terms == 2 ? ".x2" : "");
  launch.workgroup_size = kThreads;
  launch.beside = true;
  launch.shared_bytes = 4 * RowQuantizer::SharedWords(expansion.profile(), kThreads);
  launch.emit = [k, terms](Builder& b) {
    constexpr const QuantizeArgs<int>& kAt = kArg<QuantizeArgs>;
    const Val x = b.Arg(kAt.x), out_q = b.Arg(kAt.out_q);
    RowQuantizer quantizer(b, kThreads, k, terms);
    const Val row = b.BlockX();
    b.If(LtS(row, StepRows(b.Arg(kAt.step))), [&] {
      const Val quad = b.BlockY() * kThreads + b.Thread();
      const Val last = b.I32(static_cast<int32_t>(k / 4 - 1));
      const Val v = b.Load(Type::kF32x4, x, row * (4 * k) + (MinS(quad, last) << 4));
      std::vector<Val> values;
      for (int c = 0; c < 4; ++c) values.push_back(b.Extract(v, c));
      quantizer.Write(out_q, row * quantizer.row_bytes(), quad, b.Compare(Builder::Cmp::kLeS, quad, last),
                      values);
    });
  };
  launch.grid[0] = static_cast<uint32_t>(rows);
  launch.grid[1] = static_cast<uint32_t>(CeilDiv(k / 4, kThreads));
  launch.args = ListArgs<QuantizeArgs>({.x = x, .out_q = out_q, .step = StepArg(expansion)});
  launch.read_bytes = static_cast<uint64_t>(rows * 4 * k);
  launch.write_bytes = static_cast<uint64_t>(rows * layouts::Int8UsedBytes(terms * k));
  launch.ops = static_cast<uint64_t>(rows * 2 * terms * k);
  return launch;
}

}  // namespace

std::vector<Launch> Expand_quantize(const Dispatch<plan::QuantizeSpec>& dispatch, Expansion& expansion) {
  const int64_t k = dispatch.spec.cols, rows = dispatch.rows;
  if (k % 32) return expansion.Refuse("cols", k, MultiplesOf(32));
  const auto& [x, out_q, out_q2] = dispatch.bindings;
  std::vector<Launch> launches;
  if (out_q) launches.push_back(QuantizeLaunch(k, rows, 1, *x, *out_q, expansion));
  if (out_q2) launches.push_back(QuantizeLaunch(k, rows, 2, *x, *out_q2, expansion));
  return launches;
}

}  // namespace qcc::gpu
