// How a space larger than one allocation may be is laid out in several.
#ifndef RUNTIME_DEVICE_GPU_GPU_PIECES_H_
#define RUNTIME_DEVICE_GPU_GPU_PIECES_H_

#include <cstdint>
#include <vector>

#include "runtime/artifact/gpu_code.h"
#include "runtime/base/status.h"

namespace qrt {

// Bytes [begin, end) of a space, in one allocation. `begin` is a multiple of 256, so that an allocation
// aligned to that keeps the alignment of everything in it.
struct GpuPiece {
  uint64_t begin, end;
  uint64_t bytes() const { return end - begin; }
};

// Cuts the space (kWeights or kArena) into pieces of at most `limit` bytes such that no argument's range lies
// in two of them; together they cover it. Empty for an empty space. Error Q5015: some range is larger than
// `limit`, or ranges overlap in a way that forbids every cut.
Result<std::vector<GpuPiece>> CutSpace(const GpuCode& code, GpuSpace space, uint64_t limit);

// The piece that holds an argument's range. `pieces` come from CutSpace of the same code.
size_t FindPiece(const std::vector<GpuPiece>& pieces, uint64_t offset);

}  // namespace qrt

#endif  // RUNTIME_DEVICE_GPU_GPU_PIECES_H_
