// The kernels that know of sequences (attention, qk_norm_rope_store, gated_delta) as SPIR-V, for the shapes
// of the supported models: every kind of profile passes the lowering and the validator, and each kernel stays
// small enough for drivers to compile fast.

#include "codegen/gpu/build/Build.h"
#include "codegen/gpu/spirv/EmitSpirv.h"
#include "mlir/IR/MLIRContext.h"
#include "tests/unit/gpu_kernels/gpu_fixture.h"

namespace qcc::gpu {
namespace {

constexpr size_t kMostBytes = 88000;  // the largest, attention in blocks of heads of 256, has 87 KB

class SequenceSpirv : public testing::TestWithParam<Profile> {
 protected:
  void SetUp() override {
    mlir::DialectRegistry registry;
    registerKernelDialects(registry);
    registerSpirvDialects(registry);
    context_.appendDialectRegistry(registry);
  }
  template <typename Spec>
  void Check(Expand<Spec> expand, const Spec& spec, int64_t rows) {
    Sandbox box(GetParam(), 512);
    const Dispatch<Spec> d = Anywhere(spec, rows, {Space::kArena, 0, 1 << 20});
    const std::vector<Launch> launches = expand(d, box);
    ASSERT_FALSE(launches.empty());
    for (const Launch& launch : launches) {
      SCOPED_TRACE(launch.name);
      auto module = buildKernel(context_, GetParam(), launch, "kernel_entry");
      ASSERT_TRUE(static_cast<bool>(module)) << llvm::toString(module.takeError());
      auto words = emitSpirv(**module, GetParam(), launch);
      ASSERT_TRUE(static_cast<bool>(words)) << llvm::toString(words.takeError());
      EXPECT_LE(words->size() * 4, kMostBytes);
    }
  }
  mlir::MLIRContext context_{mlir::MLIRContext::Threading::DISABLED};
};
INSTANTIATE_TEST_SUITE_P(Profiles, SequenceSpirv, testing::ValuesIn(TestProfiles()),
                         [](const auto& info) { return "p" + std::to_string(info.param.subgroup); });

TEST_P(SequenceSpirv, Attention) {
  struct Heads {
    int64_t q, kv, dim, rot;
    bool gated;
  };
  for (const Heads& h : {Heads{8, 2, 256, 64, true},
                         {16, 4, 256, 64, true},
                         {24, 4, 256, 64, true},
                         {16, 8, 128, 128, false},
                         {40, 8, 128, 128, false},
                         {64, 8, 128, 128, false},
                         {4, 2, 32, 8, true}}) {
    for (plan::KvElement kv : {plan::KvElement::F16, plan::KvElement::F32}) {
      const plan::AttentionSpec attention = {
          .q_heads = h.q, .kv_heads = h.kv, .head_dim = h.dim, .scale = 0.0625f, .gated = h.gated, .kv = kv};
      for (int64_t rows : {1, 8, 512}) Check(Expand_attention, attention, rows);
      const plan::QkNormRopeStoreSpec store = {.q_heads = h.q,
                                               .kv_heads = h.kv,
                                               .head_dim = h.dim,
                                               .rot_dims = h.rot,
                                               .gated = h.gated,
                                               .eps = 1e-6f,
                                               .kv = kv};
      Check(Expand_qk_norm_rope_store, store, 512);
    }
  }
}

TEST_P(SequenceSpirv, GatedDelta) {
  struct Heads {
    int64_t key, value, key_dim, value_dim;
  };
  for (const Heads& h : {Heads{16, 16, 128, 128}, {16, 32, 128, 128}, {16, 48, 128, 128}, {2, 4, 256, 40}}) {
    for (plan::L2Form form : {plan::L2Form::Sum, plan::L2Form::Max}) {
      const plan::GatedDeltaSpec spec = {.key_heads = h.key,
                                         .value_heads = h.value,
                                         .key_dim = h.key_dim,
                                         .value_dim = h.value_dim,
                                         .taps = 4,
                                         .l2_eps = 1e-6f,
                                         .l2_form = form,
                                         .norm_eps = 1e-6f,
                                         .scale = 0.125f,
                                         .ld_ab = 2 * h.value};
      for (int64_t rows : {1, 8, 512}) Check(Expand_gated_delta, spec, rows);
    }
  }
}

}  // namespace
}  // namespace qcc::gpu
