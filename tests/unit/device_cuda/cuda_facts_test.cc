// What CUDA devices there are, what a driver tells of them, and which code of an artifact they take.
#include <gtest/gtest.h>

#include <string>

#include "runtime/device/cuda/cuda_api.h"
#include "runtime/device/cuda/cuda_device.h"
#include "tests/unit/device_cuda/fake_cuda.h"

namespace qrt {
namespace {

TEST(CudaFacts, ListsWhatThereIs) {
  FakeCuda fake;
  auto devices = ListCudaDevices(fake.loader());
  ASSERT_TRUE(devices.ok()) << devices.status().ToString();
  ASSERT_EQ(devices->size(), 1u);
  const CudaDeviceInfo& info = devices->front();
  EXPECT_EQ(info.name, "Fake GPU");
  EXPECT_EQ(info.driver, "CUDA 12.4");
  EXPECT_EQ(info.capability_major, 9);
  EXPECT_TRUE(info.usable);
  EXPECT_DOUBLE_EQ(info.bytes_per_second, 2e9 * 4096 / 8);
}

// Estimates live on it: a speed of nothing would cut every program into its dispatches.
TEST(CudaFacts, ADriverThatDoesNotTellTheMemorysSpeed) {
  FakeCuda fake;
  const auto speed = [&fake] {
    auto devices = ListCudaDevices(fake.loader());
    EXPECT_TRUE(devices.ok() && devices->size() == 1 && devices->front().usable);
    return devices.ok() ? devices->front().bytes_per_second : 0;
  };
  const double guess = fake.multiprocessors * 5e9;
  fake.memory_clock_khz = 0;
  EXPECT_DOUBLE_EQ(speed(), guess);
  fake.memory_clock_khz = 1000000;
  fake.memory_bus_bits = 0;
  EXPECT_DOUBLE_EQ(speed(), guess);
  fake.memory_bus_bits = 4096;
  fake.unknown_attributes = {cuda::kMemoryClockKhz};
  EXPECT_DOUBLE_EQ(speed(), guess);
  fake.unknown_attributes = {cuda::kMultiprocessors};
  auto devices = ListCudaDevices(fake.loader());
  ASSERT_TRUE(devices.ok());
  EXPECT_FALSE(devices->front().usable) << "what is needed must be told";
}

TEST(CudaFacts, NoDeviceIsNoError) {
  FakeCuda fake;
  fake.fail_function = "cuInit";
  fake.fail_at = 1;
  fake.fail_with = cuda::kNoDevice;
  auto devices = ListCudaDevices(fake.loader());
  ASSERT_TRUE(devices.ok()) << devices.status().ToString();
  EXPECT_TRUE(devices->empty());
}

TEST(CudaFacts, AnOldDriverIsNamed) {
  FakeCuda fake;
  fake.missing = "cuGraphInstantiateWithFlags";
  auto devices = ListCudaDevices(fake.loader());
  ASSERT_FALSE(devices.ok());
  EXPECT_EQ(devices.status().number(), 5011u);
  EXPECT_NE(devices.status().message().find("cuGraphInstantiateWithFlags"), std::string::npos);
}

TEST(CudaFacts, TheBestCodeThatTheDeviceHas) {
  CudaDeviceInfo device;
  device.capability_major = 9;
  Manifest manifest;
  manifest.code = {{"cpu", "v3", {}, 0, 0},
                   {"cuda", "sm80", {"sm-80", "subgroup-32", "int-dot", "matrix"}, 0, 0},
                   {"cuda", "sm61", {"sm-61", "subgroup-32", "int-dot"}, 0, 0}};
  EXPECT_EQ(*ChooseCudaCode(manifest, device, ""), 1u);
  EXPECT_EQ(*ChooseCudaCode(manifest, device, "sm61"), 2u);
  device.capability_major = 7;
  device.capability_minor = 5;
  EXPECT_EQ(*ChooseCudaCode(manifest, device, ""), 2u);
  auto refused = ChooseCudaCode(manifest, device, "sm80");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().number(), 5001u);
  EXPECT_NE(refused.status().message().find("compute capability 8.0"), std::string::npos);
  EXPECT_EQ(ChooseCudaCode(manifest, device, "sm99").status().number(), 5003u);
  manifest.code.resize(1);
  EXPECT_EQ(ChooseCudaCode(manifest, device, "").status().number(), 5002u);
}

}  // namespace
}  // namespace qrt
