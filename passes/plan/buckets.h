// The buckets that a model gets when nobody names others. Without MLIR: the command line shows them.
#ifndef QCC_PASSES_PLAN_BUCKETS_H_
#define QCC_PASSES_PLAN_BUCKETS_H_

#include <cstdint>

namespace qcc::passes {

// As in Buckets (ProgramKinds.h): `token`, `many`, `after`.
inline constexpr int64_t kTokenBuckets[] = {1, 2, 4, 8};
inline constexpr int64_t kManyBuckets[] = {32, 128, 512};
inline constexpr int64_t kAfterBuckets[] = {1, 8};

}  // namespace qcc::passes

#endif  // QCC_PASSES_PLAN_BUCKETS_H_
