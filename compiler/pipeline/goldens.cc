#include "compiler/pipeline/goldens.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "compiler/artifact/goldens_section.h"
#include "compiler/pipeline/file_weights.h"
#include "dialects/hir/eval/Evaluator.h"
#include "mlir/IR/BuiltinAttributes.h"

namespace qcc::compiler {
namespace {

// Enough rows for every state to be read after it was written, few enough to cost a fraction of the packing.
constexpr int64_t kTokens = 4;
constexpr uint32_t kTop = 8;

// Accepted |difference| as a share of the logits' standard deviation. f32: sums in another order; a deep
// random model shows 3e-4. int8: a sum that differs in the last place can round an activation to the
// neighbouring code, and the layers behind see that.
constexpr float kF32Share = 1e-2f;
constexpr float kInt8Share = 0.25f;

// Spread over the vocabulary, the same for every compile.
std::vector<int32_t> Prompt(int64_t vocab) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < kTokens; ++i)
    ids.push_back(static_cast<int32_t>((2 * i + 1) * vocab / (2 * kTokens)));
  return ids;
}

double Deviation(const std::vector<double>& values) {
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / values.size();
  double sum = 0;
  for (double v : values) sum += (v - mean) * (v - mean);
  return std::sqrt(sum / values.size());
}

}  // namespace

std::optional<std::vector<uint8_t>> MakeGoldens(mlir::ModuleOp fused, const gguf::File& file,
                                                NumericsMode numerics) {
  const int64_t vocab = fused->getAttrOfType<mlir::IntegerAttr>("hir.vocab_size").getInt();
  const std::vector<int32_t> ids = Prompt(vocab);
  std::vector<int32_t> all(ids.size());
  std::iota(all.begin(), all.end(), 0);

  const FileWeights weights(file);
  hir::Evaluator evaluator(fused, weights, hir::Precision::F32);
  auto hidden =
      evaluator.evaluate("trunk", {hir::idsValue(ids), hir::rowsValue(hir::StepRows::text(0, kTokens))});
  if (mlir::failed(hidden)) return std::nullopt;
  auto logits = evaluator.evaluate("head", {(*hidden)[0], hir::idsValue(all)});
  if (mlir::failed(logits)) return std::nullopt;

  const std::vector<double> values = hir::toDoubles((*logits)[0]);
  std::vector<GoldenLogits> rows;
  for (int64_t r = 0; r < kTokens; ++r)
    rows.push_back({static_cast<uint32_t>(r),
                    std::vector<float>(values.begin() + r * vocab, values.begin() + (r + 1) * vocab)});
  const float share = numerics == NumericsMode::kF32 ? kF32Share : kInt8Share;
  return BuildGoldensSection(ids, rows, static_cast<uint32_t>(std::min<int64_t>(kTop, vocab)),
                             share * static_cast<float>(Deviation(values)), /*exact=*/false);
}

}  // namespace qcc::compiler
