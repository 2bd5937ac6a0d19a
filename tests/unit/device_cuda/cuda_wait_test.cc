// Waits that end, and copies by way of pinned memory, over a driver that computes nothing.
#include <gtest/gtest.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/device/cuda/cuda_driver.h"
#include "runtime/device/cuda/cuda_upload.h"
#include "runtime/device/cuda/cuda_wait.h"
#include "tests/unit/device_cuda/cuda_model.h"
#include "tests/unit/device_cuda/fake_cuda.h"

namespace qrt {
namespace {

using cuda::kSuccess;

// A GPU that does not answer is lost: nobody waits for ever, nothing that it may still use is given back, and
// another engine can be made.
TEST(CudaWait, AHangIsALostDevice) {
#ifdef __SANITIZE_ADDRESS__
  const __lsan::ScopedDisabler left_on_purpose;
#endif
  FakeCuda fake;
  size_t memory = 0, pinned = 0;
  {
    CudaOptions options;
    options.longest_wait = std::chrono::milliseconds(30);
    auto made = CreateCudaDevice(CudaModel(), 0, options, fake.loader());
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    Device& device = **made;
    DeviceBuffer buffer;
    ASSERT_EQ(device.Allocate(64, &buffer), DeviceResult::kOk);
    memory = fake.memory.size();
    pinned = fake.pinned.size();
    fake.hangs = true;
    EXPECT_EQ(device.Zero(buffer), DeviceResult::kLost);
    EXPECT_NE(device.last_error().find("no answer within 0 s"), std::string::npos) << device.last_error();
    EXPECT_EQ(device.Zero(buffer), DeviceResult::kLost);
    device.Free(&buffer);
  }
  EXPECT_EQ(fake.memory.size(), memory) << "it may still be written to";
  EXPECT_EQ(fake.pinned.size(), pinned) << "it may still be read";
  EXPECT_EQ(fake.contexts.size(), 1u);
  EXPECT_EQ(fake.streams.size(), 1u);
  EXPECT_FALSE(fake.execs.empty());
  EXPECT_TRUE(FakeCuda::Current().empty());
  fake.hangs = false;
  EXPECT_TRUE(CreateCudaDevice(CudaModel(), 0, {}, fake.loader()).ok());
  for (const std::string& problem : fake.problems) ADD_FAILURE() << problem;
}

// Memory of the caller's is not pinned, so the driver copies it there and then, behind all that the stream
// has: that is waited for before, and not for ever.
TEST(CudaWait, AHangBeforeACopyOfTheCallers) {
#ifdef __SANITIZE_ADDRESS__
  const __lsan::ScopedDisabler left_on_purpose;
#endif
  const Manifest& manifest = CudaModel().manifest();
  const uint32_t decode = ProgramOf(manifest, kTokens, Output::kChosenLogits, 1);
  std::vector<float> logits(manifest.model.logits_stride);
  int32_t chosen = 0;
  uint8_t bytes[16] = {};
  for (const std::string what : {"logits", "logits beside a choice", "read", "write"}) {
    FakeCuda fake;
    CudaOptions options;
    options.longest_wait = std::chrono::milliseconds(30);
    auto made = CreateCudaDevice(CudaModel(), 0, options, fake.loader());
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    Device& device = **made;
    SequenceRows row(device, manifest, decode, 1);
    row.step.logits = logits.data();
    if (what == "logits beside a choice") row.step.chosen = &chosen;
    const CopyRange range{&row.state, 0, bytes, sizeof bytes};
    fake.hangs = true;
    const DeviceResult result = what == "read"    ? device.Read({&range, 1})
                                : what == "write" ? device.Write({&range, 1})
                                                  : device.Run(row.step);
    EXPECT_EQ(result, DeviceResult::kLost) << what;
    EXPECT_NE(device.last_error().find("no answer"), std::string::npos) << what << device.last_error();
    for (const std::string& problem : fake.problems) ADD_FAILURE() << what << ": " << problem;
  }
}

// A device that hangs while weights go to it: an error, and again nothing is given back.
TEST(CudaWait, AHangWhileItIsMade) {
#ifdef __SANITIZE_ADDRESS__
  const __lsan::ScopedDisabler left_on_purpose;
#endif
  FakeCuda fake;
  fake.hangs = true;
  CudaOptions options;
  options.longest_wait = std::chrono::milliseconds(30);
  const auto made = CreateCudaDevice(CudaModel(), 0, options, fake.loader());
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.status().number(), 5010u) << made.status().ToString();
  EXPECT_FALSE(fake.pinned.empty()) << "pieces of an upload may still be read";
  for (const std::string& problem : fake.problems) ADD_FAILURE() << problem;
}

// Between a question and a look at the clock the whole process may stand still for longer than the limit.
TEST(CudaWait, WhatIsDoneWhileTheProcessIsStoppedIsDone) {
  static int asked;
  asked = 0;
  cuda::Functions call;
  call.StreamQuery = [](cuda::CUstream) {
    if (asked++ > 0) return kSuccess;
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    return cuda::kNotReady;
  };
  EXPECT_EQ(cuda::WaitFor(call, nullptr, std::chrono::milliseconds(1)), kSuccess);
  EXPECT_EQ(asked, 2);
}

class CudaUpload : public testing::Test {
 protected:
  void SetUp() override {
    auto driver = cuda::Driver::Load(fake_.loader());
    ASSERT_TRUE(driver.ok()) << driver.status().ToString();
    driver_ = std::make_unique<cuda::Driver>(std::move(*driver));
    ASSERT_EQ(driver_->call.CtxCreate(&context_, 0, 0), kSuccess);
    ASSERT_EQ(driver_->call.StreamCreate(&stream_, 0), kSuccess);
    for (size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = static_cast<uint8_t>((i * 2654435761u) >> 24);
    ASSERT_EQ(driver_->call.MemAlloc(&to_, bytes_.size()), kSuccess);
    fake_.waits = 0;
  }
  void TearDown() override {
    driver_->call.MemFree(to_);
    driver_->call.StreamDestroy(stream_);
    driver_->call.CtxPopCurrent(&context_);
    driver_->call.CtxDestroy(context_);
    EXPECT_TRUE(fake_.Clean());
    for (const std::string& problem : fake_.problems) ADD_FAILURE() << problem;
  }
  cuda::CUresult Upload(const std::function<bool(uint64_t)>& progress) {
    return cuda::Upload(
        driver_->call, stream_, to_, bytes_,
        [&] { return cuda::WaitFor(driver_->call, stream_, cuda::kLongestWait); }, progress, &stopped_);
  }

  FakeCuda fake_;
  std::unique_ptr<cuda::Driver> driver_;
  cuda::CUcontext context_ = nullptr;
  cuda::CUstream stream_ = nullptr;
  cuda::CUdeviceptr to_ = 0;
  // Two whole pieces and the begin of a third.
  std::vector<uint8_t> bytes_ = std::vector<uint8_t>(2 * cuda::kUploadPiece + 12345);
  bool stopped_ = true;
};

TEST_F(CudaUpload, PiecesArriveWhileOthersAreFilled) {
  std::vector<uint64_t> told;
  ASSERT_EQ(Upload([&](uint64_t bytes) { return told.push_back(bytes), true; }), kSuccess);
  EXPECT_FALSE(stopped_);
  EXPECT_EQ(fake_.uploads, 3);
  EXPECT_TRUE(fake_.pending.empty()) << "it is there when the call returns";
  EXPECT_EQ(told, (std::vector<uint64_t>{cuda::kUploadPiece, 2 * cuda::kUploadPiece, bytes_.size()}));
  EXPECT_EQ(fake_.memory.at(to_), bytes_);
}

TEST_F(CudaUpload, StopsAndFailsWithNothingUnderWay) {
  EXPECT_EQ(Upload([](uint64_t bytes) { return bytes == cuda::kUploadPiece; }), kSuccess);
  EXPECT_TRUE(stopped_);
  EXPECT_EQ(fake_.uploads, 2);
  EXPECT_TRUE(fake_.pending.empty());
  EXPECT_TRUE(fake_.pinned.empty());
  for (const char* function : {"cuMemAllocHost_v2", "cuMemcpyHtoDAsync_v2", "cuStreamQuery"}) {
    for (int at = 1; at <= 2; ++at) {
      fake_.fail_function = function;
      fake_.fail_at = at;
      fake_.fail_with = 1;
      EXPECT_EQ(Upload([](uint64_t) { return true; }), 1) << function << ", call " << at;
      EXPECT_TRUE(fake_.pinned.empty()) << function << ", call " << at;
      fake_.Wait();
    }
  }
}

}  // namespace
}  // namespace qrt
