#include "codegen/gpu/lower/EmitKernels.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

#include "codegen/gpu/build/Build.h"
#include "codegen/gpu/cuda/EmitPtx.h"
#include "codegen/gpu/spirv/EmitSpirv.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"

namespace qcc::gpu {
namespace {
using namespace llvm;

Error cancelled() {
  return createStringError(std::make_error_code(std::errc::operation_canceled), "interrupted");
}

uint32_t sharedBytes(mlir::ModuleOp module) {
  uint32_t bytes = 0;
  module.walk([&](mlir::gpu::GPUFuncOp func) {
    for (mlir::BlockArgument attribution : func.getWorkgroupAttributions()) {
      auto type = mlir::cast<mlir::MemRefType>(attribution.getType());
      bytes += static_cast<uint32_t>(type.getNumElements() * type.getElementTypeBitWidth() / 8);
    }
  });
  return bytes;
}

Error writeText(StringRef folder, const Twine& name, StringRef text) {
  SmallString<128> path(folder);
  sys::path::append(path, name);
  std::error_code ec;
  raw_fd_ostream out(path, ec);
  if (!ec) {
    out << text;
    out.flush();
    ec = out.error();
  }
  if (ec) return createStringError(ec, "cannot write '" + path + "': " + ec.message());
  return Error::success();
}

class Emitter {
 public:
  Emitter(LoweredGpu& lowered, const EmitRequest& request)
      : lowered(lowered),
        request(request),
        texts(lowered.kernels.size()),
        ptx(request.profile.target == "cuda" ? lowered.kernels.size() : 0),
        errors(lowered.kernels.size()) {}

  Expected<std::string> run() {
    const size_t count = lowered.kernels.size();
    std::vector<std::thread> pool;
    for (unsigned t = 1; t < std::min<size_t>(request.threads, count); ++t)
      pool.emplace_back([this] { work(); });
    work();
    for (std::thread& thread : pool) thread.join();
    if (stop) return cancelled();
    // The first in the order of the kernels, whatever thread met one first.
    for (const Failure& failure : errors)
      if (!failure.message.empty())
        return createStringError(failure.code, "gpu codegen: target " + Twine(request.profile.target) +
                                                   ", profile " + request.profile.profile.name + ": " +
                                                   failure.message);
    if (isCuda())
      if (Error e = joinModules()) return e;
    std::string all;
    for (const std::string& text : texts) all += text;
    return all;
  }

 private:
  void work() {
    mlir::DialectRegistry registry;
    registerKernelDialects(registry);
    if (isCuda())
      registerPtxDialects(registry);
    else
      registerSpirvDialects(registry);
    // One context for each thread: that is what lets them work side by side.
    mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
    for (size_t i; !stop && (i = next++) < lowered.kernels.size();) {
      if (Error e = emit(context, i))
        handleAllErrors(std::move(e), [&](const ErrorInfoBase& info) {
          errors[i] = {info.convertToErrorCode(), info.message()};
        });
      std::lock_guard lock(mutex);
      if (request.progress && !request.progress(++done, lowered.kernels.size())) stop = true;
    }
  }

  Error emit(mlir::MLIRContext& context, size_t i) {
    KernelCode& code = lowered.code.kernels[i];
    if (!code.spirv.empty()) return dumpSpirv(code);  // the user's own
    const Launch& launch = lowered.kernels[i];
    auto module = buildKernel(context, request.profile.profile, launch, code.entry);
    if (!module) return module.takeError();
    code.shared_bytes = sharedBytes(**module);
    std::string text;
    if (request.wantIr || !request.dumpDir.empty()) {
      raw_string_ostream stream(text);
      stream << "// kernel " << code.name << "\n";
      (*module)->print(stream);
      if (request.wantIr) texts[i] = text;
    }
    if (!request.dumpDir.empty())
      if (Error e = writeText(request.dumpDir, code.entry + ".mlir", text)) return e;
    if (isCuda()) return emitModule(context, i);
    auto words = emitSpirv(**module, request.profile.profile, launch);
    if (!words) return words.takeError();
    code.spirv = std::move(*words);
    return dumpSpirv(code);
  }

  Error dumpSpirv(const KernelCode& code) const {
    if (request.dumpDir.empty()) return Error::success();
    // Kernels of the user's own are all called "main".
    const std::string name = code.source == "gpu" ? code.entry : code.name;
    return writeText(request.dumpDir, name + ".spvasm", disassembleSpirv(code.spirv));
  }

  bool isCuda() const { return request.profile.target == "cuda"; }

  // A kernel's own PTX module. Each is made apart, so that threads share the work and its text does not
  // depend on them.
  Error emitModule(mlir::MLIRContext& context, size_t i) {
    const PtxKernel kernel = {lowered.code.kernels[i].entry, &lowered.kernels[i]};
    auto text = emitPtx(context, request.profile.profile, kernel, request.profile.chip);
    if (!text) return text.takeError();
    ptx[i] = std::move(*text);
    return Error::success();
  }

  // One module of all kernels, which the driver compiles at once: the modules without their headers, which
  // are the same, but for the first one's.
  Error joinModules() {
    constexpr StringLiteral kHeaderEnd(".address_size 64\n");
    for (size_t i = 0; i < ptx.size(); ++i) {
      const size_t at = ptx[i].find(kHeaderEnd);
      if (at == std::string::npos)
        return createStringError("PTX: kernel '" + lowered.code.kernels[i].name + "' has no header");
      lowered.code.ptx.append(ptx[i], i == 0 ? 0 : at + kHeaderEnd.size());
    }
    if (request.dumpDir.empty()) return Error::success();
    return writeText(request.dumpDir, "kernels.ptx", lowered.code.ptx);
  }

  LoweredGpu& lowered;
  const EmitRequest& request;
  struct Failure {
    std::error_code code;
    std::string message;
  };
  std::vector<std::string> texts;
  std::vector<std::string> ptx;  // of each kernel; CUDA only
  std::vector<Failure> errors;
  std::atomic<size_t> next{0};
  std::atomic<bool> stop{false};
  std::mutex mutex;
  size_t done = 0;
};

}  // namespace

Expected<std::string> emitKernels(LoweredGpu& lowered, const EmitRequest& request) {
  return Emitter(lowered, request).run();
}

}  // namespace qcc::gpu
