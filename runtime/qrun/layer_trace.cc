#include "runtime/qrun/layer_trace.h"

#include <cinttypes>
#include <cstdio>

namespace qrun {

Outcome CheckTraceable(const qrt_session* session) {
  qrt_layer_trace first = {};
  first.struct_size = sizeof first;
  QRUN_CALL(qrt_session_trace(session, 0, &first, &error));
  return Outcome();
}

Outcome PrintLayers(const qrt_session* session) {
  std::fprintf(stderr, "layers after the token at position %" PRIu64 ":\n%5s %8s %8s %8s %12s %12s %12s\n",
               qrt_session_position(session) - 1, "layer", "len", "nnz", "nan", "min", "max", "mean");
  for (size_t i = 0; i < qrt_session_traced_layers(session); ++i) {
    qrt_layer_trace t = {};
    t.struct_size = sizeof t;
    QRUN_CALL(qrt_session_trace(session, i, &t, &error));
    std::fprintf(stderr, "%5" PRIu32 " %8" PRIu64 " %8" PRIu64 " %8" PRIu64 " %12.5g %12.5g %12.5g\n",
                 t.layer, t.length, t.nonzero, t.nan, t.minimum, t.maximum, t.mean);
  }
  return Outcome();
}

}  // namespace qrun
