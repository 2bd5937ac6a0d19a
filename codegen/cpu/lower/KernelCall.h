// Which micro-kernel executes a dispatch, with which argument struct and over which work items: the bridge
// between `plan.dispatch` (dialects/plan/kernel_families.md) and codegen/cpu/kernels/kernels.h.
#ifndef QCC_CODEGEN_CPU_LOWER_KERNELCALL_H_
#define QCC_CODEGEN_CPU_LOWER_KERNELCALL_H_

#include <optional>
#include <string>

#include "dialects/plan/kernel_families.h"
#include "llvm/ADT/SmallVector.h"

namespace qcc::cpu {

// One field of a kernel's argument struct.
struct KernelField {
  enum class Kind {
    Binding,  // `integer`: a place in KernelCall::bindings: a pointer, or an i64 offset (state, kv)
    Null,     // a pointer that this dispatch does not use
    Int,      // i64 literal
    F32,      // literals
    F64,
    StepPointer,  // a field of the step's arguments at byte `integer`
    StepInt,
    Rows,     // i64: how many rows this dispatch has
    Begin,    // i64: first work item of this thread
    End,      // i64: one past its last
    Scratch,  // this thread's
    SharedScratch,
  };
  Kind kind;
  int64_t offset;  // bytes into the struct
  int64_t integer = 0;
  double real = 0;
};

// Where the number of rows comes from: fixed by the bucket, or counted by the runtime.
enum class RowSource { One, StepRows, OutRows };

struct KernelCall {
  std::string symbol;
  llvm::StringRef share;       // of the dispatch's work, where several calls have one each
  int64_t argsBytes = 0;       // size of the argument struct
  llvm::StringRef argsFields;  // its fields as text (kernel_args.h)
  llvm::SmallVector<KernelField> fields;
  llvm::SmallVector<plan::Ref> bindings;
  RowSource rows = RowSource::StepRows;
  int64_t items = 0;  // work items; 0: one per row times itemsPerRow
  int64_t itemsPerRow = 1;
  std::optional<int64_t> scratchBytes;        // of each thread; none: the kernel takes no scratch
  std::optional<int64_t> sharedScratchBytes;  // the same of all threads together
};

// A dispatch's calls, with a barrier behind each but the last.
using KernelCalls = llvm::SmallVector<KernelCall, 2>;

// Chooses the kernels. `bucketRows`: the program's rows; a bucket of 1 makes the row count a literal. Fails
// with a diagnostic on `op` that names family and spec when the CPU has no kernel for it.
mlir::FailureOr<KernelCalls> selectKernels(plan::DispatchOp op, int64_t bucketRows);
// How many calls that are.
int64_t countCalls(plan::DispatchOp op, int64_t bucketRows);

}  // namespace qcc::cpu

#endif  // QCC_CODEGEN_CPU_LOWER_KERNELCALL_H_
