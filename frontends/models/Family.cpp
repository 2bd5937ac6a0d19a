#include "frontends/models/Family.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "frontends/base/error.h"
#include "frontends/models/Assembly.h"
#include "frontends/models/Experts.h"
#include "frontends/models/Layers.h"
#include "frontends/models/NextnFile.h"

using namespace mlir;

namespace qcc::models {

namespace {

// A file of the NextN block alone ("mtp-*.gguf") has the hyper-parameters of the whole model.
absl::Status refuseDraftAlone(const gguf::File& file, const TensorTable& tensors, const HyperParameters& hp) {
  if (hp.nextnBlocks == 0 || !tensors.has(absl::StrCat("blk.", hp.trunkBlocks(), ".nextn.eh_proj.weight")))
    return absl::OkStatus();
  const auto ofTrunk = [](const auto& tensor) { return tensor.name.starts_with("blk.0."); };
  if (std::ranges::any_of(file.tensors(), ofTrunk) || std::ranges::any_of(file.refused_tensors(), ofTrunk))
    return absl::OkStatus();
  return MakeError(
      "Q2005", "the trunk's tensors are missing: this file holds only the NextN block of a model",
      absl::StrCat(file.path(), ", tensor blk.0.attn_norm.weight"),
      "pass the model itself; a NextN block alone computes no text: qcc compile --draft makes of "
      "it what qrun --draft takes");
}

// Of a NextN block that was taken out of the file, or is in another, nothing is left but the key.
void dropAbsentNextn(const gguf::File& file, Metadata& metadata, HyperParameters& hp) {
  if (hp.nextnBlocks == 0 || (file.joined() == nullptr && hasLayer(file, hp.trunkBlocks()))) return;
  if (file.joined() == nullptr)
    metadata.warn(absl::StrCat(metadata.key("nextn_predict_layers"), " is ", hp.nextnBlocks,
                               ", and the file has no tensor of that NextN block (blk.", hp.trunkBlocks(),
                               ".*): the model goes without"));
  hp.blocks = hp.trunkBlocks();
  hp.nextnBlocks = 0;
  hp.kvHeads.resize(hp.blocks);
  hp.recurrent.resize(hp.blocks);
}

absl::Status missingDraft(const gguf::File& file, Metadata& metadata) {
  constexpr std::string_view kKey = "nextn_predict_layers";
  return MakeError(
      "Q2005",
      absl::StrCat("the file has no NextN block to draft with: ", metadata.key(kKey),
                   metadata.optionalInt(kKey, 0) == 0 ? " is 0 or missing"
                                                      : " counts one, but its tensors are missing"),
      file.path(), "pass a model with a NextN block, or the file of its block alone");
}

// The rows of the embedding decide; a key that says otherwise is a conversion's slip or counts without
// padding.
void compareVocabulary(Metadata& metadata, const Ends& ends) {
  constexpr std::string_view kKey = "vocab_size";
  if (!metadata.has(kKey) || ends.embedding.tensor == nullptr) return;
  const absl::StatusOr<int64_t> stated = metadata.file().GetInt(metadata.key(kKey));
  if (stated.ok() && *stated == ends.vocabulary()) return;
  metadata.warn(absl::StrCat(metadata.key(kKey), " is ", stated.ok() ? absl::StrCat(*stated) : "no integer",
                             ", token_embd.weight has ", ends.vocabulary(),
                             " rows; the vocabulary is that of the tensor"));
}

// Makes the layers of one file. `hp` must outlive what it makes: the layers hold it by reference.
class LayerMaker {
 public:
  LayerMaker(MLIRContext* context, Metadata& metadata, TensorTable& tensors, const HyperParameters& hp,
             const FamilyTraits& family, const ImportOptions& options)
      : context_(context),
        metadata_(metadata),
        tensors_(tensors),
        hp_(hp),
        family_(family),
        options_(options) {}

  Layer make(int64_t index) { return hp_.recurrent[index] ? deltaNet(index) : attention(index); }

 private:
  Layer deltaNet(int64_t index) {
    Layer layer{"gdn", absl::StrCat("blk.", index), /*rotates=*/false, {}, {}};
    collectDeltaNet(tensors_, layer.name, hp_, layer.inputs);
    feedForward(index, layer);
    const Type f32 = Float32Type::get(context_);
    const DeltaNetParameters& delta = hp_.delta;
    layer.inputs.states = {
        {"conv",
         hir::StateType::get(context_, hir::StateKind::Conv, {delta.taps - 1, delta.convChannels()}, f32)},
        {"delta", hir::StateType::get(context_, hir::StateKind::Delta,
                                      {delta.valueHeads, delta.keyDim, delta.valueDim}, f32)}};
    layer.build = [&hp = hp_, l2Norm = options_.l2_norm](BlockScope& scope) {
      return buildAnyFeedForward(scope, buildDeltaNet(scope, scope.x(), hp, l2Norm), hp);
    };
    return layer;
  }

  Layer attention(int64_t index) {
    Layer layer{"attn", absl::StrCat("blk.", index), /*rotates=*/true, {}, {}};
    const int64_t kvHeads = hp_.kvHeads[index];
    const bool gated = family_.hybrid;
    collectAttention(tensors_, layer.name, hp_, kvHeads, gated, layer.inputs);
    feedForward(index, layer);
    layer.inputs.states = {{"kv", hir::StateType::get(context_, hir::StateKind::KV, {kvHeads, hp_.headDim},
                                                      kvElementType(context_, options_.kv))}};
    layer.build = [&hp = hp_, kvHeads, gated](BlockScope& scope) {
      return buildAnyFeedForward(scope, buildAttention(scope, scope.x(), hp, kvHeads, gated), hp);
    };
    return layer;
  }

  // Experts or dense, as the tensors say; a layer of a model with experts that has neither lacks its experts.
  // Some conversions drop the feed-forward block of the NextN block; a trunk layer always has one.
  void feedForward(int64_t index, Layer& layer) {
    const bool draft = index >= hp_.trunkBlocks();
    const bool dense = hasAny(layer, {"ffn_gate.weight", "ffn_up.weight", "ffn_down.weight"});
    const bool experts =
        hp_.experts.count > 0 && (hasAny(layer, {"ffn_gate_inp.weight", "ffn_gate_exps.weight",
                                                 "ffn_gate_up_exps.weight", "ffn_down_exps.weight"}) ||
                                  (!dense && !draft));
    if (experts) return collectExperts(tensors_, layer.name, hp_, draft, layer.inputs);
    if (!dense && draft) return;
    if (hp_.feedForward == 0) {  // keys of a model with experts may leave it out
      if (metadata_.ok()) metadata_.requiredInt("feed_forward_length");
      return;
    }
    collectFeedForward(tensors_, layer.name, hp_, layer.inputs);
  }

  bool hasAny(const Layer& layer, std::initializer_list<const char*> roles) const {
    return std::ranges::any_of(roles,
                               [&](const char* role) { return tensors_.has(layer.name + "." + role); });
  }

  static Value buildAnyFeedForward(BlockScope& scope, Value x, const HyperParameters& hp) {
    if (hasExperts(scope)) return buildExperts(scope, x, hp);
    return scope.has("ffn_gate.weight") ? buildFeedForward(scope, x, hp) : x;
  }

  MLIRContext* context_;
  Metadata& metadata_;
  TensorTable& tensors_;
  const HyperParameters& hp_;
  const FamilyTraits& family_;
  const ImportOptions& options_;
};

}  // namespace

absl::StatusOr<ImportResult> importFamily(MLIRContext& context, const gguf::File& file,
                                          const ImportOptions& options, const std::string& arch,
                                          const FamilyTraits& family) {
  Metadata metadata(file, arch, options.refusals);
  absl::StatusOr<HyperParameters> hp = readHyperParameters(metadata, family);
  if (!hp.ok()) return hp.status();
  dropAbsentNextn(file, metadata, *hp);
  if (const gguf::File* block = file.joined()) {
    Metadata ofBlock(*block, arch, options.refusals);
    const absl::StatusOr<HyperParameters> withBlock = readHyperParameters(ofBlock, family);
    if (!withBlock.ok()) return withBlock.status();
    if (!ofBlock.ok()) return ofBlock.status();
    if (absl::Status status = addNextnBlock(*hp, *withBlock, *block); !status.ok()) return status;
  }
  Model model;
  model.hp = *std::move(hp);
  model.l2Norm = options.l2_norm;
  TensorTable tensors(file, options.refusals);
  if (options.draft) {
    if (model.hp.nextnBlocks == 0) return missingDraft(file, metadata);
  } else if (absl::Status status = refuseDraftAlone(file, tensors, model.hp); !status.ok()) {
    return status;
  }
  LayerMaker layers(&context, metadata, tensors, model.hp, family, options);
  const std::string draftLayer = options.draft ? absl::StrCat("blk.", model.hp.trunkBlocks()) : "";
  model.ends = collectEnds(tensors, file, model.hp, draftLayer);
  compareVocabulary(metadata, model.ends);
  for (int64_t i = 0; !options.draft && i < model.hp.trunkBlocks() && tensors.goesOn(); ++i)
    model.layers.push_back(layers.make(i));
  if (model.hp.nextnBlocks > 0 && tensors.goesOn() && model.ends.embedding.tensor != nullptr)
    model.nextn = collectNextn(tensors, file, model.hp, model.ends, layers.make(model.hp.trunkBlocks()),
                               options.draft_vocabulary);
  metadata.warnOfUnread();
  ImportResult result;
  result.warnings = metadata.warnings();
  // A key that is missing explains what tensors then seem to lack.
  if (!metadata.ok() && !metadata.listsAll()) return metadata.status();
  // Tensors of the trunk would all be reported as not used.
  if (options.draft && !tensors.ok()) return tensors.status();
  if (absl::Status status =
          options.draft ? absl::OkStatus() : tensors.finish(model.hp.blocks, result.warnings);
      !status.ok())
    return status;
  if (!metadata.ok()) return metadata.status();
  if (!options.mtp) model.nextn.reset();
  absl::StatusOr<OwningOpRef<ModuleOp>> module = assemble(context, model, options.draft);
  if (!module.ok()) return module.status();
  result.module = *std::move(module);
  return result;
}

}  // namespace qcc::models
