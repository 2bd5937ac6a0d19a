#include "runtime/device/gpu/gpu_context.h"

#include <algorithm>
#include <limits>

namespace qrt {

uint64_t MostGpuContext(const Manifest& manifest) {
  constexpr uint64_t kReached = uint64_t{1} << 32;
  uint64_t most = std::numeric_limits<uint64_t>::max();
  for (const StateInfo& state : manifest.states) {
    if (state.kind != StateKind::kKV) continue;
    // [kv_heads][head_dim] of a token.
    const uint64_t head_bytes = state.shape.empty() ? 0 : state.shape.back() * Bytes(state.element);
    if (head_bytes != 0) most = std::min(most, kReached / head_bytes);
  }
  return most;
}

}  // namespace qrt
