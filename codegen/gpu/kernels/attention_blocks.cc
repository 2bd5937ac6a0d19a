// Attention of many rows. A workgroup has a block of rows with the query heads of one kv head and walks the
// cache in tiles: scores from slices of queries and keys in workgroup memory, online softmax, then slices of
// values. Eight threads share a few queries: a thread has every eighth position of a tile, and later every
// eighth column of the sums, which stay in its registers. At the end of a chunk they are folded into what the
// output holds of the chunks before; the same thread reads it again.
#include <algorithm>
#include <bit>

#include "codegen/gpu/kernels/attention.h"
#include "codegen/gpu/kernels/math.h"
#include "codegen/gpu/kernels/reduce.h"
#include "codegen/gpu/kernels/step.h"

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
// Workgroups of one block, for when each of its rows is of another sequence. In a prompt, where all are of
// one, the others end at once.
constexpr int kMaxSharers = 8;
constexpr int kUnroll = 2;  // of the inner loops: more is only size, drivers unroll by themselves

int CeilDiv(int a, int b) {
  return (a + b - 1) / b;
}

struct Block {
  Block(const AttentionSpec& s, const Profile& profile) {
    // Twice the sums must fit the registers, and without shuffles the maxima take workgroup memory.
    queries_each = s.kv.head_dim <= 128 && profile.subgroup >= kShare ? 4 : 2;
    queries = kTeams * queries_each;
    head_blocks = CeilDiv(s.group(), queries);
    heads = CeilDiv(s.group(), head_blocks);
    rows = queries / heads;
    sharers = std::min(rows, kMaxSharers);
  }
  int queries_each, queries, head_blocks, heads, rows, sharers;
};

void EmitBlock(Builder& b, const AttentionSpec& s) {
  const Block w(s, b.profile());
  const AttentionOrder order(s);
  const int dim = s.kv.head_dim, each = w.queries_each;
  const Val step = b.Arg(0), seqs = b.Arg(1), q = b.Arg(2), gate = b.Arg(3), kv_offset = b.Arg(4),
            out = b.Arg(5);
  const Val scale = b.AsF32(b.Truncate(b.Arg(6)));
  const int key_words = w.queries * kKeyStride, stage_words = key_words + kTile * kKeyStride;
  const Shared stage = b.AllocShared(Type::kF32, std::max(stage_words, kTile * kValueSlice));
  const Shared weights = b.AllocShared(Type::kF32, w.queries * kWeightStride);
  Reducer over_share(b, kThreads, kShare, each);
  const Val thread = b.Thread(), team = DivU(thread, kShare), place = RemU(thread, kShare);
  const Val own_queries = team * kKeyStride, own_keys = place * kKeyStride + key_words,
            own_weights = team * kWeightStride, own_place = own_weights + place;
  const Val row0 = b.BlockX() * w.rows;
  const Val kv_head = DivU(b.BlockY(), w.head_blocks);
  const Val first_head = kv_head * s.group() + RemU(b.BlockY(), w.head_blocks) * w.heads;
  const Val end_head = MinS(first_head + w.heads, (kv_head + 1) * s.group());
  const Val n_rows = StepRows(step);
  const Val zero = b.F32(0.f), none = b.F32(kNoScore);

  // Query number i of the block: row by row, heads within.
  struct Query {
    Val inside, row, at;  // at: row * q_heads + head
  };
  const auto query = [&](Val i) {
    const Val local = DivU(i, w.heads), row = row0 + local, head = first_head + RemU(i, w.heads);
    Query x;
    x.inside = And(And(LtS(local, b.I32(w.rows)), LtS(row, n_rows)), LtS(head, end_head));
    x.row = Select(x.inside, row, row0);
    x.at = x.row * s.q_heads + Select(x.inside, head, first_head);
    return x;
  };

  const auto compute = [&] {
    std::vector<Query> own;
    std::vector<Val> own_seq, own_end;
    for (int i = 0; i < each; ++i) {
      own.push_back(query(team + i * kTeams));
      own_seq.push_back(RowSeq(step, own[i].row));
      own_end.push_back(RowPosition(step, own[i].row) + 1);
    }
    // Staging: four elements a thread; queries in turns of kThreads / 4.
    const Val stage_row = ShrU(thread, 2), stage_at = (thread & 3) << 2;
    std::vector<Val> stage_query;
    for (int i = 0; i < w.queries; i += kThreads / 4) stage_query.push_back(query(stage_row + i).at * dim);

    // Carried, per query. Of the chunk: the greatest score, the thread's sum of weights, and its columns of
    // the sum of values. Of the chunks before: the first two (the third is in `out`). The end of the chunk.
    const int slices = CeilDiv(dim, kValueSlice), columns = dim / kShare;
    const int before = 2 + columns, chunk_end = before + 2, per_query = chunk_end + 1;
    std::vector<Val> carried(each * per_query, zero);
    std::vector<Val> chunk;
    for (int i = 0; i < each; ++i) {
      chunk.push_back(ChunkPositions(order, own_end[i]));
      carried[i * per_query] = carried[i * per_query + before] = none;
      carried[i * per_query + chunk_end] = chunk[i];
    }
    const auto out_at = [&](int i, int c) { return ((own[i].at * dim + place) << 2) + 4.0 * (c * kShare); };
    // Adds the chunk of query i to `out`; the greatest score and the sum of weights with it.
    const auto fold = [&](int i, const Val* of_query) {
      const Val top = MaxF(of_query[before], of_query[0]);
      const Val keep = Exp(of_query[before] - top), add = Exp(of_query[0] - top);
      for (int c = 0; c < columns; ++c) {
        const Val at = out_at(i, c);
        b.Store(out, at, Fma(of_query[2 + c], add, b.Load(Type::kF32, out, at) * keep));
      }
      return std::vector<Val>{top, Fma(of_query[1], add, of_query[before + 1] * keep)};
    };

    const auto pass = [&](Val seq) {
      const KvHead cache = FindKvHead(s.kv, seqs, seq, kv_offset, kv_head);
      const Val row_begin = SeqRowBegin(seqs, seq);
      const Val block_end = MinS(row0 + w.rows, n_rows);
      const Val seq_end = MinS(row_begin + SeqRowCount(seqs, seq), block_end);
      const Val count = Select(And(LtS(row_begin, seq_end), LtS(row0, seq_end)),
                               SeqPast(seqs, seq) + seq_end - row_begin, b.I32(0));
      std::vector<Val> limit;  // positions of this sequence that a query may see
      for (int i = 0; i < each; ++i) {
        limit.push_back(Select(And(own[i].inside, Eq(own_seq[i], seq)), own_end[i], b.I32(0)));
        b.For(place, Select(LtS(b.I32(0), limit[i]), b.I32(dim), b.I32(0)), b.I32(kShare),
              [&](Val column) { b.Store(out, (own[i].at * dim + column) << 2, zero); });
      }

      const auto tile = [&](Val t0, const std::vector<Val>& state_before) {
        std::vector<Val> state = state_before;
        const Val key_row = MinS(t0 + stage_row, count - 1) * dim;
        // Pieces `piece` and, in the slice's other half, `other` of queries and keys.
        const auto stage_slice = [&](Val piece, Val other) {
          const Val d =
              (Select(LtS(stage_at, b.I32(kPiece)), piece, other) * kPiece) + (stage_at & (kPiece - 1));
          const bool full = order.parts * order.owned == dim;
          const Val at = full ? d : MinS(d, b.I32(dim - 4)), inside = LtS(d, b.I32(dim));
          const std::vector<Val> key = LoadKv(s.kv, cache.keys, key_row + at, 4);
          std::vector<Val> queries;
          for (const Val& row : stage_query) queries.push_back(b.Load(Type::kF32x4, q, (row + at) << 2));
          b.Barrier();
          for (int c = 0; c < 4; ++c) {
            const Val to = stage_row * kKeyStride + stage_at + c;
            b.StoreShared(stage, to + static_cast<double>(key_words),
                          full ? key[c] : Select(inside, key[c], zero));
            for (size_t i = 0; i < queries.size(); ++i) {
              const Val x = b.Extract(queries[i], c) * scale;
              b.StoreShared(stage, to + static_cast<double>(i * (kThreads / 4) * kKeyStride),
                            full ? x : Select(inside, x, zero));
            }
          }
          b.Barrier();
        };
        // Adds the products of elements [first, end) of the slice.
        const auto dot_slice = [&](int first, int end, const std::vector<Val>& so_far) {
          return b.For(b.I32(first), b.I32(end), b.I32(kUnroll), so_far,
                       [&](Val e0, const std::vector<Val>& sums) {
                         std::vector<Val> dot = sums;
                         const Val q_at = own_queries + e0, k_at = own_keys + e0;
                         for (int e = 0; e < kUnroll; ++e) {
                           std::vector<Val> k;
                           for (int j = 0; j < kSpan; ++j)
                             k.push_back(b.LoadShared(stage, k_at + (j * kShare * kKeyStride + e)));
                           for (int i = 0; i < each; ++i) {
                             const Val x = b.LoadShared(stage, q_at + (i * kTeams * kKeyStride + e));
                             for (int j = 0; j < kSpan; ++j)
                               dot[i * kSpan + j] = Fma(x, k[j], dot[i * kSpan + j]);
                           }
                         }
                         return dot;
                       });
        };
        const std::vector<Val> none_yet(each * kSpan, zero);
        const auto add = [](std::vector<Val> sums, const std::vector<Val>& part) {
          for (size_t i = 0; i < sums.size(); ++i) sums[i] = sums[i] + part[i];
          return sums;
        };
        // A slice has two pieces of one part, or where a part is one piece, two parts.
        const int part_pieces = order.owned / kPiece;
        const std::vector<Val> score = b.For(
            b.I32(0), b.I32(order.parts), b.I32(part_pieces == 1 ? 2 : 1), none_yet,
            [&](Val part, const std::vector<Val>& sums) {
              if (part_pieces == 1) {
                stage_slice(part, part + 1);
                return add(add(sums, dot_slice(0, kPiece, none_yet)), dot_slice(kPiece, kKeySlice, none_yet));
              }
              const auto pair = [&](Val piece, const std::vector<Val>& so_far) {
                stage_slice(piece, piece + order.parts);
                return dot_slice(0, kKeySlice, so_far);
              };
              if (part_pieces == 2) return add(sums, pair(part, none_yet));
              return add(sums, b.For(part, part + part_pieces * order.parts, b.I32(2 * order.parts), none_yet,
                                     pair));
            });

        std::vector<Val> top(each, none);
        std::vector<Val> seen(each * kSpan);
        for (int i = 0; i < each; ++i) {
          for (int j = 0; j < kSpan; ++j) {
            seen[i * kSpan + j] = LtS(t0 + place + j * kShare, limit[i]);
            top[i] = MaxF(top[i], Select(seen[i * kSpan + j], score[i * kSpan + j], none));
          }
        }
        top = over_share(Reduction::kMax, top);
        std::vector<Val> sum(each, zero);
        for (int i = 0; i < each; ++i) {
          top[i] = MaxF(top[i], state[i * per_query]);
          for (int j = 0; j < kSpan; ++j) {
            const Val below = Select(seen[i * kSpan + j], score[i * kSpan + j] - top[i], none);
            b.StoreShared(weights, own_place + (i * kTeams * kWeightStride + j * kShare), below);
          }
        }
        // A thread's own places. A loop, because exp is long.
        sum = b.For(own_place, own_place + kTile, b.I32(kShare), sum, [&](Val at, std::vector<Val> so_far) {
          for (int i = 0; i < each; ++i) {
            const Val place_of_query = at + i * kTeams * kWeightStride;
            const Val weight = Exp(b.LoadShared(weights, place_of_query));
            b.StoreShared(weights, place_of_query, weight);
            so_far[i] = so_far[i] + weight;
          }
          return so_far;
        });
        for (int i = 0; i < each; ++i) {
          Val* of_query = &state[i * per_query];
          // Nothing seen: keep is exp(0) = 1 and all weights are 0.
          const Val keep = Exp(of_query[0] - top[i]);
          of_query[0] = top[i];
          of_query[1] = of_query[1] * keep + sum[i];
          for (int c = 0; c < columns; ++c) of_query[2 + c] = of_query[2 + c] * keep;
        }

        const Val value_row = ShrU(thread, 3), value_at = (thread & 7) << 2;
        const Val value_to = value_row * kValueSlice + value_at;
        std::vector<Val> value_from;
        for (int r = 0; r < kTile; r += kThreads / kShare) {
          value_from.push_back(MinS(t0 + value_row + r, count - 1) * dim);
        }
        for (int slice_number = 0; slice_number < slices; ++slice_number) {
          const int first = slice_number * kValueSlice, width = std::min(kValueSlice, dim - first);
          const int span = width / kShare;
          std::vector<std::vector<Val>> loaded;
          const Val column = (width == kValueSlice ? value_at : MinS(value_at, b.I32(width - 4))) + first;
          for (const Val& from : value_from) loaded.push_back(LoadKv(s.kv, cache.values, from + column, 4));
          b.Barrier();
          for (int r = 0; r < kTile; r += kThreads / kShare) {
            const std::vector<Val>& v = loaded[r / (kThreads / kShare)];
            for (int c = 0; c < 4; ++c) {
              b.StoreShared(stage, value_to + (r * kValueSlice + c), v[c]);
            }
          }
          b.Barrier();
          std::vector<Val> sums;
          for (int i = 0; i < each; ++i) {
            for (int c = 0; c < span; ++c)
              sums.push_back(state[i * per_query + 2 + slice_number * kSpan + c]);
          }
          sums = b.For(b.I32(0), b.I32(kTile), b.I32(kUnroll), sums,
                       [&](Val j0, const std::vector<Val>& so_far) {
                         std::vector<Val> sum = so_far;
                         const Val v_at = j0 * kValueSlice + place, p_at = own_weights + j0;
                         for (int j = 0; j < kUnroll; ++j) {
                           std::vector<Val> v;
                           for (int c = 0; c < span; ++c)
                             v.push_back(b.LoadShared(stage, v_at + (j * kValueSlice + c * kShare)));
                           for (int i = 0; i < each; ++i) {
                             const Val p = b.LoadShared(weights, p_at + (i * kTeams * kWeightStride + j));
                             for (int c = 0; c < span; ++c)
                               sum[i * span + c] = Fma(p, v[c], sum[i * span + c]);
                           }
                         }
                         return sum;
                       });
          for (int i = 0; i < each; ++i) {
            for (int c = 0; c < span; ++c)
              state[i * per_query + 2 + slice_number * kSpan + c] = sums[i * span + c];
          }
        }
        for (int i = 0; i < each; ++i) {
          Val* of_query = &state[i * per_query];
          // At the end of a chunk, and of what the query may see; never for a query of another sequence.
          const Val done = And(LtS(t0, limit[i]), LtS(MinS(of_query[chunk_end], limit[i]), t0 + (kTile + 1)));
          const std::vector<Val> sums = b.IfElse(
              done, [&] { return fold(i, of_query); },
              [&] {
                return std::vector<Val>{of_query[before], of_query[before + 1]};
              });
          of_query[before] = sums[0];
          of_query[before + 1] = sums[1];
          of_query[0] = Select(done, none, of_query[0]);
          for (int c = 1; c < before; ++c) of_query[c] = Select(done, zero, of_query[c]);
          of_query[chunk_end] = Select(done, of_query[chunk_end] + chunk[i], of_query[chunk_end]);
        }
        return state;
      };
      const std::vector<Val> state = b.For(b.I32(0), count, b.I32(kTile), carried, tile);
      std::vector<Val> totals;
      for (int i = 0; i < each; ++i) totals.push_back(state[i * per_query + before + 1]);
      totals = over_share(Reduction::kSum, totals);
      for (int i = 0; i < each; ++i) {
        b.If(LtS(b.I32(0), limit[i]), [&] {
          const Val inverse = DivF(b.F32(1.f), totals[i]);
          // A loop: a gate's exp for every column would be most of the kernel.
          b.For(place, b.I32(dim), b.I32(kShare), [&](Val column) {
            const Val at = (own[i].at * dim + column) << 2;
            const Val value = b.Load(Type::kF32, out, at) * inverse;
            b.Store(out, at, ApplyGate(s, gate, own[i].at, column, value));
          });
        });
      }
    };

    // The block's rows may belong to several sequences: one pass over the cache of each, which writes only
    // that sequence's rows. The workgroups of a block share the passes.
    const Val last_row = MinS(row0 + w.rows, n_rows) - 1;
    b.For(RowSeq(step, row0) + b.BlockZ(), RowSeq(step, last_row) + 1, b.I32(w.sharers), pass);
  };
  b.If(LtS(row0, n_rows), compute);
}

}  // namespace

std::vector<Launch> BlockAttention(const AttentionSpec& s, const Dispatch& d, Expansion& expansion) {
  const Block w(s, expansion.profile());
  const int row_blocks = CeilDiv(static_cast<int>(d.rows), w.rows);
  const uint64_t rows = static_cast<uint64_t>(d.rows), dim = static_cast<uint64_t>(s.kv.head_dim);
  const uint64_t heads = static_cast<uint64_t>(s.q_heads);
  Launch launch;
  launch.name = "attention.block" + s.name();
  launch.emit = [s](Builder& b) { EmitBlock(b, s); };
  launch.workgroup_size = kThreads;
  launch.grid[0] = static_cast<uint32_t>(row_blocks);
  launch.grid[1] = static_cast<uint32_t>(s.kv.kv_heads * w.head_blocks);
  launch.grid[2] = static_cast<uint32_t>(w.sharers);
  launch.args = {StepArg(expansion),
                 StepSeqsArg(expansion),
                 d.arg("q"),
                 s.gated ? d.arg("gate") : Number(0),
                 Number(d.arg("kv").value),
                 d.arg("out"),
                 Number(std::bit_cast<uint32_t>(static_cast<float>(d.real("scale"))))};
  launch.read_bytes = rows * heads * dim * 4 * (s.gated ? 2 : 1);
  launch.write_bytes = rows * heads * dim * 4;
  launch.kv_bytes = static_cast<uint64_t>(row_blocks * w.head_blocks) * s.kv.token_bytes();
  // Of a prompt that the bucket holds; a longer context costs by kv_bytes.
  launch.ops = rows * rows / 2 * heads * dim * 4;
  return {launch};
}

}  // namespace qcc::gpu
