// The public API as tests of it write it: handles that release themselves, sized structs, errors as one line.
#ifndef TESTS_UNIT_RUNTIME_QRT_HANDLES_H_
#define TESTS_UNIT_RUNTIME_QRT_HANDLES_H_

#include <memory>
#include <string>

#include "runtime/include/qrt/qrt.h"

namespace qrt_api {

template <typename T>
T Sized() {
  T value = {};
  value.struct_size = sizeof value;
  return value;
}

template <auto Release>
struct Releaser {
  template <typename T>
  void operator()(T* handle) const {
    Release(handle);
  }
};
using Artifact = std::unique_ptr<qrt_artifact, Releaser<qrt_artifact_release>>;
using Engine = std::unique_ptr<qrt_engine, Releaser<qrt_engine_release>>;
using Session = std::unique_ptr<qrt_session, Releaser<qrt_session_release>>;
using Sampler = std::unique_ptr<qrt_sampler, Releaser<qrt_sampler_release>>;
using Text = std::unique_ptr<qrt_text, Releaser<qrt_text_release>>;

inline std::string Say(const qrt_error& error) {
  return std::string(error.message) + " | " + error.note + " | " + error.help + " [Q" +
         std::to_string(error.code) + "]";
}

}  // namespace qrt_api

#endif  // TESTS_UNIT_RUNTIME_QRT_HANDLES_H_
