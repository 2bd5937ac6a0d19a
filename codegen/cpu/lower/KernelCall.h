// Which micro-kernel executes a dispatch, with which arguments and over which work items: the bridge between
// `plan.dispatch` (dialects/plan/kernel_families.md) and the prototypes in codegen/cpu/kernels/kernels.h.
#ifndef QCC_CODEGEN_CPU_LOWER_KERNELCALL_H_
#define QCC_CODEGEN_CPU_LOWER_KERNELCALL_H_

#include <string>

#include "dialects/plan/IR/Plan.h"
#include "llvm/ADT/SmallVector.h"

namespace qcc::cpu {

// One argument of a kernel, in the order of its prototype.
struct KernelArg {
  enum class Kind {
    Binding,    // `index`: a binding: a pointer (weights, arena, logits) or an i64 offset (state, kv)
    Null,       // an optional pointer that this dispatch does not use
    Int,        // i64 literal
    Float,      // f32 literal
    Seqs,       // const qrt_seq* of the step
    SeqCount,   // i64
    Tokens,     // const int32_t* of the step
    Positions,  // const int32_t* [rows][4]
    OutRows,    // const int32_t* of the step
    Rows,       // i64: how many rows this dispatch has
    Begin,      // i64: first work item of this thread
    End,        // i64: one past its last
  };
  Kind kind;
  int64_t integer = 0;  // Int: value; Binding: index
  float real = 0;       // Float
};

// Where the number of rows comes from: fixed by the bucket, or counted by the runtime.
enum class RowSource { One, StepRows, OutRows };

struct KernelCall {
  std::string symbol;
  llvm::SmallVector<KernelArg> args;
  RowSource rows = RowSource::StepRows;
  int64_t items = 0;  // work items; 0: one per row times itemsPerRow
  int64_t itemsPerRow = 1;
};

// Chooses the kernel. `bucketRows`: the program's rows; a bucket of 1 makes the row count a literal. Fails
// with a diagnostic on `op` that names family and spec when the CPU has no kernel for it.
mlir::FailureOr<KernelCall> selectKernel(plan::DispatchOp op, int64_t bucketRows);

}  // namespace qcc::cpu

#endif  // QCC_CODEGEN_CPU_LOWER_KERNELCALL_H_
