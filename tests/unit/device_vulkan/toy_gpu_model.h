// A small recurrent model with GPU code, as GLSL that the test compiles, and the same model on the host:
// everything that a step can touch (tokens, positions, state, KV, rows of logits, samples) changes its
// output.
#ifndef TESTS_UNIT_DEVICE_VULKAN_TOY_GPU_MODEL_H_
#define TESTS_UNIT_DEVICE_VULKAN_TOY_GPU_MODEL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "codegen/gpu/lower/gpu_code.h"
#include "compiler/artifact/manifest_spec.h"
#include "runtime/artifact/artifact.h"
#include "runtime/device/device.h"

namespace qrt::testing {

inline constexpr uint32_t kVocab = 40, kStride = 48, kWidth = 16, kLayers = 6, kMaxRows = 8;
// What its draws add, the short one's for few tokens too.
inline constexpr uint64_t kDrawConstant = 1000000, kDrawFewConstant = 2000000;
inline constexpr uint64_t kStateBytes = 64, kKvBytesPerToken = 64;

// Places in the program table.
enum ToyProgram : uint32_t { kDecode1, kDecode4, kPrefill8, kHead8 };

// SPIR-V of a compute shader. Fails the test on an error.
std::vector<uint32_t> CompileGlsl(const std::string& source, const std::string& name);

// What the artifact is written from; a test may change it first.
struct ToyParts {
  qcc::compiler::ManifestSpec manifest;  // one code variant, "none"; section numbers are filled in
  qcc::gpu::GpuCode code;
  std::vector<float> weights;
};
ToyParts MakeToy();

std::unique_ptr<Artifact> WriteToy(const ToyParts& parts);

// The model on the host, for one sequence.
class ToyReference {
 public:
  explicit ToyReference(const std::vector<float>& weights) : weights_(weights) {}
  // Takes the next token at rope position `rope`; its row of logits [kVocab].
  std::vector<float> Append(int32_t token, int32_t rope);

 private:
  const std::vector<float>& weights_;
  std::vector<float> state_ = std::vector<float>(kWidth);
  std::vector<std::vector<float>> kv_;
};

// A sequence on the device.
struct ToySequence {
  DeviceBuffer state, kv;
  int64_t capacity = 64, past = 0;
};

// One step over several sequences. `wanted`: rows of logits.
struct ToyStep {
  struct Part {
    ToySequence* sequence;
    std::vector<int32_t> tokens;
  };
  std::vector<Part> parts;
  std::vector<int32_t> wanted;
  std::vector<qrt_gpu_sample> samples;
  std::vector<qrt_gpu_penalty> penalties;
  bool logits = true, choose = false;

  std::vector<float> out_logits;  // [wanted][kStride]
  std::vector<int32_t> chosen;

  // Rope positions are 100 + the place in the sequence. Moves `past` on success.
  DeviceResult Run(Device& device, uint32_t program);

 private:
  std::vector<qrt_seq> seqs_;
  std::vector<int32_t> tokens_, positions_;
};

// Takes state and KV. Fails the test on an error.
ToySequence NewSequence(Device& device);
void FreeSequence(Device& device, ToySequence& sequence);

}  // namespace qrt::testing

#endif  // TESTS_UNIT_DEVICE_VULKAN_TOY_GPU_MODEL_H_
