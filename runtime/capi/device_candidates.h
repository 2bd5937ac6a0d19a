// One kind of device each: what there is, what an artifact's code needs of it, how to make one.
#ifndef RUNTIME_CAPI_DEVICE_CANDIDATES_H_
#define RUNTIME_CAPI_DEVICE_CANDIDATES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/artifact/artifact.h"
#include "runtime/base/status.h"
#include "runtime/capi/handles.h"
#include "runtime/device/device.h"
#include "runtime/include/qrt/qrt.h"

namespace qrt::capi {

// What an engine was asked to be, and where it may speak.
struct Request {
  const Artifact& artifact;
  const qrt_engine_options& options;
  const Services& services;

  std::string_view variant_name() const { return options.cpu != nullptr ? options.cpu : ""; }
};

// A device that runs one of the artifact's code variants; not made yet.
struct Candidate {
  size_t variant = 0;
  bool software = false;                          // a GPU that is really a CPU
  std::function<Status(size_t variant)> why_not;  // what a code variant lacks
  std::function<Result<std::unique_ptr<Device>>()> make;
};

// `index` of a GPU; -1: the best. Errors: device unsupported, device failed; invalid argument (no variant of
// that name).
Result<Candidate> FindCpu(const Request& request);
Result<Candidate> FindVulkan(const Request& request, int index);
Result<Candidate> FindCuda(const Request& request, int index);

// For qrt_devices_list. Where there is no driver: one entry that says so.
qrt_device_info DescribeCpu();
std::vector<qrt_device_info> ListVulkan();
std::vector<qrt_device_info> ListCuda();

// Empty: some device runs the code variant called so; else what is missing.
std::string WhyNotVulkan(const Artifact& artifact, const std::string& isa);
std::string WhyNotCuda(const Artifact& artifact, const std::string& isa);

// What the options of both kinds of GPU are made from.
std::function<bool(uint64_t, uint64_t)> ProgressOf(const qrt_engine_options& options);
std::function<void(bool warning, std::string_view line)> LogOf(const Services& services);
double DispatchMsOf(const qrt_engine_options& options);
qrt_device_info Missing(const std::string& kind, const std::string& why);
std::string Megabytes(uint64_t bytes);

}  // namespace qrt::capi

#endif  // RUNTIME_CAPI_DEVICE_CANDIDATES_H_
