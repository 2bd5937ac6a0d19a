// What the tests of GPU kernels share: the profiles, packed random weights, and their exact values.
#ifndef QCC_TESTS_UNIT_GPU_KERNELS_GPU_FIXTURE_H_
#define QCC_TESTS_UNIT_GPU_KERNELS_GPU_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/gpu/kernels/families.h"
#include "codegen/gpu/kernels/profiles.h"
#include "dialects/formats/formats.h"
#include "tests/device/sandbox.h"
#include "tests/device/tried_in_full.h"

namespace qcc::gpu {

// All formats, and those that have codes and scales.
std::vector<Format> Formats();
std::vector<Format> BlockFormats();
// The kinds of profile that kernels tell apart.
inline std::vector<Profile> TestProfiles() {
  std::vector<Profile> profiles;
  for (const char* name : {"none", "sg8-dot", "sg16-dot", "sg32-dot", "sg64-dot"}) {
    profiles.push_back(FindProfile(name)->profile);
  }
  return profiles;
}

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 2 + 1) {}
  uint32_t Bits() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>(state_ >> 33) * 2 ^ static_cast<uint32_t>(state_ >> 50);
  }
  // Near normal, sigma 1.
  float Normal() {
    float sum = 0;
    for (int i = 0; i < 12; ++i) sum += static_cast<float>(Bits() >> 8) * (1.f / 16777216.f);
    return sum - 6.f;
  }
  std::vector<float> Normals(int64_t n) {
    std::vector<float> v(static_cast<size_t>(n));
    for (float& x : v) x = Normal();
    return v;
  }

 private:
  uint64_t state_;
};

// A matrix of `rows` x `cols`: GGUF rows, every second one with arbitrary codes, so that all codes occur.
struct Matrix {
  Format format;
  int64_t rows, cols;
  std::vector<uint8_t> gguf;
  std::vector<float> values;  // as the format's reference decoder gives them
  std::vector<uint8_t> Packed() const;
};
Matrix RandomMatrix(Format format, int64_t rows, int64_t cols, uint64_t seed);
std::vector<uint8_t> PackedPair(const Matrix& gate, const Matrix& up);

// int8 rows of `x` [rows][k], after dialects/plan/kernel_families.md.
std::vector<uint8_t> QuantizedRows(const std::vector<float>& x, int64_t rows, int64_t k);
// The values that such rows stand for.
std::vector<double> DequantizedRows(const std::vector<uint8_t>& xq, int64_t rows, int64_t k);

// n rows of one sequence.
inline void SetRows(Sandbox& box, uint32_t n) {
  box.step.sequences = {StepRows::Sequence()};
  box.step.sequences[0].rows = n;
}

}  // namespace qcc::gpu

#endif  // QCC_TESTS_UNIT_GPU_KERNELS_GPU_FIXTURE_H_
