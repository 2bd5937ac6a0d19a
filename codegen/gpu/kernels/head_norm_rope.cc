#include "codegen/gpu/kernels/head_norm_rope.h"

#include "codegen/gpu/kernels/kernel_args.h"
#include "codegen/gpu/kernels/math.h"

namespace qcc::gpu {

std::string HeadSpec::name() const {
  return ".q" + std::to_string(q_heads) + ".kv" + std::to_string(kv.kv_heads) + ".d" +
         std::to_string(kv.head_dim) + ".r" + std::to_string(rot_dims) + (gated ? ".gated" : "") +
         (kv.f16 ? ".f16" : ".f32");
}

HeadSpec HeadSpecOf(const plan::QkNormRopeStoreSpec& spec) {
  HeadSpec s;
  s.kv = {static_cast<int>(spec.kv_heads), static_cast<int>(spec.head_dim), spec.kv != plan::KvElement::F32};
  s.q_heads = static_cast<int>(spec.q_heads);
  s.rot_dims = static_cast<int>(spec.rot_dims);
  s.gated = spec.gated;
  return s;
}

bool TakesHeads(const HeadSpec& s) {
  // Rows of heads are read in vectors.
  return s.kv.head_dim % 8 == 0 && s.kv.head_dim <= 1024 && s.rot_dims % 2 == 0 &&
         s.rot_dims <= s.kv.head_dim;
}

HeadNormRope::HeadNormRope(Builder& b, const HeadSpec& s, int workgroup, int heads)
    : b_(b),
      s_(s),
      heads_(heads),
      teams_(workgroup / threads_),
      turns_(CeilDiv(heads, teams_)),
      normed_(b.AllocShared(Type::kF32, teams_ * dim_)),
      reducer_(b, workgroup, threads_, turns_),
      thread_(teams_ == 1 ? b.Thread() : RemU(b.Thread(), threads_)),
      team_(teams_ == 1 ? b.I32(0) : DivU(b.Thread(), threads_)) {}

HeadNormRope::Source HeadNormRope::SourceOf(const HeadSpec& s, const HeadInputs<Val>& in, Val is_query,
                                            Val query, Val key) {
  const int dim = s.kv.head_dim;
  return {Select(is_query, in.q, in.k), Select(is_query, query * (s.gated ? 2 * dim : dim), key * dim),
          Select(is_query, in.q_norm, in.k_norm)};
}

void HeadNormRope::StoreKeyAndValue(const HeadSpec& s, const HeadInputs<Val>& in, const KvHead& cache,
                                    Val key, Val cache_row, Val at, Val low, Val high) {
  Builder& b = *at.builder();
  StoreKvPair(s.kv, cache.keys, cache_row + at, low, high);
  const Val value = b.Load(Type::kF32x2, in.v, (key * s.kv.head_dim + at) << 2);
  StoreKvPair(s.kv, cache.values, cache_row + at, b.Extract(value, 0), b.Extract(value, 1));
}

void HeadNormRope::Run(const std::function<Source(Val number)>& source, const HeadInputs<Val>& in, Val row,
                       const Store& store) {
  const Val eps = FloatOf(in.eps);
  std::vector<Head> heads;
  std::vector<Val> sums;
  for (int i = 0; i < turns_; ++i) {
    const Val number = team_ + i * teams_;
    heads.push_back({number, source(number), {}});
    sums.push_back(LoadPairs(heads.back()));
  }
  sums = reducer_(Reduction::kSum, sums);
  for (int i = 0; i < turns_; ++i) {
    const Head& head = heads[static_cast<size_t>(i)];
    const Val mean = DivF(sums[static_cast<size_t>(i)], b_.F32(static_cast<float>(dim_)));
    if (i != 0) b_.Barrier();  // the head before may still be read
    StoreNormed(head, DivF(b_.F32(1.f), b_.Call(Builder::Fn::kSqrt, mean + eps)));
    b_.Barrier();
    const bool all = (i + 1) * teams_ <= heads_;
    for (const Pair& pair : head.pairs) {
      const Val low = Rotated(pair.at, in.rope, row), high = Rotated(pair.at + 1, in.rope, row);
      const Val inside = all ? pair.inside : And(pair.inside, LtS(head.number, b_.I32(heads_)));
      b_.If(inside, [&] { store(head.number, pair.at, low, high); });
    }
  }
}

// The thread's sum of squares.
Val HeadNormRope::LoadPairs(Head& head) {
  Val sum = b_.F32(0.f);
  for (int p = 0; p < dim_ / 2; p += threads_) {
    const bool full = p + threads_ <= dim_ / 2;
    const Val number = thread_ + p;
    Pair pair;
    pair.inside = LtS(number, b_.I32(dim_ / 2));
    pair.at = (full ? number : MinS(number, b_.I32(dim_ / 2 - 1))) << 1;
    const Val x = b_.Load(Type::kF32x2, head.source.base, (head.source.first + pair.at) << 2);
    pair.low = b_.Extract(x, 0);
    pair.high = b_.Extract(x, 1);
    const Val squares = Fma(pair.high, pair.high, Fma(pair.low, pair.low, sum));
    sum = full ? squares : Select(pair.inside, squares, sum);
    head.pairs.push_back(pair);
  }
  return sum;
}

void HeadNormRope::StoreNormed(const Head& head, Val scale) {
  for (const Pair& pair : head.pairs) {
    const Val w = b_.Load(Type::kF32x2, head.source.weight, pair.at << 2), to = team_ * dim_ + pair.at;
    const Val low = (pair.low * scale) * b_.Extract(w, 0), high = (pair.high * scale) * b_.Extract(w, 1);
    b_.If(pair.inside, [&] {
      b_.StoreShared(normed_, to, low);
      b_.StoreShared(normed_, to + 1, high);
    });
  }
}

// Element i: a cos - b sin in the first half of the rotated ones, a sin + b cos in the second.
Val HeadNormRope::Rotated(Val i, Val rope, Val row) const {
  const Val begin = team_ * dim_, own = b_.LoadShared(normed_, begin + i);
  if (half_ == 0) return own;
  const Val is_first = LtS(i, b_.I32(half_)), is_rotated = LtS(i, b_.I32(s_.rot_dims));
  const Val angle = Select(is_rotated, Select(is_first, i, i - half_), b_.I32(0));
  const Val other = b_.LoadShared(normed_, begin + Select(is_first, i + half_, angle));
  const Val at = (row * s_.rot_dims + angle) << 2;
  const Val cosine = b_.Load(Type::kF32, rope, at), sine = b_.Load(Type::kF32, rope, at + 4 * half_);
  const Val across = other * sine;
  const Val turned = own * cosine + Select(is_first, b_.Call(Builder::Fn::kNeg, across), across);
  return Select(is_rotated, turned, own);
}

}  // namespace qcc::gpu
