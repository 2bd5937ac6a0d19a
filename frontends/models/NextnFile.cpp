#include "frontends/models/NextnFile.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "frontends/base/error.h"
#include "frontends/models/TensorTable.h"
#include "frontends/models/import.h"

namespace qcc::models {

namespace {

constexpr char kHelp[] =
    "give the file of this model's own NextN block; a model that has its block in it needs none";

absl::Status otherModel(const gguf::File& block, std::string what) {
  return MakeError("Q2010", std::move(what), block.path(), kHelp);
}

// -1: the key is not there.
absl::StatusOr<int64_t> keyOf(const gguf::File& file, std::string_view key) {
  return file.Has(key) ? file.GetInt(key) : -1;
}

absl::Status sameArchitecture(const gguf::File& model, const gguf::File& block) {
  constexpr std::string_view kKey = "general.architecture";
  std::string names[2];
  for (const auto& [file, name] : {std::pair(&model, &names[0]), std::pair(&block, &names[1])}) {
    absl::StatusOr<std::string_view> found = file->GetString(kKey);
    if (!found.ok()) return found.status();
    *name = text(*found);
  }
  if (names[0] == names[1]) return absl::OkStatus();
  return otherModel(block, absl::StrCat("the NextN block is for architecture \"", names[1],
                                        "\", the model has \"", names[0], "\""));
}

// Tokens and rows of the embedding: the block's guesses are ids of the model.
absl::Status sameVocabulary(const gguf::File& model, const gguf::File& block) {
  constexpr std::string_view kTable = "token_embd.weight", kTokens = "tokenizer.ggml.tokens";
  const gguf::Tensor *own = model.FindTensor(kTable), *its = block.FindTensor(kTable);
  if (own != nullptr && its != nullptr && own->ne[1] != its->ne[1])
    return otherModel(block, absl::StrCat("the NextN block is for a vocabulary of ", its->ne[1],
                                          " tokens, the model has ", own->ne[1]));
  if (!model.Has(kTokens) || !block.Has(kTokens)) return absl::OkStatus();
  const auto ours = model.GetStringArray(kTokens), others = block.GetStringArray(kTokens);
  if (!ours.ok()) return ours.status();
  if (!others.ok()) return others.status();
  if (*ours == *others) return absl::OkStatus();
  const auto differ = std::ranges::mismatch(*ours, *others);
  return otherModel(block, absl::StrCat("the NextN block is for another vocabulary: they differ from token ",
                                        differ.in1 - ours->begin(), " on"));
}

double scoreScale(const HyperParameters& hp) {
  const auto ofHeads = static_cast<float>(1 / std::sqrt(static_cast<double>(hp.headDim)));
  return hp.attentionScale > 0 ? hp.attentionScale : ofHeads;
}

// The block is computed with the model's numbers: those that its file states, too, must be they.
absl::Status sameArithmetic(const HyperParameters& hp, const HyperParameters& its, const gguf::File& block) {
  const struct {
    std::string_view key;
    double model, block;
  } same[] = {{"attention.layer_norm_rms_epsilon", hp.eps, its.eps},
              {"attention.scale", scoreScale(hp), scoreScale(its)},
              {"expert_gating_func", hp.experts.sigmoid ? 2. : 1., its.experts.sigmoid ? 2. : 1.},
              {"expert_weights_norm", hp.experts.normalise ? 1. : 0., its.experts.normalise ? 1. : 0.},
              {"expert_weights_scale", hp.experts.scale, its.experts.scale}};
  for (const auto& [key, model, value] : same)
    if (model != value)
      return otherModel(block, absl::StrCat("the NextN block is for a model whose ", hp.arch, ".", text(key),
                                            " is ", value, ", this one's is ", model));
  const auto [own, other] = std::ranges::mismatch(hp.rope.invFreq, its.rope.invFreq);
  const std::string what =
      absl::StrCat("the NextN block is for a model with another rotation (", hp.arch, ".rope.*): ");
  if (own != hp.rope.invFreq.end())
    return otherModel(block, absl::StrCat(what, "a token turns pair ", own - hp.rope.invFreq.begin(),
                                          " of a head by ", *other, " radians, here by ", *own));
  if (hp.rope.magnitude != its.rope.magnitude)
    return otherModel(block, absl::StrCat(what, "cosines and sines are multiplied by ", its.rope.magnitude,
                                          ", here by ", hp.rope.magnitude));
  return absl::OkStatus();
}

}  // namespace

bool hasLayer(const gguf::File& file, int64_t layer) {
  const std::string prefix = absl::StrCat("blk.", layer, ".");
  const auto ofLayer = [&](const auto& tensor) { return tensor.name.starts_with(prefix); };
  return std::ranges::any_of(file.tensors(), ofLayer) || std::ranges::any_of(file.refused_tensors(), ofLayer);
}

absl::Status addNextnBlock(HyperParameters& hp, const HyperParameters& withBlock, const gguf::File& block) {
  const struct {
    std::string_view what;
    int64_t model, block;
  } same[] = {{"layers", hp.blocks, withBlock.trunkBlocks()},
              {"values in a row (embedding_length)", hp.embedding, withBlock.embedding},
              {"values in a feed-forward block", hp.feedForward, withBlock.feedForward},
              {"attention heads", hp.heads, withBlock.heads},
              {"values in a head", hp.headDim, withBlock.headDim},
              {"rotated values in a head", hp.rope.dims(), withBlock.rope.dims()},
              {"experts", hp.experts.count, withBlock.experts.count},
              {"experts that a token uses", hp.experts.used, withBlock.experts.used}};
  for (const auto& [what, model, its] : same)
    if (model != its)
      return otherModel(block, absl::StrCat("the NextN block is for a model of ", its, " ", text(what),
                                            ", this one has ", model));
  if (absl::Status status = sameArithmetic(hp, withBlock, block); !status.ok()) return status;
  hp.blocks = withBlock.blocks;
  hp.nextnBlocks = withBlock.nextnBlocks;
  const auto trunk = static_cast<int64_t>(hp.kvHeads.size());
  hp.kvHeads.insert(hp.kvHeads.end(), withBlock.kvHeads.begin() + trunk, withBlock.kvHeads.end());
  hp.recurrent.resize(withBlock.blocks, false);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<gguf::File>> OpenModel(const std::string& path, const std::string& nextn) {
  absl::StatusOr<std::unique_ptr<gguf::File>> model = gguf::File::Open(path);
  if (!model.ok() || nextn.empty()) return model;
  absl::StatusOr<std::unique_ptr<gguf::File>> block = gguf::File::Open(nextn);
  if (!block.ok()) return block;
  if (absl::Status s = sameArchitecture(**model, **block); !s.ok()) return s;
  const std::string arch = text(*(*model)->GetString("general.architecture"));
  const std::string layers = arch + ".block_count", blocks = arch + ".nextn_predict_layers";
  const auto own = keyOf(**model, blocks), ownCount = keyOf(**model, layers);
  const auto its = keyOf(**block, blocks), count = keyOf(**block, layers);
  for (const auto* key : {&own, &ownCount, &its, &count})
    if (!key->ok()) return key->status();
  if (*own > 0 && hasLayer(**model, *ownCount - *own))
    return otherModel(**block, absl::StrCat("the model has a NextN block of its own: ", blocks, " of ",
                                            (*model)->path(), " is ", *own));
  if (*its > 0 && *count <= *its)
    return otherModel(**block, absl::StrCat(layers, " is ", *count, ", expected the layers of the model and ",
                                            *its, " more, of the NextN block"));
  if (*its < 1)
    return otherModel(**block, absl::StrCat("the file holds no NextN block: ", blocks, " is ",
                                            *its < 0 ? "missing" : absl::StrCat(*its)));
  if (absl::Status s = sameVocabulary(**model, **block); !s.ok()) return s;
  // Embedding, norm and head come with the block and are the model's: they are taken from there. But a head
  // of some tokens is the block's alone.
  const std::string prefix = absl::StrCat("blk.", *count - *its, ".");
  const std::string head = prefix + "nextn.shared_head_head.weight";
  const bool trimmed =
      (*block)->FindIntegers(kDraftTokens) != nullptr && (*block)->FindTensor(head) == nullptr;
  const auto ofBlock = [&](const std::string& name) {
    if (name.starts_with(prefix) || name == kDraftTokens) return name;
    return trimmed && name == "output.weight" ? head : std::string();
  };
  if (absl::Status s = (*model)->Join(*std::move(block), ofBlock); !s.ok()) return s;
  return model;
}

}  // namespace qcc::models
