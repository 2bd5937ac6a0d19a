// Attention of a few rows. The cache is split into chunks, one per workgroup (and row and block of query
// heads); each leaves its greatest score, its sums of weights and their sum of values. A second launch folds
// them.
#include "codegen/gpu/kernels/attention_split.h"

#include <algorithm>
#include <bit>

#include "codegen/gpu/kernels/math.h"
#include "codegen/gpu/kernels/reduce.h"

namespace qcc::gpu {

void SplitRowKernel::Emit() {
  b_.If(LtS(row_, StepRows(args_.step)), [&] {
    const Val count = RowPosition(args_.step, row_) + 1, chunk = ChunkPositions(order_, count);
    const Val begin = split_ * chunk;
    b_.If(LtS(begin, count), [&] {
      end_ = MinS(begin + chunk, count);
      last_ = end_ - 1;
      cache_ = FindKvHead(s_.kv, args_.seqs, RowSeq(args_.step, row_), args_.kv, kv_head_);
      queries_ = args_.q;
      if (made_) MakeHeads(count);
      EmitRange(begin);
    });
  });
}

// All blocks of queries are one here, so that a kv head's last chunk has one workgroup.
void SplitRowKernel::MakeHeads(Val count) {
  const auto args = ReadArgs<SplitHeadsArgs>(b_);
  queries_ = args.own + b_.ExtendU((split_ * s_.kv.kv_heads + kv_head_) * (4 * heads_ * dim_));
  const Val key = row_ * s_.kv.kv_heads + kv_head_, cache_row = (count - 1) * dim_;
  const Val has_last = Eq(end_, count);
  // The heads of the group, then the key's.
  const auto source = [&](Val number) {
    return HeadNormRope::SourceOf(*s_.made, args.in, LtS(number, b_.I32(heads_)), QueryAt(number), key);
  };
  made_->Run(source, args.in, row_, [&](Val number, Val at, Val low, Val high) {
    b_.If(LtS(number, b_.I32(heads_)), [&] {
      b_.Store(queries_, (number * dim_ + at) << 2, b_.Vector({low, high}));
    });
    b_.If(And(Eq(number, heads_), has_last),
          [&] { HeadNormRope::StoreKeyAndValue(*s_.made, args.in, cache_, key, cache_row, at, low, high); });
  });
  b_.Barrier();
}

void SplitRowKernel::LeaveTop(Val head, Val place, Val top, Val sum) {
  const Val at = PlaceOf(head) * (4 * kTopWords);
  b_.Store(args_.tops, at + 4 + (place << 2), sum);
  b_.If(Eq(place, 0), [&] { b_.Store(args_.tops, at, top); });
}

namespace {

constexpr int kThreads = 128;
constexpr int kTile = kAttentionTile, kPiece = kAttentionPiece, kPlaces = kAttentionPlaces;
constexpr int kChunksAhead = 8;  // whose words the combining launch loads before it uses the first
constexpr int kTopsAtOnce = 4;   // that it compares with the greatest so far
constexpr int kValueUnroll = 8;  // positions whose values are loaded before they are used

int PowerOfTwo(int n) {
  return static_cast<int>(std::bit_ceil(static_cast<unsigned>(n)));
}

// How the threads of a workgroup share the work on a tile.
struct Split : AttentionOrder {
  explicit Split(const AttentionSpec& s) : AttentionOrder(s) {
    at_once = kThreads / parts;
    part_stride = parts + 1;
    // A thread has 4 columns of every `teams`-th part of the heads, or 2 where that would leave threads idle.
    const auto teams_with = [&](int n) { return kThreads / PowerOfTwo((s.kv.head_dim + n - 1) / n); };
    columns = teams_with(4) <= heads ? 4 : 2;
    teams = teams_with(columns);
    team_heads = (heads + teams - 1) / teams;
  }
  int at_once;      // positions whose scores are under way at a time
  int part_stride;  // of the parts of a score in workgroup memory: odd, so that threads read different banks
  int columns, teams, team_heads;
};

class SplitKernel : public SplitRowKernel {
 public:
  SplitKernel(Builder& b, const AttentionSpec& s, const Split& w)
      : SplitRowKernel(b, s, kThreads, w.blocks, w.heads), w_(w) {}

 private:
  // What a thread carries from tile to tile: its head's greatest score, its place's sum of weights, and its
  // columns' sums of values [team_heads][columns].
  static constexpr int kTop = 0, kSum = 1, kValues = 2;

  // Of the heads whose values the thread sums up.
  Val TeamHead(int h) const { return DivU(thread_, kThreads / w_.teams) * w_.team_heads + h; }

  void EmitRange(Val begin) override;
  void LoadQueries();
  void FindPlaces();
  std::vector<Val> Tile(Val t0, std::vector<Val> state);
  void DotParts(Val t0, Val j);
  void Weigh(Val t0, std::vector<Val>& state);
  std::vector<Val> WeightedSums(Val t0, Val j0, std::vector<Val> totals);
  void Leave(const std::vector<Val>& state);

  const Split w_;
  const Shared dots_ = b_.AllocShared(Type::kF32, heads_* kTile* w_.part_stride);  // [head][position][part]
  const Shared weights_ = b_.AllocShared(Type::kF32, heads_* kTile);               // [head][position]
  const Shared keeps_ = b_.AllocShared(Type::kF32, heads_);
  Reducer over_tile_{b_, kThreads, kTile};

  // By LoadQueries. For the parts of scores: a thread has part part_ of positions at_once apart, of all
  // heads.
  Val part_, position_;
  std::vector<Val> piece_at_;            // elements
  std::vector<std::vector<Val>> query_;  // [head][owned]
  // By FindPlaces. For scores and weights a thread has one position of one head; for values a few columns of
  // a few heads, and every position.
  Val own_head_, own_, has_own_, own_row_, own_place_;
  Val column_, column_at_;
  std::vector<Val> team_head_;
};

void SplitKernel::EmitRange(Val begin) {
  LoadQueries();
  FindPlaces();
  std::vector<Val> fresh(static_cast<size_t>(kValues + w_.team_heads * w_.columns), zero_);
  fresh[kTop] = none_;
  Leave(b_.For(begin, end_, b_.I32(kTile), fresh,
               [&](Val t0, const std::vector<Val>& before) { return Tile(t0, before); }));
}

void SplitKernel::LoadQueries() {
  part_ = RemU(thread_, w_.parts);
  position_ = DivU(thread_, w_.parts);
  query_.resize(static_cast<size_t>(heads_));
  for (int i = 0; i < w_.owned / kPiece; ++i) {
    const Val at = (part_ + i * w_.parts) * kPiece;
    const bool full = w_.parts * (i + 1) * kPiece <= dim_;
    const Val inside = LtS(at, b_.I32(dim_));
    piece_at_.push_back(full ? at : MinS(at, b_.I32(dim_ - kPiece)));
    for (int g = 0; g < heads_; ++g) {
      for (int c = 0; c < kPiece; c += 4) {
        const Val first = QueryFirst(b_.I32(g)) + piece_at_.back() + c;
        const Val quad = b_.Load(Type::kF32x4, queries_, first << 2);
        for (int e = 0; e < 4; ++e) {
          const Val x = b_.Extract(quad, e) * scale_;
          query_[g].push_back(full ? x : Select(inside, x, zero_));
        }
      }
    }
  }
}

void SplitKernel::FindPlaces() {
  own_head_ = DivU(thread_, kTile);
  own_ = RemU(thread_, kTile);
  has_own_ = LtS(own_head_, b_.I32(heads_));
  own_row_ = MinS(own_head_, b_.I32(heads_ - 1)) * kTile;
  own_place_ = own_row_ + (own_ & (kPlaces - 1));
  column_ = RemU(thread_, kThreads / w_.teams) * w_.columns;
  column_at_ = MinS(column_, b_.I32(dim_ - w_.columns));
  for (int h = 0; h < w_.team_heads; ++h) {
    const Val head = TeamHead(h);
    team_head_.push_back(MinS(head, b_.I32(heads_ - 1)));
  }
}

std::vector<Val> SplitKernel::Tile(Val t0, std::vector<Val> state) {
  // Two turns at a time, where there are two: their loads overlap.
  const int turns = std::min(2, kTile / w_.at_once);
  b_.For(position_, b_.I32(kTile), b_.I32(turns * w_.at_once), [&](Val j) {
    for (int i = 0; i < turns; ++i) DotParts(t0, j + i * w_.at_once);
  });
  b_.Barrier();
  Weigh(t0, state);
  const std::vector<Val> totals =
      b_.For(b_.I32(0), b_.I32(kTile), b_.I32(kValueUnroll), {state.begin() + kValues, state.end()},
             [&](Val j0, const std::vector<Val>& so_far) { return WeightedSums(t0, j0, so_far); });
  std::copy(totals.begin(), totals.end(), state.begin() + kValues);
  return state;
}

// The thread's part of the scores of position t0 + j.
void SplitKernel::DotParts(Val t0, Val j) {
  const Val base = MinS(t0 + j, last_) * dim_;
  std::vector<Val> dot(static_cast<size_t>(heads_), zero_);
  for (size_t i = 0; i < piece_at_.size(); ++i) {
    const std::vector<Val> k = LoadKv(s_.kv, cache_.keys, base + piece_at_[i], kPiece);
    for (int c = 0; c < kPiece; ++c) {
      for (int g = 0; g < heads_; ++g) dot[g] = Fma(query_[g][i * kPiece + c], k[c], dot[g]);
    }
  }
  for (int g = 0; g < heads_; ++g) {
    b_.StoreShared(dots_, j * w_.part_stride + part_ + g * kTile * w_.part_stride, dot[g]);
  }
}

// Scores to weights, in workgroup memory; what is carried is scaled to the new greatest score.
void SplitKernel::Weigh(Val t0, std::vector<Val>& state) {
  const Val from = (own_row_ + own_) * w_.part_stride;
  Val score = zero_;
  for (int p = 0; p < w_.parts; ++p) score = score + b_.LoadShared(dots_, from + p);
  const Val seen = LtS(t0 + own_, end_);
  const Val top = MaxF(over_tile_.Max(Select(seen, score, none_)), state[kTop]);
  const Val keep = Exp(state[kTop] - top);
  state[kTop] = top;
  b_.If(has_own_, [&] {
    b_.StoreShared(weights_, own_row_ + own_, Exp(Select(seen, score - top, none_)));
    b_.If(Eq(own_, 0), [&] { b_.StoreShared(keeps_, own_head_, keep); });
  });
  b_.Barrier();

  Val sum = zero_;
  for (int j = 0; j < kTile; j += kPlaces) sum = sum + b_.LoadShared(weights_, own_place_ + j);
  state[kSum] = state[kSum] * keep + sum;
  for (int h = 0; h < w_.team_heads; ++h) {
    const Val of_head = b_.LoadShared(keeps_, team_head_[h]);
    Val* values = &state[kValues + h * w_.columns];
    for (int c = 0; c < w_.columns; ++c) values[c] = values[c] * of_head;
  }
}

std::vector<Val> SplitKernel::WeightedSums(Val t0, Val j0, std::vector<Val> totals) {
  std::vector<std::vector<Val>> v;
  for (int j = 0; j < kValueUnroll; ++j) {
    const Val at = MinS(t0 + (j0 + j), last_) * dim_ + column_at_;
    v.push_back(LoadKv(s_.kv, cache_.values, at, w_.columns));
  }
  for (int j = 0; j < kValueUnroll; ++j) {
    for (int h = 0; h < w_.team_heads; ++h) {
      const Val p = b_.LoadShared(weights_, team_head_[h] * kTile + (j0 + j));
      for (int c = 0; c < w_.columns; ++c) {
        Val& total = totals[h * w_.columns + c];
        total = Fma(p, v[j][c], total);
      }
    }
  }
  return totals;
}

void SplitKernel::Leave(const std::vector<Val>& state) {
  for (int h = 0; h < w_.team_heads; ++h) {
    const Val head = TeamHead(h);
    b_.If(And(IsHead(head), LtS(column_, b_.I32(dim_))), [&] {
      const auto first = state.begin() + kValues + h * w_.columns;
      b_.Store(args_.sums, (PlaceOf(head) * dim_ + column_) << 2,
               b_.Vector(std::vector<Val>(first, first + w_.columns)));
    });
  }
  b_.If(And(IsHead(own_head_), LtS(own_, b_.I32(kPlaces))),
        [&] { LeaveTop(own_head_, own_, state[kTop], state[kSum]); });
}

template <typename T>
struct CombineArgs {
  T step, sums, tops, gate, out;
};

class CombineKernel {
 public:
  CombineKernel(Builder& b, const AttentionSpec& s) : b_(b), s_(s) {}
  void Emit() {
    b_.If(LtS(row_, StepRows(args_.step)), [&] { EmitHead(); });
  }

 private:
  void EmitHead();
  void ScaleChunks(Val place);
  // The chunks' fold of the words at `base` + `first`, `stride` bytes apart.
  Val Fold(Val base, Val first, int stride);

  Builder& b_;
  const AttentionSpec& s_;
  const AttentionOrder w_{s_};
  const int dim_ = s_.kv.head_dim, threads_ = CombineThreads(dim_);
  const CombineArgs<Val> args_ = ReadArgs<CombineArgs>(b_);
  // Of each chunk: its greatest score; the scales of what is before it and of itself.
  const Shared top_ = b_.AllocShared(Type::kF32, w_.splits), keep_ = b_.AllocShared(Type::kF32, w_.splits),
               add_ = b_.AllocShared(Type::kF32, w_.splits);
  Reducer over_places_{b_, threads_, kPlaces};
  const Val head_ = b_.BlockX(), row_ = b_.BlockY(), thread_ = b_.Thread();
  Val chunks_, zero_, none_;  // by EmitHead; chunks_: how many the row has
};

void CombineKernel::EmitHead() {
  const Val count = RowPosition(args_.step, row_) + 1, chunk = ChunkPositions(w_, count);
  chunks_ = b_.Binary(Builder::Op::kDivU, count + chunk - 1, chunk);
  const Val at = row_ * s_.q_heads + head_, place = at * w_.splits;
  zero_ = b_.F32(0.f);
  none_ = b_.F32(kNoScore);
  ScaleChunks(place);
  const Val place_sum =
      Fold(args_.tops, place * (4 * kTopWords) + 4 + ((thread_ & (kPlaces - 1)) << 2), 4 * kTopWords);
  const Val inverse = DivF(b_.F32(1.f), over_places_.Sum(place_sum));
  for (int d = 0; d < dim_; d += threads_) {
    const Val column = thread_ + d;
    b_.If(LtS(column, b_.I32(dim_)), [&] {
      const Val value = Fold(args_.sums, (place * dim_ + column) << 2, dim_ * 4) * inverse;
      b_.Store(args_.out, (at * dim_ + column) << 2, ApplyGate(s_, args_.gate, at, column, value));
    });
  }
}

// Chunk i's greatest score, then the greatest of chunks 0..i and the scales that follow from it.
void CombineKernel::ScaleChunks(Val place) {
  const Val has_chunk = LtS(thread_, chunks_);
  const Val own_top = b_.IfElse(
      has_chunk,
      [&] { return std::vector<Val>{b_.Load(Type::kF32, args_.tops, (place + thread_) * (4 * kTopWords))}; },
      [&] { return std::vector<Val>{none_}; })[0];
  b_.If(has_chunk, [&] { b_.StoreShared(top_, thread_, own_top); });
  b_.Barrier();
  b_.If(has_chunk, [&] {
    const Val before =
        b_.For(b_.I32(0), thread_, b_.I32(kTopsAtOnce), {none_}, [&](Val i, const std::vector<Val>& high) {
          Val highest = high[0];
          for (int j = 0; j < kTopsAtOnce; ++j)
            highest = MaxF(highest, b_.LoadShared(top_, j ? MinS(i + j, thread_ - 1) : i));
          return std::vector<Val>{highest};
        })[0];
    const Val highest = MaxF(before, own_top);
    b_.StoreShared(keep_, thread_, Exp(before - highest));
    b_.StoreShared(add_, thread_, Exp(own_top - highest));
  });
  b_.Barrier();
}

Val CombineKernel::Fold(Val base, Val first, int stride) {
  // Words of several chunks are loaded before the first is used; those behind the last repeat it, and count
  // for nothing.
  const int ahead = b_.profile().loads_ahead != LoadsAhead::kNever && dim_ % threads_ == 0
                        ? std::min(kChunksAhead, w_.splits)
                        : 1;
  const auto fold = [&](Val sum, Val part, Val i) {
    return Fma(part, b_.LoadShared(add_, i), sum * b_.LoadShared(keep_, i));
  };
  return b_.For(b_.I32(0), chunks_, b_.I32(ahead), {zero_}, [&](Val begin, const std::vector<Val>& carried) {
    std::vector<Val> chunks, parts;
    for (int j = 0; j < ahead; ++j) {
      chunks.push_back(j ? MinS(begin + j, chunks_ - 1) : begin);
      parts.push_back(b_.Load(Type::kF32, base, first + chunks.back() * stride));
    }
    if (ahead > 1) b_.BeginLoads();
    Val sum = fold(carried[0], parts[0], begin);
    for (int j = 1; j < ahead; ++j) {
      const size_t of = static_cast<size_t>(j);
      sum = Select(LtS(begin + j, chunks_), fold(sum, parts[of], chunks[of]), sum);
    }
    return std::vector<Val>{sum};
  })[0];
}

}  // namespace

SplitForm FloatSplitForm(const AttentionSpec& s) {
  const Split w(s);
  return {"attention.split", kThreads, w.blocks, [s, w](Builder& b) { SplitKernel(b, s, w).Emit(); }};
}

std::vector<Launch> SplitAttention(const AttentionSpec& s, const Dispatch<plan::AttentionSpec>& d,
                                   Expansion& expansion, const MadeHeads* made) {
  const AttentionOrder w(s);
  const SplitForm form = OnMatrixUnits(s, expansion.profile()) ? MatrixSplitForm(s) : FloatSplitForm(s);
  if (made && (form.blocks != 1 || form.threads % s.made->threads() != 0)) return {};
  const uint64_t rows = static_cast<uint64_t>(d.rows), dim = static_cast<uint64_t>(s.kv.head_dim);
  const uint64_t places = rows * static_cast<uint64_t>(s.q_heads * w.splits);
  // What a short context costs: a tile for each chunk that tiles are spread over.
  const uint64_t used = rows * static_cast<uint64_t>(s.q_heads * w.spread);
  const Arg sums = expansion.Scratch(places * dim * 4), tops = expansion.Scratch(places * kTopWords * 4);

  Launch split;
  split.name = form.name + s.name();
  split.emit = form.emit;
  split.workgroup_size = form.threads;
  split.grid[0] = static_cast<uint32_t>(w.splits);
  split.grid[1] = static_cast<uint32_t>(s.kv.kv_heads * form.blocks);
  split.grid[2] = static_cast<uint32_t>(rows);
  const SplitArgs<Arg> args = {.step = StepArg(expansion),
                               .seqs = StepSeqsArg(expansion),
                               .q = made ? made->q : *d.bindings.q,
                               .kv = Number(d.bindings.kv->value),
                               .sums = sums,
                               .tops = tops,
                               .scale = FloatNumber(d.spec.scale)};
  split.args = ListArgs<SplitArgs>(args);
  split.read_bytes = rows * static_cast<uint64_t>(s.q_heads) * dim * 4;
  split.write_bytes = used * (dim + kTopWords) * 4;
  if (made) {
    split.args = ListArgs<SplitHeadsArgs>({.split = args,
                                           .in = {.q = made->q,
                                                  .k = made->k,
                                                  .v = made->v,
                                                  .q_norm = made->q_norm,
                                                  .k_norm = made->k_norm,
                                                  .rope = made->rope,
                                                  .eps = FloatNumber(made->spec.eps)},
                                           .own = expansion.Scratch(places * dim * 4)});
    split.read_bytes += made->k.bytes + made->v.bytes + made->rope.bytes;
    split.write_bytes += used * dim * 4 + rows * s.kv.token_bytes();
  }
  split.kv_bytes = rows * static_cast<uint64_t>(form.blocks) * s.kv.token_bytes();
  split.ops = used * kTile * dim * 4;

  Launch combine;
  combine.name = "attention.combine" + s.name();
  combine.emit = [s](Builder& b) { CombineKernel(b, s).Emit(); };
  combine.workgroup_size = CombineThreads(s.kv.head_dim);
  combine.grid[0] = static_cast<uint32_t>(s.q_heads);
  combine.grid[1] = static_cast<uint32_t>(rows);
  combine.args = ListArgs<CombineArgs>({.step = StepArg(expansion),
                                        .sums = sums,
                                        .tops = tops,
                                        .gate = s.gated ? *d.bindings.gate : Number(0),
                                        .out = *d.bindings.out});
  combine.barrier = true;
  combine.read_bytes =
      used * (dim + kTopWords) * 4 + (s.gated ? rows * static_cast<uint64_t>(s.q_heads) * dim * 4 : 0);
  combine.write_bytes = rows * static_cast<uint64_t>(s.q_heads) * dim * 4;
  combine.ops = used * dim * 2;
  return {split, combine};
}

}  // namespace qcc::gpu
