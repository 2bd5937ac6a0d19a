// ISA levels that kernels exist for.
#ifndef QCC_CODEGEN_CPU_KERNELS_ISA_H_
#define QCC_CODEGEN_CPU_KERNELS_ISA_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace qcc::cpu {

enum class Isa : uint8_t {
#define QCC_ISA(id, ...) id,
#include "codegen/cpu/kernels/isa.def"
#undef QCC_ISA
};

struct IsaInfo {
  Isa id;
  std::string_view name;
  std::string_view llvm_cpu;
  std::string_view llvm_features;  // "+a,+b" or empty
  std::string_view cpu_flags;      // required of the machine, space separated, names as in /proc/cpuinfo
};

// All levels, worst first.
std::span<const IsaInfo> isa_table();
const IsaInfo& isa_info(Isa isa);
std::optional<Isa> isa_from_name(std::string_view name);

// First required flag of `isa` that this machine (or its operating system) lacks; empty if it has all.
std::string_view missing_cpu_flag(Isa isa);
// Best level that this machine can run.
Isa host_isa();

}  // namespace qcc::cpu

#endif  // QCC_CODEGEN_CPU_KERNELS_ISA_H_
