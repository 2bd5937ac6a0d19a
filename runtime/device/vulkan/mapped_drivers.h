// Keeps drivers where they are once they are mapped, for the rest of the process.
//
// The loader unmaps a driver with the last instance, and maps it again for the next one. With NVIDIA's
// 580.159.04 (H100) and some dozens of instances, one after the other, there is no driver any more (Q5013):
// most likely it takes thread-local memory of the process each time, which does not come back.
// Where four drivers of Mesa are installed, the second listing of devices takes 3 ms instead of 17.
#ifndef RUNTIME_DEVICE_VULKAN_MAPPED_DRIVERS_H_
#define RUNTIME_DEVICE_VULKAN_MAPPED_DRIVERS_H_

namespace qrt {

// All that are mapped, as they are while there is an instance: also where devices are only listed.
void KeepDriversMapped();

// The library that has the code at `address`. Of a device's function: what a driver mapped to make devices,
// or a layer.
void KeepMapped(const void* address);

}  // namespace qrt

#endif  // RUNTIME_DEVICE_VULKAN_MAPPED_DRIVERS_H_
