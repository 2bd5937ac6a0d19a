#include "codegen/gpu/spirv/EmitSpirv.h"

#include <spirv-tools/libspirv.hpp>
#include <string>

#include "codegen/gpu/spirv/KernelToSpirv.h"
#include "codegen/gpu/spirv/ValidateSpirv.h"
#include "mlir/Dialect/SPIRV/IR/SPIRVDialect.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/SPIRV/Serialization.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

namespace qcc::gpu {
namespace {

llvm::Error error(const Launch& launch, const llvm::Twine& what) {
  return llvm::createStringError("kernel '" + llvm::Twine(launch.name) + "': " + what);
}

struct KernelToSpirvPass : PassWrapper<KernelToSpirvPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(KernelToSpirvPass)
  KernelToSpirvPass() = default;
  KernelToSpirvPass(const KernelToSpirvPass& other) : PassWrapper(other) {}

  StringRef getArgument() const override { return "qcc-kernel-to-spirv"; }
  StringRef getDescription() const override { return "GPU kernels to the SPIR-V dialect"; }
  void getDependentDialects(DialectRegistry& registry) const override { registerSpirvDialects(registry); }

  void runOnOperation() override {
    Profile profile;
    profile.subgroup = subgroup;
    profile.int_dot = intDot;
    SmallVector<mlir::gpu::GPUFuncOp> kernels;
    getOperation().walk([&](mlir::gpu::GPUFuncOp kernel) { kernels.push_back(kernel); });
    for (mlir::gpu::GPUFuncOp kernel : kernels) {
      Operation* holder = kernel->getParentOp();
      FailureOr<OwningOpRef<spirv::ModuleOp>> module = convertKernelToSpirv(kernel, profile);
      if (failed(module)) return signalPassFailure();
      holder->getBlock()->getOperations().insert(holder->getIterator(), module->release());
      holder->erase();
    }
  }

  Option<int> subgroup{*this, "subgroup", llvm::cl::desc("threads of a subgroup; 0: none"),
                       llvm::cl::init(0)};
  Option<bool> intDot{*this, "int-dot", llvm::cl::desc("dot products of bytes in hardware"),
                      llvm::cl::init(false)};
};

}  // namespace

void registerSpirvPasses() {
  PassRegistration<KernelToSpirvPass>();
}

void registerSpirvDialects(DialectRegistry& registry) {
  registry.insert<spirv::SPIRVDialect>();
}

llvm::Expected<std::vector<uint32_t>> emitSpirv(ModuleOp kernel, const Profile& profile,
                                                const Launch& launch) {
  MLIRContext* context = kernel.getContext();
  context->loadDialect<spirv::SPIRVDialect>();
  std::string found;
  ScopedDiagnosticHandler handler(context, [&](Diagnostic& diagnostic) {
    found += (found.empty() ? "" : "; ") + diagnostic.str();
    return success();
  });
  OwningOpRef<ModuleOp> copy = kernel.clone();
  PassManager passes(context);
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createCSEPass());
  if (failed(passes.run(*copy))) return error(launch, found);
  mlir::gpu::GPUFuncOp func;
  copy->walk([&](mlir::gpu::GPUFuncOp f) { func = f; });
  if (!func) return error(launch, "the module has no gpu.func");
  FailureOr<OwningOpRef<spirv::ModuleOp>> module = convertKernelToSpirv(func, profile);
  if (failed(module)) return error(launch, found);
  SmallVector<uint32_t, 0> words;
  spirv::SerializationOptions options;
  options.emitSymbolName = false;
  if (failed(spirv::serialize(**module, words, options))) return error(launch, found);

  std::vector<uint32_t> result(words.begin(), words.end());
  const std::string wrong = validateSpirv(result);
  if (!wrong.empty()) return error(launch, "is no valid SPIR-V: " + wrong);
  return result;
}

std::string disassembleSpirv(const std::vector<uint32_t>& words) {
  const spvtools::SpirvTools tools(SPV_ENV_VULKAN_1_3);
  std::string text;
  if (tools.Disassemble(words, &text)) return text;
  // Words that SPIRV-Tools do not know yet.
  return tools.Disassemble(withNvMatrices(words), &text) ? text : "";
}

}  // namespace qcc::gpu
