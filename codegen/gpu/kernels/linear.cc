// linear: choice of the variant, cutting of large weights, costs.
#include "codegen/gpu/kernels/linear.h"

#include <algorithm>
#include <cstddef>

#include "codegen/gpu/kernels/families.h"
#include "codegen/gpu/kernels/kernel_args.h"
#include "codegen/gpu/kernels/linear_input.h"
#include "codegen/gpu/kernels/math.h"
#include "dialects/layouts/layouts.h"
#include "runtime/abi/gpu_step.h"

namespace qcc::gpu {
namespace {

// Workgroups below which a device of today has idle cores: then the split variant, which has more.
constexpr int64_t kFewWorkgroups = 256;
// Rows of the smaller tile of LinearMatrixShared. The larger one has fewer instructions for a product, but is
// half empty at the end of each expert's rows: up to so many of them, more than that gains.
constexpr int kSharedRows = 64;
constexpr int64_t kFewOfExpert = 256;
// From so many rows on, matrix units make the products. They take 8 rows for the price of one; where threads
// make them, dp4a, of which a multiprocessor does half as many as of other instructions, grow with the rows.
// Instructions in PTX of a turn of the loop, 1, 2, 4 and 8 rows: Q4_K 123, 157, 228 and 364, matrix units
// 200; Q6_K 139, 176, 253 and 401, and 272; Q8_0 92, 117, 169 and 269, and 145.
constexpr int64_t kMatrixRows = 3;
// Up to so many rows a variant that splits them is chosen whatever the shape.
constexpr int64_t kMostSplitRows = 8;
// Up to so many rows, and workgroups that make them, do linears make their rows. More workgroups than a
// device of today runs at a time would make them one after the other.
constexpr int64_t kMostMakingRows = kMostSplitRows, kMostMakingWorkgroups = 1024;
// The least workgroups of tiles of cooperative matrices, less than kFewWorkgroups: they are done faster, so
// that idle cores cost less.
constexpr int64_t kFewCooperative = 32;

// Whether matrix units of kind kMma make products. Of float weights they do for all rows or for none: their
// sums are in another order there.
bool OnMatrixUnits(const LinearSpec& spec, const Profile& profile) {
  if (profile.matrix.kind != MatrixUnits::Kind::kMma) return false;
  return spec.int8 || (!IsBlockFormat(spec.format) && spec.rows_of == RowsOf::kStep);
}

}  // namespace

Launch ChooseLinear(const LinearSpec& spec, const Profile& profile, int64_t units, int64_t rows) {
  // A dot product that is spelled out fills the kernel, and so do f32 values that are looked up: half the
  // rows keep it small.
  const bool is_long = spec.int8 ? !profile.int_dot : LooksUp(description(spec.format).plain);
  const int most = is_long ? 4 : 8;
  const int64_t together = spec.rows_together(rows);
  const bool mma = OnMatrixUnits(spec, profile);
  const auto workgroups = [](const Launch& launch) { return int64_t{launch.grid[0]} * launch.grid[1]; };
  if (together > kSharedRows / 2 && mma && spec.int8) {
    const int64_t few = spec.rows_of == RowsOf::kExpert ? kFewOfExpert : kSharedRows;
    for (int tile_rows : {2 * kSharedRows, kSharedRows}) {
      if (tile_rows > kSharedRows && together <= few) continue;
      Launch shared = LinearMatrixShared(spec, tile_rows, units, rows);
      if (workgroups(shared) >= kFewWorkgroups) return shared;
    }
  }
  if (together > kSharedRows / 2 && mma && !spec.int8) {
    Launch shared = LinearFloatsShared(spec, units, rows);
    if (workgroups(shared) >= kFewWorkgroups) return shared;
  }
  if (together > kMostSplitRows && mma) {
    const int tile_rows = together > 16 ? 32 : 16;
    Launch tiled = LinearMatrixTiled(spec, tile_rows, units, rows);
    if (workgroups(tiled) >= kFewWorkgroups) return tiled;
    return LinearMatrixSplit(spec, tile_rows, units, rows);
  }
  if (together > kMostSplitRows && spec.int8 && profile.matrix.kind == MatrixUnits::Kind::kCooperative) {
    Launch tiled = LinearCooperative(spec, units, rows);
    if (workgroups(tiled) >= kFewCooperative) return tiled;
  }
  if (together > kMostSplitRows) {
    Launch tiled = LinearTiled(spec, most, units, rows);
    if (workgroups(tiled) >= kFewWorkgroups) return tiled;
  }
  const bool matrix = mma && (!spec.int8 || together >= kMatrixRows);
  // Some experts have more rows than most: a whole fragment takes them along.
  const int64_t wanted = matrix && spec.rows_of == RowsOf::kExpert ? most : together;
  int tile_rows = 1;
  while (tile_rows < most && tile_rows < wanted) tile_rows *= 2;
  // Products in f32 take a thread as long as it has rows, so of a small matrix it has fewer while cores idle.
  const auto tiles = [&](int64_t of) { return units * spec.row_tiles(rows, of); };
  const bool few = !spec.int8 && !matrix && together <= kMostSplitRows;
  while (few && tile_rows > 1 && tiles(tile_rows / 2) <= kFewWorkgroups) tile_rows /= 2;
  Launch split = matrix ? LinearMatrixFew(spec, profile, tile_rows, units, rows)
                        : LinearSplit(spec, profile, tile_rows, units, rows);
  split.shared_bytes = 4 * MadeRows::SharedWords(spec, profile, tile_rows, split.shared_bytes / 4);
  return split;
}

bool TakesLinear(const LinearSpec& spec) {
  if (spec.k % WholeColumns(spec.format)) return false;
  return !spec.int8 || IsBlockFormat(spec.format);
}

std::vector<Launch> RefuseLinear(const LinearSpec& spec, Expansion& expansion) {
  const int64_t multiple = WholeColumns(spec.format);
  return spec.k % multiple ? expansion.Refuse("k", spec.k, MultiplesOf(multiple)) : std::vector<Launch>();
}

int LinearSpec::parts() const {
  // Of few chunks a power of two, of which a workgroup of kLinearThreads has some units' or all. Of many, as
  // many as leave a thread at least kLeast chunks, all equal: a decode kernel has a workgroup or two on a
  // multiprocessor, and takes as long as one thread for its chunks. Measured on an H100, 2b Q4_K_M, token: 8
  // parts 1.32 ms, 16 parts 1.04 ms; of 1024 columns 16 parts gained nothing over 8.
  constexpr int kFew = 8, kMost = 32;
  constexpr int64_t kLeast = 4;
  if (chunks() < kFew) return chunks() >= 4 ? 4 : chunks() >= 2 ? 2 : 1;
  for (int parts = kMost; parts > kFew; parts -= kFew) {
    if (chunks() % parts == 0 && chunks() / parts >= kLeast) return parts;
  }
  return kFew;
}

int LinearSpec::split_threads(const Profile& profile, int tile_rows) const {
  const int all = kLinearLanes * parts();
  const int words = groups_per_unit() * tile_rows * all + (unit_keys ? kLinearLanes * tile_rows : 0) +
                    LinearArgs::SharedWords(*this);
  const bool room = all <= profile.max_workgroup && 4 * words <= profile.max_shared;
  return all > kLinearThreads && room ? all : kLinearThreads;
}

int LinearSpec::split_rounds(const Profile& profile, int tile_rows) const {
  return std::max(kLinearLanes * parts() / split_threads(profile, tile_rows), 1);
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

Val NotSeenThrough(Val high, Val number) {
  return high + ShrU(number, 30);
}

Val Scaled(Val sum, Val scale) {
  if (!scale) return sum;
  Builder& b = *sum.builder();
  return sum * b.Load(Type::kF32, scale, b.I32(0));
}

Val StoreLinear(Builder& b, const LinearSpec& spec, const LinearArgs& args, const YRow& row, Val column,
                const std::vector<Val>& sums) {
  const Val offset = row.at + column;
  Val v = Scaled(sums[0], args.scale);
  if (row.weight) v = row.weight * v;
  if (spec.epilogue == Epilogue::Add) v = b.Load(Type::kF32, args.y, offset) + v;
  if (spec.epilogue == Epilogue::Swiglu) v = Silu(v) * Scaled(sums[1], args.up_scale);
  b.Store(args.y, offset, v);
  return v;
}

namespace {

// `made`: of what the kernels make their rows, or null. `keys`: what they leave besides y, or null.
std::vector<Launch> Launches(const Dispatch<plan::LinearSpec>& dispatch, const MadeOf* made,
                             const UnitKeys* keys, Expansion& expansion) {
  LinearSpec spec;
  if (keys) {
    spec.unit_keys = true;
    spec.some = keys->choosable.has_value();
  }
  if (made) {
    spec.making = made->making;
    spec.norm_dim = made->norm_dim;
  }
  spec.format = dispatch.spec.format;
  spec.int8 = dispatch.spec.numerics != plan::Numerics::F32;
  spec.terms = static_cast<int>(plan::termsOf(dispatch.spec.numerics));
  spec.k = dispatch.spec.k;
  spec.epilogue = dispatch.spec.epilogue;
  spec.scale = dispatch.bindings.scale.has_value();
  spec.up_scale = dispatch.bindings.up_scale.has_value();
  if (!TakesLinear(spec)) return RefuseLinear(spec, expansion);

  const bool out_rows = dispatch.spec.rows == plan::RowsFrom::OutRows;
  const int64_t n = dispatch.spec.n, rows = dispatch.rows;
  const int64_t units = CeilDiv(n, layouts::kGroupRows);
  const int64_t unit_bytes = spec.groups_per_unit() * spec.group_bytes();
  const Arg& x = made ? made->x : spec.int8 ? *dispatch.bindings.xq : *dispatch.bindings.x;
  const Arg& w = *dispatch.bindings.w;
  const Arg& y = *dispatch.bindings.y;
  const int64_t ld = units * layouts::kGroupRows;
  const Arg count{Space::kStep, out_rows ? offsetof(qrt_gpu_step, n_out) : offsetof(qrt_gpu_step, n_rows), 4};

  LinearMoreArgs more = {.scale = dispatch.bindings.scale, .up_scale = dispatch.bindings.up_scale};
  if (spec.making == Making::kNormed || spec.making == Making::kGatedNormed) {
    more.norm_weight = made->weight;
    more.norm_eps = FloatNumber(made->eps);
  }
  if (spec.making == Making::kGatedNormed) more.gate = made->gate;
  if (keys) {
    more.unit_keys = keys->keys;
    more.choosable = keys->choosable;
  }
  std::vector<Launch> launches;
  // Within reach of 32-bit offsets; and a workgroup may have a single unit.
  const int64_t most = std::min(static_cast<int64_t>(kMaxBindingBytes) / unit_bytes, kMostWorkgroups);
  if (most == 0) return expansion.Refuse("bytes of 16 matrix rows", unit_bytes, kUpToOneBinding);
  for (int64_t first = 0; first < units; first += most) {
    const int64_t part = std::min(most, units - first);
    Launch launch = ChooseLinear(spec, expansion.profile(), part, rows);
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
                                   more);
    const uint64_t columns =
        static_cast<uint64_t>(std::min(part * layouts::kGroupRows, n - first * layouts::kGroupRows));
    const uint64_t y_bytes = 4 * columns * static_cast<uint64_t>(rows);
    launch.read_bytes = part_w.bytes + static_cast<uint64_t>(rows * spec.x_row_bytes());
    if (spec.epilogue == Epilogue::Add) launch.read_bytes += y_bytes;
    if (more.norm_weight) launch.read_bytes += more.norm_weight->bytes;
    if (more.gate) launch.read_bytes += more.gate->bytes;
    launch.write_bytes = y_bytes;
    if (keys) launch.write_bytes += keys->keys.bytes;
    launch.ops = 2 * columns * static_cast<uint64_t>(rows * spec.terms * spec.k * spec.groups_per_unit());
    launches.push_back(std::move(launch));
  }
  return launches;
}

}  // namespace

std::vector<Launch> Expand_linear(const Dispatch<plan::LinearSpec>& dispatch, Expansion& expansion) {
  return Launches(dispatch, nullptr, nullptr, expansion);
}

std::vector<Launch> ExpandMaking(const Dispatch<plan::LinearSpec>& dispatch, const MadeOf& made,
                                 Expansion& expansion) {
  // Of selected rows logits are made, with as many workgroups as the vocabulary has.
  if (dispatch.rows > kMostMakingRows || dispatch.spec.rows != plan::RowsFrom::Rows) return {};
  if (made.making != Making::kNormed && dispatch.spec.numerics == plan::Numerics::F32) return {};
  if (made.making == Making::kGatedNormed && dispatch.spec.k % made.norm_dim) return {};
  std::vector<Launch> launches = Launches(dispatch, &made, nullptr, expansion);
  if (launches.size() != 1) return {};
  const Launch& launch = launches.front();
  if (int64_t{launch.grid[0]} * launch.grid[1] > kMostMakingWorkgroups) return {};
  return launch.shared_bytes <= expansion.profile().max_shared ? launches : std::vector<Launch>();
}

std::vector<Launch> ExpandLeavingKeys(const Dispatch<plan::LinearSpec>& dispatch, const UnitKeys& keys,
                                      Expansion& expansion) {
  if (dispatch.rows > kMostSplitRows || dispatch.spec.epilogue != Epilogue::Store) return {};
  std::vector<Launch> launches = Launches(dispatch, nullptr, &keys, expansion);
  return launches.size() == 1 ? launches : std::vector<Launch>();
}

}  // namespace qcc::gpu
