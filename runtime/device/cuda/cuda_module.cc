#include "runtime/device/cuda/cuda_module.h"

#include <string>

namespace qrt {

Result<cuda::CUmodule> LoadCudaModule(const cuda::Driver& driver, std::string_view ptx) {
  char said[4096] = "";
  int options[] = {cuda::kJitErrorLog, cuda::kJitErrorLogBytes};
  void* values[] = {said, reinterpret_cast<void*>(sizeof said)};
  cuda::CUmodule module = nullptr;
  const cuda::CUresult result =
      driver.call.ModuleLoadDataEx(&module, ptx.data(), std::size(options), options, values);
  if (result == cuda::kSuccess) return module;
  said[sizeof said - 1] = '\0';
  const std::string what = "compiling the kernels";
  return driver.Error(result, *said == '\0' ? what : what + ": " + said);
}

}  // namespace qrt
