#include "tests/unit/device_cuda/cuda_model.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "compiler/pipeline/pipeline.h"
#include "tests/unit/compiler/quiet_sink.h"

namespace qrt {

namespace {

// The golden of that name.
const Artifact* Compiled(const std::string& golden, const std::vector<int64_t>& prefill_buckets) {
  qcc::compiler::PipelineOptions options;
  options.input = std::string(QCC_SOURCE_DIR) + "/tests/golden/" + golden + ".gguf";
  options.output = ::testing::TempDir() + "/qcc_cuda_" + golden + "_" + std::to_string(getpid()) + ".qbin";
  options.targets = {"cuda"};
  options.gpu_profiles = {"sm80"};
  options.decode_buckets = {1, 4};
  options.prefill_buckets = prefill_buckets;
  qcc::compiler::QuietSink quiet;
  const absl::Status compiled = qcc::compiler::CompileModel(options, quiet);
  EXPECT_TRUE(compiled.ok()) << compiled;
  Result<std::unique_ptr<Artifact>> opened = Artifact::Open(options.output);
  EXPECT_TRUE(opened.ok()) << opened.status().ToString();
  std::filesystem::remove(options.output);
  return opened.ok() ? opened->release() : nullptr;
}

}  // namespace

const Artifact& CudaModel() {
  static const Artifact* artifact = Compiled("t35-q-Q4_K_M", {16, 32});
  return *artifact;
}

const Artifact& CudaDraftingModel() {
  static const Artifact* artifact = Compiled("t35-mtp-F32", {16});
  return *artifact;
}

uint32_t ProgramOf(const Manifest& manifest, uint32_t takes, Output gives, uint32_t rows) {
  for (uint32_t i = 0; i < manifest.programs.size(); ++i) {
    const ProgramInfo& program = manifest.programs[i];
    if (program.facts.takes == takes && program.facts.gives == gives && program.rows == rows) return i;
  }
  ADD_FAILURE() << "no such program";
  return 0;
}

SequenceRows::SequenceRows(Device& device, const Manifest& manifest, uint32_t program, int64_t count)
    : tokens(static_cast<size_t>(count), 7),
      positions(4 * static_cast<size_t>(count)),
      out_row(static_cast<int32_t>(count - 1)) {
  constexpr uint64_t kRoom = 64;
  EXPECT_EQ(device.Allocate(manifest.state_bytes, &state), DeviceResult::kOk);
  EXPECT_EQ(device.Allocate(kRoom * manifest.kv_bytes_per_token, &kv), DeviceResult::kOk);
  seq = {reinterpret_cast<uint8_t*>(state.address),
         0,
         reinterpret_cast<uint8_t*>(kv.address),
         kRoom,
         0,
         0,
         count};
  step.program = program;
  step.seqs = &seq;
  step.n_seqs = 1;
  step.n_rows = count;
  step.tokens = tokens.data();
  step.positions = positions.data();
  step.out_rows = &out_row;
  step.n_out = manifest.programs[program].facts.gives == Output::kNothing ? 0 : 1;
}

void SequenceRows::Free(Device& device) {
  device.Free(&state);
  device.Free(&kv);
}

}  // namespace qrt
