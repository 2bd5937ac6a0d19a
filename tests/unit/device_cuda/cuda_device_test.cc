// The CUDA device over a driver that computes nothing: what it records, copies and counts, and what it does
// when a call fails. What kernels compute is shown on a GPU: tests/device/run_cuda.sh.
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "compiler/pipeline/pipeline.h"
#include "runtime/artifact/artifact.h"
#include "runtime/device/cuda/cuda_api.h"
#include "tests/unit/device_cuda/fake_cuda.h"

namespace qrt {
namespace {

class Quiet : public qcc::compiler::ProgressSink {
 public:
  void BeginStage(int, int, std::string_view) override {}
  void Progress(uint64_t, uint64_t, std::string_view) override {}
  void EndStage(std::string_view) override {}
  void Warning(std::string_view) override {}
  void Report(std::string_view) override {}
  bool Interrupted() const override { return false; }
};

// A small model compiled for CUDA, once.
const Artifact& Model() {
  static const Artifact* artifact = [] {
    qcc::compiler::PipelineOptions options;
    options.input = std::string(QCC_SOURCE_DIR) + "/tests/golden/t35-q-Q4_K_M.gguf";
    options.output = testing::TempDir() + "/qcc_cuda_device_" + std::to_string(getpid()) + ".qbin";
    options.targets = {"cuda"};
    options.gpu_profiles = {"sm80"};
    options.decode_buckets = {1, 4};
    options.prefill_buckets = {32};
    Quiet quiet;
    const absl::Status compiled = qcc::compiler::CompileModel(options, quiet);
    EXPECT_TRUE(compiled.ok()) << compiled;
    Result<std::unique_ptr<Artifact>> opened = Artifact::Open(options.output);
    EXPECT_TRUE(opened.ok()) << opened.status().ToString();
    std::filesystem::remove(options.output);
    return opened.ok() ? opened->release() : nullptr;
  }();
  return *artifact;
}

uint32_t ProgramOf(Phase phase, uint32_t rows) {
  const auto& programs = Model().manifest().programs;
  for (uint32_t i = 0; i < programs.size(); ++i)
    if (programs[i].phase == phase && programs[i].rows == rows) return i;
  ADD_FAILURE() << "no such program";
  return 0;
}

std::unique_ptr<Device> Make(FakeCuda& fake, CudaOptions options = {}) {
  Result<std::unique_ptr<Device>> device = CreateCudaDevice(Model(), 0, options, fake.loader());
  EXPECT_TRUE(device.ok()) << device.status().ToString();
  return device.ok() ? std::move(*device) : nullptr;
}

// One row of one sequence through the decode program of one row.
struct OneRow {
  explicit OneRow(Device& device) {
    EXPECT_EQ(device.Allocate(Model().manifest().state_bytes, &state), DeviceResult::kOk);
    EXPECT_EQ(device.Allocate(64 * Model().manifest().kv_bytes_per_token, &kv), DeviceResult::kOk);
    seq = {reinterpret_cast<uint8_t*>(state.address), reinterpret_cast<uint8_t*>(kv.address), 64, 0, 0, 1};
    step.program = ProgramOf(Phase::kDecode, 1);
    step.seqs = &seq;
    step.n_seqs = 1;
    step.n_rows = 1;
    step.tokens = &token;
    step.positions = positions;
    step.out_rows = &out_row;
    step.n_out = 1;
  }
  void Free(Device& device) {
    device.Free(&state);
    device.Free(&kv);
  }

  DeviceBuffer state, kv;
  qrt_seq seq;
  int32_t token = 7, positions[4] = {}, out_row = 0;
  StepRequest step;
};

void ExpectClean(const FakeCuda& fake) {
  EXPECT_TRUE(fake.Clean()) << fake.memory.size() << " allocations, " << fake.pinned.size() << " pinned, "
                            << fake.contexts.size() << " contexts, " << fake.execs.size()
                            << " graphs are left";
  for (const std::string& problem : fake.problems) ADD_FAILURE() << problem;
}

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

TEST(CudaDevice, OneGraphAndFourBytesATokenInGreedyMode) {
  FakeCuda fake;
  fake.fill_results = 42;
  {
    auto device = Make(fake);
    ASSERT_NE(device, nullptr);
    EXPECT_TRUE(device->samples());
    EXPECT_EQ(device->device_weight_bytes(), Model().weights(0).size());
    OneRow row(*device);
    int32_t chosen = -7;
    row.step.chosen = &chosen;
    const DeviceCounters before = device->counters();
    fake.launched.clear();
    ASSERT_EQ(device->Run(row.step), DeviceResult::kOk) << device->last_error();
    EXPECT_EQ(chosen, 42);
    EXPECT_EQ(device->counters().submissions - before.submissions, 1u);
    EXPECT_EQ(device->counters().bytes_to_host - before.bytes_to_host, 4u);
    ASSERT_EQ(fake.launched.size(), 1u);
    EXPECT_GT(fake.launched[0].size(), Model().manifest().programs[row.step.program].dispatches / 2);
    row.Free(*device);
  }
  ExpectClean(fake);
}

TEST(CudaDevice, WeightsArriveAsTheyAre) {
  FakeCuda fake;
  uint64_t told = 0;
  CudaOptions options;
  options.progress = [&](uint64_t done, uint64_t total) {
    EXPECT_LE(done, total);
    told = done;
    return true;
  };
  {
    auto device = Make(fake, options);
    ASSERT_NE(device, nullptr);
    const auto weights = Model().weights(0);
    EXPECT_EQ(told, weights.size());
    bool found = false;
    for (const auto& [address, block] : fake.memory) {
      found = found ||
              (block.size() == weights.size() && std::equal(block.begin(), block.end(), weights.begin()));
    }
    EXPECT_TRUE(found) << "no allocation holds the weights";
  }
  ExpectClean(fake);
}

TEST(CudaDevice, LogitsAreCopiedWhenWanted) {
  FakeCuda fake;
  auto device = Make(fake);
  ASSERT_NE(device, nullptr);
  OneRow row(*device);
  std::vector<float> logits(Model().manifest().model.logits_stride, 1.f);
  row.step.logits = logits.data();
  ASSERT_EQ(device->Run(row.step), DeviceResult::kOk);
  EXPECT_EQ(device->counters().bytes_to_host, logits.size() * 4);
  row.Free(*device);
}

TEST(CudaDevice, LongProgramsAreCut) {
  FakeCuda fake;
  CudaOptions options;
  options.max_dispatch_ms = 1e-6;
  auto device = Make(fake, options);
  ASSERT_NE(device, nullptr);
  OneRow row(*device);
  fake.launched.clear();
  ASSERT_EQ(device->Run(row.step), DeviceResult::kOk);
  EXPECT_GT(fake.launched.size(), 1u);
  row.Free(*device);
}

TEST(CudaDevice, MemoryIsZeroedAndCopied) {
  FakeCuda fake;
  auto device = Make(fake);
  ASSERT_NE(device, nullptr);
  DeviceBuffer buffer;
  ASSERT_EQ(device->Allocate(100, &buffer), DeviceResult::kOk);
  std::vector<uint8_t> bytes(100, 1);
  const CopyRange all{&buffer, 0, bytes.data(), 100};
  ASSERT_EQ(device->Read({&all, 1}), DeviceResult::kOk);
  EXPECT_EQ(bytes, std::vector<uint8_t>(100, 0));
  bytes[5] = 9;
  const CopyRange part{&buffer, 50, bytes.data(), 10};
  ASSERT_EQ(device->Write({&part, 1}), DeviceResult::kOk);
  ASSERT_EQ(device->Read({&all, 1}), DeviceResult::kOk);
  EXPECT_EQ(bytes[55], 9);
  ASSERT_EQ(device->Zero(buffer), DeviceResult::kOk);
  ASSERT_EQ(device->Read({&all, 1}), DeviceResult::kOk);
  EXPECT_EQ(bytes, std::vector<uint8_t>(100, 0));
  device->Free(&buffer);
  EXPECT_TRUE(buffer.empty());
}

// Whatever call fails while a device is made: an error, nothing is left, and the next device is fine.
TEST(CudaDevice, EveryFailureWhileItIsMade) {
  FakeCuda fake;
  { ASSERT_NE(Make(fake), nullptr); }
  const int calls = fake.calls;
  // Every one of the first and the last calls, and a sample of the many launches in between.
  for (int at = 1; at <= calls; at += at < 60 || at > calls - 40 ? 1 : 37) {
    for (int error : {cuda::kOutOfMemory, cuda::kIllegalAddress, 999}) {
      fake.fail_at = at;
      fake.fail_with = error;
      auto device = CreateCudaDevice(Model(), 0, {}, fake.loader());
      fake.fail_at = 0;
      if (device.ok()) continue;  // the call's failure does not matter (asking for free memory)
      const uint32_t number = device.status().number();
      EXPECT_TRUE(number == 6001 || number == 5010 || number == 5011)
          << "call " << at << ": " << device.status().ToString();
      ASSERT_TRUE(fake.Clean()) << "call " << at << " of " << calls << " leaves something behind";
    }
  }
  EXPECT_NE(Make(fake), nullptr);
  ExpectClean(fake);
}

TEST(CudaDevice, ALostDeviceStaysLostAndAnotherWorks) {
  FakeCuda fake;
  {
    auto device = Make(fake);
    ASSERT_NE(device, nullptr);
    OneRow row(*device);
    fake.fail_function = "cuStreamSynchronize";
    fake.fail_at = 1;
    fake.fail_with = cuda::kLaunchFailed;
    EXPECT_EQ(device->Run(row.step), DeviceResult::kLost);
    EXPECT_NE(device->last_error().find("made to fail"), std::string::npos);
    EXPECT_EQ(device->Run(row.step), DeviceResult::kLost);
    DeviceBuffer buffer;
    EXPECT_EQ(device->Allocate(16, &buffer), DeviceResult::kLost);
    auto other = Make(fake);
    ASSERT_NE(other, nullptr);
    OneRow again(*other);
    EXPECT_EQ(other->Run(again.step), DeviceResult::kOk);
    again.Free(*other);
    row.Free(*device);
  }
  ExpectClean(fake);
}

TEST(CudaDevice, OutOfMemoryOfASession) {
  FakeCuda fake;
  auto device = Make(fake);
  ASSERT_NE(device, nullptr);
  fake.fail_function = "cuMemAlloc_v2";
  fake.fail_at = 1;
  fake.fail_with = cuda::kOutOfMemory;
  DeviceBuffer buffer;
  EXPECT_EQ(device->Allocate(16, &buffer), DeviceResult::kOutOfMemory);
  EXPECT_TRUE(buffer.empty());
  EXPECT_EQ(device->Allocate(16, &buffer), DeviceResult::kOk) << "the device is usable afterwards";
  device->Free(&buffer);
}

TEST(CudaDevice, AStoppedUpload) {
  FakeCuda fake;
  CudaOptions options;
  options.progress = [](uint64_t, uint64_t) { return false; };
  auto device = CreateCudaDevice(Model(), 0, options, fake.loader());
  ASSERT_FALSE(device.ok());
  EXPECT_EQ(device.status().number(), 5016u);
  ExpectClean(fake);
}

}  // namespace
}  // namespace qrt
