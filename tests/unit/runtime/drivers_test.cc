// The table of drivers: known targets, --device and the list of devices follow from it, in its order.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/capi/device_candidates.h"
#include "runtime/capi/devices.h"

namespace qrt::capi {
namespace {

std::vector<std::string> Kinds() {
  std::vector<std::string> kinds;
  for (const Driver& driver : Drivers()) kinds.emplace_back(driver.kind);
  return kinds;
}

TEST(Drivers, AreTheTargetsThatTheRuntimeKnows) {
  EXPECT_EQ(Kinds(), (std::vector<std::string>{"cpu", "cuda", "vulkan"}));
  for (const Driver& driver : Drivers()) {
    EXPECT_TRUE(KnownTarget(driver.kind)) << driver.kind;
    EXPECT_EQ(FindDriver(driver.kind), &driver);
    EXPECT_EQ(driver.accelerator, driver.kind != "cpu");
  }
  for (const char* unknown : {"", "auto", "cpu ", "metal", "vulkan:0"}) {
    EXPECT_FALSE(KnownTarget(unknown)) << unknown;
    EXPECT_EQ(FindDriver(unknown), nullptr) << unknown;
  }
}

TEST(Drivers, AreWhatDeviceNames) {
  for (const Driver& driver : Drivers()) {
    const std::string kind(driver.kind);
    Result<DeviceWish> wish = ParseDevice(kind);
    ASSERT_TRUE(wish.ok()) << kind;
    EXPECT_EQ(wish->kind, kind);
    EXPECT_EQ(wish->index, -1);
    Result<DeviceWish> numbered = ParseDevice(kind + ":3");
    EXPECT_EQ(numbered.ok(), driver.accelerator) << kind;
    if (numbered.ok()) {
      EXPECT_EQ(numbered->index, 3);
    }
  }
  for (const char* bad : {":1", "auto:0", "gpu", "vulkan:", "cuda:-1"}) {
    const Result<DeviceWish> wish = ParseDevice(bad);
    ASSERT_FALSE(wish.ok()) << bad;
    EXPECT_EQ(wish.status().number(), 5008u);
    EXPECT_EQ(wish.status().help(),
              "expected cpu, cuda, cuda:N, vulkan, vulkan:N or auto; qrun devices lists them");
  }
}

TEST(Drivers, ListTheirDevicesInOrder) {
  std::vector<std::string> kinds;
  for (const qrt_device_info& device : ListDevices()) {
    const std::string id = device.id;
    const std::string kind = id.substr(0, id.find(':'));
    if (kinds.empty() || kinds.back() != kind) kinds.push_back(kind);
  }
  EXPECT_EQ(kinds, Kinds()) << "each has an entry, also where there is no such device";
}

}  // namespace
}  // namespace qrt::capi
