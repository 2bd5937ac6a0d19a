// What the kernels of attention of a few rows share. A workgroup has one chunk of the cache of one row and a
// block of query heads, and leaves its part of the result; a second launch folds the parts.
#ifndef QCC_CODEGEN_GPU_KERNELS_ATTENTION_SPLIT_H_
#define QCC_CODEGEN_GPU_KERNELS_ATTENTION_SPLIT_H_

#include <functional>
#include <optional>
#include <string>

#include "codegen/gpu/kernels/attention.h"
#include "codegen/gpu/kernels/kernel_args.h"
#include "codegen/gpu/kernels/step.h"

namespace qcc::gpu {

// What a split leaves, [row][q_head][split]: in `sums` head_dim values, in `tops` the greatest score and
// kAttentionPlaces sums of weights.
inline constexpr int kTopWords = 1 + kAttentionPlaces;

// Threads of the launch that combines. Each finds what one split is scaled by.
inline int CombineThreads(int head_dim) {
  return head_dim <= 64 ? 64 : 128;
}

template <typename T>
struct SplitArgs {
  T step, seqs, q, kv, sums, tops, scale;
};

// With heads that the kernel makes: split.q is not read. own: queries [split][kv head][query head of
// it][head_dim], by whom they are for.
template <typename T>
struct SplitHeadsArgs {
  SplitArgs<T> split;
  HeadInputs<T> in;
  T own;
};

// A kernel of them: its name ahead of the shape, its threads, and how many blocks of query heads share a kv
// head.
struct SplitForm {
  std::string name;
  int threads, blocks;
  std::function<void(Builder&)> emit;
};
SplitForm FloatSplitForm(const AttentionSpec& s);
SplitForm MatrixSplitForm(const AttentionSpec& s);

class SplitRowKernel {
 public:
  void Emit();

 protected:
  // `blocks` of `heads` query heads share a kv head; `threads` of a workgroup.
  SplitRowKernel(Builder& b, const AttentionSpec& s, int threads, int blocks, int heads)
      : b_(b), s_(s), blocks_(blocks), heads_(heads) {
    if (s.made) made_.emplace(b, *s.made, threads, heads + 1);
  }
  virtual ~SplitRowKernel() = default;
  // Where the workgroup has positions [begin, end_).
  virtual void EmitRange(Val begin) = 0;

  // The last block of heads may be short: what it computes twice is not written.
  Val QueryAt(Val head) const { return row_ * s_.q_heads + MinS(first_head_ + head, end_head_ - 1); }
  Val PlaceOf(Val head) const { return QueryAt(head) * order_.splits + split_; }
  Val IsHead(Val head) const { return And(LtS(head, b_.I32(heads_)), LtS(first_head_ + head, end_head_)); }
  // Where a query of the workgroup begins: number of its first element from queries_ on.
  Val QueryFirst(Val head) const {
    return made_ ? MinS(head, b_.I32(heads_ - 1)) * dim_ : QueryAt(head) * dim_;
  }
  // Sum `place` of the weights of `head`, and with the first the greatest score.
  void LeaveTop(Val head, Val place, Val top, Val sum);

  Builder& b_;
  const AttentionSpec& s_;
  const int blocks_, heads_;
  const AttentionOrder order_{s_};
  const int dim_ = s_.kv.head_dim;
  const SplitArgs<Val> args_ = ReadArgs<SplitArgs>(b_);
  const Val scale_ = FloatOf(args_.scale);
  const Val split_ = b_.BlockX(), row_ = b_.BlockZ(), thread_ = b_.Thread();
  const Val kv_head_ = DivU(b_.BlockY(), blocks_);
  const Val first_head_ = kv_head_ * s_.group() + RemU(b_.BlockY(), blocks_) * heads_;
  const Val end_head_ = (kv_head_ + 1) * s_.group();
  const Val zero_ = b_.F32(0.f), none_ = b_.F32(kNoScore);
  // By Emit. queries_: i64.
  KvHead cache_;
  Val end_, last_, queries_;

 private:
  // Of a row that sees `count` positions.
  void MakeHeads(Val count);

  std::optional<HeadNormRope> made_;
};

}  // namespace qcc::gpu

#endif  // QCC_CODEGEN_GPU_KERNELS_ATTENTION_SPLIT_H_
