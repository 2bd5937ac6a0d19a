// A layer's keys and values in a sequence's memory: K [kv_heads][capacity][head_dim], then V of the same
// shape, from kv + offset * capacity on (dialects/plan: plan.state).
#ifndef QCC_CODEGEN_GPU_KERNELS_KV_CACHE_H_
#define QCC_CODEGEN_GPU_KERNELS_KV_CACHE_H_

#include <cstdint>
#include <vector>

#include "codegen/gpu/kernels/builder.h"
#include "codegen/gpu/kernels/math.h"
#include "codegen/gpu/kernels/step.h"

namespace qcc::gpu {

struct KvShape {
  int kv_heads = 0, head_dim = 0;
  bool f16 = false;
  int element() const { return f16 ? 2 : 4; }  // bytes
  uint64_t token_bytes() const { return 2ull * kv_heads * head_dim * element(); }
};

// Addresses (i64) of one head's position 0. A cache may be larger than 4 GiB, one head of it may not.
struct KvHead {
  Val keys, values;
};

// `offset`: i64, bytes per token of the layers before; `head`: i32.
inline KvHead FindKvHead(const KvShape& shape, Val seqs, Val seq, Val offset, Val head) {
  Builder& b = *seqs.builder();
  const Val capacity = SeqCapacity(seqs, seq);
  const Val head_bytes = capacity * (shape.head_dim * shape.element());
  const Val keys = SeqKv(seqs, seq) + offset * capacity + b.ExtendU(head) * head_bytes;
  return {keys, keys + head_bytes * shape.kv_heads};
}

// `count` (2, 4 or 8) elements from number `first` (i32, a multiple of count) of a head as f32.
inline std::vector<Val> LoadKv(const KvShape& shape, Val base, Val first, int count) {
  Builder& b = *base.builder();
  std::vector<Val> values;
  if (shape.f16) {
    const Type type = count == 8 ? Type::kI32x4 : count == 4 ? Type::kI32x2 : Type::kI32;
    const Val words = b.Load(type, base, first << 1);
    for (int i = 0; i < count / 2; ++i) {
      const Val pair = b.UnpackHalf(count == 2 ? words : b.Extract(words, i));
      values.push_back(b.Extract(pair, 0));
      values.push_back(b.Extract(pair, 1));
    }
  } else if (count == 2) {
    const Val pair = b.Load(Type::kF32x2, base, first << 2);
    for (int c = 0; c < 2; ++c) values.push_back(b.Extract(pair, c));
  } else {
    for (int i = 0; i < count; i += 4) {
      const Val quad = b.Load(Type::kF32x4, base, (first << 2) + 4 * i);
      for (int c = 0; c < 4; ++c) values.push_back(b.Extract(quad, c));
    }
  }
  return values;
}

// Elements `first` (i32, even) and the next of a head.
inline void StoreKvPair(const KvShape& shape, Val base, Val first, Val low, Val high) {
  Builder& b = *base.builder();
  if (shape.f16) {
    b.Store(base, first << 1, F32ToHalf(low) | (F32ToHalf(high) << 16));
  } else {
    b.Store(base, first << 2, b.Vector({low, high}));
  }
}

}  // namespace qcc::gpu

#endif  // QCC_CODEGEN_GPU_KERNELS_KV_CACHE_H_
