// One kind of device each: what there is, what an artifact's code needs of it, how to make one.
#ifndef RUNTIME_CAPI_DEVICE_CANDIDATES_H_
#define RUNTIME_CAPI_DEVICE_CANDIDATES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/artifact/artifact.h"
#include "runtime/base/status.h"
#include "runtime/capi/handles.h"
#include "runtime/device/cpu/thread_pool.h"
#include "runtime/device/device.h"
#include "runtime/include/qrt/qrt.h"

namespace qrt::capi {

// What an engine was asked to be, and where it may speak.
struct Request {
  const Artifact& artifact;
  const qrt_engine_options& options;
  const Services& services;
  // The threads of the engine's CPU devices, which run one after the other; the first that needs them makes
  // them.
  std::shared_ptr<Workers>* workers;

  std::string_view variant_name() const { return options.cpu != nullptr ? options.cpu : ""; }
};

// A device that runs one of the artifact's code variants; not made yet.
struct Candidate {
  size_t variant = 0;
  bool software = false;                          // a GPU that is really a CPU
  std::function<Status(size_t variant)> why_not;  // what a code variant lacks
  std::function<Result<std::unique_ptr<Device>>()> make;
};

// One kind of device.
struct Driver {
  std::string_view kind;  // the target of its code, and what --device calls it
  bool accelerator;       // its devices have numbers; else the CPU that this process runs on
  // `index` of an accelerator's device; -1: the best. Errors: device unsupported, device failed; invalid
  // argument (no variant of that name).
  Result<Candidate> (*find)(const Request& request, int index);
  // For qrt_devices_list. Where there is no driver: one entry that says so.
  std::vector<qrt_device_info> (*list)();
  // Empty: some device runs this code of the artifact; else what is missing.
  std::string (*why_not)(const Artifact& artifact, const CodeInfo& code);
};

// All of runtime/artifact/targets.def, in its order.
std::span<const Driver> Drivers();
// Null when there is none of that kind.
const Driver* FindDriver(std::string_view kind);

#define QRT_TARGET(name, Name, accelerator)                        \
  Result<Candidate> Find##Name(const Request& request, int index); \
  std::vector<qrt_device_info> List##Name();                       \
  std::string WhyNot##Name(const Artifact& artifact, const CodeInfo& code);
#include "runtime/artifact/targets.def"

// What the options of both kinds of GPU are made from.
std::function<bool(uint64_t, uint64_t)> ProgressOf(const qrt_engine_options& options);
std::function<void(bool warning, std::string_view line)> LogOf(const Services& services);
// The folder for compiled kernels, ready to use; empty: none. A cache that cannot be is no reason to fail.
std::string KernelFolderOf(const Request& request);
double DispatchMsOf(const qrt_engine_options& options);
qrt_device_info Missing(const std::string& kind, const std::string& why);
std::string Megabytes(uint64_t bytes);

}  // namespace qrt::capi

#endif  // RUNTIME_CAPI_DEVICE_CANDIDATES_H_
