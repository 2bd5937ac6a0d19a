#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/unit/device_vulkan/vulkan_fixture.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

namespace qrt::testing {
namespace {

// Everything of a pNext chain with this type.
template <typename T>
T* Find(void* chain, VkStructureType type) {
  for (auto* s = static_cast<VkBaseOutStructure*>(chain); s != nullptr; s = s->pNext) {
    if (s->sType == type) return reinterpret_cast<T*>(s);
  }
  return nullptr;
}

class VulkanFaults : public VulkanTest {
 protected:
  // The device made with and without memory that the host reaches: other calls, other failures.
  std::vector<VulkanOptions> BothMemories() {
    VulkanOptions one = Options(), other = Options();
    // What the validation layer says of a failed call is about the fault, and it makes this slow.
    one.validation = other.validation = false;
    other.separate_memory = true;
    return {one, other};
  }

  // Limits allocations to `bytes`.
  void LimitAllocations(uint64_t bytes) {
    faults().properties = [bytes](VkPhysicalDeviceProperties2* p) {
      if (auto* p11 = Find<VkPhysicalDeviceVulkan11Properties>(
              p, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES)) {
        p11->maxMemoryAllocationSize = bytes;
      }
    };
  }
};

TEST_F(VulkanFaults, EveryFailureOfCreationIsAnErrorAndLeavesNothing) {
  for (const VulkanOptions& options : BothMemories()) {
    faults().Fail("*", UINT64_MAX, VK_SUCCESS);
    Create(ToyArtifact(), options);
    const uint64_t calls = faults().matching;
    ASSERT_GT(calls, 50u);
    faults().Reset();
    for (const VkResult result :
         {VK_ERROR_OUT_OF_DEVICE_MEMORY, VK_ERROR_DEVICE_LOST, VK_ERROR_INITIALIZATION_FAILED}) {
      std::set<uint32_t> numbers;
      // Every call once; a sample of the rest, because each takes a device.
      const bool all = result == VK_ERROR_OUT_OF_DEVICE_MEMORY && options.separate_memory;
      for (uint64_t n = 1; n <= calls; n += all ? 1 : 7) {
        faults().Fail("*", n, result);
        const Result<std::unique_ptr<Device>> device = TryCreate(ToyArtifact(), options);
        ASSERT_FALSE(device.ok()) << "call " << n;
        numbers.insert(device.status().number());
        ASSERT_EQ(faults().live, 0) << "call " << n;
      }
      const uint32_t expected = result == VK_ERROR_OUT_OF_DEVICE_MEMORY ? 6001
                                : result == VK_ERROR_DEVICE_LOST        ? 5010
                                                                        : 5011;
      EXPECT_EQ(numbers, std::set<uint32_t>{expected});
      faults().Reset();
    }
    ASSERT_NE(Create(ToyArtifact(), options), nullptr) << "after all that";
    faults().Reset();
  }
}

TEST_F(VulkanFaults, OutOfMemoryAtEveryAllocation) {
  for (const VulkanOptions& options : BothMemories()) {
    faults().Reset();
    Create(ToyArtifact(), options);
    const uint64_t allocations = faults().calls["vkAllocateMemory"];
    ASSERT_GT(allocations, 5u);
    for (uint64_t n = 1; n <= allocations; ++n) {
      faults().Fail("vkAllocateMemory", n, VK_ERROR_OUT_OF_DEVICE_MEMORY);
      const Result<std::unique_ptr<Device>> device = TryCreate(ToyArtifact(), options);
      ASSERT_FALSE(device.ok()) << n;
      EXPECT_EQ(device.status().code(), Code::kOutOfMemory) << device.status().ToString();
      EXPECT_EQ(faults().live, 0);
    }
    faults().Reset();
    const std::unique_ptr<Device> device = Create(ToyArtifact(), options);
    ASSERT_NE(device, nullptr);
    // Sessions that do not fit are refused, and the device goes on.
    faults().Fail("vkAllocateMemory", 1, VK_ERROR_OUT_OF_DEVICE_MEMORY);
    DeviceBuffer buffer;
    EXPECT_EQ(device->Allocate(4096, &buffer), DeviceResult::kOutOfMemory);
    EXPECT_TRUE(buffer.empty());
    EXPECT_NE(device->last_error().find("OUT_OF_DEVICE_MEMORY"), std::string::npos) << device->last_error();
    faults().StopFailing();
    ExpectDecodes(*device, {1, 2, 3});
  }
}

TEST_F(VulkanFaults, ALostDeviceStaysLostAndAnotherCanBeMade) {
  for (const VulkanOptions& options : BothMemories()) {
    for (const char* call : {"vkQueueSubmit", "vkWaitForFences"}) {
      for (uint64_t n = 1; n <= 3; ++n) {
        const std::unique_ptr<Device> device = Create(ToyArtifact(), options);
        ASSERT_NE(device, nullptr);
        ToySequence sequence = NewSequence(*device);
        faults().Fail(call, n, VK_ERROR_DEVICE_LOST, /*once=*/true);  // even if the driver comes to itself
        ToyStep step;
        step.parts = {{&sequence, {1}}};
        step.wanted = {0};
        for (uint64_t i = 1; i < n; ++i) EXPECT_EQ(step.Run(*device, kDecode1), DeviceResult::kOk);
        EXPECT_EQ(step.Run(*device, kDecode1), DeviceResult::kLost);
        EXPECT_NE(device->last_error().find("VK_ERROR_DEVICE_LOST"), std::string::npos)
            << device->last_error();
        EXPECT_EQ(step.Run(*device, kDecode1), DeviceResult::kLost);
        DeviceBuffer buffer;
        EXPECT_EQ(device->Allocate(64, &buffer), DeviceResult::kLost);
        EXPECT_EQ(device->Zero(sequence.state), DeviceResult::kLost);
        uint8_t byte = 0;
        const CopyRange range = {&sequence.state, 0, &byte, 1};
        EXPECT_EQ(device->Read({&range, 1}), DeviceResult::kLost);
        EXPECT_EQ(device->Write({&range, 1}), DeviceResult::kLost);
        const std::unique_ptr<Device> another = Create(ToyArtifact(), options);
        ASSERT_NE(another, nullptr);
        ExpectDecodes(*another, {5, 6});
        FreeSequence(*device, sequence);
      }
    }
    faults().StopFailing();
  }
}

// What hangs may still use all that it was given: nothing is freed, nobody waits for ever, and the process
// goes on.
TEST_F(VulkanFaults, AHangIsALostDevice) {
#ifdef __SANITIZE_ADDRESS__
  const __lsan::ScopedDisabler left_on_purpose;
#endif
  for (const VulkanOptions& options : BothMemories()) {
    {
      const std::unique_ptr<Device> device = Create(ToyArtifact(), options);
      ASSERT_NE(device, nullptr);
      ToySequence sequence = NewSequence(*device);
      ToyStep step;
      step.parts = {{&sequence, {1}}};
      step.wanted = {0};
      ASSERT_EQ(device->TimeStages(), DeviceResult::kOk) << device->last_error();  // where queues have clocks
      faults().Fail("vkWaitForFences", 1, VK_TIMEOUT, /*once=*/true);
      faults().calls.clear();
      EXPECT_EQ(step.Run(*device, kDecode1), DeviceResult::kLost);
      EXPECT_NE(device->last_error().find("no answer within 60 s"), std::string::npos)
          << device->last_error();
      EXPECT_EQ(step.Run(*device, kDecode1), DeviceResult::kLost);
      FreeSequence(*device, sequence);
    }
    EXPECT_EQ(faults().calls["vkWaitForFences"], 1u);
    for (const auto& [call, times] : faults().calls) {
      const bool gives_back =
          call.starts_with("vkDestroy") || call.starts_with("vkFree") || call == "vkDeviceWaitIdle";
      EXPECT_EQ(gives_back ? times : 0, 0u) << call;
    }
    EXPECT_GT(faults().live, 0);
    faults().live = 0;
    const std::unique_ptr<Device> another = Create(ToyArtifact(), options);
    ASSERT_NE(another, nullptr);
    ExpectDecodes(*another, {5, 6});
  }
}

TEST_F(VulkanFaults, OtherFailuresOfAStepAreReportedAndPass) {
  const std::unique_ptr<Device> device = Create(ToyArtifact(), BothMemories()[0]);
  ASSERT_NE(device, nullptr);
  ToySequence sequence = NewSequence(*device);
  ToyStep step;
  step.parts = {{&sequence, {1}}};
  step.wanted = {0};
  faults().Fail("vkEndCommandBuffer", 1, VK_ERROR_UNKNOWN);
  EXPECT_EQ(step.Run(*device, kDecode1), DeviceResult::kFailed);
  EXPECT_NE(device->last_error().find("VK_ERROR_UNKNOWN"), std::string::npos) << device->last_error();
  faults().StopFailing();
  EXPECT_EQ(step.Run(*device, kDecode1), DeviceResult::kOk);
  FreeSequence(*device, sequence);
}

TEST_F(VulkanFaults, WeightsAreCutWhereAllocationsAreSmall) {
  LimitAllocations(uint64_t{17} << 20);
  ToyParts parts = Toy();
  // A gap of 20 MiB that no kernel reads before the head's weights: the section must be cut.
  qcc::gpu::GpuCode& code = parts.code;
  const uint64_t gap = (uint64_t{20} << 20);
  const uint64_t head_bytes = kVocab * kWidth * 4;
  const uint64_t head_at = parts.weights.size() * 4 - head_bytes;
  const std::vector<float> head(parts.weights.end() - head_bytes / 4, parts.weights.end());
  parts.weights.resize(parts.weights.size() + gap / 4);
  std::copy(head.begin(), head.end(), parts.weights.end() - head_bytes / 4);
  std::fill_n(parts.weights.begin() + static_cast<std::ptrdiff_t>(head_at / 4), head_bytes / 4, -1.0f);
  for (auto& program : code.programs) {
    for (auto& d : program.dispatches) {
      for (auto& a : d.args) {
        if (a.space == qcc::gpu::Space::kWeights && a.value == head_at) a.value += gap;
      }
    }
  }
  const std::unique_ptr<Artifact> artifact = WriteToy(parts);
  for (const bool separate : {false, true}) {
    VulkanOptions options = Options();
    options.separate_memory = separate;
    const uint64_t before = faults().calls["vkAllocateMemory"];
    const std::unique_ptr<Device> device = Create(*artifact, options);
    ASSERT_NE(device, nullptr);
    const uint64_t cut = faults().calls["vkAllocateMemory"] - before;
    const std::unique_ptr<Device> whole = Create(ToyArtifact(), options);
    EXPECT_GT(cut, faults().calls["vkAllocateMemory"] - before - cut);
    ExpectDecodes(*device, {3, 1, 4});
  }
}

TEST_F(VulkanFaults, WhatCannotBeCutOrDoesNotFitIsRefusedWithNumbers) {
  LimitAllocations(2000);
  auto device = TryCreate(ToyArtifact(), Options());
  ASSERT_EQ(device.status().number(), 5015u) << device.status().ToString();
  EXPECT_NE(device.status().message().find("2560"), std::string::npos) << device.status().ToString();
  faults().Reset();
  faults().memory = [](VkPhysicalDeviceMemoryProperties2* m) {
    for (uint32_t i = 0; i < m->memoryProperties.memoryHeapCount; ++i) {
      m->memoryProperties.memoryHeaps[i].size = 10000;
    }
  };
  device = TryCreate(ToyArtifact(), Options());
  ASSERT_EQ(device.status().number(), 5015u) << device.status().ToString();
  EXPECT_NE(device.status().message().find("10000"), std::string::npos) << device.status().ToString();
}

// The limit is what drivers promise, not all that they can.
TEST_F(VulkanFaults, SessionsMayTakeMoreInOnePieceThanIsPromised) {
  LimitAllocations(uint64_t{1} << 20);
  const std::unique_ptr<Device> device = Create(ToyArtifact(), Options());
  ASSERT_NE(device, nullptr);
  DeviceBuffer buffer;
  ASSERT_EQ(device->Allocate(uint64_t{2} << 20, &buffer), DeviceResult::kOk) << device->last_error();
  device->Free(&buffer);
  faults().Fail("vkAllocateMemory", 1, VK_ERROR_OUT_OF_DEVICE_MEMORY);
  EXPECT_EQ(device->Allocate(uint64_t{2} << 20, &buffer), DeviceResult::kOutOfMemory);
  EXPECT_NE(device->last_error().find("maxMemoryAllocationSize is 1048576"), std::string::npos)
      << device->last_error();
  EXPECT_EQ(device->Allocate(4096, &buffer), DeviceResult::kOutOfMemory);
  EXPECT_EQ(device->last_error().find("maxMemoryAllocationSize"), std::string::npos) << device->last_error();
}

// Intel's drivers accept the artifact's read-only mapping and lose the device at the first submission.
TEST_F(VulkanFaults, NothingIsImportedByDriversThatWouldLoseTheDevice) {
  faults().properties = [](VkPhysicalDeviceProperties2* p) {
    if (auto* driver =
            Find<VkPhysicalDeviceDriverProperties>(p, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES)) {
      driver->driverID = VK_DRIVER_ID_INTEL_OPEN_SOURCE_MESA;
    }
  };
  const std::unique_ptr<Device> device = Create(ToyArtifact(), Options());
  ASSERT_NE(device, nullptr);
  EXPECT_EQ(faults().calls["vkGetMemoryHostPointerPropertiesEXT"], 0u);
  EXPECT_NE(device->device_weight_bytes(), 0u);
  ExpectDecodes(*device, {1, 2, 3});
}

// A driver that has the extension, and buffers that cannot be so, or only alone in their memory.
TEST_F(VulkanFaults, NothingIsImportedThatIsNotImportable) {
  for (const VkExternalMemoryFeatureFlags features :
       {VkExternalMemoryFeatureFlags{0},
        VkExternalMemoryFeatureFlags{VK_EXTERNAL_MEMORY_FEATURE_IMPORTABLE_BIT |
                                     VK_EXTERNAL_MEMORY_FEATURE_DEDICATED_ONLY_BIT}}) {
    faults().external = [=](VkExternalMemoryProperties* p) { p->externalMemoryFeatures = features; };
    const std::unique_ptr<Device> device = Create(ToyArtifact(), Options());
    ASSERT_NE(device, nullptr);
    EXPECT_EQ(faults().calls["vkGetMemoryHostPointerPropertiesEXT"], 0u) << features;
    EXPECT_NE(device->device_weight_bytes(), 0u) << features;
    ExpectDecodes(*device, {1, 2, 3});
  }
}

// An integrated GPU to which the firmware gave next to nothing: the rest of the memory is as good.
TEST_F(VulkanFaults, AnIntegratedGpuTakesItsOtherMemory) {
  faults().memory = [](VkPhysicalDeviceMemoryProperties2* m) {
    VkPhysicalDeviceMemoryProperties& p = m->memoryProperties;
    p.memoryHeaps[p.memoryHeapCount] = {4096, VK_MEMORY_HEAP_DEVICE_LOCAL_BIT};
    p.memoryTypes[p.memoryTypeCount] = {p.memoryTypes[0].propertyFlags, p.memoryHeapCount};
    for (uint32_t i = 0; i < p.memoryTypeCount; ++i) {
      p.memoryTypes[i].propertyFlags &= ~VkMemoryPropertyFlags{VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT};
    }
    ++p.memoryHeapCount;
    ++p.memoryTypeCount;
  };
  const std::unique_ptr<Device> device = Create(ToyArtifact(), Options());
  ASSERT_NE(device, nullptr);
  ExpectDecodes(*device, {1, 2, 3});
  VulkanOptions separate = Options();
  separate.separate_memory = true;
  EXPECT_EQ(TryCreate(ToyArtifact(), separate).status().number(), 5015u)
      << "across a bus that is another matter";
}

// A driver need not refuse it: the specification forbids the question.
TEST_F(VulkanFaults, NothingLargerThanItsHeapIsAskedFor) {
  constexpr uint64_t kHeap = uint64_t{1} << 20;
  faults().memory = [](VkPhysicalDeviceMemoryProperties2* m) {
    for (VkMemoryHeap& heap : m->memoryProperties.memoryHeaps) heap.size = kHeap;
  };
  const std::unique_ptr<Device> device = Create(ToyArtifact(), Options());
  ASSERT_NE(device, nullptr);
  DeviceBuffer buffer;
  EXPECT_EQ(device->Allocate(2 * kHeap, &buffer), DeviceResult::kOutOfMemory);
  EXPECT_LE(faults().largest_asked, kHeap);
}

// Integrated GPUs of AMD: a session would be saved word by word.
TEST_F(VulkanFaults, MemoryThatTheHostDoesNotCacheIsReadByTheDevice) {
  for (const bool cached : {true, false}) {
    faults().memory = [cached](VkPhysicalDeviceMemoryProperties2* m) {
      for (VkMemoryType& type : m->memoryProperties.memoryTypes) {
        if (!cached) type.propertyFlags &= ~VkMemoryPropertyFlags{VK_MEMORY_PROPERTY_HOST_CACHED_BIT};
      }
    };
    const std::unique_ptr<Device> device = Create(ToyArtifact(), Options());
    ASSERT_NE(device, nullptr);
    std::vector<uint8_t> bytes(20 << 20), back(bytes.size());
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 7 + (i >> 12));
    DeviceBuffer buffer;
    ASSERT_EQ(device->Allocate(bytes.size(), &buffer), DeviceResult::kOk) << device->last_error();
    ASSERT_EQ(device->Write({{{&buffer, 0, bytes.data(), bytes.size()}}}), DeviceResult::kOk);
    const uint64_t before = faults().calls["vkQueueSubmit"];
    ASSERT_EQ(device->Read({{{&buffer, 0, back.data(), back.size()}}}), DeviceResult::kOk);
    EXPECT_EQ(faults().calls["vkQueueSubmit"] - before, cached ? 0u : 3u) << "pieces of 8 MiB";
    EXPECT_TRUE(bytes == back);
    device->Free(&buffer);
    ExpectDecodes(*device, {1, 2, 3});
  }
}

TEST_F(VulkanFaults, ADriverThatFailsMakesItsDeviceUnusableInTheList) {
  faults().Fail("vkEnumerateDeviceExtensionProperties", 1, VK_ERROR_INITIALIZATION_FAILED);
  const auto list = ListVulkanDevices(loader());
  ASSERT_TRUE(list.ok()) << list.status().ToString();
  for (const VulkanDeviceInfo& info : *list) {
    EXPECT_FALSE(info.usable);
    EXPECT_NE(info.why_not.find("VK_ERROR_INITIALIZATION_FAILED"), std::string::npos) << info.why_not;
  }
}

TEST_F(VulkanFaults, DevicesWithoutTheFeaturesAreNamedUnusable) {
  faults().features = [](VkPhysicalDeviceFeatures2* f) {
    f->features.shaderInt64 = VK_FALSE;
    if (auto* f12 = Find<VkPhysicalDeviceVulkan12Features>(
            f, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES)) {
      f12->bufferDeviceAddress = VK_FALSE;
      f12->vulkanMemoryModel = VK_FALSE;
    }
  };
  const auto list = ListVulkanDevices(loader());
  ASSERT_TRUE(list.ok());
  for (const VulkanDeviceInfo& info : *list) {
    EXPECT_FALSE(info.usable);
    for (const char* name : {"shaderInt64", "bufferDeviceAddress", "vulkanMemoryModel"}) {
      EXPECT_NE(info.why_not.find(name), std::string::npos) << info.why_not;
    }
  }
  auto device = TryCreate(ToyArtifact(), Options());
  EXPECT_EQ(device.status().number(), 5013u) << device.status().ToString();
  EXPECT_NE(device.status().message().find("shaderInt64"), std::string::npos);
  VulkanOptions first = Options();
  first.index = 0;
  EXPECT_EQ(TryCreate(ToyArtifact(), first).status().number(), 5013u);
  faults().Reset();

  faults().properties = [](VkPhysicalDeviceProperties2* p) { p->properties.apiVersion = VK_API_VERSION_1_1; };
  device = TryCreate(ToyArtifact(), Options());
  EXPECT_EQ(device.status().number(), 5013u) << device.status().ToString();
  EXPECT_NE(device.status().message().find("1.2"), std::string::npos);
  faults().Reset();

  faults().no_devices = true;
  device = TryCreate(ToyArtifact(), Options());
  EXPECT_EQ(device.status().number(), 5013u) << device.status().ToString();
  const auto none = ListVulkanDevices(loader());
  EXPECT_TRUE(none.ok() && none->empty());
}

TEST_F(VulkanFaults, NoDriverAndNoLoaderSayWhatToInstall) {
  faults().Fail("vkCreateInstance", 1, VK_ERROR_INCOMPATIBLE_DRIVER);
  auto list = ListVulkanDevices(loader());
  EXPECT_EQ(list.status().number(), 5013u);
  EXPECT_FALSE(list.status().help().empty());
  const VulkanLoader nothing(+[](VkInstance, const char*) -> PFN_vkVoidFunction { return nullptr; });
  list = ListVulkanDevices(nothing);
  EXPECT_EQ(list.status().number(), 5012u) << list.status().ToString();
  EXPECT_FALSE(list.status().help().empty());
}

TEST_F(VulkanFaults, GridsBeyondTheDeviceAreRefused) {
  faults().properties = [](VkPhysicalDeviceProperties2* p) {
    p->properties.limits.maxComputeWorkGroupCount[0] = 7;
  };
  const auto device = TryCreate(ToyArtifact(), Options());
  EXPECT_EQ(device.status().number(), 5015u) << device.status().ToString();
  EXPECT_NE(device.status().message().find("grid of kernel 'embed' is 8"), std::string::npos);
}

// What every profile takes, and the specification promises.
TEST_F(VulkanFaults, DevicesBelowTheRequiredLimitsAreNamedUnusable) {
  struct Limit {
    std::function<void(VkPhysicalDeviceLimits&)> lower;
    const char* said;
  };
  const Limit limits[] = {
      {[](VkPhysicalDeviceLimits& l) { l.maxComputeWorkGroupInvocations = 127; },
       "its largest workgroup is 127, needed is 128"},
      {[](VkPhysicalDeviceLimits& l) { l.maxComputeWorkGroupSize[0] = 64; },
       "its largest workgroup is 64, needed is 128"},
      {[](VkPhysicalDeviceLimits& l) { l.maxComputeSharedMemorySize = 16383; },
       "its workgroup memory is 16383, needed is 16384"},
      {[](VkPhysicalDeviceLimits& l) { l.maxPushConstantsSize = 64; },
       "its room for push constants is 64, needed is 128"},
  };
  for (const Limit& limit : limits) {
    faults().properties = [&limit](VkPhysicalDeviceProperties2* p) { limit.lower(p->properties.limits); };
    const auto list = ListVulkanDevices(loader());
    ASSERT_TRUE(list.ok());
    for (const VulkanDeviceInfo& info : *list) {
      EXPECT_FALSE(info.usable);
      EXPECT_NE(info.why_not.find(limit.said), std::string::npos) << info.why_not;
    }
    const Status status = TryCreate(ToyArtifact(), Options()).status();
    EXPECT_EQ(status.number(), 5013u) << status.ToString();
    EXPECT_NE(status.message().find(limit.said), std::string::npos) << status.ToString();
  }
}

TEST_F(VulkanFaults, KernelsBeyondTheDeviceAreRefused) {
  const auto refused = [&](const ToyParts& parts, const char* said) {
    const Status status = TryCreate(*WriteToy(parts), Options()).status();
    EXPECT_EQ(status.number(), 5015u) << status.ToString();
    EXPECT_NE(status.message().find(said), std::string::npos) << status.ToString();
  };
  faults().properties = [](VkPhysicalDeviceProperties2* p) {
    p->properties.limits.maxComputeWorkGroupInvocations = 128;
    p->properties.limits.maxComputeSharedMemorySize = 16384;
    if (auto* subgroup = Find<VkPhysicalDeviceSubgroupSizeControlProperties>(
            p, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES)) {
      subgroup->minSubgroupSize = 2;
      subgroup->maxSubgroupSize = 64;
      subgroup->maxComputeWorkgroupSubgroups = 3;
    }
  };
  ToyParts threads = Toy();
  threads.code.kernels[0].spirv =
      CompileGlsl("#version 450\nlayout(local_size_x = 256) in;\nvoid main() {}\n", "wide");
  threads.code.kernels[0].workgroup_size = 256;
  refused(threads, "the workgroup of kernel 'embed' is 256, the device allows 128");
  ToyParts shared = Toy();
  shared.code.kernels[0].shared_bytes = 16388;
  refused(shared, "the workgroup memory of kernel 'embed' is 16388, the device allows 16384");
  // Their size is asked for, since the device has several.
  ToyParts subgroups = Toy();
  subgroups.manifest.code[0].features = {"subgroup-4"};
  refused(subgroups, "the number of subgroups of kernel 'embed' is 4, the device allows 3");
}

}  // namespace
}  // namespace qrt::testing
