#include "codegen/cpu/lower/CompilePiece.h"

#include <cstring>
#include <memory>
#include <optional>

#include "codegen/cpu/kernels/bitcode.h"
#include "codegen/cpu/lower/KernelSignature.h"
#include "codegen/cpu/lower/StackUse.h"
#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/OptBisect.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Linker/Linker.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Triple.h"
#include "llvm/Transforms/IPO/AlwaysInliner.h"
#include "llvm/Transforms/Scalar.h"
#include "runtime/abi/program.h"

namespace qcc::cpu {
namespace {
using namespace llvm;

Error stageError(const Twine& what) {
  return createStringError(inconvertibleErrorCode(), "cpu codegen: " + what);
}

Expected<std::unique_ptr<TargetMachine>> makeTargetMachine(const IsaInfo& isa) {
  Triple triple("x86_64-unknown-linux-gnu");
  std::string message;
  const Target* target = TargetRegistry::lookupTarget(triple, message);
  if (!target) return stageError(message);
  TargetOptions options;
  // Contraction is spelled out in the kernels (fma where the ISA has it); the backend must not add any, or a
  // value would depend on how a loop was unrolled.
  options.AllowFPOpFusion = FPOpFusion::Strict;
  // Sections of their own: the linker keeps one of those that pieces have alike.
  options.FunctionSections = options.DataSections = true;
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

// Functions are read when they are needed.
Expected<std::unique_ptr<Module>> readKernels(LLVMContext& context, const IsaInfo& isa) {
  std::string_view bitcode = kernel_bitcode(isa.id);
  return getLazyBitcodeModule(MemoryBufferRef(StringRef(bitcode.data(), bitcode.size()), "kernels"), context);
}

Error linkKernels(Module& module, const IsaInfo& isa) {
  auto kernels = readKernels(module.getContext(), isa);
  if (!kernels) return kernels.takeError();
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

// Functions of other pieces end up in the same image, within reach: no table of addresses is needed.
void setLinkage(Module& module, const PieceRequest& request) {
  for (Function& f : module) {
    const bool ofPiece = f.getName() == request.piece.name;
    if (ofPiece || (f.isDeclaration() && request.others.contains(f.getName())))
      f.setVisibility(GlobalValue::HiddenVisibility);
    else if (!f.isDeclaration())
      f.setLinkage(GlobalValue::InternalLinkage);
  }
}

bool interrupted(const PieceRequest& request) {
  return request.interrupted && request.interrupted();
}

void optimize(const PieceRequest& request, Module& module, TargetMachine& machine) {
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
  // Kernels become a part of the piece before anything looks at them: what is tidied is the special case.
  builder.registerPipelineStartEPCallback(
      [](ModulePassManager& passes, OptimizationLevel) { passes.addPass(AlwaysInlinerPass()); });
  // What O3 adds takes a tenth of code generation, and made no program faster.
  builder.buildPerModuleDefaultPipeline(OptimizationLevel::O2).run(module, mam);
}

// Strength reduction of loops took 2.5 of the 8.6 s of code generation for the 0.8b preset, most of it for
// tiles of several rows, whose loops have more addresses than there are registers: there it adds spills, and
// prompts are read no faster for it. What one row streams through is small, and without it has up to 7 % more
// instructions (level v3, Q4_K_M).
constexpr unsigned kLargePiece = 2048;  // instructions, as optimised

class LoopsAsTheyAre : public OptPassGate {
 public:
  bool isEnabled() const override { return true; }
  bool shouldRunPass(StringRef pass, StringRef) const override { return pass != reduction->getPassName(); }

 private:
  std::unique_ptr<Pass> reduction{createLoopStrengthReducePass()};
};

Expected<SmallVector<char, 0>> generate(Module& module, TargetMachine& machine, CodeGenFileType type) {
  SmallVector<char, 0> buffer;
  raw_svector_ostream stream(buffer);
  legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, stream, nullptr, type))
    return stageError("the target cannot write this file type");
  passes.run(module);
  return buffer;
}

Error writeText(const Twine& path, StringRef text) {
  std::error_code ec;
  raw_fd_ostream out(path.str(), ec);
  if (!ec) {
    out << text;
    out.close();
    ec = out.error();
    out.clear_error();  // an error that its stream still holds ends the process
  }
  if (ec) return createStringError(ec, "cannot write '" + path + "': " + ec.message());
  return Error::success();
}

Error dump(const Module& module, TargetMachine& machine, const std::string& path) {
  std::string ir;
  raw_string_ostream(ir) << module;
  if (Error e = writeText(path + ".ll", ir)) return e;
  // Code generation changes the module, and takes uses in the order in which they are listed: of a plain
  // clone it makes other code.
  SmallVector<char, 0> bitcode;
  raw_svector_ostream stream(bitcode);
  WriteBitcodeToFile(module, stream, /*ShouldPreserveUseListOrder=*/true);
  auto copy = parseBitcodeFile(MemoryBufferRef(StringRef(bitcode.data(), bitcode.size()), "piece"),
                               module.getContext());
  if (!copy) return copy.takeError();
  auto text = generate(**copy, machine, CodeGenFileType::AssemblyFile);
  if (!text) return text.takeError();
  return writeText(path + ".s", StringRef(text->data(), text->size()));
}

Error verify(const Module& module) {
  std::string broken;
  raw_string_ostream stream(broken);
  if (verifyModule(module, &stream)) return stageError("invalid LLVM IR: " + broken);
  return Error::success();
}

Expected<std::unique_ptr<Module>> readPiece(const PieceRequest& request, LLVMContext& context,
                                            TargetMachine& machine) {
  const auto& bitcode = request.piece.bitcode;
  auto module =
      parseBitcodeFile(MemoryBufferRef(StringRef(bitcode.data(), bitcode.size()), "piece"), context);
  if (!module) return module.takeError();
  Module& m = **module;
  m.setDataLayout(machine.createDataLayout());
  m.setTargetTriple(machine.getTargetTriple());
  if (Error e = linkKernels(m, request.isa)) return e;
  for (Function& f : m)
    if (!f.isDeclaration()) setTargetAttributes(f, request.isa);
  setLinkage(m, request);
  if (Error e = verify(m)) return e;
  return std::move(*module);
}

// Entry offsets relative to the header, which the linker script puts first.
void addHeader(Module& module, const BlobHeader& header) {
  LLVMContext& context = module.getContext();
  Type* i32 = Type::getInt32Ty(context);
  Type* i64 = Type::getInt64Ty(context);
  auto* type = ArrayType::get(i32, sizeof(qrt_code_header) / 4 + header.entries.size());
  auto* table = new GlobalVariable(module, type, /*isConstant=*/true, GlobalValue::ExternalLinkage, nullptr,
                                   "qrt_code_header");
  table->setSection(".qrt_table");
  table->setAlignment(Align(64));
  table->setVisibility(GlobalValue::HiddenVisibility);
  auto word = [&](uint32_t v) -> Constant* { return ConstantInt::get(i32, v); };
  SmallVector<Constant*> words = {word(QRT_CODE_MAGIC),
                                  word(QRT_PROGRAM_ABI),
                                  word(header.entries.size()),
                                  word(static_cast<uint32_t>(header.scratch.thread)),
                                  word(static_cast<uint32_t>(header.stages)),
                                  word(static_cast<uint32_t>(header.scratch.shared))};
  auto* step = FunctionType::get(Type::getVoidTy(context), false);
  for (const std::string& name : header.entries) {
    auto* function = Function::Create(step, GlobalValue::ExternalLinkage, name, module);
    function->setVisibility(GlobalValue::HiddenVisibility);
    Constant* distance =
        ConstantExpr::getSub(ConstantExpr::getPtrToInt(function, i64), ConstantExpr::getPtrToInt(table, i64));
    words.push_back(ConstantExpr::getTrunc(distance, i32));
  }
  table->setInitializer(ConstantArray::get(type, words));
}

void append(std::vector<uint8_t>& bytes, const void* data, size_t size) {
  const auto* from = static_cast<const uint8_t*>(data);
  bytes.insert(bytes.end(), from, from + size);
}

}  // namespace

void prepareCodeGenerator() {
  // Registration is idempotent; only the x86 backend is needed for a CPU blob.
  LLVMInitializeX86TargetInfo();
  LLVMInitializeX86Target();
  LLVMInitializeX86TargetMC();
  LLVMInitializeX86AsmPrinter();
}

Error checkKernels(const Module& program, const IsaInfo& isa) {
  LLVMContext& context = program.getContext();
  auto kernels = readKernels(context, isa);
  if (!kernels) return kernels.takeError();
  if (Error e = checkKernelSignatures(program, **kernels)) return stageError(toString(std::move(e)));
  return Error::success();
}

Expected<SmallVector<char, 0>> compileHeader(const BlobHeader& header, const IsaInfo& isa) {
  LLVMContext context;
  auto machine = makeTargetMachine(isa);
  if (!machine) return machine.takeError();
  Module module("header", context);
  module.setDataLayout((*machine)->createDataLayout());
  module.setTargetTriple((*machine)->getTargetTriple());
  addHeader(module, header);
  if (Error e = verify(module)) return e;
  return generate(module, **machine, CodeGenFileType::ObjectFile);
}

Expected<CompiledPiece> compilePiece(const PieceRequest& request) {
  if (interrupted(request)) return stageError("interrupted");
  LLVMContext context;  // its own: what lets pieces be compiled side by side
  StackUse stack(context);
  auto machine = makeTargetMachine(request.isa);
  if (!machine) return machine.takeError();
  auto module = readPiece(request, context, **machine);
  if (!module) return module.takeError();
  optimize(request, **module, **machine);
  if (interrupted(request)) return stageError("interrupted");
  LoopsAsTheyAre asTheyAre;
  if ((*module)->getInstructionCount() > kLargePiece) context.setOptPassGate(asTheyAre);
  CompiledPiece piece;
  for (const Function& f : **module) {
    if (!f.isDeclaration() || f.isIntrinsic() || f.use_empty()) continue;
    if (!request.others.contains(f.getName())) return stageError("unresolved symbol '" + f.getName() + "'");
    piece.calls.push_back(f.getName().str());
  }
  if (!request.dumpPath.empty())
    if (Error e = dump(**module, **machine, request.dumpPath)) return e;
  auto object = generate(**module, **machine, CodeGenFileType::ObjectFile);
  if (!object) return object.takeError();
  piece.object = std::move(*object);
  Expected<uint64_t> bytes = stack.deepest(*(*module)->getFunction(request.piece.name));
  if (!bytes) return bytes.takeError();
  piece.stack = *bytes;
  auto [function, frame] = stack.largest();
  piece.frameOf = function.str();
  piece.frame = frame;
  return piece;
}

Expected<uint64_t> codeBytes(const CompiledPiece& piece) {
  const StringRef bytes(piece.object.data(), piece.object.size());
  auto object = object::ObjectFile::createObjectFile(MemoryBufferRef(bytes, piece.frameOf));
  if (!object) return stageError("object of '" + piece.frameOf + "': " + toString(object.takeError()));
  uint64_t sum = 0;
  for (const object::SectionRef& section : (*object)->sections()) {
    if (section.isText()) sum += section.getSize();
  }
  return sum;
}

// stack, frame, names (frameOf, then calls, a zero byte behind each) with their bytes before them; the
// object.
std::vector<uint8_t> pieceBytes(const CompiledPiece& piece) {
  std::string names = piece.frameOf + '\0';
  for (const std::string& call : piece.calls) names += call + '\0';
  const uint64_t numbers[] = {piece.stack, piece.frame, names.size()};
  std::vector<uint8_t> bytes;
  append(bytes, numbers, sizeof numbers);
  append(bytes, names.data(), names.size());
  append(bytes, piece.object.data(), piece.object.size());
  return bytes;
}

std::optional<CompiledPiece> pieceFromBytes(ArrayRef<uint8_t> bytes) {
  uint64_t numbers[3];
  if (bytes.size() < sizeof numbers) return std::nullopt;
  std::memcpy(numbers, bytes.data(), sizeof numbers);
  bytes = bytes.drop_front(sizeof numbers);
  if (numbers[2] > bytes.size()) return std::nullopt;
  CompiledPiece piece;
  piece.stack = numbers[0];
  piece.frame = numbers[1];
  StringRef names(reinterpret_cast<const char*>(bytes.data()), numbers[2]);
  if (!names.consume_back(StringRef("", 1))) return std::nullopt;
  SmallVector<StringRef> all;
  names.split(all, '\0');
  piece.frameOf = all.front().str();
  for (StringRef call : drop_begin(all)) piece.calls.push_back(call.str());
  bytes = bytes.drop_front(numbers[2]);
  piece.object.assign(bytes.begin(), bytes.end());
  return piece;
}

}  // namespace qcc::cpu
