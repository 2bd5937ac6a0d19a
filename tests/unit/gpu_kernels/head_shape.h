// Heads of a row of the step, for the tests of the kernels that make and read them.
#ifndef TESTS_UNIT_GPU_KERNELS_HEAD_SHAPE_H_
#define TESTS_UNIT_GPU_KERNELS_HEAD_SHAPE_H_

#include <cstdint>
#include <string>

#include "dialects/plan/kernel_specs.h"

namespace qcc::gpu {

inline constexpr float kHeadEps = 1e-6f;
inline constexpr int64_t kKvOffset = 32;  // bytes per token of another layer before this one

struct HeadShape {
  int64_t q_heads, kv_heads, head_dim, rot_dims;
  bool gated, f16;
  std::string name() const {
    return std::to_string(q_heads) + "/" + std::to_string(kv_heads) + " heads of " +
           std::to_string(head_dim) + ", " + std::to_string(rot_dims) + " rotated" +
           (gated ? ", gated" : "") + (f16 ? ", f16" : ", f32");
  }
  plan::KvElement kv() const { return f16 ? plan::KvElement::F16 : plan::KvElement::F32; }
  plan::QkNormRopeStoreSpec spec() const {
    return {.q_heads = q_heads,
            .kv_heads = kv_heads,
            .head_dim = head_dim,
            .rot_dims = rot_dims,
            .gated = gated,
            .eps = kHeadEps,
            .kv = kv()};
  }
};

}  // namespace qcc::gpu

#endif  // TESTS_UNIT_GPU_KERNELS_HEAD_SHAPE_H_
