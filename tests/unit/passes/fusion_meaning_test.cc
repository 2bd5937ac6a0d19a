// Fusion changes who executes an op, never what it computes: the reference evaluator gives the same bits
// before and after, on whole models. With int8 numerics the difference is the rounding of activations alone.
#include <cmath>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "compiler/pipeline/file_weights.h"
#include "dialects/hir/eval/Evaluator.h"
#include "frontends/gguf/gguf.h"
#include "frontends/models/import.h"
#include "gtest/gtest.h"
#include "mlir/IR/MLIRContext.h"
#include "passes/Passes.h"

namespace qcc {
namespace {

const std::vector<int32_t> kIds = {7, 130, 3, 255, 64, 18, 200, 31};

class FusionMeaning : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    auto file = gguf::File::Open(std::string(QCC_SOURCE_DIR "/tests/golden/") + GetParam());
    ASSERT_TRUE(file.ok()) << file.status();
    file_ = *std::move(file);
    context_.getDiagEngine().registerHandler(
        [](mlir::Diagnostic& d) { EXPECT_NE(d.getSeverity(), mlir::DiagnosticSeverity::Error) << d.str(); });
  }

  mlir::OwningOpRef<mlir::ModuleOp> Import() {
    models::ImportOptions options;
    options.kv = models::KvElement::kF32;
    auto imported = models::ImportModel(context_, *file_, options);
    EXPECT_TRUE(imported.ok()) << imported.status();
    return std::move(imported->module);
  }

  mlir::OwningOpRef<mlir::ModuleOp> Fused(bool int8) {
    auto module = Import();
    mlir::PassManager pm(&context_);
    passes::addFusionPasses(pm, int8);
    EXPECT_TRUE(mlir::succeeded(pm.run(*module)));
    return module;
  }

  // Logits of all rows, the prompt fed in two pieces so that states are written and read.
  std::vector<double> Logits(mlir::ModuleOp module) {
    const compiler::FileWeights weights(*file_);
    hir::Evaluator evaluator(module, weights, hir::Precision::F64);
    std::vector<double> all;
    for (auto [first, count] : {std::pair<int64_t, int64_t>{0, 3}, {3, 5}}) {
      std::vector<int32_t> ids(kIds.begin() + first, kIds.begin() + first + count), rows(count);
      std::iota(rows.begin(), rows.end(), 0);
      auto hidden = evaluator.evaluate(
          "trunk", {hir::idsValue(ids), hir::rowsValue(hir::StepRows::text(first, count))});
      if (mlir::failed(hidden)) return {};
      auto logits = evaluator.evaluate("head", {(*hidden)[0], hir::idsValue(rows)});
      if (mlir::failed(logits)) return {};
      for (double v : hir::toDoubles((*logits)[0])) all.push_back(v);
    }
    return all;
  }

  static int64_t Groups(mlir::ModuleOp module) {
    int64_t n = 0;
    module.walk([&](hir::FusedOpInterface) { ++n; });
    return n;
  }

  mlir::MLIRContext context_;
  std::unique_ptr<gguf::File> file_;
};

TEST_P(FusionMeaning, SameBitsBeforeAndAfter) {
  auto plain = Import(), fused = Fused(false);
  ASSERT_GT(Groups(*fused), 5) << "fusion made hardly any group: the comparison would prove nothing";
  const std::vector<double> want = Logits(*plain), got = Logits(*fused);
  ASSERT_FALSE(want.empty());
  EXPECT_EQ(got, want) << "fused groups compute something else than the ops they were made of";
}

TEST_P(FusionMeaning, Int8OnlyRoundsActivations) {
  auto plain = Import(), fused = Fused(true);
  int64_t roundings = 0;
  fused->walk([&](hir::QuantizeOp) { ++roundings; });
  const std::vector<double> want = Logits(*plain), got = Logits(*fused);
  ASSERT_EQ(got.size(), want.size());
  double error = 0, norm = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    error += (got[i] - want[i]) * (got[i] - want[i]);
    norm += want[i] * want[i];
  }
  if (roundings == 0) {
    EXPECT_EQ(error, 0) << "no block-quantised weight, yet the logits changed";
  } else {
    EXPECT_GT(error / norm, 1e-8) << roundings << " roundings that change nothing";
    EXPECT_LT(error / norm, 5e-3) << "NMSE of rounding activations to int8 blocks";
  }
}

// Nothing of a block of experts is left outside of its group.
TEST_P(FusionMeaning, ExpertsAreOneGroup) {
  auto plain = Import();
  int64_t blocks = 0, groups = 0;
  plain->walk([&](hir::MoeExpertsOp) { ++blocks; });
  for (bool int8 : {false, true}) {
    auto fused = Fused(int8);
    groups = 0;
    fused->walk([&](hir::FusedMoeOp op) {
      ++groups;
      EXPECT_TRUE(op.getResidual()) << "the residual sum stands outside";
      EXPECT_EQ(op.getSharedWidth() > 0, std::string(GetParam()).find("t3moe") == std::string::npos);
    });
    EXPECT_EQ(groups, blocks) << "int8 " << int8;
    fused->walk([&](mlir::Operation* op) {
      if (!mlir::isa<hir::MoeRouteOp, hir::MoeExpertsOp, hir::ScaleRowsOp>(op)) return;
      EXPECT_TRUE(mlir::isa<hir::FusedMoeOp>(op->getParentOp())) << op->getName().getStringRef().str();
    });
  }
}

std::string CaseName(const testing::TestParamInfo<const char*>& info) {
  std::string name = info.param;
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(Models, FusionMeaning,
                         testing::Values("t35-q-Q8_0.gguf", "t35-q-Q4_K_M.gguf", "t35-mtp-F32.gguf",
                                         "t3-q-Q4_K_M.gguf", "t3-f-F16.gguf", "t35moe-f-F16.gguf",
                                         "t3moe-q-Q4_K_M.gguf", "t3next-f-F32.gguf"),
                         CaseName);

}  // namespace
}  // namespace qcc
