#include "compiler/targets/targets.h"

namespace qcc::compiler {

const std::vector<TargetInfo>& Targets() {
  static const std::vector<TargetInfo> targets = [] {
    std::vector<TargetInfo> list = {{"cpu", layouts::X16Everywhere, GenerateCpu, nullptr}};
    for (const gpu::Backend& backend : gpu::backends()) {
      list.push_back({std::string_view(backend.target), backend.layouts,
                      [&backend](const TargetRequest& request) { return GenerateGpu(backend, request); },
                      &backend});
    }
    return list;
  }();
  return targets;
}

const TargetInfo* FindTarget(std::string_view name, std::span<const TargetInfo> targets) {
  for (const TargetInfo& target : targets)
    if (target.name == name) return &target;
  return nullptr;
}

}  // namespace qcc::compiler
