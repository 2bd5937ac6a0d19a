// The CUDA device over a driver that computes nothing: what it records, copies and counts, and what it does
// when a call fails. What kernels compute is shown on a GPU: tests/device/run_cuda.sh.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "codegen/gpu/lower/gpu_code.h"
#include "compiler/artifact/gpu_code_section.h"
#include "compiler/artifact/manifest_spec.h"
#include "compiler/artifact/writer.h"
#include "compiler/pipeline/pipeline.h"
#include "runtime/abi/gpu_step.h"
#include "runtime/artifact/artifact.h"
#include "runtime/device/cuda/cuda_api.h"
#include "tests/unit/compiler/quiet_sink.h"
#include "tests/unit/device_cuda/cuda_model.h"
#include "tests/unit/device_cuda/fake_cuda.h"
#include "tests/unit/runtime/program_facts.h"

namespace qrt {
namespace {

// What the tests ask of a program.
struct Use {
  uint32_t takes;
  Output gives;
};
constexpr Use kDecode = {kTokens, Output::kChosenLogits}, kPrefill = {kTokens, Output::kNothing},
              kHead = {kStream, Output::kChosenLogits};

uint32_t ProgramOf(Use use, uint32_t rows) {
  return qrt::ProgramOf(CudaModel().manifest(), use.takes, use.gives, rows);
}

std::unique_ptr<Device> Make(FakeCuda& fake, CudaOptions options = {}) {
  Result<std::unique_ptr<Device>> device = CreateCudaDevice(CudaModel(), 0, options, fake.loader());
  EXPECT_TRUE(device.ok()) << device.status().ToString();
  return device.ok() ? std::move(*device) : nullptr;
}

struct Rows : SequenceRows {
  explicit Rows(Device& device, Use use = kDecode, uint32_t bucket = 1, int64_t count = 1)
      : SequenceRows(device, CudaModel().manifest(), ProgramOf(use, bucket), count) {}
};

// At `context`, among the programs that take tokens and give no logits.
uint32_t MostRows(const Device& device, uint64_t context) {
  const std::vector<uint32_t> programs = {ProgramOf(kPrefill, 16), ProgramOf(kPrefill, 32)};
  return device.MostRows(programs, context);
}

void ExpectClean(const FakeCuda& fake) {
  EXPECT_TRUE(fake.Clean()) << fake.memory.size() << " allocations, " << fake.pinned.size() << " pinned, "
                            << fake.contexts.size() << " contexts, " << fake.execs.size()
                            << " graphs are left";
  for (const std::string& problem : fake.problems) ADD_FAILURE() << problem;
}

TEST(CudaDevice, OneCopyOneGraphAndFourBytesAToken) {
  FakeCuda fake;
  fake.fill_results = 42;
  {
    auto device = Make(fake);
    ASSERT_NE(device, nullptr);
    EXPECT_TRUE(device->samples());
    EXPECT_EQ(device->device_weight_bytes(), CudaModel().weights(0).size());
    Rows row(*device);
    int32_t chosen = -7;
    row.step.chosen = &chosen;
    const DeviceCounters before = device->counters();
    fake.launched.clear();
    fake.uploads = 0;
    ASSERT_EQ(device->Run(row.step), DeviceResult::kOk) << device->last_error();
    EXPECT_EQ(chosen, 42);
    EXPECT_EQ(fake.uploads, 1);
    EXPECT_EQ(device->counters().submissions - before.submissions, 1u);
    EXPECT_EQ(device->counters().bytes_to_host - before.bytes_to_host, 4u);
    ASSERT_EQ(fake.launched.size(), 1u);
    const qrt_gpu_penalty penalties[] = {{3, 1}, {4, 2}};
    qrt_gpu_sample sample = {};
    sample.penalty_count = 2;
    row.step.samples = &sample;
    row.step.penalties = penalties;
    row.step.n_penalties = 2;
    ASSERT_EQ(device->Run(row.step), DeviceResult::kOk) << device->last_error();
    EXPECT_EQ(fake.uploads, 2) << "penalties go with the rest";
    row.step.samples = nullptr;
    ASSERT_EQ(fake.launched.size(), 2u);
    // Several dispatches of the plan may be one launch.
    EXPECT_GT(fake.launched[0].size(), CudaModel().manifest().programs[row.step.program].dispatches / 3);
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
    const auto weights = CudaModel().weights(0);
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
  Rows row(*device);
  std::vector<float> logits(CudaModel().manifest().model.logits_stride, 1.f);
  row.step.logits = logits.data();
  ASSERT_EQ(device->Run(row.step), DeviceResult::kOk);
  EXPECT_EQ(device->counters().bytes_to_host, logits.size() * 4);
  row.Free(*device);
}

// The kernels that a step launches, and in how many graphs.
struct Launched {
  FakeCuda::Graph kernels;
  size_t graphs = 0;
};
Launched RunAndCount(FakeCuda& fake, Device& device, const StepRequest& step) {
  fake.launched.clear();
  const uint64_t before = device.counters().submissions;
  EXPECT_EQ(device.Run(step), DeviceResult::kOk) << device.last_error();
  EXPECT_EQ(device.counters().submissions - before, fake.launched.size());
  return {fake.Launched(), fake.launched.size()};
}

TEST(CudaDevice, LongPrefillIsCutDecodeAndHeadsNever) {
  std::vector<size_t> prefill_graphs;
  std::vector<std::vector<std::string>> kernels;
  for (const double limit : {200.0, 1e-6, -1.0}) {
    FakeCuda fake;
    CudaOptions options;
    options.max_dispatch_ms = limit;
    auto device = Make(fake, options);
    ASSERT_NE(device, nullptr);
    Rows prefill(*device, kPrefill, 32, 20), decode(*device), batch(*device, kDecode, 4, 3);
    const Launched launched = RunAndCount(fake, *device, prefill.step);
    prefill_graphs.push_back(launched.graphs);
    kernels.emplace_back();
    for (const FakeCuda::Launch& launch : launched.kernels) kernels.back().push_back(launch.kernel);
    int32_t chosen = 0;
    qrt_gpu_sample sample = {};
    for (StepRequest* step : {&decode.step, &batch.step, &prefill.step}) {
      if (step == &prefill.step) {
        step->program = ProgramOf(kHead, 1);
        step->n_out = 1;
      }
      EXPECT_EQ(RunAndCount(fake, *device, *step).graphs, 1u) << "limit " << limit;
      step->chosen = &chosen;
      EXPECT_EQ(RunAndCount(fake, *device, *step).graphs, 1u) << "limit " << limit;
      step->samples = &sample;
      EXPECT_EQ(RunAndCount(fake, *device, *step).graphs, 1u) << "limit " << limit;
    }
    for (Rows* rows : {&prefill, &decode, &batch}) rows->Free(*device);
    for (const std::string& problem : fake.problems) ADD_FAILURE() << problem;
  }
  EXPECT_EQ(prefill_graphs[0], 1u);
  EXPECT_EQ(prefill_graphs[1], kernels[1].size());
  EXPECT_EQ(prefill_graphs[2], 1u);
  EXPECT_GT(kernels[0].size(), 10u);
  for (size_t i = 1; i < kernels.size(); ++i) EXPECT_EQ(kernels[i], kernels[0]) << i;
}

TEST(CudaDevice, FewTokensAreDrawnInTwoLaunches) {
  FakeCuda fake;
  auto device = Make(fake);
  ASSERT_NE(device, nullptr);
  Rows rows(*device);
  int32_t chosen = 0;
  qrt_gpu_sample sample = {};
  const size_t plain = RunAndCount(fake, *device, rows.step).kernels.size();
  rows.step.chosen = &chosen;
  rows.step.samples = &sample;
  const auto launches = [&](uint32_t top_k) {
    sample.top_k = top_k;
    return RunAndCount(fake, *device, rows.step).kernels.size() - plain;
  };
  EXPECT_EQ(launches(1), 2u);
  EXPECT_EQ(launches(QRT_GPU_FEW_TOKENS), 2u);
  EXPECT_EQ(launches(0), 10u);
  EXPECT_EQ(launches(QRT_GPU_FEW_TOKENS + 1), 10u);
  rows.Free(*device);
  for (const std::string& problem : fake.problems) ADD_FAILURE() << problem;
}

// The limit lies between what a prefill step of this model is estimated to take with little and with much
// context.
TEST(CudaDevice, LongContextsCutPrefillAndMakeItSmaller) {
  FakeCuda fake;
  CudaOptions options;
  options.max_dispatch_ms = 0.1;
  auto device = Make(fake, options);
  ASSERT_NE(device, nullptr);
  Rows rows(*device, kPrefill, 32, 32);
  const Launched at_start = RunAndCount(fake, *device, rows.step);
  EXPECT_EQ(at_start.graphs, 1u);
  // Nothing is computed here, so the KV need not be there.
  rows.seq.past = static_cast<int64_t>(CudaModel().manifest().model.context_length) - 32;
  rows.seq.kv_capacity = rows.seq.past + 32;
  const Launched at_end = RunAndCount(fake, *device, rows.step);
  EXPECT_GT(at_end.graphs, 1u);
  EXPECT_LT(at_end.graphs, at_end.kernels.size());
  EXPECT_EQ(at_end.kernels, at_start.kernels) << "the same work";
  rows.seq.past = INT32_MAX - 32;
  EXPECT_EQ(RunAndCount(fake, *device, rows.step).kernels, at_start.kernels)
      << "longer than the model was made for";
  EXPECT_EQ(MostRows(*device, 32), 32u);
  EXPECT_EQ(MostRows(*device, INT32_MAX), 16u)
      << "one dispatch of attention is too long, and there is no smaller one";
  rows.Free(*device);

  options.max_dispatch_ms = 1e-6;
  EXPECT_EQ(MostRows(*Make(fake, options), 32), 16u);
  options.max_dispatch_ms = -1;
  EXPECT_EQ(MostRows(*Make(fake, options), INT32_MAX), 32u);
}

// A model that computes nothing, in so many launches, for so many rows, and cannot choose tokens.
std::unique_ptr<Artifact> WithoutSampling(int launches, bool overlap, uint32_t rows = 1) {
  constexpr uint64_t kArena = 256;
  qcc::gpu::GpuCode code;
  code.abi = QRT_GPU_STEP_ABI;
  code.max_rows = rows;
  qcc::gpu::KernelCode& kernel = code.kernels.emplace_back();
  kernel.name = kernel.entry = "nothing";
  kernel.workgroup_size = 32;
  code.ptx = ".visible .entry nothing() { ret; }";
  qcc::gpu::ProgramCode& program = code.programs.emplace_back();
  program.arena_bytes = kArena;
  for (int i = 0; i < launches; ++i) program.dispatches.emplace_back().family = "linear";
  code.overlap = overlap;
  qcc::compiler::ManifestSpec manifest;
  manifest.arch = "toy";
  manifest.vocab_size = manifest.logits_stride = 16;
  manifest.context_length = 64;
  manifest.embedding_length = 16;
  manifest.streams = {"trunk"};
  manifest.programs = {{"decode_" + std::to_string(rows), qrt::DecodeFacts(), rows, kArena, 1, 0}};
  manifest.provenance.compiler = manifest.provenance.source_name = "toy";
  const std::vector<uint8_t> weights(64);
  manifest.weights_bytes = weights.size();
  const std::string path = testing::TempDir() + "/qcc_cuda_toy_" + std::to_string(getpid()) + ".qbin";
  auto writer = qcc::compiler::ArtifactWriter::Create(path);
  EXPECT_TRUE(writer.ok()) << writer.status();
  const auto section = (*writer)->AddSection(QBIN_SECTION_CODE, qcc::compiler::BuildGpuCodeSection(code));
  const auto weights_section = (*writer)->AddSection(QBIN_SECTION_WEIGHTS, weights);
  EXPECT_TRUE(section.ok() && weights_section.ok());
  manifest.code = {{"cuda", "sm61", {}, *section, *weights_section}};
  EXPECT_TRUE((*writer)->Finish(manifest).ok());
  Result<std::unique_ptr<Artifact>> artifact = Artifact::Open(path);
  EXPECT_TRUE(artifact.ok()) << artifact.status().ToString();
  std::filesystem::remove(path);  // the mapping stays
  return artifact.ok() ? *std::move(artifact) : nullptr;
}

// One row of the only program of WithoutSampling.
struct OneRow {
  OneRow() {
    step.seqs = &seq;
    step.n_seqs = step.n_rows = step.n_out = 1;
    step.tokens = &token;
    step.positions = positions;
    step.out_rows = &out_row;
  }
  OneRow(const OneRow&) = delete;
  qrt_seq seq = {nullptr, 0, nullptr, 0, 0, 0, 1};
  int32_t token = 0, positions[4] = {}, out_row = 0;
  StepRequest step;
};

TEST(CudaDevice, RefusesStepsThatCannotBe) {
  FakeCuda fake;
  {
    auto device = Make(fake);
    ASSERT_NE(device, nullptr);
    Rows decode(*device), batch(*device, kDecode, 4, 2), prefill(*device, kPrefill, 16, 2);
    fake.launched.clear();
    const auto refused = [&](Rows& rows, const char* what, auto change) {
      const StepRequest before = rows.step;
      change(rows.step);
      EXPECT_EQ(device->Run(rows.step), DeviceResult::kFailed) << what;
      EXPECT_FALSE(device->last_error().empty()) << what;
      EXPECT_TRUE(fake.launched.empty()) << what;
      rows.step = before;
    };
    const auto programs = static_cast<uint32_t>(CudaModel().manifest().programs.size());
    refused(decode, "no such program", [=](StepRequest& s) { s.program = programs; });
    refused(batch, "two rows of logits of a program for one", [](StepRequest& s) {
      s.program = ProgramOf(kDecode, 1);
      s.n_out = 2;
    });
    refused(prefill, "logits of prefill", [](StepRequest& s) { s.n_out = 1; });
    refused(decode, "no rows", [](StepRequest& s) { s.n_rows = 0; });
    refused(decode, "rows beyond every bucket", [](StepRequest& s) { s.n_rows = 1 << 20; });
    refused(decode, "less than no logits", [](StepRequest& s) { s.n_out = -1; });
    refused(decode, "too many penalties", [](StepRequest& s) { s.n_penalties = QRT_GPU_MAX_PENALTIES + 1; });
    decode.seq.row_count = 2;
    refused(decode, "rows that are not there", [](StepRequest&) {});
    decode.seq.row_count = 1;
    EXPECT_EQ(device->Run(decode.step), DeviceResult::kOk);
    EXPECT_EQ(device->last_error(), "");
    // No rows of logits: nothing to choose from, and the program runs all the same.
    int32_t chosen = -7;
    prefill.step.chosen = &chosen;
    EXPECT_EQ(RunAndCount(fake, *device, prefill.step).graphs, 1u);
    EXPECT_EQ(chosen, -7);
    for (Rows* rows : {&decode, &batch, &prefill}) rows->Free(*device);
  }
  const std::unique_ptr<Artifact> toy = WithoutSampling(1, false);
  ASSERT_NE(toy, nullptr);
  {
    auto made = CreateCudaDevice(*toy, 0, {}, fake.loader());
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    Device& device = **made;
    EXPECT_FALSE(device.samples());
    DeviceBuffer nothing;
    EXPECT_EQ(device.Allocate(0, &nothing), DeviceResult::kOk) << "a model may have no state";
    EXPECT_TRUE(nothing.empty());
    device.Free(&nothing);
    OneRow row;
    StepRequest& step = row.step;
    int32_t chosen = 0;
    EXPECT_EQ(device.Run(step), DeviceResult::kOk) << device.last_error();
    step.chosen = &chosen;
    EXPECT_EQ(device.Run(step), DeviceResult::kFailed) << "no kernels that choose";
    EXPECT_NE(device.last_error().find("choose"), std::string::npos);
    const qrt_gpu_sample sample = {};
    step.samples = &sample;
    EXPECT_EQ(device.Run(step), DeviceResult::kFailed);
  }
  ExpectClean(fake);
}

// Only kernels that wait for those before them, of programs of few rows, and only behind another one of their
// graph; where the driver's graphs cannot, the same kernels run one after the other.
TEST(CudaDevice, KernelsThatWaitMayOverlap) {
  struct Case {
    bool waits;
    const char* missing;
    int version;
    uint32_t rows;
    std::vector<bool> overlaps;
  };
  for (const Case& c :
       {Case{true, "", 12040, 1, {false, true, true}}, Case{true, "", 12040, 8, {false, true, true}},
        Case{true, "", 12040, 16, {false, false, false}}, Case{false, "", 12040, 1, {false, false, false}},
        Case{true, "cuLaunchKernelEx", 12040, 1, {false, false, false}},
        Case{true, "", 12020, 1, {false, false, false}}}) {
    FakeCuda fake;
    fake.missing = c.missing;
    fake.version = c.version;
    const std::unique_ptr<Artifact> toy = WithoutSampling(3, c.waits, c.rows);
    ASSERT_NE(toy, nullptr);
    {
      auto made = CreateCudaDevice(*toy, 0, {}, fake.loader());
      ASSERT_TRUE(made.ok()) << made.status().ToString();
      OneRow row;
      EXPECT_EQ((*made)->Run(row.step), DeviceResult::kOk) << (*made)->last_error();
      std::vector<bool> overlaps;
      for (const FakeCuda::Launch& launch : fake.Launched()) overlaps.push_back(launch.overlaps);
      EXPECT_EQ(overlaps, c.overlaps) << c.waits << " " << c.missing << " " << c.version << " " << c.rows;
    }
    ExpectClean(fake);
  }
}

// A driver that has the function and the version, and still cannot: the same kernels in order, and a warning.
TEST(CudaDevice, OverlapThatCannotBeRecordedIsDoneWithout) {
  constexpr int kNotSupported = 801;
  const std::unique_ptr<Artifact> toy = WithoutSampling(3, true);
  ASSERT_NE(toy, nullptr);
  for (const char* function : {"cuLaunchKernelEx", "cuGraphInstantiateWithFlags"}) {
    FakeCuda fake;
    fake.fail_function = function;
    fake.fail_at = 1;
    fake.fail_with = kNotSupported;
    std::string warnings;
    CudaOptions options;
    options.log = [&](bool warning, std::string_view line) { warnings += warning ? line : ""; };
    {
      auto made = CreateCudaDevice(*toy, 0, options, fake.loader());
      ASSERT_TRUE(made.ok()) << function << ": " << made.status().ToString();
      OneRow row;
      EXPECT_EQ((*made)->Run(row.step), DeviceResult::kOk) << (*made)->last_error();
      EXPECT_EQ(fake.Launched().size(), 3u);
      for (const FakeCuda::Launch& launch : fake.Launched()) EXPECT_FALSE(launch.overlaps) << function;
      EXPECT_NE(warnings.find("do not overlap"), std::string::npos) << function << ": " << warnings;
    }
    ExpectClean(fake);
  }
}

// Contexts are current to a thread: the one that made a device is not always the one that uses or ends it.
TEST(CudaDevice, AnyThreadMayCall) {
  FakeCuda fake;
  fake.fill_results = 42;
  auto device = Make(fake);
  ASSERT_NE(device, nullptr);
  std::thread([&] {
    Rows rows(*device);
    int32_t chosen = 0;
    rows.step.chosen = &chosen;
    EXPECT_EQ(device->Run(rows.step), DeviceResult::kOk);
    EXPECT_EQ(chosen, 42);
    EXPECT_EQ(device->Zero(rows.kv), DeviceResult::kOk);
    rows.Free(*device);
    device.reset();
    EXPECT_TRUE(FakeCuda::Current().empty());
  }).join();
  ExpectClean(fake);
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
      auto device = CreateCudaDevice(CudaModel(), 0, {}, fake.loader());
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
  constexpr int kDeviceUnavailable = 46, kUnknown = 999;
  FakeCuda fake;
  for (const int error : {cuda::kLaunchFailed, kDeviceUnavailable, kUnknown}) {
    SCOPED_TRACE(error);
    auto device = Make(fake);
    ASSERT_NE(device, nullptr);
    Rows row(*device);
    fake.fail_function = "cuStreamQuery";
    fake.fail_at = 1;
    fake.fail_with = error;
    EXPECT_EQ(device->Run(row.step), DeviceResult::kLost);
    EXPECT_NE(device->last_error().find("made to fail"), std::string::npos);
    EXPECT_EQ(device->Run(row.step), DeviceResult::kLost);
    DeviceBuffer buffer;
    EXPECT_EQ(device->Allocate(16, &buffer), DeviceResult::kLost);
    auto other = Make(fake);
    ASSERT_NE(other, nullptr);
    Rows again(*other);
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
  auto device = CreateCudaDevice(CudaModel(), 0, options, fake.loader());
  ASSERT_FALSE(device.ok());
  EXPECT_EQ(device.status().number(), 5016u);
  ExpectClean(fake);
}

}  // namespace
}  // namespace qrt
