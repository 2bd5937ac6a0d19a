// What an engine runs its programs on.
#ifndef RUNTIME_DEVICE_DEVICE_H_
#define RUNTIME_DEVICE_DEVICE_H_

#include <cstdint>

#include "runtime/abi/program.h"

namespace qrt {

// Runs the programs of one artifact, addressed by their place in its program table. One step at a time: the
// engine serialises. Implementations allocate nothing in Run.
class Device {
 public:
  virtual ~Device() = default;

  // Threads that enter a program together.
  virtual uint32_t threads() const = 0;

  // Runs one step and returns after every thread has left it. `args->barrier` is set by the device,
  // everything else by the caller. False: the step was not started (an injected thread pool refused).
  virtual bool Run(uint32_t program, qrt_step_args* args) = 0;
};

}  // namespace qrt

#endif  // RUNTIME_DEVICE_DEVICE_H_
