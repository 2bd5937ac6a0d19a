// What the processor can do and the operating system lets it do. Names are those of /proc/cpuinfo ("avx2",
// "avx512_vnni", "amx_int8").
#ifndef QRT_BASE_CPU_FEATURES_H_
#define QRT_BASE_CPU_FEATURES_H_

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace qrt {

class CpuFeatures {
 public:
  CpuFeatures() = default;  // none
  // Asks cpuid. A vector extension counts only if the system saves its registers (xgetbv).
  static CpuFeatures Detect();
  // For tests: exactly these; unknown names are ignored.
  static CpuFeatures FromNames(std::span<const std::string_view> names);

  // False for names that this runtime does not know: code that asks for them cannot be judged, so it does not
  // run.
  bool Has(std::string_view name) const;
  // Those of `wanted` that are not there, in order.
  std::vector<std::string> Missing(std::span<const std::string> wanted) const;
  // Names of all that are there, in a fixed order.
  std::vector<std::string_view> Names() const;

  // Every name that Detect can give.
  static std::span<const std::string_view> Known();

 private:
  std::bitset<64> has_;
};

// Who made the processor and which of its designs it is, for what no feature tells.
struct CpuModel {
  std::string vendor;   // as cpuid says it ("AuthenticAMD"), empty if it does not tell
  uint32_t family = 0;  // with the extended family added
};
CpuModel DetectCpuModel();

// Brand string of the processor ("AMD EPYC ..."), empty if it does not tell.
std::string CpuBrand();

}  // namespace qrt

#endif  // QRT_BASE_CPU_FEATURES_H_
