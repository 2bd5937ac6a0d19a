// Attention of many rows, f32 sums of products. Scores come from slices of queries and keys in workgroup
// memory; then slices of values. Eight threads share a few queries: a thread has every eighth position of a
// tile, and later every eighth column of the sums, which stay in its registers. At the end of a chunk the
// same thread folds them into the output.
#include <algorithm>

#include "codegen/gpu/kernels/attention_rows.h"
#include "codegen/gpu/kernels/kernel_args.h"
#include "codegen/gpu/kernels/math.h"

namespace qcc::gpu {
namespace {

constexpr int kThreads = 128;
constexpr int kTile = kAttentionTile;
constexpr int kShare = kAttentionPlaces;   // threads that share queries
constexpr int kTeams = kThreads / kShare;  // of them in a workgroup
constexpr int kSpan = kTile / kShare;      // positions, and columns of a slice of values, of a thread
constexpr int kPiece = kAttentionPiece;
constexpr int kKeySlice = 2 * kPiece;      // elements
constexpr int kKeyStride = kKeySlice + 1;  // odd: threads of a team read different banks
constexpr int kValueSlice = kTile;         // columns
constexpr int kWeightStride = kTile + 1;
constexpr int kTurnRows = kThreads / (kValueSlice / 4);  // positions whose values are laid out at a time
constexpr int kUnroll = 2;  // of the inner loops: more is only size, drivers unroll by themselves

RowBlock BlockOf(const AttentionSpec& s, const Profile& profile) {
  // Twice the sums must fit the registers, and without shuffles the maxima take workgroup memory.
  const int queries_each = s.kv.head_dim <= 128 && profile.subgroup >= kShare ? 4 : 2;
  return {s, kThreads, kTeams * queries_each};
}

// What a thread carries of a query along the cache, in this order. Of the chunk the greatest score, the
// thread's sum of weights, and its columns of the sum of values; of the chunks before the first two (the
// third is in `out`); the end of the chunk.
struct Carried {
  explicit Carried(int columns) : columns(columns) {}
  const int columns;
  static constexpr int kTop = 0, kSum = 1, kValues = 2;
  const int kept_top = kValues + columns, kept_sum = kept_top + 1, chunk_end = kept_sum + 1;
  const int each = chunk_end + 1;
};

std::vector<Val> Added(std::vector<Val> sums, const std::vector<Val>& part) {
  for (size_t i = 0; i < sums.size(); ++i) sums[i] = sums[i] + part[i];
  return sums;
}

class BlockKernel : public RowBlockKernel {
 public:
  BlockKernel(Builder& b, const AttentionSpec& s) : RowBlockKernel(b, s, BlockOf(s, b.profile())) {}

 private:
  // Where a thread reads and lays out values: four columns from `column` on of the positions that begin at
  // elements `from`, of which the first is `position`.
  struct ValueStage {
    Val position, column, to;
    std::vector<Val> from;
  };

  struct OwnWalk : Walk {
    std::vector<Val> limit;  // [own query]: positions that it may see
  };

  void Prepare() override;
  void Pass(const Walk& of_seq) override;
  OwnWalk BeginWalk(const Walk& of_seq);
  std::vector<Val> Tile(const OwnWalk& walk, Val t0, std::vector<Val> state);
  void StageKeys(const OwnWalk& walk, Val key_row, Val piece, Val other);
  std::vector<Val> DotSlice(int first, int end, const std::vector<Val>& so_far);
  std::vector<Val> Dots(Val e0, std::vector<Val> dot);
  std::vector<Val> Scores(const OwnWalk& walk, Val t0);
  std::vector<Val> PartScores(const OwnWalk& walk, Val key_row, Val part, const std::vector<Val>& sums);
  void Weigh(const OwnWalk& walk, Val t0, const std::vector<Val>& score, std::vector<Val>& state);
  std::vector<Val> ExpOfOwn(Val at, std::vector<Val> so_far);
  void AddValues(const OwnWalk& walk, Val t0, std::vector<Val>& state);
  void StageValues(const OwnWalk& walk, Val t0, const ValueStage& stage, int first, int width);
  void ZeroNoNumbers(const OwnWalk& walk, const ValueStage& stage, int count);
  std::vector<Val> WeightedSums(Val j0, int span, std::vector<Val> sum);
  void EndChunk(const OwnWalk& walk, Val t0, int query, Val* of_query);
  std::vector<Val> Fold(int query, const Val* of_query);

  const Carried carried_{dim_ / kShare};
  // A slice of queries and behind it one of keys; later one of values.
  const int key_words_ = w_.queries * kKeyStride;
  const Shared stage_ =
      b_.AllocShared(Type::kF32, std::max(key_words_ + kTile * kKeyStride, kTile* kValueSlice));
  const Shared weights_ = b_.AllocShared(Type::kF32, w_.queries* kWeightStride);
  const Val own_queries_ = team_ * kKeyStride, own_keys_ = place_ * kKeyStride + key_words_,
            own_weights_ = team_ * kWeightStride, own_place_ = own_weights_ + place_;

  // By Prepare. Of the thread's queries; chunk_: positions. fresh_: carried into a walk.
  std::vector<Query> own_;
  std::vector<Val> own_seq_, own_position_, chunk_, fresh_;
  // Staging: a row and four elements a thread; queries, by the elements where they begin, in turns of
  // kThreads / 4.
  Val stage_row_, stage_at_;
  std::vector<Val> stage_query_;
};

void BlockKernel::Prepare() {
  for (int i = 0; i < each_; ++i) {
    own_.push_back(QueryOf(team_ + i * w_.teams));
    own_seq_.push_back(RowSeq(args_.step, own_[i].row));
    own_position_.push_back(RowPosition(args_.step, own_[i].row));
    chunk_.push_back(ChunkPositions(order_, own_position_[i] + 1));
  }
  stage_row_ = ShrU(thread_, 2);
  stage_at_ = (thread_ & 3) << 2;
  for (int i = 0; i < w_.queries; i += kThreads / 4) {
    stage_query_.push_back(QueryOf(stage_row_ + i).at * dim_);
  }
  fresh_.assign(static_cast<size_t>(each_ * carried_.each), zero_);
  for (int i = 0; i < each_; ++i) {
    Val* of_query = &fresh_[i * carried_.each];
    of_query[Carried::kTop] = of_query[carried_.kept_top] = none_;
    of_query[carried_.chunk_end] = chunk_[i];
  }
}

BlockKernel::OwnWalk BlockKernel::BeginWalk(const Walk& of_seq) {
  OwnWalk walk{of_seq, {}};
  for (int i = 0; i < each_; ++i) {
    walk.limit.push_back(LimitOf(walk, own_[i], own_seq_[i], own_position_[i]));
    b_.For(place_, Select(LtS(b_.I32(0), walk.limit[i]), b_.I32(dim_), b_.I32(0)), b_.I32(kShare),
           [&](Val column) { b_.Store(args_.out, (own_[i].at * dim_ + column) << 2, zero_); });
  }
  return walk;
}

void BlockKernel::Pass(const Walk& of_seq) {
  const OwnWalk walk = BeginWalk(of_seq);
  const std::vector<Val> state =
      b_.For(b_.I32(0), walk.count, b_.I32(kTile), fresh_,
             [&](Val t0, const std::vector<Val>& before) { return Tile(walk, t0, before); });
  std::vector<Val> totals;
  totals.reserve(own_.size());
  for (int i = 0; i < each_; ++i) totals.push_back(state[i * carried_.each + carried_.kept_sum]);
  totals = over_share_(Reduction::kSum, totals);
  for (int i = 0; i < each_; ++i) FinishQuery(walk, walk.limit[i], own_[i].at, totals[i]);
}

std::vector<Val> BlockKernel::Tile(const OwnWalk& walk, Val t0, std::vector<Val> state) {
  Weigh(walk, t0, Scores(walk, t0), state);
  AddValues(walk, t0, state);
  for (int i = 0; i < each_; ++i) EndChunk(walk, t0, i, &state[i * carried_.each]);
  return state;
}

// ---- scores ----

// Pieces `piece` and, in the slice's other half, `other` of queries and keys.
void BlockKernel::StageKeys(const OwnWalk& walk, Val key_row, Val piece, Val other) {
  const Val d = (Select(LtS(stage_at_, b_.I32(kPiece)), piece, other) * kPiece) + (stage_at_ & (kPiece - 1));
  const bool full = order_.parts * order_.owned == dim_;
  const Val at = full ? d : MinS(d, b_.I32(dim_ - 4)), inside = LtS(d, b_.I32(dim_));
  const std::vector<Val> key = LoadKv(s_.kv, walk.cache.keys, key_row + at, 4);
  std::vector<Val> queries;
  queries.reserve(stage_query_.size());
  for (const Val& row : stage_query_) queries.push_back(b_.Load(Type::kF32x4, args_.q, (row + at) << 2));
  b_.Barrier();
  for (int c = 0; c < 4; ++c) {
    const Val to = stage_row_ * kKeyStride + stage_at_ + c;
    b_.StoreShared(stage_, to + key_words_, full ? key[c] : Select(inside, key[c], zero_));
    for (size_t i = 0; i < queries.size(); ++i) {
      const Val x = b_.Extract(queries[i], c) * scale_;
      b_.StoreShared(stage_, to + i * (kThreads / 4) * kKeyStride, full ? x : Select(inside, x, zero_));
    }
  }
  b_.Barrier();
}

// Adds the products of elements [first, end) of the slice.
std::vector<Val> BlockKernel::DotSlice(int first, int end, const std::vector<Val>& so_far) {
  return b_.For(b_.I32(first), b_.I32(end), b_.I32(kUnroll), so_far,
                [&](Val e0, const std::vector<Val>& sums) { return Dots(e0, sums); });
}

std::vector<Val> BlockKernel::Dots(Val e0, std::vector<Val> dot) {
  const Val q_at = own_queries_ + e0, k_at = own_keys_ + e0;
  for (int e = 0; e < kUnroll; ++e) {
    std::vector<Val> k;
    k.reserve(kSpan);
    for (int j = 0; j < kSpan; ++j) {
      k.push_back(b_.LoadShared(stage_, k_at + (j * kShare * kKeyStride + e)));
    }
    for (int i = 0; i < each_; ++i) {
      const Val x = b_.LoadShared(stage_, q_at + (i * kTeams * kKeyStride + e));
      for (int j = 0; j < kSpan; ++j) dot[i * kSpan + j] = Fma(x, k[j], dot[i * kSpan + j]);
    }
  }
  return dot;
}

// [own query][own position] of the tile.
std::vector<Val> BlockKernel::Scores(const OwnWalk& walk, Val t0) {
  const Val key_row = MinS(t0 + stage_row_, walk.count - 1) * dim_;
  const std::vector<Val> none_yet(static_cast<size_t>(each_ * kSpan), zero_);
  // A slice has two pieces of one part, or where a part is one piece, two parts.
  const int parts_at_once = order_.owned == kPiece ? 2 : 1;
  return b_.For(
      b_.I32(0), b_.I32(order_.parts), b_.I32(parts_at_once), none_yet,
      [&](Val part, const std::vector<Val>& sums) { return PartScores(walk, key_row, part, sums); });
}

std::vector<Val> BlockKernel::PartScores(const OwnWalk& walk, Val key_row, Val part,
                                         const std::vector<Val>& sums) {
  const std::vector<Val> none_yet(sums.size(), zero_);
  const int part_pieces = order_.owned / kPiece;
  if (part_pieces == 1) {
    StageKeys(walk, key_row, part, part + 1);
    return Added(Added(sums, DotSlice(0, kPiece, none_yet)), DotSlice(kPiece, kKeySlice, none_yet));
  }
  const auto pair = [&](Val piece, const std::vector<Val>& so_far) {
    StageKeys(walk, key_row, piece, piece + order_.parts);
    return DotSlice(0, kKeySlice, so_far);
  };
  if (part_pieces == 2) return Added(sums, pair(part, none_yet));
  return Added(sums,
               b_.For(part, part + part_pieces * order_.parts, b_.I32(2 * order_.parts), none_yet, pair));
}

// ---- weights ----

// Lays out the weights of the tile, and scales what is carried to the new greatest scores.
void BlockKernel::Weigh(const OwnWalk& walk, Val t0, const std::vector<Val>& score, std::vector<Val>& state) {
  std::vector<Val> top(static_cast<size_t>(each_), none_);
  std::vector<Val> seen(score.size());
  for (int i = 0; i < each_; ++i) {
    for (int j = 0; j < kSpan; ++j) {
      seen[i * kSpan + j] = LtS(t0 + place_ + j * kShare, walk.limit[i]);
      top[i] = MaxF(top[i], Select(seen[i * kSpan + j], score[i * kSpan + j], none_));
    }
  }
  top = over_share_(Reduction::kMax, top);
  for (int i = 0; i < each_; ++i) {
    top[i] = MaxF(top[i], state[i * carried_.each + Carried::kTop]);
    for (int j = 0; j < kSpan; ++j) {
      const Val below = Select(seen[i * kSpan + j], score[i * kSpan + j] - top[i], none_);
      b_.StoreShared(weights_, own_place_ + (i * kTeams * kWeightStride + j * kShare), below);
    }
  }
  // A thread's own places. A loop, because exp is long.
  const std::vector<Val> sum =
      b_.For(own_place_, own_place_ + kTile, b_.I32(kShare), std::vector<Val>(top.size(), zero_),
             [&](Val at, const std::vector<Val>& so_far) { return ExpOfOwn(at, so_far); });
  for (int i = 0; i < each_; ++i) {
    Val* of_query = &state[i * carried_.each];
    // Nothing seen: keep is exp(0) = 1 and all weights are 0.
    const Val keep = Exp(of_query[Carried::kTop] - top[i]);
    of_query[Carried::kTop] = top[i];
    of_query[Carried::kSum] = of_query[Carried::kSum] * keep + sum[i];
    Val* values = of_query + Carried::kValues;
    for (int c = 0; c < carried_.columns; ++c) values[c] = values[c] * keep;
  }
}

std::vector<Val> BlockKernel::ExpOfOwn(Val at, std::vector<Val> so_far) {
  for (int i = 0; i < each_; ++i) {
    const Val place_of_query = at + i * kTeams * kWeightStride;
    const Val weight = Exp(b_.LoadShared(weights_, place_of_query));
    b_.StoreShared(weights_, place_of_query, weight);
    so_far[i] = so_far[i] + weight;
  }
  return so_far;
}

// ---- values ----

void BlockKernel::AddValues(const OwnWalk& walk, Val t0, std::vector<Val>& state) {
  const Val row = ShrU(thread_, 3), column = (thread_ & 7) << 2;
  ValueStage stage{t0 + row, column, row * kValueSlice + column, {}};
  for (int r = 0; r < kTile; r += kTurnRows) {
    stage.from.push_back(MinS(stage.position + r, walk.count - 1) * dim_);
  }
  for (int first = 0; first < dim_; first += kValueSlice) {
    const int width = std::min(kValueSlice, dim_ - first), span = width / kShare;
    StageValues(walk, t0, stage, first, width);
    // The thread's sums of value column `c` of the slice.
    const auto sum_of = [&](int i, int c) -> Val& {
      return state[i * carried_.each + Carried::kValues + first / kShare + c];
    };
    std::vector<Val> sums;
    sums.reserve(static_cast<size_t>(each_ * span));
    for (int i = 0; i < each_; ++i) {
      for (int c = 0; c < span; ++c) sums.push_back(sum_of(i, c));
    }
    sums = b_.For(b_.I32(0), b_.I32(kTile), b_.I32(kUnroll), sums,
                  [&](Val j0, const std::vector<Val>& so_far) { return WeightedSums(j0, span, so_far); });
    for (int i = 0; i < each_; ++i) {
      for (int c = 0; c < span; ++c) sum_of(i, c) = sums[i * span + c];
    }
  }
}

// Columns [first, first + width) of the tile's values.
void BlockKernel::StageValues(const OwnWalk& walk, Val t0, const ValueStage& stage, int first, int width) {
  std::vector<std::vector<Val>> loaded;
  const Val column = (width == kValueSlice ? stage.column : MinS(stage.column, b_.I32(width - 4))) + first;
  loaded.reserve(stage.from.size());
  for (const Val& from : stage.from) loaded.push_back(LoadKv(s_.kv, walk.cache.values, from + column, 4));
  b_.Barrier();
  for (size_t turn = 0; turn < loaded.size(); ++turn) {
    const int r = static_cast<int>(turn) * kTurnRows;
    for (int c = 0; c < 4; ++c) b_.StoreShared(stage_, stage.to + (r * kValueSlice + c), loaded[turn][c]);
  }
  b_.If(IsPartlySeen(walk, t0), [&] { ZeroNoNumbers(walk, stage, static_cast<int>(4 * loaded.size())); });
  b_.Barrier();
}

// Of `count` values that the thread has laid out. A loop, as it is hardly ever run.
void BlockKernel::ZeroNoNumbers(const OwnWalk& walk, const ValueStage& stage, int count) {
  b_.For(b_.I32(0), b_.I32(count), b_.I32(1), [&](Val i) {
    const Val r = ShrU(i, 2) * kTurnRows, at = stage.to + r * kValueSlice + (i & 3);
    const Val value = b_.LoadShared(stage_, at);
    b_.If(And(LeS(LeastSeen(walk), stage.position + r), IsNoNumber(value)), [&] {
      b_.StoreShared(stage_, at, zero_);
      NoteZeroed();
    });
  });
}

std::vector<Val> BlockKernel::WeightedSums(Val j0, int span, std::vector<Val> sum) {
  const Val v_at = j0 * kValueSlice + place_, p_at = own_weights_ + j0;
  for (int j = 0; j < kUnroll; ++j) {
    std::vector<Val> v;
    v.reserve(static_cast<size_t>(span));
    for (int c = 0; c < span; ++c) {
      v.push_back(b_.LoadShared(stage_, v_at + (j * kValueSlice + c * kShare)));
    }
    for (int i = 0; i < each_; ++i) {
      const Val p = b_.LoadShared(weights_, p_at + (i * kTeams * kWeightStride + j));
      for (int c = 0; c < span; ++c) sum[i * span + c] = Fma(p, v[c], sum[i * span + c]);
    }
  }
  return sum;
}

// ---- chunks ----

void BlockKernel::EndChunk(const OwnWalk& walk, Val t0, int query, Val* of_query) {
  const Val chunk_end = of_query[carried_.chunk_end], done = EndsChunk(walk.limit[query], t0, chunk_end);
  Val &kept_top = of_query[carried_.kept_top], &kept_sum = of_query[carried_.kept_sum];
  const std::vector<Val> sums = b_.IfElse(
      done, [&] { return Fold(query, of_query); },
      [&] {
        return std::vector<Val>{kept_top, kept_sum};
      });
  kept_top = sums[0];
  kept_sum = sums[1];
  of_query[Carried::kTop] = Select(done, none_, of_query[Carried::kTop]);
  for (int c = Carried::kSum; c < carried_.kept_top; ++c) of_query[c] = Select(done, zero_, of_query[c]);
  of_query[carried_.chunk_end] = Select(done, chunk_end + chunk_[query], chunk_end);
}

// Adds the chunk to `out`; the greatest score and the sum of weights with it.
std::vector<Val> BlockKernel::Fold(int query, const Val* of_query) {
  const auto [top, keep, add] = ScalesOf(of_query[carried_.kept_top], of_query[Carried::kTop]);
  for (int c = 0; c < carried_.columns; ++c) {
    const Val at = ((own_[query].at * dim_ + place_) << 2) + 4 * kShare * c;
    const Val value = of_query[Carried::kValues + c];
    b_.Store(args_.out, at, Fma(value, add, b_.Load(Type::kF32, args_.out, at) * keep));
  }
  return std::vector<Val>{top, Fma(of_query[Carried::kSum], add, of_query[carried_.kept_sum] * keep)};
}

}  // namespace

BlockForm FloatBlockForm(const AttentionSpec& s, const Profile& profile) {
  return {"attention.block", BlockOf(s, profile), [s](Builder& b) { BlockKernel(b, s).Emit(); }};
}

}  // namespace qcc::gpu
