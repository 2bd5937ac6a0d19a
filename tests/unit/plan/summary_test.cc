#include <gtest/gtest.h>

#include "dialects/plan/PlanSummary.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"

namespace qcc::plan {
namespace {

TEST(PlanSummary, CountsWhatOneRunOfEachProgramDoes) {
  mlir::MLIRContext context;
  context.loadDialect<PlanDialect>();
  auto module = mlir::parseSourceString<mlir::ModuleOp>(R"mlir(
    plan.weight @a ["a"] "q8_0" x16 16 x 32 at 0 size 544
    plan.weight @b ["b"] "f32" f32 1 x 16 at 576 size 64
    plan.weight @c ["c"] "q8_0" x16 16 x 64 at 640 size 1088
    plan.constant @r [1.0, 0.5] at 1728
    plan.state @s0 conv layer 0 [3, 16] f32 at 0 size 192
    plan.state @s1 delta layer 0 [1, 5, 5] f32 at 192 size 100
    plan.state @kv kv layer 1 [1, 16] f16 at 64 size 64
    plan.block @block weights 0 state 0 kv 0 {
      plan.dispatch "add" {cols = 16 : i64} ["x", "y"] [#plan.ref<arena, 0, 64, read>, #plan.ref<arena, 64, 64, readwrite>]
      plan.barrier
      plan.dispatch "add" {cols = 16 : i64} ["x", "y"] [#plan.ref<arena, 64, 64, read>, #plan.ref<arena, 0, 64, readwrite>]
    }
    plan.program @prefill_1 tokens leaves "trunk" rows 1 arena 128 {
      plan.call @block weights 0 state 0 kv 0 layer "blk.0"
      plan.barrier
      plan.call @block weights 0 state 0 kv 0 layer "blk.1"
    }
    plan.program @prefill_2 tokens leaves "trunk" rows 2 arena 256 {
      plan.dispatch "add" {cols = 16 : i64} ["x", "y"] [#plan.ref<arena, 0, 128, read>, #plan.ref<arena, 128, 128, readwrite>]
    }
  )mlir",
                                                        &context);
  ASSERT_TRUE(module) << "the plan of this test does not parse";
  PlanSummary s = summarize(*module);
  EXPECT_EQ(s.weightBytes, 1792) << "the constant's 16 bytes at 1728, rounded up";
  EXPECT_EQ(s.stateBytes, 320) << "100 bytes at 192, rounded up";
  EXPECT_EQ(s.kvBytesPerToken, 128);
  EXPECT_EQ(s.arenaBytes, 256);
  EXPECT_EQ(s.weightBytesByFormat, (std::map<std::string, int64_t>{{"f32", 64}, {"q8_0", 1632}}));
  ASSERT_EQ(s.programs.size(), 2u);
  EXPECT_EQ(s.programs[0].name, "prefill_1");
  EXPECT_EQ(s.programs[0].dispatches, 4) << "two calls of a block of two";
  EXPECT_EQ(s.programs[0].barriers, 3) << "one inside each call, one between them";
  EXPECT_EQ(s.programs[1].rows, 2);
  EXPECT_EQ(s.programs[1].arenaBytes, 256);
  EXPECT_EQ(s.programs[1].dispatches, 1);
}

TEST(PlanSummary, CountsTheWeightsThatAStepReads) {
  mlir::MLIRContext context;
  context.loadDialect<PlanDialect>();
  auto module = mlir::parseSourceString<mlir::ModuleOp>(R"mlir(
    plan.weight @t ["t"] "f32" x16 32 x 32 at 0 size 4096
    plan.weight @e ["e"] "q8_0" x16 128 x 32 at 4096 size 4352
    plan.program @decode_2 tokens leaves "trunk" rows 2 arena 1024 {
      plan.dispatch "embed" {cols = 32 : i64, format = "f32"} ["table", "out"] [#plan.ref<weights, 0, 4096, read>, #plan.ref<arena, 0, 256, write>]
      plan.barrier
      plan.dispatch "moe_linear" {epilogue = "store", experts = 8 : i64, format = "q8_0", k = 32 : i64, n = 16 : i64, numerics = "f32", scale_count = 1 : i64, top_k = 2 : i64, up_scale_count = 1 : i64} ["x", "w", "ids", "groups", "order", "y"] [#plan.ref<arena, 0, 256, read>, #plan.ref<weights, 4096, 4352, read>, #plan.ref<arena, 256, 16, read>, #plan.ref<arena, 320, 72, read>, #plan.ref<arena, 448, 16, read>, #plan.ref<arena, 512, 256, write>]
    }
    plan.program @prefill_8 tokens leaves "trunk" rows 8 arena 2816 {
      plan.dispatch "moe_linear" {epilogue = "store", experts = 8 : i64, format = "q8_0", k = 32 : i64, n = 16 : i64, numerics = "f32", scale_count = 1 : i64, top_k = 2 : i64, up_scale_count = 1 : i64} ["x", "w", "ids", "groups", "order", "y"] [#plan.ref<arena, 0, 1024, read>, #plan.ref<weights, 4096, 4352, read>, #plan.ref<arena, 1024, 64, read>, #plan.ref<arena, 1088, 72, read>, #plan.ref<arena, 1216, 64, read>, #plan.ref<arena, 1280, 1024, write>]
    }
  )mlir",
                                                        &context);
  ASSERT_TRUE(module) << "the plan of this test does not parse";
  PlanSummary s = summarize(*module);
  ASSERT_EQ(s.programs.size(), 2u);
  EXPECT_EQ(s.programs[0].weightBytes, 2 * 128 + 4 * 544)
      << "two rows of the embedding, two experts for each";
  EXPECT_EQ(s.programs[1].weightBytes, 4352) << "eight rows can use every expert";
}

}  // namespace
}  // namespace qcc::plan
