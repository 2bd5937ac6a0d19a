// Attention of many rows on matrix units: 32 queries a workgroup, kFragments of them in every subgroup.
// Values of a tile and keys of the next are loaded while scores become weights.
//
// ptxas 13.0 for sm_80 and sm_90 gives a thread 168 registers, for heads of 256 up to 171, and spills none: a
// multiprocessor has room for three workgroups for heads of 128, for one for heads of 256.
#include <functional>
#include <vector>

#include "codegen/gpu/kernels/attention_matrix.h"
#include "codegen/gpu/kernels/attention_rows.h"

namespace qcc::gpu {
namespace {

constexpr int kFragments = 4;

RowBlock BlockOf(const AttentionSpec& s) {
  return {s, MatrixThreads(s), kFragments * kFragmentRows};
}

// What a thread has in workgroup memory of each of its queries, as there is no room in registers: of the
// chunk the greatest score and the sum of its place's weights, of those before the same; where the chunk ends
// and its positions; positions that may be seen.
enum Kept : int { kTop, kSum, kKeptTop, kKeptSum, kChunkEnd, kChunk, kLimit, kKeptWords };

class MatrixBlockKernel : public RowBlockKernel {
 public:
  MatrixBlockKernel(Builder& b, const AttentionSpec& s) : RowBlockKernel(b, s, BlockOf(s)) {}

 private:
  // Of query `number`.
  class Own {
   public:
    Own(const MatrixBlockKernel& kernel, Val number)
        : b_(kernel.b_),
          kept_(kernel.kept_),
          at_(number * kAttentionPlaces + kernel.place_),
          each_(kernel.w_.queries * kAttentionPlaces) {}
    Val Float(Kept what) const { return b_.AsF32(Word(what)); }
    Val Word(Kept what) const { return b_.LoadShared(kept_, at_ + what * each_); }
    void Keep(Kept what, Val v) const {
      b_.StoreShared(kept_, at_ + what * each_, v.type() == Type::kF32 ? b_.AsI32(v) : v);
    }

   private:
    Builder& b_;
    const Shared kept_;
    const Val at_;
    const int each_;
  };

  // A loop even where it goes round once: what follows from the number is made in it, and takes no registers
  // along the walk.
  void EachOwn(const std::function<void(Val number)>& body) {
    b_.For(team_, b_.I32(w_.queries), b_.I32(w_.teams), body);
  }

  void Prepare() override;
  void Pass(const Walk& walk) override;
  void BeginQuery(const Walk& walk, Val number);
  std::vector<Val> Tile(const Walk& walk, const MatrixTiles::LaneCache& cache, Val t0,
                        const std::vector<Val>& state);
  void Weigh(Val t0, Val number);
  void EndChunk(Val t0, const Own& own, Val number, const MatrixTiles::Weighed& chunk);
  std::vector<Val> FoldEnded(const std::vector<Val>& sums);
  std::vector<Val> Fold(std::vector<Val> sums, const std::vector<Val>& adds);

  // Words of a query. Where with the tile ends a chunk, what `out` (below 0: nothing is in it yet) and the
  // chunk are scaled by, else kFoldAdd is below 0; row * q_heads + head.
  static constexpr int kFoldKeep = MatrixTiles::kUser, kFoldAdd = kFoldKeep + 1, kPlace = kFoldAdd + 1;
  MatrixTiles tiles_{b_, s_, kFragments, kPlace + 1 - MatrixTiles::kUser};
  const Shared kept_ = b_.AllocShared(Type::kI32, kKeptWords* w_.queries* kAttentionPlaces);
};

void MatrixBlockKernel::Prepare() {
  EachOwn(
      [&](Val number) { b_.If(Eq(place_, 0), [&] { tiles_.SetWord(kPlace, number, QueryOf(number).at); }); });
  tiles_.LoadQueries(args_.q, scale_, [&](Val number) { return QueryOf(number).at * dim_; });
}

void MatrixBlockKernel::Pass(const Walk& walk) {
  EachOwn([&](Val number) { BeginQuery(walk, number); });
  // What goes round: a thread's sums of values, and keys of the tile.
  std::vector<Val> state(tiles_.SumCount(), zero_);
  const MatrixTiles::LaneCache cache = tiles_.OwnOf(walk.cache, MaxS(walk.count - 1, b_.I32(0)));
  const MatrixTiles::Words keys = tiles_.LoadKeys(cache, b_.I32(0));
  state.insert(state.end(), keys.begin(), keys.end());
  b_.For(b_.I32(0), walk.count, b_.I32(kAttentionTile), state,
         [&](Val t0, const std::vector<Val>& before) { return Tile(walk, cache, t0, before); });
  // Others have folded what this thread finishes.
  b_.Barrier();
  EachOwn([&](Val number) {
    const Own own(*this, number);
    const Val total = over_share_.Sum(own.Float(kKeptSum));
    FinishQuery(walk, own.Word(kLimit), tiles_.WordOf(kPlace, number), total);
  });
}

void MatrixBlockKernel::BeginQuery(const Walk& walk, Val number) {
  const Own own(*this, number);
  const Query query = QueryOf(number);
  const Val position = RowPosition(args_.step, query.row), chunk = ChunkPositions(order_, position + 1);
  for (Kept top : {kTop, kKeptTop}) own.Keep(top, none_);
  for (Kept sum : {kSum, kKeptSum}) own.Keep(sum, zero_);
  for (Kept end : {kChunkEnd, kChunk}) own.Keep(end, chunk);
  own.Keep(kLimit, LimitOf(walk, query, RowSeq(args_.step, query.row), position));
}

std::vector<Val> MatrixBlockKernel::Tile(const Walk& walk, const MatrixTiles::LaneCache& cache, Val t0,
                                         const std::vector<Val>& state) {
  const auto keys_at = state.begin() + static_cast<std::ptrdiff_t>(tiles_.SumCount());
  // Under way while the steps of the tile run.
  MatrixTiles::Words values = tiles_.LoadValues(cache, t0);
  tiles_.LeaveScores({keys_at, state.end()});
  const MatrixTiles::Words next = tiles_.LoadKeys(cache, t0 + kAttentionTile);
  b_.Barrier();
  EachOwn([&](Val number) { Weigh(t0, number); });
  b_.Barrier();
  std::vector<Val> sums(state.begin(), keys_at);
  const MatrixTiles::Words numbers = b_.IfElse(
      IsPartlySeen(walk, t0),
      [&] {
        const auto [words, any] = tiles_.WithoutNoNumbers(values, t0, LeastSeen(walk));
        b_.If(any, [&] { NoteZeroed(); });
        b_.SubgroupBarrier();  // matrix units take whole subgroups
        return words;
      },
      [&] { return values; });
  tiles_.AddValues(numbers, sums);
  sums = FoldEnded(sums);
  sums.insert(sums.end(), next.begin(), next.end());
  return sums;
}

void MatrixBlockKernel::Weigh(Val t0, Val number) {
  const Own own(*this, number);
  const MatrixTiles::Weighed chunk =
      tiles_.Weigh(number, place_, t0, own.Word(kLimit), {own.Float(kTop), own.Float(kSum)});
  EndChunk(t0, own, number, chunk);
}

// ---- chunks ----

// `chunk`: behind the tile.
void MatrixBlockKernel::EndChunk(Val t0, const Own& own, Val number, const MatrixTiles::Weighed& chunk) {
  const Val chunk_end = own.Word(kChunkEnd), done = EndsChunk(own.Word(kLimit), t0, chunk_end);
  const std::vector<Val> fold = b_.IfElse(
      done,
      [&] {
        const ChunkScales scales = ScalesOf(own.Float(kKeptTop), chunk.top);
        own.Keep(kKeptTop, scales.top);
        own.Keep(kKeptSum, Fma(chunk.sum, scales.add, own.Float(kKeptSum) * scales.keep));
        own.Keep(kChunkEnd, chunk_end + own.Word(kChunk));
        const Val first = Eq(chunk_end, own.Word(kChunk));
        return std::vector<Val>{Select(first, none_, scales.keep), scales.add, none_, zero_};
      },
      [&] {
        return std::vector<Val>{none_, none_, chunk.top, chunk.sum};
      });
  b_.If(Eq(place_, 0), [&] {
    tiles_.SetWord(kFoldKeep, number, fold[0]);
    tiles_.SetWord(kFoldAdd, number, fold[1]);
  });
  own.Keep(kTop, fold[2]);
  own.Keep(kSum, fold[3]);
}

// The sums behind the tile: those of queries of which a chunk ended are in `out`.
std::vector<Val> MatrixBlockKernel::FoldEnded(const std::vector<Val>& sums) {
  std::vector<Val> adds;
  Val greatest = none_;
  for (int c = 0; c < tiles_.Columns(); ++c) {
    adds.push_back(tiles_.FloatOf(kFoldAdd, tiles_.ColumnQuery(c)));
    greatest = MaxF(greatest, adds.back());
  }
  return b_.IfElse(
      LtF(greatest, zero_), [&] { return sums; }, [&] { return Fold(sums, adds); });
}

std::vector<Val> MatrixBlockKernel::Fold(std::vector<Val> sums, const std::vector<Val>& adds) {
  for (int c = 0; c < tiles_.Columns(); ++c) {
    const Val add = adds[c], number = tiles_.ColumnQuery(c), ended = LeF(zero_, add);
    b_.If(ended, [&] {
      const Val keep = tiles_.FloatOf(kFoldKeep, number);
      const Val at = (tiles_.WordOf(kPlace, number) * dim_ + tiles_.FirstElement()) << 2;
      const Val before = b_.Load(Type::kF32x4, args_.out, at), first = LtF(keep, zero_);
      std::vector<Val> elements = tiles_.ColumnSums(sums, c);
      for (int e = 0; e < kLaneSums; ++e) {
        Val& x = elements[e];
        x = Fma(x, add, Select(first, zero_, b_.Extract(before, e) * keep));
      }
      b_.Store(args_.out, at, b_.Vector(elements));
    });
    for (int e = 0; e < kLaneSums; ++e) {
      Val& sum = sums[MatrixTiles::SumOf(c, e)];
      sum = Select(ended, zero_, sum);
    }
  }
  return sums;
}

}  // namespace

BlockForm MatrixBlockForm(const AttentionSpec& s) {
  return {"attention.block_matrix", BlockOf(s), [s](Builder& b) { MatrixBlockKernel(b, s).Emit(); }};
}

}  // namespace qcc::gpu
