// MLIR diagnostics of one stage: errors become the stage's status, remarks its report.
#ifndef QCC_COMPILER_PIPELINE_DIAGNOSTICS_H_
#define QCC_COMPILER_PIPELINE_DIAGNOSTICS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"

namespace qcc::compiler {

// Collects everything that is emitted in `context` while it lives.
class DiagnosticCollector {
 public:
  explicit DiagnosticCollector(mlir::MLIRContext& context);

  struct Remark {
    std::string place;  // GGUF tensor of the op's location, or "line:column" of an IR file, or empty
    std::string text;
  };
  const std::vector<Remark>& remarks() const { return remarks_; }

  // The first error as a status with `code`; an internal error named after `stage` when none was emitted.
  absl::Status ToStatus(std::string code, std::string_view stage) const;

 private:
  std::vector<Remark> remarks_;
  std::vector<Remark> errors_;
  mlir::ScopedDiagnosticHandler handler_;
};

}  // namespace qcc::compiler

#endif  // QCC_COMPILER_PIPELINE_DIAGNOSTICS_H_
