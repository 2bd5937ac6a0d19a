// Device buffers that are host memory.
#ifndef RUNTIME_DEVICE_CPU_HOST_MEMORY_H_
#define RUNTIME_DEVICE_CPU_HOST_MEMORY_H_

#include <cstdint>
#include <optional>
#include <span>

#include "runtime/base/memory.h"
#include "runtime/device/device.h"

namespace qrt {

// The memory half of a Device whose programs run in this process.
class HostMemory {
 public:
  // `allocator` NULL: pages of the system, resident when first touched.
  explicit HostMemory(const qrt_allocator* allocator) {
    if (allocator != nullptr) allocator_ = *allocator;
  }

  DeviceResult Allocate(uint64_t bytes, DeviceBuffer* buffer);
  void FillsInParts(const DeviceBuffer& buffer);
  void Free(DeviceBuffer* buffer);
  DeviceResult Zero(const DeviceBuffer& buffer);
  DeviceResult Read(std::span<const CopyRange> ranges);
  DeviceResult Write(std::span<const CopyRange> ranges);

  static uint8_t* Data(const DeviceBuffer& buffer) { return reinterpret_cast<uint8_t*>(buffer.address); }

 private:
  std::optional<qrt_allocator> allocator_;
};

}  // namespace qrt

#endif  // RUNTIME_DEVICE_CPU_HOST_MEMORY_H_
