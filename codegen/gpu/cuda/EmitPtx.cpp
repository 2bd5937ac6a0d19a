#include "codegen/gpu/cuda/EmitPtx.h"

#include <mutex>

#include "codegen/gpu/build/Build.h"
#include "codegen/gpu/cuda/GxToNvvm.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/GPUToNVVM/GPUToNVVM.h"
#include "mlir/Conversion/GPUToNVVM/GPUToNVVMPass.h"
#include "mlir/Conversion/IndexToLLVM/IndexToLLVM.h"
#include "mlir/Conversion/MemRefToLLVM/MemRefToLLVM.h"
#include "mlir/Conversion/NVVMToLLVM/NVVMToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/UBToLLVM/UBToLLVM.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVM.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/GPU/GPUToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

namespace qcc::gpu {
namespace {

// PTX ISA by chip: shuffles with a mask need 6.0, mma.m16n8k32.s8 needs 7.0; sm_90 is known from 7.8 on.
const char* ptxVersion(StringRef chip) {
  unsigned number = 0;
  if (chip.drop_front(3).getAsInteger(10, number)) return "+ptx60";
  if (number >= 90) return "+ptx78";
  return number >= 80 ? "+ptx70" : "+ptx63";
}

llvm::Expected<std::unique_ptr<llvm::TargetMachine>> targetMachine(StringRef chip) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
  llvm::Triple triple("nvptx64-nvidia-cuda");
  std::string error;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target) return llvm::createStringError("PTX: " + error);
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  std::unique_ptr<llvm::TargetMachine> machine(
      target->createTargetMachine(triple, chip, ptxVersion(chip), options, std::nullopt, std::nullopt,
                                  llvm::CodeGenOptLevel::Aggressive));
  if (!machine) return llvm::createStringError("PTX: no target machine for " + chip);
  return machine;
}

// All kernels as functions of one gpu.module, so that the passes and the printer run once.
llvm::Expected<OwningOpRef<ModuleOp>> gather(MLIRContext& context, const Profile& profile,
                                             ArrayRef<PtxKernel> kernels) {
  OwningOpRef<ModuleOp> all;
  mlir::gpu::GPUModuleOp into;
  for (const PtxKernel& kernel : kernels) {
    llvm::Expected<OwningOpRef<ModuleOp>> module =
        buildKernel(context, profile, *kernel.launch, kernel.entry);
    if (!module) return module.takeError();
    auto from = *(*module)->getOps<mlir::gpu::GPUModuleOp>().begin();
    if (int workgroups = kernel.launch->at_once) {
      auto func = *from.getOps<mlir::gpu::GPUFuncOp>().begin();
      func->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(),
                    mlir::Builder(&context).getI32IntegerAttr(workgroups));
    }
    if (!all) {
      all = std::move(*module);
      into = from;
      continue;
    }
    for (Operation& op : llvm::make_early_inc_range(*from.getBody()))
      op.moveBefore(into.getBody(), into.getBody()->end());
  }
  return all;
}

std::string print(llvm::Module& module, llvm::TargetMachine& machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager callGraph;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(callGraph);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, callGraph, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O3).run(module, modules);
  llvm::SmallVector<char, 0> text;
  llvm::raw_svector_ostream stream(text);
  llvm::legacy::PassManager emit;
  if (machine.addPassesToEmitFile(emit, stream, nullptr, llvm::CodeGenFileType::AssemblyFile)) return "";
  emit.run(module);
  return std::string(text.begin(), text.end());
}

}  // namespace

void registerPtxDialects(DialectRegistry& registry) {
  registerKernelDialects(registry);
  registry.insert<cf::ControlFlowDialect>();
  // How each dialect becomes LLVM: ConvertGpuOpsToNVVMOps asks them.
  arith::registerConvertArithToLLVMInterface(registry);
  cf::registerConvertControlFlowToLLVMInterface(registry);
  index::registerConvertIndexToLLVMInterface(registry);
  registerConvertMemRefToLLVMInterface(registry);
  registerConvertNVVMToLLVMInterface(registry);
  ub::registerConvertUBToLLVMInterface(registry);
  vector::registerConvertVectorToLLVMInterface(registry);
  NVVM::registerConvertGpuToNVVMInterface(registry);
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  registerNVVMDialectTranslation(registry);
  registerGPUDialectTranslation(registry);
}

llvm::Expected<std::string> emitPtx(MLIRContext& context, const Profile& profile, ArrayRef<PtxKernel> kernels,
                                    StringRef chip, std::string* mlirDump) {
  if (kernels.empty()) return std::string();
  context.loadDialect<cf::ControlFlowDialect>();
  auto module = gather(context, profile, kernels);
  if (!module) return module.takeError();

  std::string found;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic& diagnostic) {
    if (found.empty() && diagnostic.getSeverity() == DiagnosticSeverity::Error) {
      llvm::raw_string_ostream stream(found);
      stream << diagnostic.getLocation() << ": " << diagnostic;
    }
    return success();
  });
  PassManager pm(&context);
  auto& kernel = pm.nest<mlir::gpu::GPUModuleOp>();
  kernel.addPass(createCanonicalizerPass());
  kernel.addPass(createCSEPass());
  kernel.addPass(createGxToNvvmPass());
  kernel.addPass(createSCFToControlFlowPass());
  kernel.addPass(createConvertVectorToLLVMPass());
  ConvertGpuOpsToNVVMOpsOptions options;
  options.indexBitwidth = 64;
  kernel.addPass(createConvertGpuOpsToNVVMOps(options));
  kernel.addPass(createCanonicalizerPass());
  kernel.addPass(createCSEPass());
  kernel.addPass(createReconcileUnrealizedCastsPass());
  if (failed(pm.run(**module))) return llvm::createStringError("PTX: " + found);
  if (mlirDump) {
    llvm::raw_string_ostream stream(*mlirDump);
    (*module)->print(stream);
  }

  auto machine = targetMachine(chip);
  if (!machine) return machine.takeError();
  llvm::LLVMContext llvmContext;
  auto gpuModule = *(**module).getOps<mlir::gpu::GPUModuleOp>().begin();
  std::unique_ptr<llvm::Module> llvmModule = translateModuleToLLVMIR(gpuModule, llvmContext, "qcc");
  if (!llvmModule) return llvm::createStringError("PTX: translation to LLVM IR failed: " + found);
  llvmModule->setTargetTriple(llvm::Triple("nvptx64-nvidia-cuda"));
  llvmModule->setDataLayout((*machine)->createDataLayout());
  std::string text = print(*llvmModule, **machine);
  if (text.empty()) return llvm::createStringError("PTX: the target cannot print assembly");
  return text;
}

}  // namespace qcc::gpu
