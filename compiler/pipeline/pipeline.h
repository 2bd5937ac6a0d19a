// The way of a model from GGUF to artifact.
#ifndef QCC_COMPILER_PIPELINE_PIPELINE_H_
#define QCC_COMPILER_PIPELINE_PIPELINE_H_

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "compiler/pipeline/options.h"
#include "compiler/targets/targets.h"
#include "frontends/gguf/gguf.h"
#include "runtime/base/hash.h"

namespace qcc::compiler {

// "qcc 0.1.0 (LLVM 22.1.8)", as written into every artifact.
std::string CompilerVersion();
std::string ReleaseVersion();  // "0.1.0"
std::string LlvmVersion();     // "22.1.8"

// What an artifact was made of, and which it is (Artifact::identity).
struct CompiledModel {
  qrt::Hash128 source{}, identity{};
};

// Whether there is room for an artifact whose weights take about so many bytes, and what else is to be done
// for it. Asked twice: ahead of the passes over the weights, and with what they take once they are planned.
using RoomForWeights = std::function<absl::Status(uint64_t bytes)>;

// Compiles `options.input` for those of `targets` that `options.targets` names. Targets whose policies choose
// the same layouts for all weights of this model share a plan and a weights section; for others there are
// several of both, in the order of the targets. Nothing appears at `options.output` unless everything
// succeeded. Stages that `options.compile_to` cuts off are not run; the last one's IR then goes to
// `sink.Report`. `model`: null, or the input as models::OpenModel gives it. `made`: written where there is an
// artifact. `room`: null: the disk of `options.output` is asked.
//
// Errors: Q1xxx, Q2xxx (the input), Q3001 (the model contract), Q3002 (fusion), Q3003 (planning: also an op
// that no kernel of the target executes, by name), Q3004 (code generation), Q6xxx (output); CancelledError
// after Interrupted().
absl::Status CompileModel(const PipelineOptions& options, ProgressSink& sink,
                          std::span<const TargetInfo> targets = Targets(),
                          std::unique_ptr<gguf::File> model = nullptr, CompiledModel* made = nullptr,
                          RoomForWeights room = nullptr);

}  // namespace qcc::compiler

#endif  // QCC_COMPILER_PIPELINE_PIPELINE_H_
