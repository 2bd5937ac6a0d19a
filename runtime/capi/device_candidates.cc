#include "runtime/capi/device_candidates.h"

#include <unistd.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>

#include "runtime/base/cpu_features.h"
#include "runtime/capi/kernel_cache.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/device/cpu/thread_pool.h"
#include "runtime/device/cpu/topology.h"

namespace qrt::capi {
namespace {

constexpr double kUsualDispatchMs = 200;
static_assert(QRT_MAX_THREADS <= ThreadPool::kMostThreads);

// The embedder's threads, which a child of the process that handed them in has not. A pool that runs two
// steps at once could give each some of its threads, and both would wait for the rest.
class InjectedWorkers final : public Workers {
 public:
  InjectedWorkers(const qrt_thread_pool& pool, uint32_t threads, std::shared_ptr<std::mutex> turn)
      : pool_(pool), threads_(threads), turn_(std::move(turn)) {}
  uint32_t threads() const override { return threads_; }
  bool Run(PoolTask task, void* arg, uint32_t count) override {
    if (threads_ > 1 && getpid() != process_) return false;
    const std::lock_guard<std::mutex> lock(*turn_);
    return pool_.run(pool_.ctx, count, task, arg) == 0;
  }

 private:
  const qrt_thread_pool pool_;
  const uint32_t threads_;
  const std::shared_ptr<std::mutex> turn_;
  const pid_t process_ = getpid();
};

Result<std::unique_ptr<Workers>> MakeWorkers(const qrt_engine_options& options, const Services& services) {
  uint32_t threads = options.threads;
  if (threads > QRT_MAX_THREADS) {
    return Status(Code::kInvalidArgument, 5303,
                  std::to_string(threads) + " threads, expected at most " + std::to_string(QRT_MAX_THREADS));
  }
  const CpuTopology topology = DetectCpuTopology();
  if (threads == 0) threads = std::min(topology.physical, QRT_MAX_THREADS);
  if (options.thread_pool != nullptr) {
    if (options.thread_pool->run == nullptr) return NullArgument("thread_pool->run");
    return std::unique_ptr<Workers>(new InjectedWorkers(*options.thread_pool, threads, services.pool_turn));
  }
  std::unique_ptr<Workers> pool = ThreadPool::Create(threads, topology.logical);
  if (pool == nullptr) {
    return Status(Code::kOutOfMemory, 5006, "the system refuses " + std::to_string(threads) + " threads", "",
                  "ask for fewer threads, or raise the process's limit");
  }
  return pool;
}

}  // namespace

std::span<const Driver> Drivers() {
#define QRT_TARGET(name, Name, accelerator) {name, accelerator, Find##Name, List##Name, WhyNot##Name},
  static constexpr Driver kDrivers[] = {
#include "runtime/artifact/targets.def"
  };
  return kDrivers;
}

const Driver* FindDriver(std::string_view kind) {
  for (const Driver& driver : Drivers())
    if (driver.kind == kind) return &driver;
  return nullptr;
}

Result<Candidate> FindCpu(const Request& request, int /*index*/) {
  CpuFeatures cpu = CpuFeatures::Detect();
  const Manifest& manifest = request.artifact.manifest();
  Result<size_t> variant = TakeCode(manifest, &cpu, request.variant_name());
  if (!variant.ok()) return variant.status();
  Candidate candidate;
  candidate.variant = *variant;
  candidate.why_not = [cpu, &manifest](size_t other) {
    return ChooseCode(manifest, cpu, manifest.code[other].isa).status();
  };
  candidate.make = [request, chosen = *variant]() -> Result<std::unique_ptr<Device>> {
    if (*request.workers == nullptr) {
      Result<std::unique_ptr<Workers>> workers = MakeWorkers(request.options, request.services);
      if (!workers.ok()) return workers.status();
      *request.workers = std::move(*workers);
    }
    Result<std::unique_ptr<CpuDevice>> device =
        CpuDevice::Create(request.artifact, chosen, *request.workers, request.services.allocator_or_null());
    if (!device.ok()) return device.status();
    return std::unique_ptr<Device>(std::move(*device));
  };
  return candidate;
}

std::vector<qrt_device_info> ListCpu() {
  const CpuTopology topology = DetectCpuTopology();
  qrt_device_info info = {};
  CopyText(info.id, "cpu");
  CopyText(info.name, CpuBrand());
  CopyText(info.facts, std::to_string(topology.physical) + " cores (" + std::to_string(topology.logical) +
                           " threads) available");
  info.usable = 1;
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page = sysconf(_SC_PAGESIZE);
  if (pages > 0 && page > 0) info.memory_bytes = static_cast<uint64_t>(pages) * static_cast<uint64_t>(page);
  return {info};
}

std::string WhyNotCpu(const Artifact& /*artifact*/, const CodeInfo& code) {
  std::string missing;
  for (const std::string& name : CpuFeatures::Detect().Missing(code.features)) {
    missing += (missing.empty() ? "" : ", ") + name;
  }
  return missing;
}

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

std::string KernelFolderOf(const Request& request) {
  if (request.options.cache_dir == nullptr || *request.options.cache_dir == '\0') return "";
  const Status made = MakeCacheFolder(request.options.cache_dir);
  if (made.ok()) return request.options.cache_dir;
  Log(request.services, QRT_LOG_WARNING, "compiled kernels are not kept: " + made.ToString());
  return "";
}

double DispatchMsOf(const qrt_engine_options& options) {
  return options.max_dispatch_ms == 0 ? kUsualDispatchMs : options.max_dispatch_ms;
}

qrt_device_info Missing(const std::string& kind, const std::string& why) {
  qrt_device_info info = {};
  CopyText(info.id, kind);
  CopyText(info.why_not, why);
  return info;
}

std::string Megabytes(uint64_t bytes) {
  return std::to_string(bytes >> 20) + " MiB";
}

}  // namespace qrt::capi
