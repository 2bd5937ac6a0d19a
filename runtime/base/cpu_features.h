// What the processor can do and the operating system lets it do. Names are those of /proc/cpuinfo ("avx2",
// "avx512_vnni", "amx_int8"), and one that it does not have: "xtiledata", tile registers for programs that
// ask.
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
  // The same but for `name`.
  CpuFeatures Without(std::string_view name) const;
  // Names of all that are there, in a fixed order.
  std::vector<std::string_view> Names() const;

  // Every name that Detect can give.
  static std::span<const std::string_view> Known();

 private:
  std::bitset<64> has_;
};

// Asks the kernel for tile registers, which it keeps for no program that has not asked (they are "xtiledata"
// of Detect). The answer is the process's: threads that run already have them too, and so has a child of
// fork(). False: they are not there, or the kernel refuses, because an alternate signal stack of some thread
// is too small for them, say; once they are given it refuses such stacks instead (sigaltstack). So it is
// asked only for code that needs them.
bool RequestTileRegisters();

// Who made the processor and which of its designs it is, for what no feature tells.
struct CpuModel {
  std::string vendor;   // as cpuid says it ("AuthenticAMD"), empty if it does not tell
  uint32_t family = 0;  // with the extended family added
  uint32_t model = 0;   // with the extended model above it
};
CpuModel DetectCpuModel();

// Brand string of the processor ("AMD EPYC ..."), empty if it does not tell.
std::string CpuBrand();

}  // namespace qrt

#endif  // QRT_BASE_CPU_FEATURES_H_
