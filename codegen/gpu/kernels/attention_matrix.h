// Attention over a cache of half floats on matrix units of kind kMma: a tile of positions by the queries of a
// workgroup, which are the columns of B and C.
//
// A workgroup has a subgroup for each kMatrixSlice elements of a head. Of its slice a subgroup has the
// queries and the sums of values in registers, and it alone reads the slice of keys and values, each element
// once:
// * Scores: K (A: 16 positions by 16 elements) times queries (B). Each subgroup leaves its slice's part in
//   workgroup memory; a score is the sum of the parts, slice by slice.
// * Values: V (A: 16 elements by 16 positions) times weights (B), into sums that begin at 0 in every tile.
// Which element or position has which place of k is chosen for wide loads: A and B agree.
//
// Queries and weights are f32: each is the sum of two halves (matrix_halves.h), whose products go into one
// sum, the lower half's first. A query is scaled by its greatest element, and weights are multiples of
// kWeightUnit, which the sum of weights takes out again.
//
// A column of C depends on that column of B alone, and everything here is in one order: a query has the same
// bits whichever column it is, beside any others. What it may not see has weight 0. Where a device lines up
// terms by the exponent of a 0's product, too, that cuts off what lies 2^53 below the greatest weight's.
#ifndef QCC_CODEGEN_GPU_KERNELS_ATTENTION_MATRIX_H_
#define QCC_CODEGEN_GPU_KERNELS_ATTENTION_MATRIX_H_

#include <functional>
#include <utility>
#include <vector>

#include "codegen/gpu/kernels/attention.h"
#include "codegen/gpu/kernels/matrix_halves.h"
#include "codegen/gpu/kernels/matrix_lane.h"
#include "codegen/gpu/kernels/reduce.h"

namespace qcc::gpu {

inline constexpr int kMatrixSlice = 32;  // elements of a head
inline constexpr float kWeightUnit = 32768.f;

inline int MatrixThreads(const AttentionSpec& spec) {
  return spec.kv.head_dim / kMatrixSlice * kMatrixSubgroup;
}

class MatrixTiles {
 public:
  // Words of keys, and of values, that a thread loads of a tile.
  using Words = std::vector<Val>;
  // A thread's elements of a cache, and its positions: of values from `first` on. Places relative to a
  // thread's take fewer registers than the positions.
  struct LaneCache {
    Val keys, values, first, last_key, last_value;
  };
  // What a thread that weighs a query carries: its greatest score, and the sum of its place's weights.
  struct Weighed {
    Val top, sum;
  };

  // Words of workgroup memory that each query has: what earlier sums and what its scores are scaled by; and
  // of whoever uses the tiles, from kUser on. In one piece, as every address takes registers.
  enum Word : int { kKeep, kDown, kUser };

  // `fragments`: kFragmentRows queries each.
  MatrixTiles(Builder& b, const AttentionSpec& s, int fragments, int user_words = 0);
  Val WordOf(int word, Val number) const { return b_.LoadShared(of_queries_, number + word * queries_); }
  Val FloatOf(int word, Val number) const { return b_.AsF32(WordOf(word, number)); }
  void SetWord(int word, Val number, Val v) const {
    b_.StoreShared(of_queries_, number + word * queries_, v.type() == Type::kF32 ? b_.AsI32(v) : v);
  }

  // All threads, once. `first_of(n)`: the element where query n begins.
  void LoadQueries(Val q, Val scale, const std::function<Val(Val number)>& first_of);

  // Those behind position `last` repeat it.
  LaneCache OwnOf(const KvHead& cache, Val last) const;
  // Of the tile at position t0.
  Words LoadKeys(const LaneCache& own, Val t0) const;
  Words LoadValues(const LaneCache& own, Val t0) const;

  // The steps of a tile, with a barrier between them, and none behind. Scores, by all threads:
  void LeaveScores(const Words& keys);
  // Weights of query `number`, of which positions below `limit` are seen: by kAttentionPlaces threads that
  // lie side by side, of 4 positions each. Subgroups do it whole.
  Weighed Weigh(Val number, Val place, Val t0, Val limit, const Weighed& before);
  // The tile's values with 0 for infinities and NaN from position `from` on; whether there are any.
  std::pair<Words, Val> WithoutNoNumbers(const Words& values, Val t0, Val from) const;
  // Adds values to the thread's sums, by all threads.
  void AddValues(const Words& values, std::vector<Val>& sums);

  // The sums that a thread has: of 4 elements of two queries of each fragment.
  size_t SumCount() const { return static_cast<size_t>(fragments_) * kSliceTiles * kLaneSums; }
  int Columns() const { return 2 * fragments_; }
  Val ColumnQuery(int column) const { return lane_.SumRow(column / 2, column % 2); }
  // The element of a head where they begin, and which sum is element `element` from there.
  Val FirstElement() const { return slice_ * kMatrixSlice + lane_.group * kLaneSums; }
  static int SumOf(int column, int element) {
    return (column / 2 * kSliceTiles + element / 2) * kLaneSums + element % 2 * 2 + column % 2;
  }
  static std::vector<Val> ColumnSums(const std::vector<Val>& sums, int column) {
    std::vector<Val> elements;
    elements.reserve(kLaneSums);
    for (int e = 0; e < kLaneSums; ++e) elements.push_back(sums[SumOf(column, e)]);
    return elements;
  }

 private:
  static constexpr int kSliceTiles = kMatrixSlice / 16;   // elements, 16 at a time: m of values, k of scores
  static constexpr int kTileTiles = kAttentionTile / 16;  // positions: m of scores, k of values
  std::vector<Val> Score(Val number, Val place) const;

  Builder& b_;
  const AttentionSpec& s_;
  const int fragments_, queries_, slices_;
  const MatrixLane lane_;
  const Val slice_;  // which of them the subgroup has
  // [slice][query][position], each query's row kScoreStride words long.
  const Shared scores_;
  // [high, low][query][word of two positions]
  const Shared weights_;
  const Shared of_queries_;  // [Word][query]
  Reducer over_places_;
  std::vector<Halves> queries_of_lane_;  // [fragment][word]
};

}  // namespace qcc::gpu

#endif  // QCC_CODEGEN_GPU_KERNELS_ATTENTION_MATRIX_H_
