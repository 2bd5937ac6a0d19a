#include "compiler/pipeline/diagnostics.h"

#include "frontends/base/error.h"
#include "llvm/Support/raw_ostream.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Location.h"

namespace qcc::compiler {
namespace {

std::string PlaceOf(mlir::Location location) {
  std::string place;
  location->walk([&](mlir::Location part) {
    if (auto name = mlir::dyn_cast<mlir::NameLoc>(part)) {
      place = name.getName().str();
      return mlir::WalkResult::interrupt();
    }
    if (auto file = mlir::dyn_cast<mlir::FileLineColLoc>(part)) {
      place = std::to_string(file.getLine()) + ":" + std::to_string(file.getColumn());
      return mlir::WalkResult::interrupt();
    }
    return mlir::WalkResult::advance();
  });
  return place;
}

}  // namespace

DiagnosticCollector::DiagnosticCollector(mlir::MLIRContext& context)
    : handler_(&context, [this](mlir::Diagnostic& diagnostic) {
        Remark entry{PlaceOf(diagnostic.getLocation()), diagnostic.str()};
        if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error)
          errors_.push_back(std::move(entry));
        else if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Remark)
          remarks_.push_back(std::move(entry));
        return mlir::success();
      }) {}

absl::Status DiagnosticCollector::ToStatus(std::string code, std::string_view stage) const {
  if (errors_.empty())
    return absl::InternalError("stage '" + std::string(stage) + "' failed without saying why");
  const Remark& first = errors_.front();
  std::string where = "stage '" + std::string(stage) + "'";
  if (!first.place.empty()) where += ", at " + first.place;
  return MakeError(std::move(code), first.text, std::move(where),
                   "qcc compile --dump-ir=DIR writes the IR of every stage");
}

}  // namespace qcc::compiler
