// Writing the step block (runtime/abi/gpu_step.h) that the kernels of one step read.
#ifndef RUNTIME_DEVICE_GPU_GPU_STEP_BLOCK_H_
#define RUNTIME_DEVICE_GPU_GPU_STEP_BLOCK_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "runtime/abi/terms.h"
#include "runtime/device/device.h"

namespace qrt {

// Whether the request's counts fit a block for `max_rows` rows: at least one row, and every table inside its
// extent.
bool FitsStepBlock(const StepRequest& step, uint32_t max_rows);

// Fills `block`, which has qrt_gpu_step_bytes(max_rows) bytes and 8-byte alignment, from a request that fits.
// Returns the bytes from its begin on that the device needs. Samples and penalties are written only if the
// request has them.
uint64_t WriteStepBlock(const StepRequest& step, uint8_t* block);

// How a step whose tokens the device chooses has them chosen: by the shortest way that serves all its rows.
GpuSampling SamplingOf(const StepRequest& step);

// How a step of a chain has its tokens chosen; nothing: it has none.
std::optional<GpuSampling> ChoosesIn(const ChainStep& link);

// The host's memory for the blocks of a chain's steps: the last one's, which alone may have penalties, is the
// block of a single step; the others' lie behind it.
uint64_t ChainBlocksBytes(uint32_t max_rows);
uint64_t ChainBlockOffset(size_t step, size_t steps, uint32_t max_rows);

// Whether steps are a chain that fits such blocks.
bool FitsChain(std::span<const ChainStep> steps, uint32_t max_rows);

// Where in a step's block the token of the `i`-th row that is fed stands.
uint64_t FedTokenOffset(const ChainStep& step, uint32_t i);

}  // namespace qrt

#endif  // RUNTIME_DEVICE_GPU_GPU_STEP_BLOCK_H_
