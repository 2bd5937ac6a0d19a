// norm: x * rsqrt(mean(x^2) + eps) * weight, as f32 and as int8 rows. A workgroup has one row.
#include <bit>
#include <cstddef>
#include <optional>

#include "codegen/gpu/kernels/families.h"
#include "codegen/gpu/kernels/reduce.h"
#include "codegen/gpu/kernels/row_quantizer.h"
#include "codegen/gpu/kernels/step.h"
#include "dialects/plan/pack_layout.h"

namespace qcc::gpu {
namespace {

constexpr int kThreads = 128;

struct NormSpec {
  int64_t cols = 0;
  bool out = false, out_q = false, out_rows = false;
};

void EmitNorm(Builder& b, const NormSpec& spec) {
  const Val x = b.Arg(0), weight = b.Arg(1), out = b.Arg(2), out_q = b.Arg(3), step = b.Arg(4),
            outs = b.Arg(5);
  const Val eps = b.AsF32(b.Truncate(b.Arg(6)));
  const int64_t quads = spec.cols / 4;
  Reducer reducer(b, kThreads, kThreads);
  std::optional<RowQuantizer> quantizer;
  if (spec.out_q) quantizer.emplace(b, kThreads, spec.cols);
  const Val row = b.BlockX(), thread = b.Thread();
  b.If(LtS(row, spec.out_rows ? StepOuts(step) : StepRows(step)), [&] {
    const Val source = (spec.out_rows ? OutRow(outs, row) : row) * static_cast<double>(4 * spec.cols);
    const Val end = b.I32(static_cast<int32_t>(quads));
    // Four partial sums a thread, by column modulo 4.
    const std::vector<Val> zero(4, b.F32(0.f));
    const auto squares = [&](Val quad, const std::vector<Val>& carried) {
      const Val v = b.Load(Type::kF32x4, x, source + (quad << 4));
      std::vector<Val> acc = carried;
      for (int c = 0; c < 4; ++c) acc[c] = Fma(b.Extract(v, c), b.Extract(v, c), acc[c]);
      return acc;
    };
    const std::vector<Val> acc = b.For(thread, end, b.I32(kThreads), zero, squares);
    const Val mean =
        DivF(reducer.Sum((acc[0] + acc[1]) + (acc[2] + acc[3])), b.F32(static_cast<float>(spec.cols)));
    const Val scale = DivF(b.F32(1.f), b.Call(Builder::Fn::kSqrt, mean + eps));
    // All threads go round together: the quantizer has barriers.
    b.For(b.I32(0), end, b.I32(kThreads), [&](Val first) {
      const Val quad = first + thread;
      const Val active = LtS(quad, end);
      const Val at = MinS(quad, end - 1) << 4;
      const Val v = b.Load(Type::kF32x4, x, source + at), w = b.Load(Type::kF32x4, weight, at);
      std::vector<Val> values;
      for (int c = 0; c < 4; ++c) values.push_back((b.Extract(v, c) * scale) * b.Extract(w, c));
      if (spec.out) {
        const Val place = row * static_cast<double>(4 * spec.cols) + at;
        b.If(active, [&] { b.Store(out, place, b.Vector(values)); });
      }
      if (spec.out_q) {
        quantizer->Write(out_q, row * static_cast<double>(plan::int8_row_bytes(spec.cols)), quad, active,
                         values);
      }
    });
  });
}

}  // namespace

std::vector<Launch> Expand_norm(const Dispatch& dispatch, Expansion& expansion) {
  NormSpec spec;
  spec.cols = dispatch.integer("cols");
  spec.out = dispatch.has("out");
  spec.out_q = dispatch.has("out_q");
  spec.out_rows = dispatch.string("source") == "out_rows";
  if (spec.cols % (spec.out_q ? 32 : 4)) return {};
  const uint64_t rows = static_cast<uint64_t>(dispatch.rows), cols = static_cast<uint64_t>(spec.cols);
  Launch launch;
  launch.name = "norm.c" + std::to_string(cols) + (spec.out ? ".f" : "") + (spec.out_q ? ".q" : "") +
                (spec.out_rows ? ".out_rows" : ".rows");
  launch.emit = [spec](Builder& b) { EmitNorm(b, spec); };
  launch.workgroup_size = kThreads;
  launch.grid[0] = static_cast<uint32_t>(rows);
  const auto optional = [&](const char* role) { return dispatch.has(role) ? dispatch.arg(role) : Number(0); };
  launch.args = {dispatch.arg("x"),
                 dispatch.arg("weight"),
                 optional("out"),
                 optional("out_q"),
                 StepArg(expansion),
                 StepOutsArg(expansion),
                 Number(std::bit_cast<uint32_t>(static_cast<float>(dispatch.real("eps"))))};
  launch.read_bytes = 4 * cols * rows + 4 * cols;
  launch.write_bytes = rows * ((spec.out ? 4 * cols : 0) + (spec.out_q ? cols + cols / 8 + cols / 4 : 0));
  launch.ops = 4 * cols * rows;
  return {launch};
}

}  // namespace qcc::gpu
