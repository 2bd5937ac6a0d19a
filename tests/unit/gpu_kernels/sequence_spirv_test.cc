// The kernels that know of sequences (attention, qk_norm_rope_store, gated_delta) as SPIR-V, for the shapes
// of the supported models: every kind of profile passes the lowering and the validator, and each kernel stays
// small enough for drivers to compile fast.

#include "codegen/gpu/build/Build.h"
#include "codegen/gpu/spirv/EmitSpirv.h"
#include "mlir/IR/MLIRContext.h"
#include "tests/unit/gpu_kernels/gpu_fixture.h"

namespace qcc::gpu {
namespace {

constexpr size_t kMostBytes = 86000;  // the largest, delta rules in chunks with keys of 256, has 83 KB

class SequenceSpirv : public testing::TestWithParam<Profile> {
 protected:
  void SetUp() override {
    mlir::DialectRegistry registry;
    registerKernelDialects(registry);
    registerSpirvDialects(registry);
    context_.appendDialectRegistry(registry);
  }
  void Check(Expand expand, Dispatch& d, std::initializer_list<const char*> roles, bool chunks = false) {
    for (const char* role : roles) d.bindings[role].arg = {Space::kArena, 0, 1 << 20};
    Sandbox box(GetParam(), 512);
    box.chunks = chunks;
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
    for (const char* kv : {"f16", "f32"}) {
      Dispatch d;
      d.integers = {
          {"q_heads", h.q}, {"kv_heads", h.kv}, {"head_dim", h.dim}, {"rot_dims", h.rot}, {"gated", h.gated}};
      d.floats = {{"scale", 0.0625}, {"eps", 1e-6}};
      d.strings["kv"] = kv;
      for (int64_t rows : {1, 8, 512}) {
        d.rows = rows;
        Check(Expand_attention, d, {"q", "gate", "kv", "out"});
      }
      Check(Expand_qk_norm_rope_store, d, {"q", "k", "v", "q_norm", "k_norm", "rope", "out", "kv"});
    }
  }
}

TEST_P(SequenceSpirv, GatedDelta) {
  struct Heads {
    int64_t key, value, key_dim, value_dim;
  };
  for (const Heads& h : {Heads{16, 16, 128, 128}, {16, 32, 128, 128}, {16, 48, 128, 128}, {2, 4, 256, 40}}) {
    for (const char* form : {"sum", "max"}) {
      Dispatch d;
      d.integers = {
          {"key_heads", h.key}, {"value_heads", h.value}, {"key_dim", h.key_dim}, {"value_dim", h.value_dim},
          {"taps", 4},          {"ld_ab", 2 * h.value}};
      d.floats = {{"l2_eps", 1e-6}, {"norm_eps", 1e-6}, {"scale", 0.125}};
      d.strings["l2_form"] = form;
      for (auto [rows, chunks] :
           {std::pair(1, false), std::pair(8, false), std::pair(512, false), std::pair(512, true)}) {
        d.rows = rows;
        Check(Expand_gated_delta, d,
              {"qkv", "z", "alpha", "beta", "conv_w", "ssm_a", "dt_bias", "norm_w", "conv_state",
               "delta_state", "out"},
              chunks);
      }
    }
  }
}

}  // namespace
}  // namespace qcc::gpu
