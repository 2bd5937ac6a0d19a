// Which devices there are, and what code they can run.
#include <algorithm>
#include <bit>
#include <charconv>
#include <optional>
#include <set>
#include <string>
#include <tuple>

#include "runtime/device/vulkan/facts.h"
#include "runtime/device/vulkan/instance.h"
#include "runtime/device/vulkan/variant.h"
#include "runtime/device/vulkan/vulkan_device.h"

namespace qrt {
namespace {

constexpr std::string_view kTarget = "vulkan";
constexpr std::string_view kSubgroup = "subgroup-", kMatrix = "matrix-", kThreads = "threads-",
                           kShared = "shared-";

// The N of a feature "PREFIX-N"; 0: it is none.
uint32_t NumberBehind(std::string_view prefix, std::string_view feature) {
  uint32_t number = 0;
  if (!feature.starts_with(prefix)) return 0;
  const auto [end, error] =
      std::from_chars(feature.data() + prefix.size(), feature.data() + feature.size(), number);
  return error == std::errc() && end == feature.data() + feature.size() ? number : 0;
}

int TypeRank(const VulkanDeviceInfo& info) {
  return info.type == "discrete" ? 3 : info.type == "integrated" ? 2 : info.type == "virtual" ? 1 : 0;
}

// Whether code for smaller subgroups is the better of two that a device can run and that differ in nothing
// else but in the size of workgroups and their memory. On Intel's GPUs it is: a subgroup's registers are
// shared by its threads, so that at 32 a thread has a quarter of those that it has at 8, and kernels hold
// their sums in them.
bool Narrower(const VulkanDeviceInfo& device, const CodeInfo& code, const CodeInfo& than) {
  constexpr uint32_t kIntel = 0x8086;
  const auto others = [](const CodeInfo& c) {
    std::set<std::string> features(c.features.begin(), c.features.end());
    std::erase_if(features, [](const std::string& f) {
      return NumberBehind(kSubgroup, f) != 0 || NumberBehind(kThreads, f) != 0 ||
             NumberBehind(kShared, f) != 0;
    });
    return features;
  };
  return device.vendor_id == kIntel && SubgroupSizeOf(code) != 0 &&
         SubgroupSizeOf(code) < SubgroupSizeOf(than) && others(code) == others(than);
}

}  // namespace

uint32_t SubgroupSizeOf(const CodeInfo& code) {
  for (const std::string& feature : code.features) {
    if (const uint32_t size = NumberBehind(kSubgroup, feature)) return size;
  }
  return 0;
}

std::string MissingFeatures(const VulkanDeviceInfo& device, const CodeInfo& code) {
  std::string missing;
  for (const std::string& feature : code.features) {
    bool has = false;
    if (feature == "int-dot") has = device.int_dot;
    if (feature.starts_with(kMatrix)) {
      const auto& shapes = device.matrix_shapes;
      has = std::find(shapes.begin(), shapes.end(), feature.substr(kMatrix.size())) != shapes.end();
    }
    if (const uint32_t size = NumberBehind(kSubgroup, feature)) {
      has = std::has_single_bit(size) && size >= device.subgroup_min && size <= device.subgroup_max &&
            (device.subgroup_control || device.subgroup_min == device.subgroup_max);
    }
    if (const uint32_t threads = NumberBehind(kThreads, feature)) has = device.max_workgroup >= threads;
    if (const uint32_t bytes = NumberBehind(kShared, feature)) has = device.max_shared_bytes >= bytes;
    if (has) continue;
    if (!missing.empty()) missing += ", ";
    missing += feature;
  }
  return missing;
}

Result<std::vector<VulkanDeviceInfo>> ListVulkanDevices(const VulkanLoader& loader) {
  Result<std::unique_ptr<VulkanInstance>> instance = VulkanInstance::Create(loader, false, {});
  if (!instance.ok()) return instance.status();
  std::vector<VulkanDeviceInfo> list;
  for (size_t i = 0; i < (*instance)->devices().size(); ++i) {
    list.push_back(QueryVulkanFacts(**instance, i).info);
  }
  return list;
}

Result<size_t> ChooseVulkanDevice(const std::vector<VulkanDeviceInfo>& devices, int index) {
  std::string reasons;
  for (const VulkanDeviceInfo& d : devices) {
    if (d.usable) continue;
    if (!reasons.empty()) reasons += "; ";
    reasons += std::to_string(d.index) + " (" + d.name + "): " + d.why_not;
  }
  const auto none = [](std::string message) {
    return Status(Code::kDeviceUnsupported, 5013, std::move(message), "device vulkan",
                  "update the GPU's driver, or use --device=cpu");
  };
  if (index >= 0) {
    if (static_cast<size_t>(index) >= devices.size()) {
      return Status(Code::kInvalidArgument, 5014,
                    "there is no Vulkan device " + std::to_string(index) + ": this machine has " +
                        std::to_string(devices.size()),
                    "device vulkan", "qrun devices lists them");
    }
    const VulkanDeviceInfo& d = devices[static_cast<size_t>(index)];
    if (!d.usable) {
      return none("Vulkan device " + std::to_string(index) + " (" + d.name +
                  ") cannot be used: " + d.why_not);
    }
    return static_cast<size_t>(index);
  }
  const auto rank = [](const VulkanDeviceInfo& d) {
    return std::tuple(d.usable, TypeRank(d), d.memory_bytes);
  };
  const auto best = std::max_element(devices.begin(), devices.end(),
                                     [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
  if (best != devices.end() && best->usable) return static_cast<size_t>(best - devices.begin());
  return none(reasons.empty() ? "this machine has no Vulkan device"
                              : "no Vulkan device of this machine can be used: " + reasons);
}

Result<VulkanFacts> ChosenVulkanFacts(const VulkanInstance& instance, int index) {
  std::vector<VulkanFacts> facts;
  std::vector<VulkanDeviceInfo> infos;
  for (size_t i = 0; i < instance.devices().size(); ++i) {
    facts.push_back(QueryVulkanFacts(instance, i));
    infos.push_back(facts.back().info);
  }
  const Result<size_t> chosen = ChooseVulkanDevice(infos, index);
  if (chosen.ok()) return facts[*chosen];
  // A driver that failed says more than that there is nothing to use.
  for (size_t i = 0; i < facts.size(); ++i) {
    const bool asked = index < 0 || static_cast<size_t>(index) == i;
    if (asked && !facts[i].failure.ok()) return facts[i].failure;
  }
  return chosen.status();
}

Result<size_t> ChooseVulkanCode(const Manifest& manifest, const VulkanDeviceInfo& device,
                                std::string_view name) {
  std::string known, lacking;
  std::optional<size_t> best;
  for (size_t i = 0; i < manifest.code.size(); ++i) {
    const CodeInfo& code = manifest.code[i];
    if (code.target != kTarget) continue;
    if (!known.empty()) known += ", ";
    known += code.isa;
    if (!name.empty() && code.isa != name) continue;
    const std::string missing = MissingFeatures(device, code);
    if (missing.empty()) {
      if (!best || Narrower(device, code, manifest.code[*best])) best = i;
      continue;
    }
    if (!lacking.empty()) lacking += "; ";
    lacking += code.isa + " needs " + missing;
  }
  if (best) return *best;
  const std::string where = "device vulkan:" + std::to_string(device.index) + " (" + device.name + ")";
  if (!lacking.empty()) {
    return Status(Code::kDeviceUnsupported, 5001, "this GPU cannot run the artifact's code: " + lacking,
                  where, "compile with the profile \"none\" among --gpu-profiles: it runs on every device");
  }
  if (name.empty() || known.empty()) {
    return Status(Code::kDeviceUnsupported, 5002, "the artifact holds no code for Vulkan", where,
                  "compile with --target=vulkan");
  }
  return Status(Code::kInvalidArgument, 5003,
                "the artifact holds no Vulkan code variant \"" + std::string(name) + "\"", where,
                "it holds: " + known);
}

}  // namespace qrt
