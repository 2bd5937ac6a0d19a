#include "codegen/gpu/kernels/attention_matrix.h"

#include "codegen/gpu/kernels/math.h"

namespace qcc::gpu {
namespace {

constexpr int kTile = kAttentionTile, kPlaces = kAttentionPlaces;
constexpr int kPlacePositions = kTile / kPlaces;  // side by side
// Threads of a subgroup that store parts of scores, and those that read them, reach different banks.
constexpr int kScoreStride = kTile + 4;
constexpr int kWeightWords = kTile / 2;
constexpr int kQuads = 4;                             // lanes of a fragment that share a row
constexpr int kLaneElements = kMatrixSlice / kQuads;  // of a query or key that a lane has, side by side
constexpr int kLanePositions = kTile / kQuads;        // whose values and weights a lane has, side by side

}  // namespace

MatrixTiles::MatrixTiles(Builder& b, const AttentionSpec& s, int fragments, int user_words)
    : b_(b),
      s_(s),
      fragments_(fragments),
      queries_(fragments * kFragmentRows),
      slices_(s.kv.head_dim / kMatrixSlice),
      lane_(b),
      slice_(DivU(b.Thread(), kMatrixSubgroup)),
      scores_(b.AllocShared(Type::kF32, slices_ * queries_ * kScoreStride)),
      weights_(b.AllocShared(Type::kI32, 2 * queries_ * kWeightWords)),
      of_queries_(b.AllocShared(Type::kI32, (kUser + user_words) * queries_)),
      over_places_(b, MatrixThreads(s), kPlaces) {}

// ---- queries ----

void MatrixTiles::LoadQueries(Val q, Val scale, const std::function<Val(Val)>& first_of) {
  std::vector<Val> x;  // [fragment][kLaneElements]
  const Val own = slice_ * kMatrixSlice + lane_.quad * kLaneElements;
  for (int f = 0; f < fragments_; ++f) {
    const Val number = lane_.group + f * kFragmentRows, at = (first_of(number) + own) << 2;
    Val top = b_.F32(0.f);
    for (int i = 0; i < kLaneElements; i += 4) {
      const Val four = b_.Load(Type::kF32x4, q, at + 4 * i);
      for (int e = 0; e < 4; ++e) {
        x.push_back(b_.Extract(four, e) * scale);
        top = MaxF(top, b_.Call(Builder::Fn::kAbs, x.back()));
      }
    }
    for (int mask = 1; mask < kQuads; mask *= 2) top = MaxF(top, b_.ShuffleXor(top, mask));
    // The parts' memory is free as yet.
    b_.If(Eq(lane_.quad, 0), [&] { b_.StoreShared(scores_, slice_ * queries_ + number, top); });
  }
  b_.Barrier();
  for (int f = 0; f < fragments_; ++f) {
    const Val number = lane_.group + f * kFragmentRows;
    Val top = b_.LoadShared(scores_, number);
    for (int i = 1; i < slices_; ++i) top = MaxF(top, b_.LoadShared(scores_, number + i * queries_));
    const HalvesScale scale_of = ScaleOfHalves(b_, top);
    b_.If(Eq(b_.Thread() & ~(kFragmentRows * kQuads - kQuads), 0),
          [&] { SetWord(kDown, number, scale_of.down); });
    for (int i = 0; i < kLaneElements; i += 2) {
      const Val* pair = &x[f * kLaneElements + i];
      queries_of_lane_.push_back(SplitHalves(b_, pair[0] * scale_of.up, pair[1] * scale_of.up));
    }
  }
  b_.Barrier();
}

// ---- scores ----

MatrixTiles::LaneCache MatrixTiles::OwnOf(const KvHead& cache, Val last) const {
  const Val key = slice_ * kMatrixSlice + lane_.quad * kLaneElements;
  const Val first = lane_.quad * kLanePositions;
  return {cache.keys + b_.ExtendU(key << 1), cache.values + b_.ExtendU(FirstElement() << 1), first,
          last - lane_.group, last - first};
}

// [position tile][row][4]: of rows `group` and group + 8 the lane's elements.
MatrixTiles::Words MatrixTiles::LoadKeys(const LaneCache& own, Val t0) const {
  Words words;
  for (int i = 0; i < kTile; i += kFragmentRows) {
    const Val position = MinS(t0 + i, own.last_key) + lane_.group;
    words.push_back(b_.Load(Type::kI32x4, own.keys, position * (2 * s_.kv.head_dim)));
  }
  return words;
}

void MatrixTiles::LeaveScores(const Words& keys) {
  const Val zero = b_.F32(0.f);
  const Val of_lane = slice_ * (queries_ * kScoreStride) + lane_.quad * (2 * kScoreStride) + lane_.group;
  for (int t = 0; t < kTileTiles; ++t) {
    std::vector<Val> a[kSliceTiles];
    for (int k = 0; k < kSliceTiles; ++k) {
      for (int w = 0; w < 4; ++w) {
        a[k].push_back(b_.Extract(keys[2 * t + (w & 1)], 2 * k + (w >> 1)));
      }
    }
    for (int f = 0; f < fragments_; ++f) {
      const Halves* x = &queries_of_lane_[f * 2 * kSliceTiles];
      std::vector<Val> sums(kLaneSums, zero);
      for (Val Halves::*half : {&Halves::low, &Halves::high}) {
        for (int k = 0; k < kSliceTiles; ++k) {
          sums = b_.MmaF16(a[k], {x[2 * k].*half, x[2 * k + 1].*half}, sums);
        }
      }
      for (int i = 0; i < kLaneSums; ++i) {
        const int query = f * kFragmentRows + (i & 1), position = 16 * t + kFragmentRows * (i >> 1);
        b_.StoreShared(scores_, of_lane + (query * kScoreStride + position), sums[i]);
      }
    }
  }
}

// ---- weights ----

// Of the place's positions.
std::vector<Val> MatrixTiles::Score(Val number, Val place) const {
  const Val from = number * kScoreStride + place * kPlacePositions;
  std::vector<Val> score;
  for (int i = 0; i < slices_; ++i) {
    for (int j = 0; j < kPlacePositions; ++j) {
      const Val part = b_.LoadShared(scores_, from + (i * queries_ * kScoreStride + j));
      if (i == 0) {
        score.push_back(part);
      } else {
        score[j] = score[j] + part;
      }
    }
  }
  const Val down = FloatOf(kDown, number);
  for (Val& x : score) x = x * down;
  return score;
}

MatrixTiles::Weighed MatrixTiles::Weigh(Val number, Val place, Val t0, Val limit, const Weighed& before) {
  const Val none = b_.F32(kNoScore);
  const std::vector<Val> score = Score(number, place);
  const Val first = t0 + place * kPlacePositions;
  std::vector<Val> seen;
  Val top = none;
  for (int j = 0; j < kPlacePositions; ++j) {
    seen.push_back(LtS(first + j, limit));
    top = MaxF(top, Select(seen.back(), score[j], none));
  }
  top = MaxF(over_places_.Max(top), before.top);
  std::vector<Val> weight;
  weight.reserve(score.size());
  for (size_t j = 0; j < score.size(); ++j) {
    weight.push_back(Exp(Select(seen[j], score[j] - top, none)) * kWeightUnit);
  }
  const Val keep = Exp(before.top - top);
  Val sum = weight[0];
  for (size_t j = 1; j < weight.size(); ++j) sum = sum + weight[j];

  const Val to = number * kWeightWords + place * (kPlacePositions / 2);
  for (int j = 0; j < kPlacePositions; j += 2) {
    const Halves words = SplitHalves(b_, weight[j], weight[j + 1]);
    b_.StoreShared(weights_, to + j / 2, words.high);
    b_.StoreShared(weights_, to + (j / 2 + queries_ * kWeightWords), words.low);
  }
  b_.If(Eq(place, 0), [&] { SetWord(kKeep, number, keep); });
  return {top, before.sum * keep + sum};
}

// ---- values ----

// [position]: 4 elements of each of the lane's.
MatrixTiles::Words MatrixTiles::LoadValues(const LaneCache& own, Val t0) const {
  Words words;
  for (int j = 0; j < kLanePositions; ++j) {
    const Val position = MinS(t0 + j, own.last_value) + own.first;
    words.push_back(b_.Load(Type::kI32x2, own.values, position * (2 * s_.kv.head_dim)));
  }
  return words;
}

std::pair<MatrixTiles::Words, Val> MatrixTiles::WithoutNoNumbers(const Words& values, Val t0,
                                                                 Val from) const {
  constexpr int kExponent = 0x7c00;
  const Val first = t0 + lane_.quad * kLanePositions, zero = b_.I32(0);
  Words kept;
  Val found = zero;
  for (int j = 0; j < kLanePositions; ++j) {
    // What is found of a half that is none; of a position that all see, nothing.
    const Val looked_at = Select(LeS(from, first + j), b_.I32(kExponent), zero);
    std::vector<Val> words;
    for (int w = 0; w < 2; ++w) {
      const Val word = b_.Extract(values[j], w);
      const auto none = [&](Val half) { return Select(Eq(half & kExponent, kExponent), looked_at, zero); };
      const Val low = none(word), high = none(ShrU(word, 16));
      found = found | low | high;
      words.push_back(Select(Eq(low, 0), word, word & ~0xffff));
      words.back() = Select(Eq(high, 0), words.back(), words.back() & 0xffff);
    }
    kept.push_back(b_.Vector(words));
  }
  return {kept, LtS(zero, found)};
}

void MatrixTiles::AddValues(const Words& values, std::vector<Val>& sums) {
  // Rows `group` and group + 8 of A are the even and the odd element of a word.
  std::vector<Val> a[kTileTiles][kSliceTiles];
  for (int k = 0; k < kTileTiles; ++k) {
    for (int t = 0; t < kSliceTiles; ++t) {
      for (int pair = 0; pair < 2; ++pair) {
        const int j = 4 * k + 2 * pair;
        const Val one = b_.Extract(values[j], t), other = b_.Extract(values[j + 1], t);
        a[k][t].push_back(LowerHalves(one, other));
        a[k][t].push_back(UpperHalves(one, other));
      }
    }
  }
  const Val zero = b_.F32(0.f);
  const Val of_lane = lane_.group * kWeightWords + lane_.quad * (kLanePositions / 2);
  for (int f = 0; f < fragments_; ++f) {
    std::vector<Val> weights[2];  // [low, high]
    for (int half = 0; half < 2; ++half) {
      for (int w = 0; w < kLanePositions / 2; ++w) {
        const int word = f * kFragmentRows * kWeightWords + w + (half ? 0 : queries_ * kWeightWords);
        weights[half].push_back(b_.LoadShared(weights_, of_lane + word));
      }
    }
    Val keep[2];
    for (int c = 0; c < 2; ++c) keep[c] = FloatOf(kKeep, ColumnQuery(2 * f + c));
    for (int t = 0; t < kSliceTiles; ++t) {
      std::vector<Val> tile(kLaneSums, zero);
      for (const std::vector<Val>& words : weights) {
        for (size_t k = 0; k < kTileTiles; ++k) {
          tile = b_.MmaF16(a[k][t], {words[2 * k], words[2 * k + 1]}, tile);
        }
      }
      for (int i = 0; i < kLaneSums; ++i) {
        Val& sum = sums[(f * kSliceTiles + t) * kLaneSums + i];
        sum = Fma(sum, keep[i & 1], tile[i]);
      }
    }
  }
}

}  // namespace qcc::gpu
