// A Vulkan instance, with the validation layer where that is asked for.
#ifndef RUNTIME_DEVICE_VULKAN_INSTANCE_H_
#define RUNTIME_DEVICE_VULKAN_INSTANCE_H_

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/device/vulkan/functions.h"
#include "runtime/device/vulkan/vulkan_loader.h"

namespace qrt {

class VulkanInstance {
 public:
  using Log = std::function<void(bool warning, std::string_view line)>;

  // `log` gets the validation layer's messages, from any thread, as long as the instance lives. Errors:
  // Q5011, Q5012 (a loader before Vulkan 1.2), Q5013 (no driver), Q5017 (no validation layer), Q6001.
  static Result<std::unique_ptr<VulkanInstance>> Create(const VulkanLoader& loader, bool validation, Log log);
  ~VulkanInstance();
  VulkanInstance(const VulkanInstance&) = delete;
  VulkanInstance& operator=(const VulkanInstance&) = delete;

  const VkInstanceFunctions& vk() const { return vk_; }
  uint32_t api_version() const { return api_version_; }  // that devices may be used with, at least 1.2
  // In the driver's order.
  const std::vector<VkPhysicalDevice>& devices() const { return devices_; }

 private:
  VulkanInstance(const VulkanLoader& loader, Log log) : loader_(loader), log_(std::move(log)) {}
  Status Init(bool validation);
  static VKAPI_ATTR VkBool32 VKAPI_CALL OnMessage(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
                                                  VkDebugUtilsMessageTypeFlagsEXT type,
                                                  const VkDebugUtilsMessengerCallbackDataEXT* data,
                                                  void* self);

  const VulkanLoader loader_;  // keeps the library open
  const Log log_;
  VkInstanceFunctions vk_;
  uint32_t api_version_ = 0;
  VkInstance instance_ = VK_NULL_HANDLE;
  VkDebugUtilsMessengerEXT messenger_ = VK_NULL_HANDLE;
  PFN_vkDestroyDebugUtilsMessengerEXT destroy_messenger_ = nullptr;
  std::vector<VkPhysicalDevice> devices_;
};

}  // namespace qrt

#endif  // RUNTIME_DEVICE_VULKAN_INSTANCE_H_
