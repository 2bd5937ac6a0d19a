// How many cores this process may use.
#ifndef RUNTIME_DEVICE_CPU_TOPOLOGY_H_
#define RUNTIME_DEVICE_CPU_TOPOLOGY_H_

#include <cstdint>
#include <string>
#include <vector>

namespace qrt {

struct CpuTopology {
  uint32_t logical = 1;   // CPUs in the affinity mask
  uint32_t physical = 1;  // distinct cores among them, at most the cgroup's quota rounded up
};

// Reads the affinity mask of the calling thread, and below `root` (normally "") /sys and /proc/self/cgroup.
// What cannot be read counts as no restriction. Throws std::bad_alloc.
CpuTopology DetectCpuTopology(const std::string& root = "");

// The same for a given affinity mask: `cpus` lists CPU numbers.
CpuTopology DetectCpuTopology(const std::string& root, const std::vector<uint32_t>& cpus);

}  // namespace qrt

#endif  // RUNTIME_DEVICE_CPU_TOPOLOGY_H_
