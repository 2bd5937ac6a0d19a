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

// Bytes of scratch that each thread of a step takes, by name of the code ("cpu v3").
using ThreadScratch = std::vector<std::pair<std::string, uint64_t>>;

// Weights of each plan, states, arenas by program. `plans` are those of one model, at least one; `threads` is
// empty while there is no code.
std::string MemoryReport(std::span<const LayoutPlan> plans, const ThreadScratch& threads, ReportForm form);

// Tensors and bytes by GGUF format and pack layout, for each plan. A tensor that lies in two layouts counts
// in both.
std::string FormatsReport(std::span<const LayoutPlan> plans, const gguf::File& file, ReportForm form);

}  // namespace qcc::compiler

#endif  // QCC_COMPILER_PIPELINE_PLAN_REPORT_H_
