#include "runtime/base/cpu_features.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace qrt {
namespace {

// Which register of which cpuid leaf tells about a feature (kOnRequest: what the kernel says it gives
// programs that ask), and which register file the system must save for it.
enum class Leaf : uint8_t { k1Ecx, k1Edx, k7Ebx, k7Ecx, k7Edx, k7Sub1Eax, kExt1Ecx, kOnRequest };
enum class Saved : uint8_t { kSse, kAvx, kAvx512, kAmx };

constexpr uint8_t kTileData = 18;  // the number of this register file, of XCR0 and of the kernel

struct Feature {
  std::string_view name;
  Leaf leaf;
  uint8_t bit;
  Saved saved;
};

constexpr std::array kFeatures = {
    Feature{"sse2", Leaf::k1Edx, 26, Saved::kSse},
    Feature{"pni", Leaf::k1Ecx, 0, Saved::kSse},
    Feature{"ssse3", Leaf::k1Ecx, 9, Saved::kSse},
    Feature{"sse4_1", Leaf::k1Ecx, 19, Saved::kSse},
    Feature{"sse4_2", Leaf::k1Ecx, 20, Saved::kSse},
    Feature{"cx16", Leaf::k1Ecx, 13, Saved::kSse},
    Feature{"movbe", Leaf::k1Ecx, 22, Saved::kSse},
    Feature{"popcnt", Leaf::k1Ecx, 23, Saved::kSse},
    Feature{"lahf_lm", Leaf::kExt1Ecx, 0, Saved::kSse},
    Feature{"abm", Leaf::kExt1Ecx, 5, Saved::kSse},
    Feature{"bmi1", Leaf::k7Ebx, 3, Saved::kSse},
    Feature{"bmi2", Leaf::k7Ebx, 8, Saved::kSse},
    Feature{"xsave", Leaf::k1Ecx, 27, Saved::kSse},  // that the system has enabled it
    Feature{"avx", Leaf::k1Ecx, 28, Saved::kAvx},
    Feature{"f16c", Leaf::k1Ecx, 29, Saved::kAvx},
    Feature{"fma", Leaf::k1Ecx, 12, Saved::kAvx},
    Feature{"avx2", Leaf::k7Ebx, 5, Saved::kAvx},
    Feature{"avx_vnni", Leaf::k7Sub1Eax, 4, Saved::kAvx},
    Feature{"avx512f", Leaf::k7Ebx, 16, Saved::kAvx512},
    Feature{"avx512dq", Leaf::k7Ebx, 17, Saved::kAvx512},
    Feature{"avx512cd", Leaf::k7Ebx, 28, Saved::kAvx512},
    Feature{"avx512bw", Leaf::k7Ebx, 30, Saved::kAvx512},
    Feature{"avx512vl", Leaf::k7Ebx, 31, Saved::kAvx512},
    Feature{"avx512vbmi", Leaf::k7Ecx, 1, Saved::kAvx512},
    Feature{"avx512_vnni", Leaf::k7Ecx, 11, Saved::kAvx512},
    Feature{"avx512_bf16", Leaf::k7Sub1Eax, 5, Saved::kAvx512},
    Feature{"avx512_fp16", Leaf::k7Edx, 23, Saved::kAvx512},
    Feature{"amx_tile", Leaf::k7Edx, 24, Saved::kAmx},
    Feature{"amx_int8", Leaf::k7Edx, 25, Saved::kAmx},
    Feature{"amx_bf16", Leaf::k7Edx, 22, Saved::kAmx},
    Feature{"xtiledata", Leaf::kOnRequest, kTileData, Saved::kAmx},
};
static_assert(kFeatures.size() <= 64);

constexpr auto kNames = [] {
  std::array<std::string_view, kFeatures.size()> names;
  for (size_t i = 0; i < names.size(); ++i) names[i] = kFeatures[i].name;
  return names;
}();

#if defined(__x86_64__)

struct Registers {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

// Zeros if the processor does not have the leaf.
Registers Cpuid(uint32_t leaf, uint32_t subleaf) {
  Registers r;
  if (!__get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx)) return {};
  return r;
}

// Register files that the system saves on a task switch (xgetbv, XCR0).
uint64_t SavedState(const Registers& leaf1) {
  constexpr uint32_t kOsXsave = 1u << 27;
  if ((leaf1.ecx & kOsXsave) == 0) return 0;
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<uint64_t>(high) << 32) | low;
}

// Operations of arch_prctl (asm/prctl.h), which older systems do not name all of.
constexpr int kSupportedOnRequest = 0x1021, kRequest = 0x1023;

// Register files that the kernel gives a program that asks. None: it knows of none, or does not answer.
uint64_t OnRequest() {
  uint64_t mask = 0;
  return syscall(SYS_arch_prctl, kSupportedOnRequest, &mask) == 0 ? mask : 0;
}

#endif

}  // namespace

CpuFeatures CpuFeatures::Detect() {
  CpuFeatures found;
#if defined(__x86_64__)
  const Registers leaf1 = Cpuid(1, 0), leaf7 = Cpuid(7, 0), ext1 = Cpuid(0x80000001u, 0);
  // Subleaf 1 exists only if leaf 7 says so; elsewhere its registers would be another leaf's.
  const Registers leaf7_1 = leaf7.eax >= 1 ? Cpuid(7, 1) : Registers{};
  const uint64_t saved = SavedState(leaf1);
  auto has_all = [saved](uint64_t mask) { return (saved & mask) == mask; };
  const bool os[] = {true, has_all(0x6), has_all(0xe6), has_all(0x60000)};
  // Not asked where there is nothing to ask for: what a sandbox says to this call is not known.
  const uint64_t on_request = os[static_cast<int>(Saved::kAmx)] ? OnRequest() : 0;
  for (size_t i = 0; i < kFeatures.size(); ++i) {
    const Feature& f = kFeatures[i];
    const uint32_t reg[] = {leaf1.ecx, leaf1.edx,   leaf7.ebx, leaf7.ecx,
                            leaf7.edx, leaf7_1.eax, ext1.ecx,  static_cast<uint32_t>(on_request)};
    found.has_[i] = ((reg[static_cast<int>(f.leaf)] >> f.bit) & 1) && os[static_cast<int>(f.saved)];
  }
#endif
  return found;
}

CpuFeatures CpuFeatures::FromNames(std::span<const std::string_view> names) {
  CpuFeatures set;
  for (size_t i = 0; i < kNames.size(); ++i) {
    set.has_[i] = std::find(names.begin(), names.end(), kNames[i]) != names.end();
  }
  return set;
}

bool CpuFeatures::Has(std::string_view name) const {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return has_[i];
  }
  return false;
}

CpuFeatures CpuFeatures::Without(std::string_view name) const {
  CpuFeatures rest = *this;
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) rest.has_[i] = false;
  }
  return rest;
}

std::vector<std::string> CpuFeatures::Missing(std::span<const std::string> wanted) const {
  std::vector<std::string> missing;
  for (const std::string& name : wanted) {
    if (!Has(name)) missing.push_back(name);
  }
  return missing;
}

std::vector<std::string_view> CpuFeatures::Names() const {
  std::vector<std::string_view> names;
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (has_[i]) names.push_back(kNames[i]);
  }
  return names;
}

std::span<const std::string_view> CpuFeatures::Known() {
  return kNames;
}

bool RequestTileRegisters() {
#if defined(__x86_64__)
  return CpuFeatures::Detect().Has("xtiledata") && syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
#else
  return false;
#endif
}

CpuModel DetectCpuModel() {
  CpuModel model;
#if defined(__x86_64__)
  const Registers leaf0 = Cpuid(0, 0);
  char vendor[13] = {};
  std::memcpy(vendor, &leaf0.ebx, 4);
  std::memcpy(vendor + 4, &leaf0.edx, 4);
  std::memcpy(vendor + 8, &leaf0.ecx, 4);
  model.vendor = vendor;
  const uint32_t version = Cpuid(1, 0).eax, family = version >> 8 & 0xf;
  model.family = family == 0xf ? family + (version >> 20 & 0xff) : family;
  model.model = (version >> 4 & 0xf) | (version >> 16 & 0xf) << 4;
#endif
  return model;
}

std::string CpuBrand() {
#if defined(__x86_64__)
  if (Cpuid(0x80000000u, 0).eax < 0x80000004u) return "";
  char text[49] = {};
  for (uint32_t i = 0; i < 3; ++i) {
    const Registers r = Cpuid(0x80000002u + i, 0);
    std::memcpy(text + 16 * i, &r, sizeof r);
  }
  std::string brand(text);
  brand.erase(0, brand.find_first_not_of(' '));
  brand.erase(brand.find_last_not_of(' ') + 1);
  return brand;
#else
  return "";
#endif
}

}  // namespace qrt
