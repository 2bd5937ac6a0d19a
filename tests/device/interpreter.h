// Runs GPU kernels on host memory, straight from the C++ that writes them: no MLIR, no driver.
//
// All threads of a workgroup go in step; every value holds one element per thread. What a device leaves
// undefined is an error here: an access outside the launch's arguments, a misaligned one, a store to
// read-only memory, a barrier that not all threads reach, a read of workgroup memory that nobody wrote, a
// shuffle from an idle thread, and two accesses to one word, one of them a write, that no barrier orders:
// within a workgroup, between workgroups and between launches.
#ifndef TESTS_DEVICE_INTERPRETER_H_
#define TESTS_DEVICE_INTERPRETER_H_

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "codegen/gpu/kernels/builder.h"
#include "codegen/gpu/kernels/launch.h"

namespace qcc::gpu {

struct HostBytes {
  void* data = nullptr;
  uint64_t bytes = 0;
};

struct HostMemory {
  std::array<HostBytes, 8> spaces;  // by Space; kImmediate is not used
  std::vector<HostBytes> writable;  // what addresses in the step block point to: state, kv
};

// Runs the whole grids, in order. Empty: all went well; else the first error with kernel, workgroup and
// thread.
std::string Interpret(const Profile& profile, std::span<const Launch> launches, const HostMemory& memory);

}  // namespace qcc::gpu

#endif  // TESTS_DEVICE_INTERPRETER_H_
