#include "compiler/pipeline/goldens.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "compiler/artifact/goldens_section.h"
#include "compiler/pipeline/file_weights.h"
#include "compiler/pipeline/reference_logits.h"
#include "dialects/hir/IR/Hir.h"
#include "dialects/hir/eval/Evaluator.h"
#include "frontends/base/error.h"
#include "frontends/gguf/checks.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"
#include "mlir/IR/BuiltinAttributes.h"

namespace qcc::compiler {
namespace {

// Enough rows for every state to be read after it was written, few enough to cost a fraction of the packing.
constexpr int64_t kUsualTokens = 64;
constexpr uint32_t kTop = 8;

// Weight values that a compile may decode for goldens nobody asked for. Of 35b-a3b with 8 layers, about 3.6e9
// by this count, stage "fuse" took 7.6 s (2.5 GHz Xeon, one thread). A token more is counted as half of its
// weights decoded again.
constexpr double kMostValues = 4e9;
constexpr double kTokenShare = 0.5;

// Accepted |difference| as a share of the logits' standard deviation. f32: sums in another order; a deep
// random model shows 3e-4. int8: a sum that differs in the last place can round an activation to the
// neighbouring code, and the layers behind see that.
struct Share {
  float one;  // of any value
  float all;  // of the root of the mean square over all values
};
constexpr Share kF32Share = {1e-2f, 1e-3f};
constexpr Share kInt8Share = {0.25f, 0.05f};

// Spread over the vocabulary, the same for every compile.
std::vector<int32_t> Prompt(int64_t vocab, int64_t tokens) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < tokens; ++i)
    ids.push_back(static_cast<int32_t>((2 * i + 1) * vocab / (2 * tokens)));
  return ids;
}

// Weight values that the trunk multiplies with.
struct ModelSize {
  double dense = 0, experts = 0;
  double used_share = 1;  // of the experts, by a token
};

ModelSize SizeOf(mlir::ModuleOp module) {
  ModelSize size;
  module.walk([&](hir::MoeExpertsOp op) {
    size.used_share = static_cast<double>(hir::shapeOf(op.getIds()).back()) / op.getExperts();
  });
  module.walk([&](hir::ParamOp param) {
    const auto shape = param.getResult().getType().getShape();
    const bool looked_up = llvm::all_of(param->getUsers(), llvm::IsaPred<hir::EmbedOp>);
    if (!looked_up) (shape.size() > 2 ? size.experts : size.dense) += llvm::product_of(shape);
  });
  return size;
}

double ReferenceWork(const ModelSize& size, int64_t tokens) {
  const double n = static_cast<double>(tokens);
  const double experts = size.experts * std::min(1.0, n * size.used_share);
  return (size.dense + experts) + kTokenShare * n * (size.dense + size.experts * size.used_share);
}

// The most tokens up to the usual number that are within the bound; 0: not even one.
int64_t AffordableTokens(const ModelSize& size) {
  int64_t tokens = kUsualTokens;
  while (tokens > 0 && ReferenceWork(size, tokens) > kMostValues) --tokens;
  return tokens;
}

double Deviation(const std::vector<double>& values) {
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / values.size();
  double sum = 0;
  for (double v : values) sum += (v - mean) * (v - mean);
  return std::sqrt(sum / values.size());
}

}  // namespace

absl::StatusOr<Goldens> MakeGoldens(mlir::ModuleOp fused, const gguf::File& file,
                                    const PipelineOptions& options, const DiagnosticCollector& diagnostics,
                                    const ProgressSink& sink) {
  const int64_t tokens = options.golden_tokens.value_or(AffordableTokens(SizeOf(fused)));
  if (tokens == 0)
    return Goldens{{}, options.golden_tokens ? "no goldens" : "no goldens: the model is large, --goldens=1"};
  const int64_t vocab = fused->getAttrOfType<mlir::IntegerAttr>(hir::kVocabSize).getInt();
  const std::vector<int32_t> ids = Prompt(vocab, tokens);
  const FileWeights weights(file, [&sink] { return sink.Interrupted(); });
  hir::Evaluator evaluator(fused, weights, hir::Precision::F32);
  const auto failed = [&]() -> absl::Status {
    if (sink.Interrupted()) return absl::CancelledError("interrupted");
    return diagnostics.ToStatus("Q3002", "golden values");
  };
  const auto logits = ReferenceLogits(evaluator, fused, ids, /*past=*/0);
  if (mlir::failed(logits)) return failed();

  const std::vector<double>& values = *logits;
  const auto bad = std::find_if_not(values.begin(), values.end(), [](double v) { return std::isfinite(v); });
  if (bad != values.end()) {
    const int64_t at = bad - values.begin();
    return MakeError("Q3006",
                     absl::StrCat("the model's weights are finite, but its logits are not: that of token ",
                                  at % vocab, " after ", at / vocab + 1, " tokens is ", *bad),
                     file.path(), "some value on the way is too large for f32; convert the model again");
  }
  std::vector<GoldenLogits> rows;
  for (int64_t r = 0; r < tokens; ++r)
    rows.push_back({static_cast<uint32_t>(r),
                    std::vector<float>(values.begin() + r * vocab, values.begin() + (r + 1) * vocab)});
  const Share share = options.numerics == NumericsMode::kF32 ? kF32Share : kInt8Share;
  const auto deviation = static_cast<float>(Deviation(values));
  return Goldens{BuildGoldensSection(ids, rows, static_cast<uint32_t>(std::min<int64_t>(kTop, vocab)),
                                     share.one * deviation, share.all * deviation, /*exact=*/false),
                 absl::StrCat("goldens of ", tokens, tokens == 1 ? " token" : " tokens")};
}

absl::Status CheckWeights(mlir::ModuleOp module, const gguf::File& file, const ProgressSink& sink) {
  llvm::StringSet<> used;
  module.walk([&](hir::ParamOp param) { used.insert(param.getName()); });
  for (const gguf::Tensor& tensor : file.tensors()) {
    if (sink.Interrupted()) return absl::CancelledError("interrupted");
    if (!used.contains(tensor.name)) continue;
    if (absl::Status s = gguf::CheckFinite(file, tensor); !s.ok()) return s;
  }
  return absl::OkStatus();
}

}  // namespace qcc::compiler
