#include "codegen/gpu/kernels/attention_rows.h"

#include <algorithm>

#include "codegen/gpu/kernels/math.h"

namespace qcc::gpu {
namespace {

// Workgroups of one block, for when each of its rows is of another sequence. In a prompt, where all are of
// one, the others end at once.
constexpr int kMaxSharers = 8;

}  // namespace

RowBlock::RowBlock(const AttentionSpec& s, int threads, int queries) : threads(threads), queries(queries) {
  teams = threads / kAttentionPlaces;
  each = queries / teams;
  head_blocks = CeilDiv(s.group(), queries);
  heads = CeilDiv(s.group(), head_blocks);
  rows = queries / heads;
  sharers = std::min(rows, kMaxSharers);
}

void RowBlockKernel::Emit() {
  b_.If(LtS(row0_, n_rows_), [&] {
    // The block's rows may belong to several sequences: one pass over the cache of each, which writes only
    // that sequence's rows. The workgroups of a block share the passes; one without any loads nothing.
    const Val last_row = MinS(row0_ + w_.rows, n_rows_) - 1;
    const Val begin = RowSeq(args_.step, row0_) + b_.BlockZ(), end = RowSeq(args_.step, last_row) + 1;
    b_.If(LtS(begin, end), [&] {
      b_.If(Eq(thread_, 0), [&] { b_.StoreShared(zeroed_, b_.I32(0), b_.I32(0)); });
      Prepare();
      b_.For(begin, end, b_.I32(w_.sharers), [&](Val seq) { Pass(WalkOf(seq)); });
    });
  });
}

// Row by row, heads within.
RowBlockKernel::Query RowBlockKernel::QueryOf(Val number) const {
  const Val local = DivU(number, w_.heads), row = row0_ + local, head = first_head_ + RemU(number, w_.heads);
  Query x;
  x.inside = And(And(LtS(local, b_.I32(w_.rows)), LtS(row, n_rows_)), LtS(head, end_head_));
  x.row = Select(x.inside, row, row0_);
  x.at = x.row * s_.q_heads + Select(x.inside, head, first_head_);
  return x;
}

RowBlockKernel::Walk RowBlockKernel::WalkOf(Val seq) const {
  const Val row_begin = SeqRowBegin(args_.seqs, seq);
  const Val block_end = MinS(row0_ + w_.rows, n_rows_);
  const Val seq_end = MinS(row_begin + SeqRowCount(args_.seqs, seq), block_end);
  return {seq, FindKvHead(s_.kv, args_.seqs, seq, args_.kv, kv_head_),
          Select(And(LtS(row_begin, seq_end), LtS(row0_, seq_end)),
                 SeqPast(args_.seqs, seq) + seq_end - row_begin, b_.I32(0))};
}

// Of a query that may see `limit` positions: whether a value for which 0 was taken is among them.
Val RowBlockKernel::SeesNoNumber(const Walk& walk, Val limit, Val column) const {
  return b_.For(MaxS(LeastSeen(walk), b_.I32(0)), limit, b_.I32(1), {b_.I32(0)},
                [&](Val position, const std::vector<Val>& so_far) -> std::vector<Val> {
                  const std::vector<Val> pair =
                      LoadKv(s_.kv, walk.cache.values, position * dim_ + (column & -2), 2);
                  const Val value = Select(Eq(column & 1, 0), pair[0], pair[1]);
                  return {Select(IsNoNumber(value), b_.I32(1), so_far[0])};
                })[0];
}

Val RowBlockKernel::EndsChunk(Val limit, Val t0, Val chunk_end) const {
  return And(LtS(t0, limit), LtS(MinS(chunk_end, limit), t0 + (kAttentionTile + 1)));
}

RowBlockKernel::ChunkScales RowBlockKernel::ScalesOf(Val kept_top, Val chunk_top) const {
  const Val top = MaxF(kept_top, chunk_top);
  return {top, Exp(kept_top - top), Exp(chunk_top - top)};
}

void RowBlockKernel::FinishQuery(const Walk& walk, Val limit, Val at, Val total) const {
  b_.If(LtS(b_.I32(0), limit), [&] {
    const Val inverse = DivF(b_.F32(1.f), total);
    const Val zeroed_end = Select(Eq(b_.LoadShared(zeroed_, b_.I32(0)), 0), b_.I32(0), limit);
    // A loop: a gate's exp for every column would be most of the kernel.
    b_.For(place_, b_.I32(dim_), b_.I32(kAttentionPlaces), [&](Val column) {
      const Val to = (at * dim_ + column) << 2;
      const Val none = SeesNoNumber(walk, zeroed_end, column);
      const Val sum = b_.Load(Type::kF32, args_.out, to);
      const Val value = Select(Eq(none, 0), sum, b_.AsF32(b_.I32(0x7fc00000))) * inverse;
      b_.Store(args_.out, to, ApplyGate(s_, args_.gate, at, column, value));
    });
  });
}

std::vector<Launch> BlockAttention(const AttentionSpec& s, const Dispatch<plan::AttentionSpec>& d,
                                   Expansion& expansion) {
  const BlockForm form =
      OnMatrixUnits(s, expansion.profile()) ? MatrixBlockForm(s) : FloatBlockForm(s, expansion.profile());
  const RowBlock& w = form.block;
  const int row_blocks = CeilDiv(static_cast<int>(d.rows), w.rows);
  const uint64_t rows = static_cast<uint64_t>(d.rows), dim = static_cast<uint64_t>(s.kv.head_dim);
  const uint64_t heads = static_cast<uint64_t>(s.q_heads);
  Launch launch;
  launch.name = form.name + s.name();
  launch.emit = form.emit;
  launch.workgroup_size = w.threads;
  launch.grid[0] = static_cast<uint32_t>(row_blocks);
  launch.grid[1] = static_cast<uint32_t>(s.kv.kv_heads * w.head_blocks);
  launch.grid[2] = static_cast<uint32_t>(w.sharers);
  launch.args = ListArgs<BlockArgs>({.step = StepArg(expansion),
                                     .seqs = StepSeqsArg(expansion),
                                     .q = *d.bindings.q,
                                     .gate = s.gated ? *d.bindings.gate : Number(0),
                                     .kv = Number(d.bindings.kv->value),
                                     .out = *d.bindings.out,
                                     .scale = FloatNumber(d.spec.scale)});
  launch.read_bytes = rows * heads * dim * 4 * (s.gated ? 2 : 1);
  launch.write_bytes = rows * heads * dim * 4;
  launch.kv_bytes = static_cast<uint64_t>(row_blocks * w.head_blocks) * s.kv.token_bytes();
  // Of a prompt that the bucket holds; a longer context costs by kv_bytes.
  launch.ops = rows * rows / 2 * heads * dim * 4;
  return {launch};
}

}  // namespace qcc::gpu
