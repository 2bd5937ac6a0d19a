#include "frontends/models/HyperParameters.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace qcc::models {

namespace {

constexpr IntRange kTaps = {2, 64};
// Per head; real models have 64 to 256.
constexpr IntRange kHeadDim = {1, 1 << 16};
// Real models have at most 512.
constexpr IntRange kExperts = {1, 1 << 16};
constexpr std::string_view kKvHeads = "attention.head_count_kv";

void readDeltaNet(Metadata& metadata, const FamilyTraits& family, HyperParameters& hp) {
  DeltaNetParameters& delta = hp.delta;
  constexpr std::string_view kTiled = "ssm.v_head_reordered";
  delta.orderStated = metadata.has(kTiled);
  // Only models in the order of their checkpoints have beta and alpha in one matrix: converters that give all
  // architectures of the family one name leave the key out.
  const bool together =
      !delta.orderStated && std::ranges::any_of(metadata.file().tensors(), [](const gguf::Tensor& tensor) {
        return std::string_view(tensor.name).ends_with(".ssm_ba.weight");
      });
  delta.byKeyHead = !metadata.optionalFlag(kTiled, !(family.byKeyHead || together));
  delta.taps = metadata.requiredInt("ssm.conv_kernel", kTaps);
  delta.keyDim = metadata.requiredInt("ssm.state_size", kHeadDim);
  delta.keyHeads = metadata.requiredInt("ssm.group_count");
  delta.valueHeads = metadata.requiredInt("ssm.time_step_rank");
  if (!metadata.ok()) return;
  if (delta.valueHeads % delta.keyHeads != 0) {
    metadata.fail("Q2004", "ssm.time_step_rank",
                  absl::StrCat(delta.valueHeads, " value heads (", metadata.key("ssm.time_step_rank"),
                               ") are not a multiple of ", delta.keyHeads, " key heads (",
                               metadata.key("ssm.group_count"), ")"));
    return;
  }
  const int64_t inner = metadata.optionalInt("ssm.inner_size", delta.valueHeads * delta.keyDim);
  if (inner % delta.valueHeads != 0)
    metadata.fail("Q2004", "ssm.inner_size",
                  absl::StrCat(metadata.key("ssm.inner_size"), " is ", inner, ", not a multiple of the ",
                               delta.valueHeads, " value heads (", metadata.key("ssm.time_step_rank"), ")"));
  delta.valueDim = inner / delta.valueHeads;
}

// Without a key of its own the width of an expert follows from that of a dense block, unless a tensor says
// otherwise.
int64_t readExpertWidth(Metadata& metadata, const HyperParameters& hp) {
  constexpr std::string_view kKey = "expert_feed_forward_length";
  const int64_t used = hp.experts.used;
  if (!metadata.has(kKey) && hp.feedForward > 0 && hp.feedForward % used == 0) {
    const gguf::Tensor* down = metadata.file().FindTensor("blk.0.ffn_down_exps.weight");
    if (down == nullptr || down->ne[0] == hp.feedForward / used) return hp.feedForward / used;
  }
  return metadata.requiredForAll(kKey, hp.blocks, hp.trunkBlocks());
}

// The shared expert's width without a key of its own: that of a dense block, or what the tensors say.
int64_t sharedWidth(const Metadata& metadata, const HyperParameters& hp) {
  if (hp.feedForward > 0) return hp.feedForward;
  for (const gguf::Tensor& tensor : metadata.file().tensors())
    if (tensor.name.ends_with(".ffn_up_shexp.weight")) return tensor.ne[1];
  return 0;
}

void readExperts(Metadata& metadata, HyperParameters& hp) {
  ExpertParameters& experts = hp.experts;
  experts.count = metadata.requiredInt("expert_count", kExperts);
  experts.used = metadata.requiredForAll("expert_used_count", hp.blocks, hp.trunkBlocks(), kExperts);
  if (!metadata.ok()) return;
  if (experts.used > experts.count) {
    metadata.fail("Q2004", "expert_used_count",
                  absl::StrCat("a token uses ", experts.used, " experts (", metadata.key("expert_used_count"),
                               ") of ", experts.count, " (", metadata.key("expert_count"), ")"));
    return;
  }
  experts.feedForward = readExpertWidth(metadata, hp);
  experts.sharedFeedForward = metadata.optionalInt("expert_shared_feed_forward_length",
                                                   sharedWidth(metadata, hp), {0, kDimension.max});
  experts.sharedStated = metadata.has("expert_shared_feed_forward_length") && experts.sharedFeedForward > 0;
  constexpr std::string_view kGating = "expert_gating_func";
  const int64_t gating = metadata.optionalInt(kGating, 1, {0, 1 << 16});
  experts.sigmoid = gating == 2;
  if (gating > 2)
    metadata.fail("Q2003", kGating,
                  absl::StrCat(metadata.key(kGating), " is ", gating,
                               ", expected 1 (softmax) or 2 (sigmoid), or 0 for that of the architecture"),
                  "the experts would be chosen and weighted otherwise; qcc has no other function");
  experts.normalise =
      metadata.optionalFlag("expert_weights_norm", metadata.optionalFlag("norm_top_k_prob", true));
  // 0 is written where there is none.
  constexpr std::string_view kScale = "expert_weights_scale";
  const auto scale = static_cast<float>(metadata.optionalFloat(kScale, 1));
  experts.scale = scale == 0 ? 1 : scale;
  if (!(experts.scale > 0 && std::isfinite(experts.scale)))
    metadata.fail("Q2003", kScale,
                  absl::StrCat(metadata.key(kScale), " is ", experts.scale, ", expected more than 0"));
}

// Which entries of an array of heads for keys are 0; empty where none is.
std::vector<bool> withoutKvHeads(Metadata& metadata) {
  std::vector<bool> none;
  for (int64_t count : metadata.optionalInts(kKvHeads)) none.push_back(count == 0);
  if (std::find(none.begin(), none.end(), true) == none.end()) none.clear();
  return none;
}

void checkKvHeads(Metadata& metadata, const HyperParameters& hp) {
  const std::vector<bool> none = withoutKvHeads(metadata);
  for (int64_t i = 0; i < std::min<int64_t>(none.size(), hp.trunkBlocks()); ++i) {
    if (!none[i] || hp.recurrent[i]) continue;
    metadata.fail("Q2004", kKvHeads,
                  absl::StrCat("entry ", i, " of ", metadata.key(kKvHeads), " is 0, and block ", i,
                               " is one of attention, expected at least 1"),
                  "keys of the file disagree about which layers are recurrent; convert the model again");
    return;
  }
}

void readSchedule(Metadata& metadata, HyperParameters& hp) {
  const int64_t interval = metadata.optionalInt("full_attention_interval", 4);
  std::vector<bool> flags = metadata.optionalFlags("attention.recurrent_layers", hp.blocks, hp.trunkBlocks());
  if (!metadata.ok()) return;
  // Where nothing else says so, a layer without heads for keys is recurrent.
  if (flags.empty() && !metadata.has("full_attention_interval")) {
    flags = withoutKvHeads(metadata);
    if (!flags.empty()) flags.resize(hp.trunkBlocks());
  }
  if (flags.empty()) metadata.warnOfDefault("full_attention_interval", interval);
  for (int64_t i = 0; i < hp.trunkBlocks(); ++i)
    hp.recurrent[i] = flags.empty() ? (i + 1) % interval != 0 : static_cast<bool>(flags[i]);
  for (size_t i = hp.trunkBlocks(); i < flags.size(); ++i)
    if (flags[i])
      metadata.fail("Q2003", "attention.recurrent_layers",
                    absl::StrCat("block ", i, " is a NextN block and cannot be recurrent"));
}

// How sections interleave shows where the positions of a token differ: those of text are one.
void readSections(Metadata& metadata, HyperParameters& hp) {
  static const std::vector<int64_t> kDefault = {11, 11, 10, 0};
  std::string_view key = "rope.dimension_sections";
  for (std::string_view spelling : {"mrope_sections", "rope.mrope_section"})
    if (metadata.has(spelling) && !metadata.has(key)) key = spelling;
  for (std::string_view order : {"rope.mrope_interleaved", "mrope_interleaved"}) metadata.has(order);
  hp.ropeSections = kDefault;
  if (!metadata.has(key)) {
    metadata.warn(absl::StrCat("key ", metadata.key(key), " is missing; the family's sections ",
                               absl::StrJoin(kDefault, " "), " are taken"));
    return;
  }
  const std::vector<int64_t> sections = metadata.optionalInts(key);
  if (!metadata.ok()) return;
  const bool shape = sections.size() == 3 || sections.size() == 4;
  int64_t sum = 0;
  bool range = true;
  for (int64_t pairs : sections) {
    range = range && pairs >= 0 && pairs <= kDimension.max;
    sum += range ? pairs : 0;
  }
  if (!shape || !range || sum == 0) {
    metadata.fail("Q2003", key,
                  absl::StrCat(metadata.key(key), " has ", sections.size(), " entries with sum ", sum,
                               ", expected 3 or 4 pair counts that are not all 0"));
    return;
  }
  hp.ropeSections = sections;
  hp.ropeSections.resize(4, 0);
}

void readAttention(Metadata& metadata, const FamilyTraits& family, HyperParameters& hp) {
  hp.heads = metadata.requiredForAll("attention.head_count", hp.blocks, hp.trunkBlocks());
  hp.kvHeads = metadata.has(kKvHeads)
                   ? metadata.requiredPerBlock(kKvHeads, hp.blocks, hp.trunkBlocks())
                   : std::vector<int64_t>(static_cast<size_t>(hp.blocks), hp.heads);  // no groups
  if (!metadata.ok()) return;
  for (int64_t kv : hp.kvHeads) {
    if (hp.heads % kv == 0) continue;
    metadata.fail(
        "Q2004", kKvHeads,
        absl::StrCat(hp.heads, " attention heads (", metadata.key("attention.head_count"),
                     ") are not a multiple of ", kv, " key/value heads (", metadata.key(kKvHeads), ")"));
    return;
  }
  if (!metadata.has("attention.key_length") && hp.embedding % hp.heads != 0) {
    metadata.fail("Q2004", "attention.key_length",
                  absl::StrCat(metadata.key("attention.key_length"), " is missing and ", hp.embedding,
                               " (embedding_length) is not a multiple of ", hp.heads, " heads"));
    return;
  }
  hp.headDim = metadata.has("attention.key_length") ? metadata.requiredInt("attention.key_length", kHeadDim)
                                                    : std::min(hp.embedding / hp.heads, kHeadDim.max);
  const int64_t valueDim = metadata.optionalInt("attention.value_length", hp.headDim);
  if (metadata.ok() && valueDim != hp.headDim)
    metadata.fail("Q2003", "attention.value_length",
                  absl::StrCat(metadata.key("attention.value_length"), " is ", valueDim,
                               ", expected the key length ", hp.headDim));
  constexpr std::string_view kScale = "attention.scale";
  hp.attentionScale = static_cast<float>(metadata.optionalFloat(kScale, 0));
  if (!(hp.attentionScale >= 0 && std::isfinite(hp.attentionScale)))
    metadata.fail("Q2003", kScale,
                  absl::StrCat(metadata.key(kScale), " is ", hp.attentionScale,
                               ", expected more than 0, or 0 for that of the head size"));
  const int64_t rotated = metadata.optionalInt("rope.dimension_count",
                                               hp.headDim / family.defaultRotaryDivisor, {0, kDimension.max});
  if (family.defaultRotaryDivisor != 1) metadata.warnOfDefault("rope.dimension_count", rotated);
  if (metadata.ok() && (rotated < 2 || rotated % 2 != 0 || rotated > hp.headDim))
    metadata.fail("Q2003", "rope.dimension_count",
                  absl::StrCat(rotated, " rotated dimensions (", metadata.key("rope.dimension_count"),
                               "), expected an even number from 2 to the head size ", hp.headDim));
  if (!metadata.ok()) return;
  hp.rope = readRopeFrequencies(metadata, rotated, family.defaultRopeBase, hp.contextLength);
}

}  // namespace

absl::StatusOr<HyperParameters> readHyperParameters(Metadata& metadata, const FamilyTraits& family) {
  HyperParameters hp;
  hp.arch = metadata.arch();
  const auto refused = [&] {
    if (metadata.listsAll()) refuseForeignArithmetic(metadata, family.experts);
    return metadata.status();
  };
  hp.blocks = metadata.requiredInt("block_count", kBlocks);
  hp.embedding = metadata.requiredInt("embedding_length");
  hp.contextLength = metadata.optionalInt("context_length", 4096);
  metadata.warnOfDefault("context_length", hp.contextLength);
  const double eps = metadata.requiredFloat("attention.layer_norm_rms_epsilon");
  hp.eps = static_cast<float>(eps);
  if (metadata.ok() && !(hp.eps > 0 && std::isfinite(hp.eps)))
    metadata.fail("Q2003", "attention.layer_norm_rms_epsilon",
                  absl::StrCat(metadata.key("attention.layer_norm_rms_epsilon"), " is ", eps,
                               ", expected more than 0"));
  hp.nextnBlocks = metadata.optionalInt("nextn_predict_layers", 0, {0, family.nextn ? 1 : 0});
  constexpr std::string_view kFeedForward = "feed_forward_length";
  hp.feedForward = family.experts && !metadata.has(kFeedForward)
                       ? 0
                       : metadata.requiredForAll(kFeedForward, hp.blocks, hp.trunkBlocks(),
                                                 {family.experts ? 0 : 1, kDimension.max});
  if (metadata.ok() && hp.nextnBlocks >= hp.blocks)
    metadata.fail("Q2004", "block_count",
                  absl::StrCat(metadata.key("block_count"), " is ", hp.blocks, ", which includes ",
                               hp.nextnBlocks, " NextN block(s) and leaves no trunk"));
  if (!metadata.ok()) return refused();
  hp.recurrent.assign(hp.blocks, false);
  readAttention(metadata, family, hp);
  if (family.hybrid) {
    readDeltaNet(metadata, family, hp);
    if (family.sections) readSections(metadata, hp);
    readSchedule(metadata, hp);
  }
  if (metadata.ok()) checkKvHeads(metadata, hp);
  if (family.experts) readExperts(metadata, hp);
  if (!metadata.ok()) return refused();
  refuseForeignArithmetic(metadata, family.experts);
  if (!metadata.ok() && !metadata.listsAll()) return metadata.status();
  return hp;
}

}  // namespace qcc::models
