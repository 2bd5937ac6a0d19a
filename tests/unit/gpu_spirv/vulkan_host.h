// A Vulkan device that runs one kernel at a time on buffers given by address: for tests of what kernels
// compute.
#ifndef QCC_TESTS_UNIT_GPU_SPIRV_VULKAN_HOST_H_
#define QCC_TESTS_UNIT_GPU_SPIRV_VULKAN_HOST_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace qcc::gpu {

class VulkanHost {
 public:
  // The first device that has what kernels need; null and a reason when there is no loader or no such device,
  // or with a failure of the test when there is one that fails. Opened once per process, with the validation
  // layer where it is installed.
  static VulkanHost* Get(std::string* why);
  ~VulkanHost();

  const std::string& name() const;
  int subgroup_size() const;
  bool int_dot() const;
  bool validated() const;  // the validation layer listens

  // Arguments of the kernel are the addresses of `buffers` (32-bit words, changed in place), then `numbers`.
  // Returns what Vulkan or the validation layer complained about; empty when all went well.
  std::string Run(const std::vector<uint32_t>& words, const std::string& entry, const uint32_t grid[3],
                  std::vector<std::vector<uint32_t>>* buffers, const std::vector<uint64_t>& numbers);

 private:
  VulkanHost();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace qcc::gpu

#endif  // QCC_TESTS_UNIT_GPU_SPIRV_VULKAN_HOST_H_
