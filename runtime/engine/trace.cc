// What a traceable artifact's layers left of the last token.
#include <algorithm>
#include <cmath>
#include <string>

#include "runtime/engine/engine.h"
#include "runtime/engine/session.h"

namespace qrt {

void LayerValues::Count(std::span<const float> row) {
  length = row.size();
  double sum = 0;
  bool any = false;
  for (const float value : row) {
    nonzero += value != 0;
    infinite += std::isinf(value);
    if (std::isnan(value)) {
      ++nan;
      continue;
    }
    minimum = any ? std::min(minimum, static_cast<double>(value)) : value;
    maximum = any ? std::max(maximum, static_cast<double>(value)) : value;
    sum += value;
    any = true;
  }
  mean = any ? sum / static_cast<double>(length - nan) : 0;
}

Status Session::Trace(size_t index, LayerValues* out) const {
  const std::vector<TracedLayer>& traces = engine_.plan().traces;
  if (traces.empty()) {
    return Status(Code::kUnavailable, 5326, "the artifact keeps no rows of its layers", "",
                  "compile the model with qcc compile --traceable");
  }
  if (index >= traces.size()) {
    return Status(Code::kInvalidArgument, 5327,
                  "traced layer number " + std::to_string(index) + ", expected 0 to " +
                      std::to_string(traces.size() - 1));
  }
  if (damaged_) return Damaged();
  const TracedLayer& traced = traces[index];
  std::vector<float> row(traced.values);
  const CopyRange range = {&state_, traced.offset, row.data(), traced.values * sizeof(float)};
  const DeviceResult result = engine_.Read({&range, 1});
  if (result != DeviceResult::kOk) return engine_.Failure(result, "the reading of a layer's row");
  *out = {};
  out->layer = traced.layer;
  out->Count(row);
  return Status();
}

}  // namespace qrt
