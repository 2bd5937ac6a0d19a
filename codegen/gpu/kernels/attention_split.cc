// Attention of a few rows. The cache's tiles are dealt to `splits` workgroups per row and block of query
// heads, tile i to split i modulo splits; each leaves its greatest score, the sum of its weights and their
// sum of values. What a split gets depends on the row's position only.
#include <algorithm>
#include <bit>

#include "codegen/gpu/kernels/attention.h"
#include "codegen/gpu/kernels/math.h"
#include "codegen/gpu/kernels/reduce.h"
#include "codegen/gpu/kernels/step.h"

namespace qcc::gpu {
namespace {

constexpr int kThreads = 128;
constexpr int kPiece = 8;  // elements of the cache that a thread loads at once
constexpr int kTile = kAttentionTile;
// Query values that a thread may keep in registers, and heads of which it may keep a sum.
constexpr int kMaxOwned = 64, kMaxHeads = 8;
// Without shuffles each head's score is summed in workgroup memory: that many heads keep the kernel small.
constexpr int kMaxHeadsNoShuffle = 4;

int CeilDiv(int a, int b) {
  return (a + b - 1) / b;
}
int PowerOfTwo(int n) {
  return static_cast<int>(std::bit_ceil(static_cast<unsigned>(n)));
}

// How the threads of a workgroup share the work on a tile.
struct Split {
  Split(const AttentionSpec& s, const Profile& profile) {
    blocks = CeilDiv(s.group(), profile.subgroup ? kMaxHeads : kMaxHeadsNoShuffle);
    heads = CeilDiv(s.group(), blocks);
    splits = s.kv.kv_heads * blocks <= 4 ? 32 : 16;
    // Scores: `parts` threads have a position, each `owned` of its elements in pieces parts apart.
    owned = kPiece;
    while (2 * owned * heads <= kMaxOwned && 2 * owned <= s.kv.head_dim) owned *= 2;
    parts = std::max(PowerOfTwo(CeilDiv(s.kv.head_dim, owned)), kThreads / kTile);
    at_once = kThreads / parts;
    // Values: `columns` threads have the columns of one of `lanes` positions, a piece each.
    columns = std::max(PowerOfTwo(s.kv.head_dim / kPiece), kThreads / kTile);
    lanes = kThreads / columns;
  }
  int blocks, heads, splits, owned, parts, at_once, columns, lanes;
};

void EmitSplit(Builder& b, const AttentionSpec& s) {
  const Split w(s, b.profile());
  const int dim = s.kv.head_dim, heads = w.heads;
  const Val step = b.Arg(0), seqs = b.Arg(1), q = b.Arg(2), kv_offset = b.Arg(3), sums = b.Arg(4),
            tops = b.Arg(5);
  const Val scale = b.AsF32(b.Truncate(b.Arg(6)));
  const Shared scores = b.AllocShared(Type::kF32, heads * kTile);
  const Shared weights = b.AllocShared(Type::kF32, heads * kTile);
  const Shared peaks = b.AllocShared(Type::kF32, heads * w.at_once);
  const Shared partial = b.AllocShared(Type::kF32, kThreads * kPiece);
  const Shared totals = b.AllocShared(Type::kF32, w.lanes);
  Reducer over_parts(b, kThreads, w.parts, heads);
  const Val split = b.BlockX(), row = b.BlockZ(), thread = b.Thread();
  const Val kv_head = DivU(b.BlockY(), w.blocks);
  const Val first_head = kv_head * s.group() + RemU(b.BlockY(), w.blocks) * heads;
  const Val end_head = (kv_head + 1) * s.group();
  const Val zero = b.F32(0.f), none = b.F32(kNoScore);

  const auto compute = [&](Val count) {
    const KvHead cache = FindKvHead(s.kv, seqs, RowSeq(step, row), kv_offset, kv_head);
    // The last block of heads may be short; what it computes twice is not written.
    const auto query_at = [&](int head) {
      return row * s.q_heads + (w.blocks == 1 ? first_head + head : MinS(first_head + head, end_head - 1));
    };

    const Val part = RemU(thread, w.parts), position = DivU(thread, w.parts);
    std::vector<Val> piece_at;                   // elements
    std::vector<std::vector<Val>> query(heads);  // [head][owned]
    for (int i = 0; i < w.owned; i += kPiece) {
      const Val at = part * kPiece + i * w.parts;
      const bool full = (w.parts * (i + kPiece)) <= dim;
      const Val inside = LtS(at, b.I32(dim));
      piece_at.push_back(full ? at : MinS(at, b.I32(dim - kPiece)));
      for (int g = 0; g < heads; ++g) {
        for (int c = 0; c < kPiece; c += 4) {
          const Val quad = b.Load(Type::kF32x4, q, (query_at(g) * dim + piece_at.back() + c) << 2);
          for (int e = 0; e < 4; ++e) {
            const Val x = b.Extract(quad, e) * scale;
            query[g].push_back(full ? x : Select(inside, x, zero));
          }
        }
      }
    }

    const Val column = RemU(thread, w.columns), lane = DivU(thread, w.columns);
    const Val column_at = MinS(column << 3, b.I32(dim - kPiece));
    const Val last = count - 1;

    // Carried: per head the greatest score so far, the lane's sum of weights, and its sum of values.
    constexpr int kCarried = 2 + kPiece;
    std::vector<Val> carried(heads * kCarried, zero);
    for (int g = 0; g < heads; ++g) carried[g * kCarried] = none;
    const auto tile = [&](Val t0, const std::vector<Val>& before) {
      std::vector<Val> state = before;
      std::vector<Val> peak(heads, none);
      const auto score = [&](Val j, std::vector<Val> high) {
        const Val at = t0 + j;
        const Val base = MinS(at, last) * dim;
        std::vector<Val> dot(heads, zero);
        for (size_t i = 0; i < piece_at.size(); ++i) {
          const std::vector<Val> k = LoadKv(s.kv, cache.keys, base + piece_at[i], kPiece);
          for (int c = 0; c < kPiece; ++c) {
            for (int g = 0; g < heads; ++g) dot[g] = Fma(query[g][i * kPiece + c], k[c], dot[g]);
          }
        }
        dot = over_parts(Reduction::kSum, dot);
        const Val seen = LtS(at, count);
        for (int g = 0; g < heads; ++g) {
          dot[g] = Select(seen, dot[g], none);
          high[g] = MaxF(high[g], dot[g]);
        }
        b.If(Eq(part, 0), [&] {
          for (int g = 0; g < heads; ++g) b.StoreShared(scores, j + static_cast<double>(g * kTile), dot[g]);
        });
        return high;
      };
      // Two turns at a time, where they fit: their loads overlap.
      const int turns = heads <= 4 && 2 * w.at_once <= kTile ? 2 : 1;
      peak = b.For(b.I32(0), b.I32(kTile), b.I32(turns * w.at_once), peak,
                   [&](Val j, const std::vector<Val>& high) {
                     const std::vector<Val> next = score(position + j, high);
                     return turns == 1 ? next : score(position + j + w.at_once, next);
                   });
      b.If(Eq(part, 0), [&] {
        for (int g = 0; g < heads; ++g) {
          b.StoreShared(peaks, position + static_cast<double>(g * w.at_once), peak[g]);
        }
      });
      b.Barrier();

      // A first tile's keep is exp of a hugely negative number: 0.
      std::vector<Val> top(heads), keep(heads);
      for (int g = 0; g < heads; ++g) top[g] = state[g * kCarried];
      top = b.For(b.I32(0), b.I32(w.at_once), b.I32(1), top, [&](Val i, std::vector<Val> high) {
        for (int g = 0; g < heads; ++g) {
          high[g] = MaxF(high[g], b.LoadShared(peaks, i + static_cast<double>(g * w.at_once)));
        }
        return high;
      });
      for (int g = 0; g < heads; ++g) {
        keep[g] = Exp(state[g * kCarried] - top[g]);
        state[g * kCarried] = top[g];
      }
      // A thread makes the weight of one position of every fourth head.
      constexpr int kHeadsAtOnce = kThreads / kTile;
      const Val own_head = DivU(thread, kTile);
      for (int g0 = 0; g0 < heads; g0 += kHeadsAtOnce) {
        Val own_top = top[g0];
        const int n = std::min(kHeadsAtOnce, heads - g0);
        for (int g = 1; g < n; ++g) own_top = Select(Eq(own_head, g), top[g0 + g], own_top);
        b.If(LtS(own_head, b.I32(n)), [&] {
          const Val at = thread + static_cast<double>(g0 * kTile);
          b.StoreShared(weights, at, Exp(b.LoadShared(scores, at) - own_top));
        });
      }
      b.Barrier();

      for (int g = 0; g < heads; ++g) {
        for (int c = 1; c < kCarried; ++c) state[g * kCarried + c] = state[g * kCarried + c] * keep[g];
      }
      const auto add = [&](Val j, std::vector<Val> sum) {
        const std::vector<Val> v = LoadKv(s.kv, cache.values, MinS(t0 + j, last) * dim + column_at, kPiece);
        for (int g = 0; g < heads; ++g) {
          const Val p = b.LoadShared(weights, j + static_cast<double>(g * kTile));
          sum[g * kCarried + 1] = sum[g * kCarried + 1] + p;
          for (int c = 0; c < kPiece; ++c)
            sum[g * kCarried + 2 + c] = Fma(p, v[c], sum[g * kCarried + 2 + c]);
        }
        return sum;
      };
      const int rounds = heads <= 4 && 2 * w.lanes <= kTile ? 2 : 1;
      return b.For(b.I32(0), b.I32(kTile), b.I32(rounds * w.lanes), state,
                   [&](Val j, const std::vector<Val>& sum) {
                     const std::vector<Val> next = add(lane + j, sum);
                     return rounds == 1 ? next : add(lane + j + w.lanes, next);
                   });
    };
    const std::vector<Val> state = b.For(split * kTile, count, b.I32(w.splits * kTile), carried, tile);

    // The lanes' sums, in order of lanes.
    const auto sum_lanes = [&](const Shared& from, Val first, int stride) {
      return b.For(b.I32(1), b.I32(w.lanes), b.I32(1), {b.LoadShared(from, first)},
                   [&](Val lane, const std::vector<Val>& sum) {
                     return std::vector<Val>{sum[0] + b.LoadShared(from, first + lane * stride)};
                   })[0];
    };
    for (int g = 0; g < heads; ++g) {
      for (int c = 0; c < kPiece; ++c) {
        b.StoreShared(partial, thread + static_cast<double>(c * kThreads), state[g * kCarried + 2 + c]);
      }
      b.If(Eq(column, 0), [&] { b.StoreShared(totals, lane, state[g * kCarried + 1]); });
      b.Barrier();
      const auto write = [&] {
        const Val place = query_at(g) * w.splits + split;
        for (int d = 0; d < dim; d += kThreads) {
          const Val at = thread + d;
          b.If(LtS(at, b.I32(dim)), [&] {
            const Val from = (at & (kPiece - 1)) * kThreads + ShrU(at, 3);
            b.Store(sums, (place * dim + at) << 2, sum_lanes(partial, from, w.columns));
          });
        }
        b.If(Eq(thread, 0), [&] {
          b.Store(tops, place << 3, b.Vector({state[g * kCarried], sum_lanes(totals, b.I32(0), 1)}));
        });
      };
      if (w.blocks == 1) {
        write();
      } else {
        b.If(LtS(first_head + g, end_head), write);
      }
      b.Barrier();
    }
  };

  b.If(LtS(row, StepRows(step)), [&] {
    const Val count = RowPosition(step, row) + 1;
    b.If(LtS(split * kTile, count), [&] { compute(count); });
  });
}

int CombineThreads(int dim) {
  return dim <= 64 ? 64 : 128;
}

void EmitCombine(Builder& b, const AttentionSpec& s) {
  const Split w(s, b.profile());
  const int dim = s.kv.head_dim, threads = CombineThreads(dim);
  const Val step = b.Arg(0), sums = b.Arg(1), tops = b.Arg(2), gate = b.Arg(3), out = b.Arg(4);
  const Shared top = b.AllocShared(Type::kF32, w.splits), weight = b.AllocShared(Type::kF32, w.splits),
               total = b.AllocShared(Type::kF32, w.splits);
  const Val head = b.BlockX(), row = b.BlockY(), thread = b.Thread();
  b.If(LtS(row, StepRows(step)), [&] {
    const Val tiles = ShrU(RowPosition(step, row) + kTile, 5);
    static_assert(kTile == 32);
    const Val active = MinS(tiles, b.I32(w.splits));
    const Val at = row * s.q_heads + head, place = at * w.splits;
    // Splits that had nothing left nothing: their weight is 0.
    const std::vector<Val> own = b.IfElse(
        LtS(thread, active),
        [&] {
          const Val pair = b.Load(Type::kF32x2, tops, (place + thread) << 3);
          return std::vector<Val>{b.Extract(pair, 0), b.Extract(pair, 1)};
        },
        [&] {
          return std::vector<Val>{b.F32(kNoScore), b.F32(0.f)};
        });
    const Val is_split = LtS(thread, b.I32(w.splits));
    b.If(is_split, [&] { b.StoreShared(top, thread, own[0]); });
    b.Barrier();
    Val highest = b.LoadShared(top, b.I32(0));
    for (int i = 1; i < w.splits; ++i) highest = MaxF(highest, b.LoadShared(top, b.I32(i)));
    const Val share = Exp(own[0] - highest);
    b.If(is_split, [&] {
      b.StoreShared(weight, thread, share);
      b.StoreShared(total, thread, share * own[1]);
    });
    b.Barrier();
    Val sum = b.LoadShared(total, b.I32(0));
    for (int i = 1; i < w.splits; ++i) sum = sum + b.LoadShared(total, b.I32(i));
    const Val inverse = DivF(b.F32(1.f), sum);
    for (int d = 0; d < dim; d += threads) {
      const Val column = thread + d;
      b.If(LtS(column, b.I32(dim)), [&] {
        const Val value =
            b.For(b.I32(0), active, b.I32(1), {b.F32(0.f)}, [&](Val i, const std::vector<Val>& c) {
              const Val part = b.Load(Type::kF32, sums, ((place + i) * dim + column) << 2);
              return std::vector<Val>{Fma(b.LoadShared(weight, i), part, c[0])};
            })[0];
        b.Store(out, (at * dim + column) << 2, ApplyGate(s, gate, at, column, value * inverse));
      });
    }
  });
}

}  // namespace

std::vector<Launch> SplitAttention(const AttentionSpec& s, const Dispatch& d, Expansion& expansion) {
  const Split w(s, expansion.profile());
  const uint64_t rows = static_cast<uint64_t>(d.rows), dim = static_cast<uint64_t>(s.kv.head_dim);
  const uint64_t places = rows * static_cast<uint64_t>(s.q_heads * w.splits);
  const Arg sums = expansion.Scratch(places * dim * 4), tops = expansion.Scratch(places * 8);

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
  split.write_bytes = places * (dim + 2) * 4;
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
      places * (dim + 2) * 4 + (s.gated ? rows * static_cast<uint64_t>(s.q_heads) * dim * 4 : 0);
  combine.write_bytes = rows * static_cast<uint64_t>(s.q_heads) * dim * 4;
  combine.ops = places * dim * 2;
  return {split, combine};
}

}  // namespace qcc::gpu
