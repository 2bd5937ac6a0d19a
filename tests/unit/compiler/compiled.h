// For tests that look into what a compile made: a folder of the test's own, and one sequence on the CPU, run
// program by program.
#ifndef QCC_TESTS_UNIT_COMPILER_COMPILED_H_
#define QCC_TESTS_UNIT_COMPILER_COMPILED_H_

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/artifact/artifact.h"
#include "runtime/device/cpu/cpu_device.h"

namespace qcc::compiler {

// Makes a folder for each test and removes it with all that is in it.
class InFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("qcc_compiled_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string Path(const std::string& name) const { return (folder_ / name).string(); }

 private:
  std::filesystem::path folder_;
};

class CpuSequence {
 public:
  CpuSequence(const qrt::Artifact& artifact, qrt::Device& device)
      : manifest_(artifact.manifest()), device_(device) {
    if (manifest_.state_bytes != 0) {
      EXPECT_EQ(device.Allocate(manifest_.state_bytes, &state_), qrt::DeviceResult::kOk);
    }
    EXPECT_EQ(device.Allocate(kCapacity * manifest_.kv_bytes_per_token, &kv_), qrt::DeviceResult::kOk);
  }
  ~CpuSequence() {
    device_.Free(&state_);
    device_.Free(&kv_);
  }
  CpuSequence(const CpuSequence&) = delete;
  CpuSequence& operator=(const CpuSequence&) = delete;

  // The next tokens of the sequence, of which `past` went before; `logits`: of all rows, or null.
  void Run(const std::string& program, std::span<const int32_t> tokens, int64_t past, float* logits) {
    const auto rows = static_cast<int64_t>(tokens.size());
    ASSERT_LE(past + rows, kCapacity);
    std::vector<int32_t> positions, out_rows;
    for (int64_t i = 0; i < rows; ++i) {
      positions.insert(positions.end(), 4, static_cast<int32_t>(past + i));
      out_rows.push_back(static_cast<int32_t>(i));
    }
    const qrt_seq seq = {reinterpret_cast<uint8_t*>(state_.address),
                         0,
                         reinterpret_cast<uint8_t*>(kv_.address),
                         kCapacity,
                         past,
                         0,
                         rows};
    qrt::StepRequest step;
    step.program = Index(program);
    step.seqs = &seq;
    step.n_seqs = 1;
    step.n_rows = rows;
    step.tokens = tokens.data();
    step.positions = positions.data();
    step.out_rows = out_rows.data();
    step.n_out = logits != nullptr ? rows : 0;
    step.logits = logits;
    EXPECT_EQ(device_.Run(step), qrt::DeviceResult::kOk);
  }

  // Logits of some of the rows that the program before left.
  void Head(const std::string& program, std::span<const int32_t> out_rows, float* logits) {
    qrt::StepRequest step;
    step.program = Index(program);
    step.n_rows = step.n_out = static_cast<int64_t>(out_rows.size());
    step.out_rows = out_rows.data();
    step.logits = logits;
    EXPECT_EQ(device_.Run(step), qrt::DeviceResult::kOk);
  }

 private:
  uint32_t Index(const std::string& program) const {
    const auto found = std::find_if(manifest_.programs.begin(), manifest_.programs.end(),
                                    [&](const qrt::ProgramInfo& info) { return info.name == program; });
    if (found == manifest_.programs.end()) throw std::invalid_argument("there is no program " + program);
    return static_cast<uint32_t>(found - manifest_.programs.begin());
  }

  static constexpr int64_t kCapacity = 128;
  const qrt::Manifest& manifest_;
  qrt::Device& device_;
  qrt::DeviceBuffer state_, kv_;
};

}  // namespace qcc::compiler

#endif  // QCC_TESTS_UNIT_COMPILER_COMPILED_H_
