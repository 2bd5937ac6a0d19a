#include "codegen/cpu/lower/EmitBlob.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

#include "codegen/cpu/lower/CompilePiece.h"
#include "codegen/cpu/lower/LinkFlat.h"
#include "codegen/cpu/lower/SplitProgram.h"
#include "llvm/ADT/SmallVectorExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "runtime/abi/program.h"
#include "runtime/base/hash.h"

namespace qcc::cpu {
namespace {
using namespace llvm;

Error stageError(const Twine& what) {
  return createStringError(inconvertibleErrorCode(), "cpu codegen: " + what);
}

// What is left of a step's stack for compiled code.
constexpr uint64_t kCodeStack = QRT_STEP_STACK_BYTES - QRT_STEP_CALLBACK_STACK_BYTES;

BlobHeader headerOf(const BlobRequest& request) {
  return {request.entries, request.scratch, request.stages};
}

// A piece at one level.
struct Job {
  const Piece* piece;
  const IsaInfo* isa;
  CompiledPiece compiled;
  std::string error;
  std::error_code cause = inconvertibleErrorCode();  // of the error
};

std::span<const uint8_t> bytesOf(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

class Emission {
 public:
  Emission(const BlobRequest& request, std::vector<Piece> pieces)
      : request(request), pieces(std::move(pieces)) {
    for (const Piece& piece : this->pieces) names.insert(piece.name);
    for (Isa isa : request.isas)
      for (const Piece& piece : this->pieces) jobs.push_back({&piece, &isa_info(isa), {}, {}});
  }

  Expected<std::vector<Blob>> run(unsigned threads) {
    if (Error e = makeDumpFolders()) return e;
    prepareCodeGenerator();
    compileAll(threads);
    if (interrupted())
      return createStringError(std::make_error_code(std::errc::operation_canceled), "interrupted");
    std::vector<Blob> blobs;
    for (size_t first = 0; first < jobs.size(); first += pieces.size()) {
      auto blob = link(ArrayRef(jobs).slice(first, pieces.size()));
      if (!blob) return blob.takeError();
      blobs.push_back(std::move(*blob));
    }
    return blobs;
  }

 private:
  bool interrupted() const { return request.interrupted && request.interrupted(); }

  Error makeDumpFolders() const {
    if (request.dumpDir.empty()) return Error::success();
    for (Isa isa : request.isas) {
      SmallString<128> path(request.dumpDir);
      sys::path::append(path, StringRef(isa_info(isa).name));
      if (std::error_code ec = sys::fs::create_directories(path))
        return createStringError(ec, "cannot make '" + path + "': " + ec.message());
    }
    return Error::success();
  }

  void compileAll(unsigned threads) {
    std::atomic<size_t> next{0};
    std::mutex said;
    size_t done = 0;
    auto work = [&] {
      for (size_t i; (i = next++) < jobs.size();) {
        handleAllErrors(compile(jobs[i]), [&](const ErrorInfoBase& info) {
          jobs[i].error = info.message();
          jobs[i].cause = info.convertToErrorCode();
        });
        if (!request.progress) continue;
        std::lock_guard lock(said);
        request.progress(++done, jobs.size());
      }
    };
    std::vector<std::thread> pool;
    try {
      for (unsigned t = 1; t < std::min<size_t>(threads, jobs.size()); ++t) pool.emplace_back(work);
    } catch (const std::system_error&) {
      // No more threads: those that there are do the work.
    }
    work();
    for (std::thread& thread : pool) thread.join();
  }

  Error compile(Job& job) const {
    std::string dumpPath;
    if (!request.dumpDir.empty()) {
      SmallString<128> path(request.dumpDir);
      sys::path::append(path, StringRef(job.isa->name), job.piece->name);
      dumpPath = path.str();
    }
    const bool kept = request.find && request.keep && dumpPath.empty();
    const std::string key = kept ? keyOf(job) : "";
    if (kept) {
      if (auto found = pieceFromBytes(request.find(key))) {
        job.compiled = std::move(*found);
        return Error::success();
      }
    }
    auto compiled = compilePiece({*job.piece, *job.isa, names, dumpPath, request.interrupted});
    if (!compiled) return compiled.takeError();
    if (kept && !interrupted()) request.keep(key, pieceBytes(*compiled));
    job.compiled = std::move(*compiled);
    return Error::success();
  }

  std::string keyOf(const Job& job) const {
    qrt::Hasher hasher;
    hasher.Update(bytesOf({job.piece->bitcode.data(), job.piece->bitcode.size()}));
    for (std::string_view text : {job.isa->name, job.isa->llvm_cpu, job.isa->llvm_features}) {
      hasher.Update(bytesOf(text));
      hasher.Update(bytesOf(std::string_view("", 1)));
    }
    hasher.Update(qrt::HashOf(bytesOf(kernel_bitcode(job.isa->id))));
    return qrt::Hex(hasher.Finish());
  }

  // The pieces of one level.
  Expected<Blob> link(ArrayRef<Job> level) const {
    const StringRef isa(level.front().isa->name);
    for (const Job& job : level)
      if (!job.error.empty()) return createStringError(job.cause, "cpu codegen: " + isa + ": " + job.error);
    if (Error e = checkStack(level)) return stageError(isa + ": " + toString(std::move(e)));
    auto header = compileHeader(headerOf(request), *level.front().isa);
    if (!header) return header.takeError();
    SmallVector<StringRef> objects = {StringRef(header->data(), header->size())};
    for (const Job& job : level)
      objects.push_back(StringRef(job.compiled.object.data(), job.compiled.object.size()));
    auto bytes = linkFlat(objects);
    if (!bytes) return bytes.takeError();
    auto functions = describe(level);
    if (!functions) return functions.takeError();
    return Blob{std::move(*bytes), std::move(*functions)};
  }

  Expected<std::vector<BlobFunction>> describe(ArrayRef<Job> level) const {
    StringMap<size_t> places;
    std::vector<BlobFunction> functions;
    for (const Job& job : level) {
      Expected<uint64_t> bytes = codeBytes(job.compiled);
      if (!bytes) return bytes.takeError();
      places[job.piece->name] = functions.size();
      functions.push_back({job.piece->name, *bytes, {}});
    }
    for (auto [entry, name] : llvm::enumerate(request.entries)) {
      SmallVector<size_t> next = {places.lookup(name)};
      std::vector<bool> reached(functions.size());
      while (!next.empty()) {
        const size_t at = next.pop_back_val();
        if (reached[at]) continue;
        reached[at] = true;
        functions[at].entries.push_back(static_cast<uint32_t>(entry));
        for (const std::string& call : level[at].compiled.calls) next.push_back(places.lookup(call));
      }
    }
    return functions;
  }

  // Of all chains of calls the deepest, through the pieces.
  static Expected<uint64_t> stackOf(StringRef name, const StringMap<const CompiledPiece*>& compiled,
                                    StringMap<uint64_t>& known) {
    constexpr uint64_t kUnderWay = ~uint64_t{0};
    auto [it, fresh] = known.try_emplace(name, kUnderWay);
    if (!fresh && it->second == kUnderWay)
      return createStringError(inconvertibleErrorCode(), "'" + name + "' calls itself");
    if (!fresh) return it->second;
    const CompiledPiece& piece = *compiled.lookup(name);
    uint64_t below = 0;
    for (const std::string& call : piece.calls) {
      Expected<uint64_t> bytes = stackOf(call, compiled, known);
      if (!bytes) return bytes.takeError();
      below = std::max(below, *bytes);
    }
    return known[name] = piece.stack + below;
  }

  Error checkStack(ArrayRef<Job> level) const {
    StringMap<const CompiledPiece*> compiled;
    for (const Job& job : level) compiled[job.piece->name] = &job.compiled;
    StringMap<uint64_t> known;
    for (const std::string& name : request.entries) {
      Expected<uint64_t> bytes = stackOf(name, compiled, known);
      if (!bytes) return bytes.takeError();
      if (*bytes <= kCodeStack) continue;
      const Job& largest = *std::max_element(level.begin(), level.end(), [](const Job& a, const Job& b) {
        return a.compiled.frame < b.compiled.frame;
      });
      return createStringError(inconvertibleErrorCode(),
                               "'" + Twine(name) + "' takes " + Twine(*bytes) + " bytes of stack, at most " +
                                   Twine(kCodeStack) + " are allowed; the largest frame is that of '" +
                                   largest.compiled.frameOf + "', " + Twine(largest.compiled.frame) +
                                   " bytes: large arrays belong in the thread's scratch");
    }
    return Error::success();
  }

  const BlobRequest& request;
  const std::vector<Piece> pieces;
  StringSet<> names;      // of the pieces' functions
  std::vector<Job> jobs;  // level by level
};

}  // namespace

Expected<std::vector<Blob>> emitBlobs(const BlobRequest& request, unsigned threads) {
  const ScratchBytes& scratch = request.scratch;
  if (scratch.thread > int64_t{QRT_MAX_THREAD_SCRATCH})
    return stageError("kernels need " + Twine(scratch.thread) + " bytes of scratch a thread, at most " +
                      Twine(QRT_MAX_THREAD_SCRATCH) + " are allowed");
  if (scratch.shared > int64_t{QRT_MAX_SHARED_SCRATCH})
    return stageError("kernels need " + Twine(scratch.shared) + " bytes of shared scratch, at most " +
                      Twine(QRT_MAX_SHARED_SCRATCH) + " are allowed");
  if (request.stages > int64_t{QRT_MAX_STAGES})
    return stageError("the programs have " + Twine(request.stages) + " stages, at most " +
                      Twine(QRT_MAX_STAGES) + " are allowed");
  mlir::ModuleOp source = request.module;
  mlir::registerBuiltinDialectTranslation(*source.getContext());
  mlir::registerLLVMDialectTranslation(*source.getContext());
  LLVMContext context;
  std::unique_ptr<Module> program = mlir::translateModuleToLLVMIR(source, context, "program");
  if (!program) return stageError("the llvm dialect module does not translate");
  for (const std::string& name : request.entries) {
    const Function* step = program->getFunction(name);
    if (!step || step->isDeclaration()) return stageError("no step function '" + name + "'");
  }
  for (Isa isa : request.isas)
    if (Error e = checkKernels(*program, isa_info(isa)))
      return stageError(StringRef(isa_info(isa).name) + ": " + toString(std::move(e)));
  return Emission(request, splitProgram(*program, request.entries)).run(threads);
}

}  // namespace qcc::cpu
