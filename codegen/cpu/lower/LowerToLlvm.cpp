#include "codegen/cpu/lower/LowerToLlvm.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "codegen/cpu/lower/KernelCall.h"
#include "codegen/cpu/lower/KernelSignature.h"
#include "dialects/layouts/layouts.h"
#include "dialects/plan/PlanSummary.h"
#include "llvm/ADT/StringMap.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Builders.h"
#include "runtime/abi/program.h"
#include "runtime/base/hash.h"

namespace qcc::cpu {
namespace {
using namespace mlir;

// What the code of one function refers to. Bases are null at program level, where references are absolute.
struct Scope {
  Value args, thread, threads;           // const qrt_step_args*, i64, i64
  Value weightsBase, stateBase, kvBase;  // i64; of the calling layer
  int64_t bucketRows;
};

// The barrier's tickets for the dispatches of a body. Two dispatches that no barrier lies between have
// different ones, so the parts of a program that may meet without a barrier have ranges of their own: what a
// layer does ahead of its first barrier, what it does behind its last one, and what stands between layers.
class Tickets {
 public:
  static Tickets ofProgram() { return Tickets(2 * kEach, QRT_TICKETS, 0); }
  static Tickets ofBlock(int64_t barriers) {
    return barriers == 0 ? Tickets(0, 0, 0) : Tickets(0, kEach, barriers);
  }

  // -1: none is left.
  int64_t take() { return next < end ? next++ : -1; }
  void passBarrier() {
    if (barriers == 1) {  // a block's last one
      begin = kEach;
      end = 2 * kEach;
    }
    if (barriers > 0) --barriers;
    next = begin;
  }
  // Of a block with barriers.
  void passCall() { next = begin; }

 private:
  static constexpr int64_t kEach = QRT_TICKETS / 3;
  Tickets(int64_t begin, int64_t end, int64_t barriers)
      : begin(begin), end(end), next(begin), barriers(barriers) {}
  int64_t begin, end, next;
  int64_t barriers;  // of a block, that are still to come
};

// Which barriers dispatches with several calls need besides those of the plan: between the calls, and, where
// the shared scratch may still be read for the last such dispatch, ahead of the first.
class SharedScratchUse {
 public:
  static SharedScratchUse ofProgram() { return SharedScratchUse(false); }
  // What comes before a call is not known in the block.
  static SharedScratchUse ofBlock() { return SharedScratchUse(true); }

  // Ahead of the first of `calls`. Behind the last one it may be read until the next barrier.
  bool needsBarrier(int64_t calls) {
    if (calls == 1) return false;
    return std::exchange(read, true);
  }
  void passBarrier() { read = false; }
  // Of a block: what it leaves is not known here.
  void passCall() { read = true; }

 private:
  explicit SharedScratchUse(bool read) : read(read) {}
  bool read;
};

// Of a block, those of the plan included.
int64_t countBarriers(Block& body, int64_t bucketRows) {
  int64_t barriers = 0;
  SharedScratchUse use = SharedScratchUse::ofBlock();
  for (Operation& op : body) {
    if (isa<plan::BarrierOp>(op)) {
      use.passBarrier();
      ++barriers;
    } else if (auto dispatch = dyn_cast<plan::DispatchOp>(op)) {
      const int64_t calls = countCalls(dispatch, bucketRows);
      barriers += use.needsBarrier(calls) + calls - 1;
    }
  }
  return barriers;
}

class Lowering {
 public:
  explicit Lowering(ModuleOp plan)
      : plan(plan),
        context(contextWithLlvm(plan)),
        b(context),
        ptr(LLVM::LLVMPointerType::get(context)),
        i32(b.getI32Type()),
        i64(b.getI64Type()) {}

  FailureOr<LoweredPrograms> run() {
    LoweredPrograms result;
    result.module = ModuleOp::create(plan.getLoc());
    out = *result.module;
    threadBytes = threadBytesOf(plan);
    for (auto program : plan.getOps<plan::ProgramOp>()) {
      if (failed(lowerProgram(program))) return failure();
      result.entries.push_back(stepName(program));
      ++programs;
    }
    result.kernels = std::move(kernels);
    result.stages = std::move(stages);
    result.scratch = {layouts::AlignUp(scratch.thread, plan::kAlignment) + threadBytes, scratch.shared};
    return result;
  }

 private:
  // The members' types need the dialect.
  static MLIRContext* contextWithLlvm(ModuleOp plan) {
    plan.getContext()->loadDialect<LLVM::LLVMDialect>();
    return plan.getContext();
  }

  // The argument of a specialised kernel behind the step's, the thread and how many threads there are;
  // bindings follow.
  static constexpr unsigned kTicketArg = 3;

  // Of what threads keep for themselves.
  static int64_t threadBytesOf(ModuleOp plan) {
    int64_t end = 0;
    plan.walk([&](plan::DispatchOp op) {
      for (auto ref : op.getBindings().getAsRange<plan::RefAttr>())
        if (ref.getSpace() == plan::Space::Thread) end = std::max(end, ref.getOffset() + ref.getBytes());
    });
    return layouts::AlignUp(end, plan::kAlignment);
  }

  static std::string stepName(plan::ProgramOp program) { return ("step_" + program.getSymName()).str(); }

  Value constant(int64_t v) { return LLVM::ConstantOp::create(b, loc, i64, b.getI64IntegerAttr(v)); }
  Value at(Value base, Value offset) {
    return LLVM::GEPOp::create(b, loc, ptr, b.getI8Type(), base, ValueRange{offset});
  }
  Value field(Value args, size_t offset, Type type) {
    Value address = LLVM::GEPOp::create(b, loc, ptr, b.getI8Type(), args,
                                        ArrayRef<LLVM::GEPArg>{LLVM::GEPArg(static_cast<int32_t>(offset))});
    return LLVM::LoadOp::create(b, loc, type, address);
  }

  LLVM::LLVMFuncOp declare(StringRef name, LLVM::LLVMFunctionType type) {
    if (auto func = out.lookupSymbol<LLVM::LLVMFuncOp>(name)) return func;
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToEnd(out.getBody());
    return LLVM::LLVMFuncOp::create(b, plan.getLoc(), name, type);
  }
  LLVM::LLVMFunctionType voidFunction(ArrayRef<Type> args) {
    return LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(context), args);
  }

  LogicalResult lowerProgram(plan::ProgramOp program) {
    loc = program.getLoc();
    LLVM::LLVMFuncOp step = declare(stepName(program), voidFunction({ptr, i32, i32}));
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(step.addEntryBlock(b));
    Scope scope{};
    scope.args = step.getArgument(0);
    scope.thread = LLVM::ZExtOp::create(b, loc, i64, step.getArgument(1));
    scope.threads = LLVM::ZExtOp::create(b, loc, i64, step.getArgument(2));
    scope.bucketRows = program.getRows();
    endStage(scope, -1);
    if (failed(
            lowerBody(program.getBody().front(), scope, Tickets::ofProgram(), SharedScratchUse::ofProgram())))
      return failure();
    LLVM::ReturnOp::create(b, loc, ValueRange{});
    return success();
  }

  LogicalResult lowerBody(Block& body, const Scope& scope, Tickets tickets, SharedScratchUse use) {
    const auto pass = [&] {
      lowerBarrier(scope);
      tickets.passBarrier();
    };
    for (Operation& op : body) {
      loc = op.getLoc();
      if (auto dispatch = dyn_cast<plan::DispatchOp>(op)) {
        FailureOr<KernelCalls> calls = selectKernels(dispatch, scope.bucketRows);
        if (failed(calls)) return failure();
        if (use.needsBarrier(calls->size())) pass();
        for (const KernelCall& call : *calls) {
          const bool first = &call == calls->begin();
          if (!first) pass();
          const int64_t ticket = dispatch.getReplicated() ? -1 : tickets.take();
          lowerKernel(dispatch, call, first ? plan::weightBytesOf(dispatch) : 0, scope, ticket);
        }
      } else if (isa<plan::BarrierOp>(op)) {
        use.passBarrier();
        pass();
      } else if (auto call = dyn_cast<plan::CallOp>(op)) {
        auto block = plan.lookupSymbol<plan::BlockOp>(call.getBlock());
        if (!block) return call.emitError("cpu codegen: no block @") << call.getBlock();
        const int64_t barriers = countBarriers(block.getBody().front(), scope.bucketRows);
        if (failed(lowerCall(call, block, barriers, scope))) return failure();
        if (barriers != 0) tickets.passCall();
        use.passCall();
      } else {
        return op.emitError("cpu codegen: '") << op.getName() << "' cannot stand in a program";
      }
    }
    return success();
  }

  // A function of its own, so that what it does is there once: 465 barriers in the code of the 0.8b preset
  // were 116 of its 507 KiB.
  LLVM::LLVMFuncOp once(StringRef name, ArrayRef<Type> types, function_ref<void(ValueRange)> body) {
    if (auto func = out.lookupSymbol<LLVM::LLVMFuncOp>(name)) return func;
    LLVM::LLVMFuncOp func = declare(name, voidFunction(types));
    func.setNoInline(true);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(func.addEntryBlock(b));
    body(func.getArguments());
    LLVM::ReturnOp::create(b, loc, ValueRange{});
    return func;
  }

  void lowerBarrier(const Scope& scope) {
    LLVM::LLVMFuncOp pass = once("pass_barrier", {ptr, i64}, [&](ValueRange args) {
      Value state = field(args[0], offsetof(qrt_step_args, barrier), ptr);
      LLVM::CallOp::create(b, loc, declare("qk_barrier", voidFunction({ptr, i64})),
                           ValueRange{state, args[1]});
    });
    LLVM::CallOp::create(b, loc, pass, ValueRange{scope.args, scope.threads});
    stages.push_back({programs, std::nullopt});
    endStage(scope, static_cast<int64_t>(stages.size()) - 1);
  }

  void endStage(const Scope& scope, int64_t stage) {
    LLVM::LLVMFuncOp end = once("end_stage", {ptr, i64, i64}, [&](ValueRange args) {
      LLVM::CallOp::create(b, loc, declare("qk_end_stage", voidFunction({ptr, i64, i64})), args);
    });
    LLVM::CallOp::create(b, loc, end, ValueRange{scope.args, scope.thread, constant(stage)});
  }

  LogicalResult lowerCall(plan::CallOp call, plan::BlockOp block, int64_t barriers, const Scope& scope) {
    std::string name = ("block_" + block.getSymName()).str();
    bool known = out.lookupSymbol(name) != nullptr;
    // args, thread, threads, and the layer's bases.
    LLVM::LLVMFuncOp func = declare(name, voidFunction({ptr, i64, i64, i64, i64, i64}));
    if (!known) {
      func.setNoInline(true);  // one body for all layers of this kind
      OpBuilder::InsertionGuard guard(b);
      Location saved = loc;
      b.setInsertionPointToStart(func.addEntryBlock(b));
      Scope inner{func.getArgument(0), func.getArgument(1), func.getArgument(2), func.getArgument(3),
                  func.getArgument(4), func.getArgument(5), scope.bucketRows};
      if (failed(lowerBody(block.getBody().front(), inner, Tickets::ofBlock(barriers),
                           SharedScratchUse::ofBlock())))
        return failure();
      LLVM::ReturnOp::create(b, loc, ValueRange{});
      loc = saved;
    }
    LLVM::CallOp::create(b, loc, func,
                         ValueRange{scope.args, scope.thread, scope.threads, constant(call.getWeights()),
                                    constant(call.getState()), constant(call.getKv())});
    return success();
  }

  Value sum(Value base, int64_t offset) {
    Value k = constant(offset);
    return base ? LLVM::AddOp::create(b, loc, base, k).getResult() : k;
  }

  // The value that stands for a binding: a pointer, or an offset where the address depends on the sequence.
  Value bindingValue(const plan::Ref& ref, const Scope& scope) {
    switch (ref.space) {
      case plan::Space::Weights:
        return at(field(scope.args, offsetof(qrt_step_args, weights), ptr),
                  sum(scope.weightsBase, ref.offset));
      case plan::Space::Arena:
        return at(field(scope.args, offsetof(qrt_step_args, arena), ptr), constant(ref.offset));
      case plan::Space::Logits:
        return at(field(scope.args, offsetof(qrt_step_args, logits), ptr), constant(ref.offset));
      case plan::Space::State:
        return sum(scope.stateBase, ref.offset);
      case plan::Space::KV:
        return sum(scope.kvBase, ref.offset);
      case plan::Space::Thread:  // at the end of its scratch, which kernels use from the beginning
        return at(threadScratch(scope.args, LLVM::AddOp::create(b, loc, scope.thread, constant(1))),
                  constant(ref.offset - threadBytes));
    }
    llvm_unreachable("all spaces are listed");
  }

  // weightBytes: those of the dispatch, which its first call reads.
  void lowerKernel(plan::DispatchOp op, const KernelCall& call, int64_t weightBytes, const Scope& scope,
                   int64_t ticket) {
    scratch.thread = std::max(scratch.thread, call.scratchBytes.value_or(0));
    scratch.shared = std::max(scratch.shared, call.sharedScratchBytes.value_or(0));
    SmallVector<Value> operands = {scope.args, scope.thread, scope.threads, constant(ticket)};
    SmallVector<Type> types = {ptr, i64, i64, i64};
    for (const plan::Ref& ref : call.bindings) {
      operands.push_back(bindingValue(ref, scope));
      types.push_back(operands.back().getType());
    }
    LLVM::LLVMFuncOp kernel = specialization(op, call, types);
    LLVM::CallOp::create(b, loc, kernel, operands);
    stages.push_back({programs, kernelPlaces.lookup(kernel.getName()), weightBytes});
    endStage(scope, static_cast<int64_t>(stages.size()) - 1);
  }

  // The function that runs one kernel specification: constants folded in, on shares of the work items while
  // there are any, or, replicated, on all of them. Dispatches with the same specification, in any block or
  // program, call the same function.
  LLVM::LLVMFuncOp specialization(plan::DispatchOp op, const KernelCall& call, ArrayRef<Type> types) {
    const bool replicated = op.getReplicated();
    std::string key = specKey(call, types, replicated);
    auto [it, fresh] = specs.try_emplace(key, LLVM::LLVMFuncOp());
    if (!fresh) return it->second;
    const std::string hash =
        qrt::Hex(qrt::HashOf(std::span(reinterpret_cast<const uint8_t*>(key.data()), key.size())));
    // "spec_<hash>_linear_q4_k_int8": equal ones have one name in all programs, so each is compiled once.
    std::string name = "spec_" + hash.substr(0, 16) + call.symbol.substr(2);
    LLVM::LLVMFuncOp func = declare(name, voidFunction(types));
    it->second = func;
    kernelPlaces[name] = kernels.size();
    kernels.push_back({name, specification(op, call)});
    func.setNoInline(true);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(func.addEntryBlock(b));

    Value args = func.getArgument(0), thread = func.getArgument(1);
    Value rows = rowCount(call.rows, args);
    Value items = call.items ? constant(call.items)
                             : LLVM::MulOp::create(b, loc, rows, constant(call.itemsPerRow)).getResult();
    if (replicated) {
      Value kernelArgs = memory(call.argsBytes);
      callKernel(call, kernelArgs, fieldValues(call, func, rows, constant(0), items));
      LLVM::ReturnOp::create(b, loc, ValueRange{});
      return func;
    }
    Value range = memory(16), kernelArgs = memory(call.argsBytes);
    // do { qk_share(..., round, range) or leave; kernel(range); ++round }
    Block* entry = b.getInsertionBlock();
    Block* next = b.createBlock(&func.getBody(), func.getBody().end(), {i64}, {loc});
    Block* work = b.createBlock(&func.getBody(), func.getBody().end());
    Block* done = b.createBlock(&func.getBody(), func.getBody().end());
    b.setInsertionPointToEnd(entry);
    LLVM::BrOp::create(b, loc, ValueRange{constant(0)}, next);
    b.setInsertionPointToEnd(next);
    Value round = next->getArgument(0);
    LLVM::LLVMFuncOp share =
        declare("qk_share", LLVM::LLVMFunctionType::get(i64, {ptr, i64, i64, i64, i64, i64, ptr}));
    Value more = LLVM::CallOp::create(b, loc, share,
                                      ValueRange{args, thread, func.getArgument(2),
                                                 func.getArgument(kTicketArg), items, round, range})
                     .getResult();
    Value some = LLVM::ICmpOp::create(b, loc, LLVM::ICmpPredicate::ne, more, constant(0));
    LLVM::CondBrOp::create(b, loc, some, work, ValueRange{}, done, ValueRange{});
    b.setInsertionPointToEnd(work);
    callKernel(call, kernelArgs, fieldValues(call, func, rows, field(range, 0, i64), field(range, 8, i64)));
    LLVM::BrOp::create(b, loc, ValueRange{LLVM::AddOp::create(b, loc, round, constant(1))}, next);
    b.setInsertionPointToEnd(done);
    LLVM::ReturnOp::create(b, loc, ValueRange{});
    return func;
  }

  Value rowCount(RowSource source, Value args) {
    switch (source) {
      case RowSource::One:
        return constant(1);
      case RowSource::StepRows:
        return field(args, offsetof(qrt_step_args, n_rows), i64);
      case RowSource::OutRows:
        return field(args, offsetof(qrt_step_args, n_out), i64);
    }
    llvm_unreachable("row source");
  }

  // On the stack; gone when the function that it is for is inlined.
  Value memory(int64_t bytes) {
    return LLVM::AllocaOp::create(b, loc, ptr, LLVM::LLVMArrayType::get(b.getI8Type(), bytes), constant(1),
                                  /*alignment=*/8);
  }

  // Fills the kernel's argument struct, at `args`: inlined, its fields are literals and parameters of this
  // function.
  void callKernel(const KernelCall& call, Value args, ArrayRef<Value> values) {
    for (auto [f, value] : llvm::zip_equal(call.fields, values)) {
      Value address =
          LLVM::GEPOp::create(b, loc, ptr, b.getI8Type(), args,
                              ArrayRef<LLVM::GEPArg>{LLVM::GEPArg(static_cast<int32_t>(f.offset))});
      LLVM::StoreOp::create(b, loc, value, address);
    }
    LLVM::LLVMFuncOp kernel = declare(call.symbol, voidFunction(ptr));
    // What the kernels' bitcode is compared with when it is linked.
    kernel.setPassthroughAttr(
        b.getArrayAttr(b.getStrArrayAttr({StringRef(kKernelArgsAttr), call.argsFields})));
    LLVM::CallOp::create(b, loc, kernel, args);
  }

  // Where the scratch of the calling thread begins.
  Value threadScratch(Value args, Value thread) {
    Value stride = field(args, offsetof(qrt_step_args, scratch_stride), i64);
    return at(field(args, offsetof(qrt_step_args, scratch), ptr),
              LLVM::MulOp::create(b, loc, thread, stride));
  }

  SmallVector<Value> fieldValues(const KernelCall& call, LLVM::LLVMFuncOp func, Value rows, Value begin,
                                 Value end) {
    SmallVector<Value> values;
    for (const KernelField& f : call.fields) values.push_back(fieldValue(f, func, rows, begin, end));
    return values;
  }

  Value fieldValue(const KernelField& f, LLVM::LLVMFuncOp func, Value rows, Value begin, Value end) {
    Value args = func.getArgument(0);
    switch (f.kind) {
      case KernelField::Kind::Binding:
        return func.getArgument(kTicketArg + 1 + f.integer);
      case KernelField::Kind::Null:
        return LLVM::ZeroOp::create(b, loc, ptr);
      case KernelField::Kind::Int:
        return constant(f.integer);
      case KernelField::Kind::F32:
        return LLVM::ConstantOp::create(b, loc, b.getF32Type(),
                                        b.getF32FloatAttr(static_cast<float>(f.real)));
      case KernelField::Kind::F64:
        return LLVM::ConstantOp::create(b, loc, b.getF64Type(), b.getF64FloatAttr(f.real));
      case KernelField::Kind::StepPointer:
        return field(args, f.integer, ptr);
      case KernelField::Kind::StepInt:
        return field(args, f.integer, i64);
      case KernelField::Kind::Rows:
        return rows;
      case KernelField::Kind::Begin:
        return begin;
      case KernelField::Kind::End:
        return end;
      case KernelField::Kind::Scratch:
        return threadScratch(args, func.getArgument(1));
      case KernelField::Kind::SharedScratch:
        return field(args, offsetof(qrt_step_args, shared_scratch), ptr);
    }
    llvm_unreachable("all kinds of fields are listed");
  }

  // For people: `linear {k = 64, ...} (x, w, y), rows of the step`.
  static std::string specification(plan::DispatchOp op, const KernelCall& call) {
    std::string text;
    llvm::raw_string_ostream os(text);
    os << op.getFamily() << (call.share.empty() ? "" : ".") << call.share << " {";
    llvm::interleaveComma(op.getSpec(), os, [&](NamedAttribute entry) {
      os << entry.getName().getValue() << " = ";
      entry.getValue().print(os, /*elideType=*/true);
    });
    os << "} (";
    llvm::interleaveComma(op.getRoles().getAsValueRange<StringAttr>(), os);
    os << "), ";
    switch (call.rows) {
      case RowSource::One:
        os << "one row";
        break;
      case RowSource::StepRows:
        os << "rows of the step";
        break;
      case RowSource::OutRows:
        os << "rows of logits";
        break;
    }
    if (op.getReplicated()) os << ", by every thread";
    return text;
  }

  static std::string specKey(const KernelCall& call, ArrayRef<Type> types, bool replicated) {
    std::string key = replicated ? "replicated " : "";
    llvm::raw_string_ostream os(key);
    os << call.symbol << '/' << static_cast<int>(call.rows) << '/' << call.items << '/' << call.itemsPerRow;
    for (const KernelField& f : call.fields)
      os << ',' << static_cast<int>(f.kind) << ':' << f.offset << ':' << f.integer << ':'
         << llvm::bit_cast<uint64_t>(f.real);
    for (Type type : types) os << ',' << type;
    return key;
  }

  ModuleOp plan, out;
  MLIRContext* context;
  OpBuilder b;
  Type ptr, i32, i64;
  Location loc = UnknownLoc::get(context);
  llvm::StringMap<LLVM::LLVMFuncOp> specs;
  std::vector<SpecializedKernel> kernels;
  llvm::StringMap<size_t> kernelPlaces;  // by function
  std::vector<ProgramStage> stages;
  size_t programs = 0;      // that are lowered
  ScratchBytes scratch;     // of kernels
  int64_t threadBytes = 0;  // behind it, of each thread
};

}  // namespace

FailureOr<LoweredPrograms> lowerToLlvm(ModuleOp plan) {
  return Lowering(plan).run();
}

}  // namespace qcc::cpu
