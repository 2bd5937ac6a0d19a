// `--trace-layers`: what each layer left of the last token.
#ifndef RUNTIME_QRUN_LAYER_TRACE_H_
#define RUNTIME_QRUN_LAYER_TRACE_H_

#include "runtime/qrun/handles.h"
#include "runtime/qrun/outcome.h"

namespace qrun {

// Errors: Q5326, of an artifact that keeps no rows of its layers.
Outcome CheckTraceable(const qrt_session* session);

// A line for each layer, on stderr.
Outcome PrintLayers(const qrt_session* session);

}  // namespace qrun

#endif  // RUNTIME_QRUN_LAYER_TRACE_H_
