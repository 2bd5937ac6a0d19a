// The same dispatch on every device: cases are compiled by the real targets into an artifact, opened by the
// runtime and run through Device, with inputs written to the arena.
#ifndef TESTS_DEVICE_CONFORMANCE_H_
#define TESTS_DEVICE_CONFORMANCE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "dialects/formats/formats.h"
#include "runtime/artifact/artifact.h"
#include "runtime/device/device.h"

namespace qcc::conformance {

// What runs the cases: "cpu", or a profile of codegen/gpu/kernels/profiles.def.
struct Target {
  std::string device;   // "cpu", "vulkan", "cuda"
  std::string variant;  // ISA level, profile

  std::string Name() const;  // for gtest
};
inline void PrintTo(const Target& target, std::ostream* out) {
  *out << target.Name();
}
// All of them: the CPU and every GPU profile. Those that this machine cannot run skip, saying why.
std::vector<Target> AllTargets();
std::vector<Target> GpuTargets();
// Why this machine cannot run the target; empty if it can.
std::string CannotRun(const Target& target);
// Whether `linear` of float weights is made on matrix units there, whose sums each chip rounds in its own
// way.
bool MultipliesFloatsOnMatrixUnits(const Target& target);
// Whether its divisions round correctly.
bool DividesExactly(const Target& target);

using Bytes = std::vector<uint8_t>;
template <typename T>
Bytes AsBytes(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// One dispatch, a program of its own.
struct Case {
  std::string name;
  std::string family;
  std::string spec;                           // MLIR: "{cols = 32 : i64}"
  int64_t rows = 1;                           // bucket
  int64_t any_rows = 0;                       // units of a role that has a count of its own
  std::set<std::string> without = {};         // optional roles that are not bound
  std::string logits = {};                    // a role that is the caller's logits
  std::map<std::string, Bytes> weights = {};  // contents of the weight roles
};

// A role of a case, placed.
struct Place {
  enum class Space { kWeights, kArena, kState, kKv, kLogits } space;
  bool written;
  int64_t offset;     // kKv: per token
  int64_t bytes;      // of all rows; kKv: per token
  int64_t row_bytes;  // 0: not by rows
};

struct Program {
  Case c;
  std::map<std::string, Place> places;
  int64_t arena_bytes = 0;
};

// Cases that share an artifact. `vocab` columns of logits.
struct Suite {
  Suite(std::string name, std::vector<Case> cases, int64_t vocab = 16);

  std::string Plan() const;  // the plan module
  Bytes Weights() const;
  const Program& program(const std::string& name) const { return programs[Index(name)]; }
  uint32_t Index(const std::string& name) const;

  std::string name;
  int64_t vocab, logits_stride;
  std::vector<Program> programs;
  int64_t weight_bytes = 0, state_bytes = 64, kv_bytes = 16;
  std::string problem;  // a case that does not fit its family
};

// A suite on a target.
class Lab {
 public:
  // Compiles and opens; once for each pair in a process. An empty `device` with `skip`: this machine cannot
  // run it; with `error`: it should and does not.
  static Lab& Get(const Suite& suite, const Target& target);

  const Suite* suite = nullptr;
  std::unique_ptr<qrt::Artifact> artifact;
  std::unique_ptr<qrt::Device> device;
  std::string skip, error;
};

// State and kv of one sequence; freed with its Lab's device.
class Memory {
 public:
  // Poison: bytes of kv 0xff; else zeros. Apart: odd blocks of tokens have a state area of their own.
  Memory(Lab& lab, int64_t kv_capacity, bool poison = false, bool apart = false);
  ~Memory();
  Memory(const Memory&) = delete;

  // kState: of even or odd blocks; kKv: the layer's bytes, capacity times the bytes per token.
  Bytes Read(const Place& place, bool odd = false) const;
  void Write(const Place& place, const Bytes& bytes);

  int64_t capacity() const { return capacity_; }
  int64_t odd_offset() const { return odd_offset_; }
  const qrt::DeviceBuffer& state() const { return state_; }
  const qrt::DeviceBuffer& kv() const { return kv_; }

 private:
  qrt::CopyRange Range(const Place& place, void* host, uint64_t bytes) const;
  qrt::Device& device_;
  int64_t capacity_, odd_offset_;
  qrt::DeviceBuffer state_, kv_;
};

// One step.
struct Step {
  struct Sequence {
    Memory* memory = nullptr;
    int64_t past = 0;
    int64_t rows = 1;
  };
  std::vector<Sequence> sequences;
  std::vector<int32_t> tokens = {};     // [rows]; empty: zeros
  std::vector<int32_t> positions = {};  // [rows][4]; empty: places in the sequences
  std::vector<int32_t> out_rows = {};

  int64_t rows() const;
};

// Runs a case. Inputs by role: what is missing of a read-and-written role is poison. Returns the outputs by
// role, the rows of the step only (of roles with rows). Fails the test if the device fails or writes anything
// else.
std::map<std::string, Bytes> RunCase(Lab& lab, const std::string& program, const Step& step,
                                     const std::map<std::string, Bytes>& inputs);

template <typename T>
std::vector<T> As(const Bytes& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

// || got - want ||^2 / || want ||^2
double Nmse(const std::vector<float>& got, const std::vector<double>& want);
// Nmse at most `bound`, and the same for every row alone, where each counts with the size of all.
testing::AssertionResult Near(const std::vector<float>& got, const std::vector<double>& want, double bound,
                              int64_t cols);
testing::AssertionResult SameBits(const Bytes& a, const Bytes& b);

// A test case for each target: TEST_P(Name, ...) gets `lab` for the suite it returns from `MakeSuite`.
class ConformanceTest : public testing::TestWithParam<Target> {
 protected:
  Lab& Open(const Suite& suite) { return Lab::Get(suite, GetParam()); }
};

// An error ahead of a skip: a suite that is wrong is so on every machine.
#define QCC_OPEN_OR_SKIP(lab, suite) \
  Lab& lab = Open(suite);            \
  ASSERT_EQ(lab.error, "");          \
  if (!lab.skip.empty()) GTEST_SKIP() << lab.skip

#define QCC_INSTANTIATE_CONFORMANCE(Test) QCC_INSTANTIATE_CONFORMANCE_ON(Test, AllTargets())
#define QCC_INSTANTIATE_CONFORMANCE_ON(Test, targets)            \
  INSTANTIATE_TEST_SUITE_P(On, Test, testing::ValuesIn(targets), \
                           [](const testing::TestParamInfo<Target>& info) { return info.param.Name(); })

}  // namespace qcc::conformance

#endif  // TESTS_DEVICE_CONFORMANCE_H_
