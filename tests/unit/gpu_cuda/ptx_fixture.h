// What tests of PTX share: making it of launches, and what ptxas says of it where it is installed.
#ifndef QCC_TESTS_UNIT_GPU_CUDA_PTX_FIXTURE_H_
#define QCC_TESTS_UNIT_GPU_CUDA_PTX_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "codegen/gpu/cuda/EmitPtx.h"
#include "codegen/gpu/kernels/launch.h"
#include "codegen/gpu/kernels/profiles.h"
#include "mlir/IR/MLIRContext.h"

namespace qcc::gpu {

inline std::string Ptxas() {
  for (const char* path : {"/usr/local/cuda/bin/ptxas", "/usr/bin/ptxas"})
    if (std::filesystem::exists(path)) return path;
  return "";
}

struct Assembled {
  bool ok = false;
  std::string said;
};

inline Assembled Assemble(const std::string& ptx, const std::string& chip) {
  const std::string stem = testing::TempDir() + "/qcc_ptx_" + std::to_string(getpid());
  std::ofstream(stem + ".ptx") << ptx;
  const std::string command =
      Ptxas() + " -v -arch=" + chip + " -o " + stem + ".cubin " + stem + ".ptx > " + stem + ".log 2>&1";
  const int status = std::system(command.c_str());
  std::ifstream log(stem + ".log");
  std::string text((std::istreambuf_iterator<char>(log)), {});
  for (const char* end : {".ptx", ".cubin", ".log"}) std::filesystem::remove(stem + end);
  return {status == 0, text};
}

// Bytes of a thread that do not stay in registers.
inline int Spilled(const Assembled& assembled) {
  const size_t frame = assembled.said.find(" bytes stack frame, ");
  int spilled = -1;
  const bool found =
      frame != std::string::npos &&
      std::sscanf(assembled.said.c_str() + frame, " bytes stack frame, %d bytes spill stores", &spilled) == 1;
  EXPECT_TRUE(found) << assembled.said;
  return spilled;
}

// Of a thread.
inline int Registers(const Assembled& assembled) {
  const size_t used = assembled.said.find("Used ");
  int registers = -1;
  EXPECT_TRUE(used != std::string::npos &&
              std::sscanf(assembled.said.c_str() + used, "Used %d registers", &registers) == 1)
      << assembled.said;
  return registers;
}

// Null where there is no ptxas, or it fails. Sums that do not stay in registers cost more than matrix units
// gain.
inline std::optional<Assembled> WithoutSpills(const std::string& ptx, const std::string& chip) {
  if (Ptxas().empty()) return std::nullopt;
  Assembled assembled = Assemble(ptx, chip);
  EXPECT_TRUE(assembled.ok) << assembled.said << "\n" << ptx;
  if (!assembled.ok) return std::nullopt;
  EXPECT_EQ(Spilled(assembled), 0) << assembled.said;
  return assembled;
}

// Of a thread, where a multiprocessor has room for as many workgroups as the launch asks for.
inline int RegistersFor(const Launch& launch) {
  constexpr int kOfMultiprocessor = 65536;
  return kOfMultiprocessor / (launch.at_once * launch.workgroup_size);
}

class Ptx : public testing::Test {
 protected:
  Ptx() {
    mlir::DialectRegistry registry;
    registerPtxDialects(registry);
    context_.appendDialectRegistry(registry);
  }

  std::string Emit(const std::vector<Launch>& launches, const ProfileInfo& profile) {
    std::vector<PtxKernel> kernels;
    for (size_t i = 0; i < launches.size(); ++i) kernels.push_back({"k" + std::to_string(i), &launches[i]});
    auto ptx = emitPtx(context_, profile.profile, kernels, profile.chip);
    if (!ptx) {
      ADD_FAILURE() << llvm::toString(ptx.takeError());
      return "";
    }
    return *ptx;
  }

  // The newest ptxas has dropped old chips; what it assembles for must be at least the profile's.
  void Check(const std::string& ptx, const ProfileInfo& profile) {
    if (Ptxas().empty()) GTEST_SKIP() << "ptxas is not installed";
    const std::string chip = profile.chip < "sm_75" ? "sm_75" : profile.chip;
    const Assembled assembled = Assemble(ptx, chip);
    EXPECT_TRUE(assembled.ok) << assembled.said << "\n" << ptx;
  }

  mlir::MLIRContext context_;
};

}  // namespace qcc::gpu

#endif  // QCC_TESTS_UNIT_GPU_CUDA_PTX_FIXTURE_H_
