// Launches that do not wait for one another, as one: a GPU takes microseconds to begin a launch, longer than
// a small matrix takes to be read. The joined kernel has the workgroups of each, one launch behind the other.
#ifndef QCC_CODEGEN_GPU_KERNELS_TOGETHER_H_
#define QCC_CODEGEN_GPU_KERNELS_TOGETHER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "codegen/gpu/kernels/builder.h"
#include "codegen/gpu/kernels/launch.h"

namespace qcc::gpu {

struct TogetherLimits {
  size_t args = 0;                    // of a launch
  std::array<uint64_t, 3> grid = {};  // workgroups per dimension
  int shared_bytes = 0;               // of workgroup memory
};

// Whether Together takes `next` beside `launches` (one or more that it takes already): all may stand beside
// others (Launch::beside) and have workgroups of one size.
bool GoTogether(const std::vector<Launch>& launches, const Launch& next, const TogetherLimits& limits);

// One launch with the results, bit for bit, of all of them; of one, itself. Launches of one name share their
// code; numbers among the arguments become constants.
Launch Together(const std::vector<Launch>& launches);

}  // namespace qcc::gpu

#endif  // QCC_CODEGEN_GPU_KERNELS_TOGETHER_H_
