// What devices of toys have in common that keep everything in the host's memory: only Run is left to say.
#ifndef TESTS_UNIT_RUNTIME_HOST_TOY_DEVICE_H_
#define TESTS_UNIT_RUNTIME_HOST_TOY_DEVICE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "runtime/device/cpu/host_memory.h"
#include "runtime/device/device.h"

namespace toy {

class HostToyDevice : public qrt::Device {
 public:
  HostToyDevice(std::string name, uint64_t arena_bytes) : memory_(nullptr), name_(std::move(name)) {
    EXPECT_EQ(memory_.Allocate(arena_bytes, &arena_), qrt::DeviceResult::kOk);
  }
  ~HostToyDevice() override { memory_.Free(&arena_); }

  const std::string& name() const override { return name_; }
  const std::string& variant() const override { return name_; }
  uint32_t threads() const override { return 1; }
  uint64_t code_bytes() const override { return 0; }
  uint64_t scratch_bytes() const override { return arena_.bytes; }
  uint64_t device_weight_bytes() const override { return 0; }
  bool samples() const override { return false; }
  const qrt::DeviceBuffer& arena() const override { return arena_; }
  qrt::DeviceCounters counters() const override { return {}; }
  std::string last_error() const override { return "no"; }

  qrt::DeviceResult Allocate(uint64_t bytes, qrt::DeviceBuffer* buffer) override {
    return memory_.Allocate(bytes, buffer);
  }
  void Free(qrt::DeviceBuffer* buffer) override { memory_.Free(buffer); }
  qrt::DeviceResult Zero(const qrt::DeviceBuffer& buffer) override { return memory_.Zero(buffer); }
  qrt::DeviceResult Read(std::span<const qrt::CopyRange> ranges) override { return memory_.Read(ranges); }
  qrt::DeviceResult Write(std::span<const qrt::CopyRange> ranges) override { return memory_.Write(ranges); }

 protected:
  qrt::HostMemory memory_;
  qrt::DeviceBuffer arena_;

 private:
  const std::string name_;
};

}  // namespace toy

#endif  // TESTS_UNIT_RUNTIME_HOST_TOY_DEVICE_H_
