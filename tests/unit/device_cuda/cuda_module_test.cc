// Machine code that a CUDA driver makes of PTX: made once, kept, and never run when it is not what was kept.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "runtime/device/cuda/cuda_module.h"
#include "tests/unit/device_cuda/fake_cuda.h"
#include "tests/unit/temp_folder.h"

namespace qrt {
namespace {

constexpr char kPtx[] = ".version 7.0\n.entry k() {}\n";

class CudaModuleTest : public ::testing::Test {
 protected:
  CudaModuleTest() {
    FakeCuda::Current().push_back(&fake_);  // some context
    info_.driver = "CUDA 12.4";
    info_.capability_major = 9;
  }
  ~CudaModuleTest() override { EXPECT_EQ(fake_.problems, std::vector<std::string>()); }
  KernelFile File() const { return CubinFile(folder_, info_, Hash128{1}); }
  Result<cuda::CUmodule> Load(const KernelFile& file) {
    const auto driver = cuda::Driver::Load(fake_.loader());
    EXPECT_TRUE(driver.ok());
    fake_.ptx.clear();
    auto module = LoadCudaModule(*driver, std::string_view(kPtx), file,
                                 [this](bool, std::string_view line) { said_ += line; });
    if (module.ok()) {
      EXPECT_EQ(fake_.ptx, kPtx);
      driver->call.ModuleUnload(*module);
    }
    EXPECT_TRUE(fake_.links.empty()) << "the driver's state is left";
    return module;
  }

  FakeCuda fake_;
  CudaDeviceInfo info_;
  const qrt::testing::TempFolder temporary_;
  const std::string folder_ = temporary_.path();
  std::string said_;
};

TEST_F(CudaModuleTest, IsMadeOnce) {
  ASSERT_TRUE(Load(File()).ok());
  EXPECT_EQ(fake_.compiled, 1);
  ASSERT_TRUE(Load(File()).ok());
  EXPECT_EQ(fake_.compiled, 1) << "the second use compiles again";
  EXPECT_EQ(said_, "");
}

TEST_F(CudaModuleTest, OfAnotherDeviceDriverOrCodeIsAnotherFile) {
  const std::string path = File().path();
  EXPECT_NE(CubinFile(folder_, info_, Hash128{2}).path(), path);
  CudaDeviceInfo other = info_;
  other.capability_minor = 1;
  EXPECT_NE(CubinFile(folder_, other, Hash128{1}).path(), path);
  other = info_;
  other.driver = "CUDA 12.6";
  EXPECT_NE(CubinFile(folder_, other, Hash128{1}).path(), path);
  other = info_;
  other.name = "the same chip under another name";
  EXPECT_EQ(CubinFile(folder_, other, Hash128{1}).path(), path);
}

TEST_F(CudaModuleTest, DamagedFilesNeverReachTheDriver) {
  ASSERT_TRUE(Load(File()).ok());
  const size_t size = std::filesystem::file_size(File().path());
  for (size_t at = 0; at < size; at += 7) {
    std::fstream file(File().path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    const char byte = static_cast<char>(file.get() ^ 0x20);
    file.seekp(static_cast<std::streamoff>(at));
    file.put(byte);
    file.close();
    said_.clear();
    const int before = fake_.compiled;
    ASSERT_TRUE(Load(File()).ok()) << "byte " << at;
    EXPECT_EQ(fake_.compiled, before + 1) << "byte " << at << " is damaged";
    EXPECT_NE(said_.find(File().path()), std::string::npos) << said_;
  }
}

TEST_F(CudaModuleTest, WhatTheDriverRefusesIsMadeAnew) {
  ASSERT_TRUE(Load(File()).ok());
  fake_.refuses_cubins = true;
  ASSERT_TRUE(Load(File()).ok());
  EXPECT_EQ(fake_.compiled, 2);
  EXPECT_NE(said_.find("refuses"), std::string::npos) << said_;
}

TEST_F(CudaModuleTest, WithoutAFolderItIsMadeEachTime) {
  const KernelFile none = CubinFile("", info_, Hash128{1});
  ASSERT_TRUE(Load(none).ok());
  ASSERT_TRUE(Load(none).ok());
  EXPECT_EQ(fake_.compiled, 2);
  std::filesystem::remove_all(folder_);
  ASSERT_TRUE(Load(File()).ok()) << "a folder that is gone is no error";
  EXPECT_NE(said_.find("not kept"), std::string::npos) << said_;
}

TEST_F(CudaModuleTest, WhatTheCompilerSaysIsTheError) {
  fake_.fail_function = "cuLinkComplete";
  fake_.fail_at = 1;
  fake_.fail_with = 218;
  const auto module = Load(File());
  ASSERT_FALSE(module.ok());
  EXPECT_NE(module.status().ToString().find("ptxas: made to fail"), std::string::npos)
      << module.status().ToString();
}

}  // namespace
}  // namespace qrt
