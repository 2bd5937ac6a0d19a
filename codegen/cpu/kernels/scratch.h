// What kernels need of their thread's scratch (`scratch` of their arguments): arrays that are too large for a
// thread's stack (QRT_STEP_STACK_BYTES). The kernels cut them from it, the compiler says in the artifact how
// many bytes the largest takes (qrt_code_header). Stand-alone: also included by the kernels, which see no
// library.
#ifndef QCC_CODEGEN_CPU_KERNELS_SCRATCH_H_
#define QCC_CODEGEN_CPU_KERNELS_SCRATCH_H_

#include <stdint.h>

#include "codegen/cpu/kernels/limits.h"
#include "dialects/layouts/sequence_state.h"

namespace qcc::cpu {

// Floats at offsets that are multiples of 64 bytes, one array after the other.
constexpr int64_t ScratchArray(int64_t floats) {
  return (4 * floats + 63) / 64 * 64;
}

// attention, for `group` query heads of a kv head: keys and values of a tile, queries and sums of the rows
// that share it.
struct AttentionScratch {
  static constexpr int64_t kTile = 32;     // cache positions per step of the softmax
  static constexpr int64_t kRows = 8;      // rows that share a tile
  static constexpr int64_t kQueries = 64;  // rows * group stay within
  static_assert(kQueries >= kMaxQueryGroup);

  int64_t rows, k, v, query, acc, bytes;  // rows that are taken together, then offsets
  constexpr AttentionScratch(int64_t head_dim, int64_t group)
      : rows(kQueries / group < kRows ? kQueries / group : kRows),
        k(0),
        v(k + ScratchArray(kTile * head_dim)),
        query(v + ScratchArray(kTile * head_dim)),
        acc(query + ScratchArray(rows * group * head_dim)),
        bytes(acc + ScratchArray(rows * group * head_dim)) {}
};

// gated_delta: the arrays of a block of tokens (DeltaBlock).
struct DeltaScratch {
  static constexpr int64_t kBlock = layouts::kStateBlock;

  int64_t q, k, v, r, o, u, pairs, tokens, bytes;  // offsets; pairs: four [16][16], tokens: four [16]
  constexpr DeltaScratch(int64_t key_dim, int64_t value_dim)
      : q(0),
        k(q + ScratchArray(kBlock * key_dim)),
        v(k + ScratchArray(kBlock * key_dim)),
        r(v + ScratchArray(kBlock * value_dim)),
        o(r + ScratchArray(kBlock * value_dim)),
        u(o + ScratchArray(kBlock * value_dim)),
        pairs(u + ScratchArray(kBlock * value_dim)),
        tokens(pairs + ScratchArray(4 * kBlock * kBlock)),
        bytes(tokens + ScratchArray(4 * kBlock)) {}
};

}  // namespace qcc::cpu

#endif  // QCC_CODEGEN_CPU_KERNELS_SCRATCH_H_
