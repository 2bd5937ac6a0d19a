#include "runtime/device/cuda/cuda_module.h"

#include <span>
#include <vector>

namespace qrt {
namespace {

using cuda::CUresult;
using cuda::kSuccess;

// One compilation. Owns what the driver makes until it is destroyed.
class Linking {
 public:
  explicit Linking(const cuda::Functions& call) : call_(call) {}
  ~Linking() {
    if (state_ != nullptr) call_.LinkDestroy(state_);
  }
  Linking(const Linking&) = delete;
  Linking& operator=(const Linking&) = delete;

  CUresult Run(std::string_view ptx, std::span<const uint8_t>* cubin) {
    int names[] = {cuda::kJitErrorLog, cuda::kJitErrorLogBytes};
    void* values[] = {log_, reinterpret_cast<void*>(sizeof log_)};
    CUresult result = call_.LinkCreate(2, names, values, &state_);
    if (result != kSuccess) {
      state_ = nullptr;
      return result;
    }
    result = call_.LinkAddData(state_, cuda::kJitInputPtx, const_cast<char*>(ptx.data()), ptx.size() + 1,
                               "artifact", 0, nullptr, nullptr);
    void* bytes = nullptr;
    size_t size = 0;
    if (result == kSuccess) result = call_.LinkComplete(state_, &bytes, &size);
    if (result == kSuccess) *cubin = {static_cast<const uint8_t*>(bytes), size};
    return result;
  }
  // What the driver said of errors.
  std::string log() {
    log_[sizeof log_ - 1] = '\0';
    return log_;
  }

 private:
  const cuda::Functions& call_;
  char log_[4096] = "";  // the driver writes into it while the state lives
  cuda::CUlinkState state_ = nullptr;
};

}  // namespace

KernelFile CubinFile(const std::string& folder, const CudaDeviceInfo& device, const Hash128& code_hash) {
  const std::string text = "cubin 1\n" + device.driver + "\n" + std::to_string(device.capability_major) +
                           "." + std::to_string(device.capability_minor) + "\n" + Hex(code_hash) + "\n";
  return KernelFile(folder, ".cubin", HashOf({reinterpret_cast<const uint8_t*>(text.data()), text.size()}));
}

Result<cuda::CUmodule> LoadCudaModule(const cuda::Driver& driver, std::string_view ptx,
                                      const KernelFile& file,
                                      const std::function<void(bool warning, std::string_view line)>& log) {
  const auto warn = [&log](const std::string& text) {
    if (log && !text.empty()) log(true, text);
  };
  cuda::CUmodule module = nullptr;
  std::string problem;
  const std::vector<uint8_t> kept = file.Load(&problem);
  warn(problem);
  if (!kept.empty()) {
    const CUresult result = driver.call.ModuleLoadDataEx(&module, kept.data(), 0, nullptr, nullptr);
    if (result == kSuccess) return module;
    if (cuda::Driver::Lost(result) || result == cuda::kOutOfMemory) {
      return driver.Error(result, "loading the kernels");
    }
    warn(file.path() + " is not used: the driver refuses it: " + driver.Text(result));
  }
  Linking linking(driver.call);
  std::span<const uint8_t> cubin;
  CUresult result = linking.Run(ptx, &cubin);
  if (result == kSuccess) {
    result = driver.call.ModuleLoadDataEx(&module, cubin.data(), 0, nullptr, nullptr);
  }
  if (result != kSuccess) {
    const std::string said = linking.log();
    return driver.Error(result, said.empty() ? "compiling the kernels" : "compiling the kernels: " + said);
  }
  if (const std::string failed = file.Save(cubin); !failed.empty()) {
    warn("compiled kernels are not kept: " + failed);
  }
  return module;
}

}  // namespace qrt
