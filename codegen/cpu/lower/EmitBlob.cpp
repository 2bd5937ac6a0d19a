#include "codegen/cpu/lower/EmitBlob.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <system_error>
#include <thread>

#include "codegen/cpu/lower/KernelSignature.h"
#include "codegen/cpu/lower/LinkFlat.h"
#include "codegen/cpu/lower/StackUse.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "runtime/abi/program.h"

#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Linker/Linker.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Triple.h"
#include "llvm/Transforms/Utils/Cloning.h"

namespace qcc::cpu {
namespace {
using namespace llvm;

Error stageError(const Twine& what) {
  return createStringError(inconvertibleErrorCode(), "cpu codegen: " + what);
}

Expected<std::unique_ptr<TargetMachine>> makeTargetMachine(const IsaInfo& isa) {
  // Registration is idempotent; only the x86 backend is needed for a CPU blob.
  LLVMInitializeX86TargetInfo();
  LLVMInitializeX86Target();
  LLVMInitializeX86TargetMC();
  LLVMInitializeX86AsmPrinter();
  Triple triple("x86_64-unknown-linux-gnu");
  std::string message;
  const Target* target = TargetRegistry::lookupTarget(triple, message);
  if (!target) return stageError(message);
  TargetOptions options;
  // Contraction is spelled out in the kernels (fma where the ISA has it); the backend must not add any, or a
  // value would depend on how a loop was unrolled.
  options.AllowFPOpFusion = FPOpFusion::Strict;
  return std::unique_ptr<TargetMachine>(
      target->createTargetMachine(triple, StringRef(isa.llvm_cpu), StringRef(isa.llvm_features), options,
                                  Reloc::PIC_, CodeModel::Small, CodeGenOptLevel::Aggressive));
}

void setTargetAttributes(Function& f, const IsaInfo& isa) {
  f.addFnAttr("target-cpu", StringRef(isa.llvm_cpu));
  f.addFnAttr("target-features", StringRef(isa.llvm_features));
  f.removeFnAttr("tune-cpu");
  f.addFnAttr("prefer-vector-width", "512");
  f.addFnAttr("min-legal-vector-width", "512");
  // Without it LLVM turns copy loops into calls to memset and memcpy, which a flat blob does not have.
  f.addFnAttr("no-builtins");
  f.addFnAttr(Attribute::NoUnwind);
  watchStack(f);
}

Error linkKernels(Module& module, const IsaInfo& isa) {
  std::string_view bitcode = kernel_bitcode(isa.id);
  auto kernels = parseBitcodeFile(MemoryBufferRef(StringRef(bitcode.data(), bitcode.size()), "kernels"),
                                  module.getContext());
  if (!kernels) return kernels.takeError();
  if (Error e = checkKernelSignatures(module, **kernels)) return stageError(toString(std::move(e)));
  (*kernels)->setDataLayout(module.getDataLayout());
  (*kernels)->setTargetTriple(module.getTargetTriple());
  for (Function& f : *kernels.get()) {
    if (f.isDeclaration()) continue;
    f.removeFnAttr(Attribute::NoInline);
    f.removeFnAttr(Attribute::OptimizeNone);
    // Entry points are specialised into their caller; helpers inside a kernel are the inliner's choice.
    if (f.getName().starts_with("qk_")) f.addFnAttr(Attribute::AlwaysInline);
  }
  if (Linker::linkModules(module, std::move(*kernels), Linker::LinkOnlyNeeded))
    return stageError("the kernels' bitcode does not link");
  return Error::success();
}

// qrt_code_header: entry offsets relative to the header, which the linker script puts first.
Error addEntryTable(Module& module, ArrayRef<std::string> entries, int64_t scratchBytes) {
  LLVMContext& context = module.getContext();
  Type* i32 = Type::getInt32Ty(context);
  Type* i64 = Type::getInt64Ty(context);
  auto* type = ArrayType::get(i32, 4 + entries.size());
  auto* table = new GlobalVariable(module, type, /*isConstant=*/true, GlobalValue::ExternalLinkage, nullptr,
                                   "qrt_code_header");
  table->setSection(".qrt_table");
  table->setAlignment(Align(64));
  auto word = [&](uint32_t v) -> Constant* { return ConstantInt::get(i32, v); };
  SmallVector<Constant*> words = {word(QRT_CODE_MAGIC), word(QRT_PROGRAM_ABI), word(entries.size()),
                                  word(static_cast<uint32_t>(scratchBytes))};
  for (const std::string& name : entries) {
    Function* step = module.getFunction(name);
    if (!step || step->isDeclaration()) return stageError("no step function '" + name + "'");
    Constant* distance =
        ConstantExpr::getSub(ConstantExpr::getPtrToInt(step, i64), ConstantExpr::getPtrToInt(table, i64));
    words.push_back(ConstantExpr::getTrunc(distance, i32));
  }
  table->setInitializer(ConstantArray::get(type, words));
  return Error::success();
}

void internalize(Module& module, ArrayRef<std::string> entries) {
  for (Function& f : module) {
    if (f.isDeclaration()) continue;
    bool isEntry = llvm::is_contained(entries, f.getName());
    f.setLinkage(isEntry ? GlobalValue::ExternalLinkage : GlobalValue::InternalLinkage);
    f.setVisibility(isEntry ? GlobalValue::HiddenVisibility : GlobalValue::DefaultVisibility);
  }
}

bool interrupted(const BlobRequest& request) {
  return request.interrupted && request.interrupted();
}

void optimize(const BlobRequest& request, Module& module, TargetMachine& machine) {
  LoopAnalysisManager lam;
  FunctionAnalysisManager fam;
  CGSCCAnalysisManager cgam;
  ModuleAnalysisManager mam;
  PassInstrumentationCallbacks callbacks;
  callbacks.registerShouldRunOptionalPassCallback([&](StringRef, Any) { return !interrupted(request); });
  PassBuilder builder(&machine, PipelineTuningOptions(), std::nullopt, &callbacks);
  builder.registerModuleAnalyses(mam);
  builder.registerCGSCCAnalyses(cgam);
  builder.registerFunctionAnalyses(fam);
  builder.registerLoopAnalyses(lam);
  builder.crossRegisterProxies(lam, fam, cgam, mam);
  builder.buildPerModuleDefaultPipeline(OptimizationLevel::O3).run(module, mam);
}

Expected<SmallVector<char, 0>> generate(Module& module, TargetMachine& machine, CodeGenFileType type) {
  SmallVector<char, 0> buffer;
  raw_svector_ostream stream(buffer);
  legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, stream, nullptr, type))
    return stageError("the target cannot write this file type");
  passes.run(module);
  return buffer;
}

Error dump(const Module& module, TargetMachine& machine, const BlobRequest& request, StringRef isaName) {
  SmallString<128> path(request.dumpDir);
  sys::path::append(path, isaName + ".ll");
  std::error_code ec;
  raw_fd_ostream ir(path, ec);
  if (ec) return stageError("cannot write '" + path + "': " + ec.message());
  module.print(ir, nullptr);
  std::unique_ptr<Module> copy = CloneModule(module);  // code generation changes the module
  auto text = generate(*copy, machine, CodeGenFileType::AssemblyFile);
  if (!text) return text.takeError();
  sys::path::replace_extension(path, "s");
  raw_fd_ostream assembly(path, ec);
  if (ec) return stageError("cannot write '" + path + "': " + ec.message());
  assembly << StringRef(text->data(), text->size());
  return Error::success();
}

// One ISA level on its way from the shared LLVM-dialect module to an object file.
struct Variant {
  const IsaInfo* isa;
  std::unique_ptr<TargetMachine> machine;
  LLVMContext context;  // its own: what lets levels be optimised side by side
  StackUse stack{context};
  std::unique_ptr<Module> module;
  SmallVector<char, 0> object;
  std::string error;
};

// What is left of a step's stack for compiled code.
constexpr uint64_t kCodeStack = QRT_STEP_STACK_BYTES - QRT_STEP_CALLBACK_STACK_BYTES;

Error translate(const BlobRequest& request, Variant& v) {
  auto machine = makeTargetMachine(*v.isa);
  if (!machine) return machine.takeError();
  v.machine = std::move(*machine);
  mlir::ModuleOp source = request.module;
  v.module = mlir::translateModuleToLLVMIR(source, v.context, "program");
  if (!v.module) return stageError("the llvm dialect module does not translate");
  v.module->setDataLayout(v.machine->createDataLayout());
  v.module->setTargetTriple(v.machine->getTargetTriple());
  if (Error e = linkKernels(*v.module, *v.isa)) return e;
  for (Function& f : *v.module)
    if (!f.isDeclaration()) setTargetAttributes(f, *v.isa);
  internalize(*v.module, request.entries);
  if (Error e = addEntryTable(*v.module, request.entries, request.scratchBytes)) return e;
  std::string broken;
  raw_string_ostream brokenStream(broken);
  if (verifyModule(*v.module, &brokenStream)) return stageError("invalid LLVM IR: " + brokenStream.str());
  return Error::success();
}

Error compile(const BlobRequest& request, Variant& v) {
  if (interrupted(request)) return stageError("interrupted");
  optimize(request, *v.module, *v.machine);
  if (interrupted(request)) return stageError("interrupted");
  for (const Function& f : *v.module)
    if (f.isDeclaration() && !f.isIntrinsic() && !f.use_empty())
      return stageError("unresolved symbol '" + f.getName() + "'");
  if (!request.dumpDir.empty())
    if (Error e = dump(*v.module, *v.machine, request, StringRef(v.isa->name))) return e;
  auto object = generate(*v.module, *v.machine, CodeGenFileType::ObjectFile);
  if (!object) return object.takeError();
  if (Error e = v.stack.check(*v.module, request.entries, kCodeStack)) return e;
  v.object = std::move(*object);
  return Error::success();
}

}  // namespace

Expected<std::vector<std::vector<uint8_t>>> emitBlobs(const BlobRequest& request, unsigned threads) {
  if (request.scratchBytes > int64_t{QRT_MAX_THREAD_SCRATCH})
    return stageError("kernels need " + Twine(request.scratchBytes) + " bytes of scratch a thread, at most " +
                      Twine(QRT_MAX_THREAD_SCRATCH) + " are allowed");
  mlir::ModuleOp source = request.module;
  mlir::registerBuiltinDialectTranslation(*source.getContext());
  mlir::registerLLVMDialectTranslation(*source.getContext());
  std::vector<std::unique_ptr<Variant>> variants;
  for (Isa isa : request.isas) {
    variants.push_back(std::make_unique<Variant>());
    variants.back()->isa = &isa_info(isa);
    // One after the other: they read one MLIR context.
    if (Error e = translate(request, *variants.back())) return e;
  }

  std::atomic<size_t> next{0};
  auto work = [&] {
    for (size_t i; (i = next++) < variants.size();)
      if (Error e = compile(request, *variants[i])) variants[i]->error = toString(std::move(e));
  };
  std::vector<std::thread> pool;
  try {
    for (unsigned t = 1; t < std::min<size_t>(threads, variants.size()); ++t) pool.emplace_back(work);
  } catch (const std::system_error&) {
    // No more threads: those that there are do the work.
  }
  work();
  for (std::thread& thread : pool) thread.join();

  if (interrupted(request))
    return createStringError(std::make_error_code(std::errc::operation_canceled), "interrupted");
  std::vector<std::vector<uint8_t>> blobs;
  for (const auto& v : variants) {
    if (!v->error.empty()) return stageError(StringRef(v->isa->name) + ": " + v->error);
    auto blob = linkFlat(StringRef(v->object.data(), v->object.size()));
    if (!blob) return blob.takeError();
    blobs.push_back(std::move(*blob));
  }
  return blobs;
}

}  // namespace qcc::cpu
