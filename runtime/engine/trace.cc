// What a traceable artifact's layers left of the last token.
#include <algorithm>
#include <cmath>
#include <string>

#include "runtime/engine/engine.h"
#include "runtime/engine/session.h"

namespace qrt {
namespace {

qrt_layer_trace TraceOf(const std::vector<float>& row) {
  qrt_layer_trace trace = {};
  trace.length = row.size();
  double sum = 0;
  bool any = false;
  for (const float value : row) {
    trace.nonzero += value != 0;
    trace.infinite += std::isinf(value);
    if (std::isnan(value)) {
      ++trace.nan;
      continue;
    }
    trace.minimum = any ? std::min<double>(trace.minimum, value) : value;
    trace.maximum = any ? std::max<double>(trace.maximum, value) : value;
    sum += value;
    any = true;
  }
  trace.mean = any ? sum / static_cast<double>(trace.length - trace.nan) : 0;
  return trace;
}

}  // namespace

Status Session::Trace(size_t index, qrt_layer_trace* out) const {
  const std::span<const TracedLayer> traces = engine_.traces();
  if (traces.empty()) {
    return Status(Code::kUnavailable, 5326, "the artifact keeps no rows of its layers", "",
                  "compile the model with qcc compile --traceable");
  }
  if (index >= traces.size()) {
    return Status(Code::kInvalidArgument, 5327,
                  "traced layer number " + std::to_string(index) + ", expected 0 to " +
                      std::to_string(traces.size() - 1));
  }
  std::vector<float> row(traces[index].values);
  QRT_RETURN_IF_ERROR(ReadTraced(traces[index], row.data()));
  const size_t struct_size = out->struct_size;
  *out = TraceOf(row);
  out->struct_size = struct_size;
  out->layer = traces[index].layer;
  return Status();
}

Status Session::Value(size_t index, float* row) const {
  const std::span<const TracedLayer> values = engine_.values();
  if (index < values.size()) return ReadTraced(values[index], row);
  return Status(Code::kInvalidArgument, 5327,
                "value number " + std::to_string(index) + ": " + std::to_string(values.size()) + " are kept");
}

Status Session::ReadTraced(const TracedLayer& traced, float* row) const {
  if (damaged_) return Damaged();
  if (untraced_) {
    return Status(Code::kInvalidArgument, 5329,
                  "nothing was appended since the session stepped back, or became another one", "session",
                  "append a token first");
  }
  const CopyRange range = {&areas_[traced.part].state, traced.offset, row, traced.values * sizeof(float)};
  const DeviceResult result = engine_.Read(traced.part, {&range, 1});
  if (result == DeviceResult::kOk) return Status();
  return engine_.Failure(traced.part, result, "the reading of a layer's row");
}

}  // namespace qrt
