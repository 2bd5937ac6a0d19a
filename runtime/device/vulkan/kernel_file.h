// What a driver made of an artifact's kernels, kept between runs: a file in a folder of the user's.
#ifndef RUNTIME_DEVICE_VULKAN_KERNEL_FILE_H_
#define RUNTIME_DEVICE_VULKAN_KERNEL_FILE_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/hash.h"

namespace qrt {

// A file is used only if it is exactly what Save wrote for the same key: a driver may crash on bytes that it
// did not write itself.
class KernelFile {
 public:
  // `folder` empty: nothing is read or written. `suffix`: of the kind of file (".vkpipelines"). `key`: of all
  // that the bytes depend on: device, driver, the artifact's code.
  KernelFile(const std::string& folder, std::string_view suffix, const Hash128& key);

  // Empty when there is no file, or not a good one; *problem then says why if it is damaged or foreign.
  std::vector<uint8_t> Load(std::string* problem) const;
  // Replaces the file. Empty: done; else why not. What was there stays whole.
  std::string Save(std::span<const uint8_t> data) const;

  const std::string& path() const { return path_; }  // empty: none

 private:
  std::string path_;
  Hash128 key_;
};

}  // namespace qrt

#endif  // RUNTIME_DEVICE_VULKAN_KERNEL_FILE_H_
