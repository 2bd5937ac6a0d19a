#include "vulkan_host.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstring>

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan.h>

namespace qcc::gpu {

// Entry points of the loader that are used here.
#define QCC_VK_FUNCTIONS(X)            \
  X(EnumeratePhysicalDevices)          \
  X(GetPhysicalDeviceProperties2)      \
  X(GetPhysicalDeviceFeatures2)        \
  X(GetPhysicalDeviceMemoryProperties) \
  X(CreateDevice)                      \
  X(GetDeviceQueue)                    \
  X(CreateBuffer)                      \
  X(DestroyBuffer)                     \
  X(GetBufferMemoryRequirements)       \
  X(AllocateMemory)                    \
  X(FreeMemory)                        \
  X(BindBufferMemory)                  \
  X(MapMemory)                         \
  X(GetBufferDeviceAddress)            \
  X(CreateShaderModule)                \
  X(DestroyShaderModule)               \
  X(CreatePipelineLayout)              \
  X(DestroyPipelineLayout)             \
  X(CreateComputePipelines)            \
  X(DestroyPipeline)                   \
  X(CreateCommandPool)                 \
  X(AllocateCommandBuffers)            \
  X(ResetCommandPool)                  \
  X(BeginCommandBuffer)                \
  X(EndCommandBuffer)                  \
  X(CmdBindPipeline)                   \
  X(CmdPushConstants)                  \
  X(CmdDispatch)                       \
  X(QueueSubmit)                       \
  X(QueueWaitIdle)

struct VulkanHost::State {
  VkInstance instance = VK_NULL_HANDLE;
  VkPhysicalDevice physical = VK_NULL_HANDLE;
  VkDevice device = VK_NULL_HANDLE;
  VkQueue queue = VK_NULL_HANDLE;
  VkCommandPool pool = VK_NULL_HANDLE;
  VkCommandBuffer commands = VK_NULL_HANDLE;
  uint32_t memory_type = 0;
  std::string name;
  int subgroup_size = 0;
  bool int_dot = false;
  bool validated = false;
  std::string complaints;
  bool broken = false;  // what Open says is no lack of the machine
#define QCC_VK_MEMBER(f) PFN_vk##f f = nullptr;
  QCC_VK_FUNCTIONS(QCC_VK_MEMBER)
#undef QCC_VK_MEMBER

  // Each says what is missing, or returns null.
  const char* Open(PFN_vkGetInstanceProcAddr get);
  const char* MakeInstance(PFN_vkGetInstanceProcAddr get);
  const char* MakeDevice();
  const char* MakeCommands();
  // Whether the device has what kernels need and could be opened.
  bool Take(VkPhysicalDevice candidate);
};

namespace {

template <typename T>
T Start(VkStructureType type, const void* next = nullptr) {
  T out = {};
  out.sType = type;
  out.pNext = const_cast<void*>(next);
  return out;
}

VKAPI_ATTR VkBool32 VKAPI_CALL Complain(VkDebugUtilsMessageSeverityFlagBitsEXT,
                                        VkDebugUtilsMessageTypeFlagsEXT,
                                        const VkDebugUtilsMessengerCallbackDataEXT* data, void* user) {
  static_cast<std::string*>(user)->append(data->pMessage).append("\n");
  return VK_FALSE;
}

}  // namespace

VulkanHost::VulkanHost() : state_(std::make_unique<State>()) {}
VulkanHost::~VulkanHost() = default;
const std::string& VulkanHost::name() const {
  return state_->name;
}
int VulkanHost::subgroup_size() const {
  return state_->subgroup_size;
}
bool VulkanHost::validated() const {
  return state_->validated;
}
bool VulkanHost::int_dot() const {
  return state_->int_dot;
}

const char* VulkanHost::State::MakeInstance(PFN_vkGetInstanceProcAddr get) {
  auto create = reinterpret_cast<PFN_vkCreateInstance>(get(nullptr, "vkCreateInstance"));
  auto layers_of = reinterpret_cast<PFN_vkEnumerateInstanceLayerProperties>(
      get(nullptr, "vkEnumerateInstanceLayerProperties"));
  uint32_t count = 0;
  layers_of(&count, nullptr);
  std::vector<VkLayerProperties> layers(count);
  layers_of(&count, layers.data());
  const char* const kLayer = "VK_LAYER_KHRONOS_validation";
  const char* const kExtension = VK_EXT_DEBUG_UTILS_EXTENSION_NAME;
  bool validate = false;
  for (const VkLayerProperties& layer : layers) validate |= std::strcmp(layer.layerName, kLayer) == 0;

  auto application = Start<VkApplicationInfo>(VK_STRUCTURE_TYPE_APPLICATION_INFO);
  application.apiVersion = VK_API_VERSION_1_3;
  auto info = Start<VkInstanceCreateInfo>(VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO);
  info.pApplicationInfo = &application;
  if (validate) {
    info.enabledLayerCount = info.enabledExtensionCount = 1;
    info.ppEnabledLayerNames = &kLayer;
    info.ppEnabledExtensionNames = &kExtension;
  }
  if (const VkResult made = create(&info, nullptr, &instance); made != VK_SUCCESS) {
    broken = made != VK_ERROR_INCOMPATIBLE_DRIVER;
    return broken ? "vkCreateInstance fails" : "no Vulkan driver on this machine";
  }
  if (validate) {
    auto messenger =
        Start<VkDebugUtilsMessengerCreateInfoEXT>(VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT);
    messenger.messageSeverity =
        VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
    messenger.messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT;
    messenger.pfnUserCallback = Complain;
    messenger.pUserData = &complaints;
    VkDebugUtilsMessengerEXT handle;
    auto listen =
        reinterpret_cast<PFN_vkCreateDebugUtilsMessengerEXT>(get(instance, "vkCreateDebugUtilsMessengerEXT"));
    validated = listen(instance, &messenger, nullptr, &handle) == VK_SUCCESS;
  }
  return nullptr;
}

bool VulkanHost::State::Take(VkPhysicalDevice candidate) {
  auto f13 = Start<VkPhysicalDeviceVulkan13Features>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES);
  auto f12 =
      Start<VkPhysicalDeviceVulkan12Features>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES, &f13);
  auto features = Start<VkPhysicalDeviceFeatures2>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, &f12);
  GetPhysicalDeviceFeatures2(candidate, &features);
  if (!features.features.shaderInt64 || !f12.bufferDeviceAddress || !f12.vulkanMemoryModel) return false;
  auto p11 =
      Start<VkPhysicalDeviceVulkan11Properties>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES);
  auto properties = Start<VkPhysicalDeviceProperties2>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, &p11);
  GetPhysicalDeviceProperties2(candidate, &properties);
  physical = candidate;
  name = properties.properties.deviceName;
  subgroup_size = static_cast<int>(p11.subgroupSize);
  int_dot = f13.shaderIntegerDotProduct;

  auto want13 =
      Start<VkPhysicalDeviceVulkan13Features>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES);
  want13.shaderIntegerDotProduct = f13.shaderIntegerDotProduct;
  auto want12 =
      Start<VkPhysicalDeviceVulkan12Features>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES, &want13);
  want12.bufferDeviceAddress = want12.vulkanMemoryModel = VK_TRUE;
  auto want = Start<VkPhysicalDeviceFeatures2>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, &want12);
  want.features.shaderInt64 = VK_TRUE;
  float priority = 1;
  auto queue_info = Start<VkDeviceQueueCreateInfo>(VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO);
  queue_info.queueCount = 1;
  queue_info.pQueuePriorities = &priority;
  auto info = Start<VkDeviceCreateInfo>(VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, &want);
  info.queueCreateInfoCount = 1;
  info.pQueueCreateInfos = &queue_info;
  if (CreateDevice(candidate, &info, nullptr, &device) == VK_SUCCESS) return true;
  device = VK_NULL_HANDLE;
  broken = true;
  return false;
}

const char* VulkanHost::State::MakeDevice() {
  uint32_t count = 0;
  EnumeratePhysicalDevices(instance, &count, nullptr);
  std::vector<VkPhysicalDevice> devices(count);
  EnumeratePhysicalDevices(instance, &count, devices.data());
  for (VkPhysicalDevice candidate : devices)
    if (Take(candidate)) return nullptr;
  return broken ? "a Vulkan device with all that kernels need cannot be opened"
                : "no Vulkan device with bufferDeviceAddress, shaderInt64 and vulkanMemoryModel";
}

const char* VulkanHost::State::MakeCommands() {
  broken = true;  // unless all goes well
  GetDeviceQueue(device, 0, 0, &queue);
  VkPhysicalDeviceMemoryProperties memory;
  GetPhysicalDeviceMemoryProperties(physical, &memory);
  for (uint32_t i = memory.memoryTypeCount; i-- > 0;) {
    VkMemoryPropertyFlags need = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    if ((memory.memoryTypes[i].propertyFlags & need) == need) memory_type = i;
  }
  auto pool_info = Start<VkCommandPoolCreateInfo>(VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO);
  if (CreateCommandPool(device, &pool_info, nullptr, &pool) != VK_SUCCESS) return "no command pool";
  auto info = Start<VkCommandBufferAllocateInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO);
  info.commandPool = pool;
  info.commandBufferCount = 1;
  return AllocateCommandBuffers(device, &info, &commands) == VK_SUCCESS ? nullptr : "no command buffer";
}

const char* VulkanHost::State::Open(PFN_vkGetInstanceProcAddr get) {
  if (const char* why = MakeInstance(get)) return why;
#define QCC_VK_LOAD(f) f = reinterpret_cast<PFN_vk##f>(get(instance, "vk" #f));
  QCC_VK_FUNCTIONS(QCC_VK_LOAD)
#undef QCC_VK_LOAD
  if (const char* why = MakeDevice()) return why;
  return MakeCommands();
}

VulkanHost* VulkanHost::Get(std::string* why) {
  static std::string reason;
  static VulkanHost* const host = []() -> VulkanHost* {
    void* library = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      reason = "no Vulkan loader (libvulkan.so.1) on this machine";
      return nullptr;
    }
    auto* made = new VulkanHost();
    const char* missing = made->state_->Open(
        reinterpret_cast<PFN_vkGetInstanceProcAddr>(dlsym(library, "vkGetInstanceProcAddr")));
    if (!missing) return made;
    reason = missing;
    // All that ask would skip: what fails, and is not just missing, is said by the first.
    if (made->state_->broken) ADD_FAILURE() << reason;
    return nullptr;
  }();
  if (!host) *why = reason;
  return host;
}

std::string VulkanHost::Run(const std::vector<uint32_t>& words, const std::string& entry,
                            const uint32_t grid[3], std::vector<std::vector<uint32_t>>* buffers,
                            const std::vector<uint64_t>& numbers) {
  State& s = *state_;
  s.complaints.clear();
  std::string failed;
  auto check = [&](VkResult result, const char* what) {
    if (result != VK_SUCCESS && failed.empty()) failed = std::string(what) + ": " + std::to_string(result);
    return failed.empty();
  };
  struct Memory {
    VkBuffer buffer = VK_NULL_HANDLE;
    VkDeviceMemory memory = VK_NULL_HANDLE;
    void* host = nullptr;
  };
  std::vector<Memory> memories(buffers->size());
  std::vector<uint64_t> args;
  for (size_t i = 0; i < buffers->size(); ++i) {
    Memory& m = memories[i];
    auto buffer = Start<VkBufferCreateInfo>(VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO);
    buffer.size = 4 * (*buffers)[i].size();
    buffer.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT;
    if (!check(s.CreateBuffer(s.device, &buffer, nullptr, &m.buffer), "vkCreateBuffer")) break;
    VkMemoryRequirements need;
    s.GetBufferMemoryRequirements(s.device, m.buffer, &need);
    auto flags = Start<VkMemoryAllocateFlagsInfo>(VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO);
    flags.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT;
    auto allocate = Start<VkMemoryAllocateInfo>(VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, &flags);
    allocate.allocationSize = need.size;
    allocate.memoryTypeIndex = s.memory_type;
    if (!check(s.AllocateMemory(s.device, &allocate, nullptr, &m.memory), "vkAllocateMemory")) break;
    if (!check(s.BindBufferMemory(s.device, m.buffer, m.memory, 0), "vkBindBufferMemory")) break;
    if (!check(s.MapMemory(s.device, m.memory, 0, VK_WHOLE_SIZE, 0, &m.host), "vkMapMemory")) break;
    std::memcpy(m.host, (*buffers)[i].data(), buffer.size);
    VkBufferDeviceAddressInfo address{VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO, nullptr, m.buffer};
    args.push_back(s.GetBufferDeviceAddress(s.device, &address));
  }
  args.insert(args.end(), numbers.begin(), numbers.end());

  VkShaderModule module = VK_NULL_HANDLE;
  VkPipelineLayout layout = VK_NULL_HANDLE;
  VkPipeline pipeline = VK_NULL_HANDLE;
  VkPushConstantRange range{VK_SHADER_STAGE_COMPUTE_BIT, 0, static_cast<uint32_t>(8 * args.size())};
  auto code = Start<VkShaderModuleCreateInfo>(VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO);
  code.codeSize = 4 * words.size();
  code.pCode = words.data();
  auto layout_info = Start<VkPipelineLayoutCreateInfo>(VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO);
  layout_info.pushConstantRangeCount = args.empty() ? 0 : 1;
  layout_info.pPushConstantRanges = &range;
  bool good =
      failed.empty() &&
      check(s.CreateShaderModule(s.device, &code, nullptr, &module), "vkCreateShaderModule") &&
      check(s.CreatePipelineLayout(s.device, &layout_info, nullptr, &layout), "vkCreatePipelineLayout");
  if (good) {
    auto info = Start<VkComputePipelineCreateInfo>(VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO);
    info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
    info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
    info.stage.module = module;
    info.stage.pName = entry.c_str();
    info.layout = layout;
    good = check(s.CreateComputePipelines(s.device, VK_NULL_HANDLE, 1, &info, nullptr, &pipeline),
                 "vkCreateComputePipelines");
  }
  if (good) {
    s.ResetCommandPool(s.device, s.pool, 0);
    auto begin = Start<VkCommandBufferBeginInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO);
    check(s.BeginCommandBuffer(s.commands, &begin), "vkBeginCommandBuffer");
    s.CmdBindPipeline(s.commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
    if (!args.empty())
      s.CmdPushConstants(s.commands, layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, range.size, args.data());
    s.CmdDispatch(s.commands, grid[0], grid[1], grid[2]);
    check(s.EndCommandBuffer(s.commands), "vkEndCommandBuffer");
    auto submit = Start<VkSubmitInfo>(VK_STRUCTURE_TYPE_SUBMIT_INFO);
    submit.commandBufferCount = 1;
    submit.pCommandBuffers = &s.commands;
    check(s.QueueSubmit(s.queue, 1, &submit, VK_NULL_HANDLE), "vkQueueSubmit");
    check(s.QueueWaitIdle(s.queue), "vkQueueWaitIdle");
  }
  for (size_t i = 0; i < memories.size(); ++i) {
    Memory& m = memories[i];
    if (failed.empty()) std::memcpy((*buffers)[i].data(), m.host, 4 * (*buffers)[i].size());
    if (m.buffer) s.DestroyBuffer(s.device, m.buffer, nullptr);
    if (m.memory) s.FreeMemory(s.device, m.memory, nullptr);
  }
  if (pipeline) s.DestroyPipeline(s.device, pipeline, nullptr);
  if (layout) s.DestroyPipelineLayout(s.device, layout, nullptr);
  if (module) s.DestroyShaderModule(s.device, module, nullptr);
  return failed + s.complaints;
}

}  // namespace qcc::gpu
