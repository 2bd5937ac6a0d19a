// The linear kernels of float weights on matrix units: how weights are read and products made.
//
// PTX instructions for 1024 products: with 32 rows of x that a workgroup shares 10 (bf16), 11 (f16) and 19
// (f32), by multiply-adds of 8 rows 72, 120 and 65; with one row 265, 261 and 501, and 272, 656 and 208: less
// than an H100 has time for while it reads the weights, 565 for 2 bytes each.
#include "codegen/gpu/kernels/linear_matrix_floats.h"

#include <utility>

#include "codegen/gpu/kernels/matrix_halves.h"

namespace qcc::gpu {
namespace {

constexpr int kLaneColumns = 8;            // of a chunk that a lane has
constexpr int kRowLanes = 4;               // that have a row's others
constexpr int kWide = kChunkColumns / 16;  // products of 16 columns
constexpr uint32_t kUpperHalf = 0xffff0000;
constexpr int32_t kHalfOfLast = 0x8000;  // half of a bf16's last bit, in an f32
// Four of these, whose sum is 1.
constexpr int32_t kQuarterBf16 = 0x3e80;

// A word of each piece of two f32. The first piece is cut off, so that none becomes infinite; the second is
// rounded: what is left out then is as often above as below.
void AddWord(Builder& b, Val first, Val second, Pieces& pieces) {
  for (size_t p = 0;; ++p) {
    Val bits[2] = {b.AsI32(first), b.AsI32(second)};
    if (p == 1) {
      for (Val& v : bits) v = v + kHalfOfLast;
    }
    pieces[p].push_back(UpperHalves(bits[0], bits[1]));
    if (p + 1 == kFloatPieces) return;
    first = first - b.AsF32(bits[0] & kUpperHalf);
    second = second - b.AsF32(bits[1] & kUpperHalf);
  }
}

std::vector<Val> SplitPieces(Builder& b, const std::vector<Val>& values) {
  Pieces pieces(kFloatPieces);
  for (size_t i = 0; i < values.size(); i += 2) AddWord(b, values[i], values[i + 1], pieces);
  std::vector<Val> words;
  for (const std::vector<Val>& piece : pieces) words.insert(words.end(), piece.begin(), piece.end());
  return words;
}

// From the lanes of a row of x, which all have its scale (a power of two), to those that have its sums.
std::vector<Val> ScalesOfSums(Builder& b, Val scale) {
  const Val quarter = b.I32(kQuarterBf16), none = b.I32(0), zero = b.F32(0.f);
  const std::vector<Val> scales = b.MmaBf16({quarter, quarter, none, none}, {ShrU(b.AsI32(scale), 16), none},
                                            std::vector<Val>(kLaneSums, zero));
  return {scales[0], scales[1]};
}

std::vector<Val> SplitHalvesOfX(Builder& b, const std::vector<Val>& values) {
  Val top = b.Call(Builder::Fn::kAbs, values[0]);
  for (size_t i = 1; i < values.size(); ++i) top = MaxF(top, b.Call(Builder::Fn::kAbs, values[i]));
  for (int mask = 1; mask < kRowLanes; mask *= 2) top = MaxF(top, b.ShuffleXor(top, mask));
  const HalvesScale scale = ScaleOfHalves(b, top);
  std::vector<Val> words, low;
  for (size_t i = 0; i < values.size(); i += 2) {
    const Halves halves = SplitHalves(b, values[i] * scale.up, values[i + 1] * scale.up);
    words.push_back(halves.high);
    low.push_back(halves.low);
  }
  words.insert(words.end(), low.begin(), low.end());
  for (Val v : ScalesOfSums(b, scale.down)) words.push_back(b.AsI32(v));
  return words;
}

void AddProductsOfHalves(Builder& b, const Val* w, const Val* x, Val* acc) {
  const Val* scales = x + 2 * kLanePieceWords;
  const std::vector<Val> zero(kLaneSums, b.F32(0.f));
  std::vector<Val> low = zero, high[kWide];
  for (int i = 0; i < kWide; ++i, w += 4, x += 2) {
    const std::vector<Val> a(w, w + 4);
    low = b.MmaF16(a, {x[kLanePieceWords], x[kLanePieceWords + 1]}, low);
    high[i] = b.MmaF16(a, {x[0], x[1]}, zero);
  }
  for (size_t i = 0; i < kLaneSums; ++i) {
    acc[i] = Fma(high[0][i] + (high[1][i] + low[i]), b.AsF32(scales[i & 1]), acc[i]);
  }
}
static_assert(kWide == 2);

}  // namespace

std::vector<Val> SplitX(Builder& b, Format format, const std::vector<Val>& values) {
  return TakesHalves(format) ? SplitHalvesOfX(b, values) : SplitPieces(b, values);
}

FloatWeights::FloatWeights(Builder& b, const LinearSpec& spec, Val w)
    : b_(b),
      w_(w),
      wide_(spec.format == Format::F32),
      column_bytes_(static_cast<int32_t>(GroupBytes(spec.format, 1))) {
  const MatrixLane lane(b);
  of_lane_ = lane.group * (column_bytes_ / kFragmentRows) + lane.quad * (4 * column_bytes_);
}

std::vector<Val> FloatWeights::Load(Val group, Val number) const {
  const Val at = group + of_lane_ + number * (kChunkColumns * column_bytes_);
  std::vector<Val> words;
  for (int c = 0; c < kLaneColumns; ++c) {
    const Val column = at + (c / 4 * 16 + c % 4) * column_bytes_;
    words.push_back(b_.Load(wide_ ? Type::kF32x2 : Type::kI32, w_, column));
  }
  return words;
}

// Words 2 * i and 2 * i + 1 of A are of the lane's two rows, and of columns 2 * i and 2 * i + 1.
Pieces FloatWeights::Split(const std::vector<Val>& loaded) const {
  Pieces pieces(wide_ ? kFloatPieces : 1);
  for (size_t c = 0; c < loaded.size(); c += 2) {
    const Val first = loaded[c], second = loaded[c + 1];
    if (!wide_) {
      pieces[0].push_back(LowerHalves(first, second));
      pieces[0].push_back(UpperHalves(first, second));
      continue;
    }
    for (int row = 0; row < 2; ++row) AddWord(b_, b_.Extract(first, row), b_.Extract(second, row), pieces);
  }
  return pieces;
}

void AddFloatProducts(Builder& b, Format format, const Pieces& w, const std::vector<Val>& x, Val* acc) {
  if (TakesHalves(format)) return AddProductsOfHalves(b, w[0].data(), x.data(), acc);
  const std::vector<Val> zero(kLaneSums, b.F32(0.f));
  std::vector<Val> lower, sums = zero;
  for (int both = kFloatPieces - 1; both >= 0; --both) {
    if (both == 0) lower = std::exchange(sums, zero);
    for (int of_w = 0; of_w <= both && of_w < static_cast<int>(w.size()); ++of_w) {
      const Val* a = w[static_cast<size_t>(of_w)].data();
      const Val* m = &x[static_cast<size_t>(both - of_w) * kLanePieceWords];
      for (int i = 0; i < kWide; ++i, a += 4, m += 2) {
        sums = b.MmaBf16({a[0], a[1], a[2], a[3]}, {m[0], m[1]}, sums);
      }
    }
  }
  for (int i = 0; i < kLaneSums; ++i)
    acc[i] = acc[i] + (sums[static_cast<size_t>(i)] + lower[static_cast<size_t>(i)]);
}

std::vector<Val> FloatMatrixPart(Builder& b, const LinearSpec& spec, Val w, const std::vector<Val>& groups,
                                 const MatrixInput& x, Val low, Val high, const std::vector<int64_t>& runs) {
  const FloatWeights weights(b, spec, w);
  const size_t fragments = static_cast<size_t>(x.fragments());
  const std::vector<Val> zero(runs.size() * groups.size() * fragments * kLaneSums, b.F32(0.f));
  return b.For(low, high, b.I32(1), zero, [&](Val first, const std::vector<Val>& carried) {
    std::vector<Val> acc = carried;
    std::vector<Val> chunks;
    std::vector<std::vector<Val>> loaded;  // [run][group]
    for (int64_t run : runs) {
      chunks.push_back(run ? first + run : first);
      for (Val group : groups) loaded.push_back(weights.Load(group, chunks.back()));
    }
    for (size_t r = 0; r < runs.size(); ++r) {
      std::vector<Pieces> of_groups;
      of_groups.reserve(groups.size());
      for (size_t g = 0; g < groups.size(); ++g) {
        of_groups.push_back(weights.Split(loaded[r * groups.size() + g]));
      }
      for (size_t f = 0; f < fragments; ++f) {
        const std::vector<Val> of_x = SplitX(b, spec.format, x.Values(static_cast<int>(f), chunks[r]));
        for (size_t g = 0; g < groups.size(); ++g) {
          AddFloatProducts(b, spec.format, of_groups[g], of_x,
                           &acc[((r * groups.size() + g) * fragments + f) * kLaneSums]);
        }
      }
    }
    return acc;
  });
}

}  // namespace qcc::gpu
