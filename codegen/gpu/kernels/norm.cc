// norm: x * rsqrt(mean(x^2) + eps) * weight, as f32 and as int8 rows. A workgroup has one row.
#include "codegen/gpu/kernels/norm.h"

#include <cstddef>
#include <optional>
#include <utility>

#include "codegen/gpu/kernels/families.h"
#include "codegen/gpu/kernels/kernel_args.h"
#include "codegen/gpu/kernels/reduce.h"
#include "codegen/gpu/kernels/row_quantizer.h"
#include "codegen/gpu/kernels/step.h"
#include "dialects/layouts/layouts.h"

namespace qcc::gpu {
namespace {

constexpr int kThreads = kNormThreads;

struct NormSpec {
  int64_t cols = 0;
  bool out = false, out_q = false, out_rows = false;
  int terms = 1;  // of out_q
};

template <typename T>
struct NormArgs {
  T x, weight, out, out_q, step, outs, eps;
};

class NormKernel {
 public:
  NormKernel(Builder& b, const NormSpec& spec) : b_(b), spec_(spec) {
    if (spec.out_q) quantizer_.emplace(b, kThreads, spec.cols, spec.terms);
    row_ = b.BlockX();
    thread_ = b.Thread();
  }
  void Emit() {
    b_.If(LtS(row_, spec_.out_rows ? StepOuts(args_.step) : StepRows(args_.step)), [&] { EmitRow(); });
  }

 private:
  void EmitRow();
  void Write(Val quad, Val active, Val at, const std::vector<Val>& values);

  Builder& b_;
  const NormSpec& spec_;
  const NormArgs<Val> args_ = ReadArgs<NormArgs>(b_);
  const Val eps_ = FloatOf(args_.eps);
  Reducer reducer_{b_, kThreads, kThreads};
  std::optional<RowQuantizer> quantizer_;
  Val row_, thread_;
};

void NormKernel::EmitRow() {
  const Val source = (spec_.out_rows ? OutRow(args_.outs, row_) : row_) * (4 * spec_.cols);
  const Val end = b_.I32(static_cast<int32_t>(spec_.cols / 4));
  const Val scale = NormScale(b_, reducer_, args_.x, source, spec_.cols, eps_);
  // All threads go round together: the quantizer has barriers.
  b_.For(b_.I32(0), end, b_.I32(kThreads), [&](Val first) {
    const Val quad = first + thread_;
    const Val at = MinS(quad, end - 1) << 4;
    Write(quad, LtS(quad, end), at, NormQuad(b_, LoadNorm(b_, args_.x, source, args_.weight, at), scale));
  });
}

void NormKernel::Write(Val quad, Val active, Val at, const std::vector<Val>& values) {
  if (spec_.out) {
    const Val place = row_ * (4 * spec_.cols) + at;
    b_.If(active, [&] { b_.Store(args_.out, place, b_.Vector(values)); });
  }
  if (spec_.out_q) {
    quantizer_->Write(args_.out_q, row_ * quantizer_->row_bytes(), quad, active, values);
  }
}

}  // namespace

Val NormScale(Builder& b, Reducer& reducer, Val x, Val source, int64_t cols, Val eps) {
  return NormScales(b, reducer, x, {source}, cols, eps)[0];
}

std::vector<Val> NormScales(Builder& b, Reducer& reducer, Val x, const std::vector<Val>& sources,
                            int64_t cols, Val eps) {
  // Of a row four partial sums a thread, by column modulo 4.
  const std::vector<Val> zero(4 * sources.size(), b.F32(0.f));
  const auto squares = [&](Val quad, const std::vector<Val>& carried) {
    std::vector<Val> acc = carried, quads;
    for (const Val& source : sources) quads.push_back(b.Load(Type::kF32x4, x, source + (quad << 4)));
    for (size_t i = 0; i < acc.size(); ++i) {
      const Val v = b.Extract(quads[i / 4], static_cast<int>(i % 4));
      acc[i] = Fma(v, v, acc[i]);
    }
    return acc;
  };
  const std::vector<Val> acc =
      b.For(b.Thread(), b.I32(static_cast<int32_t>(cols / 4)), b.I32(kThreads), zero, squares);
  std::vector<Val> scales;
  for (size_t i = 0; i < acc.size(); i += 4)
    scales.push_back((acc[i] + acc[i + 1]) + (acc[i + 2] + acc[i + 3]));
  scales = reducer(Reduction::kSum, std::move(scales));
  for (Val& scale : scales) {
    const Val mean = DivF(scale, b.F32(static_cast<float>(cols)));
    scale = DivF(b.F32(1.f), b.Call(Builder::Fn::kSqrt, mean + eps));
  }
  return scales;
}

NormWords LoadNorm(Builder& b, Val x, Val source, Val weight, Val at) {
  return {b.Load(Type::kF32x4, x, source + at), b.Load(Type::kF32x4, weight, at)};
}

std::vector<Val> NormQuad(Builder& b, const NormWords& words, Val scale) {
  std::vector<Val> values(4);
  for (int c = 0; c < 4; ++c) values[c] = (b.Extract(words.x, c) * scale) * b.Extract(words.weight, c);
  return values;
}

namespace {

Launch NormLaunch(const Dispatch<plan::NormSpec>& dispatch, const NormSpec& spec, const Arg& out_q,
                  Expansion& expansion) {
  const uint64_t rows = static_cast<uint64_t>(dispatch.rows), cols = static_cast<uint64_t>(spec.cols);
  Launch launch;
  launch.name = "norm.c" + std::to_string(cols) + (spec.out ? ".f" : "") +
                (!spec.out_q       ? ""
                 : spec.terms == 2 ? ".q2"
                                   : ".q") +
                (spec.out_rows ? ".out_rows" : ".rows");
  launch.emit = [spec](Builder& b) { NormKernel(b, spec).Emit(); };
  launch.workgroup_size = kThreads;
  launch.grid[0] = static_cast<uint32_t>(rows);
  launch.args = ListArgs<NormArgs>({.x = *dispatch.bindings.x,
                                    .weight = *dispatch.bindings.weight,
                                    .out = spec.out ? *dispatch.bindings.out : Number(0),
                                    .out_q = out_q,
                                    .step = StepArg(expansion),
                                    .outs = StepOutsArg(expansion),
                                    .eps = FloatNumber(dispatch.spec.eps)});
  launch.read_bytes = 4 * cols * rows + 4 * cols;
  const uint64_t int8_bytes = static_cast<uint64_t>(layouts::Int8UsedBytes(spec.terms * spec.cols));
  launch.write_bytes = rows * ((spec.out ? 4 * cols : 0) + (spec.out_q ? int8_bytes : 0));
  launch.ops = 4 * cols * rows;
  return launch;
}

}  // namespace

std::vector<Launch> Expand_norm(const Dispatch<plan::NormSpec>& dispatch, Expansion& expansion) {
  const auto &one = dispatch.bindings.out_q, &two = dispatch.bindings.out_q2;
  NormSpec spec;
  spec.cols = dispatch.spec.cols;
  spec.out = dispatch.bindings.out.has_value();
  spec.out_q = one || two;
  spec.terms = !one && two ? 2 : 1;
  spec.out_rows = dispatch.spec.source == plan::RowsFrom::OutRows;
  if (const int multiple = spec.out_q ? 32 : 4; spec.cols % multiple)
    return expansion.Refuse("cols", spec.cols, MultiplesOf(multiple));
  std::vector<Launch> launches = {
      NormLaunch(dispatch, spec, one ? *one : two.value_or(Number(0)), expansion)};
  if (one && two) {  // no fused op asks for both
    spec.out = false;
    spec.terms = 2;
    launches.push_back(NormLaunch(dispatch, spec, *two, expansion));
  }
  return launches;
}

}  // namespace qcc::gpu
