// Kernels of the user's own: which replaces what, and what is refused.
#include "compiler/targets/user_kernels.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "frontends/base/error.h"
#include "tests/unit/temp_folder.h"

namespace qcc::compiler {
namespace {

constexpr char kGood[] = R"glsl(#version 460
#extension GL_EXT_buffer_reference : require
layout(local_size_x = QCC_WORKGROUP_SIZE) in;
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Words { uint v[]; };
layout(push_constant) uniform Arguments { Words a; Words b; };
void main() { b.v[gl_GlobalInvocationID.x] = a.v[gl_GlobalInvocationID.x] + QCC_k; }
)glsl";

class UserKernelsTest : public testing::Test {
 protected:
  UserKernelsTest() {
    for (const char* name : {"quantize.k64", "quantize.k128", "add.v4"}) {
      gpu::KernelCode& kernel = lowered_.code.kernels.emplace_back();
      kernel.name = name;
      kernel.entry = "k";
      kernel.workgroup_size = 128;
      kernel.n_args = 2;
    }
  }
  void Write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ + "/" + name, std::ios::binary) << text;
  }
  absl::Status Apply(const char* profile = "none") {
    auto kernels = UserKernels::Open(folder_);
    if (!kernels.ok()) return kernels.status();
    if (absl::Status s = kernels->Apply(lowered_, *gpu::FindProfile(profile)); !s.ok()) return s;
    return kernels->CheckAllUsed();
  }
  void ExpectRefused(const std::string& text, const std::string& says, const char* profile = "none") {
    Write("add.v4.comp", text);
    const absl::Status status = Apply(profile);
    ASSERT_FALSE(status.ok()) << "accepted, expected: " << says;
    EXPECT_EQ(PartsOf(status).code, "Q3005") << status;
    EXPECT_NE(PartsOf(status).what.find(says), std::string::npos) << status;
  }
  static std::string Changed(const std::string& from, const std::string& to) {
    std::string text = kGood;
    text.replace(text.find("QCC_k"), 5, "1");
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  }

  const qrt::testing::TempFolder temp_;
  const std::string& folder_ = temp_.path();
  gpu::LoweredGpu lowered_;
};

TEST_F(UserKernelsTest, ReplaceByNameAndByPattern) {
  Write("quantize.*.comp", kGood);
  Write("quantize.k64.comp", Changed("+ 1", "+ 2"));
  Write("README.md", "not a kernel");
  ASSERT_TRUE(Apply().ok()) << Apply();
  const auto& kernels = lowered_.code.kernels;
  EXPECT_EQ(kernels[0].source, "glsl");
  EXPECT_EQ(kernels[0].entry, "main");
  EXPECT_EQ(kernels[1].source, "glsl");
  EXPECT_EQ(kernels[2].source, "gpu");
  ASSERT_FALSE(kernels[0].spirv.empty());
  EXPECT_NE(kernels[0].spirv, kernels[1].spirv) << "the exact name comes before the pattern";
  EXPECT_TRUE(kernels[2].spirv.empty());
  const std::vector<uint32_t> before = kernels[1].spirv;
  ASSERT_TRUE(Apply().ok());
  EXPECT_EQ(kernels[1].spirv, before) << "equal sources, other words";
}

TEST_F(UserKernelsTest, NearNamesOfWhatIsNotThere) {
  Write("quantise.k64.comp", kGood);
  const absl::Status status = Apply();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(PartsOf(status).code, "Q3005");
  EXPECT_NE(PartsOf(status).what.find("no kernel 'quantise.k64'; near names: quantize.k64, quantize.k128"),
            std::string::npos)
      << status;
}

TEST_F(UserKernelsTest, CompilerErrorsNameFileAndLine) {
  ExpectRefused(Changed("b.v[", "c.v["), "add.v4.comp:6: error:");
}

TEST_F(UserKernelsTest, OnlyRegularFilesOfASensibleSizeAreRead) {
  const std::string path = folder_ + "/add.v4.comp";
  const auto expect = [&](const char* what, const std::string& says) {
    const absl::Status status = Apply();
    ASSERT_FALSE(status.ok()) << what << ": accepted";
    EXPECT_EQ(PartsOf(status).code, "Q3005") << what << ": " << status;
    EXPECT_NE(PartsOf(status).what.find(says), std::string::npos) << what << ": " << status;
    EXPECT_EQ(PartsOf(status).where, path) << what;
    std::filesystem::remove(path);
  };
  std::filesystem::create_directory(path);
  expect("a folder", "is not a regular file");
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  expect("a FIFO without a writer", "is not a regular file");
  std::filesystem::create_symlink("/dev/zero", path);
  expect("a device without an end", "is not a regular file");
  std::filesystem::create_symlink(folder_ + "/nowhere", path);
  expect("a link to nothing", "No such file");
  const std::string good = Changed("", "");
  Write("add.v4.comp", good + "//" + std::string((1 << 20) - good.size() - 1, '.'));
  expect("1 MiB and a byte", "larger than 1048576 bytes");
  Write("add.v4.comp", good + "//" + std::string((1 << 20) - good.size() - 2, '.'));
  EXPECT_TRUE(Apply().ok()) << "1 MiB: " << Apply();
}

TEST_F(UserKernelsTest, AVersionLineComesFirst) {
  const std::string good = Changed("", "");
  const std::string bare = good.substr(good.find('\n') + 1);
  for (const std::string& text :
       {bare, std::string("void main() {}"), std::string(), "/* #version 460\n" + bare,
        "// #version 460\n" + bare, "#define A\n#version 460\n" + bare}) {
    testing::internal::CaptureStdout();
    ExpectRefused(text, "add.v4.comp: does not begin with a #version line");
    EXPECT_EQ(testing::internal::GetCapturedStdout(), "") << text;
  }
  Write("add.v4.comp", "// mine\n\n/* of\nlines */ # version 460\n" + bare);
  EXPECT_TRUE(Apply().ok()) << Apply();
}

TEST_F(UserKernelsTest, AnotherWorkgroupIsRefused) {
  ExpectRefused(Changed("local_size_x = QCC_WORKGROUP_SIZE", "local_size_x = 64"),
                "its workgroup is 64 x 1 x 1, the kernel is launched with 128 threads");
}

TEST_F(UserKernelsTest, MorePushConstantsThanArgumentsAreRefused) {
  ExpectRefused(Changed("Words b; };", "Words b; Words c; };"),
                "push constants take 24 bytes, the kernel has 2 arguments of 8 bytes");
}

TEST_F(UserKernelsTest, BoundResourcesAreRefused) {
  std::string text = Changed("void main", "layout(binding = 0) buffer X { uint x[]; };\nvoid main");
  ExpectRefused(text.replace(text.find("a.v[gl"), 4, "x["), "it binds a resource");
}

TEST_F(UserKernelsTest, SubgroupsNeedAProfileThatHasThem) {
  std::string text =
      Changed("#version 460\n", "#version 460\n#extension GL_KHR_shader_subgroup_shuffle : require\n");
  text.replace(text.find("a.v[gl_GlobalInvocationID.x]"), 28,
               "subgroupShuffleXor(a.v[gl_GlobalInvocationID.x], 1)");
  ExpectRefused(text, "capability", "none");
  EXPECT_TRUE(Apply("sg32").ok()) << Apply("sg32");
}

TEST_F(UserKernelsTest, WorkgroupMemoryIsCountedAndLimited) {
  auto with = [&](const char* words) {
    std::string text = Changed("void main", std::string("shared uint s[") + words + "];\nvoid main");
    return text.replace(text.find("a.v[gl_GlobalInvocationID.x]"), 28, "s[gl_LocalInvocationID.x]");
  };
  Write("add.v4.comp", with("200"));
  ASSERT_TRUE(Apply().ok()) << Apply();
  EXPECT_EQ(lowered_.code.kernels[2].shared_bytes, 800u);
  ExpectRefused(with("5000"), "it takes 20000 bytes of workgroup memory");
  std::string matrices = Changed("void main", "shared mat4 m[512];\nvoid main");
  ExpectRefused(matrices.replace(matrices.find("a.v[gl_GlobalInvocationID.x]"), 28,
                                 "uint(m[gl_LocalInvocationID.x][0][0])"),
                "it takes 32768 bytes of workgroup memory");
  const std::string specialized = "layout(constant_id = 0) const uint N = 64;\n";
  std::string known = with("N");
  Write("add.v4.comp", known.insert(known.find("shared uint"), specialized));
  ASSERT_TRUE(Apply().ok()) << Apply();
  EXPECT_EQ(lowered_.code.kernels[2].shared_bytes, 256u);
  std::string computed = with("N * 1024");
  ExpectRefused(computed.insert(computed.find("shared uint"), specialized),
                "the length of an array is computed from a specialization constant");
}

TEST_F(UserKernelsTest, FoldersThatCannotBeReadOrHoldNothing) {
  EXPECT_EQ(PartsOf(UserKernels::Open(folder_ + "/nowhere").status()).code, "Q3005");
  EXPECT_EQ(PartsOf(UserKernels::Open(folder_).status()).code, "Q3005");
  EXPECT_TRUE(UserKernels::Open("").ok());
}

TEST(Patterns, Match) {
  EXPECT_TRUE(MatchesPattern("a.*.r4", "a.k1.x.r4"));
  EXPECT_TRUE(MatchesPattern("*", ""));
  EXPECT_TRUE(MatchesPattern("a*b*c", "aXbYbZc"));
  EXPECT_FALSE(MatchesPattern("a*b", "abc"));
  EXPECT_FALSE(MatchesPattern("a", "ab"));
  EXPECT_FALSE(MatchesPattern("ab", "a"));
  EXPECT_FALSE(MatchesPattern("", "a"));
}

}  // namespace
}  // namespace qcc::compiler
