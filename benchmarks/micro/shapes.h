// Shapes of the micro-benchmarks: literals, so that kernels are specialised as qcc specialises them.
#ifndef QCC_BENCHMARKS_MICRO_SHAPES_H_
#define QCC_BENCHMARKS_MICRO_SHAPES_H_

#include <stdint.h>

#include "dialects/layouts/sequence_state.h"

inline constexpr int64_t kGemvColumns = 2048, kGemvRows = 4096;  // one matrix; many fill the buffer
inline constexpr int64_t kGemmColumns = 1024, kGemmRows = 2048, kBatch = 512;  // activation rows
inline constexpr int64_t kHeads = 16, kDim = 128, kTaps = 4;  // gated_delta of the 0.8b model
inline constexpr int64_t kChannels = 3 * kHeads * kDim;
// Its state: the convolution's, then the delta rule's.
inline constexpr int64_t kConvFloats = qcc::layouts::kStateBlock * kChannels;
inline constexpr int64_t kDeltaFloats =
    qcc::layouts::DeltaSlotFloats(kHeads, kDim, kDim) +
    qcc::layouts::kStateBlock * qcc::layouts::DeltaEntry(kHeads, kHeads, kDim, kDim).floats;
inline constexpr int64_t kQueryHeads = 8, kKvHeads = 2, kHeadDim = 256;  // its attention
inline constexpr int64_t kContext = 4096;

#endif  // QCC_BENCHMARKS_MICRO_SHAPES_H_
