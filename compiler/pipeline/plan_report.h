// What a model takes in memory and how its weights are stored, for --report=memory and --report=formats: as a
// table for people or as one line of JSON (docs/reference/cli-qcc.md).
#ifndef QCC_COMPILER_PIPELINE_PLAN_REPORT_H_
#define QCC_COMPILER_PIPELINE_PLAN_REPORT_H_

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compiler/pipeline/layout_plans.h"
#include "compiler/pipeline/options.h"
#include "frontends/gguf/gguf.h"

namespace qcc::compiler {

// Bytes of scratch that a step takes.
struct CodeScratch {
  std::string code;         // by name ("cpu v3")
  uint64_t thread, shared;  // each thread, and all together
};

// Weights of each plan, states, arenas by program. `plans` are those of one model, at least one; `scratch` is
// empty while there is no code.
std::string MemoryReport(std::span<const LayoutPlan> plans, std::span<const CodeScratch> scratch,
                         ReportForm form);

// Tensors and bytes by GGUF format and pack layout, for each plan. A tensor that lies in two layouts counts
// in both.
std::string FormatsReport(std::span<const LayoutPlan> plans, const gguf::File& file, ReportForm form);

}  // namespace qcc::compiler

#endif  // QCC_COMPILER_PIPELINE_PLAN_REPORT_H_
