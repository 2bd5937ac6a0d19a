// The NextN block of random models, dense and of experts, alone as a draft: its kernels compute what the
// reference evaluator does, and of the first tokens alone the same bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "compiler/driver/synth.h"
#include "compiler/pipeline/file_weights.h"
#include "compiler/pipeline/pipeline.h"
#include "dialects/hir/eval/Evaluator.h"
#include "frontends/models/import.h"
#include "mlir/IR/MLIRContext.h"
#include "runtime/artifact/artifact.h"
#include "runtime/device/cpu/cpu_device.h"
#include "tests/unit/compiler/compiled.h"
#include "tests/unit/compiler/quiet_sink.h"
#include "tests/unit/compiler/synth_tiny.h"

namespace qcc::compiler {
namespace {

constexpr int64_t kRows = 4, kTokens = 12, kVocabulary = 512;

class Draft : public InFolder, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    InFolder::SetUp();
    SynthOptions synth = Tiny(GetParam());
    tied_ = GetParam() == std::string("qwen35");
    synth.tied = tied_;
    synth.output = model_ = Path("model.gguf");
    const absl::Status made = RunSynth(synth, [](uint64_t, uint64_t) { return absl::OkStatus(); });
    ASSERT_TRUE(made.ok()) << made;
    std::mt19937 random(5);
    std::normal_distribution<float> normal;
    for (int64_t i = 0; i < kTokens; ++i) tokens_.push_back(static_cast<int32_t>(random() % kVocabulary));
    hidden_.resize(static_cast<size_t>(kTokens * synth.hidden.value()));
    for (float& value : hidden_) value = normal(random);
  }

  // Logits, row by row, of the programs that take a trunk's rows.
  std::vector<float> Run(int64_t vocabulary, int64_t columns) {
    PipelineOptions options;
    options.input = model_;
    options.output = Path("draft.qbin");
    options.cpu = {"base"};
    options.numerics = NumericsMode::kF32;
    options.kv = KvMode::kF32;
    options.decode_buckets = {kRows};
    options.prefill_buckets = {16};
    options.golden_tokens = 0;
    options.draft = true;
    options.functions = {"mtp"};
    options.draft_vocab = vocabulary;
    QuietSink quiet;
    const absl::Status compiled = CompileModel(options, quiet);
    EXPECT_TRUE(compiled.ok()) << compiled;
    auto artifact = qrt::Artifact::Open(options.output);
    if (!artifact.ok()) return {};
    auto device = qrt::CpuDevice::Create(**artifact, 0, qrt::ThreadPool::Create(2, 2), nullptr);
    if (!device.ok()) return {};
    weights_ = (*artifact)->manifest().weights_bytes;
    CpuSequence sequence(**artifact, **device);
    auto* arena = reinterpret_cast<float*>((*device)->arena().address);
    const int64_t width = static_cast<int64_t>(hidden_.size()) / kTokens;
    std::vector<float> logits(static_cast<size_t>(kTokens * columns));
    for (int64_t at = 0; at < kTokens; at += kRows) {
      std::memcpy(arena, hidden_.data() + at * width, sizeof(float) * kRows * width);
      sequence.Run("mtp_4", std::span(tokens_).subspan(at, kRows), at, logits.data() + at * columns);
    }
    return logits;
  }

  std::vector<double> Reference() {
    auto file = gguf::File::Open(model_);
    if (!file.ok()) return {};
    mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
    models::ImportOptions import;
    import.kv = models::KvElement::kF32;
    auto imported = models::ImportModel(context, **file, import);
    EXPECT_TRUE(imported.ok()) << imported.status();
    if (!imported.ok()) return {};
    const FileWeights weights(**file);
    hir::Evaluator evaluator(*imported->module, weights, hir::Precision::F64);
    const std::vector<double> rows(hidden_.begin(), hidden_.end());
    const int64_t width = static_cast<int64_t>(rows.size()) / kTokens;
    auto hidden =
        evaluator.evaluate("mtp_hidden", {hir::tensorValue(hir::Precision::F64, {kTokens, width}, rows)});
    if (mlir::failed(hidden)) return {};
    auto made = evaluator.evaluate(
        "mtp", {hir::idsValue(tokens_), (*hidden)[0], hir::rowsValue(hir::StepRows::text(0, kTokens))});
    return mlir::failed(made) ? std::vector<double>() : hir::toDoubles((*made)[0]);
  }

  std::string model_;
  bool tied_ = false;  // the head is the embedding
  std::vector<int32_t> tokens_;
  std::vector<float> hidden_;  // [kTokens][hidden]
  uint64_t weights_ = 0;       // bytes of the last artifact
};

TEST_P(Draft, ComputesWhatTheReferenceDoesAndOfSomeTokensTheSame) {
  const std::vector<double> reference = Reference();
  const std::vector<float> all = Run(0, kVocabulary);
  ASSERT_EQ(all.size(), reference.size());
  double error = 0, power = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    error += (all[i] - reference[i]) * (all[i] - reference[i]);
    power += reference[i] * reference[i];
  }
  EXPECT_LT(error / power, 1e-9) << "the block's kernels are not its reference";

  const uint64_t whole = weights_;
  constexpr int64_t kSome = 112;  // of 100 asked for
  const std::vector<float> some = Run(100, kSome);
  for (int64_t row = 0; row < kTokens; ++row) {
    EXPECT_TRUE(std::equal(some.begin() + row * kSome, some.begin() + (row + 1) * kSome,
                           all.begin() + row * kVocabulary))
        << "row " << row << " of the first tokens has other bits";
  }
  if (tied_) {
    EXPECT_EQ(weights_, whole) << "the head is the embedding, which has all rows: it lies there once";
  } else {
    EXPECT_LT(weights_, whole) << "rows of a head of its own that are never read are there";
  }
}

INSTANTIATE_TEST_SUITE_P(Architectures, Draft, testing::Values("qwen35", "qwen35moe"));

}  // namespace
}  // namespace qcc::compiler
