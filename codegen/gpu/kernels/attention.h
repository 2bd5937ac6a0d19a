// attention: the two ways it runs. Both compute a row from its own query and position only: tiles of the
// cache stand at absolute positions, and what a row may not see adds exactly nothing.
#ifndef QCC_CODEGEN_GPU_KERNELS_ATTENTION_H_
#define QCC_CODEGEN_GPU_KERNELS_ATTENTION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/gpu/kernels/kv_cache.h"
#include "codegen/gpu/kernels/launch.h"

namespace qcc::gpu {

struct AttentionSpec {
  KvShape kv;
  int q_heads = 0;
  bool gated = false;
  int group() const { return q_heads / kv.kv_heads; }  // query heads that share a kv head
  std::string name() const;
};

inline constexpr int kAttentionTile = 32;  // positions of the cache per step of the softmax
// Below every score, and still a number: differences of two of them are 0.
inline constexpr float kNoScore = -1e30f;

// Few rows: the cache is split over workgroups, whose partial results a second launch combines.
std::vector<Launch> SplitAttention(const AttentionSpec& spec, const Dispatch& dispatch, Expansion& expansion);
// Many rows: a workgroup has a block of rows and walks the cache (online softmax).
std::vector<Launch> BlockAttention(const AttentionSpec& spec, const Dispatch& dispatch, Expansion& expansion);

// `value` of column `column` of query head `at` (row * q_heads + head) times the output gate.
Val ApplyGate(const AttentionSpec& spec, Val gate, Val at, Val column, Val value);

}  // namespace qcc::gpu

#endif  // QCC_CODEGEN_GPU_KERNELS_ATTENTION_H_
