// The code section of a GPU target as plain values, after every one of them has been checked. Meanings:
// runtime/abi/gpu_code.fbs.
#ifndef QRT_ARTIFACT_GPU_CODE_H_
#define QRT_ARTIFACT_GPU_CODE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/artifact/artifact.h"
#include "runtime/base/status.h"

namespace qrt {

// What a GPU device needs of a section; the rest of it is not read. One for each accelerator of
// targets.def.
enum class GpuTarget : uint8_t { kVulkan, kCuda };
// By the name in the manifest; none for the host and for targets that this runtime does not know.
std::optional<GpuTarget> GpuTargetNamed(std::string_view name);

inline constexpr uint32_t kMaxGpuArgs = 16;

struct GpuArg {
  uint64_t value;  // byte offset in the space, or the number
  uint64_t bytes;  // [value, value + bytes) lies in the space; 0 for a number
  GpuSpace space;
};

struct GpuKernel {
  std::string name, entry;
  uint32_t workgroup_size;  // 1 .. 1024
  uint32_t n_args;          // 0 .. kMaxGpuArgs
  uint32_t shared_bytes;
  std::string source;  // "gpu", or "glsl" for one of the user's own
  std::span<const uint32_t>
      spirv;  // Vulkan: a module with a compute entry point `entry` of workgroup_size; in the section
};

// What a full bucket costs. Sums do not overflow: they stop at the largest number.
struct GpuCost {
  uint64_t read_bytes = 0, write_bytes = 0;
  uint64_t kv_bytes = 0;  // per token of the context
  uint64_t ops = 0;

  GpuCost& operator+=(const GpuCost& other);
  bool operator==(const GpuCost& other) const = default;
};

struct GpuDispatch {
  uint32_t kernel;  // place in GpuCode::kernels
  std::array<uint32_t, 3> grid;
  bool barrier;
  std::vector<GpuArg> args;  // n_args of the kernel
  GpuCost cost;
  std::string family;
  int32_t layer;  // -1: none
};

struct GpuProgram {
  uint64_t arena_bytes;  // at least the plan's: with the scratch of its dispatches
  std::vector<GpuDispatch> dispatches;
};

struct GpuSampleProgram {
  GpuSampling kind;
  uint32_t rows;  // 1 .. max_rows
  std::vector<GpuDispatch> dispatches;
};

struct GpuCode {
  // What the spans below point into, where it is this code's own: 8-byte words of the section.
  std::shared_ptr<const std::vector<uint64_t>> section;
  uint32_t max_rows = 0;  // no program of the manifest has more
  std::vector<GpuKernel> kernels;
  std::vector<GpuProgram> programs;  // as many as the manifest has, in its order
  std::vector<GpuSampleProgram> sample_programs;
  std::span<const uint8_t> constants;  // in the section
  std::string_view ptx;                // CUDA: the module; in the section, NUL-terminated
  bool overlap = false;                // CUDA: kernels wait for those before them themselves
  std::array<uint64_t, kGpuSpaces>
      space_bytes{};  // how much memory each space takes; the weights: their section

  uint64_t bytes(GpuSpace space) const { return space_bytes[static_cast<size_t>(space)]; }

  // Reads the code of manifest().code[variant] of an artifact from a copy that is hashed again: the file may
  // change after it was verified. Nothing in the section is trusted: indices, ranges, counts and the outline
  // of each SPIR-V module are checked. Errors: Q4017 (made for another interface), Q4023 (not a FlatBuffer of
  // its schema), Q4024 (a field that cannot be), Q5004 (not the code that was verified).
  static Result<GpuCode> Read(const Artifact& artifact, size_t variant, GpuTarget target);

  // The same over a section's bytes, which must outlive the result. `where` names it in messages.
  static Result<GpuCode> Read(std::span<const uint8_t> section, const Manifest& manifest,
                              uint64_t weights_bytes, GpuTarget target, const std::string& where);

  // The sample program of a kind for the fewest rows that are at least `rows`. Null: there is none.
  const GpuSampleProgram* FindSampleProgram(GpuSampling kind, uint64_t rows) const;
  // Whether every step that gives logits can be followed by a choice of either kind, greedy or drawn.
  bool Samples(const Manifest& manifest) const;
  // Whether there is a draft, and every step of it can be followed by a guess.
  bool Guesses(const Manifest& manifest) const;

  // All dispatches, those of sample programs too.
  template <typename Visit>
  void ForEachDispatch(Visit visit) const {
    for (const GpuProgram& p : programs) {
      for (const GpuDispatch& d : p.dispatches) visit(d);
    }
    for (const GpuSampleProgram& p : sample_programs) {
      for (const GpuDispatch& d : p.dispatches) visit(d);
    }
  }
};

}  // namespace qrt

#endif  // QRT_ARTIFACT_GPU_CODE_H_
