#include "codegen/cpu/kernels/isa.h"

#include <iterator>

#include "runtime/base/cpu_features.h"

namespace qcc::cpu {
namespace {

constexpr IsaInfo kTable[] = {
#define QCC_ISA(id, name, cpu, features, bits, flags) {Isa::id, name, cpu, features, flags},
#include "codegen/cpu/kernels/isa.def"
#undef QCC_ISA
};

}  // namespace

std::span<const IsaInfo> isa_table() {
  return kTable;
}

const IsaInfo& isa_info(Isa isa) {
  return kTable[static_cast<size_t>(isa)];
}

std::optional<Isa> isa_from_name(std::string_view name) {
  for (const IsaInfo& i : kTable) {
    if (i.name == name) return i.id;
  }
  return std::nullopt;
}

std::string_view missing_cpu_flag(Isa isa) {
  const qrt::CpuFeatures host = qrt::CpuFeatures::Detect();
  std::string_view rest = isa_info(isa).cpu_flags;
  while (!rest.empty()) {
    const size_t n = rest.find(' ');
    const std::string_view flag = rest.substr(0, n);
    if (!host.Has(flag)) return flag;
    rest = n == std::string_view::npos ? std::string_view() : rest.substr(n + 1);
  }
  return {};
}

Isa host_isa() {
  for (size_t i = std::size(kTable); i-- > 1;) {
    if (missing_cpu_flag(kTable[i].id).empty()) return kTable[i].id;
  }
  return kTable[0].id;
}

}  // namespace qcc::cpu
