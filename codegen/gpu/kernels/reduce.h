// Sums and maxima over the threads of a workgroup, in an order that the workgroup's size and the profile fix.
#ifndef QCC_CODEGEN_GPU_KERNELS_REDUCE_H_
#define QCC_CODEGEN_GPU_KERNELS_REDUCE_H_

#include <vector>

#include "codegen/gpu/kernels/builder.h"

namespace qcc::gpu {

// kMax: of numbers; NaN is undefined. kMaxMagnitude: of what has no sign; NaN is the greatest.
enum class Reduction : uint8_t { kSum, kMax, kMaxMagnitude };
// The greater of two magnitudes, as kMaxMagnitude has it.
Val MaxMagnitude(Val a, Val b);

// Combines f32 values of each `width` consecutive threads; every thread of them knows the result. Holds the
// workgroup memory that this needs, so make one outside of loops and use it again and again.
class Reducer {
 public:
  // `width` is a power of two that divides workgroup_size; `values`: most values in one call.
  Reducer(Builder& builder, int workgroup_size, int width, int values = 1);
  // All threads of the workgroup must call (barriers).
  std::vector<Val> operator()(Reduction reduction, std::vector<Val> values);
  Val Sum(Val value) { return (*this)(Reduction::kSum, {value})[0]; }
  Val Max(Val value) { return (*this)(Reduction::kMax, {value})[0]; }
  Val MaxMagnitude(Val value) { return (*this)(Reduction::kMaxMagnitude, {value})[0]; }
  // Of workgroup memory, that a Reducer made so takes.
  static int SharedWords(const Profile& profile, int workgroup_size, int width, int values = 1);

 private:
  Builder& b_;
  int size_, width_;
  int shuffled_;  // threads combined by shuffles
  int leaders_;   // values per group left after them
  Shared partial_, folded_;
};

// The sums of values.size() values over as many consecutive threads, a power of two: of those threads, number
// i gets the sum of value i. Takes fewer exchanges than sums that all threads know. All threads of the
// workgroup must call (barriers).
Val SumScattered(Builder& builder, int workgroup_size, std::vector<Val> values, const Shared& scratch,
                 int at);
// Words of `scratch`, from `at` on, that this uses.
int SumScatteredWords(const Profile& profile, int workgroup_size, int values);

}  // namespace qcc::gpu

#endif  // QCC_CODEGEN_GPU_KERNELS_REDUCE_H_
