// What qcc can compile for: one entry per value of --target. A target turns a plan into code sections.
#ifndef QCC_COMPILER_TARGETS_TARGETS_H_
#define QCC_COMPILER_TARGETS_TARGETS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "codegen/gpu/lower/Backends.h"
#include "compiler/cache/code_store.h"
#include "compiler/pipeline/diagnostics.h"
#include "compiler/pipeline/options.h"
#include "dialects/layouts/layouts.h"
#include "mlir/IR/BuiltinOps.h"

namespace qcc::compiler {

struct TargetRequest {
  mlir::ModuleOp plan;  // verified; not changed
  const PipelineOptions& options;
  bool want_ir;  // fill TargetCode::ir
  DiagnosticCollector& diagnostics;
  ProgressSink& sink;
  // The tokens that sampling on the device may choose (qrt_choosable_tokens); empty: all.
  std::vector<uint32_t> choosable = {};
  CodeStore* store = nullptr;  // of code that was compiled before; null: none
};

// One form of all programs: an ISA level, a GPU profile.
struct CodeVariant {
  std::string isa;
  std::vector<std::string> features;
  std::vector<uint8_t> bytes;  // of the code section
};

// A kernel of a CPU's code, where all are linked into one image.
struct LinkedKernel {
  std::string name;
  std::string specification;
  std::vector<uint32_t> programs;    // that run it: places in the plan's list, rising
  std::vector<uint64_t> code_bytes;  // in each of TargetCode::variants
};

// A place in the code of a CPU's program, numbered by its place in the list.
struct LinkedStage {
  uint32_t program = 0;          // place in the plan's list
  std::optional<size_t> kernel;  // place in TargetCode::kernels; none: threads wait for each other
  uint64_t weight_bytes = 0;     // that a run reads
};

struct TargetCode {
  std::vector<CodeVariant> variants;  // best first
  std::vector<LinkedKernel> kernels;  // of the CPU; in the order of their first use
  std::vector<LinkedStage> stages;    // of the CPU
  std::string summary;                // for people
  // IR that the code was made from: a suffix for file names ("", "-sg32-dot") and the text.
  std::vector<std::pair<std::string, std::string>> ir;
  // What changed the code besides the options' values, as key and value: the user's own kernels.
  std::vector<std::pair<std::string, std::string>> provenance;
};

struct TargetInfo {
  std::string_view name;
  layouts::Policy layouts;  // of the weights in the plan that `generate` gets
  // Errors: Q3003 and Q3004 (an op without kernel, code generation), Q6xxx (dumps), CancelledError.
  std::function<absl::StatusOr<TargetCode>(const TargetRequest& request)> generate;
  const gpu::Backend* backend = nullptr;  // of a GPU target; null: the CPU
};

// The CPU, and every GPU back end (codegen/gpu/lower/Backends.h), in the order in which code stands in an
// artifact.
const std::vector<TargetInfo>& Targets();
// Null when there is none of that name.
const TargetInfo* FindTarget(std::string_view name, std::span<const TargetInfo> targets = Targets());

absl::StatusOr<TargetCode> GenerateCpu(const TargetRequest& request);
// Of one GPU target: a code section for each of its profiles that the options name.
absl::StatusOr<TargetCode> GenerateGpu(const gpu::Backend& backend, const TargetRequest& request);

}  // namespace qcc::compiler

#endif  // QCC_COMPILER_TARGETS_TARGETS_H_
