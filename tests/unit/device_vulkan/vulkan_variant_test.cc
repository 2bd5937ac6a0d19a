#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/unit/device_vulkan/vulkan_choice.h"
#include "tests/unit/device_vulkan/vulkan_fixture.h"
#include "tests/unit/temp_folder.h"

namespace qrt::testing {
namespace {

const std::vector<CodeInfo> kVariants = {{"cpu", "v3", {"avx2"}, 0, 0},
                                         {"vulkan", "sg32-dot", {"subgroup-32", "int-dot"}, 0, 0},
                                         {"vulkan", "sg8", {"subgroup-8"}, 0, 0},
                                         {"vulkan", "none", {}, 0, 0},
                                         {"cuda", "sm80", {"sm-80"}, 0, 0}};

TEST(VulkanVariant, TheFirstThatTheDeviceCanRun) {
  const Manifest manifest = WithCode(kVariants);
  EXPECT_EQ(*ChooseVulkanCode(manifest, Info(32, 32, false, true), ""), 1u);
  EXPECT_EQ(*ChooseVulkanCode(manifest, Info(8, 64, true, true), ""), 1u);
  EXPECT_EQ(*ChooseVulkanCode(manifest, Info(8, 64, true, false), ""), 2u);
  EXPECT_EQ(*ChooseVulkanCode(manifest, Info(8, 64, false, true), ""), 3u) << "the size cannot be asked for";
  EXPECT_EQ(*ChooseVulkanCode(manifest, Info(64, 64, true, true), ""), 3u);
  EXPECT_EQ(*ChooseVulkanCode(manifest, Info(0, 0, false, false), ""), 3u);
  EXPECT_EQ(*ChooseVulkanCode(manifest, Info(8, 8, true, true), "sg8"), 2u);
}

TEST(VulkanVariant, IntelTakesTheSmallestSubgroups) {
  const Manifest manifest = WithCode({{"vulkan", "sg64-dot", {"subgroup-64", "int-dot"}, 0, 0},
                                      {"vulkan", "sg32-dot", {"subgroup-32", "int-dot"}, 0, 0},
                                      {"vulkan", "sg8-dot", {"subgroup-8", "int-dot"}, 0, 0},
                                      {"vulkan", "sg8", {"subgroup-8"}, 0, 0},
                                      {"vulkan", "none", {}, 0, 0}});
  VulkanDeviceInfo info = Info(8, 32, true, true);
  EXPECT_EQ(*ChooseVulkanCode(manifest, info, ""), 1u);
  info.vendor_id = 0x8086;
  EXPECT_EQ(*ChooseVulkanCode(manifest, info, ""), 2u);
  EXPECT_EQ(*ChooseVulkanCode(manifest, info, "sg32-dot"), 1u);
  info.int_dot = false;
  EXPECT_EQ(*ChooseVulkanCode(manifest, info, ""), 3u);
}

TEST(VulkanVariant, WorkgroupMemoryIsAskedFor) {
  const Manifest manifest =
      WithCode({{"vulkan", "large", {"shared-32768"}, 0, 0}, {"vulkan", "none", {}, 0, 0}});
  VulkanDeviceInfo info = Info(32, 32, true, true);
  info.max_shared_bytes = 32768;
  EXPECT_EQ(*ChooseVulkanCode(manifest, info, ""), 0u);
  info.max_shared_bytes = 32767;
  EXPECT_EQ(*ChooseVulkanCode(manifest, info, ""), 1u);
  const Status status = ChooseVulkanCode(manifest, info, "large").status();
  EXPECT_EQ(status.number(), 5001u);
  EXPECT_NE(status.message().find("large needs shared-32768"), std::string::npos) << status.ToString();
  const Manifest odd = WithCode({{"vulkan", "odd", {"shared-many"}, 0, 0}});
  EXPECT_EQ(ChooseVulkanCode(odd, info, "").status().number(), 5001u);
}

TEST(VulkanVariant, LargeWorkgroupsAreAskedFor) {
  const Manifest manifest = WithCode({{"vulkan", "sg32", {"subgroup-32", "threads-512"}, 0, 0},
                                      {"vulkan", "sg8", {"subgroup-8", "threads-256"}, 0, 0},
                                      {"vulkan", "none", {}, 0, 0}});
  VulkanDeviceInfo info = Info(8, 32, true, true);
  info.max_workgroup = 512;
  EXPECT_EQ(*ChooseVulkanCode(manifest, info, ""), 0u);
  info.vendor_id = 0x8086;
  EXPECT_EQ(*ChooseVulkanCode(manifest, info, ""), 1u) << "the size of workgroups makes no other code";
  info.vendor_id = 0;
  info.max_workgroup = 511;
  EXPECT_EQ(*ChooseVulkanCode(manifest, info, ""), 1u);
  info.max_workgroup = 128;
  EXPECT_EQ(*ChooseVulkanCode(manifest, info, ""), 2u);
  const Status status = ChooseVulkanCode(manifest, info, "sg32").status();
  EXPECT_EQ(status.number(), 5001u);
  EXPECT_NE(status.message().find("sg32 needs threads-512"), std::string::npos) << status.ToString();
}

TEST(VulkanVariant, MatricesAreToldApartByShape) {
  const Manifest manifest = WithCode({{"vulkan", "matrix16", {"subgroup-32", "matrix-16x16x16"}, 0, 0},
                                      {"vulkan", "matrix32", {"subgroup-32", "matrix-16x16x32"}, 0, 0},
                                      {"vulkan", "none", {}, 0, 0}});
  VulkanDeviceInfo info = Info(32, 32, true, true);
  EXPECT_EQ(*ChooseVulkanCode(manifest, info, ""), 2u);
  info.matrix_shapes = {"8x8x8", "16x16x32"};
  EXPECT_EQ(*ChooseVulkanCode(manifest, info, ""), 1u);
  const Status status = ChooseVulkanCode(manifest, info, "matrix16").status();
  EXPECT_EQ(status.number(), 5001u);
  EXPECT_NE(status.message().find("matrix16 needs matrix-16x16x16"), std::string::npos) << status.ToString();
}

TEST(VulkanVariant, ErrorsSayWhatIsLacking) {
  Manifest manifest = WithCode(kVariants);
  Status status = ChooseVulkanCode(manifest, Info(8, 8, true, false), "sg32-dot").status();
  EXPECT_EQ(status.number(), 5001u);
  EXPECT_NE(status.message().find("sg32-dot needs subgroup-32, int-dot"), std::string::npos)
      << status.ToString();
  EXPECT_EQ(ChooseVulkanCode(manifest, Info(8, 8, true, false), "v3").status().number(), 5003u);
  manifest = WithCode({kVariants[0], kVariants[4]});
  EXPECT_EQ(ChooseVulkanCode(manifest, Info(8, 8, true, false), "").status().number(), 5002u);
  manifest = WithCode({{"vulkan", "new", {"warp-drive"}, 0, 0},
                       {"vulkan", "odd", {"subgroup-32x"}, 0, 0},
                       {"vulkan", "no-power", {"subgroup-24"}, 0, 0}});
  status = ChooseVulkanCode(manifest, Info(32, 32, true, true), "").status();
  EXPECT_EQ(status.number(), 5001u);
  EXPECT_NE(status.message().find("warp-drive"), std::string::npos);
  EXPECT_NE(status.message().find("subgroup-32x"), std::string::npos);
}

TEST(VulkanVariant, TheBestDevice) {
  std::vector<VulkanDeviceInfo> list(4);
  const char* types[] = {"cpu", "integrated", "discrete", "discrete"};
  const uint64_t memory[] = {64, 32, 8, 16};
  for (size_t i = 0; i < list.size(); ++i) {
    list[i].index = static_cast<int>(i);
    list[i].type = types[i];
    list[i].memory_bytes = memory[i];
    list[i].usable = true;
  }
  EXPECT_EQ(*ChooseVulkanDevice(list, -1), 3u);
  list[3].usable = false;
  list[3].why_not = "it lacks wings";
  EXPECT_EQ(*ChooseVulkanDevice(list, -1), 2u);
  list[2].usable = false;
  EXPECT_EQ(*ChooseVulkanDevice(list, -1), 1u);
  EXPECT_EQ(*ChooseVulkanDevice(list, 0), 0u);
  const Status status = ChooseVulkanDevice(list, 3).status();
  EXPECT_EQ(status.number(), 5013u);
  EXPECT_NE(status.message().find("wings"), std::string::npos);
}

class PipelineCache : public VulkanTest {
 protected:
  std::vector<std::string> Files() const {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) files.push_back(entry.path());
    return files;
  }
  static std::string Contents(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    std::stringstream out;
    out << in.rdbuf();
    return out.str();
  }
  static void Put(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
  }
  // What was logged; the validation layer must have been silent.
  std::vector<std::string> Run(const Artifact& artifact) {
    std::vector<std::string> lines;
    VulkanOptions options = Options();
    options.validation = false;
    options.pipeline_cache_dir = folder_;
    options.log = [&lines](bool, std::string_view line) { lines.emplace_back(line); };
    const std::unique_ptr<Device> device = Create(artifact, options);
    if (device != nullptr) ExpectDecodes(*device, {1, 2});
    return lines;
  }
  const TempFolder temporary_;
  const std::string folder_ = temporary_.path();
};

TEST_F(PipelineCache, IsSavedAndUsedAgain) {
  EXPECT_TRUE(Run(ToyArtifact()).empty());
  ASSERT_EQ(Files().size(), 1u);
  const std::string bytes = Contents(Files()[0]);
  ASSERT_GE(bytes.size(), 48u + 32u);
  EXPECT_EQ(faults().cache_bytes_given, 0u);
  EXPECT_TRUE(Run(ToyArtifact()).empty());
  EXPECT_EQ(faults().cache_bytes_given, bytes.size() - 48);
  EXPECT_EQ(Files().size(), 1u);
}

TEST_F(PipelineCache, AnotherArtifactHasAnotherFile) {
  Run(ToyArtifact());
  ToyParts parts = Toy();
  parts.code.kernels[0].name = "embed.other";
  Run(*WriteToy(parts));
  EXPECT_EQ(Files().size(), 2u);
}

TEST_F(PipelineCache, DamagedAndForeignFilesAreNotUsedAndReplaced) {
  Run(ToyArtifact());
  ASSERT_EQ(Files().size(), 1u);
  const std::string path = Files()[0], good = Contents(path);
  std::string flipped = good, foreign_key = good, long_one = good + "x";
  flipped[good.size() - 1] = static_cast<char>(flipped[good.size() - 1] ^ 1);
  foreign_key[20] = static_cast<char>(foreign_key[20] ^ 1);
  for (const std::string& bad :
       {flipped, foreign_key, long_one, good.substr(0, 47), good.substr(0, good.size() / 2),
        std::string("hello"), std::string(), std::string(100, 'x')}) {
    Put(path, bad);
    const std::vector<std::string> lines = Run(ToyArtifact());
    ASSERT_EQ(lines.size(), 1u) << bad.size();
    EXPECT_EQ(faults().cache_bytes_given, 0u);
    EXPECT_NE(lines[0].find("is not used"), std::string::npos) << lines[0];
    EXPECT_EQ(Contents(path).size(), good.size()) << "a good one took its place";
    EXPECT_TRUE(Run(ToyArtifact()).empty());
  }
}

// The file is whole, but the driver's own header in it is of another device.
TEST_F(PipelineCache, DriverDataOfAnotherDeviceAreNotUsed) {
  Run(ToyArtifact());
  ASSERT_EQ(Files().size(), 1u);
  const std::string path = Files()[0];
  std::string bytes = Contents(path);
  bytes[48 + 8] = static_cast<char>(bytes[48 + 8] ^ 1);  // vendorID
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data()) + 48;
  const Hash128 hash = HashOf({data, bytes.size() - 48});
  bytes.replace(32, 16, reinterpret_cast<const char*>(hash.data()), 16);
  Put(path, bytes);
  const std::vector<std::string> lines = Run(ToyArtifact());
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("another device"), std::string::npos) << lines[0];
  EXPECT_EQ(faults().cache_bytes_given, 0u);
}

TEST_F(PipelineCache, AFolderThatIsNotThereOnlyWarns) {
  std::filesystem::remove_all(folder_);
  const std::vector<std::string> lines = Run(ToyArtifact());
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("not kept"), std::string::npos) << lines[0];
}

}  // namespace
}  // namespace qrt::testing
