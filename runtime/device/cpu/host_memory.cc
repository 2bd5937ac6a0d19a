#include "runtime/device/cpu/host_memory.h"

#include <cstring>
#include <new>

namespace qrt {

DeviceResult HostMemory::Allocate(uint64_t bytes, DeviceBuffer* buffer) {
  Memory memory;
  if (!memory.Allocate(allocator_ ? &*allocator_ : nullptr, bytes)) return DeviceResult::kOutOfMemory;
  Memory* owner = new (std::nothrow) Memory(std::move(memory));
  if (owner == nullptr) return DeviceResult::kOutOfMemory;
  *buffer = {reinterpret_cast<uint64_t>(owner->data()), bytes, owner};
  return DeviceResult::kOk;
}

void HostMemory::FillsInParts(const DeviceBuffer& buffer) {
  // An embedder's is his, and resident.
  if (!allocator_ && !buffer.empty()) PreferSmallPages(Data(buffer), buffer.bytes);
}

void HostMemory::Free(DeviceBuffer* buffer) {
  delete static_cast<Memory*>(buffer->handle);
  *buffer = {};
}

DeviceResult HostMemory::Zero(const DeviceBuffer& buffer) {
  if (!buffer.empty()) std::memset(Data(buffer), 0, buffer.bytes);
  return DeviceResult::kOk;
}

DeviceResult HostMemory::Read(std::span<const CopyRange> ranges) {
  for (const CopyRange& range : ranges) {
    if (range.bytes != 0) std::memcpy(range.host, Data(*range.buffer) + range.offset, range.bytes);
  }
  return DeviceResult::kOk;
}

DeviceResult HostMemory::Write(std::span<const CopyRange> ranges) {
  for (const CopyRange& range : ranges) {
    if (range.bytes != 0) std::memcpy(Data(*range.buffer) + range.offset, range.host, range.bytes);
  }
  return DeviceResult::kOk;
}

}  // namespace qrt
