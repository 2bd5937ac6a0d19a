// Products of a thread: one matrix row of each of some groups with some rows of x, over the chunks of a part.
#ifndef QCC_CODEGEN_GPU_KERNELS_LINEAR_PRODUCTS_H_
#define QCC_CODEGEN_GPU_KERNELS_LINEAR_PRODUCTS_H_

#include <cstddef>
#include <vector>

#include "codegen/gpu/kernels/linear_input.h"

namespace qcc::gpu {

// Whether the threads of a subgroup go over their chunks together, so that they may ask for the words of
// several ahead of the first product (BeginLoads).
enum class Loading : uint8_t { kAlone, kTogether };

// What a chunk of one row of a matrix is read from.
struct LoadedChunk {
  std::vector<Val> codes;
  PackedRow::ScaleWords scales;
};

// The thread's row of each group of `groups` (byte offsets).
std::vector<PackedRow> PackedRows(Builder& b, const LinearSpec& spec, Val w, Val lane,
                                  const std::vector<Val>& groups);
// [chunk][row], of `count` chunks from `first` on.
std::vector<LoadedChunk> LoadChunks(Builder& b, const std::vector<PackedRow>& rows, Val first, int count);
// More rows of x leave no registers for words ahead.
inline constexpr int kMostRowsAhead = 2;
// Chunks that are loaded together: as many as make batches of a part even.
int ChunksAhead(const Profile& profile, const LinearSpec& spec, size_t groups, size_t rows, Loading loading);

// Accumulators [group][row] of one matrix row of each group in `groups` (byte offsets) with the rows of `x`,
// over the chunks [low, high) of a part, i32. `begun`: the first ChunksAhead, if they are loaded already.
std::vector<Val> LinearPart(Builder& b, const LinearSpec& spec, const LinearArgs& args, Val lane,
                            const std::vector<Val>& groups, const LinearInput& x, Val low, Val high,
                            Loading loading, const std::vector<LoadedChunk>* begun = nullptr);

// `count` rows of x from `first` on.
std::vector<XRow> Inputs(const LinearArgs& args, Val first, int count);

}  // namespace qcc::gpu

#endif  // QCC_CODEGEN_GPU_KERNELS_LINEAR_PRODUCTS_H_
