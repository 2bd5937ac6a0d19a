// Random weights by counter: value i of a stream depends on the key and i alone, so pieces may be drawn in
// any order.
#ifndef QCC_COMPILER_DRIVER_SYNTH_RANDOM_H_
#define QCC_COMPILER_DRIVER_SYNTH_RANDOM_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "compiler/driver/synth_model.h"

namespace qcc::compiler {

// A stream for one tensor of one model.
uint64_t StreamKey(uint64_t seed, std::string_view tensor);

// 64 random bits: number i of the stream `key`.
uint64_t DrawBits(uint64_t key, uint64_t i);

// Values `first`, `first` + 1, ... of the stream `key`.
void DrawValues(Draw draw, float scale, uint64_t key, uint64_t first, std::span<float> out);

}  // namespace qcc::compiler

#endif  // QCC_COMPILER_DRIVER_SYNTH_RANDOM_H_
