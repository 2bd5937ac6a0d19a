#include "compiler/targets/targets.h"

namespace qcc::compiler {

const std::vector<TargetInfo>& Targets() {
  static const std::vector<TargetInfo> targets = {
      {"cpu", GenerateCpu}, {"vulkan", GenerateVulkan}, {"cuda", GenerateCuda}};
  return targets;
}

const TargetInfo* FindTarget(std::string_view name) {
  for (const TargetInfo& target : Targets())
    if (target.name == name) return &target;
  return nullptr;
}

}  // namespace qcc::compiler
