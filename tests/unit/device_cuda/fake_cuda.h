// A CUDA driver that computes nothing: memory is host memory, launches are written down, and any call can be
// made to fail. What it is given is checked as the real one would: entries of the PTX, live handles,
// addresses inside allocations, a current context; and what a stream does happens when somebody waits for it.
#ifndef TESTS_UNIT_DEVICE_CUDA_FAKE_CUDA_H_
#define TESTS_UNIT_DEVICE_CUDA_FAKE_CUDA_H_

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "runtime/device/cuda/cuda_device.h"

namespace qrt {

struct FakeCuda {
  // The driver is a C interface without a place for `this`: one at a time.
  FakeCuda();
  ~FakeCuda();
  FakeCuda(const FakeCuda&) = delete;
  static FakeCuda* now;

  CudaLoader loader() const;

  struct Launch {
    std::string kernel;
    std::array<unsigned, 3> grid;
    unsigned threads;
    std::vector<uint64_t> args;
    bool overlaps = false;  // with those before it
    bool marked = false;    // an event is recorded behind it
    bool operator==(const Launch&) const = default;
  };
  using Graph = std::vector<Launch>;

  // The machine.
  int devices = 1;
  int capability = 90;
  int memory_clock_khz = 1000000, memory_bus_bits = 4096, multiprocessors = 100;
  std::set<int> unknown_attributes;  // that the driver refuses to tell
  std::string missing;               // a function that the driver lacks
  int version = 12040;               // of the driver

  // The `fail_at`-th call from now on of a function (or of any: empty) that can fail gives `fail_with`.
  std::string fail_function;
  int fail_at = 0;  // 0: none
  int fail_with = 0;

  int calls = 0;                      // that can fail
  std::vector<std::string> problems;  // misuse
  std::map<uint64_t, std::vector<uint8_t>> memory, pinned;
  std::set<void*> contexts, modules, streams, graphs, execs, events;
  std::string ptx;              // of the last module
  std::string compiler_says;    // of PTX that cannot be compiled
  std::vector<Graph> launched;  // graphs, in order
  int waits = 0;                // for a stream
  bool hangs = false;           // what a stream was given never ends, nor does a call that waits for it
  int uploads = 0;              // copies to the device
  std::set<void*> uploaded;     // graphs
  int32_t fill_results = 0;     // what a copy of 4-byte results gives back
  bool capturing = false;
  Graph recording;
  std::vector<void*> marks;                    // events of the recording, in order
  std::map<void*, uint64_t> happened;          // when events did, in microseconds of the driver's clock
  uint64_t clock = 0;                          // a launch takes as long as its grid has workgroups
  std::vector<std::function<void()>> pending;  // work of streams that nobody waited for

  // Whether the calling thread is inside a function of the driver, which takes memory for its records.
  static bool Within();
  // The contexts that the calling thread made current, the last on top.
  static std::vector<void*>& Current();

  // All launches in order, wherever a program was cut.
  Graph Launched() const;

  bool Clean() const {
    return memory.empty() && pinned.empty() && contexts.empty() && modules.empty() && streams.empty() &&
           graphs.empty() && execs.empty() && events.empty() && Current().empty();
  }
  bool Inside(uint64_t address, uint64_t bytes) const;
  bool Pinned(const void* memory, uint64_t bytes) const;
  void Wait();
};

}  // namespace qrt

#endif  // TESTS_UNIT_DEVICE_CUDA_FAKE_CUDA_H_
