// What the kernels of attention of many rows share. A workgroup has a block of rows with the query heads of
// one kv head and walks the cache in tiles. kAttentionPlaces threads share a few queries' scores: a thread
// carries of each the greatest score and the sum of its weights. At the end of a chunk the sums of values are
// folded into what the output holds of the chunks before.
#ifndef QCC_CODEGEN_GPU_KERNELS_ATTENTION_ROWS_H_
#define QCC_CODEGEN_GPU_KERNELS_ATTENTION_ROWS_H_

#include <functional>
#include <string>
#include <vector>

#include "codegen/gpu/kernels/attention.h"
#include "codegen/gpu/kernels/kernel_args.h"
#include "codegen/gpu/kernels/reduce.h"
#include "codegen/gpu/kernels/step.h"

namespace qcc::gpu {

// How a workgroup of `threads` threads has `queries` queries.
struct RowBlock {
  RowBlock(const AttentionSpec& s, int threads, int queries);
  int threads, queries;
  int teams, each;  // threads that share queries, and queries of a thread
  int head_blocks, heads, rows;
  int sharers;  // workgroups of one block
};

// A kernel of them.
struct BlockForm {
  std::string name;
  RowBlock block;
  std::function<void(Builder&)> emit;
};
BlockForm FloatBlockForm(const AttentionSpec& s, const Profile& profile);
BlockForm MatrixBlockForm(const AttentionSpec& s);

template <typename T>
struct BlockArgs {
  T step, seqs, q, gate, kv, out, scale;
};

class RowBlockKernel {
 public:
  void Emit();

 protected:
  struct Query {
    Val inside, row, at;  // at: row * q_heads + head
  };
  // A walk along the cache of one sequence.
  struct Walk {
    Val seq;
    KvHead cache;
    Val count;  // positions
  };
  // The greatest score of all chunks with one more, and the scales of those before and of it.
  struct ChunkScales {
    Val top, keep, add;
  };

  RowBlockKernel(Builder& b, const AttentionSpec& s, const RowBlock& block) : b_(b), s_(s), w_(block) {}
  virtual ~RowBlockKernel() = default;
  // Once, by all threads.
  virtual void Prepare() = 0;
  // Of each sequence of the block; leaves its queries' sums of values in `out`, and finishes them.
  virtual void Pass(const Walk& walk) = 0;

  Query QueryOf(Val number) const;
  // Positions that a query of `seq` at `position` may see on the walk.
  Val LimitOf(const Walk& walk, const Query& query, Val seq, Val position) const {
    return Select(And(query.inside, Eq(seq, walk.seq)), position + 1, b_.I32(0));
  }
  // Whether with the tile at t0 ends a chunk, or what the query may see; never for a query of another
  // sequence, whose limit is 0.
  Val EndsChunk(Val limit, Val t0, Val chunk_end) const;
  ChunkScales ScalesOf(Val kept_top, Val chunk_top) const;
  // The thread's part of query `at`, row * q_heads + head, whose sum of weights is `total`; none where limit
  // is 0.
  void FinishQuery(const Walk& walk, Val limit, Val at, Val total) const;

  // Weight 0 times no number is none: infinities and NaN among the values go into no product where a row of
  // the walk may not see them, which are positions from LeastSeen on. There 0 is taken for them, and
  // FinishQuery makes NaN of what sees one. No register along the walk for it: it follows from the count.
  Val LeastSeen(const Walk& walk) const { return walk.count - (w_.rows - 1); }
  // Whether the tile at t0 has such positions.
  Val IsPartlySeen(const Walk& walk, Val t0) const { return LtS(LeastSeen(walk), t0 + kAttentionTile); }
  // By a thread that took 0 for any.
  void NoteZeroed() const { b_.AtomicMaxSharedU(zeroed_, b_.I32(0), b_.I32(1)); }

  Builder& b_;
  const AttentionSpec& s_;
  const RowBlock w_;
  const AttentionOrder order_{s_};
  const int dim_ = s_.kv.head_dim, each_ = w_.each;
  const BlockArgs<Val> args_ = ReadArgs<BlockArgs>(b_);
  const Val scale_ = FloatOf(args_.scale);
  Reducer over_share_{b_, w_.threads, kAttentionPlaces, each_};
  const Val thread_ = b_.Thread(), team_ = DivU(thread_, kAttentionPlaces),
            place_ = RemU(thread_, kAttentionPlaces);
  const Val row0_ = b_.BlockX() * w_.rows;
  const Val kv_head_ = DivU(b_.BlockY(), w_.head_blocks);
  const Val first_head_ = kv_head_ * s_.group() + RemU(b_.BlockY(), w_.head_blocks) * w_.heads;
  const Val end_head_ = MinS(first_head_ + w_.heads, (kv_head_ + 1) * s_.group());
  const Val n_rows_ = StepRows(args_.step);
  const Val zero_ = b_.F32(0.f), none_ = b_.F32(kNoScore);

 private:
  Walk WalkOf(Val seq) const;
  Val SeesNoNumber(const Walk& walk, Val limit, Val column) const;

  const Shared zeroed_ = b_.AllocShared(Type::kI32, 1);  // whether any value was, in this walk or before
};

}  // namespace qcc::gpu

#endif  // QCC_CODEGEN_GPU_KERNELS_ATTENTION_ROWS_H_
