// The linear kernels on matrix units: int8 numerics, weights x activations as mma.m16n8k32.
//
// A: the 16 matrix rows of a group by 32 columns; B: 8 rows of x, a fragment, by the same columns; C: their
// sums. Lane 4 * group + quad holds columns 4 * quad .. + 3 and 16 more of matrix rows `group` and `group +
// 8` and of x row `group`; and sums 0..3 of matrix row `group`, x rows 2 * quad and 2 * quad + 1, then the
// same of matrix row `group + 8`.
#include "codegen/gpu/kernels/linear.h"
#include "dialects/layouts/int8_row.h"

namespace qcc::gpu {
namespace {

constexpr int kThreads = kLinearThreads;
constexpr int kSubgroup = 32;
constexpr int kSubgroups = kThreads / kSubgroup;
constexpr int kLanes = 16;  // matrix rows of a group
constexpr int kFragmentRows = 8;
constexpr int kSums = 4;  // of a lane, per group and fragment

// 1.5 * 2^23: an integer of less than 2^22 either way, added to these bits, is that much more as a float. So
// sums that start here become floats by one exact subtraction, where a conversion takes several times as
// long. 32 products of signed bytes stay below 2^19.
constexpr int32_t kFloatBias = 0x4b400000;
constexpr float kFloatBiasValue = 12582912.f;

// What a subgroup computes: fragments from `first_row` on by the groups at byte offsets `groups`.
struct Tile {
  Tile(Builder& b, const LinearSpec& spec, const LinearArgs& args, Val first_row, int fragments);
  Val group, quad;
  int fragments;
  std::vector<Val> codes;     // [fragment]: byte offsets in x of the lane's columns
  std::vector<XRow> numbers;  // [fragment][2]: the scales of the rows that the lane has sums of
};

Val SumRow(const Tile& tile, int fragment, int sum) {
  return tile.quad * 2 + (kFragmentRows * fragment + (sum & 1));
}

Tile::Tile(Builder& b, const LinearSpec& spec, const LinearArgs& args, Val first_row, int fragments)
    : fragments(fragments) {
  const Val lane = b.Thread() & (kSubgroup - 1);
  group = ShrU(lane, 2);
  quad = lane & 3;
  for (int f = 0; f < fragments; ++f) {
    const XRow x = args.Input(first_row + group + kFragmentRows * f);
    codes.push_back((x.chunk ? x.at + (x.chunk << 5) : x.at) + quad * 4);
    for (int i = 0; i < 2; ++i) {
      numbers.push_back(args.Input(first_row + SumRow(*this, f, i)));
      numbers.back().at = numbers.back().at + layouts::Int8ScalesAt(spec.x_cols());
    }
  }
}

// Of one row of x and 32 columns.
struct RowNumbers {
  Val scale;
  std::vector<Val> sums;  // scale * sum of codes: of all columns, or of each scale's
};

// Which sums of codes a chunk's minima need.
enum class Sums : uint8_t { kNone, kOne, kTwo };

// `k`: columns of a whole row.
RowNumbers ReadNumbers(Builder& b, int64_t k, Val x, const XRow& row, Val number, Sums kind) {
  const Val at = row.at, chunk = row.Chunk(number);
  RowNumbers n{b.Load(Type::kF32, x, at + (chunk << 2)), {}};
  if (kind == Sums::kNone) return n;
  const Val first = at + (chunk << 3) + (layouts::Int8SumsAt(k) - layouts::Int8ScalesAt(k));
  Val sums[2];
  if (k % 64 == 0) {
    const Val both = b.Load(Type::kI32x2, x, first);
    for (int s = 1; s >= 0; --s) sums[s] = b.Extract(both, s);
  } else {
    for (int s = 1; s >= 0; --s) sums[s] = b.Load(Type::kI32, x, s ? first + 4 : first);
  }
  if (kind == Sums::kOne) {
    n.sums.push_back(n.scale * b.ToF32(sums[0] + sums[1]));
  } else {
    for (const Val& sum : sums) n.sums.push_back(n.scale * b.ToF32(sum));
  }
  return n;
}

// 32 columns of a group: the lane's words of A, and the scales of its two matrix rows.
struct GroupChunk {
  std::vector<Val> a;
  PackedRow::Scales scales[2];
};

GroupChunk ReadGroup(const Tile& tile, const PackedRow rows[2], Val chunk) {
  GroupChunk c{std::vector<Val>(4), {}};
  const PackedRow::Chunk at = rows[0].At(chunk);
  for (int i = 0; i < 2; ++i) {
    const std::vector<Val> words = rows[i].ReadCodePair(at, tile.quad);
    for (int w = 0; w < 2; ++w) c.a[2 * w + i] = LessOffset(words[w], rows[i].code_offset());
    c.scales[i] = rows[i].ReadScales(at);
  }
  return c;
}

// acc + the product of 32 columns, element by element as every variant does it (linear_tiles.cc).
void AddProduct(Builder& b, bool two_scales, const GroupChunk& w, const std::vector<Val>& x,
                const RowNumbers numbers[2], Val* acc) {
  const Val none = b.I32(0), bias = b.I32(kFloatBias);
  for (int s = 0; s < (two_scales ? 2 : 1); ++s) {
    std::vector<Val> a = w.a;
    // Columns of the other scale count as zero.
    if (two_scales) a[2 - 2 * s] = a[3 - 2 * s] = none;
    const std::vector<Val> dots = b.MmaS8(a, x, {bias, bias, bias, bias});
    for (int i = 0; i < kSums; ++i) {
      Val dot = b.AsF32(dots[i]) - kFloatBiasValue;
      if (w.scales[i >> 1].rest[s]) dot = dot * w.scales[i >> 1].rest[s];
      acc[i] = Fma(w.scales[i >> 1].scale[s] * numbers[i & 1].scale, dot, acc[i]);
    }
  }
  for (size_t s = 0; s < numbers[0].sums.size(); ++s) {
    for (int i = 0; i < kSums; ++i) acc[i] = Fma(w.scales[i >> 1].shift[s], numbers[i & 1].sums[s], acc[i]);
  }
}

// Sums [group][fragment][kSums] over the chunks [low, high).
std::vector<Val> MatrixPart(Builder& b, const LinearSpec& spec, const LinearArgs& args, const Tile& tile,
                            const std::vector<Val>& groups, Val low, Val high) {
  std::vector<PackedRow> rows;
  for (Val group : groups) {
    for (int i = 0; i < 2; ++i) {
      rows.emplace_back(b, spec.format, spec.k, args.w, group, tile.group + (kLanes / 2) * i);
    }
  }
  const bool two_scales = rows[0].two_scales();
  const std::vector<Val> zero(groups.size() * tile.fragments * kSums, b.F32(0.f));
  return b.For(low, high, b.I32(1), zero, [&](Val chunk, const std::vector<Val>& carried) {
    std::vector<Val> acc = carried;
    std::vector<GroupChunk> weights;
    for (size_t g = 0; g < groups.size(); ++g) weights.push_back(ReadGroup(tile, &rows[2 * g], chunk));
    const Sums sums = !weights[0].scales[0].shift[0] ? Sums::kNone : two_scales ? Sums::kTwo : Sums::kOne;
    for (int f = 0; f < tile.fragments; ++f) {
      for (int t = 0; t < spec.terms; ++t) {
        const Val number = t ? chunk + t * spec.chunks() : chunk;
        const Val at = tile.codes[f] + (number << 5);
        const std::vector<Val> x{b.Load(Type::kI32, args.x, at), b.Load(Type::kI32, args.x, at + 16)};
        RowNumbers numbers[2];
        for (int i = 0; i < 2; ++i) {
          numbers[i] = ReadNumbers(b, spec.x_cols(), args.x, tile.numbers[2 * f + i], number, sums);
        }
        for (size_t g = 0; g < groups.size(); ++g) {
          AddProduct(b, two_scales, weights[g], x, numbers, &acc[(g * tile.fragments + f) * kSums]);
        }
      }
    }
    return acc;
  });
}

// Units of y behind the two groups of a tile.
int UnitsEach(const LinearSpec& spec) {
  return 2 / spec.groups_per_unit();
}

// Byte offsets of the groups of the units from `first_unit` on; units beyond the last repeat it.
std::vector<Val> GroupOffsets(const LinearSpec& spec, const LinearArgs& args, Val first_unit) {
  std::vector<Val> offsets;
  for (int i = 0; i < 2; ++i) {
    const Val group = UnitsEach(spec) == 1 ? first_unit * 2 + i : MinS(first_unit + i, args.units - 1);
    offsets.push_back(group * spec.group_bytes());
  }
  return offsets;
}

// Stores what there is of one element: x row `row` of the step by matrix row `column` of the units from
// `first_unit` on. `sums`: of the two groups.
void StoreElement(Builder& b, const LinearSpec& spec, const LinearArgs& args, Val first_unit, Val row,
                  Val column, Val sums[2]) {
  b.If(LtS(row, args.rows), [&] {
    const YRow y = args.Output(row);
    const Val at = (first_unit * kLanes + column) * 4;
    if (UnitsEach(spec) == 1) {
      StoreLinear(b, spec, args, y, at, {sums[0], sums[1]});
      return;
    }
    StoreLinear(b, spec, args, y, at, {sums[0]});
    b.If(LtS(first_unit + 1, args.units), [&] { StoreLinear(b, spec, args, y, at + 4 * kLanes, {sums[1]}); });
  });
}

void EmitTiled(Builder& b, const LinearSpec& spec, int tile_rows, int row_tiles) {
  const LinearArgs args(b, spec, tile_rows * row_tiles);
  const int pairs = kSubgroups / row_tiles, fragments = tile_rows / kFragmentRows;
  const Val subgroup = ShrU(b.Thread(), 5);
  const Val first_unit = (b.BlockX() * pairs + (subgroup & (pairs - 1))) * UnitsEach(spec);
  const Val first_row = args.first_row + DivU(subgroup, pairs) * tile_rows;
  b.If(And(LtS(first_row, args.rows), LtS(first_unit, args.units)), [&] {
    const Tile tile(b, spec, args, first_row, fragments);
    const std::vector<Val> groups = GroupOffsets(spec, args, first_unit);
    const std::vector<Val> sums =
        SumParts(b, spec, static_cast<size_t>(2 * fragments * kSums),
                 [&](Val low, Val high) { return MatrixPart(b, spec, args, tile, groups, low, high); });
    for (int f = 0; f < fragments; ++f) {
      for (int i = 0; i < kSums; ++i) {
        Val both[2] = {sums[f * kSums + i], sums[(fragments + f) * kSums + i]};
        StoreElement(b, spec, args, first_unit, first_row + SumRow(tile, f, i),
                     tile.group + (kLanes / 2) * (i >> 1), both);
      }
    }
  });
}

int SumsEach(int tile_rows) {
  return 2 * (tile_rows / kFragmentRows) * kSums;
}

void EmitSplit(Builder& b, const LinearSpec& spec, int tile_rows) {
  const LinearArgs args(b, spec, tile_rows);
  const int parts = spec.parts(), fragments = tile_rows / kFragmentRows;
  const int sums_each = SumsEach(tile_rows);
  const Val subgroup = ShrU(b.Thread(), 5), lane = b.Thread() & (kSubgroup - 1);
  const Val first_unit = b.BlockX() * UnitsEach(spec), first_row = args.first_row;
  const Shared partial = b.AllocShared(Type::kF32, parts * sums_each * kSubgroup);
  b.If(LtS(first_row, args.rows), [&] {
    const Tile tile(b, spec, args, first_row, fragments);
    const std::vector<Val> groups = GroupOffsets(spec, args, first_unit);
    b.For(subgroup, b.I32(parts), b.I32(kSubgroups), [&](Val part) {
      const std::vector<Val> sums =
          MatrixPart(b, spec, args, tile, groups, PartLow(spec, part), PartHigh(spec, part));
      const Val to = part * (sums_each * kSubgroup) + lane;
      for (size_t i = 0; i < sums.size(); ++i) {
        b.StoreShared(partial, to + (i * kSubgroup), sums[i]);
      }
    });
    b.Barrier();
    // One of the kSums per subgroup.
    const Val row = first_row + tile.quad * 2 + (subgroup & 1);
    const Val column = tile.group + ShrU(subgroup, 1) * (kLanes / 2);
    for (int f = 0; f < fragments; ++f) {
      Val sums[2];
      for (int g = 0; g < 2; ++g) {
        sums[g] = b.F32(0.f);
        const Val from = (subgroup + (g * fragments + f) * kSums) * kSubgroup + lane;
        for (int p = 0; p < parts; ++p) {
          sums[g] = sums[g] + b.LoadShared(partial, from + p * (sums_each * kSubgroup));
        }
      }
      StoreElement(b, spec, args, first_unit, row + kFragmentRows * f, column, sums);
    }
  });
}
static_assert(kSubgroups == kSums);

}  // namespace

Launch LinearMatrixTiled(const LinearSpec& spec, int tile_rows, int64_t units, int64_t rows) {
  const int row_tiles = spec.rows_together(rows) > tile_rows ? 2 : 1;
  Launch launch;
  launch.name = spec.name() + ".m" + std::to_string(tile_rows) + "x" + std::to_string(row_tiles);
  launch.emit = [spec, tile_rows, row_tiles](Builder& b) { EmitTiled(b, spec, tile_rows, row_tiles); };
  launch.workgroup_size = kThreads;
  launch.beside = true;
  launch.shared_bytes = 4 * LinearArgs::kSharedWords;
  launch.grid[0] = static_cast<uint32_t>(CeilDiv(units, int64_t{kSubgroups} / row_tiles * UnitsEach(spec)));
  launch.grid[1] = static_cast<uint32_t>(spec.row_tiles(rows, int64_t{tile_rows} * row_tiles));
  return launch;
}

Launch LinearMatrixSplit(const LinearSpec& spec, int tile_rows, int64_t units, int64_t rows) {
  Launch launch;
  launch.name = spec.name() + ".mp" + std::to_string(tile_rows);
  launch.emit = [spec, tile_rows](Builder& b) { EmitSplit(b, spec, tile_rows); };
  launch.workgroup_size = kThreads;
  launch.beside = true;
  launch.shared_bytes = 4 * (spec.parts() * SumsEach(tile_rows) * kSubgroup + LinearArgs::kSharedWords);
  launch.grid[0] = static_cast<uint32_t>(CeilDiv(units, UnitsEach(spec)));
  launch.grid[1] = static_cast<uint32_t>(spec.row_tiles(rows, tile_rows));
  return launch;
}

}  // namespace qcc::gpu
