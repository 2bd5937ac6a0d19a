// norm: x * rsqrt(mean(x^2) + eps) * weight, as f32 and as int8 rows. A workgroup has one row.
#include "codegen/gpu/kernels/norm.h"

#include <algorithm>
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
  }
  void Emit() {
    b_.If(LtS(row_, spec_.out_rows ? StepOuts(args_.step) : StepRows(args_.step)), [&] { EmitRow(); });
  }

 private:
  void EmitRow();
  TurnQuad OfTurn(int turn) const { return QuadOfTurn(b_, b_.Thread(), b_.I32(turn * kThreads), spec_.cols); }
  void Write(const TurnQuad& quad, const std::vector<Val>& values);

  Builder& b_;
  const NormSpec& spec_;
  const NormArgs<Val> args_ = ReadArgs<NormArgs>(b_);
  const Val eps_ = FloatOf(args_.eps);
  Reducer reducer_{b_, kThreads, kThreads};
  std::optional<RowQuantizer> quantizer_;
  Val row_;
};

void NormKernel::EmitRow() {
  const Val source = (spec_.out_rows ? OutRow(args_.outs, row_) : row_) * (4 * spec_.cols);
  if (KeepsQuads(b_.profile(), 1, spec_.cols)) {
    std::vector<NormWords> kept;
    const int turns = QuadTurns(spec_.cols, kThreads);
    kept.reserve(static_cast<size_t>(turns));
    for (int turn = 0; turn < turns; ++turn)
      kept.push_back(LoadNorm(b_, args_.x, source, args_.weight, OfTurn(turn).at));
    b_.BeginLoads();
    const Val scale = NormScales(b_, reducer_, b_.Thread(), kept, 1, spec_.cols, eps_)[0];
    for (int turn = 0; turn < turns; ++turn)
      Write(OfTurn(turn), NormQuad(b_, kept[static_cast<size_t>(turn)], scale));
    return;
  }
  const Val scale = NormScale(b_, reducer_, args_.x, source, spec_.cols, eps_);
  // All threads go round together: the quantizer has barriers.
  b_.For(b_.I32(0), b_.I32(static_cast<int32_t>(spec_.cols / 4)), b_.I32(kThreads), [&](Val first) {
    const TurnQuad quad = QuadOfTurn(b_, b_.Thread(), first, spec_.cols);
    Write(quad, NormQuad(b_, LoadNorm(b_, args_.x, source, args_.weight, quad.at), scale));
  });
}

void NormKernel::Write(const TurnQuad& quad, const std::vector<Val>& values) {
  if (spec_.out) {
    const Val place = row_ * (4 * spec_.cols) + quad.at;
    b_.If(quad.active, [&] { b_.Store(args_.out, place, b_.Vector(values)); });
  }
  if (spec_.out_q) {
    quantizer_->Write(args_.out_q, row_ * quantizer_->row_bytes(), quad.number, quad.active, values);
  }
}

}  // namespace

Val NormScale(Builder& b, Reducer& reducer, Val x, Val source, int64_t cols, Val eps) {
  return NormScales(b, reducer, b.Thread(), x, {source}, cols, eps)[0];
}

namespace {

// 8 quads are 32 of the 128 registers that kernels of few rows may have.
constexpr size_t kQuadsAtOnce = 8;
bool LoadsQuadsTogether(const Profile& profile, size_t rows, int64_t cols) {
  return profile.loads_ahead != LoadsAhead::kNever &&
         rows * static_cast<size_t>(QuadTurns(cols, kThreads)) <= kQuadsAtOnce;
}

// Of a row a thread has four sums of squares, by column modulo 4.
void AddSquares(Builder& b, Val quad, Val* acc) {
  for (int c = 0; c < 4; ++c) {
    const Val v = b.Extract(quad, c);
    acc[c] = Fma(v, v, acc[c]);
  }
}

std::vector<Val> ScalesOfSquares(Builder& b, Reducer& reducer, const std::vector<Val>& acc, int64_t cols,
                                 Val eps) {
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

}  // namespace

std::vector<Val> NormScales(Builder& b, Reducer& reducer, Val thread, Val x, const std::vector<Val>& sources,
                            int64_t cols, Val eps) {
  if (LoadsQuadsTogether(b.profile(), sources.size(), cols)) {
    std::vector<NormWords> quads;
    for (int turn = 0; turn < QuadTurns(cols, kThreads); ++turn) {
      const Val at = QuadOfTurn(b, thread, b.I32(turn * kThreads), cols).at;
      for (const Val& source : sources) quads.push_back(LoadNorm(b, x, source, Val(), at));
    }
    b.BeginLoads();
    return NormScales(b, reducer, thread, quads, sources.size(), cols, eps);
  }
  const std::vector<Val> zero(4 * sources.size(), b.F32(0.f));
  const auto squares = [&](Val quad, const std::vector<Val>& carried) {
    std::vector<Val> acc = carried, quads;
    for (const Val& source : sources) quads.push_back(b.Load(Type::kF32x4, x, source + (quad << 4)));
    for (size_t i = 0; i < quads.size(); ++i) AddSquares(b, quads[i], &acc[4 * i]);
    return acc;
  };
  const std::vector<Val> acc =
      b.For(thread, b.I32(static_cast<int32_t>(cols / 4)), b.I32(kThreads), zero, squares);
  return ScalesOfSquares(b, reducer, acc, cols, eps);
}

int QuadTurns(int64_t cols, int threads) {
  return static_cast<int>(CeilDiv(cols / 4, int64_t{threads}));
}

TurnQuad QuadOfTurn(Builder& b, Val thread, Val first, int64_t cols) {
  const Val end = b.I32(static_cast<int32_t>(cols / 4)), number = first + thread;
  return {number, MinS(number, end - 1) << 4, LtS(number, end)};
}

bool KeepsQuads(const Profile& profile, size_t rows, int64_t cols) {
  constexpr int kMostTurns = 2;
  constexpr size_t kMostRows = 2;
  return profile.loads_ahead != LoadsAhead::kNever && rows <= kMostRows &&
         QuadTurns(cols, kThreads) <= kMostTurns;
}

int TurnsAhead(const Profile& profile, size_t quads, int turns) {
  constexpr size_t kMost = 2;
  if (profile.loads_ahead == LoadsAhead::kNever || turns < 2) return 0;
  return static_cast<int>(std::min(kMost, kQuadsAtOnce / quads));
}

std::vector<Val> NormScales(Builder& b, Reducer& reducer, Val thread, const std::vector<NormWords>& kept,
                            size_t rows, int64_t cols, Val eps) {
  std::vector<Val> acc(4 * rows, b.F32(0.f));
  const bool whole = cols / 4 % kThreads == 0;
  for (size_t i = 0; i < kept.size(); ++i) {
    const int turn = static_cast<int>(i / rows);
    Val quad = kept[i].x;
    // What comes twice counts as 0, and leaves the sums as they are.
    if (!whole && turn + 1 == QuadTurns(cols, kThreads)) {
      const Val active = QuadOfTurn(b, thread, b.I32(turn * kThreads), cols).active;
      std::vector<Val> values(4);
      for (int c = 0; c < 4; ++c)
        values[static_cast<size_t>(c)] = Select(active, b.Extract(quad, c), b.F32(0.f));
      quad = b.Vector(values);
    }
    AddSquares(b, quad, &acc[4 * (i % rows)]);
  }
  return ScalesOfSquares(b, reducer, acc, cols, eps);
}

NormWords LoadNorm(Builder& b, Val x, Val source, Val weight, Val at) {
  return {b.Load(Type::kF32x4, x, source + at), weight ? b.Load(Type::kF32x4, weight, at) : Val()};
}

std::vector<Val> NormQuad(Builder& b, const NormWords& words, Val scale) {
  std::vector<Val> values(4);
  for (int c = 0; c < 4; ++c) {
    values[c] = b.Extract(words.x, c);
    if (words.weight) values[c] = (values[c] * scale) * b.Extract(words.weight, c);
  }
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
