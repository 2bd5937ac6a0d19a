// What the tests of the interpreter share.
#ifndef QCC_TESTS_UNIT_GPU_KERNELS_INTERPRETER_FIXTURE_H_
#define QCC_TESTS_UNIT_GPU_KERNELS_INTERPRETER_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "tests/device/sandbox.h"

namespace qcc::gpu {
inline Profile Plain(int subgroup = 0) {
  Profile p;
  p.name = subgroup ? "sg" + std::to_string(subgroup) : "none";
  p.subgroup = subgroup;
  if (subgroup == 32) p.matrix.kind = MatrixUnits::Kind::kMma;
  return p;
}

class InterpreterTest : public testing::Test {
 protected:
  // One launch over `out` (argument 0) and the step block (argument 1).
  std::string Run(Sandbox& box, const Arg& out, std::function<void(Builder&)> emit, int threads = 32,
                  uint32_t groups = 1) {
    Launch launch;
    launch.name = "test";
    launch.emit = std::move(emit);
    launch.workgroup_size = threads;
    launch.grid[0] = groups;
    launch.args = {out, {Space::kStep, 0, 64}};
    return box.Run({launch});
  }
};

}  // namespace qcc::gpu

#endif  // QCC_TESTS_UNIT_GPU_KERNELS_INTERPRETER_FIXTURE_H_
