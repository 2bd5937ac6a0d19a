// Attention of a few rows. The cache is split into chunks, one per workgroup (and row and block of query
// heads); each leaves its greatest score, its sums of weights and their sum of values. A second launch folds
// them.
#include <algorithm>
#include <bit>

#include "codegen/gpu/kernels/attention.h"
#include "codegen/gpu/kernels/math.h"
#include "codegen/gpu/kernels/reduce.h"
#include "codegen/gpu/kernels/step.h"

namespace qcc::gpu {
namespace {

constexpr int kThreads = 128;
constexpr int kTile = kAttentionTile, kPiece = kAttentionPiece, kPlaces = kAttentionPlaces;
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

// What a split leaves, [row][q_head][split]: in `sums` head_dim values, in `tops` the greatest score and
// kPlaces sums of weights.
constexpr int kTopWords = 1 + kPlaces;

void EmitSplit(Builder& b, const AttentionSpec& s) {
  const Split w(s);
  const int dim = s.kv.head_dim, heads = w.heads;
  const Val step = b.Arg(0), seqs = b.Arg(1), q = b.Arg(2), kv_offset = b.Arg(3), sums = b.Arg(4),
            tops = b.Arg(5);
  const Val scale = b.AsF32(b.Truncate(b.Arg(6)));
  const Shared dots = b.AllocShared(Type::kF32, heads * kTile * w.part_stride);  // [head][position][part]
  const Shared weights = b.AllocShared(Type::kF32, heads * kTile);               // [head][position]
  const Shared keeps = b.AllocShared(Type::kF32, heads);
  Reducer over_tile(b, kThreads, kTile);
  const Val split = b.BlockX(), row = b.BlockZ(), thread = b.Thread();
  const Val kv_head = DivU(b.BlockY(), w.blocks);
  const Val first_head = kv_head * s.group() + RemU(b.BlockY(), w.blocks) * heads;
  const Val end_head = (kv_head + 1) * s.group();
  const Val zero = b.F32(0.f), none = b.F32(kNoScore);
  // The last block of heads may be short: what it computes twice is not written.
  const auto query_at = [&](Val head) { return row * s.q_heads + MinS(first_head + head, end_head - 1); };

  const auto compute = [&](Val begin, Val end) {
    const KvHead cache = FindKvHead(s.kv, seqs, RowSeq(step, row), kv_offset, kv_head);
    const Val last = end - 1;

    // For the parts of scores: a thread has part `part` of positions at_once apart, of all heads.
    const Val part = RemU(thread, w.parts), position = DivU(thread, w.parts);
    std::vector<Val> piece_at;                   // elements
    std::vector<std::vector<Val>> query(heads);  // [head][owned]
    for (int i = 0; i < w.owned / kPiece; ++i) {
      const Val at = (part + static_cast<double>(i * w.parts)) * kPiece;
      const bool full = w.parts * (i + 1) * kPiece <= dim;
      const Val inside = LtS(at, b.I32(dim));
      piece_at.push_back(full ? at : MinS(at, b.I32(dim - kPiece)));
      for (int g = 0; g < heads; ++g) {
        for (int c = 0; c < kPiece; c += 4) {
          const Val quad = b.Load(Type::kF32x4, q, (query_at(b.I32(g)) * dim + piece_at.back() + c) << 2);
          for (int e = 0; e < 4; ++e) {
            const Val x = b.Extract(quad, e) * scale;
            query[g].push_back(full ? x : Select(inside, x, zero));
          }
        }
      }
    }
    // For scores and weights: a thread has one position of one head.
    const Val own_head = DivU(thread, kTile), own = RemU(thread, kTile);
    const Val has_own = LtS(own_head, b.I32(heads)), own_row = MinS(own_head, b.I32(heads - 1)) * kTile;
    const Val own_place = own_row + (own & (kPlaces - 1));
    // For values: a thread has a few columns of a few heads, and every position.
    const Val column = RemU(thread, kThreads / w.teams) * w.columns;
    const Val column_at = MinS(column, b.I32(dim - w.columns));
    std::vector<Val> team_head;
    for (int h = 0; h < w.team_heads; ++h) {
      const Val head = DivU(thread, kThreads / w.teams) * w.team_heads + h;
      team_head.push_back(MinS(head, b.I32(heads - 1)));
    }

    // Carried: the own head's greatest score so far, the place's sum of weights, and the columns' sums of
    // values [team_heads][columns].
    constexpr int kCarried = 2;
    std::vector<Val> carried(kCarried + w.team_heads * w.columns, zero);
    carried[0] = none;
    const auto tile = [&](Val t0, const std::vector<Val>& before) {
      std::vector<Val> state = before;
      const auto dot_parts = [&](Val j) {
        const Val base = MinS(t0 + j, last) * dim;
        std::vector<Val> dot(heads, zero);
        for (size_t i = 0; i < piece_at.size(); ++i) {
          const std::vector<Val> k = LoadKv(s.kv, cache.keys, base + piece_at[i], kPiece);
          for (int c = 0; c < kPiece; ++c) {
            for (int g = 0; g < heads; ++g) dot[g] = Fma(query[g][i * kPiece + c], k[c], dot[g]);
          }
        }
        for (int g = 0; g < heads; ++g) {
          b.StoreShared(dots, j * w.part_stride + part + static_cast<double>(g * kTile * w.part_stride),
                        dot[g]);
        }
      };
      // Two turns at a time, where there are two: their loads overlap.
      const int turns = std::min(2, kTile / w.at_once);
      b.For(position, b.I32(kTile), b.I32(turns * w.at_once), [&](Val j) {
        for (int i = 0; i < turns; ++i) dot_parts(j + i * w.at_once);
      });
      b.Barrier();

      const Val from = (own_row + own) * w.part_stride;
      Val score = zero;
      for (int p = 0; p < w.parts; ++p) score = score + b.LoadShared(dots, from + p);
      const Val seen = LtS(t0 + own, end);
      const Val top = MaxF(over_tile.Max(Select(seen, score, none)), state[0]);
      const Val keep = Exp(state[0] - top);
      state[0] = top;
      b.If(has_own, [&] {
        b.StoreShared(weights, own_row + own, Exp(Select(seen, score - top, none)));
        b.If(Eq(own, 0), [&] { b.StoreShared(keeps, own_head, keep); });
      });
      b.Barrier();

      Val sum = zero;
      for (int j = 0; j < kTile; j += kPlaces) sum = sum + b.LoadShared(weights, own_place + j);
      state[1] = state[1] * keep + sum;
      std::vector<Val> totals(state.begin() + kCarried, state.end());
      for (int h = 0; h < w.team_heads; ++h) {
        const Val of_head = b.LoadShared(keeps, team_head[h]);
        for (int c = 0; c < w.columns; ++c) {
          totals[h * w.columns + c] = totals[h * w.columns + c] * of_head;
        }
      }
      totals =
          b.For(b.I32(0), b.I32(kTile), b.I32(kValueUnroll), totals, [&](Val j0, std::vector<Val> so_far) {
            std::vector<std::vector<Val>> v;
            for (int j = 0; j < kValueUnroll; ++j) {
              const Val at = MinS(t0 + (j0 + j), last) * dim + column_at;
              v.push_back(LoadKv(s.kv, cache.values, at, w.columns));
            }
            for (int j = 0; j < kValueUnroll; ++j) {
              for (int h = 0; h < w.team_heads; ++h) {
                const Val p = b.LoadShared(weights, team_head[h] * kTile + (j0 + j));
                for (int c = 0; c < w.columns; ++c) {
                  Val& total = so_far[h * w.columns + c];
                  total = Fma(p, v[j][c], total);
                }
              }
            }
            return so_far;
          });
      std::copy(totals.begin(), totals.end(), state.begin() + kCarried);
      return state;
    };
    const std::vector<Val> state = b.For(begin, end, b.I32(kTile), carried, tile);

    const auto place_of = [&](Val head) { return query_at(head) * w.splits + split; };
    const auto is_head = [&](Val head) {
      return And(LtS(head, b.I32(heads)), LtS(first_head + head, end_head));
    };
    for (int h = 0; h < w.team_heads; ++h) {
      const Val head = DivU(thread, kThreads / w.teams) * w.team_heads + h;
      b.If(And(is_head(head), LtS(column, b.I32(dim))), [&] {
        const auto first = state.begin() + kCarried + h * w.columns;
        b.Store(sums, (place_of(head) * dim + column) << 2,
                b.Vector(std::vector<Val>(first, first + w.columns)));
      });
    }
    b.If(And(is_head(own_head), LtS(own, b.I32(kPlaces))), [&] {
      const Val at = place_of(own_head) * (4 * kTopWords);
      b.Store(tops, at + 4.0 + (own << 2), state[1]);
      b.If(Eq(own, 0), [&] { b.Store(tops, at, state[0]); });
    });
  };

  b.If(LtS(row, StepRows(step)), [&] {
    const Val count = RowPosition(step, row) + 1, chunk = ChunkPositions(w, count);
    const Val begin = split * chunk;
    b.If(LtS(begin, count), [&] { compute(begin, MinS(begin + chunk, count)); });
  });
}

int CombineThreads(int dim) {
  return dim <= 64 ? 64 : 128;
}

void EmitCombine(Builder& b, const AttentionSpec& s) {
  const AttentionOrder w(s);
  const int dim = s.kv.head_dim, threads = CombineThreads(dim);
  const Val step = b.Arg(0), sums = b.Arg(1), tops = b.Arg(2), gate = b.Arg(3), out = b.Arg(4);
  const Shared top = b.AllocShared(Type::kF32, w.splits), keep = b.AllocShared(Type::kF32, w.splits),
               add = b.AllocShared(Type::kF32, w.splits);
  Reducer over_places(b, threads, kPlaces);
  const Val head = b.BlockX(), row = b.BlockY(), thread = b.Thread();
  b.If(LtS(row, StepRows(step)), [&] {
    const Val count = RowPosition(step, row) + 1, chunk = ChunkPositions(w, count);
    const Val chunks = b.Binary(Builder::Op::kDivU, count + chunk - 1, chunk);
    const Val at = row * s.q_heads + head, place = at * w.splits;
    const Val zero = b.F32(0.f), none = b.F32(kNoScore);
    // Chunk i's greatest score, then the greatest of chunks 0..i and the scales that follow from it.
    const Val has_chunk = LtS(thread, chunks);
    const Val own_top = b.IfElse(
        has_chunk,
        [&] { return std::vector<Val>{b.Load(Type::kF32, tops, (place + thread) * (4 * kTopWords))}; },
        [&] { return std::vector<Val>{none}; })[0];
    b.If(has_chunk, [&] { b.StoreShared(top, thread, own_top); });
    b.Barrier();
    b.If(has_chunk, [&] {
      const Val before = b.For(b.I32(0), thread, b.I32(1), {none}, [&](Val i, const std::vector<Val>& high) {
        return std::vector<Val>{MaxF(high[0], b.LoadShared(top, i))};
      })[0];
      const Val highest = MaxF(before, own_top);
      b.StoreShared(keep, thread, Exp(before - highest));
      b.StoreShared(add, thread, Exp(own_top - highest));
    });
    b.Barrier();
    // The fold of words `stride` bytes apart.
    const auto fold = [&](Val base, Val first, int stride) {
      return b.For(b.I32(0), chunks, b.I32(1), {zero}, [&](Val i, const std::vector<Val>& sum) {
        const Val part = b.Load(Type::kF32, base, first + i * stride);
        return std::vector<Val>{Fma(part, b.LoadShared(add, i), sum[0] * b.LoadShared(keep, i))};
      })[0];
    };
    const Val place_sum =
        fold(tops, place * (4 * kTopWords) + 4.0 + ((thread & (kPlaces - 1)) << 2), 4 * kTopWords);
    const Val inverse = DivF(b.F32(1.f), over_places.Sum(place_sum));
    for (int d = 0; d < dim; d += threads) {
      const Val column = thread + d;
      b.If(LtS(column, b.I32(dim)), [&] {
        const Val value = fold(sums, (place * dim + column) << 2, dim * 4) * inverse;
        b.Store(out, (at * dim + column) << 2, ApplyGate(s, gate, at, column, value));
      });
    }
  });
}

}  // namespace

std::vector<Launch> SplitAttention(const AttentionSpec& s, const Dispatch& d, Expansion& expansion) {
  const Split w(s);
  const uint64_t rows = static_cast<uint64_t>(d.rows), dim = static_cast<uint64_t>(s.kv.head_dim);
  const uint64_t places = rows * static_cast<uint64_t>(s.q_heads * w.splits);
  const Arg sums = expansion.Scratch(places * dim * 4), tops = expansion.Scratch(places * kTopWords * 4);

  Launch split;
  split.name = "attention.split" + s.name();
  split.emit = [s](Builder& b) { EmitSplit(b, s); };
  split.workgroup_size = kThreads;
  split.grid[0] = static_cast<uint32_t>(w.splits);
  split.grid[1] = static_cast<uint32_t>(s.kv.kv_heads * w.blocks);
  split.grid[2] = static_cast<uint32_t>(rows);
  split.args = {StepArg(expansion),
                StepSeqsArg(expansion),
                d.arg("q"),
                Number(d.arg("kv").value),
                sums,
                tops,
                Number(std::bit_cast<uint32_t>(static_cast<float>(d.real("scale"))))};
  split.read_bytes = rows * static_cast<uint64_t>(s.q_heads) * dim * 4;
  split.write_bytes = places * (dim + kTopWords) * 4;
  split.kv_bytes = rows * static_cast<uint64_t>(w.blocks) * s.kv.token_bytes();
  // One tile a split: what a short context costs.
  split.ops = places * kTile * dim * 4;

  Launch combine;
  combine.name = "attention.combine" + s.name();
  combine.emit = [s](Builder& b) { EmitCombine(b, s); };
  combine.workgroup_size = CombineThreads(s.kv.head_dim);
  combine.grid[0] = static_cast<uint32_t>(s.q_heads);
  combine.grid[1] = static_cast<uint32_t>(rows);
  combine.args = {StepArg(expansion), sums, tops, s.gated ? d.arg("gate") : Number(0), d.arg("out")};
  combine.barrier = true;
  combine.read_bytes =
      places * (dim + kTopWords) * 4 + (s.gated ? rows * static_cast<uint64_t>(s.q_heads) * dim * 4 : 0);
  combine.write_bytes = rows * static_cast<uint64_t>(s.q_heads) * dim * 4;
  combine.ops = places * dim * 2;
  return {split, combine};
}

}  // namespace qcc::gpu
