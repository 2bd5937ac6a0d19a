#include "runtime/device/vulkan/pipeline_cache.h"

#include <cstring>

namespace qrt {
namespace {

constexpr char kKind[8] = {'V', 'K', 'P', 'I', 'P', 'E', 'S', '1'};

void Append(std::vector<uint8_t>& out, const void* bytes, size_t size) {
  const auto* from = static_cast<const uint8_t*>(bytes);
  out.insert(out.end(), from, from + size);
}

Hash128 KeyOf(const VulkanFacts& facts, const Hash128& code_hash) {
  std::vector<uint8_t> text;
  Append(text, kKind, sizeof kKind);
  const uint32_t numbers[] = {facts.info.vendor_id, facts.info.device_id, facts.driver_version,
                              facts.api_version};
  Append(text, numbers, sizeof numbers);
  Append(text, facts.cache_uuid.data(), facts.cache_uuid.size());
  Append(text, code_hash.data(), code_hash.size());
  return HashOf(text);
}

}  // namespace

PipelineCacheFile::PipelineCacheFile(const std::string& folder, const VulkanFacts& facts,
                                     const Hash128& code_hash)
    : file_(folder, ".vkpipelines", KeyOf(facts, code_hash)),
      vendor_id_(facts.info.vendor_id),
      device_id_(facts.info.device_id),
      uuid_(facts.cache_uuid) {}

std::vector<uint8_t> PipelineCacheFile::Load(std::string* problem) const {
  std::vector<uint8_t> data = file_.Load(problem);
  if (data.empty()) return data;
  const auto bad = [&](const char* what) {
    *problem = file_.path() + " is not used: " + what;
    return std::vector<uint8_t>();
  };
  VkPipelineCacheHeaderVersionOne driver;
  if (data.size() < sizeof driver) return bad("the driver's data are too short");
  std::memcpy(&driver, data.data(), sizeof driver);
  if (driver.headerVersion != VK_PIPELINE_CACHE_HEADER_VERSION_ONE || driver.vendorID != vendor_id_ ||
      driver.deviceID != device_id_ ||
      std::memcmp(driver.pipelineCacheUUID, uuid_.data(), uuid_.size()) != 0) {
    return bad("the driver's data are of another device");
  }
  return data;
}

}  // namespace qrt
