// Machine code that a CUDA driver makes of PTX.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/device/cuda/cuda_module.h"
#include "tests/unit/device_cuda/fake_cuda.h"

namespace qrt {
namespace {

class CudaModuleTest : public ::testing::Test {
 protected:
  CudaModuleTest() { FakeCuda::Current().push_back(&fake_); }  // some context
  ~CudaModuleTest() override { EXPECT_EQ(fake_.problems, std::vector<std::string>()); }
  Result<cuda::CUmodule> Load(std::string_view ptx) {
    const auto driver = cuda::Driver::Load(fake_.loader());
    EXPECT_TRUE(driver.ok());
    auto module = LoadCudaModule(*driver, ptx);
    if (module.ok()) driver->call.ModuleUnload(*module);
    return module;
  }

  FakeCuda fake_;
};

TEST_F(CudaModuleTest, TheDriverGetsThePtxItself) {
  constexpr char kPtx[] = ".version 7.0\n.entry k() {}\n";
  ASSERT_TRUE(Load(kPtx).ok());
  EXPECT_EQ(fake_.ptx, kPtx);
}

// However long the driver's account is: it fills its place to the end, and need not close it.
TEST_F(CudaModuleTest, WhatTheCompilerSaysIsTheError) {
  for (const std::string& said : {std::string("ptxas: made to fail"), std::string(10000, 'x')}) {
    fake_.compiler_says = said;
    fake_.fail_function = "cuModuleLoadDataEx";
    fake_.fail_at = 1;
    fake_.fail_with = 218;
    const auto module = Load(".version 7.0\n");
    ASSERT_FALSE(module.ok());
    EXPECT_EQ(module.status().number(), 5011u);
    EXPECT_NE(module.status().message().find("compiling the kernels: " + said.substr(0, 4000)),
              std::string::npos)
        << module.status().ToString();
  }
}

TEST_F(CudaModuleTest, ADriverThatSaysNothingIsNoError) {
  fake_.fail_function = "cuModuleLoadDataEx";
  fake_.fail_at = 1;
  fake_.fail_with = cuda::kOutOfMemory;
  const auto module = Load(".version 7.0\n");
  ASSERT_FALSE(module.ok());
  EXPECT_EQ(module.status().number(), 6001u);
  EXPECT_EQ(module.status().message().find("compiling the kernels: CUDA_ERROR_FAKE"), 0u)
      << module.status().ToString();
}

}  // namespace
}  // namespace qrt
