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

}  // namespace qrt
