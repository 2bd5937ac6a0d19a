// The tables of GPU targets: profiles, and what makes a target's code.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "codegen/gpu/build/Build.h"
#include "codegen/gpu/lower/Backends.h"

namespace qcc::gpu {
namespace {

TEST(Profiles, OfOneTargetStandTogetherUnderNamesOfTheirOwn) {
  std::vector<std::string> names, targets;
  for (const ProfileInfo& info : Profiles()) {
    EXPECT_FALSE(llvm::is_contained(names, info.profile.name)) << info.profile.name << " stands twice";
    names.push_back(info.profile.name);
    if (targets.empty() || targets.back() != info.target) {
      EXPECT_FALSE(llvm::is_contained(targets, info.target)) << info.target << " is torn apart";
      targets.push_back(info.target);
    }
    EXPECT_EQ(FindProfile(info.profile.name), &info);
  }
  EXPECT_EQ(FindProfile("sg32-dot")->features,
            (std::vector<std::string>{"subgroup-32", "int-dot", "threads-512", "shared-32768"}));
  EXPECT_EQ(FindProfile("sg8-dot")->features,
            (std::vector<std::string>{"subgroup-8", "int-dot", "threads-256"}));
  EXPECT_EQ(FindProfile("none")->features, std::vector<std::string>());
  EXPECT_EQ(
      FindProfile("sg32-matrix32")->features,
      (std::vector<std::string>{"subgroup-32", "int-dot", "matrix-16x16x32", "threads-512", "shared-32768"}));
  EXPECT_EQ(FindProfile("sm80")->features,
            (std::vector<std::string>{"sm-80", "subgroup-32", "int-dot", "matrix"}));
  EXPECT_EQ(FindProfile("sm99"), nullptr);
}

TEST(GpuBackends, EveryTargetOfTheProfilesHasOne) {
  std::vector<std::string> targets;
  for (const ProfileInfo& info : Profiles()) {
    const Backend* backend = findBackend(info.target);
    ASSERT_NE(backend, nullptr) << info.target;
    if (targets.empty() || targets.back() != info.target) targets.push_back(info.target);
    // Either each kernel's words stand alone, and can be shown, or all are joined into one file.
    EXPECT_EQ(backend->join == nullptr, backend->disassemble != nullptr) << info.target;
    EXPECT_EQ(backend->join == nullptr, backend->joinedFile.empty()) << info.target;
  }
  std::vector<std::string> table;
  for (const Backend& backend : backends()) table.push_back(backend.target.str());
  EXPECT_EQ(table, targets) << "in one order";
  EXPECT_EQ(findBackend("cpu"), nullptr);
}

TEST(GpuBackends, JoinedKernelsKeepOneHeader) {
  const Backend* cuda = findBackend("cuda");
  const std::string header = ".version 7.0\n.address_size 64\n";
  auto joined = cuda->join({header + "a", header + "b"}, {"first", "second"});
  ASSERT_TRUE(static_cast<bool>(joined));
  EXPECT_EQ(*joined, header + "ab");
  auto bad = cuda->join({header + "a", "b"}, {"first", "second"});
  ASSERT_FALSE(static_cast<bool>(bad));
  EXPECT_EQ(llvm::toString(bad.takeError()), "PTX: kernel 'second' has no header");
}

}  // namespace
}  // namespace qcc::gpu
