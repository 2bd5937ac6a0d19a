// Everything around a kernel for tests on the interpreter: spaces, a step block, sequences' memory, an
// Expansion.
#ifndef TESTS_DEVICE_SANDBOX_H_
#define TESTS_DEVICE_SANDBOX_H_

#include <cstdint>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "codegen/gpu/kernels/launch.h"
#include "runtime/abi/gpu_step.h"
#include "tests/device/interpreter.h"

namespace qcc::gpu {

// The step as the runtime hands it to kernels.
struct StepRows {
  struct Sequence {
    uint32_t past = 0;
    uint32_t rows = 1;
    void* state = nullptr;
    uint64_t odd_offset = 0;  // as in qrt_seq
    void* kv = nullptr;
    uint64_t kv_capacity = 0;  // tokens
  };
  std::vector<Sequence> sequences;
  std::vector<int32_t> tokens;               // one a row; missing ones are 0
  std::vector<std::array<int32_t, 4>> rope;  // one a row; missing ones are four times the position
  std::vector<uint32_t> outs;                // rows of logits
  std::vector<qrt_gpu_sample> samples;       // one for each of outs
  std::vector<qrt_gpu_penalty> penalties;

  uint32_t rows() const;
};

// Step block for programs of at most `max_rows` rows. Addresses in it are host pointers. (Kernels have a
// function of the struct's name.)
std::vector<uint8_t> BuildStep(const struct StepRows& rows, int64_t max_rows);

// Gives a dispatch's operands their places, runs expansions on the interpreter.
//
//   Sandbox box(profile, /*max_rows=*/8);
//   Dispatch<plan::LinearSpec> d = {.spec = {...}, .rows = 8};
//   d.bindings = {.x = box.Arena(x), .w = box.Weights(packed), .y = box.Arena(bytes)};
//   box.step.sequences = {{.past = 3, .rows = 5}};
//   EXPECT_EQ(box.Run(Expand_linear, d), "");
//   ... box.Read<float>(*d.bindings.y) ...
class Sandbox : public Expansion {
 public:
  Sandbox(Profile profile, int64_t max_rows, int64_t logits_stride = 0)
      : profile_(std::move(profile)), max_rows_(max_rows), logits_stride_(logits_stride) {}

  struct StepRows step;

  // Ranges with the given contents, or of `bytes` bytes that hold 0xff (a NaN as f32); aligned to 256.
  template <typename T>
  Arg Weights(const std::vector<T>& data) {
    return Place(Space::kWeights, data.data(), data.size() * sizeof(T));
  }
  template <typename T>
  Arg Arena(const std::vector<T>& data) {
    return Place(Space::kArena, data.data(), data.size() * sizeof(T));
  }
  Arg Arena(uint64_t bytes) { return Place(Space::kArena, nullptr, bytes); }
  template <typename T>
  Arg Logits(const std::vector<T>& data) {
    return Place(Space::kLogits, data.data(), data.size() * sizeof(T));
  }
  Arg Logits(uint64_t bytes) { return Place(Space::kLogits, nullptr, bytes); }
  Arg Results(uint64_t bytes) { return Place(Space::kResults, nullptr, bytes); }
  // Memory of space kScratch (sample programs).
  void SampleScratch(uint64_t bytes) { Place(Space::kScratch, nullptr, bytes); }
  // Memory that the step block may point to: a sequence's state or kv. Stays where it is.
  template <typename T = uint8_t>
  T* Outside(uint64_t count) {
    outside_.emplace_back((count * sizeof(T) + 15) / 16 * 16);
    return reinterpret_cast<T*>(outside_.back().data());
  }

  template <typename T>
  std::vector<T> Read(const Arg& arg) const {
    std::vector<T> out(arg.bytes / sizeof(T));
    std::memcpy(out.data(), spaces_[static_cast<size_t>(arg.space)].data() + arg.value,
                out.size() * sizeof(T));
    return out;
  }
  template <typename T>
  void Write(const Arg& arg, const std::vector<T>& data) {
    std::memcpy(spaces_[static_cast<size_t>(arg.space)].data() + arg.value, data.data(),
                data.size() * sizeof(T));
  }

  // Expands and runs; empty: all went well.
  template <typename Spec>
  std::string Run(Expand<Spec> expand, const Dispatch<Spec>& dispatch) {
    const std::string name(Spec::kFamily);
    if (const plan::RoleFault fault = plan::findRoleFault(dispatch.spec, dispatch.bindings)) {
      return name + ": role " + std::string(fault.role) +
             (fault.missing ? " is not bound" : " is not of this spec");
    }
    const std::vector<Launch> launches = expand(dispatch, *this);
    if (launches.empty()) return name + ": no kernel for this spec in profile " + profile_.name;
    return Run(launches);
  }
  std::string Run(const std::vector<Launch>& launches);

  const Profile& profile() const override { return profile_; }
  int64_t max_rows() const override { return max_rows_; }
  int64_t logits_stride() const override { return logits_stride_; }
  Arg Scratch(uint64_t bytes) override { return Arena(bytes); }
  Arg Constant(const std::vector<uint8_t>& bytes) override {
    return Place(Space::kConstants, bytes.data(), bytes.size());
  }

 private:
  Arg Place(Space space, const void* data, uint64_t bytes);

  Profile profile_;
  int64_t max_rows_, logits_stride_;
  std::array<std::vector<uint8_t>, 8> spaces_;
  std::deque<std::vector<uint8_t>> outside_;
};

// A dispatch with every role of the spec bound to `somewhere`: for what only looks at kernels.
template <typename Spec>
Dispatch<Spec> Anywhere(const Spec& spec, int64_t rows, Arg somewhere) {
  Dispatch<Spec> dispatch{spec, {}, rows};
  plan::forEachRole(spec, dispatch.bindings, [&](const plan::RoleExtent& role, std::optional<Arg>& arg) {
    if (role.presence != plan::Presence::Absent) arg = somewhere;
  });
  return dispatch;
}

}  // namespace qcc::gpu

#endif  // TESTS_DEVICE_SANDBOX_H_
