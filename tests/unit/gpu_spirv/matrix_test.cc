// Cooperative matrices as SPIR-V, and what SPIRV-Tools say of them, whether they know the extension or not.
#include <gtest/gtest.h>

#include "codegen/gpu/build/Build.h"
#include "codegen/gpu/kernels/profiles.h"
#include "codegen/gpu/spirv/EmitSpirv.h"
#include "codegen/gpu/spirv/ValidateSpirv.h"
#include "mlir/IR/MLIRContext.h"

namespace qcc::gpu {
namespace {

constexpr uint32_t kMulAddKhr = 4459, kMulAddNv = 5361;

// A tile of 16 by 32 rows of 32 columns, in the profile's shape.
std::vector<uint32_t> Module(const Profile& profile) {
  Launch launch;
  launch.name = "k";
  launch.workgroup_size = 64;
  launch.emit = [](Builder& b) {
    const Shared rows = b.AllocShared(Type::kI32, 48 * 8), sums = b.AllocShared(Type::kI32, 16 * 32);
    b.Barrier();
    b.DotTile({rows, b.I32(0), 8}, 16, {rows, b.I32(16 * 8), 8}, 32, 32, {sums, b.I32(0), 16});
  };
  mlir::DialectRegistry registry;
  registerKernelDialects(registry);
  registerSpirvDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  auto module = buildKernel(context, profile, launch, "main");
  if (!module) {
    ADD_FAILURE() << llvm::toString(module.takeError());
    return {};
  }
  auto words = emitSpirv(**module, profile, launch);
  if (!words) {
    ADD_FAILURE() << llvm::toString(words.takeError());
    return {};
  }
  return *words;
}

// Places of the instructions of an opcode.
std::vector<size_t> Find(const std::vector<uint32_t>& words, uint32_t opcode) {
  std::vector<size_t> places;
  for (size_t i = 5; i < words.size(); i += words[i] >> 16) {
    if ((words[i] & 0xffff) == opcode) places.push_back(i);
  }
  return places;
}

TEST(SpirvMatrices, EveryShapeIsValid) {
  int shapes = 0;
  for (const ProfileInfo& info : Profiles()) {
    const MatrixUnits& units = info.profile.matrix;
    if (units.kind != MatrixUnits::Kind::kCooperative) continue;
    SCOPED_TRACE(info.profile.name);
    const std::vector<uint32_t> words = Module(info.profile);
    EXPECT_EQ(validateSpirv(words), "");
    const size_t products = static_cast<size_t>(16 / units.m * (32 / units.n) * (32 / units.k));
    EXPECT_EQ(Find(words, kMulAddKhr).size(), products);
    EXPECT_EQ(Find(withNvMatrices(words), kMulAddNv).size(), products);
    ++shapes;
  }
  EXPECT_GE(shapes, 3);
}

TEST(SpirvMatrices, WrongOnesAreFound) {
  const std::vector<uint32_t> words = Module(FindProfile("sg32-matrix32")->profile);
  const size_t product = Find(words, kMulAddKhr).at(0);
  std::vector<uint32_t> swapped = words;
  std::swap(swapped[product + 3], swapped[product + 4]);  // 16 x 32 by 32 x 16, now 32 x 16 by 16 x 32
  EXPECT_NE(validateSpirv(swapped), "");
  std::vector<uint32_t> unknown = words;
  unknown[product + 5] = words[3] - 1;  // an id that is no matrix
  EXPECT_NE(validateSpirv(unknown), "");
}

}  // namespace
}  // namespace qcc::gpu
