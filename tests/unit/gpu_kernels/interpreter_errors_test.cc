// The interpreter goes on with a kernel behind an error, which it then tells.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "codegen/gpu/kernels/profiles.h"
#include "tests/device/sandbox.h"

namespace qcc::gpu {
namespace {

// A choice has its results, whichever side threads take, so that a kernel may use them.
TEST(InterpreterErrors, AChoiceBehindOneHasResults) {
  for (int32_t first : {0, 1, 32}) {
    Sandbox box(FindProfile("none")->profile, 1);
    Launch launch;
    launch.name = "test";
    launch.workgroup_size = 32;
    launch.args = {box.Arena(4)};
    launch.emit = [first](Builder& b) {
      const Val one = b.I32(1);
      b.Load(Type::kI32, b.Arg(0), b.I32(400));
      const std::vector<Val> chosen = b.IfElse(
          LtS(b.Thread(), b.I32(first)),
          [&] {
            return std::vector<Val>{one, one};
          },
          [&] {
            return std::vector<Val>{b.I32(2), one};
          });
      ASSERT_EQ(chosen.size(), 2u);
      b.Store(b.Arg(0), b.I32(0), chosen[1] + chosen[0]);
    };
    EXPECT_NE(box.Run({launch}).find("outside the ranges that it may read"), std::string::npos);
  }
}

}  // namespace
}  // namespace qcc::gpu
