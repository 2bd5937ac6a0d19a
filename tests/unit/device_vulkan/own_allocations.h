// Counts what the program's own code allocates: calls of operator new and malloc whose caller, behind those
// of the C++ library, stands in the program itself. A driver, which is loaded, and shares operator new with
// the program, is not counted.
#ifndef TESTS_UNIT_DEVICE_VULKAN_OWN_ALLOCATIONS_H_
#define TESTS_UNIT_DEVICE_VULKAN_OWN_ALLOCATIONS_H_

namespace qrt::testing {

// From its making to Stop, on all threads. One at a time.
class OwnAllocations {
 public:
  // `elsewhere`: whether the calling thread runs what stands for a driver, whose allocations do not count.
  explicit OwnAllocations(bool (*elsewhere)() = nullptr);
  ~OwnAllocations() { Stop(); }
  OwnAllocations(const OwnAllocations&) = delete;
  OwnAllocations& operator=(const OwnAllocations&) = delete;

  long Stop();  // the count
};

}  // namespace qrt::testing

#endif  // TESTS_UNIT_DEVICE_VULKAN_OWN_ALLOCATIONS_H_
