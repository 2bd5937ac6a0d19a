#include "runtime/device/vulkan/instance.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "runtime/device/vulkan/mapped_drivers.h"

namespace qrt {
namespace {

constexpr char kValidationLayer[] = "VK_LAYER_KHRONOS_validation";

Status OldLoader(const std::string& found) {
  return Status(Code::kDeviceUnsupported, 5012, "the Vulkan loader is too old: " + found + ", expected 1.2",
                "device vulkan", "install a newer libvulkan1");
}

std::string Version(uint32_t version) {
  return std::to_string(VK_API_VERSION_MAJOR(version)) + "." + std::to_string(VK_API_VERSION_MINOR(version));
}

}  // namespace

VKAPI_ATTR VkBool32 VKAPI_CALL VulkanInstance::OnMessage(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
                                                         VkDebugUtilsMessageTypeFlagsEXT,
                                                         const VkDebugUtilsMessengerCallbackDataEXT* data,
                                                         void* self) {
  const auto* instance = static_cast<const VulkanInstance*>(self);
  if (instance->log_) {
    instance->log_(severity >= VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT, data->pMessage);
  }
  return VK_FALSE;
}

Result<std::unique_ptr<VulkanInstance>> VulkanInstance::Create(const VulkanLoader& loader, bool validation,
                                                               Log log) {
  std::unique_ptr<VulkanInstance> instance(new VulkanInstance(loader, std::move(log)));
  QRT_RETURN_IF_ERROR(instance->Init(validation));
  return instance;
}

Status VulkanInstance::Init(bool validation) {
  VkGlobalFunctions global;
  const std::string missing = LoadFunctions(loader_.get_proc(), &global);
  if (!missing.empty()) return OldLoader("it has no " + missing);
  uint32_t version = VK_API_VERSION_1_0;
  VkResult result = global.EnumerateInstanceVersion(&version);
  if (result != VK_SUCCESS) return VulkanError(result, "to tell its version");
  if (version < VK_API_VERSION_1_2) return OldLoader("it has Vulkan " + Version(version));

  VkApplicationInfo application{VK_STRUCTURE_TYPE_APPLICATION_INFO};
  application.pApplicationName = "qrt";
  api_version_ = std::min<uint32_t>(version, VK_API_VERSION_1_3);
  application.apiVersion = api_version_;
  VkInstanceCreateInfo create{VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO};
  create.pApplicationInfo = &application;
  const char* layers[] = {kValidationLayer};
  const char* extensions[] = {VK_EXT_DEBUG_UTILS_EXTENSION_NAME};
  VkDebugUtilsMessengerCreateInfoEXT messages{VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT};
  if (validation) {
    uint32_t count = 0;
    result = global.EnumerateInstanceLayerProperties(&count, nullptr);
    std::vector<VkLayerProperties> found(count);
    if (result == VK_SUCCESS) result = global.EnumerateInstanceLayerProperties(&count, found.data());
    if (result != VK_SUCCESS) return VulkanError(result, "to list layers");
    if (std::none_of(found.begin(), found.end(),
                     [](const auto& l) { return std::strcmp(l.layerName, kValidationLayer) == 0; })) {
      return Status(Code::kDeviceUnsupported, 5017,
                    std::string("the validation layer ") + kValidationLayer + " is not installed",
                    "device vulkan", "install vulkan-validationlayers, or do without");
    }
    messages.messageSeverity =
        VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
    messages.messageType =
        VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_TYPE_PERFORMANCE_BIT_EXT;
    messages.pfnUserCallback = OnMessage;
    messages.pUserData = this;
    create.enabledLayerCount = 1;
    create.ppEnabledLayerNames = layers;
    create.enabledExtensionCount = 1;
    create.ppEnabledExtensionNames = extensions;
    create.pNext = &messages;
  }
  result = global.CreateInstance(&create, nullptr, &instance_);
  if (result == VK_ERROR_INCOMPATIBLE_DRIVER) {
    return Status(Code::kDeviceUnsupported, 5013, "there is no Vulkan driver", "device vulkan",
                  "install the GPU's driver; mesa-vulkan-drivers has one that runs on the CPU");
  }
  if (result != VK_SUCCESS) {
    instance_ = VK_NULL_HANDLE;
    return VulkanError(result, "to make an instance");
  }
  KeepDriversMapped();
  const std::string lacking = LoadFunctions(loader_.get_proc(), instance_, &vk_);
  if (!lacking.empty()) return OldLoader("it has no " + lacking);
  if (validation) {
    const auto get = [this](const char* name) { return loader_.get_proc()(instance_, name); };
    const auto make =
        reinterpret_cast<PFN_vkCreateDebugUtilsMessengerEXT>(get("vkCreateDebugUtilsMessengerEXT"));
    destroy_messenger_ =
        reinterpret_cast<PFN_vkDestroyDebugUtilsMessengerEXT>(get("vkDestroyDebugUtilsMessengerEXT"));
    if (make != nullptr && destroy_messenger_ != nullptr) {
      result = make(instance_, &messages, nullptr, &messenger_);
      if (result != VK_SUCCESS) return VulkanError(result, "to listen to the validation layer");
    }
  }
  // A device may appear between the two calls: VK_INCOMPLETE leaves it out.
  uint32_t count = 0;
  result = vk_.EnumeratePhysicalDevices(instance_, &count, nullptr);
  if (result == VK_SUCCESS && count != 0) {
    devices_.resize(count);
    result = vk_.EnumeratePhysicalDevices(instance_, &count, devices_.data());
    devices_.resize(count);
  }
  if (result != VK_SUCCESS && result != VK_INCOMPLETE) return VulkanError(result, "to list devices");
  return Status();
}

VulkanInstance::~VulkanInstance() {
  if (messenger_ != VK_NULL_HANDLE) destroy_messenger_(instance_, messenger_, nullptr);
  if (instance_ != VK_NULL_HANDLE && vk_.DestroyInstance != nullptr) vk_.DestroyInstance(instance_, nullptr);
}

}  // namespace qrt
