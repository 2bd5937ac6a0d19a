// Attention of a few rows on matrix units: the query heads of a kv head are the columns. Values of
// a tile and keys of the next are loaded ahead of all else. ptxas 13.0 for sm_80 and sm_90 gives a thread at
// most 100 registers.
#include <cstddef>
#include <vector>

#include "codegen/gpu/kernels/attention_matrix.h"
#include "codegen/gpu/kernels/attention_split.h"

namespace qcc::gpu {
namespace {

constexpr int kWeighing = kFragmentRows * kAttentionPlaces;  // threads that weigh

int BlocksOf(const AttentionSpec& s) {
  return CeilDiv(s.group(), kFragmentRows);
}

class MatrixSplitKernel : public SplitRowKernel {
 public:
  MatrixSplitKernel(Builder& b, const AttentionSpec& s)
      : SplitRowKernel(b, s, MatrixThreads(s), BlocksOf(s), CeilDiv(s.group(), BlocksOf(s))) {}

 private:
  void EmitRange(Val begin) override;
  std::vector<Val> Tile(Val t0, const std::vector<Val>& state);
  MatrixTiles::Weighed Weigh(Val t0, const MatrixTiles::Weighed& before);
  void Leave(const std::vector<Val>& state);

  MatrixTiles tiles_{b_, s_, 1};
  const Val head_ = DivU(thread_, kAttentionPlaces), place_ = RemU(thread_, kAttentionPlaces);  // to weigh
  MatrixTiles::LaneCache own_;  // by EmitRange
  // What a thread carries: its head's greatest score, its place's sum of weights, its sums of values, keys.
  static constexpr int kTop = 0, kSum = 1, kValues = 2;
  const size_t keys_ = kValues + tiles_.SumCount();
};

void MatrixSplitKernel::EmitRange(Val begin) {
  tiles_.LoadQueries(queries_, scale_, [&](Val head) { return QueryFirst(head); });
  std::vector<Val> fresh(keys_, zero_);
  fresh[kTop] = none_;
  own_ = tiles_.OwnOf(cache_, last_);
  const MatrixTiles::Words keys = tiles_.LoadKeys(own_, begin);
  fresh.insert(fresh.end(), keys.begin(), keys.end());
  Leave(b_.For(begin, end_, b_.I32(kAttentionTile), fresh,
               [&](Val t0, const std::vector<Val>& before) { return Tile(t0, before); }));
}

std::vector<Val> MatrixSplitKernel::Tile(Val t0, const std::vector<Val>& state) {
  const MatrixTiles::Words values = tiles_.LoadValues(own_, t0),
                           next = tiles_.LoadKeys(own_, t0 + kAttentionTile);
  const auto sums_end = state.begin() + static_cast<std::ptrdiff_t>(keys_);
  tiles_.LeaveScores({sums_end, state.end()});
  b_.Barrier();
  const MatrixTiles::Weighed weighed = Weigh(t0, {state[kTop], state[kSum]});
  b_.Barrier();
  std::vector<Val> sums(state.begin() + kValues, sums_end);
  tiles_.AddValues(values, sums);
  std::vector<Val> after{weighed.top, weighed.sum};
  after.insert(after.end(), sums.begin(), sums.end());
  after.insert(after.end(), next.begin(), next.end());
  return after;
}

MatrixTiles::Weighed MatrixSplitKernel::Weigh(Val t0, const MatrixTiles::Weighed& before) {
  const std::vector<Val> after = b_.IfElse(
      LtS(thread_, b_.I32(kWeighing)),
      [&] {
        const MatrixTiles::Weighed weighed = tiles_.Weigh(head_, place_, t0, end_, before);
        return std::vector<Val>{weighed.top, weighed.sum};
      },
      [&] {
        return std::vector<Val>{before.top, before.sum};
      });
  return {after[0], after[1]};
}

void MatrixSplitKernel::Leave(const std::vector<Val>& state) {
  const std::vector<Val> sums(state.begin() + kValues, state.begin() + static_cast<std::ptrdiff_t>(keys_));
  for (int c = 0; c < tiles_.Columns(); ++c) {
    const Val head = tiles_.ColumnQuery(c);
    b_.If(IsHead(head), [&] {
      b_.Store(args_.sums, (PlaceOf(head) * dim_ + tiles_.FirstElement()) << 2,
               b_.Vector(tiles_.ColumnSums(sums, c)));
    });
  }
  b_.If(IsHead(head_), [&] { LeaveTop(head_, place_, state[kTop], state[kSum]); });
}

}  // namespace

SplitForm MatrixSplitForm(const AttentionSpec& s) {
  return {"attention.split_matrix", MatrixThreads(s), BlocksOf(s),
          [s](Builder& b) { MatrixSplitKernel(b, s).Emit(); }};
}

}  // namespace qcc::gpu
