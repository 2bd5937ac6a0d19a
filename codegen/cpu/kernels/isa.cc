#include "codegen/cpu/kernels/isa.h"

#include <iterator>

namespace qcc::cpu {
namespace {

constexpr IsaInfo kTable[] = {
#define QCC_ISA(id, name, cpu, features, flags) {Isa::id, name, cpu, features, flags},
#include "codegen/cpu/kernels/isa.def"
#undef QCC_ISA
};

// __builtin_cpu_supports also asks the operating system for the vector state.
bool host_has(std::string_view flag) {
  struct Entry {
    std::string_view name;
    bool has;
  };
  __builtin_cpu_init();
  // movbe, abm and xsave have no name in every compiler's builtin; the level names of the psABI cover them.
  const bool v3 = __builtin_cpu_supports("x86-64-v3");
  const Entry entries[] = {
      {"sse2", __builtin_cpu_supports("sse2") != 0},
      {"avx", __builtin_cpu_supports("avx") != 0},
      {"avx2", __builtin_cpu_supports("avx2") != 0},
      {"bmi1", __builtin_cpu_supports("bmi") != 0},
      {"bmi2", __builtin_cpu_supports("bmi2") != 0},
      {"fma", __builtin_cpu_supports("fma") != 0},
      {"f16c", v3},
      {"abm", v3},
      {"movbe", v3},
      {"xsave", v3},
      {"avx512f", __builtin_cpu_supports("avx512f") != 0},
      {"avx512bw", __builtin_cpu_supports("avx512bw") != 0},
      {"avx512cd", __builtin_cpu_supports("avx512cd") != 0},
      {"avx512dq", __builtin_cpu_supports("avx512dq") != 0},
      {"avx512vl", __builtin_cpu_supports("avx512vl") != 0},
      {"avx512_vnni", __builtin_cpu_supports("avx512vnni") != 0},
  };
  for (const Entry& e : entries) {
    if (e.name == flag) return e.has;
  }
  return false;
}

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
  std::string_view rest = isa_info(isa).cpu_flags;
  while (!rest.empty()) {
    const size_t n = rest.find(' ');
    const std::string_view flag = rest.substr(0, n);
    if (!host_has(flag)) return flag;
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
