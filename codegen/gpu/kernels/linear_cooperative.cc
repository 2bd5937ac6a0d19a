// The linear kernel on cooperative matrices: int8 numerics, a workgroup's tile of 4 groups by 32 rows of x.
//
// Codes of 64 columns, a stage, lie as bytes in one of two buffers of workgroup memory: while a stage's
// products are made, the next one's codes and scales are on their way from device memory; then they go to the
// other buffer. So the workgroup meets once a stage.
//
// A device keeps the elements of a cooperative matrix where it likes, and scales differ from row to row. So
// products go through workgroup memory, too: a subgroup multiplies its share of the tile (Builder::DotTile)
// into words of its own, and each thread reads the sums of its elements back, to scale and add them in the
// order that every variant has. Only the threads of the subgroup meet there, which costs next to nothing.
#include "codegen/gpu/kernels/linear_matrix.h"
#include "dialects/layouts/int8_row.h"

namespace qcc::gpu {
namespace {

constexpr int kThreads = kLinearThreads;
constexpr int kGroups = 4;        // of a tile
constexpr int kGroupsOfPair = 2;  // which one thread has: of swiglu gate and up
constexpr int kPairs = kGroups / kGroupsOfPair;
constexpr int kWeightRows = kGroups * kGroupRows;
constexpr int kTileRows = 32;   // rows of x of a tile
constexpr int kChunkWords = 8;  // 32 columns of codes
constexpr int kHalfWords = kChunkWords / 2;
constexpr int kMostChunks = 2;                                      // of a stage
constexpr int kSumWords = kWeightRows * kTileRows / kGroupsOfPair;  // of all subgroups, one group at a time
constexpr int kRowsEach = kSumWords / kThreads;                     // of x: a thread has sums of
constexpr int kCopiers = kThreads / kTileRows;  // of a row of x: threads, with two words of each chunk
// Rows of weights of which a thread lays out two words of each chunk.
constexpr int kStagedRows = kWeightRows * kHalfWords / kThreads;

// A subgroup's share of the tile: `weight_rows` rows of both groups of a pair by `x_rows` rows of x.
struct Share {
  explicit Share(const Profile& profile)
      : subgroups(kThreads / profile.subgroup), weight_rows(kGroupRows), x_rows(area() / weight_rows) {
    while (x_rows < profile.matrix.n) {
      weight_rows /= 2;
      x_rows *= 2;
    }
  }
  int area() const { return kSumWords / subgroups; }
  int of_pair() const { return subgroups / kPairs; }

  int subgroups, weight_rows, x_rows;
};

// One buffer of workgroup memory, in words. Rows of codes begin 16 bytes times an odd number apart, so that 8
// of them, at 16 bytes each, lie in all banks.
struct Buffer {
  Buffer(const LinearSpec& spec, const Profile& profile, int chunks);
  // The odd number of 16 bytes that has room for `words`.
  static int Stride(int words) { return words / kHalfWords % 2 ? words : words + kHalfWords; }

  int chunks;  // of a stage
  NumberCounts numbers;
  // Matrices of more than 16 columns have those of both scales of a format that scales 16. Then zeros lie
  // between the two, and a product of 32 columns begins with the codes of one scale or with the zeros.
  bool apart;
  int chunk_words;                            // of a row of weights
  int weight_stride;                          // [row][chunk][8, or 4, zeros, 4]
  int x_stride;                               // [term][row][chunk][8]
  int x_at, weight_numbers_at, x_numbers_at;  // [number][thread that stages it]
  int words;
};

Buffer::Buffer(const LinearSpec& spec, const Profile& profile, int chunks)
    : chunks(chunks),
      numbers(CountNumbers(spec)),
      apart(numbers.scales == 2 && profile.matrix.k > kChunkColumns / 2),
      chunk_words(apart ? kChunkWords + kHalfWords : kChunkWords),
      weight_stride(Stride(chunks * chunk_words)),
      x_stride(Stride(chunks * kChunkWords)),
      x_at(kWeightRows * weight_stride),
      weight_numbers_at(x_at + spec.terms * kTileRows * x_stride),
      x_numbers_at(weight_numbers_at + kThreads * numbers.of_weights),
      words(x_numbers_at + kThreads * numbers.of_x) {}

// Both buffers, sums, and what finds the rows.
int SharedWords(const LinearSpec& spec, const Buffer& buffer) {
  return 2 * buffer.words + kSumWords + LinearArgs::SharedWords(spec);
}

Buffer MakeBuffer(const LinearSpec& spec, const Profile& profile) {
  const Buffer large(spec, profile, kMostChunks);
  return 4 * SharedWords(spec, large) <= profile.max_shared ? large : Buffer(spec, profile, 1);
}

class CooperativeTile {
 public:
  CooperativeTile(Builder& b, const LinearSpec& spec);
  void Emit();

 private:
  // What a thread loads for a stage.
  struct Stage {
    std::vector<std::vector<Val>> codes;  // [chunk][kStagedRows]: a pair of words of a row of weights
    std::vector<Val> x;                   // [chunk][term]: two words of a row of x
    PackedRow::ScaleWords scales;         // of its matrix row and chunk
    RowWords numbers;                     // of its row of x, chunk and term
  };
  // Of the thread's matrix row in both groups, and of its rows of x.
  struct ChunkNumbers {
    PackedRow::Scales weights[2];
    RowNumbers rows[kRowsEach];
  };

  // Of x, the thread's number i of its subgroup's share.
  Val XRowOf(int i) const {
    const int beside = b_.profile().subgroup / share_.weight_rows;
    return first_x_ + DivU(lane_, share_.weight_rows) + beside * i;
  }
  Val Rest(Val a, int divisor) const { return divisor == 1 ? b_.I32(0) : RemU(a, divisor); }
  Val GroupAt(Val group) const;
  Val Clamped(Val chunk) const { return MinS(chunk, b_.I32(static_cast<int32_t>(spec_.chunks() - 1))); }
  Val TermOf(Val chunk, int term) const { return term ? chunk + term * spec_.chunks() : chunk; }

  void EmitRows();
  void StoreZeros() const;
  Stage Load(Val first) const;
  void Store(const Stage& stage, Val at) const;
  void StoreWeights(const Stage& stage, Val at) const;
  void StoreX(const Stage& stage, Val at) const;
  void StoreNumbers(const Stage& stage, Val at) const;
  ChunkNumbers ReadNumbers(Val at, Val chunk, int term) const;
  // The sums of chunk `chunk` of the stage at `at`, of the columns of one scale: [kRowsEach], as floats.
  std::vector<Val> Multiply(Val at, Val chunk, int term, int group, int scale) const;
  // Adds the products of a chunk of the stage to acc [2][kRowsEach].
  void AddChunk(Val at, Val chunk, std::vector<Val>& acc) const;
  std::vector<Val> AddStage(Val at, Val chunks, const std::vector<Val>& carried) const;
  // Sums [2][kRowsEach] over the chunks [low, high), of which the first stage is in its buffer.
  std::vector<Val> Part(Val low, Val high) const;

  Builder& b_;
  const LinearSpec& spec_;
  const Buffer buffer_;
  const Share share_;
  const LinearArgs args_;
  const Shared memory_;  // both buffers, then sums: [subgroup][x_rows][weight_rows]
  const Val thread_, first_unit_;
  // What the thread has of its subgroup's share: the pair of groups, one matrix row, and every so many rows
  // of x.
  Val subgroup_, pair_, first_weight_, first_x_, lane_;
  // What it stages: words of codes of rows in two groups and the scales of one, two words of a row of x and
  // the numbers of another; of a stage's chunk, those of x of a term.
  const Val word_, staged_row_;
  std::vector<PackedRow> rows_;  // [kStagedRows] of codes, and the one of scales
  XRow staged_x_, numbered_x_;
  Val chunk_of_scales_, chunk_of_x_;
  Sums sums_;
};

CooperativeTile::CooperativeTile(Builder& b, const LinearSpec& spec)
    : b_(b),
      spec_(spec),
      buffer_(MakeBuffer(spec, b.profile())),
      share_(b.profile()),
      args_(b, spec_, kTileRows),
      memory_(b.AllocShared(Type::kI32, 2 * buffer_.words + kSumWords)),
      thread_(b.Thread()),
      first_unit_(b.BlockX() * (kPairs * UnitsOfPair(spec))),
      word_(ShrU(thread_, 4) & 3),
      staged_row_(thread_ & (kGroupRows - 1)) {
  subgroup_ = DivU(thread_, b.profile().subgroup);
  pair_ = DivU(subgroup_, share_.of_pair());
  const int across = kTileRows / share_.x_rows;
  const Val place = Rest(subgroup_, share_.of_pair());
  first_x_ = Rest(place, across) * share_.x_rows;
  first_weight_ = DivU(place, across) * share_.weight_rows;
  lane_ = RemU(thread_, b.profile().subgroup);

  const auto add = [&](Val group) {
    rows_.emplace_back(b, spec.format, spec.k, args_.w + b.ExtendU(GroupAt(group)), b.I32(0), staged_row_);
  };
  for (int i = 0; i < kStagedRows; ++i) add(ShrU(thread_, 6) + 2 * i);
  add(ShrU(thread_, 4) & (kGroups - 1));
  chunk_of_scales_ = Rest(ShrU(thread_, 6), buffer_.chunks);
  chunk_of_x_ = Rest(ShrU(thread_, 5), buffer_.chunks);
  sums_ = SumsOf(spec.format);
}

// Units beyond the last repeat it.
Val CooperativeTile::GroupAt(Val group) const {
  const int each = spec_.groups_per_unit();
  const Val unit = MinS(first_unit_ + DivU(group, each), args_.units - 1);
  return (unit * each + RemU(group, each)) * spec_.group_bytes();
}

void CooperativeTile::StoreZeros() const {
  static_assert(kThreads == 2 * kWeightRows);
  const Val row = thread_ & (kWeightRows - 1), buffer = DivU(thread_, kWeightRows) * buffer_.words;
  for (int c = 0; c < buffer_.chunks; ++c) {
    const Val at = buffer + (row * buffer_.weight_stride + (c * buffer_.chunk_words + kHalfWords));
    for (int w = 0; w < kHalfWords; ++w) b_.StoreShared(memory_, at + w, b_.I32(0));
  }
}

CooperativeTile::Stage CooperativeTile::Load(Val first) const {
  Stage stage;
  for (int c = 0; c < buffer_.chunks; ++c) {
    const Val chunk = Clamped(first + c);
    const PackedRow::Chunk at = rows_[0].At(chunk);  // in every group
    for (int i = 0; i < kStagedRows; ++i) stage.codes.push_back(rows_[i].LoadCodePair(at, word_));
    for (int t = 0; t < spec_.terms; ++t) {
      const Val words = (staged_x_.Chunk(TermOf(chunk, t)) << 5) + ((thread_ & (kCopiers - 1)) << 3);
      stage.x.push_back(b_.Load(Type::kI32x2, args_.x, staged_x_.at + words));
    }
  }
  stage.scales = rows_.back().LoadScales(rows_.back().At(Clamped(first + chunk_of_scales_)));
  Val number = Clamped(first + chunk_of_x_);
  if (spec_.terms > 1) {
    number = number + Rest(DivU(thread_, kTileRows * buffer_.chunks), spec_.terms) * spec_.chunks();
  }
  stage.numbers = LoadNumbers(b_, spec_.x_cols(), args_.x, numbered_x_, number, sums_);
  return stage;
}

void CooperativeTile::StoreWeights(const Stage& stage, Val at) const {
  const Val row = ShrU(thread_, 6) * kGroupRows + staged_row_;
  for (int c = 0; c < buffer_.chunks; ++c) {
    for (int i = 0; i < kStagedRows; ++i) {
      const std::vector<Val> words = rows_[i].ReadCodePair(stage.codes[c * kStagedRows + i], word_);
      const int first = i * 2 * kGroupRows * buffer_.weight_stride + c * buffer_.chunk_words;
      const Val to = at + (row * buffer_.weight_stride + word_ + first);
      for (int w = 0; w < 2; ++w) {
        const Val value = LessOffset(words[w], rows_[i].code_offset());
        b_.StoreShared(memory_, to + w * (buffer_.chunk_words - kHalfWords), value);
      }
    }
  }
}

void CooperativeTile::StoreX(const Stage& stage, Val at) const {
  const Val row = DivU(thread_, kCopiers), word = (thread_ & (kCopiers - 1)) << 1;
  const Val to = at + (row * buffer_.x_stride + word + buffer_.x_at);
  for (int c = 0; c < buffer_.chunks; ++c) {
    for (int t = 0; t < spec_.terms; ++t) {
      const Val words = stage.x[c * spec_.terms + t];
      const int first = t * kTileRows * buffer_.x_stride + c * kChunkWords;
      for (int w = 0; w < 2; ++w) b_.StoreShared(memory_, to + (first + w), b_.Extract(words, w));
    }
  }
}

void CooperativeTile::StoreNumbers(const Stage& stage, Val at) const {
  const Val to = at + thread_;
  int next = buffer_.weight_numbers_at;
  const auto store = [&](Val number) {
    b_.StoreShared(memory_, to + next, b_.AsI32(number));
    next += kThreads;
  };
  const PackedRow::Scales scales = rows_.back().ReadScales(stage.scales);
  for (const Val* kind : {scales.scale, scales.rest, scales.shift}) {
    for (int s = 0; s < buffer_.numbers.scales && kind[0]; ++s) store(kind[s]);
  }
  const RowNumbers of_row = NumbersOf(b_, stage.numbers, sums_);
  store(of_row.scale);
  for (const Val& sum : of_row.sums) store(sum);
}

void CooperativeTile::Store(const Stage& stage, Val at) const {
  StoreX(stage, at);
  StoreWeights(stage, at);
  StoreNumbers(stage, at);
}

CooperativeTile::ChunkNumbers CooperativeTile::ReadNumbers(Val at, Val chunk, int term) const {
  ChunkNumbers numbers;
  const auto read = [&](Val word) { return b_.AsF32(b_.LoadShared(memory_, word)); };
  for (int g = 0; g < kGroupsOfPair; ++g) {
    const Val row =
        (pair_ * kGroupsOfPair + g) * kGroupRows + first_weight_ + RemU(lane_, share_.weight_rows);
    Val next = at + (chunk * kWeightRows + row + buffer_.weight_numbers_at);
    const auto fill = [&](Val* kind) {
      for (int s = 0; s < buffer_.numbers.scales; ++s) {
        kind[s] = read(next);
        next = next + kThreads;
      }
    };
    fill(numbers.weights[g].scale);
    if (rows_[0].has_rest()) fill(numbers.weights[g].rest);
    if (rows_[0].has_shift()) fill(numbers.weights[g].shift);
  }
  for (int i = 0; i < kRowsEach; ++i) {
    const Val of_term = chunk * kTileRows + XRowOf(i) + term * buffer_.chunks * kTileRows;
    const Val first = at + (of_term + buffer_.x_numbers_at);
    numbers.rows[i].scale = read(first);
    for (int n = 1; n < buffer_.numbers.of_x; ++n) numbers.rows[i].sums.push_back(read(first + n * kThreads));
  }
  return numbers;
}

std::vector<Val> CooperativeTile::Multiply(Val at, Val chunk, int term, int group, int scale) const {
  const bool half = buffer_.numbers.scales == 2 && !buffer_.apart;
  const Val weight = (pair_ * kGroupsOfPair + group) * kGroupRows + first_weight_;
  const SharedRows a{memory_,
                     at + (weight * buffer_.weight_stride + chunk * buffer_.chunk_words + scale * kHalfWords),
                     buffer_.weight_stride};
  const int x_first = buffer_.x_at + term * kTileRows * buffer_.x_stride + (half ? scale * kHalfWords : 0);
  const SharedRows x{memory_, at + (first_x_ * buffer_.x_stride + chunk * kChunkWords + x_first),
                     buffer_.x_stride};
  const Val sums = subgroup_ * share_.area() + 2 * buffer_.words;
  b_.DotTile(a, share_.weight_rows, x, share_.x_rows, half ? kChunkColumns / 2 : kChunkColumns,
             {memory_, sums, share_.weight_rows});
  b_.SubgroupBarrier();
  std::vector<Val> dots;
  dots.reserve(kRowsEach);
  for (int i = 0; i < kRowsEach; ++i) {
    // Lane by lane: element (XRowOf(i), weight row).
    dots.push_back(b_.ToF32(b_.LoadShared(memory_, sums + lane_ + i * b_.profile().subgroup)));
  }
  // They are read before the next ones come.
  b_.SubgroupBarrier();
  return dots;
}

void CooperativeTile::AddChunk(Val at, Val chunk, std::vector<Val>& acc) const {
  for (int t = 0; t < spec_.terms; ++t) {
    const ChunkNumbers numbers = ReadNumbers(at, chunk, t);
    for (int s = 0; s < buffer_.numbers.scales; ++s) {
      for (int g = 0; g < kGroupsOfPair; ++g) {
        const PackedRow::Scales& w = numbers.weights[g];
        const std::vector<Val> dots = Multiply(at, chunk, t, g, s);
        for (int i = 0; i < kRowsEach; ++i) {
          const Val dot = w.rest[s] ? dots[i] * w.rest[s] : dots[i];
          Val& a = acc[g * kRowsEach + i];
          a = Fma(w.scale[s] * numbers.rows[i].scale, dot, a);
        }
      }
    }
    for (int g = 0; g < kGroupsOfPair; ++g) {
      for (int i = 0; i < kRowsEach; ++i) {
        const std::vector<Val>& sums = numbers.rows[i].sums;
        Val& a = acc[g * kRowsEach + i];
        for (size_t s = 0; s < sums.size(); ++s) a = Fma(numbers.weights[g].shift[s], sums[s], a);
      }
    }
  }
}

// The last stage of a part may have fewer chunks than others, where they do not all divide.
std::vector<Val> CooperativeTile::AddStage(Val at, Val left, const std::vector<Val>& carried) const {
  const int64_t each = spec_.chunks_per_part();
  if (each % buffer_.chunks == 0 && spec_.chunks() % each == 0) {
    std::vector<Val> acc = carried;
    for (int c = 0; c < buffer_.chunks; ++c) AddChunk(at, b_.I32(c), acc);
    return acc;
  }
  const Val chunks = MinS(left, b_.I32(buffer_.chunks));
  return b_.For(b_.I32(0), chunks, b_.I32(1), carried, [&](Val chunk, const std::vector<Val>& sums) {
    std::vector<Val> acc = sums;
    AddChunk(at, chunk, acc);
    return acc;
  });
}

std::vector<Val> CooperativeTile::Part(Val low, Val high) const {
  // Stages are counted over all parts, of which each but the last has as many.
  const auto each = static_cast<int32_t>(spec_.chunks_per_part());
  const Val number = DivU(low, each) * CeilDiv(each, buffer_.chunks);
  const std::vector<Val> zero(kGroupsOfPair * kRowsEach, b_.F32(0.f));
  return b_.For(low, high, b_.I32(buffer_.chunks), zero, [&](Val first, const std::vector<Val>& carried) {
    const Val at = ((number + DivU(first - low, buffer_.chunks)) & 1) * buffer_.words;
    // Behind the last stage the last chunk once more, which nobody reads.
    const Stage next = Load(MinS(first + buffer_.chunks, high));
    std::vector<Val> acc = AddStage(at, high - first, carried);
    Store(next, b_.I32(buffer_.words) - at);
    b_.Barrier();
    return acc;
  });
}

void CooperativeTile::Emit() {
  // A step may have fewer rows than the bucket, down to none: then there is no row to repeat.
  b_.If(LtS(args_.first_row, args_.rows), [&] { EmitRows(); });
}

// The whole workgroup, also where it has rows or units beyond the last: barriers are for all threads.
void CooperativeTile::EmitRows() {
  staged_x_ = args_.Input(args_.first_row + DivU(thread_, kCopiers));
  numbered_x_ = args_.Input(args_.first_row + (thread_ & (kTileRows - 1)));
  numbered_x_.at = numbered_x_.at + layouts::Int8ScalesAt(spec_.x_cols());
  if (buffer_.apart) StoreZeros();
  Store(Load(b_.I32(0)), b_.I32(0));
  b_.Barrier();
  const std::vector<Val> sums =
      SumParts(b_, spec_, kGroupsOfPair * kRowsEach, [&](Val low, Val high) { return Part(low, high); });
  const Val unit = first_unit_ + pair_ * UnitsOfPair(spec_);
  const Val column = first_weight_ + RemU(lane_, share_.weight_rows);
  b_.If(LtS(unit, args_.units), [&] {
    for (int i = 0; i < kRowsEach; ++i) {
      const Val both[2] = {sums[i], sums[kRowsEach + i]};
      StorePair(b_, spec_, args_, unit, args_.first_row + XRowOf(i), column, both);
    }
  });
}

}  // namespace

Launch LinearCooperative(const LinearSpec& spec, int64_t units, int64_t rows) {
  Launch launch;
  launch.name = spec.name() + ".c" + std::to_string(kTileRows);
  launch.emit = [spec](Builder& b) { CooperativeTile(b, spec).Emit(); };
  launch.workgroup_size = kThreads;
  launch.grid[0] = static_cast<uint32_t>(CeilDiv(units, int64_t{kPairs} * UnitsOfPair(spec)));
  launch.grid[1] = static_cast<uint32_t>(spec.row_tiles(rows, kTileRows));
  return launch;
}

}  // namespace qcc::gpu
