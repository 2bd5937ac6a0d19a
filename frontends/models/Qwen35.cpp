// qwen35: full attention in every `full_attention_interval`-th layer, gated delta nets in the others, dense
// FFN.
#include <utility>

#include "absl/strings/str_cat.h"
#include "frontends/base/error.h"
#include "frontends/models/Architectures.h"
#include "frontends/models/Assembly.h"
#include "frontends/models/Layers.h"

using namespace mlir;

namespace qcc::models {

namespace {

constexpr FamilyTraits kQwen35 = {
    .hybrid = true, .nextn = true, .defaultRotaryDivisor = 4, .defaultRopeBase = 1e7};

// The lambdas below hold the hyper-parameters by reference: `hp` must outlive the layer.
Layer deltaNetLayer(MLIRContext* context, TensorTable& tensors, const HyperParameters& hp, int64_t index,
                    const ImportOptions& options) {
  Layer layer{"gdn", absl::StrCat("blk.", index), /*rotates=*/false, {}, {}};
  collectDeltaNet(tensors, layer.name, hp, layer.inputs);
  collectFeedForward(tensors, layer.name, hp, layer.inputs);
  const Type f32 = Float32Type::get(context);
  const DeltaNetParameters& delta = hp.delta;
  layer.inputs.states = {
      {"conv",
       hir::StateType::get(context, hir::StateKind::Conv, {delta.taps - 1, delta.convChannels()}, f32)},
      {"delta", hir::StateType::get(context, hir::StateKind::Delta,
                                    {delta.valueHeads, delta.keyDim, delta.valueDim}, f32)}};
  layer.build = [&hp, l2Norm = options.l2_norm](BlockScope& scope) {
    return buildFeedForward(scope, buildDeltaNet(scope, scope.x(), hp, l2Norm), hp);
  };
  return layer;
}

Layer attentionLayer(MLIRContext* context, TensorTable& tensors, const HyperParameters& hp, int64_t index,
                     const ImportOptions& options) {
  Layer layer{"attn", absl::StrCat("blk.", index), /*rotates=*/true, {}, {}};
  const int64_t kvHeads = hp.kvHeads[index];
  collectAttention(tensors, layer.name, hp, kvHeads, /*gated=*/true, layer.inputs);
  // Some conversions drop the FFN of the NextN block; a trunk layer always has one.
  const bool feedForward = index < hp.trunkBlocks() || tensors.has(layer.name + ".ffn_gate.weight") ||
                           tensors.has(layer.name + ".ffn_up.weight") ||
                           tensors.has(layer.name + ".ffn_down.weight");
  if (feedForward) collectFeedForward(tensors, layer.name, hp, layer.inputs);
  layer.inputs.states = {{"kv", hir::StateType::get(context, hir::StateKind::KV, {kvHeads, hp.headDim},
                                                    kvElementType(context, options.kv))}};
  layer.build = [&hp, kvHeads](BlockScope& scope) {
    const Value x = buildAttention(scope, scope.x(), hp, kvHeads, /*gated=*/true);
    return scope.has("ffn_gate.weight") ? buildFeedForward(scope, x, hp) : x;
  };
  return layer;
}

}  // namespace

absl::StatusOr<ImportResult> importQwen35(MLIRContext& context, const gguf::File& file,
                                          const ImportOptions& options) {
  Metadata metadata(file, "qwen35", options.refusals);
  absl::StatusOr<HyperParameters> hp = readHyperParameters(metadata, kQwen35);
  if (!hp.ok()) return hp.status();
  Model model;
  model.hp = *std::move(hp);
  model.l2Norm = options.l2_norm;
  TensorTable tensors(file, options.refusals);
  if (model.hp.nextnBlocks > 0 && !tensors.has("blk.0.attn_norm.weight") &&
      !tensors.has("blk.0.ffn_down.weight") &&
      tensors.has(absl::StrCat("blk.", model.hp.trunkBlocks(), ".nextn.eh_proj.weight")))
    return MakeError("Q2005",
                     "the trunk's tensors are missing: this file holds only the NextN block of a model",
                     absl::StrCat(file.path(), ", tensor blk.0.attn_norm.weight"),
                     "pass the model itself; a draft block alone computes no text");
  model.ends = collectEnds(tensors, file, model.hp);
  for (int64_t i = 0; i < model.hp.trunkBlocks() && tensors.goesOn(); ++i)
    model.layers.push_back(model.hp.recurrent[i] ? deltaNetLayer(&context, tensors, model.hp, i, options)
                                                 : attentionLayer(&context, tensors, model.hp, i, options));
  if (model.hp.nextnBlocks > 0 && tensors.goesOn() && model.ends.embedding.tensor != nullptr)
    model.nextn = collectNextn(tensors, model.hp, model.ends,
                               attentionLayer(&context, tensors, model.hp, model.hp.trunkBlocks(), options));
  ImportResult result;
  if (absl::Status status = tensors.finish(result.warnings); !status.ok()) return status;
  if (!metadata.ok()) return metadata.status();
  if (!options.mtp) model.nextn.reset();
  absl::StatusOr<OwningOpRef<ModuleOp>> module = assemble(context, model);
  if (!module.ok()) return module.status();
  result.module = *std::move(module);
  return result;
}

}  // namespace qcc::models
