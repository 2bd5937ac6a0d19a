// linear: choice of the variant, cutting of large weights, costs.
#include "codegen/gpu/kernels/linear.h"

#include <algorithm>
#include <cstddef>

#include "codegen/gpu/kernels/families.h"
#include "codegen/gpu/kernels/kernel_args.h"
#include "codegen/gpu/kernels/math.h"
#include "dialects/layouts/layouts.h"
#include "runtime/abi/gpu_step.h"

namespace qcc::gpu {
namespace {

// Workgroups below which a device of today has idle cores: then the split variant, which has more.
constexpr int64_t kFewWorkgroups = 256;
// The same for tiles of cooperative matrices, which are done faster: idle cores cost less there.
constexpr int64_t kFewCooperative = 32;

// The one place that picks a variant. Any may be picked for any bucket: all give the same bits (linear.h).
Launch ChooseVariant(const LinearSpec& spec, const Profile& profile, int64_t units, int64_t rows) {
  // A dot product that is spelled out fills the kernel, and so do f32 values that are looked up: half the
  // rows keep it small.
  const bool is_long = spec.int8 ? !profile.int_dot : LooksUp(description(spec.format).plain);
  const int most = is_long ? 4 : 8;
  if (rows > 8 && spec.int8 && profile.matrix.kind == MatrixUnits::Kind::kMma) {
    const int tile_rows = rows > 16 ? 32 : 16;
    Launch tiled = LinearMatrixTiled(spec, tile_rows, units, rows);
    if (int64_t{tiled.grid[0]} * tiled.grid[1] >= kFewWorkgroups) return tiled;
    return LinearMatrixSplit(spec, tile_rows, units, rows);
  }
  if (rows > 8 && spec.int8 && profile.matrix.kind == MatrixUnits::Kind::kCooperative) {
    Launch tiled = LinearCooperative(spec, units, rows);
    if (int64_t{tiled.grid[0]} * tiled.grid[1] >= kFewCooperative) return tiled;
  }
  if (rows > 8) {
    Launch tiled = LinearTiled(spec, most, units, rows);
    if (int64_t{tiled.grid[0]} * tiled.grid[1] >= kFewWorkgroups) return tiled;
  }
  int tile_rows = 1;
  while (tile_rows < most && tile_rows < rows) tile_rows *= 2;
  return LinearSplit(spec, tile_rows, units, rows);
}

}  // namespace

int64_t LinearSpec::x_row_bytes() const {
  return int8 ? layouts::Int8RowBytes(k) : 4 * k;
}

std::string LinearSpec::name() const {
  return "linear." + std::string(format_info(format).name) + (int8 ? ".int8.k" : ".f32.k") +
         std::to_string(k) + "." + std::string(plan::textOf(epilogue)) + (scale ? ".scale" : "") +
         (up_scale ? ".up_scale" : "");
}

LinearArgs::LinearArgs(Builder& b, const LinearSpec& spec) {
  constexpr const LinearArgList<int>& kAt = kArg<LinearArgList>;
  x = b.Arg(kAt.x);
  w = b.Arg(kAt.w);
  y = b.Arg(kAt.y);
  rows = b.Load(Type::kI32, b.Arg(kAt.count), b.I32(0));
  units = b.Truncate(b.Arg(kAt.units));
  y_row_bytes = b.Truncate(b.Arg(kAt.y_row_bytes));
  int next = static_cast<int>(kArgCount<LinearArgList>);
  if (spec.scale) scale = b.Arg(next++);
  if (spec.up_scale) up_scale = b.Arg(next++);
}

std::vector<Arg> LinearArgs::List(const LinearArgList<Arg>& args, const std::optional<Arg>& scale,
                                  const std::optional<Arg>& up_scale) {
  std::vector<Arg> list = ListArgs<LinearArgList>(args);
  if (scale) list.push_back(*scale);
  if (up_scale) list.push_back(*up_scale);
  return list;
}

Val PartLow(const LinearSpec& spec, Val part) {
  return part * spec.chunks_per_part();
}

Val PartHigh(const LinearSpec& spec, Val part) {
  const Val end = PartLow(spec, part) + spec.chunks_per_part();
  return MinS(end, Const(end, spec.chunks()));
}

std::vector<Val> SumParts(Builder& b, const LinearSpec& spec, size_t count,
                          const std::function<std::vector<Val>(Val low, Val high)>& part) {
  const std::vector<Val> zero(count, b.F32(0.f));
  return b.For(b.I32(0), b.I32(spec.parts()), b.I32(1), zero,
               [&](Val number, const std::vector<Val>& carried) {
                 std::vector<Val> sums = part(PartLow(spec, number), PartHigh(spec, number));
                 for (size_t i = 0; i < sums.size(); ++i) sums[i] = carried[i] + sums[i];
                 return sums;
               });
}

void StoreLinear(Builder& b, const LinearSpec& spec, const LinearArgs& args, Val offset,
                 const std::vector<Val>& sums) {
  const auto scaled = [&](Val sum, Val scale) {
    return scale ? sum * b.Load(Type::kF32, scale, b.I32(0)) : sum;
  };
  Val v = scaled(sums[0], args.scale);
  if (spec.epilogue == Epilogue::Add) v = b.Load(Type::kF32, args.y, offset) + v;
  if (spec.epilogue == Epilogue::Swiglu) v = Silu(v) * scaled(sums[1], args.up_scale);
  b.Store(args.y, offset, v);
}

std::vector<Launch> Expand_linear(const Dispatch<plan::LinearSpec>& dispatch, Expansion& expansion) {
  LinearSpec spec;
  spec.format = dispatch.spec.format;
  spec.int8 = dispatch.spec.numerics == plan::Numerics::Int8;
  spec.k = dispatch.spec.k;
  spec.epilogue = dispatch.spec.epilogue;
  spec.scale = dispatch.bindings.scale.has_value();
  spec.up_scale = dispatch.bindings.up_scale.has_value();
  const bool block_format = IsBlockFormat(spec.format);
  if (spec.k % kChunkColumns || spec.k % format_info(spec.format).block_elems) return {};
  if (spec.int8 && !block_format) return {};

  const bool out_rows = dispatch.spec.rows == plan::RowsFrom::OutRows;
  const int64_t n = dispatch.spec.n, rows = dispatch.rows;
  const int64_t units = CeilDiv(n, layouts::kGroupRows);
  const int64_t unit_bytes = spec.groups_per_unit() * spec.group_bytes();
  const Arg& x = spec.int8 ? *dispatch.bindings.xq : *dispatch.bindings.x;
  const Arg& w = *dispatch.bindings.w;
  const Arg& y = *dispatch.bindings.y;
  const int64_t ld = y.space == Space::kLogits ? expansion.logits_stride() : units * layouts::kGroupRows;
  const Arg count{Space::kStep, out_rows ? offsetof(qrt_gpu_step, n_out) : offsetof(qrt_gpu_step, n_rows), 4};

  std::vector<Launch> launches;
  const int64_t most = static_cast<int64_t>(kMaxBindingBytes) / unit_bytes;
  if (most == 0) return {};  // not even one unit is within reach of 32-bit offsets
  for (int64_t first = 0; first < units; first += most) {
    const int64_t part = std::min(most, units - first);
    Launch launch = ChooseVariant(spec, expansion.profile(), part, rows);
    const Arg part_w{w.space, w.value + static_cast<uint64_t>(first * unit_bytes),
                     static_cast<uint64_t>(part * unit_bytes)};
    const uint64_t skipped = static_cast<uint64_t>(first * layouts::kGroupRows * 4);
    const Arg part_y{y.space, y.value + skipped,
                     static_cast<uint64_t>(((rows - 1) * ld + part * layouts::kGroupRows) * 4)};
    launch.args = LinearArgs::List({.x = x,
                                    .w = part_w,
                                    .y = part_y,
                                    .count = count,
                                    .units = Number(static_cast<uint64_t>(part)),
                                    .y_row_bytes = Number(static_cast<uint64_t>(ld * 4))},
                                   dispatch.bindings.scale, dispatch.bindings.up_scale);
    const uint64_t columns =
        static_cast<uint64_t>(std::min(part * layouts::kGroupRows, n - first * layouts::kGroupRows));
    const uint64_t y_bytes = 4 * columns * static_cast<uint64_t>(rows);
    launch.read_bytes = part_w.bytes + static_cast<uint64_t>(rows * spec.x_row_bytes());
    if (spec.epilogue == Epilogue::Add) launch.read_bytes += y_bytes;
    launch.write_bytes = y_bytes;
    launch.ops = 2 * columns * static_cast<uint64_t>(rows * spec.k * spec.groups_per_unit());
    launches.push_back(std::move(launch));
  }
  return launches;
}

}  // namespace qcc::gpu
