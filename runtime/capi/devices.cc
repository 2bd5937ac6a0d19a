#include "runtime/capi/devices.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <utility>

#include "runtime/base/cpu_features.h"
#include "runtime/capi/kernel_cache.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/device/cpu/thread_pool.h"
#include "runtime/device/cpu/topology.h"
#ifdef QRT_WITH_CUDA
#include "runtime/device/cuda/cuda_device.h"
#endif
#ifdef QRT_WITH_VULKAN
#include "runtime/device/vulkan/vulkan_device.h"
#endif

namespace qrt::capi {
namespace {

constexpr double kUsualDispatchMs = 200;

// The embedder's threads.
class InjectedWorkers final : public Workers {
 public:
  InjectedWorkers(const qrt_thread_pool& pool, uint32_t threads) : pool_(pool), threads_(threads) {}
  uint32_t threads() const override { return threads_; }
  bool Run(PoolTask task, void* arg) override { return pool_.run(pool_.ctx, threads_, task, arg) == 0; }

 private:
  const qrt_thread_pool pool_;
  const uint32_t threads_;
};

Result<std::unique_ptr<Workers>> MakeWorkers(const qrt_engine_options& options) {
  uint32_t threads = options.threads;
  if (threads > QRT_MAX_THREADS) {
    return Status(Code::kInvalidArgument, 5303,
                  std::to_string(threads) + " threads, expected at most " + std::to_string(QRT_MAX_THREADS));
  }
  const CpuTopology topology = DetectCpuTopology();
  if (threads == 0) threads = std::min(topology.physical, QRT_MAX_THREADS);
  if (options.thread_pool != nullptr) {
    if (options.thread_pool->run == nullptr) return NullArgument("thread_pool->run");
    return std::unique_ptr<Workers>(new InjectedWorkers(*options.thread_pool, threads));
  }
  std::unique_ptr<Workers> pool = ThreadPool::Create(threads, topology.logical);
  if (pool == nullptr) {
    return Status(Code::kOutOfMemory, 5006, "the system refuses " + std::to_string(threads) + " threads", "",
                  "ask for fewer threads, or raise the process's limit");
  }
  return pool;
}

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

Result<Candidate> FindCpu(const Request& request) {
  const CpuFeatures cpu = CpuFeatures::Detect();
  const Manifest& manifest = request.artifact.manifest();
  Result<size_t> variant = ChooseCode(manifest, cpu, request.variant_name());
  if (!variant.ok()) return variant.status();
  Candidate candidate;
  candidate.variant = *variant;
  candidate.why_not = [cpu, &manifest](size_t other) {
    return ChooseCode(manifest, cpu, manifest.code[other].isa).status();
  };
  candidate.make = [request, chosen = *variant]() -> Result<std::unique_ptr<Device>> {
    Result<std::unique_ptr<Workers>> workers = MakeWorkers(request.options);
    if (!workers.ok()) return workers.status();
    Result<std::unique_ptr<CpuDevice>> device = CpuDevice::Create(
        request.artifact, chosen, std::move(*workers), request.services.allocator_or_null());
    if (!device.ok()) return device.status();
    return std::unique_ptr<Device>(std::move(*device));
  };
  return candidate;
}

#if defined(QRT_WITH_VULKAN) || defined(QRT_WITH_CUDA)

std::function<bool(uint64_t, uint64_t)> ProgressOf(const qrt_engine_options& options) {
  if (options.progress == nullptr) return {};
  return [fn = options.progress, ctx = options.progress_ctx](uint64_t done, uint64_t total) {
    return fn(ctx, done, total) == 0;
  };
}

std::function<void(bool, std::string_view)> LogOf(const Services& services) {
  if (!services.log) return {};
  return [&services](bool warning, std::string_view line) {
    Log(services, warning ? QRT_LOG_WARNING : QRT_LOG_INFO, std::string(line));
  };
}

// The folder for compiled kernels, ready to use; empty: none. A cache that cannot be is no reason to fail.
std::string CacheFolderOf(const Request& request) {
  if (request.options.cache_dir == nullptr || *request.options.cache_dir == '\0') return "";
  const Status made = MakeCacheFolder(request.options.cache_dir);
  if (made.ok()) return request.options.cache_dir;
  Log(request.services, QRT_LOG_WARNING, "compiled kernels are not kept: " + made.ToString());
  return "";
}

double DispatchMsOf(const qrt_engine_options& options) {
  return options.max_dispatch_ms == 0 ? kUsualDispatchMs : options.max_dispatch_ms;
}

std::string Megabytes(uint64_t bytes) {
  return std::to_string(bytes >> 20) + " MiB";
}

#endif

#ifdef QRT_WITH_VULKAN

Result<Candidate> FindVulkan(const Request& request, int index) {
  Result<VulkanLoader> loader = VulkanLoader::Open();
  if (!loader.ok()) return loader.status();
  Result<std::vector<VulkanDeviceInfo>> devices = ListVulkanDevices(*loader);
  if (!devices.ok()) return devices.status();
  Result<size_t> place = ChooseVulkanDevice(*devices, index);
  if (!place.ok()) return place.status();
  const VulkanDeviceInfo info = (*devices)[*place];
  const Manifest& manifest = request.artifact.manifest();
  Result<size_t> variant = ChooseVulkanCode(manifest, info, request.variant_name());
  if (!variant.ok()) return variant.status();
  Candidate candidate;
  candidate.variant = *variant;
  candidate.software = info.type == "cpu";
  candidate.why_not = [info, &manifest](size_t other) {
    return ChooseVulkanCode(manifest, info, manifest.code[other].isa).status();
  };
  candidate.make = [request, info, chosen = *variant, loader = *loader] {
    VulkanOptions options;
    options.index = info.index;
    options.max_dispatch_ms = DispatchMsOf(request.options);
    options.pipeline_cache_dir = CacheFolderOf(request);
    options.log = LogOf(request.services);
    options.progress = ProgressOf(request.options);
    Result<std::unique_ptr<Device>> device = CreateVulkanDevice(request.artifact, chosen, options, loader);
    if (!options.pipeline_cache_dir.empty()) TrimCacheFolder(options.pipeline_cache_dir, kKernelCacheBytes);
    return device;
  };
  return candidate;
}

std::vector<qrt_device_info> ListVulkan() {
  std::vector<qrt_device_info> result;
  Result<VulkanLoader> loader = VulkanLoader::Open();
  Result<std::vector<VulkanDeviceInfo>> devices =
      loader.ok() ? ListVulkanDevices(*loader) : Result<std::vector<VulkanDeviceInfo>>(loader.status());
  if (!devices.ok() || devices->empty()) {
    qrt_device_info& out = result.emplace_back();
    CopyText(out.id, "vulkan");
    CopyText(out.why_not, devices.ok() ? "no Vulkan driver finds a device" : devices.status().message());
    return result;
  }
  for (const VulkanDeviceInfo& device : *devices) {
    qrt_device_info& out = result.emplace_back();
    CopyText(out.id, "vulkan:" + std::to_string(device.index));
    CopyText(out.name, device.name);
    std::string facts = device.type + ", " + device.driver + ", Vulkan " + device.api_version +
                        ", subgroups of " + std::to_string(device.subgroup_min);
    if (device.subgroup_max != device.subgroup_min) facts += " to " + std::to_string(device.subgroup_max);
    if (device.int_dot) facts += ", int8 dot products";
    if (device.matrix) facts += ", cooperative matrices";
    CopyText(out.facts, facts + ", " + Megabytes(device.memory_bytes));
    out.usable = device.usable;
    CopyText(out.why_not, device.why_not);
    out.memory_bytes = device.memory_bytes;
  }
  return result;
}

std::string WhyNotVulkan(const Artifact& artifact, const std::string& isa) {
  Result<VulkanLoader> loader = VulkanLoader::Open();
  if (!loader.ok()) return loader.status().message();
  const Result<std::vector<VulkanDeviceInfo>> devices = ListVulkanDevices(*loader);
  if (!devices.ok()) return devices.status().message();
  std::string why;
  for (const VulkanDeviceInfo& device : *devices) {
    if (!why.empty()) why += "; ";
    why += "vulkan:" + std::to_string(device.index) + ": ";
    if (!device.usable) {
      why += device.why_not;
      continue;
    }
    const Result<size_t> found = ChooseVulkanCode(artifact.manifest(), device, isa);
    if (found.ok()) return "";
    why += found.status().message();
  }
  return why.empty() ? "no Vulkan driver finds a device" : why;
}

#else

Status NoVulkan() {
  return Status(Code::kDeviceUnsupported, 5012, "this build of qrt has no Vulkan");
}
Result<Candidate> FindVulkan(const Request&, int) {
  return NoVulkan();
}
std::vector<qrt_device_info> ListVulkan() {
  return {};
}
std::string WhyNotVulkan(const Artifact&, const std::string&) {
  return NoVulkan().message();
}

#endif

Status NoCuda() {
  return Status(Code::kDeviceUnsupported, 5012, "this build of qrt has no CUDA");
}
Result<Candidate> FindCuda(const Request&, int) {
  return NoCuda();
}
std::vector<qrt_device_info> ListCuda() {
  return {};
}
std::string WhyNotCuda(const Artifact&, const std::string&) {
  return NoCuda().message();
}

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
          std::to_string(device.device_weight_bytes()) + " bytes of weights copied");
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
  std::vector<qrt_device_info> devices(1);
  const CpuTopology topology = DetectCpuTopology();
  CopyText(devices[0].id, "cpu");
  CopyText(devices[0].name, CpuBrand());
  CopyText(devices[0].facts, std::to_string(topology.physical) + " cores (" +
                                 std::to_string(topology.logical) + " threads) available");
  devices[0].usable = 1;
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page = sysconf(_SC_PAGESIZE);
  if (pages > 0 && page > 0)
    devices[0].memory_bytes = static_cast<uint64_t>(pages) * static_cast<uint64_t>(page);
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
