// linear: choice of the variant, cutting of large weights, costs.
#include "codegen/gpu/kernels/linear.h"

#include <algorithm>
#include <cstddef>

#include "codegen/gpu/kernels/families.h"
#include "codegen/gpu/kernels/math.h"
#include "dialects/plan/pack_layout.h"
#include "runtime/abi/gpu_step.h"

namespace qcc::gpu {
namespace {

// Workgroups below which a device of today has idle cores: then the split variant, which has more.
constexpr int64_t kFewWorkgroups = 256;
// The same for tiles of cooperative matrices, which are done faster: idle cores cost less there.
constexpr int64_t kFewCooperative = 32;

// The one place that picks a variant. Any may be picked for any bucket: all give the same bits (linear.h).
Launch ChooseVariant(const LinearSpec& spec, const Profile& profile, int64_t units, int64_t rows) {
  // A dot product that is spelled out fills the kernel: half the rows keep it small.
  const int most = profile.int_dot || !spec.int8 ? 8 : 4;
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
  return int8 ? plan::int8_row_bytes(k) : 4 * k;
}

std::string LinearSpec::name() const {
  const char* suffix = epilogue == Epilogue::kStore ? "store" : epilogue == Epilogue::kAdd ? "add" : "swiglu";
  return "linear." + std::string(format_info(format).name) + (int8 ? ".int8.k" : ".f32.k") +
         std::to_string(k) + "." + suffix;
}

LinearArgs::LinearArgs(Builder& b) {
  x = b.Arg(0);
  w = b.Arg(1);
  y = b.Arg(2);
  rows = b.Load(Type::kI32, b.Arg(3), b.I32(0));
  units = b.Truncate(b.Arg(4));
  y_row_bytes = b.Truncate(b.Arg(5));
}

std::vector<Arg> LinearArgs::List(Arg x, Arg w, Arg y, Arg count, int64_t units, int64_t y_row_bytes) {
  return {x, w, y, count, Number(static_cast<uint64_t>(units)), Number(static_cast<uint64_t>(y_row_bytes))};
}

Val PartLow(const LinearSpec& spec, Val part) {
  return part * static_cast<double>(spec.chunks_per_part());
}

Val PartHigh(const LinearSpec& spec, Val part) {
  const Val end = PartLow(spec, part) + static_cast<double>(spec.chunks_per_part());
  return MinS(end, Const(end, static_cast<double>(spec.chunks())));
}

void StoreLinear(Builder& b, const LinearSpec& spec, Val y, Val offset, const std::vector<Val>& sums) {
  Val v = sums[0];
  if (spec.epilogue == Epilogue::kAdd) v = b.Load(Type::kF32, y, offset) + v;
  if (spec.epilogue == Epilogue::kSwiglu) v = Silu(v) * sums[1];
  b.Store(y, offset, v);
}

std::vector<Launch> Expand_linear(const Dispatch& dispatch, Expansion& expansion) {
  const std::optional<Format> format = format_from_name(dispatch.string("format"));
  if (!format) return {};
  LinearSpec spec;
  spec.format = *format;
  spec.int8 = dispatch.string("numerics") == "int8";
  spec.k = dispatch.integer("k");
  const std::string& epilogue = dispatch.string("epilogue");
  spec.epilogue = epilogue == "add"      ? Epilogue::kAdd
                  : epilogue == "swiglu" ? Epilogue::kSwiglu
                                         : Epilogue::kStore;
  const bool block_format = FindTileLayout(spec.format) != nullptr;
  if (spec.k % kChunkColumns || spec.k % format_info(spec.format).block_elems) return {};
  if (spec.int8 && !block_format) return {};

  const bool out_rows = dispatch.string("rows") == "out_rows";
  const int64_t n = dispatch.integer("n"), rows = dispatch.rows;
  const int64_t units = plan::align_up(n, plan::kGroupRows) / plan::kGroupRows;
  const int64_t unit_bytes = spec.groups_per_unit() * spec.group_bytes();
  const Arg& x = dispatch.arg(spec.int8 ? "xq" : "x");
  const Arg& w = dispatch.arg("w");
  const Arg& y = dispatch.arg("y");
  const int64_t ld = y.space == Space::kLogits ? expansion.logits_stride() : units * plan::kGroupRows;
  const Arg count{Space::kStep, out_rows ? offsetof(qrt_gpu_step, n_out) : offsetof(qrt_gpu_step, n_rows), 4};

  std::vector<Launch> launches;
  const int64_t most = static_cast<int64_t>(kMaxBindingBytes) / unit_bytes;
  for (int64_t first = 0; first < units; first += most) {
    const int64_t part = std::min(most, units - first);
    Launch launch = ChooseVariant(spec, expansion.profile(), part, rows);
    const Arg part_w{w.space, w.value + static_cast<uint64_t>(first * unit_bytes),
                     static_cast<uint64_t>(part * unit_bytes)};
    const uint64_t skipped = static_cast<uint64_t>(first * plan::kGroupRows * 4);
    const Arg part_y{y.space, y.value + skipped,
                     static_cast<uint64_t>(((rows - 1) * ld + part * plan::kGroupRows) * 4)};
    launch.args = LinearArgs::List(x, part_w, part_y, count, part, ld * 4);
    const uint64_t columns =
        static_cast<uint64_t>(std::min(part * plan::kGroupRows, n - first * plan::kGroupRows));
    const uint64_t y_bytes = 4 * columns * static_cast<uint64_t>(rows);
    launch.read_bytes = part_w.bytes + static_cast<uint64_t>(rows * spec.x_row_bytes());
    if (spec.epilogue == Epilogue::kAdd) launch.read_bytes += y_bytes;
    launch.write_bytes = y_bytes;
    launch.ops = 2 * columns * static_cast<uint64_t>(rows * spec.k * spec.groups_per_unit());
    launches.push_back(std::move(launch));
  }
  return launches;
}

}  // namespace qcc::gpu
