#include "tests/unit/models/imported.h"

#include <gtest/gtest.h>

#include "compiler/driver/eval.h"
#include "llvm/Support/raw_ostream.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace qcc::models::testing {

std::string Imported::text() const {
  std::string result;
  llvm::raw_string_ostream out(result);
  if (module) mlir::ModuleOp(*module).print(out);
  return result;
}

std::set<std::string> Imported::ops() const {
  std::set<std::string> names;
  mlir::ModuleOp(*module).walk(
      [&](mlir::Operation* op) { names.insert(op->getName().getStringRef().str()); });
  return names;
}

std::vector<std::string> Imported::functions() const {
  std::vector<std::string> names;
  for (mlir::func::FuncOp function : mlir::ModuleOp(*module).getOps<mlir::func::FuncOp>())
    names.push_back(function.getName().str());
  return names;
}

Imported Import(const TinyModel& model, const ImportOptions& options) {
  Imported result;
  result.model = Open(model);
  result.context = std::make_unique<mlir::MLIRContext>(mlir::MLIRContext::Threading::DISABLED);
  if (result.model.file == nullptr) {
    result.status = absl::InternalError("no file");
    return result;
  }
  absl::StatusOr<ImportResult> imported = ImportModel(*result.context, *result.model.file, options);
  result.status = imported.status();
  if (imported.ok()) {
    result.module = std::move(imported->module);
    result.warnings = std::move(imported->warnings);
  }
  return result;
}

void ExpectRefused(const TinyModel& model, const std::string& code, const std::vector<std::string>& parts) {
  const Imported imported = Import(model);
  if (imported.status.ok()) {
    ADD_FAILURE() << "the model was imported, expected error " << code;
    return;
  }
  const ErrorParts error = PartsOf(imported.status);
  EXPECT_EQ(error.code, code) << imported.status;
  const std::string text = error.what + " | " + error.where;
  for (const std::string& part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << "\"" << part << "\" is not named in: " << text;
}

void ExpectEveryShapeChecked(const TinyModel& good,
                             const std::function<bool(const std::string& tensor)>& may_lack) {
  ASSERT_TRUE(Import(good).status.ok()) << Import(good).status;
  for (const TinyTensor& tensor : good.tensors) {
    SCOPED_TRACE(good.arch() + " " + tensor.name);
    for (size_t axis = 0; axis < tensor.ne.size(); ++axis) {
      if (tensor.name == "token_embd.weight" && axis == 1) continue;
      TinyModel bad = good;
      TinyTensor* changed = bad.find(tensor.name);
      changed->ne[axis] += 1;
      int64_t count = 1;
      for (int64_t dim : changed->ne) count *= dim;
      changed->values.assign(count, 0.5f);
      ExpectRefused(bad, "Q2006",
                    {"tensor " + tensor.name + " ", std::to_string(changed->ne[axis]),
                     std::to_string(tensor.ne[axis]), "tiny.gguf"});
    }
    if (may_lack(tensor.name)) continue;
    TinyModel missing = good;
    missing.erase_tensor(tensor.name);
    ExpectRefused(missing, "Q2005", {tensor.name, " is missing"});
  }
}

std::vector<double> Logits(const gguf::File& file, std::span<const int32_t> ids) {
  auto session = compiler::EvalSession::Create(file, /*f64=*/true, /*kv_f16=*/false);
  if (!session.ok()) {
    ADD_FAILURE() << session.status();
    return {};
  }
  absl::StatusOr<std::vector<double>> logits = (*session)->Step(ids);
  if (logits.ok()) return *std::move(logits);
  ADD_FAILURE() << logits.status();
  return {};
}

std::vector<double> Logits(const TinyModel& model, std::span<const int32_t> ids) {
  const OpenModel open = Open(model);
  return open.file == nullptr ? std::vector<double>() : Logits(*open.file, ids);
}

}  // namespace qcc::models::testing
