// libFuzzer target of the compiler's front half: GGUF heads -> hir -> fused hir -> verified plan, in both
// numerics. A stage that fails without saying why is a finding, as is an error without a code and anything
// that a sanitizer sees.
#include "compiler/pipeline/diagnostics.h"
#include "mlir/Pass/PassManager.h"
#include "passes/Passes.h"
#include "tests/fuzz/model_entry.h"

namespace {

using qcc::compiler::DiagnosticCollector;

bool RunStage(mlir::MLIRContext& context, mlir::ModuleOp module, const char* code, const char* stage,
              void (*add)(mlir::PassManager&, bool int8), bool int8) {
  DiagnosticCollector diagnostics(context);
  mlir::PassManager pm(&context);
  add(pm, int8);
  if (mlir::succeeded(pm.run(module))) return true;
  qcc::fuzz::CheckRefusal(diagnostics.ToStatus(code, stage));
  return false;
}

void AddContract(mlir::PassManager& pm, bool) {
  pm.addPass(qcc::passes::createVerifyModelContract());
}
void AddFusion(mlir::PassManager& pm, bool int8) {
  qcc::passes::addFusionPasses(pm, int8);
}
void AddPlan(mlir::PassManager& pm, bool) {
  qcc::passes::BuildPlanOptions options;
  options.decode = {1, 2};
  options.prefill = {16};
  qcc::passes::addPlanPasses(pm, options);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const qcc::fuzz::ModelFile model = qcc::fuzz::OpenHead({data, size});
  if (!model.file) return -1;
  for (bool int8 : {false, true}) {
    mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
    const auto module = qcc::fuzz::Import(context, *model.file,
                                          int8 ? qcc::models::KvElement::kF16 : qcc::models::KvElement::kF32);
    if (!module) return 0;
    if (!RunStage(context, *module, "Q3001", "import", AddContract, int8) ||
        !RunStage(context, *module, "Q3002", "fuse", AddFusion, int8) ||
        !RunStage(context, *module, "Q3003", "plan", AddPlan, int8)) {
      return 0;
    }
  }
  return 0;
}
