// qwen3: full attention in every layer, queries and keys normalised per head, plain NeoX rotation, no output
// gate.
#include <utility>

#include "absl/strings/str_cat.h"
#include "frontends/models/Architectures.h"
#include "frontends/models/Assembly.h"
#include "frontends/models/Layers.h"

using namespace mlir;

namespace qcc::models {

namespace {

// 10000 is what GGUF means by an absent rope.freq_base; Qwen3's own files always state theirs.
constexpr FamilyTraits kQwen3 = {
    .hybrid = false, .nextn = false, .defaultRotaryDivisor = 1, .defaultRopeBase = 1e4};

}  // namespace

absl::StatusOr<ImportResult> importQwen3(MLIRContext& context, const gguf::File& file,
                                         const ImportOptions& options) {
  Metadata metadata(file, "qwen3", options.refusals);
  absl::StatusOr<HyperParameters> read = readHyperParameters(metadata, kQwen3);
  if (!read.ok()) return read.status();
  Model model;
  model.hp = *std::move(read);
  const HyperParameters& hp = model.hp;
  TensorTable tensors(file, options.refusals);
  model.ends = collectEnds(tensors, file, hp);
  for (int64_t i = 0; i < hp.trunkBlocks() && tensors.goesOn(); ++i) {
    Layer layer{"attn", absl::StrCat("blk.", i), /*rotates=*/true, {}, {}};
    const int64_t kvHeads = hp.kvHeads[i];
    collectAttention(tensors, layer.name, hp, kvHeads, /*gated=*/false, layer.inputs);
    collectFeedForward(tensors, layer.name, hp, layer.inputs);
    layer.inputs.states = {{"kv", hir::StateType::get(&context, hir::StateKind::KV, {kvHeads, hp.headDim},
                                                      kvElementType(&context, options.kv))}};
    layer.build = [&hp, kvHeads](BlockScope& scope) {
      return buildFeedForward(scope, buildAttention(scope, scope.x(), hp, kvHeads, /*gated=*/false), hp);
    };
    model.layers.push_back(std::move(layer));
  }
  ImportResult result;
  if (absl::Status status = tensors.finish(result.warnings); !status.ok()) return status;
  if (!metadata.ok()) return metadata.status();
  absl::StatusOr<OwningOpRef<ModuleOp>> module = assemble(context, model);
  if (!module.ok()) return module.status();
  result.module = *std::move(module);
  return result;
}

}  // namespace qcc::models
