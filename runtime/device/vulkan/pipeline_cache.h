// Compiled kernels kept between runs: one file per device, driver and artifact code in a folder of the
// user's.
#ifndef RUNTIME_DEVICE_VULKAN_PIPELINE_CACHE_H_
#define RUNTIME_DEVICE_VULKAN_PIPELINE_CACHE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/hash.h"
#include "runtime/base/status.h"
#include "runtime/device/vulkan/facts.h"
#include "runtime/device/vulkan/kernel_file.h"

namespace qrt {

class PipelineCacheFile {
 public:
  // `folder` empty: nothing is read or written.
  PipelineCacheFile(const std::string& folder, const VulkanFacts& facts, const Hash128& code_hash);

  // Empty when there is no file, or not a good one; *problem then says why if it is damaged or foreign.
  std::vector<uint8_t> Load(std::string* problem) const;
  // Replaces the file. Empty: done; else why not. What was there stays whole.
  std::string Save(const std::vector<uint8_t>& data) const { return file_.Save(data); }

  const std::string& path() const { return file_.path(); }  // empty: none

 private:
  KernelFile file_;
  uint32_t vendor_id_, device_id_;
  std::array<uint8_t, VK_UUID_SIZE> uuid_;
};

}  // namespace qrt

#endif  // RUNTIME_DEVICE_VULKAN_PIPELINE_CACHE_H_
