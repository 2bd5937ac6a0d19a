#include "compiler/driver/gpu_report.h"

#include <algorithm>
#include <map>

namespace qcc::compiler {
namespace {

GpuProgramReport ReportProgram(const qrt::GpuProgram& program) {
  GpuProgramReport report;
  struct Layer {
    uint32_t dispatches = 0;
    bool attention = false, delta = false;
  };
  std::map<int32_t, Layer> layers;
  for (const qrt::GpuDispatch& d : program.dispatches) {
    ++report.dispatches;
    report.barriers += d.barrier;
    report.read_bytes += d.cost.read_bytes;
    report.write_bytes += d.cost.write_bytes;
    report.kv_bytes += d.cost.kv_bytes;
    report.ops += d.cost.ops;
    uint64_t weights = 0;
    for (const qrt::GpuArg& arg : d.args) weights += arg.space == qrt::GpuSpace::kWeights ? arg.bytes : 0;
    // An embedding binds the whole table and reads a few rows of it.
    report.weight_bytes += std::min(weights, d.cost.read_bytes);
    if (d.layer < 0) continue;
    Layer& layer = layers[d.layer];
    ++layer.dispatches;
    layer.attention |= d.family == "attention";
    layer.delta |= d.family == "gated_delta";
  }
  for (const auto& [number, layer] : layers) {
    uint32_t& most = layer.delta ? report.delta_layer_dispatches : report.attention_layer_dispatches;
    if (layer.delta || layer.attention) most = std::max(most, layer.dispatches);
  }
  return report;
}

}  // namespace

GpuCodeReport ReportGpuCode(const qrt::GpuCode& code) {
  GpuCodeReport report;
  for (const qrt::GpuKernel& kernel : code.kernels) report.spirv_bytes += 4 * kernel.spirv.size();
  report.ptx_bytes = code.ptx.size();
  for (const qrt::GpuProgram& program : code.programs) report.programs.push_back(ReportProgram(program));
  return report;
}

}  // namespace qcc::compiler
