#include "runtime/device/cpu/topology.h"

#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <string_view>
#include <vector>

namespace qrt {
namespace {

constexpr uint32_t kUnlimited = std::numeric_limits<uint32_t>::max();

// First `limit` bytes of a small file; empty when it cannot be read.
std::string ReadSmallFile(const std::string& path, size_t limit = 16384) {
  std::string text;
  std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path.c_str(), "re"), std::fclose);
  if (file == nullptr) {
    return text;
  }
  text.resize(limit);
  text.resize(std::fread(text.data(), 1, limit, file.get()));
  return text;
}

// CPUs that `quota` microseconds of every `period` give, rounded up.
uint32_t QuotaCpus(const std::string& quota, const std::string& period) {
  const long long q = std::strtoll(quota.c_str(), nullptr, 10);
  const long long p = std::strtoll(period.c_str(), nullptr, 10);
  if (q <= 0 || p <= 0) return kUnlimited;  // "max", -1, unreadable
  return static_cast<uint32_t>(std::clamp<long long>((q - 1) / p + 1, 1, kUnlimited));
}

// The smallest quota of a cgroup and its ancestors (`path` begins with '/').
template <typename ReadQuota>
uint32_t SmallestQuota(std::string path, ReadQuota read) {
  uint32_t cpus = kUnlimited;
  for (;;) {
    cpus = std::min(cpus, read(path));
    const size_t slash = path.rfind('/');
    if (slash == std::string::npos) return cpus;
    path.resize(slash);
  }
}

uint32_t CgroupCpus(const std::string& root) {
  const std::string groups = ReadSmallFile(root + "/proc/self/cgroup");
  uint32_t cpus = kUnlimited;
  for (size_t at = 0; at < groups.size();) {
    const size_t end = std::min(groups.find('\n', at), groups.size());
    const std::string_view line(groups.data() + at, end - at);  // "id:controllers:/path"
    at = end + 1;
    const size_t first = line.find(':');
    const size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    std::string path(line.substr(second + 1));
    if (path == "/") path.clear();
    if (controllers.empty()) {
      cpus = std::min(cpus, SmallestQuota(path, [&](const std::string& p) {
                        const std::string text = ReadSmallFile(root + "/sys/fs/cgroup" + p + "/cpu.max");
                        const size_t space = text.find(' ');
                        return space == std::string::npos
                                   ? kUnlimited
                                   : QuotaCpus(text.substr(0, space), text.substr(space + 1));
                      }));
    } else if (controllers == "cpu" || controllers.starts_with("cpu,") || controllers.ends_with(",cpu") ||
               controllers.find(",cpu,") != std::string_view::npos) {
      cpus = std::min(cpus, SmallestQuota(path, [&](const std::string& p) {
                        const std::string dir = root + "/sys/fs/cgroup/cpu" + p;
                        return QuotaCpus(ReadSmallFile(dir + "/cpu.cfs_quota_us"),
                                         ReadSmallFile(dir + "/cpu.cfs_period_us"));
                      }));
    }
  }
  return cpus;
}

std::vector<uint32_t> AffinityCpus() {
  std::vector<uint32_t> cpus;
  // The kernel refuses masks smaller than its own number of CPUs.
  for (uint32_t count = 1024; count <= (1u << 20); count *= 4) {
    std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(count), [](cpu_set_t* s) { CPU_FREE(s); });
    if (set == nullptr) break;
    const size_t bytes = CPU_ALLOC_SIZE(count);
    if (sched_getaffinity(0, bytes, set.get()) != 0) continue;
    for (uint32_t i = 0; i < count; ++i) {
      if (CPU_ISSET_S(i, bytes, set.get())) cpus.push_back(i);
    }
    break;
  }
  if (cpus.empty()) cpus.push_back(0);
  return cpus;
}

}  // namespace

CpuTopology DetectCpuTopology(const std::string& root, const std::vector<uint32_t>& cpus) {
  std::vector<std::string> cores;  // a core is named by its list of sibling threads
  for (uint32_t cpu : cpus) {
    const std::string topology = root + "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
    std::string siblings = ReadSmallFile(topology + "thread_siblings_list", 256);
    if (siblings.empty()) siblings = "cpu" + std::to_string(cpu);
    if (std::find(cores.begin(), cores.end(), siblings) == cores.end()) cores.push_back(std::move(siblings));
  }
  CpuTopology result;
  result.logical = std::max<uint32_t>(1, static_cast<uint32_t>(cpus.size()));
  result.physical = std::max<uint32_t>(1, std::min(static_cast<uint32_t>(cores.size()), CgroupCpus(root)));
  return result;
}

CpuTopology DetectCpuTopology(const std::string& root) {
  return DetectCpuTopology(root, AffinityCpus());
}

}  // namespace qrt
