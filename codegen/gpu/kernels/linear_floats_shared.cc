// Float weights on matrix units, for many rows: a workgroup splits its rows of x into pieces once, for all of
// its subgroups, each of which has two groups of weights.
//
// A tile is 8 groups of weights by 32 rows of x. A step is 32 columns: while its products are made, the next
// step's values of x are on their way from device memory; then their pieces go to the other of two buffers of
// workgroup memory, as lanes have them in fragments.
#include "codegen/gpu/kernels/linear_matrix_floats.h"

namespace qcc::gpu {
namespace {

constexpr int kThreads = kLinearThreads;
constexpr int kSubgroups = kThreads / kMatrixSubgroup;
constexpr int kGroups = 2;  // of a subgroup
constexpr int kTileRows = 32, kFragments = kTileRows / kFragmentRows;
constexpr int kOwnFragments = kFragments / kSubgroups;  // that a subgroup splits
// Of a fragment, [piece][lane][kLanePieceWords]: a lane's four words are one access.
constexpr int kPieceWords = kMatrixSubgroup * kLanePieceWords;
constexpr int kFragmentWords = kFloatPieces * kPieceWords;
constexpr int kBufferWords = kFragments * kFragmentWords;
static_assert(WordsOfX(Format::F16) <= kFloatPieces * kLanePieceWords);

class FloatTile {
 public:
  FloatTile(Builder& b, const LinearSpec& spec);
  void Emit();

 private:
  void EmitRows();
  // Sums [group][fragment][kLaneSums] over the chunks [low, high), of which the first is in its buffer.
  std::vector<Val> Part(const StoredFragments& x, Val low, Val high) const;
  std::vector<Val> LoadWeights(Val chunk) const;
  // Of the fragments that the subgroup splits, one after the other.
  static std::vector<Val> LoadX(const StoredFragments& x, Val chunk);
  void StoreX(const std::vector<Val>& values, Val buffer) const;
  std::vector<Val> ReadX(int fragment, Val buffer) const;
  // Where word `word` of a lane's is in a fragment.
  static int Place(int word) { return word / kLanePieceWords * kPieceWords + word % kLanePieceWords; }
  void Multiply(const std::vector<Val>& loaded, Val buffer, Val* acc) const;
  static Val BufferOf(Val chunk) { return (chunk & 1) * kBufferWords; }

  Builder& b_;
  const LinearSpec& spec_;
  const LinearArgs args_{b_, spec_, kTileRows};
  const MatrixLane lane_{b_};
  const Val thread_ = b_.Thread(), subgroup_ = ShrU(thread_, 5);
  const Val lane_words_ = (thread_ & (kMatrixSubgroup - 1)) * kLanePieceWords;
  const Val first_unit_ = (b_.BlockX() * kSubgroups + subgroup_) * UnitsOfPair(spec_);
  const Shared memory_ = b_.AllocShared(Type::kI32, 2 * kBufferWords);
  const FloatWeights weights_{b_, spec_, args_.w};
  std::vector<Val> groups_;  // byte offsets; units beyond the last repeat it
};

FloatTile::FloatTile(Builder& b, const LinearSpec& spec) : b_(b), spec_(spec) {
  const int each = spec.groups_per_unit();
  for (int g = 0; g < kGroups; ++g) {
    const Val unit = MinS(first_unit_ + g / each, args_.units - 1);
    groups_.push_back((unit * each + g % each) * spec.group_bytes());
  }
}

std::vector<Val> FloatTile::LoadWeights(Val chunk) const {
  std::vector<Val> all;
  for (const Val& group : groups_) {
    for (const Val& v : weights_.Load(group, chunk)) all.push_back(v);
  }
  return all;
}

std::vector<Val> FloatTile::LoadX(const StoredFragments& x, Val chunk) {
  std::vector<Val> values;
  for (int f = 0; f < kOwnFragments; ++f) {
    for (const Val& v : x.Values(f, chunk)) values.push_back(v);
  }
  return values;
}

void FloatTile::StoreX(const std::vector<Val>& values, Val buffer) const {
  const Val to = buffer + (subgroup_ * (kOwnFragments * kFragmentWords) + lane_words_);
  const auto each = static_cast<std::ptrdiff_t>(values.size() / kOwnFragments);
  for (int f = 0; f < kOwnFragments; ++f) {
    const auto from = values.begin() + f * each;
    const std::vector<Val> words = SplitX(b_, spec_.format, {from, from + each});
    for (int w = 0; w < static_cast<int>(words.size()); ++w) {
      b_.StoreShared(memory_, to + (f * kFragmentWords + Place(w)), words[static_cast<size_t>(w)]);
    }
  }
}

std::vector<Val> FloatTile::ReadX(int fragment, Val buffer) const {
  const Val from = buffer + lane_words_ + fragment * kFragmentWords;
  std::vector<Val> words(static_cast<size_t>(WordsOfX(spec_.format)));
  for (size_t w = 0; w < words.size(); ++w) {
    words[w] = b_.LoadShared(memory_, from + Place(static_cast<int>(w)));
  }
  return words;
}

void FloatTile::Multiply(const std::vector<Val>& loaded, Val buffer, Val* acc) const {
  const auto half = loaded.begin() + static_cast<std::ptrdiff_t>(loaded.size() / kGroups);
  const Pieces w[kGroups] = {weights_.Split({loaded.begin(), half}), weights_.Split({half, loaded.end()})};
  for (int f = 0; f < kFragments; ++f) {
    const std::vector<Val> x = ReadX(f, buffer);
    for (int g = 0; g < kGroups; ++g) {
      AddFloatProducts(b_, spec_.format, w[g], x, &acc[(g * kFragments + f) * kLaneSums]);
    }
  }
}

std::vector<Val> FloatTile::Part(const StoredFragments& x, Val low, Val high) const {
  const std::vector<Val> zero(size_t{kGroups} * kFragments * kLaneSums, b_.F32(0.f));
  const Val end = NotSeenThrough(high, args_.y_row_bytes);
  return b_.For(low, end, b_.I32(1), zero, [&](Val chunk, const std::vector<Val>& carried) {
    std::vector<Val> acc = carried;
    const std::vector<Val> weights = LoadWeights(chunk);
    // Behind the last step it once more, which nobody reads.
    const Val next = chunk + 1;
    const std::vector<Val> values = LoadX(x, MinS(next, b_.I32(static_cast<int32_t>(spec_.chunks() - 1))));
    Multiply(weights, BufferOf(chunk), acc.data());
    StoreX(values, BufferOf(next));
    b_.Barrier();
    return acc;
  });
}

// A step may have fewer rows than the bucket, down to none: then there is no row to repeat.
void FloatTile::Emit() {
  b_.If(LtS(args_.first_row, args_.rows), [&] { EmitRows(); });
}

// The whole workgroup, also where it has rows or units beyond the last: barriers are for all threads.
void FloatTile::EmitRows() {
  const StoredFragments x(b_, spec_, args_, args_.first_row + subgroup_ * (kOwnFragments * kFragmentRows),
                          kOwnFragments);
  StoreX(LoadX(x, b_.I32(0)), BufferOf(b_.I32(0)));
  b_.Barrier();
  const std::vector<Val> sums = SumParts(b_, spec_, size_t{kGroups} * kFragments * kLaneSums,
                                         [&](Val low, Val high) { return Part(x, low, high); });
  b_.If(LtS(first_unit_, args_.units), [&] {
    for (int f = 0; f < kFragments; ++f) {
      for (int i = 0; i < kLaneSums; ++i) {
        const Val both[2] = {sums[f * kLaneSums + i], sums[(kFragments + f) * kLaneSums + i]};
        StorePair(b_, spec_, args_, first_unit_, args_.first_row + lane_.SumRow(f, i),
                  SumColumn(spec_, lane_, i >> 1), both);
      }
    }
  });
}

}  // namespace

Launch LinearFloatsShared(const LinearSpec& spec, int64_t units, int64_t rows) {
  Launch launch;
  launch.name = spec.name() + ".ms" + std::to_string(kTileRows);
  launch.emit = [spec](Builder& b) { FloatTile(b, spec).Emit(); };
  launch.workgroup_size = kThreads;
  launch.at_once = 2;
  launch.beside = true;
  launch.shared_bytes = 4 * (2 * kBufferWords + LinearArgs::SharedWords(spec));
  launch.grid[0] = static_cast<uint32_t>(CeilDiv(units, int64_t{kSubgroups} * UnitsOfPair(spec)));
  launch.grid[1] = static_cast<uint32_t>(spec.row_tiles(rows, kTileRows));
  return launch;
}

}  // namespace qcc::gpu
