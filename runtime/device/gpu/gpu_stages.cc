#include "runtime/device/gpu/gpu_stages.h"

#include <algorithm>

#include "runtime/artifact/stage_group.h"

namespace qrt {
namespace {

// What a launch reads of the weights: of a table that it takes rows of no more than it reads at all.
uint64_t WeightBytes(const GpuDispatch& dispatch) {
  uint64_t bytes = 0;
  for (const GpuArg& arg : dispatch.args) {
    if (arg.space == GpuSpace::kWeights) bytes += arg.bytes;
  }
  return std::min(bytes, dispatch.cost.read_bytes);
}

std::string Specification(const GpuDispatch& dispatch, const GpuKernel& kernel) {
  std::string grid;
  for (const uint32_t side : dispatch.grid) grid += (grid.empty() ? "" : "x") + std::to_string(side);
  return dispatch.family + " {kernel = \"" + kernel.name +
         "\", threads = " + std::to_string(kernel.workgroup_size) + ", workgroups = " + grid + "}";
}

}  // namespace

GpuStages::GpuStages(const GpuCode& code, const Manifest& manifest) {
  for (size_t i = 0; i < code.programs.size(); ++i) {
    const ProgramInfo& program = manifest.programs[i];
    AddList(program.name, program.facts.gives_logits(), code, code.programs[i].dispatches);
  }
  for (const GpuSampleProgram& p : code.sample_programs) {
    AddList(std::string(Name(p.kind)) + "_" + std::to_string(p.rows), false, code, p.dispatches);
  }
  Restart();
}

void GpuStages::AddList(const std::string& program, bool gives_logits, const GpuCode& code,
                        const std::vector<GpuDispatch>& dispatches) {
  const size_t first = stages_.size();
  std::vector<uint32_t>& list = lists_.emplace_back();
  std::vector<uint64_t> weights;  // of all launches of a stage
  std::vector<uint64_t> launches;
  for (const GpuDispatch& d : dispatches) {
    DeviceStage stage = {program, code.kernels[d.kernel].name, Specification(d, code.kernels[d.kernel]), 0};
    const auto same = [&stage](const DeviceStage& other) {
      return other.specification == stage.specification;
    };
    const auto found = std::find_if(stages_.begin() + static_cast<ptrdiff_t>(first), stages_.end(), same);
    const size_t place = static_cast<size_t>(found - stages_.begin());
    if (found == stages_.end()) {
      stages_.push_back(std::move(stage));
      weights.push_back(0);
      launches.push_back(0);
    }
    list.push_back(static_cast<uint32_t>(place));
    weights[place - first] += WeightBytes(d);
    ++launches[place - first];
  }
  // The last linear of a program that gives logits makes them.
  size_t head = stages_.size();
  for (size_t i = 0; gives_logits && i < dispatches.size(); ++i) {
    if (IsLinear(dispatches[i].family)) head = list[i];
  }
  for (size_t i = first; i < stages_.size(); ++i) {
    stages_[i].weight_bytes = weights[i - first] / launches[i - first];
    stages_[i].is_head = i == head;
  }
}

}  // namespace qrt
