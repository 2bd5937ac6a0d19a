#include "codegen/gpu/lower/EmitKernels.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <system_error>
#include <thread>

#include "codegen/gpu/build/Build.h"
#include "codegen/gpu/lower/Backends.h"
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
    out.clear_error();  // else its end would be the program's
  }
  if (ec) return createStringError(ec, "cannot write '" + path + "': " + ec.message());
  return Error::success();
}

class Emitter {
 public:
  Emitter(LoweredGpu& lowered, const EmitRequest& request, const Backend& backend)
      : lowered(lowered),
        request(request),
        backend(backend),
        texts(lowered.kernels.size()),
        parts(backend.join ? lowered.kernels.size() : 0),
        errors(lowered.kernels.size()) {}

  Expected<std::string> run() {
    const size_t count = lowered.kernels.size();
    std::vector<std::thread> pool;
    try {
      for (unsigned t = 1; t < std::min<size_t>(request.threads, count); ++t)
        pool.emplace_back([this] { work(); });
    } catch (const std::system_error&) {
      // No more threads: those that there are do the work.
    }
    work();
    for (std::thread& thread : pool) thread.join();
    if (stop) return cancelled();
    // The first in the order of the kernels, whatever thread met one first.
    for (const Failure& failure : errors)
      if (!failure.message.empty())
        return createStringError(failure.code, "gpu codegen: target " + Twine(request.profile.target) +
                                                   ", profile " + request.profile.profile.name + ": " +
                                                   failure.message);
    if (backend.join)
      if (Error e = joinModules()) return e;
    std::string all;
    for (const std::string& text : texts) all += text;
    return all;
  }

 private:
  void work() {
    mlir::DialectRegistry registry;
    registerKernelDialects(registry);
    backend.registerDialects(registry);
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
    if (!code.spirv.empty()) return dumpWords(code);  // the user's own
    const Launch& launch = lowered.kernels[i];
    const bool kept = request.find && request.keep && !request.wantIr && request.dumpDir.empty();
    // A name says all that the code depends on (launch.h).
    const std::string key = kept ? request.profile.target + " " + request.profile.profile.name + " " +
                                       code.entry + " " + code.name
                                 : "";
    if (kept && take(request.find(key), i)) return Error::success();
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
    auto binary = backend.emit({context, **module, launch, code.entry, request.profile});
    if (!binary) return binary.takeError();
    if (kept) request.keep(key, bytesOf(code.shared_bytes, *binary));
    if (backend.join) {
      parts[i] = std::move(binary->text);
      return Error::success();
    }
    code.spirv = std::move(binary->words);
    return dumpWords(code);
  }

  // Bytes of workgroup memory, then the kernel's words or text.
  std::vector<uint8_t> bytesOf(uint32_t sharedBytes, const KernelBinary& binary) const {
    const uint8_t* code = backend.join ? reinterpret_cast<const uint8_t*>(binary.text.data())
                                       : reinterpret_cast<const uint8_t*>(binary.words.data());
    const size_t size = backend.join ? binary.text.size() : binary.words.size() * sizeof(uint32_t);
    std::vector<uint8_t> bytes(sizeof sharedBytes);
    std::memcpy(bytes.data(), &sharedBytes, sizeof sharedBytes);
    bytes.insert(bytes.end(), code, code + size);
    return bytes;
  }
  bool take(const std::vector<uint8_t>& bytes, size_t i) {
    KernelCode& code = lowered.code.kernels[i];
    if (bytes.size() <= sizeof code.shared_bytes || (!backend.join && bytes.size() % sizeof(uint32_t) != 0))
      return false;
    std::memcpy(&code.shared_bytes, bytes.data(), sizeof code.shared_bytes);
    const uint8_t* kernel = bytes.data() + sizeof code.shared_bytes;
    const size_t size = bytes.size() - sizeof code.shared_bytes;
    if (backend.join) {
      parts[i].assign(reinterpret_cast<const char*>(kernel), size);
    } else {
      code.spirv.resize(size / sizeof(uint32_t));
      std::memcpy(code.spirv.data(), kernel, size);
    }
    return true;
  }

  Error dumpWords(const KernelCode& code) const {
    if (request.dumpDir.empty()) return Error::success();
    // Kernels of the user's own are all called "main".
    const std::string name = code.source == "gpu" ? code.entry : code.name;
    return writeText(request.dumpDir, name + backend.extension, backend.disassemble(code.spirv));
  }

  Error joinModules() {
    std::vector<std::string> names;
    for (const KernelCode& code : lowered.code.kernels) names.push_back(code.name);
    auto joined = backend.join(parts, names);
    if (!joined) return joined.takeError();
    lowered.code.ptx = std::move(*joined);
    if (request.dumpDir.empty()) return Error::success();
    return writeText(request.dumpDir, backend.joinedFile, lowered.code.ptx);
  }

  LoweredGpu& lowered;
  const EmitRequest& request;
  const Backend& backend;
  struct Failure {
    std::error_code code;
    std::string message;
  };
  std::vector<std::string> texts;
  std::vector<std::string> parts;  // of each kernel, where they are joined
  std::vector<Failure> errors;
  std::atomic<size_t> next{0};
  std::atomic<bool> stop{false};
  std::mutex mutex;
  size_t done = 0;
};

}  // namespace

Expected<std::string> emitKernels(LoweredGpu& lowered, const EmitRequest& request) {
  const Backend* backend = findBackend(request.profile.target);
  if (!backend) return createStringError("gpu codegen: no back end for target " + request.profile.target);
  return Emitter(lowered, request, *backend).run();
}

}  // namespace qcc::gpu
