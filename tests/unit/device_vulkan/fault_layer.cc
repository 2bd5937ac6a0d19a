#include "tests/unit/device_vulkan/fault_layer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

namespace qrt::testing {
namespace {

// Functions that make an object, those that end one, and others that can fail.
#define MAKING(X)         \
  X(CreateInstance)       \
  X(CreateDevice)         \
  X(AllocateMemory)       \
  X(CreateBuffer)         \
  X(CreateShaderModule)   \
  X(CreatePipelineLayout) \
  X(CreateComputePipelines) X(CreatePipelineCache) X(CreateCommandPool) X(CreateFence) X(CreateQueryPool)
#define ENDING(X)          \
  X(DestroyInstance)       \
  X(DestroyDevice)         \
  X(FreeMemory)            \
  X(DestroyBuffer)         \
  X(DestroyShaderModule)   \
  X(DestroyPipelineLayout) \
  X(DestroyPipeline) X(DestroyPipelineCache) X(DestroyCommandPool) X(DestroyFence) X(DestroyQueryPool)
#define OTHERS(X)                      \
  X(MapMemory)                         \
  X(BindBufferMemory)                  \
  X(AllocateCommandBuffers)            \
  X(BeginCommandBuffer)                \
  X(EndCommandBuffer)                  \
  X(GetMemoryHostPointerPropertiesEXT) \
  X(QueueSubmit)                       \
  X(WaitForFences)                     \
  X(ResetFences) X(GetPipelineCacheData) X(EnumerateDeviceExtensionProperties) X(GetQueryPoolResults)

struct Real {
  PFN_vkGetInstanceProcAddr get_instance_proc = nullptr;
  PFN_vkGetDeviceProcAddr get_device_proc = nullptr;
  PFN_vkGetPhysicalDeviceProperties2 properties = nullptr;
  PFN_vkGetPhysicalDeviceFeatures2 features = nullptr;
  PFN_vkGetPhysicalDeviceMemoryProperties2 memory = nullptr;
  PFN_vkGetPhysicalDeviceExternalBufferProperties external = nullptr;
  PFN_vkEnumeratePhysicalDevices devices = nullptr;
  PFN_vkGetPhysicalDeviceQueueFamilyProperties queues = nullptr;
#define MEMBER(name) PFN_vk##name name = nullptr;
  MAKING(MEMBER) ENDING(MEMBER) OTHERS(MEMBER)
#undef MEMBER
};
Real g_real;

std::optional<VkResult> Count(const char* name) {
  FaultLayer& layer = FaultLayer::Get();
  layer.Saw(name);
  if (layer.fail_at == 0 || (layer.fail != "*" && layer.fail != name)) return std::nullopt;
  ++layer.matching;
  if (layer.fail_once ? layer.matching != layer.fail_at : layer.matching < layer.fail_at) return std::nullopt;
  return layer.fail_result;
}

// Looks at the arguments of a call; most are of no interest.
template <typename... Args>
void Look(Args...) {}
void Look(VkDevice, const VkPipelineCacheCreateInfo* create, const VkAllocationCallbacks*, VkPipelineCache*) {
  FaultLayer::Get().cache_bytes_given = create->initialDataSize;
}
void Look(VkDevice, const VkMemoryAllocateInfo* allocate, const VkAllocationCallbacks*, VkDeviceMemory*) {
  uint64_t& largest = FaultLayer::Get().largest_asked;
  largest = std::max<uint64_t>(largest, allocate->allocationSize);
}

template <typename F>
struct Wrap;
template <typename... Args>
struct Wrap<VkResult(VKAPI_PTR*)(Args...)> {
  template <typename Entry, int64_t kMade>
  static VKAPI_ATTR VkResult VKAPI_CALL Call(Args... args) {
    if (const std::optional<VkResult> failed = Count(Entry::kName)) return *failed;
    Look(args...);
    const VkResult result = (g_real.*Entry::kMember)(args...);
    if (result == VK_SUCCESS) FaultLayer::Get().live += kMade;
    return result;
  }
};
template <typename... Args>
struct Wrap<void(VKAPI_PTR*)(Args...)> {
  template <typename Entry, int64_t kMade>
  static VKAPI_ATTR void VKAPI_CALL Call(Args... args) {
    FaultLayer::Get().Saw(Entry::kName);
    FaultLayer::Get().live += kMade;
    (g_real.*Entry::kMember)(args...);
  }
};

#define ENTRY(fn)                                  \
  struct Entry##fn {                               \
    static constexpr auto kMember = &Real::fn;     \
    static constexpr const char* kName = "vk" #fn; \
  };
MAKING(ENTRY)
ENDING(ENTRY)
OTHERS(ENTRY)
#undef ENTRY

VKAPI_ATTR void VKAPI_CALL Properties(VkPhysicalDevice device, VkPhysicalDeviceProperties2* out) {
  g_real.properties(device, out);
  if (FaultLayer::Get().properties) FaultLayer::Get().properties(out);
}
VKAPI_ATTR void VKAPI_CALL Features(VkPhysicalDevice device, VkPhysicalDeviceFeatures2* out) {
  g_real.features(device, out);
  if (FaultLayer::Get().features) FaultLayer::Get().features(out);
}
VKAPI_ATTR void VKAPI_CALL MemoryProperties(VkPhysicalDevice device, VkPhysicalDeviceMemoryProperties2* out) {
  g_real.memory(device, out);
  if (FaultLayer::Get().memory) FaultLayer::Get().memory(out);
}
VKAPI_ATTR void VKAPI_CALL Queues(VkPhysicalDevice device, uint32_t* count, VkQueueFamilyProperties* out) {
  g_real.queues(device, count, out);
  for (uint32_t i = 0; out != nullptr && FaultLayer::Get().queue && i < *count; ++i) {
    FaultLayer::Get().queue(out + i);
  }
}
VKAPI_ATTR void VKAPI_CALL External(VkPhysicalDevice device, const VkPhysicalDeviceExternalBufferInfo* info,
                                    VkExternalBufferProperties* out) {
  g_real.external(device, info, out);
  if (FaultLayer::Get().external) FaultLayer::Get().external(&out->externalMemoryProperties);
}
VKAPI_ATTR VkResult VKAPI_CALL Devices(VkInstance instance, uint32_t* count, VkPhysicalDevice* out) {
  if (const auto failed = Count("vkEnumeratePhysicalDevices")) return *failed;
  if (!FaultLayer::Get().no_devices) return g_real.devices(instance, count, out);
  *count = 0;
  return VK_SUCCESS;
}

// The wrapper of a function if it has one; `real` is kept for it.
PFN_vkVoidFunction Intercept(const std::string& name, PFN_vkVoidFunction real) {
  if (real == nullptr) return real;
#define TAKE(fn, made)                                            \
  if (name == "vk" #fn) {                                         \
    g_real.fn = reinterpret_cast<PFN_vk##fn>(real);               \
    PFN_vk##fn wrapped = Wrap<PFN_vk##fn>::Call<Entry##fn, made>; \
    return reinterpret_cast<PFN_vkVoidFunction>(wrapped);         \
  }
#define TAKE_MAKING(fn) TAKE(fn, 1)
#define TAKE_ENDING(fn) TAKE(fn, -1)
#define TAKE_OTHERS(fn) TAKE(fn, 0)
  MAKING(TAKE_MAKING)
  ENDING(TAKE_ENDING)
  OTHERS(TAKE_OTHERS)
  const auto as = [](auto function) { return reinterpret_cast<PFN_vkVoidFunction>(function); };
  if (name == "vkGetPhysicalDeviceProperties2") {
    g_real.properties = reinterpret_cast<PFN_vkGetPhysicalDeviceProperties2>(real);
    return as(Properties);
  }
  if (name == "vkGetPhysicalDeviceFeatures2") {
    g_real.features = reinterpret_cast<PFN_vkGetPhysicalDeviceFeatures2>(real);
    return as(Features);
  }
  if (name == "vkGetPhysicalDeviceMemoryProperties2") {
    g_real.memory = reinterpret_cast<PFN_vkGetPhysicalDeviceMemoryProperties2>(real);
    return as(MemoryProperties);
  }
  if (name == "vkGetPhysicalDeviceQueueFamilyProperties") {
    g_real.queues = reinterpret_cast<PFN_vkGetPhysicalDeviceQueueFamilyProperties>(real);
    return as(Queues);
  }
  if (name == "vkGetPhysicalDeviceExternalBufferProperties") {
    g_real.external = reinterpret_cast<PFN_vkGetPhysicalDeviceExternalBufferProperties>(real);
    return as(External);
  }
  if (name == "vkEnumeratePhysicalDevices") {
    g_real.devices = reinterpret_cast<PFN_vkEnumeratePhysicalDevices>(real);
    return as(Devices);
  }
  return real;
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL GetDeviceProc(VkDevice device, const char* name) {
  return Intercept(name, g_real.get_device_proc(device, name));
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL GetInstanceProc(VkInstance instance, const char* name) {
  const PFN_vkVoidFunction real = g_real.get_instance_proc(instance, name);
  if (std::string(name) == "vkGetDeviceProcAddr" && real != nullptr) {
    g_real.get_device_proc = reinterpret_cast<PFN_vkGetDeviceProcAddr>(real);
    return reinterpret_cast<PFN_vkVoidFunction>(GetDeviceProc);
  }
  return Intercept(name, real);
}

// An instance that lives as long as the program keeps the drivers loaded: loading them anew for every test is
// slow, and what a driver leaves behind when it is unloaded would count as the test's leak.
VkInstance KeepDrivers(PFN_vkGetInstanceProcAddr get_proc) {
  const auto create = reinterpret_cast<PFN_vkCreateInstance>(get_proc(nullptr, "vkCreateInstance"));
  const VkInstanceCreateInfo info{VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO};
  VkInstance instance = VK_NULL_HANDLE;
  if (create == nullptr || create(&info, nullptr, &instance) != VK_SUCCESS) return VK_NULL_HANDLE;
  // Some are loaded only now.
  const auto list =
      reinterpret_cast<PFN_vkEnumeratePhysicalDevices>(get_proc(instance, "vkEnumeratePhysicalDevices"));
  uint32_t count = 0;
  list(instance, &count, nullptr);
  return instance;
}

}  // namespace

void FaultLayer::Saw(const char* name) {
  auto call = calls.find(std::string_view(name));
  if (call == calls.end()) call = calls.emplace(name, 0).first;
  ++call->second;
}

FaultLayer& FaultLayer::Get() {
  static FaultLayer layer;
  return layer;
}

void FaultLayer::Fail(std::string name, uint64_t n, VkResult result, bool once) {
  fail = std::move(name);
  fail_at = n;
  fail_result = result;
  fail_once = once;
  matching = 0;
}

void FaultLayer::Reset() {
  EXPECT_EQ(live, 0) << "objects of the driver were left behind";
  *this = FaultLayer();
}

Result<VulkanLoader> FaultLayer::Loader() {
  // Stays open to the end of the program.
  static Result<VulkanLoader> real = VulkanLoader::Open();
  if (!real.ok()) return real.status();
  g_real.get_instance_proc = reinterpret_cast<PFN_vkGetInstanceProcAddr>(real->get_proc());
  [[maybe_unused]] static const VkInstance drivers = KeepDrivers(g_real.get_instance_proc);
  return VulkanLoader(GetInstanceProc);
}

}  // namespace qrt::testing
