// plan -> LLVM dialect: one step function per program, one function per block, one specialised function per
// kernel specification; micro-kernels stay external until the blob is linked.
#ifndef QCC_CODEGEN_CPU_LOWER_LOWERTOLLVM_H_
#define QCC_CODEGEN_CPU_LOWER_LOWERTOLLVM_H_

#include <optional>
#include <string>
#include <vector>

#include "codegen/cpu/kernels/scratch.h"
#include "dialects/plan/IR/Plan.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace qcc::cpu {

// One specialised kernel. Dispatches of one specification share it.
struct SpecializedKernel {
  std::string function;       // of the module
  std::string specification;  // family, spec, roles, and where its number of rows comes from
};

// A place in the code of a program: a dispatch, or a barrier. Its number is the place in the list.
struct ProgramStage {
  size_t program;                // place in LoweredPrograms::entries
  std::optional<size_t> kernel;  // place in LoweredPrograms::kernels; none: threads wait for each other
  int64_t weightBytes = 0;       // that a run reads, with a full bucket
};

struct LoweredPrograms {
  mlir::OwningOpRef<mlir::ModuleOp> module;  // llvm dialect only
  std::vector<std::string> entries;          // step function of each plan.program, in the plan's order
  ScratchBytes scratch;                      // the most that a kernel needs
  std::vector<SpecializedKernel> kernels;    // in the order of their first use
  std::vector<ProgramStage> stages;
};

// `plan` is a module of plan ops that passed qcc-verify-plan.
mlir::FailureOr<LoweredPrograms> lowerToLlvm(mlir::ModuleOp plan);

}  // namespace qcc::cpu

#endif  // QCC_CODEGEN_CPU_LOWER_LOWERTOLLVM_H_
