#include "tests/unit/device_cuda/cuda_model.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>

#include "compiler/pipeline/pipeline.h"
#include "tests/unit/compiler/quiet_sink.h"

namespace qrt {

const Artifact& CudaModel() {
  static const Artifact* artifact = [] {
    qcc::compiler::PipelineOptions options;
    options.input = std::string(QCC_SOURCE_DIR) + "/tests/golden/t35-q-Q4_K_M.gguf";
    options.output = ::testing::TempDir() + "/qcc_cuda_device_" + std::to_string(getpid()) + ".qbin";
    options.targets = {"cuda"};
    options.gpu_profiles = {"sm80"};
    options.decode_buckets = {1, 4};
    options.prefill_buckets = {16, 32};
    qcc::compiler::QuietSink quiet;
    const absl::Status compiled = qcc::compiler::CompileModel(options, quiet);
    EXPECT_TRUE(compiled.ok()) << compiled;
    Result<std::unique_ptr<Artifact>> opened = Artifact::Open(options.output);
    EXPECT_TRUE(opened.ok()) << opened.status().ToString();
    std::filesystem::remove(options.output);
    return opened.ok() ? opened->release() : nullptr;
  }();
  return *artifact;
}

}  // namespace qrt
