// Query and key heads of a row: normed, and their first elements rotated.
#ifndef QCC_CODEGEN_GPU_KERNELS_HEAD_NORM_ROPE_H_
#define QCC_CODEGEN_GPU_KERNELS_HEAD_NORM_ROPE_H_

#include <functional>
#include <string>
#include <vector>

#include "codegen/gpu/kernels/kv_cache.h"
#include "codegen/gpu/kernels/launch.h"
#include "codegen/gpu/kernels/reduce.h"

namespace qcc::gpu {

struct HeadSpec {
  KvShape kv;
  int q_heads = 0, rot_dims = 0;
  bool gated = false;  // behind each query lies its gate
  // Of a team, which has a head: two elements a thread and turn.
  int threads() const { return kv.head_dim <= 128 ? 64 : 128; }
  std::string name() const;
};
HeadSpec HeadSpecOf(const plan::QkNormRopeStoreSpec& spec);
// Whether there is code for it.
bool TakesHeads(const HeadSpec& spec);

// What heads are made of: the tensors of a qk_norm_rope_store.
template <typename T>
struct HeadInputs {
  T q, k, v, q_norm, k_norm, rope, eps;
};

class HeadNormRope {
 public:
  // Of a head: where it lies (i64), the number of its first element there (i32), and its weights (i64).
  struct Source {
    Val base, first, weight;
  };
  // A row's query head `query` or key head `key`, both numbers of all rows' heads (i32).
  static Source SourceOf(const HeadSpec& s, const HeadInputs<Val>& in, Val is_query, Val query, Val key);
  // Two elements of a key, and of the value of its number, to the place in the cache whose first element is
  // `cache_row`.
  static void StoreKeyAndValue(const HeadSpec& s, const HeadInputs<Val>& in, const KvHead& cache, Val key,
                               Val cache_row, Val at, Val low, Val high);

  // Two elements of head `number` (i32), the first of them element `at`.
  using Store = std::function<void(Val number, Val at, Val low, Val high)>;

  // For `heads` heads by a workgroup of `workgroup` threads, whose teams take turns.
  HeadNormRope(Builder& b, const HeadSpec& s, int workgroup, int heads);
  // All threads of the workgroup call. `row`: of the table in.rope.
  void Run(const std::function<Source(Val number)>& source, const HeadInputs<Val>& in, Val row,
           const Store& store);

 private:
  // Two neighbours.
  struct Pair {
    Val at, inside, low, high;
  };
  // A team's head in one turn.
  struct Head {
    Val number;
    Source source;
    std::vector<Pair> pairs;  // thread, thread + threads, ...
  };

  Val LoadPairs(Head& head);
  void StoreNormed(const Head& head, Val scale);
  Val Rotated(Val i, Val rope, Val row) const;

  Builder& b_;
  const HeadSpec& s_;
  const int dim_ = s_.kv.head_dim, half_ = s_.rot_dims / 2, threads_ = s_.threads();
  const int heads_, teams_, turns_;
  const Shared normed_;  // [team][element]
  Reducer reducer_;
  const Val thread_, team_;  // thread_: of the team
};

}  // namespace qcc::gpu

#endif  // QCC_CODEGEN_GPU_KERNELS_HEAD_NORM_ROPE_H_
