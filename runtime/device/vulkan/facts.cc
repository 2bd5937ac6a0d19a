#include "runtime/device/vulkan/facts.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "runtime/abi/gpu_limits.h"

namespace qrt {
namespace {

constexpr VkSubgroupFeatureFlags kSubgroupOperations =
    VK_SUBGROUP_FEATURE_BASIC_BIT | VK_SUBGROUP_FEATURE_SHUFFLE_BIT;

const char* TypeName(VkPhysicalDeviceType type) {
  switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
      return "discrete";
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
      return "integrated";
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
      return "virtual";
    case VK_PHYSICAL_DEVICE_TYPE_CPU:
      return "cpu";
    default:
      return "other";
  }
}

std::string VersionText(uint32_t v) {
  return std::to_string(VK_API_VERSION_MAJOR(v)) + "." + std::to_string(VK_API_VERSION_MINOR(v)) + "." +
         std::to_string(VK_API_VERSION_PATCH(v));
}

// Puts a struct at the front of a pNext chain.
template <typename T>
void Chain(void** head, T* link) {
  link->pNext = *head;
  *head = link;
}

// The structs of Vulkan 1.3 and, before it, of the extensions that it took in.
struct FeatureChain {
  VkPhysicalDeviceVulkan11Features v11{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES};
  VkPhysicalDeviceVulkan12Features v12{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
  VkPhysicalDeviceSubgroupSizeControlFeatures subgroup{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES};
  VkPhysicalDeviceShaderIntegerDotProductFeatures dot{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES};
  CooperativeMatrixFeatures matrix;
  VkPhysicalDeviceFeatures2 all{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2};

  void Link(bool has_subgroup, bool has_dot, bool has_matrix) {
    Chain(&all.pNext, &v11);
    Chain(&all.pNext, &v12);
    if (has_subgroup) Chain(&all.pNext, &subgroup);
    if (has_dot) Chain(&all.pNext, &dot);
    if (has_matrix) Chain(&all.pNext, &matrix);
  }
};

void AddReason(std::string* why, const std::string& reason) {
  if (!why->empty()) *why += ", ";
  *why += reason;
}

// Those that subgroups multiply signed bytes with, into 32-bit sums without saturation.
// A driver that cannot list them has none.
std::vector<std::string> Int8MatrixShapes(const VkInstanceFunctions& vk, VkPhysicalDevice device) {
  std::vector<std::string> shapes;
  const auto ask = vk.GetPhysicalDeviceCooperativeMatrixPropertiesKHR;
  if (ask == nullptr) return shapes;
  uint32_t count = 0;
  if (ask(device, &count, nullptr) != VK_SUCCESS) return shapes;
  std::vector<CooperativeMatrixProperties> all(count);
  if (ask(device, &count, all.data()) < VK_SUCCESS) return shapes;  // VK_INCOMPLETE: more came meanwhile
  all.resize(count);
  for (const CooperativeMatrixProperties& p : all) {
    using Component = CooperativeMatrixProperties::Component;
    if (p.AType != Component::kSint8 || p.BType != Component::kSint8 || p.CType != Component::kSint32 ||
        p.ResultType != Component::kSint32 || p.saturatingAccumulation ||
        p.scope != CooperativeMatrixProperties::Scope::kSubgroup) {
      continue;
    }
    shapes.push_back(std::to_string(p.MSize) + "x" + std::to_string(p.NSize) + "x" + std::to_string(p.KSize));
  }
  return shapes;
}

// A family without graphics first: the watchdog of a desktop looks after the others.
bool ChooseQueueFamily(const VkInstanceFunctions& vk, VulkanFacts& facts) {
  uint32_t count = 0;
  vk.GetPhysicalDeviceQueueFamilyProperties(facts.device, &count, nullptr);
  std::vector<VkQueueFamilyProperties> families(count);
  vk.GetPhysicalDeviceQueueFamilyProperties(facts.device, &count, families.data());
  const auto choose = [&](uint32_t family) {
    facts.queue_family = family;
    facts.timestamp_bits = families[family].timestampValidBits;
  };
  bool found = false;
  for (uint32_t i = 0; i < count; ++i) {
    const VkQueueFlags flags = families[i].queueFlags;
    if (families[i].queueCount == 0 || !(flags & VK_QUEUE_COMPUTE_BIT)) continue;
    if (!found) choose(i);
    found = true;
    if (!(flags & VK_QUEUE_GRAPHICS_BIT)) {
      choose(i);
      break;
    }
  }
  return found;
}

// What a device has of what kernels and uploads can use: core in Vulkan 1.3, or an extension.
struct Support {
  bool v13, subgroup, dot, matrix, import;
};

void ReadLimits(const VkPhysicalDeviceProperties& p, const VulkanInstance& instance, VulkanFacts& facts) {
  VulkanDeviceInfo& info = facts.info;
  const VkPhysicalDeviceLimits& limits = p.limits;
  info.name = p.deviceName;
  info.type = TypeName(p.deviceType);
  info.api_version = VersionText(p.apiVersion);
  info.vendor_id = p.vendorID;
  info.device_id = p.deviceID;
  info.max_workgroup = std::min(limits.maxComputeWorkGroupInvocations, limits.maxComputeWorkGroupSize[0]);
  info.max_shared_bytes = limits.maxComputeSharedMemorySize;
  info.max_push_bytes = limits.maxPushConstantsSize;
  facts.timestamp_seconds = static_cast<double>(limits.timestampPeriod) * 1e-9;
  facts.type = p.deviceType;
  facts.api_version = std::min(p.apiVersion, instance.api_version());
  facts.driver_version = p.driverVersion;
  std::copy_n(p.pipelineCacheUUID, VK_UUID_SIZE, facts.cache_uuid.begin());
  std::copy_n(limits.maxComputeWorkGroupCount, 3, facts.max_grid.begin());
  facts.max_allocations = limits.maxMemoryAllocationCount;
}

// Empty, and facts.failure set, where the driver fails.
std::vector<VkExtensionProperties> ListExtensions(const VkInstanceFunctions& vk, VulkanFacts& facts) {
  uint32_t count = 0;
  VkResult result = vk.EnumerateDeviceExtensionProperties(facts.device, nullptr, &count, nullptr);
  std::vector<VkExtensionProperties> extensions(count);
  if (result == VK_SUCCESS) {
    result = vk.EnumerateDeviceExtensionProperties(facts.device, nullptr, &count, extensions.data());
  }
  if (result < VK_SUCCESS) {  // VK_INCOMPLETE: more came meanwhile
    facts.failure = VulkanError(result, "to list the extensions of " + facts.info.name);
    facts.info.why_not = facts.failure.message();
    return {};
  }
  extensions.resize(count);
  return extensions;
}

// Whether host memory can become such a buffer as ours are, in memory that it need not have alone.
bool ImportsBuffers(const VkInstanceFunctions& vk, VkPhysicalDevice device) {
  VkPhysicalDeviceExternalBufferInfo buffer{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_BUFFER_INFO};
  buffer.usage = kBufferUsage;
  buffer.handleType = kHostMemory;
  VkExternalBufferProperties answer{VK_STRUCTURE_TYPE_EXTERNAL_BUFFER_PROPERTIES};
  vk.GetPhysicalDeviceExternalBufferProperties(device, &buffer, &answer);
  const VkExternalMemoryFeatureFlags features = answer.externalMemoryProperties.externalMemoryFeatures;
  return (features & VK_EXTERNAL_MEMORY_FEATURE_IMPORTABLE_BIT) != 0 &&
         (features & VK_EXTERNAL_MEMORY_FEATURE_DEDICATED_ONLY_BIT) == 0;
}

void ReadProperties(const VkInstanceFunctions& vk, const Support& has, const FeatureChain& features,
                    VulkanFacts& facts) {
  VulkanDeviceInfo& info = facts.info;
  VkPhysicalDeviceProperties2 properties{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
  VkPhysicalDeviceVulkan11Properties p11{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES};
  VkPhysicalDeviceDriverProperties driver{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES};
  VkPhysicalDeviceSubgroupSizeControlProperties subgroup{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES};
  VkPhysicalDeviceMaintenance4Properties maintenance4{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES};
  VkPhysicalDeviceExternalMemoryHostPropertiesEXT import{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_MEMORY_HOST_PROPERTIES_EXT};
  CooperativeMatrixStages matrix;
  Chain(&properties.pNext, &p11);
  if (has.matrix) Chain(&properties.pNext, &matrix);
  if (has.import) Chain(&properties.pNext, &import);
  Chain(&properties.pNext, &driver);
  if (has.subgroup) Chain(&properties.pNext, &subgroup);
  if (has.v13) Chain(&properties.pNext, &maintenance4);
  vk.GetPhysicalDeviceProperties2(facts.device, &properties);
  if (has.import && ImportsBuffers(vk, facts.device)) {
    facts.import_alignment = import.minImportedHostPointerAlignment;
    facts.extensions.push_back(VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME);
  }
  info.driver = std::string(driver.driverName) + " " + driver.driverInfo;
  facts.driver_id = driver.driverID;
  info.max_allocation_bytes = p11.maxMemoryAllocationSize;
  if (has.v13) facts.max_buffer_bytes = maintenance4.maxBufferSize;
  info.max_allocation_bytes = std::min<uint64_t>(info.max_allocation_bytes, facts.max_buffer_bytes);

  const bool subgroups = (p11.subgroupSupportedStages & VK_SHADER_STAGE_COMPUTE_BIT) != 0 &&
                         (p11.subgroupSupportedOperations & kSubgroupOperations) == kSubgroupOperations;
  if (subgroups) {
    info.subgroup_control = has.subgroup && features.subgroup.subgroupSizeControl &&
                            (subgroup.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT) != 0;
    info.subgroup_min = has.subgroup ? subgroup.minSubgroupSize : p11.subgroupSize;
    info.subgroup_max = has.subgroup ? subgroup.maxSubgroupSize : p11.subgroupSize;
    if (info.subgroup_control) info.max_workgroup_subgroups = subgroup.maxComputeWorkgroupSubgroups;
    facts.full_subgroups = info.subgroup_control && features.subgroup.computeFullSubgroups;
  }
  info.int_dot = has.dot && features.dot.shaderIntegerDotProduct;
  if (has.matrix && features.matrix.cooperativeMatrix && features.v12.shaderInt8 &&
      (matrix.cooperativeMatrixSupportedStages & VK_SHADER_STAGE_COMPUTE_BIT) != 0) {
    info.matrix_shapes = Int8MatrixShapes(vk, facts.device);
    if (!info.matrix_shapes.empty()) facts.extensions.push_back(kCooperativeMatrixExtension);
  }
  facts.memory_model_device_scope = features.v12.vulkanMemoryModelDeviceScope;
  facts.extended_subgroup_types = features.v12.shaderSubgroupExtendedTypes;
  if (!has.v13 && info.subgroup_control)
    facts.extensions.push_back(VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME);
  if (!has.v13 && info.int_dot) facts.extensions.push_back(VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME);
}

// What the specification promises of every device and a driver does not keep.
void AddBrokenPromises(const VulkanDeviceInfo& info, std::string* why) {
  const auto need = [why](const char* what, uint32_t has, uint32_t least) {
    if (has >= least) return;
    AddReason(why, std::string(what) + " is " + std::to_string(has) + ", needed is " + std::to_string(least));
  };
  need("its largest workgroup", info.max_workgroup, QRT_VULKAN_THREADS);
  need("its workgroup memory", info.max_shared_bytes, QRT_VULKAN_SHARED_BYTES);
  need("its room for push constants", info.max_push_bytes, QRT_VULKAN_PUSH_BYTES);
}

void ReadMemory(const VkInstanceFunctions& vk, VulkanFacts& facts) {
  VkPhysicalDeviceMemoryBudgetPropertiesEXT budget{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT};
  VkPhysicalDeviceMemoryProperties2 memory{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2};
  if (facts.has_budget) memory.pNext = &budget;
  vk.GetPhysicalDeviceMemoryProperties2(facts.device, &memory);
  facts.memory = memory.memoryProperties;
  for (uint32_t i = 0; i < facts.memory.memoryHeapCount; ++i) {
    const VkMemoryHeap& heap = facts.memory.memoryHeaps[i];
    facts.heap_left[i] = heap.size;
    // Some drivers report a budget of 0 for heaps that they do not track.
    if (facts.has_budget && budget.heapBudget[i] != 0) {
      const uint64_t used = std::min<uint64_t>(budget.heapUsage[i], budget.heapBudget[i]);
      facts.heap_left[i] = std::min<uint64_t>(heap.size, budget.heapBudget[i] - used);
    }
    if (heap.flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) {
      facts.info.memory_bytes = std::max<uint64_t>(facts.info.memory_bytes, heap.size);
    }
  }
}

}  // namespace

VulkanFacts QueryVulkanFacts(const VulkanInstance& instance, size_t index) {
  const VkInstanceFunctions& vk = instance.vk();
  VulkanFacts facts;
  VulkanDeviceInfo& info = facts.info;
  facts.device = instance.devices()[index];
  info.index = static_cast<int>(index);
  VkPhysicalDeviceProperties2 properties{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
  vk.GetPhysicalDeviceProperties2(facts.device, &properties);
  ReadLimits(properties.properties, instance, facts);
  if (properties.properties.apiVersion < VK_API_VERSION_1_2) {
    info.why_not = "it has Vulkan " + info.api_version + ", needed is 1.2";
    return facts;
  }
  const std::vector<VkExtensionProperties> extensions = ListExtensions(vk, facts);
  if (!facts.failure.ok()) return facts;
  const auto has = [&extensions](const char* name) {
    return std::any_of(extensions.begin(), extensions.end(),
                       [name](const auto& e) { return std::strcmp(e.extensionName, name) == 0; });
  };
  const bool v13 = facts.api_version >= VK_API_VERSION_1_3;
  Support support = {v13, v13 || has(VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME),
                     v13 || has(VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME),
                     // Kernels that use them are SPIR-V 1.6.
                     v13 && has(kCooperativeMatrixExtension),
                     has(VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME)};
  FeatureChain features;
  features.Link(support.subgroup, support.dot, support.matrix);
  vk.GetPhysicalDeviceFeatures2(facts.device, &features.all);
  ReadProperties(vk, support, features, facts);
  facts.has_budget = has(VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
  ReadMemory(vk, facts);

  if (!features.v12.bufferDeviceAddress) AddReason(&info.why_not, "it lacks bufferDeviceAddress");
  if (!features.v12.vulkanMemoryModel) AddReason(&info.why_not, "it lacks vulkanMemoryModel");
  if (!features.all.features.shaderInt64) AddReason(&info.why_not, "it lacks shaderInt64");
  AddBrokenPromises(info, &info.why_not);
  if (!ChooseQueueFamily(vk, facts)) {
    AddReason(&info.why_not, "it has no compute queue");
  }
  info.usable = info.why_not.empty();
  return facts;
}

VkResult CreateVkDevice(const VulkanInstance& instance, const VulkanFacts& facts, VkDevice* out) {
  FeatureChain features;
  const bool matrix = !facts.info.matrix_shapes.empty();
  features.Link(facts.info.subgroup_control, facts.info.int_dot, matrix);
  features.all.features.shaderInt64 = VK_TRUE;
  features.v12.bufferDeviceAddress = VK_TRUE;
  features.v12.vulkanMemoryModel = VK_TRUE;
  features.v12.vulkanMemoryModelDeviceScope = facts.memory_model_device_scope;
  features.v12.shaderSubgroupExtendedTypes = facts.extended_subgroup_types;
  features.subgroup.subgroupSizeControl = facts.info.subgroup_control;
  features.subgroup.computeFullSubgroups = facts.full_subgroups;
  features.dot.shaderIntegerDotProduct = facts.info.int_dot;
  features.matrix.cooperativeMatrix = matrix;
  features.v12.shaderInt8 = matrix;

  const float priority = 1;
  VkDeviceQueueCreateInfo queue{VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO};
  queue.queueFamilyIndex = facts.queue_family;
  queue.queueCount = 1;
  queue.pQueuePriorities = &priority;
  VkDeviceCreateInfo create{VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO};
  create.pNext = &features.all;
  create.queueCreateInfoCount = 1;
  create.pQueueCreateInfos = &queue;
  create.enabledExtensionCount = static_cast<uint32_t>(facts.extensions.size());
  create.ppEnabledExtensionNames = facts.extensions.data();
  return instance.vk().CreateDevice(facts.device, &create, nullptr, out);
}

}  // namespace qrt
