// Owners of the library's handles.
#ifndef RUNTIME_QRUN_HANDLES_H_
#define RUNTIME_QRUN_HANDLES_H_

#include <memory>

#include "runtime/include/qrt/qrt.h"

namespace qrun {

template <auto Release>
struct Releaser {
  template <typename T>
  void operator()(T* handle) const {
    Release(handle);
  }
};

using ArtifactPtr = std::unique_ptr<qrt_artifact, Releaser<qrt_artifact_release>>;
using EnginePtr = std::unique_ptr<qrt_engine, Releaser<qrt_engine_release>>;
using SessionPtr = std::unique_ptr<qrt_session, Releaser<qrt_session_release>>;
using GeneratorPtr = std::unique_ptr<qrt_generator, Releaser<qrt_generator_release>>;
using TextPtr = std::unique_ptr<qrt_text, Releaser<qrt_text_release>>;
using SamplerPtr = std::unique_ptr<qrt_sampler, Releaser<qrt_sampler_release>>;

}  // namespace qrun

#endif  // RUNTIME_QRUN_HANDLES_H_
