// The linear kernel on cooperative matrices: int8 numerics, a workgroup's tile of 4 groups by 32 rows of x.
//
// A device keeps the elements of a cooperative matrix where it likes, and scales differ from row to row. So
// products go from workgroup memory to it: codes of 32 columns are laid out there as bytes, the subgroups
// multiply them (Builder::DotTile), and each thread reads the sums of its elements back, to scale and add
// them in the order that every variant has.
#include "codegen/gpu/kernels/linear.h"
#include "dialects/layouts/int8_row.h"

namespace qcc::gpu {
namespace {

constexpr int kThreads = kLinearThreads;
constexpr int kLanes = 16;      // matrix rows of a group
constexpr int kGroups = 4;      // of a tile
constexpr int kTileRows = 32;   // rows of x of a tile
constexpr int kChunkWords = 8;  // 32 columns of codes
constexpr int kGroupWords = kLanes * kChunkWords;
// Threads beside each other have one matrix row each, and every eighth row of x of all groups.
constexpr int kSlots = kThreads / kLanes;
constexpr int kRowsEach = kTileRows / kSlots;

// Workgroup memory of a tile: 12 KiB, or 14 KiB where columns of two scales are staged apart.
struct Stage {
  Shared weights;  // [scale][group][16 rows][8 words] of signed codes
  Shared x;        // [32 rows][8 words]
  Shared sums;     // [group][32 rows][16 matrix rows] of 32 columns, or of those of one scale
};

// 32 columns that go to the matrix units at once have both scales of a format that scales 16. Then their
// codes are staged twice, each time with those of the other scale as zeros.
bool StagesTwice(const Profile& profile, bool two_scales) {
  return two_scales && profile.matrix.k > kChunkColumns / 2;
}

int UnitsPerTile(const LinearSpec& spec) {
  return kGroups / spec.groups_per_unit();
}

class CooperativeTile {
 public:
  CooperativeTile(Builder& b, const LinearSpec& spec);
  void Emit();

 private:
  // Of the thread's matrix row in each group, and of its rows of x.
  struct ChunkNumbers {
    std::vector<PackedRow::Scales> weights;  // [group]
    std::vector<Val> scales;                 // [kRowsEach]
    // [kRowsEach][0, 1 or 2]: scale * sum of codes, where the format has minima; of all columns, or of each
    // scale's.
    std::vector<std::vector<Val>> sums;
  };

  void EmitRows();
  Val ThreadRow(int i) const { return slot_ + kSlots * i; }
  void StageWeights(Val chunk);
  void StageX(Val chunk);
  // Adds the products of 32 columns, `number` of the rows of x, to acc.
  void AddChunk(Val chunk, Val number, std::vector<Val>& acc);
  ChunkNumbers ReadNumbers(Val chunk, Val number) const;
  void Multiply(int scale);
  // Sums [group][kRowsEach] over the chunks [low, high).
  std::vector<Val> Part(Val low, Val high);

  Builder& b_;
  const LinearSpec spec_;
  const LinearArgs args_;
  bool two_scales_, staged_twice_;
  Stage stage_;
  Val lane_, slot_, first_unit_, first_row_;
  std::vector<PackedRow> own_;     // [group]: the thread's matrix row
  std::vector<PackedRow> staged_;  // [kGroups / 2]: the row whose codes the thread lays out
  std::vector<XRow> own_x_;        // [kRowsEach]: its rows of x
  XRow staged_x_;                  // the one of which it lays out codes
};

CooperativeTile::CooperativeTile(Builder& b, const LinearSpec& spec)
    : b_(b), spec_(spec), args_(b, spec_, kTileRows) {
  const Val thread = b.Thread();
  lane_ = thread & (kLanes - 1);
  slot_ = ShrU(thread, 4);
  first_unit_ = b.BlockX() * UnitsPerTile(spec);
  first_row_ = args_.first_row;
  // Units beyond the last repeat it.
  const auto group_at = [&](Val group) {
    const int each = spec.groups_per_unit();
    const Val unit = MinS(first_unit_ + DivU(group, each), args_.units - 1);
    return (unit * each + RemU(group, each)) * spec.group_bytes();
  };
  for (int g = 0; g < kGroups; ++g)
    own_.emplace_back(b, spec.format, spec.k, args_.w, group_at(b.I32(g)), lane_);
  // Two groups at a time: 64 threads have the 16 rows of one by 4 pairs of words.
  for (int i = 0; i < kGroups / 2; ++i) {
    staged_.emplace_back(b, spec.format, spec.k, args_.w, group_at(ShrU(thread, 6) + 2 * i), lane_);
  }
  two_scales_ = own_[0].two_scales();
  staged_twice_ = StagesTwice(b.profile(), two_scales_);
  stage_.weights = b.AllocShared(Type::kI32, (staged_twice_ ? 2 : 1) * kGroups * kGroupWords);
  stage_.x = b.AllocShared(Type::kI32, kTileRows * kChunkWords);
  stage_.sums = b.AllocShared(Type::kI32, kGroups * kTileRows * kLanes);
}

// Of the weights; those of all terms of x meet the same.
void CooperativeTile::StageWeights(Val chunk) {
  const Val thread = b_.Thread(), word = slot_ & 3, none = b_.I32(0);
  for (int i = 0; i < kGroups / 2; ++i) {
    const std::vector<Val> codes = staged_[i].ReadCodePair(staged_[i].At(chunk), word);
    const Val group = ShrU(thread, 6) + 2 * i;
    const Val at = group * kGroupWords + lane_ * kChunkWords + word;
    for (int half = 0; half < 2; ++half) {
      const Val value = LessOffset(codes[half], staged_[i].code_offset());
      b_.StoreShared(stage_.weights, at + 4 * half, staged_twice_ && half == 1 ? none : value);
      if (!staged_twice_) continue;
      b_.StoreShared(stage_.weights, at + (kGroups * kGroupWords + 4 * half), half == 0 ? none : value);
    }
  }
}

// 4 threads a row of x, two words each.
void CooperativeTile::StageX(Val chunk) {
  const Val thread = b_.Thread();
  const Val row = ShrU(thread, 2), pair = (thread & 3) << 1;
  const Val codes =
      b_.Load(Type::kI32x2, args_.x, staged_x_.at + (staged_x_.Chunk(chunk) << 5) + (pair << 2));
  for (int i = 0; i < 2; ++i) {
    b_.StoreShared(stage_.x, row * kChunkWords + pair + i, b_.Extract(codes, i));
  }
}

CooperativeTile::ChunkNumbers CooperativeTile::ReadNumbers(Val chunk, Val number) const {
  ChunkNumbers numbers;
  for (const PackedRow& row : own_) numbers.weights.push_back(row.ReadScales(row.At(chunk)));
  for (int i = 0; i < kRowsEach; ++i) {
    const Val at = own_x_[i].at + layouts::Int8ScalesAt(spec_.x_cols());
    const Val of_row = own_x_[i].Chunk(number);
    numbers.scales.push_back(b_.Load(Type::kF32, args_.x, at + (of_row << 2)));
    numbers.sums.emplace_back();
    if (!numbers.weights[0].shift[0]) continue;
    const int64_t behind = layouts::Int8SumsAt(spec_.x_cols()) - layouts::Int8ScalesAt(spec_.x_cols());
    const Val sums = at + (of_row << 3) + behind;
    const Val second = b_.Load(Type::kI32, args_.x, sums + 4), first = b_.Load(Type::kI32, args_.x, sums);
    if (two_scales_) {
      for (const Val& sum : {first, second}) numbers.sums[i].push_back(numbers.scales[i] * b_.ToF32(sum));
    } else {
      numbers.sums[i].push_back(numbers.scales[i] * b_.ToF32(first + second));
    }
  }
  return numbers;
}

// Each subgroup: its share of the tile's products.
void CooperativeTile::Multiply(int scale) {
  const int subgroup = b_.profile().subgroup, subgroups = kThreads / subgroup;
  const Val id = DivU(b_.Thread(), subgroup);
  // Pieces of whole groups, or of 32, 16 or 8 rows of one.
  const int pieces_of_group = subgroups > kGroups ? subgroups / kGroups : 1;
  const int groups_each = subgroups < kGroups ? kGroups / subgroups : 1;
  const int rows = kTileRows / pieces_of_group;
  const Val first_row = RemU(id, pieces_of_group) * rows;
  const bool half = two_scales_ && !staged_twice_;
  for (int i = 0; i < groups_each; ++i) {
    const Val group = DivU(id, pieces_of_group) * groups_each + i;
    const int skipped = half ? scale * kChunkWords / 2 : 0;
    const int plane = staged_twice_ ? scale * kGroups * kGroupWords : 0;
    const SharedRows a{stage_.weights, group * kGroupWords + (plane + skipped), kChunkWords};
    const SharedRows x{stage_.x, first_row * kChunkWords + skipped, kChunkWords};
    const SharedRows sums{stage_.sums, (group * kTileRows + first_row) * kLanes, kLanes};
    b_.DotTile(a, kLanes, x, rows, half ? kChunkColumns / 2 : kChunkColumns, sums);
  }
}

std::vector<Val> CooperativeTile::Part(Val low, Val high) {
  const std::vector<Val> zero(kGroups * kRowsEach, b_.F32(0.f));
  return b_.For(low, high, b_.I32(1), zero, [&](Val chunk, const std::vector<Val>& carried) {
    std::vector<Val> acc = carried;
    StageWeights(chunk);
    for (int t = 0; t < spec_.terms; ++t) AddChunk(chunk, t ? chunk + t * spec_.chunks() : chunk, acc);
    return acc;
  });
}

void CooperativeTile::AddChunk(Val chunk, Val number, std::vector<Val>& acc) {
  StageX(number);
  const ChunkNumbers numbers = ReadNumbers(chunk, number);
  for (int s = 0; s < (two_scales_ ? 2 : 1); ++s) {
    // Codes are laid out; the sums of the last products were read.
    b_.Barrier();
    Multiply(s);
    b_.Barrier();
    for (int g = 0; g < kGroups; ++g) {
      for (int i = 0; i < kRowsEach; ++i) {
        const Val at = (ThreadRow(i) + g * kTileRows) * kLanes + lane_;
        Val dot = b_.ToF32(b_.LoadShared(stage_.sums, at));
        if (numbers.weights[g].rest[s]) dot = dot * numbers.weights[g].rest[s];
        Val& a = acc[g * kRowsEach + i];
        a = Fma(numbers.weights[g].scale[s] * numbers.scales[i], dot, a);
      }
    }
  }
  if (!numbers.weights[0].shift[0]) return;
  for (int g = 0; g < kGroups; ++g) {
    for (int i = 0; i < kRowsEach; ++i) {
      Val& a = acc[g * kRowsEach + i];
      for (size_t s = 0; s < numbers.sums[i].size(); ++s) {
        a = Fma(numbers.weights[g].shift[s], numbers.sums[i][s], a);
      }
    }
  }
}

void CooperativeTile::Emit() {
  // A step may have fewer rows than the bucket, down to none: then there is no row to repeat.
  b_.If(LtS(first_row_, args_.rows), [&] { EmitRows(); });
}

void CooperativeTile::EmitRows() {
  for (int i = 0; i < kRowsEach; ++i) own_x_.push_back(args_.Input(first_row_ + ThreadRow(i)));
  staged_x_ = args_.Input(first_row_ + ShrU(b_.Thread(), 2));
  // The whole workgroup, also where it has rows or units beyond the last: barriers are for all threads.
  const std::vector<Val> sums =
      SumParts(b_, spec_, kGroups * kRowsEach, [&](Val low, Val high) { return Part(low, high); });
  const int each = spec_.groups_per_unit();
  for (int i = 0; i < kRowsEach; ++i) {
    const Val row = first_row_ + ThreadRow(i);
    b_.If(LtS(row, args_.rows), [&] {
      const YRow y = args_.Output(row);
      for (int u = 0; u < UnitsPerTile(spec_); ++u) {
        const Val unit = first_unit_ + u;
        b_.If(LtS(unit, args_.units), [&] {
          std::vector<Val> of_unit;
          for (int g = 0; g < each; ++g) of_unit.push_back(sums[(u * each + g) * kRowsEach + i]);
          StoreLinear(b_, spec_, args_, y, (unit * kLanes + lane_) * 4, of_unit);
        });
      }
    });
  }
}

}  // namespace

Launch LinearCooperative(const LinearSpec& spec, int64_t units, int64_t rows) {
  Launch launch;
  launch.name = spec.name() + ".c" + std::to_string(kTileRows);
  launch.emit = [spec](Builder& b) { CooperativeTile(b, spec).Emit(); };
  launch.workgroup_size = kThreads;
  launch.grid[0] = static_cast<uint32_t>(CeilDiv(units, UnitsPerTile(spec)));
  launch.grid[1] = static_cast<uint32_t>(spec.row_tiles(rows, kTileRows));
  return launch;
}

}  // namespace qcc::gpu
