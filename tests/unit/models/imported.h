// From a small model to what the importer and the evaluator make of it.
#ifndef QCC_TESTS_UNIT_MODELS_IMPORTED_H_
#define QCC_TESTS_UNIT_MODELS_IMPORTED_H_

#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "frontends/base/error.h"
#include "frontends/models/import.h"
#include "tests/unit/models/tiny_model.h"

namespace qcc::models::testing {

struct Imported {
  OpenModel model;
  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> module;  // null when `status` is not ok
  std::vector<std::string> warnings;
  absl::Status status;

  // The whole module as text.
  std::string text() const;
  // Names of all operations in the module.
  std::set<std::string> ops() const;
  std::vector<std::string> functions() const;
};

Imported Import(const TinyModel& model, const ImportOptions& options = {});

// Imports and expects an error with this code whose text (what and where) holds all of `parts`.
void ExpectRefused(const TinyModel& model, const std::string& code, const std::vector<std::string>& parts);

// `good` with one extent more on any axis of any tensor is refused with Q2006, which names tensor, both
// extents and file; without a tensor, with Q2005, except where `may_lack` says that it may. The rows of the
// embedding are the vocabulary, of which any number is right.
void ExpectEveryShapeChecked(const TinyModel& good,
                             const std::function<bool(const std::string& tensor)>& may_lack);

// Logits of the evaluator in f64 with an f32 cache, fed in one piece. Fails the test on an error.
std::vector<double> Logits(const gguf::File& file, std::span<const int32_t> ids);
std::vector<double> Logits(const TinyModel& model, std::span<const int32_t> ids);

}  // namespace qcc::models::testing

#endif  // QCC_TESTS_UNIT_MODELS_IMPORTED_H_
