// What kernels that norm rows share.
#ifndef QCC_CODEGEN_GPU_KERNELS_NORM_H_
#define QCC_CODEGEN_GPU_KERNELS_NORM_H_

#include <cstdint>
#include <vector>

#include "codegen/gpu/kernels/builder.h"
#include "codegen/gpu/kernels/reduce.h"

namespace qcc::gpu {

// Threads of every workgroup that norms a row: in how many sums squares are added up follows from it.
inline constexpr int kNormThreads = 128;

// 1 / sqrt(mean(x^2) + eps) of the row of `cols` columns, a multiple of four, at byte `source` of x.
// `reducer` is over kNormThreads; all threads of the workgroup must call (barriers).
Val NormScale(Builder& b, Reducer& reducer, Val x, Val source, int64_t cols, Val eps);

// The same of several rows side by side; `reducer` takes as many values.
std::vector<Val> NormScales(Builder& b, Reducer& reducer, Val x, const std::vector<Val>& sources,
                            int64_t cols, Val eps);

// Four columns of the row, and of the weights: `at` is their byte offset in it.
struct NormWords {
  Val x, weight;
};
NormWords LoadNorm(Builder& b, Val x, Val source, Val weight, Val at);
std::vector<Val> NormQuad(Builder& b, const NormWords& words, Val scale);

}  // namespace qcc::gpu

#endif  // QCC_CODEGEN_GPU_KERNELS_NORM_H_
