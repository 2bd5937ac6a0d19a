// Runs one kernel of a Builder's test: lowered to SPIR-V twice, validated, interpreted, and run where this
// machine has a Vulkan device for the profile.
#ifndef QCC_TESTS_UNIT_GPU_SPIRV_BUILDER_FIXTURE_H_
#define QCC_TESTS_UNIT_GPU_SPIRV_BUILDER_FIXTURE_H_

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "codegen/gpu/build/Build.h"
#include "codegen/gpu/spirv/EmitSpirv.h"
#include "mlir/IR/MLIRContext.h"
#include "tests/device/interpreter.h"
#include "vulkan_host.h"

namespace qcc::gpu::spirv_test {

using Words = std::vector<uint32_t>;
using Op = Builder::Op;
using Cmp = Builder::Cmp;
using Fn = Builder::Fn;

inline constexpr int kThreads = 32;

inline uint32_t Bits(float x) {
  return std::bit_cast<uint32_t>(x);
}
inline float Float(uint32_t x) {
  return std::bit_cast<float>(x);
}

inline Profile Make(const char* name, int subgroup, bool dot) {
  Profile profile;
  profile.name = name;
  profile.subgroup = subgroup;
  profile.int_dot = dot;
  return profile;
}

// One kernel, its buffers and what must be in them after it ran.
struct Case {
  std::string name;
  std::function<void(Builder&)> emit;
  std::vector<Words> buffers;
  std::function<void(const std::vector<Words>&)> check;
  int threads = kThreads;
  uint32_t grid[3] = {1, 1, 1};
  std::vector<uint64_t> numbers;
};

class BuilderTest : public testing::TestWithParam<Profile> {
 protected:
  void Run(const Case& c) {
    SCOPED_TRACE(c.name);
    const Profile& profile = GetParam();
    Launch launch;
    launch.name = c.name;
    launch.emit = c.emit;
    launch.workgroup_size = c.threads;
    for (int i = 0; i < 3; ++i) launch.grid[i] = c.grid[i];
    launch.args.resize(c.buffers.size() + c.numbers.size());
    mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
    auto module = buildKernel(context, profile, launch, "main");
    ASSERT_TRUE(static_cast<bool>(module)) << llvm::toString(module.takeError());
    auto words = emitSpirv(**module, profile, launch);
    ASSERT_TRUE(static_cast<bool>(words)) << llvm::toString(words.takeError());
    auto again = emitSpirv(**module, profile, launch);
    ASSERT_TRUE(static_cast<bool>(again));
    EXPECT_EQ(*words, *again);

    {
      SCOPED_TRACE("interpreter");
      c.check(Interpreted(profile, launch, c));
    }
    std::string why;
    VulkanHost* host = VulkanHost::Get(&why);
    if (!host) GTEST_SKIP() << why;
    if (profile.subgroup && profile.subgroup != host->subgroup_size()) return;
    if (profile.int_dot && !host->int_dot()) return;
    std::vector<Words> buffers = c.buffers;
    std::string complaints = host->Run(*words, "main", c.grid, &buffers, c.numbers);
    ASSERT_EQ(complaints, "");
    c.check(buffers);
    if (HasFailure()) std::fputs(disassembleSpirv(*words).c_str(), stderr);
  }

  // All buffers in one arena.
  static std::vector<Words> Interpreted(const Profile& profile, Launch launch, const Case& c) {
    constexpr size_t kAlign = 64;  // words
    Words arena;
    std::vector<size_t> starts;
    launch.args.clear();
    for (const Words& buffer : c.buffers) {
      starts.push_back(arena.size());
      launch.args.push_back({Space::kArena, 4 * arena.size(), 4 * buffer.size()});
      arena.insert(arena.end(), buffer.begin(), buffer.end());
      arena.resize((arena.size() + kAlign - 1) / kAlign * kAlign);
    }
    for (uint64_t number : c.numbers) launch.args.push_back(Number(number));
    HostMemory memory;
    memory.spaces[static_cast<int>(Space::kArena)] = {arena.data(), 4 * arena.size()};
    EXPECT_EQ(Interpret(profile, {&launch, 1}, memory), "");
    std::vector<Words> buffers;
    for (size_t i = 0; i < starts.size(); ++i) {
      auto first = arena.begin() + static_cast<ptrdiff_t>(starts[i]);
      buffers.emplace_back(first, first + static_cast<ptrdiff_t>(c.buffers[i].size()));
    }
    return buffers;
  }

  // out[thread] = f(a[thread], b[thread]) with `expected` of the same words. `make` gets and gives i32.
  void Map(const std::string& name, const Words& a, const Words& b,
           const std::function<Val(Builder&, Val, Val)>& make,
           const std::function<uint32_t(uint32_t, uint32_t)>& expected) {
    ASSERT_EQ(a.size(), b.size());
    Case c;
    c.name = name;
    c.threads = static_cast<int>(a.size());
    c.buffers = {a, b, Words(a.size(), 0xdeadbeef)};
    c.emit = [&](Builder& k) {
      Val at = k.Thread() << 2;
      k.Store(k.Arg(2), at, make(k, k.Load(Type::kI32, k.Arg(0), at), k.Load(Type::kI32, k.Arg(1), at)));
    };
    c.check = [&](const std::vector<Words>& buffers) {
      for (size_t i = 0; i < a.size(); ++i)
        EXPECT_EQ(buffers[2][i], expected(a[i], b[i])) << std::hex << "of " << a[i] << ", " << b[i];
    };
    Run(c);
  }
  // The same with f32, results within `ulps` of the expected ones.
  void MapF(const std::string& name, const std::vector<float>& a, const std::vector<float>& b,
            const std::function<Val(Builder&, Val, Val)>& make,
            const std::function<float(float, float)>& expected, int ulps = 0) {
    Case c;
    c.name = name;
    c.threads = static_cast<int>(a.size());
    c.buffers = {Words(a.size()), Words(a.size()), Words(a.size(), 0xdeadbeef)};
    for (size_t i = 0; i < a.size(); ++i) {
      c.buffers[0][i] = Bits(a[i]);
      c.buffers[1][i] = Bits(b[i]);
    }
    c.emit = [&](Builder& k) {
      Val at = k.Thread() << 2;
      k.Store(k.Arg(2), at, make(k, k.Load(Type::kF32, k.Arg(0), at), k.Load(Type::kF32, k.Arg(1), at)));
    };
    c.check = [&](const std::vector<Words>& buffers) {
      for (size_t i = 0; i < a.size(); ++i) {
        float want = expected(a[i], b[i]), got = Float(buffers[2][i]);
        float slack = std::abs(want) * static_cast<float>(ulps) * std::numeric_limits<float>::epsilon();
        EXPECT_TRUE(got == want || std::abs(got - want) <= slack)
            << got << ", not " << want << ", of " << a[i] << ", " << b[i];
      }
    };
    Run(c);
  }
};

}  // namespace qcc::gpu::spirv_test

#endif  // QCC_TESTS_UNIT_GPU_SPIRV_BUILDER_FIXTURE_H_
