#include "runtime/capi/devices.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "runtime/base/cpu_features.h"
#include "runtime/capi/device_candidates.h"

namespace qrt::capi {
namespace {

bool HoldsCodeFor(const Manifest& manifest, std::string_view target) {
  return std::any_of(manifest.code.begin(), manifest.code.end(),
                     [&](const CodeInfo& code) { return code.target == target; });
}

// The best that there is. Code that the artifact lacks is not looked for: opening a driver takes time.
Result<Candidate> FindAny(const Request& request) {
  const Manifest& manifest = request.artifact.manifest();
  std::string reasons;
  Status only;
  const auto failed = [&](const Status& status) {
    reasons += (reasons.empty() ? "" : "; ") + status.message();
    only = status;
  };
  const auto named = [&](const CodeInfo& code) {
    return request.variant_name().empty() || request.variant_name() == code.isa;
  };
  const auto wanted = [&](std::string_view target) {
    return std::any_of(manifest.code.begin(), manifest.code.end(),
                       [&](const CodeInfo& code) { return code.target == target && named(code); });
  };
  if (wanted("cuda")) {
    Result<Candidate> cuda = FindCuda(request, -1);
    if (cuda.ok()) return cuda;
    failed(cuda.status());
  }
  std::optional<Candidate> software;
  if (wanted("vulkan")) {
    Result<Candidate> vulkan = FindVulkan(request, -1);
    if (vulkan.ok() && !vulkan->software) return vulkan;
    if (vulkan.ok()) {
      software = std::move(*vulkan);
    } else {
      failed(vulkan.status());
    }
  }
  if (wanted("cpu")) {
    Result<Candidate> cpu = FindCpu(request);
    if (cpu.ok()) return cpu;
    failed(cpu.status());
  }
  if (software) return std::move(*software);
  if (reasons.empty())
    return FindCpu(request).status();  // no code that this release knows, or none of that name
  if (reasons == only.message()) return only;
  return Status(Code::kDeviceUnsupported, 5009, "no device here runs the artifact: " + reasons, "",
                "qrun devices MODEL.qbin lists what there is");
}

Result<Candidate> Find(const Request& request, const DeviceWish& wish) {
  if (wish.kind == "cpu") return FindCpu(request);
  if (wish.kind == "vulkan") return FindVulkan(request, wish.index);
  if (wish.kind == "cuda") return FindCuda(request, wish.index);
  if (wish.kind.empty() && HoldsCodeFor(request.artifact.manifest(), "cpu")) return FindCpu(request);
  return FindAny(request);
}

void LogChoice(const Request& request, const Candidate& chosen, const Device& device) {
  if (!request.services.log) return;
  const Manifest& manifest = request.artifact.manifest();
  for (size_t i = 0; i < chosen.variant; ++i) {
    if (manifest.code[i].target != manifest.code[chosen.variant].target) continue;
    const Status why = chosen.why_not(i);
    if (!why.ok()) {
      Log(request.services, QRT_LOG_INFO, "code " + manifest.code[i].isa + " left out: " + why.message());
    }
  }
  Log(request.services, QRT_LOG_INFO,
      "device " + device.name() + ", code " + device.variant() + ", " + std::to_string(device.threads()) +
          " threads, " + std::to_string(device.scratch_bytes()) + " bytes of scratch, " +
          (device.device_weight_bytes() == 0
               ? std::string("weights read where the file is mapped")
               : std::to_string(device.device_weight_bytes()) + " bytes of weights copied"));
}

}  // namespace

Result<DeviceWish> ParseDevice(std::string_view text) {
  DeviceWish wish;
  const size_t colon = text.find(':');
  wish.kind = text.substr(0, colon);
  const bool gpu = wish.kind == "vulkan" || wish.kind == "cuda";
  bool good = gpu || ((text.empty() || text == "cpu" || text == "auto") && colon == std::string_view::npos);
  if (gpu && colon != std::string_view::npos) {
    const std::string_view number = text.substr(colon + 1);
    const auto parsed = std::from_chars(number.data(), number.data() + number.size(), wish.index);
    good = parsed.ec == std::errc() && parsed.ptr == number.data() + number.size() && wish.index >= 0;
  }
  if (good) return wish;
  return Status(Code::kInvalidArgument, 5008, "there is no device \"" + std::string(text) + "\"", "",
                "expected cpu, vulkan, vulkan:N, cuda, cuda:N or auto; qrun devices lists them");
}

Result<ChosenDevice> MakeDevice(const Artifact& artifact, const qrt_engine_options& options,
                                const Services& services) {
  if (std::isnan(options.max_dispatch_ms)) {
    return Status(Code::kInvalidArgument, 5305, "max_dispatch_ms is not a number");
  }
  Result<DeviceWish> wish = ParseDevice(options.device != nullptr ? options.device : "");
  if (!wish.ok()) return wish.status();
  const Request request = {artifact, options, services};
  Result<Candidate> candidate = Find(request, *wish);
  if (!candidate.ok()) return candidate.status();
  Result<std::unique_ptr<Device>> device = candidate->make();
  if (!device.ok()) return device.status();
  LogChoice(request, *candidate, **device);
  return ChosenDevice{std::move(*device), candidate->variant};
}

std::vector<qrt_device_info> ListDevices() {
  std::vector<qrt_device_info> devices = {DescribeCpu()};
  for (const qrt_device_info& device : ListCuda()) devices.push_back(device);
  for (const qrt_device_info& device : ListVulkan()) devices.push_back(device);
  return devices;
}

std::string WhyUnsupported(const Artifact& artifact, size_t variant) {
  const CodeInfo& code = artifact.manifest().code[variant];
  if (code.target == "vulkan") return WhyNotVulkan(artifact, code.isa);
  if (code.target == "cuda") return WhyNotCuda(artifact, code.isa);
  if (code.target != "cpu") return "a release of qrt that knows target " + code.target;
  std::string missing;
  for (const std::string& name : CpuFeatures::Detect().Missing(code.features)) {
    missing += (missing.empty() ? "" : ", ") + name;
  }
  return missing;
}

}  // namespace qrt::capi
