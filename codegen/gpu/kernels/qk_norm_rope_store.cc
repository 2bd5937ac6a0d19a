// qk_norm_rope_store: a workgroup has one query or key head of a row; key heads bring their values along.
#include <string>

#include "codegen/gpu/kernels/families.h"
#include "codegen/gpu/kernels/kernel_args.h"
#include "codegen/gpu/kernels/kv_cache.h"
#include "codegen/gpu/kernels/reduce.h"
#include "codegen/gpu/kernels/step.h"

namespace qcc::gpu {
namespace {

struct Spec {
  KvShape kv;
  int q_heads = 0, rot_dims = 0;
  bool gated = false;
  // Two elements a thread and turn.
  int threads() const { return kv.head_dim <= 128 ? 64 : 128; }
};

template <typename T>
struct HeadArgs {
  T step, seqs, q, k, v, q_norm, k_norm, rope, out, kv, eps;
};

class HeadKernel {
 public:
  HeadKernel(Builder& b, const Spec& s) : b_(b), s_(s) {}
  void Emit() {
    b_.If(LtS(row_, StepRows(args_.step)), [&] { EmitHead(); });
  }

 private:
  // Two neighbours.
  struct Pair {
    Val at, inside, low, high;
  };

  void EmitHead();
  Val LoadPairs(Val source, Val first);
  void StoreNormed(Val scale, Val weight);
  Val Rotated(Val i) const;
  void StorePair(const Pair& pair, const KvHead& cache, Val cache_row);

  Builder& b_;
  const Spec& s_;
  const HeadArgs<Val> args_ = ReadArgs<HeadArgs>(b_);
  const Val eps_ = FloatOf(args_.eps);
  const int dim_ = s_.kv.head_dim, half_ = s_.rot_dims / 2, threads_ = s_.threads();
  const Shared normed_ = b_.AllocShared(Type::kF32, dim_);
  Reducer reducer_{b_, threads_, threads_};
  const Val head_ = b_.BlockX(), row_ = b_.BlockY(), thread_ = b_.Thread();
  Val is_query_, q_place_, k_place_;  // by EmitHead; places: of the head's first element
  std::vector<Pair> pairs_;           // by LoadPairs: thread, thread + threads, ...
};

void HeadKernel::EmitHead() {
  is_query_ = LtS(head_, b_.I32(s_.q_heads));
  const Val kv_head = Select(is_query_, b_.I32(0), head_ - s_.q_heads);
  q_place_ = (row_ * s_.q_heads + head_) * dim_;
  k_place_ = (row_ * s_.kv.kv_heads + kv_head) * dim_;
  const Val source = Select(is_query_, args_.q, args_.k);
  const Val first = Select(is_query_, s_.gated ? q_place_ << 1 : q_place_, k_place_);
  const Val weight = Select(is_query_, args_.q_norm, args_.k_norm);

  const Val sum = LoadPairs(source, first);
  const Val mean = DivF(reducer_.Sum(sum), b_.F32(static_cast<float>(dim_)));
  StoreNormed(DivF(b_.F32(1.f), b_.Call(Builder::Fn::kSqrt, mean + eps_)), weight);
  b_.Barrier();

  const Val seq = RowSeq(args_.step, row_);
  const KvHead cache = FindKvHead(s_.kv, args_.seqs, seq, args_.kv, kv_head);
  const Val cache_row = RowPosition(args_.step, row_) * dim_;
  for (const Pair& pair : pairs_) StorePair(pair, cache, cache_row);
}

// The thread's sum of squares.
Val HeadKernel::LoadPairs(Val source, Val first) {
  Val sum = b_.F32(0.f);
  for (int p = 0; p < dim_ / 2; p += threads_) {
    const bool full = p + threads_ <= dim_ / 2;
    const Val number = thread_ + p;
    Pair pair;
    pair.inside = LtS(number, b_.I32(dim_ / 2));
    pair.at = (full ? number : MinS(number, b_.I32(dim_ / 2 - 1))) << 1;
    const Val x = b_.Load(Type::kF32x2, source, (first + pair.at) << 2);
    pair.low = b_.Extract(x, 0);
    pair.high = b_.Extract(x, 1);
    const Val squares = Fma(pair.high, pair.high, Fma(pair.low, pair.low, sum));
    sum = full ? squares : Select(pair.inside, squares, sum);
    pairs_.push_back(pair);
  }
  return sum;
}

void HeadKernel::StoreNormed(Val scale, Val weight) {
  for (const Pair& pair : pairs_) {
    const Val w = b_.Load(Type::kF32x2, weight, pair.at << 2);
    const Val low = (pair.low * scale) * b_.Extract(w, 0), high = (pair.high * scale) * b_.Extract(w, 1);
    b_.If(pair.inside, [&] {
      b_.StoreShared(normed_, pair.at, low);
      b_.StoreShared(normed_, pair.at + 1, high);
    });
  }
}

// Element i: a cos - b sin in the first half of the rotated ones, a sin + b cos in the second.
Val HeadKernel::Rotated(Val i) const {
  const Val own = b_.LoadShared(normed_, i);
  if (half_ == 0) return own;
  const Val is_first = LtS(i, b_.I32(half_)), is_rotated = LtS(i, b_.I32(s_.rot_dims));
  const Val angle = Select(is_rotated, Select(is_first, i, i - half_), b_.I32(0));
  const Val other = b_.LoadShared(normed_, Select(is_first, i + half_, angle));
  const Val at = (row_ * s_.rot_dims + angle) << 2;
  const Val cosine = b_.Load(Type::kF32, args_.rope, at),
            sine = b_.Load(Type::kF32, args_.rope, at + 4 * half_);
  const Val across = other * sine;
  const Val turned = own * cosine + Select(is_first, b_.Call(Builder::Fn::kNeg, across), across);
  return Select(is_rotated, turned, own);
}

void HeadKernel::StorePair(const Pair& pair, const KvHead& cache, Val cache_row) {
  const Val low = Rotated(pair.at), high = Rotated(pair.at + 1);
  b_.If(And(pair.inside, is_query_), [&] {
    b_.Store(args_.out, (q_place_ + pair.at) << 2, b_.Vector({low, high}));
  });
  b_.If(And(pair.inside, LtS(b_.I32(s_.q_heads - 1), head_)), [&] {
    StoreKvPair(s_.kv, cache.keys, cache_row + pair.at, low, high);
    const Val value = b_.Load(Type::kF32x2, args_.v, (k_place_ + pair.at) << 2);
    StoreKvPair(s_.kv, cache.values, cache_row + pair.at, b_.Extract(value, 0), b_.Extract(value, 1));
  });
}

}  // namespace

std::vector<Launch> Expand_qk_norm_rope_store(const Dispatch<plan::QkNormRopeStoreSpec>& d,
                                              Expansion& expansion) {
  Spec s;
  s.kv = {static_cast<int>(d.spec.kv_heads), static_cast<int>(d.spec.head_dim),
          d.spec.kv == plan::KvElement::F16};
  s.q_heads = static_cast<int>(d.spec.q_heads);
  s.rot_dims = static_cast<int>(d.spec.rot_dims);
  s.gated = d.spec.gated;
  // Rows of heads are read in vectors.
  if (s.kv.head_dim % 8 || s.kv.head_dim > 1024 || s.rot_dims % 2 || s.rot_dims > s.kv.head_dim) return {};

  Launch launch;
  launch.name = "qk_norm_rope_store.q" + std::to_string(s.q_heads) + ".kv" + std::to_string(s.kv.kv_heads) +
                ".d" + std::to_string(s.kv.head_dim) + ".r" + std::to_string(s.rot_dims) +
                (s.gated ? ".gated" : "") + (s.kv.f16 ? ".f16" : ".f32");
  launch.emit = [s](Builder& b) { HeadKernel(b, s).Emit(); };
  launch.workgroup_size = s.threads();
  launch.grid[0] = static_cast<uint32_t>(s.q_heads + s.kv.kv_heads);
  launch.grid[1] = static_cast<uint32_t>(d.rows);
  launch.args = ListArgs<HeadArgs>({.step = StepArg(expansion),
                                    .seqs = StepSeqsArg(expansion),
                                    .q = *d.bindings.q,
                                    .k = *d.bindings.k,
                                    .v = *d.bindings.v,
                                    .q_norm = *d.bindings.q_norm,
                                    .k_norm = *d.bindings.k_norm,
                                    .rope = *d.bindings.rope,
                                    .out = *d.bindings.out,
                                    .kv = Number(d.bindings.kv->value),
                                    .eps = FloatNumber(d.spec.eps)});
  const uint64_t rows = static_cast<uint64_t>(d.rows), dim = static_cast<uint64_t>(s.kv.head_dim);
  const uint64_t heads = static_cast<uint64_t>(s.q_heads), kv_heads = static_cast<uint64_t>(s.kv.kv_heads);
  launch.read_bytes = 4 * rows * ((heads + 2 * kv_heads) * dim + static_cast<uint64_t>(s.rot_dims)) + 8 * dim;
  launch.write_bytes = rows * (4 * heads * dim + s.kv.token_bytes());
  launch.ops = rows * (heads + kv_heads) * (4 * dim + 3 * static_cast<uint64_t>(s.rot_dims));
  return {launch};
}

}  // namespace qcc::gpu
