// The linear kernel on matrix units for many rows: a workgroup decodes the weights of its tile once, for all
// of its rows of x, and has both in workgroup memory.
//
// A tile is 4 groups of weights by 128 or 64 rows of x; each of the 4 subgroups multiplies two of the groups
// by half of the rows. A step is 32 columns, of both terms where x has two: while the step's products are
// made, the next step's codes and scales are on their way from device memory; then they go to the other of
// two buffers. Workgroups have as many threads as those of the other variants, so that launches of several
// variants still become one (together.h).
//
// ptxas 13.0 for sm_80 gives a thread 128 to 168 registers with 64 rows, 223 to 255 with 128, and spills
// none. Rows of x go through registers: without any of their loads and stores a step of Q4_K has 479 instead
// of 489 instructions and as many workgroups fit, while copies past the registers (cp.async) would lay words
// out so that fragments take twice as many loads from workgroup memory.
#include "codegen/gpu/kernels/linear_matrix.h"
#include "dialects/layouts/int8_row.h"

namespace qcc::gpu {
namespace {

constexpr int kThreads = kLinearThreads;
constexpr int kSubgroup = kMatrixSubgroup;
constexpr int kGroups = kThreads / kSubgroup;  // of a tile: each subgroup decodes one
constexpr int kWeightRows = kGroups * kGroupRows;
constexpr int kPairs = kGroups / 2;                       // of groups, and as many halves of the rows of x
constexpr int kChunkWords = 8;                            // 32 columns of codes
constexpr int kGroupWords = kMatrixSubgroup * kLaneSums;  // the lanes' words of A
constexpr int kRowsAtATime = kThreads / 2;                // of x: two threads copy the codes of one
static_assert(kGroupWords == kGroupRows * kChunkWords);

// One buffer of workgroup memory, in words. Codes lie as the lanes have them in fragments, 4 words of A, 2 of
// B, so that a subgroup reads one run of memory, several words at a time. Numbers of two rows that a lane has
// sums of lie side by side. Every thread stores those of one row, also where the tile has half as many, and
// they come twice: a branch would cut the loop's block, and sums whose last additions move behind it leave
// the registers.
struct Buffer {
  Buffer(const LinearSpec& spec, int tile_rows);
  int scales, weight_numbers, x_numbers;  // CountNumbers
  int weights_at = 0;                     // [group][lane][4]
  int weight_numbers_at;
  int x_at;  // [term][row][4][2]: words w and w + 4
  int x_numbers_at;
  int words;
};

Buffer::Buffer(const LinearSpec& spec, int tile_rows) {
  const NumberCounts numbers = CountNumbers(spec);
  scales = numbers.scales;
  weight_numbers = numbers.of_weights;
  x_numbers = numbers.of_x;
  weight_numbers_at = kGroups * kGroupWords;
  x_at = weight_numbers_at + kThreads * weight_numbers;
  x_numbers_at = x_at + spec.terms * tile_rows * kChunkWords;
  words = x_numbers_at + spec.terms * kThreads * x_numbers;
}

class SharedTile {
 public:
  SharedTile(Builder& b, const LinearSpec& spec, int tile_rows);
  void Emit();

 private:
  // What a thread loads for a step.
  struct Step {
    std::vector<Val> codes[2];  // of each of its two matrix rows
    PackedRow::ScaleWords scales;
    std::vector<Val> x;             // [term][CopiedRows()][2]: words 2 j, 2 j + 1, and 4 behind them
    std::vector<RowWords> numbers;  // [term]: of its row of x
  };

  Val GroupAt(Val group) const;
  int CopiedRows() const { return tile_rows_ / kRowsAtATime; }
  size_t SumCount() const { return size_t{2} * static_cast<size_t>(fragments_) * kLaneSums; }
  Val TermOf(Val chunk, int term) const { return term ? chunk + term * spec_.chunks() : chunk; }
  Val BufferOf(Val chunk) const { return (chunk & 1) * buffer_.words; }

  void EmitRows();
  Step Load(Val chunk) const;
  void Store(const Step& step, Val at) const;
  void StoreWeights(const Step& step, Val at) const;
  void StoreX(const Step& step, Val at) const;
  // Every second word from `at` on: between them lie the numbers of the row beside.
  void StoreNumbers(const std::vector<Val>& numbers, Val at) const;
  void Multiply(Val at, std::vector<Val>& acc) const;
  GroupChunk ReadGroup(Val at, int group) const;
  // Sums [group][fragment][kLaneSums] over the chunks [low, high), of which the first is in its buffer.
  std::vector<Val> Part(Val low, Val high) const;

  Val Word(Val at) const { return b_.LoadShared(memory_, at); }
  Val Number(Val at) const { return b_.AsF32(Word(at)); }

  Builder& b_;
  const LinearSpec& spec_;
  const int tile_rows_, fragments_ = tile_rows_ / 2 / kFragmentRows;
  const Buffer buffer_{spec_, tile_rows_};
  const LinearArgs args_{b_, spec_, tile_rows_};
  const MatrixLane lane_{b_};
  const Val thread_ = b_.Thread(), subgroup_ = ShrU(thread_, 5);
  const Val pair_ = subgroup_ & (kPairs - 1), half_ = ShrU(subgroup_, 1);
  const Val first_unit_ = b_.BlockX() * (kPairs * UnitsOfPair(spec_));
  const Shared memory_ = b_.AllocShared(Type::kI32, 2 * buffer_.words);
  std::vector<PackedRow> rows_;  // the two of which the thread decodes codes, and the one of scales
  std::vector<Val> x_;           // [CopiedRows()]: i64 addresses of the half rows that the thread copies
  Val x_of_numbers_;             // i64 address of the scales of the row of which it has numbers
  XRow x_numbers_;               // that row, from there
  Sums sums_ = Sums::kNone;
};

SharedTile::SharedTile(Builder& b, const LinearSpec& spec, int tile_rows)
    : b_(b), spec_(spec), tile_rows_(tile_rows) {
  const auto add = [&](Val group, Val row) {
    rows_.emplace_back(b, spec.format, spec.k, args_.w + b.ExtendU(GroupAt(group)), b.I32(0), row);
  };
  for (int i = 0; i < 2; ++i) add(subgroup_, lane_.group + (kGroupRows / 2) * i);
  const Val row = thread_ & (kWeightRows - 1);
  add(ShrU(row, 4), row & (kGroupRows - 1));
  sums_ = SumsOf(spec.format);
}

// Units beyond the last repeat it.
Val SharedTile::GroupAt(Val group) const {
  const int each = spec_.groups_per_unit();
  const Val unit = MinS(first_unit_ + DivU(group, each), args_.units - 1);
  return (unit * each + RemU(group, each)) * spec_.group_bytes();
}

SharedTile::Step SharedTile::Load(Val chunk) const {
  Step step;
  const PackedRow::Chunk at = rows_[0].At(chunk);  // in every group
  for (int i = 0; i < 2; ++i) step.codes[i] = rows_[i].LoadCodePair(at, lane_.quad);
  for (int t = 0; t < spec_.terms; ++t) {
    const Val number = TermOf(chunk, t);
    for (const Val& row : x_) {
      for (int w = 0; w < 2; ++w) step.x.push_back(b_.Load(Type::kI32x2, row + 16 * w, number << 5));
    }
    step.numbers.push_back(LoadNumbers(b_, spec_.x_cols(), x_of_numbers_, x_numbers_, number, sums_));
  }
  step.scales = rows_[2].LoadScales(at);
  return step;
}

void SharedTile::StoreNumbers(const std::vector<Val>& numbers, Val at) const {
  for (size_t n = 0; n < numbers.size(); ++n) b_.StoreShared(memory_, at + 2 * n, b_.AsI32(numbers[n]));
}

void SharedTile::StoreWeights(const Step& step, Val at) const {
  Val a[kLaneSums];
  for (int i = 0; i < 2; ++i) {
    const std::vector<Val> words = rows_[i].ReadCodePair(step.codes[i], lane_.quad);
    for (int w = 0; w < 2; ++w) a[2 * w + i] = LessOffset(words[w], rows_[i].code_offset());
  }
  const Val to = at + thread_ * kLaneSums;
  for (int i = 0; i < kLaneSums; ++i) b_.StoreShared(memory_, to + i, a[i]);

  const PackedRow::Scales scales = rows_[2].ReadScales(step.scales);
  std::vector<Val> numbers;
  for (const Val* kind : {scales.scale, scales.rest, scales.shift}) {
    for (int s = 0; s < buffer_.scales && kind[0]; ++s) numbers.push_back(kind[s]);
  }
  const Val row = ShrU(thread_, 4) * (kGroupRows / 2) + (thread_ & 7), second = ShrU(thread_, 3) & 1;
  StoreNumbers(numbers, at + (row * (2 * buffer_.weight_numbers) + second + buffer_.weight_numbers_at));
}

void SharedTile::StoreX(const Step& step, Val at) const {
  for (int t = 0; t < spec_.terms; ++t) {
    for (int i = 0; i < CopiedRows(); ++i) {
      const Val* words = &step.x[size_t{2} * static_cast<size_t>(t * CopiedRows() + i)];
      const Val to = at + (thread_ * 4 + (buffer_.x_at + (t * tile_rows_ + i * kRowsAtATime) * kChunkWords));
      for (int w = 0; w < 4; ++w) b_.StoreShared(memory_, to + w, b_.Extract(words[w & 1], w >> 1));
    }
    const RowNumbers of_row = NumbersOf(b_, step.numbers[static_cast<size_t>(t)], sums_);
    std::vector<Val> numbers{of_row.scale};
    numbers.insert(numbers.end(), of_row.sums.begin(), of_row.sums.end());
    const int first = buffer_.x_numbers_at + t * kThreads * buffer_.x_numbers;
    StoreNumbers(numbers, at + (ShrU(thread_, 1) * (2 * buffer_.x_numbers) + (thread_ & 1) + first));
  }
}

void SharedTile::Store(const Step& step, Val at) const {
  StoreX(step, at);
  StoreWeights(step, at);
}

GroupChunk SharedTile::ReadGroup(Val at, int group) const {
  GroupChunk w;
  const Val of_pair = pair_ * 2 + group;
  const Val words = at + (of_pair * kGroupWords + (thread_ & (kSubgroup - 1)) * kLaneSums);
  for (int i = 0; i < kLaneSums; ++i) w.a.push_back(Word(words + i));
  const Val row = of_pair * (kGroupRows / 2) + lane_.group;
  const Val numbers = at + (row * (2 * buffer_.weight_numbers) + buffer_.weight_numbers_at);
  int next = 0;
  const auto read = [&](auto kind) {
    for (int s = 0; s < buffer_.scales; ++s) {
      for (int i = 0; i < 2; ++i) (w.scales[i].*kind)[s] = Number(numbers + next++);
    }
  };
  read(&PackedRow::Scales::scale);
  if (rows_[0].has_rest()) read(&PackedRow::Scales::rest);
  if (rows_[0].has_shift()) read(&PackedRow::Scales::shift);
  return w;
}

void SharedTile::Multiply(Val at, std::vector<Val>& acc) const {
  const GroupChunk weights[2] = {ReadGroup(at, 0), ReadGroup(at, 1)};
  const Val row = half_ * (tile_rows_ / 2);
  // Of a fragment, lane by lane.
  const Val words = at + (row * kChunkWords + (thread_ & (kSubgroup - 1)) * 2 + buffer_.x_at);
  const Val pairs = ShrU(row, 1) + lane_.quad;
  const Val numbers = at + (pairs * (2 * buffer_.x_numbers) + buffer_.x_numbers_at);
  for (int f = 0; f < fragments_; ++f) {
    for (int t = 0; t < spec_.terms; ++t) {
      const Val word = words + (t * tile_rows_ + f * kFragmentRows) * kChunkWords;
      const int first = (t * kThreads + f * kFragmentRows) * buffer_.x_numbers;
      const std::vector<Val> x{Word(word), Word(word + 1)};
      RowNumbers of_rows[2];
      for (int n = 0; n < buffer_.x_numbers; ++n) {
        for (int i = 0; i < 2; ++i) {
          const Val v = Number(numbers + (first + 2 * n + i));
          if (n == 0) {
            of_rows[i].scale = v;
          } else {
            of_rows[i].sums.push_back(v);
          }
        }
      }
      for (int g = 0; g < 2; ++g) {
        AddProduct(b_, buffer_.scales == 2, weights[g], x, of_rows, &acc[(g * fragments_ + f) * kLaneSums]);
      }
    }
  }
}

std::vector<Val> SharedTile::Part(Val low, Val high) const {
  const std::vector<Val> zero(SumCount(), b_.F32(0.f));
  // Smaller steps fit however they are written.
  const Val end = tile_rows_ > kRowsAtATime && spec_.terms == 2 ? NotSeenThrough(high, args_.rows) : high;
  return b_.For(low, end, b_.I32(1), zero, [&](Val chunk, const std::vector<Val>& carried) {
    std::vector<Val> acc = carried;
    // Behind the last step it once more, which nobody reads.
    const Val next = chunk + 1;
    const Step step = Load(MinS(next, b_.I32(static_cast<int32_t>(spec_.chunks() - 1))));
    Multiply(BufferOf(chunk), acc);
    Store(step, BufferOf(next));
    b_.Barrier();
    return acc;
  });
}

void SharedTile::Emit() {
  // A step may have fewer rows than the bucket, down to none: then there is no row to repeat.
  b_.If(LtS(args_.first_row, args_.rows), [&] { EmitRows(); });
}

// The whole workgroup, also where it has rows or units beyond the last: barriers are for all threads.
void SharedTile::EmitRows() {
  for (int i = 0; i < CopiedRows(); ++i) {
    const XRow row = args_.Input(args_.first_row + (ShrU(thread_, 1) + kRowsAtATime * i));
    const Val at = row.chunk ? row.at + (row.chunk << 5) : row.at;
    x_.push_back(args_.x + b_.ExtendU(at + ((thread_ & 1) << 3)));
  }
  x_numbers_ = args_.Input(args_.first_row + (thread_ & (tile_rows_ - 1)));
  x_of_numbers_ = args_.x + b_.ExtendU(x_numbers_.at + layouts::Int8ScalesAt(spec_.x_cols()));
  x_numbers_.at = b_.I32(0);

  Store(Load(b_.I32(0)), BufferOf(b_.I32(0)));
  b_.Barrier();
  const std::vector<Val> sums =
      SumParts(b_, spec_, SumCount(), [&](Val low, Val high) { return Part(low, high); });
  const Val unit = first_unit_ + pair_ * UnitsOfPair(spec_);
  const Val row = args_.first_row + half_ * (tile_rows_ / 2);
  b_.If(LtS(unit, args_.units), [&] {
    for (int f = 0; f < fragments_; ++f) {
      for (int i = 0; i < kLaneSums; ++i) {
        const Val both[2] = {sums[f * kLaneSums + i], sums[(fragments_ + f) * kLaneSums + i]};
        const Val column = lane_.group + (kGroupRows / 2) * (i >> 1);
        StorePair(b_, spec_, args_, unit, row + lane_.SumRow(f, i), column, both);
      }
    }
  });
}

}  // namespace

Launch LinearMatrixShared(const LinearSpec& spec, int tile_rows, int64_t units, int64_t rows) {
  Launch launch;
  launch.name = spec.name() + ".ms" + std::to_string(tile_rows);
  launch.emit = [spec, tile_rows](Builder& b) { SharedTile(b, spec, tile_rows).Emit(); };
  // As SplitAtOnce (linear_matrix.cc), and with minima where a slot's columns are found in its row.
  const bool large = spec.terms == 2 || (spec.own_columns && CountNumbers(spec).of_x > 1);
  if (large && tile_rows == kRowsAtATime) launch.at_once = 3;
  launch.workgroup_size = kThreads;
  launch.beside = true;
  launch.shared_bytes = 4 * (2 * Buffer(spec, tile_rows).words + LinearArgs::SharedWords(spec));
  launch.grid[0] = static_cast<uint32_t>(CeilDiv(units, int64_t{kPairs} * UnitsOfPair(spec)));
  launch.grid[1] = static_cast<uint32_t>(spec.row_tiles(rows, tile_rows));
  return launch;
}

}  // namespace qcc::gpu
