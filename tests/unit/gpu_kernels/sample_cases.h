// Rows of logits and options for tests of sampling on devices, and the host's answer.
#ifndef QCC_TESTS_UNIT_GPU_KERNELS_SAMPLE_CASES_H_
#define QCC_TESTS_UNIT_GPU_KERNELS_SAMPLE_CASES_H_

#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "codegen/gpu/kernels/launch.h"
#include "runtime/engine/sampler.h"

namespace qcc::gpu {

inline constexpr float kInf = std::numeric_limits<float>::infinity();

struct SampleRow {
  std::vector<float> logits;
  qrt::SamplerOptions options;
  std::vector<int32_t> accepted;
};

float Between(std::mt19937& random, float low, float high);

// Ties, both zeros, subnormals, any bits, all equal; now and then NaN or infinities.
std::vector<float> AnyLogits(std::mt19937& random, size_t vocab);
// The first so many, few or most tokens; at least one.
std::vector<uint32_t> AnyChoosable(std::mt19937& random, size_t vocab);
// With options of all kinds, extreme ones too.
SampleRow AnySampleRow(std::mt19937& random, size_t vocab);
// A top_k of the short form.
int32_t AnyFew(std::mt19937& random);

// What a sample program must leave in the results.
int32_t OnHost(qrt::Sampler& sampler, uint64_t position, const std::vector<float>& logits);

}  // namespace qcc::gpu

#endif  // QCC_TESTS_UNIT_GPU_KERNELS_SAMPLE_CASES_H_
