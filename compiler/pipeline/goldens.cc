#include "compiler/pipeline/goldens.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <numeric>
#include <span>
#include <type_traits>
#include <variant>

#include "absl/strings/str_cat.h"
#include "compiler/artifact/goldens_section.h"
#include "compiler/pipeline/compile_options.h"
#include "compiler/pipeline/file_weights.h"
#include "compiler/pipeline/finite.h"
#include "compiler/pipeline/reference_logits.h"
#include "dialects/hir/IR/Hir.h"
#include "dialects/hir/eval/Evaluator.h"
#include "frontends/base/error.h"
#include "llvm/ADT/STLExtras.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "passes/contract/EntryPoint.h"

namespace qcc::compiler {
namespace {

// Blocks of the delta rule, and every state read long after it was written.
constexpr int64_t kUsualTokens = 64;
constexpr uint32_t kTop = 8;

// How far two right evaluations of this model are apart is found by a second one, in f64, of so many tokens
// at least; of a model with experts of all: where two of these are nearly as good, a token gets the other
// one, and a few tokens of many show that (of 15 small models by `qcc synth` 3 differed by more than their
// first 4 tokens did).
constexpr int64_t kNoiseTokens = 4;

// Weight values that a compile may decode for goldens nobody asked for. 0.8b, 0.75e9 by this count, takes 5.8
// s with 64 tokens and the second evaluation (2 cores of a 2.3 GHz Emerald Rapids). A token more is counted
// as so much of its weights decoded again.
constexpr double kMostValues = 4e9;
constexpr double kTokenShare = 0.06;
// And for more tokens of the second evaluation: what recurrent layers hand on, later ones differ more by.
constexpr double kMostNoiseValues = 1e9;

// Accepted difference as a share of the logits' standard deviation. f32: sums in another order. int8: a sum
// that differs in the last place can round an activation to the neighbouring code, and the layers behind see
// that.
struct Share {
  float least;  // of the root of the mean square, however quiet the model is
  float usual;  // where there was no second evaluation
};
constexpr Share kF32Share = {3e-4f, 1e-3f};   // small models show up to 7e-5
constexpr Share kInt8Share = {0.03f, 0.15f};  // up to 0.0175
// In int8, with experts, whichever tokens got another one: up to 0.21 (8 layers of 8 experts, hidden size
// 64).
constexpr Share kExpertsShare = {0.3f, 0.3f};
// The root of the mean square may be so many times that of the two evaluations, one value so many times the
// root of the mean square: small models show up to 6 times their own.
constexpr float kTimesNoise = 4, kOneOfAll = 5;
// The same with experts: up to 12 times, of a model that is quieter than its share allows.
constexpr float kOneOfExperts = 8;

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

// Of `tokens`, those that are evaluated a second time in any case.
int64_t NoiseTokens(const ModelSize& size, int64_t tokens) {
  return size.experts > 0 ? tokens : std::min(tokens, kNoiseTokens);
}

// The same with those that cost little.
int64_t CheapNoiseTokens(const ModelSize& size, int64_t tokens, int64_t noise) {
  while (noise > 0 && noise < tokens && ReferenceWork(size, noise + 1) <= kMostNoiseValues) ++noise;
  return noise;
}

struct Extent {
  int64_t tokens = 0, noise_tokens = 0;
};

// The most tokens up to the usual number that are within the bound; 0: not even one.
Extent AffordableTokens(const ModelSize& size) {
  for (int64_t tokens = kUsualTokens; tokens >= kNoiseTokens; --tokens) {
    const int64_t noise = NoiseTokens(size, tokens);
    if (ReferenceWork(size, tokens) + ReferenceWork(size, noise) <= kMostValues) return {tokens, noise};
  }
  int64_t tokens = kUsualTokens;
  while (tokens > 0 && ReferenceWork(size, tokens) > kMostValues) --tokens;
  return {tokens, 0};
}

double Deviation(std::span<const float> values) {
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / values.size();
  double sum = 0;
  for (const double v : values) sum += (v - mean) * (v - mean);
  return std::sqrt(sum / values.size());
}

// The highest values of each row, as `qrun check` compares them: the root of their mean square difference.
double Noise(std::span<const float> one, std::span<const double> other, int64_t vocab) {
  double sum = 0;
  int64_t count = 0;
  std::vector<int64_t> ids(vocab);
  for (size_t row = 0; row + vocab <= other.size(); row += vocab) {
    std::iota(ids.begin(), ids.end(), 0);
    const int64_t top = std::min<int64_t>(kTop, vocab);
    std::partial_sort(ids.begin(), ids.begin() + top, ids.end(),
                      [&](int64_t a, int64_t b) { return one[row + a] > one[row + b]; });
    for (int64_t i = 0; i < top; ++i, ++count) {
      const double difference = one[row + ids[i]] - other[row + ids[i]];
      sum += difference * difference;
    }
  }
  return count == 0 ? 0 : std::sqrt(sum / count);
}

// No token can be chosen from logits that are all equal, so the runtime refuses them.
absl::Status CheckThatTheyDiffer(std::span<const float> logits, int64_t vocab, const gguf::File& file) {
  for (auto row = logits.begin(); vocab > 1 && row != logits.end(); row += vocab) {
    if (std::adjacent_find(row, row + vocab, std::not_equal_to<>()) != row + vocab) continue;
    const int64_t tokens = (row - logits.begin()) / vocab + 1;
    return MakeError("Q3006",
                     absl::StrCat("the model's logits are all equal, ", *row, ", after ", tokens,
                                  tokens == 1 ? " token" : " tokens"),
                     file.path(),
                     "a tensor is zero, or so large that the rest is lost; convert the model again");
  }
  return absl::OkStatus();
}

class Reference {
 public:
  Reference(mlir::ModuleOp fused, const gguf::File& file, const DiagnosticCollector& diagnostics,
            const ProgressSink& sink)
      : fused_(fused), file_(file), diagnostics_(diagnostics), sink_(sink), weights_(file, [&sink] {
          return sink.Interrupted();
        }) {}

  // [ids][vocabulary], in float or double, all finite.
  template <class T>
  absl::StatusOr<std::shared_ptr<const hir::Tensor<T>>> Logits(const std::vector<int32_t>& ids) const {
    constexpr auto kPrecision = std::is_same_v<T, float> ? hir::Precision::F32 : hir::Precision::F64;
    hir::Evaluator evaluator(fused_, weights_, kPrecision);
    auto logits = ReferenceLogits(evaluator, fused_, ids, /*past=*/0);
    if (mlir::succeeded(logits)) {
      auto tensor = std::get<std::shared_ptr<const hir::Tensor<T>>>(*std::move(logits));
      if (absl::Status s = CheckLogits(tensor->data, tensor->rowSize(), /*past=*/0, file_); !s.ok()) return s;
      return tensor;
    }
    if (sink_.Interrupted()) return absl::CancelledError("interrupted");
    return diagnostics_.ToStatus("Q3002", "golden values");
  }

 private:
  mlir::ModuleOp fused_;
  const gguf::File& file_;
  const DiagnosticCollector& diagnostics_;
  const ProgressSink& sink_;
  FileWeights weights_;
};

}  // namespace

absl::StatusOr<Goldens> MakeGoldens(mlir::ModuleOp fused, const gguf::File& file,
                                    const PipelineOptions& options, const DiagnosticCollector& diagnostics,
                                    const ProgressSink& sink) {
  const auto entries = passes::entryPoints(fused);
  if (mlir::succeeded(entries) && passes::tokensToLogits(*entries).empty()) {
    const std::string why = "no function that programs are made of gives logits of tokens";
    if (options.golden_tokens.value_or(0) == 0) return Goldens{{}, "no goldens: " + why};
    return MakeError("Q0102", why, FindCompileOption("goldens")->Flag(),
                     "leave it out, or add --functions=trunk");
  }
  const ModelSize size = SizeOf(fused);
  Extent extent = AffordableTokens(size);
  if (options.golden_tokens) extent = {*options.golden_tokens, NoiseTokens(size, *options.golden_tokens)};
  extent.noise_tokens = CheapNoiseTokens(size, extent.tokens, extent.noise_tokens);
  const int64_t tokens = extent.tokens;
  if (tokens == 0)
    return Goldens{{}, options.golden_tokens ? "no goldens" : "no goldens: the model is large, --goldens=1"};
  const int64_t vocab = fused->getAttrOfType<mlir::IntegerAttr>(hir::kVocabSize).getInt();
  const std::vector<int32_t> ids = Prompt(vocab, tokens);
  const Reference reference(fused, file, diagnostics, sink);
  const auto evaluated = reference.Logits<float>(ids);
  if (!evaluated.ok()) return evaluated.status();
  const std::span logits((*evaluated)->data);
  if (absl::Status s = CheckThatTheyDiffer(logits, vocab, file); !s.ok()) return s;
  const auto deviation = static_cast<float>(Deviation(logits));
  const bool int8 = options.numerics != NumericsMode::kF32, experts = int8 && size.experts > 0;
  const Share share = experts ? kExpertsShare : int8 ? kInt8Share : kF32Share;
  const float one_of_all = experts ? kOneOfExperts : kOneOfAll;
  float accepted = share.usual * deviation;
  if (extent.noise_tokens > 0) {
    const auto precise = reference.Logits<double>({ids.begin(), ids.begin() + extent.noise_tokens});
    if (!precise.ok()) return precise.status();
    const auto noise = static_cast<float>(Noise(logits, (*precise)->data, vocab));
    accepted = std::max(share.least * deviation, kTimesNoise * noise);
  }
  if (!std::isfinite(one_of_all * accepted)) {
    return MakeError(
        "Q3006",
        absl::StrCat("two right evaluations of the model differ by more than a number of 32 bits holds: ",
                     "logits deviate by ", deviation),
        file.path(), "some value on the way is too large for f32; convert the model again");
  }
  std::vector<GoldenLogits> rows;
  for (int64_t r = 0; r < tokens; ++r)
    rows.push_back({static_cast<uint32_t>(r), logits.subspan(r * vocab, vocab)});
  return Goldens{BuildGoldensSection(ids, rows, static_cast<uint32_t>(std::min<int64_t>(kTop, vocab)),
                                     one_of_all * accepted, accepted, /*exact=*/false),
                 absl::StrCat("goldens of ", tokens, tokens == 1 ? " token" : " tokens")};
}

}  // namespace qcc::compiler
