// What a plan costs, computed from its ops: for `qcc inspect`, reports and tests.
#ifndef QCC_DIALECTS_PLAN_PLANSUMMARY_H_
#define QCC_DIALECTS_PLAN_PLANSUMMARY_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "dialects/plan/IR/Plan.h"
#include "mlir/IR/BuiltinOps.h"

namespace qcc::plan {

// What a program takes, leaves and gives is on the op.
struct ProgramSummary {
  ProgramOp op;
  std::string name;
  int64_t rows = 0;
  int64_t arenaBytes = 0;
  int64_t dispatches = 0;  // of one run: a block counts once per call
  int64_t barriers = 0;
  int64_t weightBytes = 0;        // that a step with a full bucket reads: of experts those that it can use
  int64_t logitsCols = 0;         // of a row of the logits that it gives
  std::vector<int64_t> advances;  // places of the states that it writes among the module's plan.state, rising
};

struct PlanSummary {
  int64_t weightBytes = 0;      // of the weight section, padding between weights included
  int64_t stateBytes = 0;       // per sequence
  int64_t kvBytesPerToken = 0;  // per sequence
  int64_t arenaBytes = 0;       // of the largest program: all programs use the same arena
  std::map<std::string, int64_t> weightBytesByFormat;  // packed bytes of the weights by their GGUF format
  std::vector<std::string> streams;  // that any program takes or leaves, in the order of their first mention
  std::vector<ProgramSummary> programs;  // in the module's order

  int64_t streamNumber(llvm::StringRef name) const;  // place in `streams`; -1: not there
};

// Of the weights, what a dispatch reads with a full bucket, in one run.
int64_t weightBytesOf(DispatchOp op);

// `module` holds a plan (qcc-build-plan). `weightBytes` and `stateBytes` are rounded up to kAlignment.
PlanSummary summarize(mlir::ModuleOp module);

}  // namespace qcc::plan

#endif  // QCC_DIALECTS_PLAN_PLANSUMMARY_H_
