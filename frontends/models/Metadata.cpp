#include "frontends/models/Metadata.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "frontends/base/error.h"

namespace qcc::models {

Metadata::Metadata(const gguf::File& file, std::string arch, std::vector<absl::Status>* refusals)
    : file_(file), arch_(std::move(arch)), refusals_(refusals) {}

std::string Metadata::key(std::string_view suffix) const {
  return arch_ + "." + text(suffix);
}

bool Metadata::has(std::string_view suffix) const {
  asked_.emplace(suffix);
  return file_.Has(key(suffix));
}

void Metadata::fail(const absl::Status& status) {
  if (refusals_ != nullptr) refusals_->push_back(status);
  if (status_.ok()) status_ = status;
}

void Metadata::fail(std::string_view code, std::string_view suffix, std::string what, std::string help) {
  fail(MakeError(std::string(code), std::move(what), absl::StrCat(file_.path(), ", key ", key(suffix)),
                 std::move(help)));
}

void Metadata::failMissing(std::string_view suffix) {
  fail("Q2002", suffix, absl::StrCat("required key ", key(suffix), " is missing"),
       "convert the model again; the file lacks a hyper-parameter that its architecture needs");
}

int64_t Metadata::checked(std::string_view suffix, const absl::StatusOr<int64_t>& value, int64_t fallback,
                          IntRange range) {
  if (!value.ok()) {
    fail(value.status());
    return fallback;
  }
  if (*value < range.min || *value > range.max) {
    fail("Q2003", suffix,
         absl::StrCat(key(suffix), " is ", *value, ", expected ", range.min, " to ", range.max));
    return fallback;
  }
  return *value;
}

int64_t Metadata::requiredInt(std::string_view suffix, IntRange range) {
  if (!has(suffix)) {
    failMissing(suffix);
    return range.min;
  }
  return checked(suffix, file_.GetInt(key(suffix)), range.min, range);
}

int64_t Metadata::optionalInt(std::string_view suffix, int64_t fallback, IntRange range) {
  if (!has(suffix)) return fallback;
  return checked(suffix, file_.GetInt(key(suffix)), fallback, range);
}

double Metadata::requiredFloat(std::string_view suffix) {
  if (!has(suffix)) {
    failMissing(suffix);
    return 1;
  }
  return optionalFloat(suffix, 1);
}

double Metadata::optionalFloat(std::string_view suffix, double fallback) {
  if (!has(suffix)) return fallback;
  absl::StatusOr<double> value = file_.GetFloat(key(suffix));
  if (!value.ok()) {
    fail(value.status());
    return fallback;
  }
  if (!std::isfinite(*value)) {
    fail("Q2003", suffix, absl::StrCat(key(suffix), " is ", *value, ", expected a finite number"));
    return fallback;
  }
  return *value;
}

bool Metadata::optionalFlag(std::string_view suffix, bool fallback) {
  if (!has(suffix)) return fallback;
  absl::StatusOr<bool> value = file_.GetBool(key(suffix));
  if (value.ok()) return *value;
  fail(value.status());
  return fallback;
}

std::string Metadata::optionalString(std::string_view suffix, std::string_view fallback) {
  if (!has(suffix)) return std::string(fallback);
  absl::StatusOr<std::string_view> value = file_.GetString(key(suffix));
  if (value.ok()) return std::string(*value);
  fail(value.status());
  return std::string(fallback);
}

std::vector<int64_t> Metadata::requiredPerBlock(std::string_view suffix, int64_t blocks,
                                                int64_t trunkBlocks) {
  std::vector<int64_t> fallback(blocks, 1);
  if (!has(suffix)) {
    failMissing(suffix);
    return fallback;
  }
  absl::StatusOr<std::vector<int64_t>> array = file_.GetIntArray(key(suffix));
  if (!array.ok()) {
    fail(array.status());
    return fallback;
  }
  const int64_t count = array->size();
  if (count != 1 && count != blocks && count != trunkBlocks) {
    fail("Q2003", suffix,
         absl::StrCat(key(suffix), " has ", count, " entries, expected 1 or one per block (", blocks, ")"));
    return fallback;
  }
  for (int64_t i = 0; i < count; ++i) {
    const int64_t value = (*array)[i];
    if (value < 0 || value > kDimension.max) {
      fail("Q2003", suffix,
           absl::StrCat("entry ", i, " of ", key(suffix), " is ", value, ", expected 0 to ", kDimension.max));
      return fallback;
    }
  }
  const int64_t largest = *std::max_element(array->begin(), array->end());
  if (largest < 1) {
    fail("Q2003", suffix, absl::StrCat(key(suffix), " is 0, expected at least 1"));
    return fallback;
  }
  std::vector<int64_t> result(blocks, largest);
  for (int64_t i = 0; i < std::min(count, blocks); ++i)
    if (count > 1 && (*array)[i] != 0) result[i] = (*array)[i];
  return result;
}

int64_t Metadata::requiredForAll(std::string_view suffix, int64_t blocks, int64_t trunkBlocks,
                                 IntRange range) {
  if (!has(suffix) || file_.GetInt(key(suffix)).ok()) return requiredInt(suffix, range);
  const std::vector<int64_t> values = requiredPerBlock(suffix, blocks, trunkBlocks);
  for (int64_t value : values) {
    if (value == values.front()) continue;
    fail("Q2003", suffix,
         absl::StrCat(key(suffix), " is ", values.front(), " and ", value,
                      ", expected one number for all layers"));
    return range.min;
  }
  return checked(suffix, values.front(), range.min, range);
}

std::vector<int64_t> Metadata::optionalInts(std::string_view suffix) {
  if (!has(suffix)) return {};
  absl::StatusOr<std::vector<int64_t>> values = file_.GetIntArray(key(suffix));
  if (values.ok()) return *std::move(values);
  fail(values.status());
  return {};
}

std::vector<bool> Metadata::optionalFlags(std::string_view suffix, int64_t blocks, int64_t trunkBlocks) {
  if (!has(suffix)) return {};
  absl::StatusOr<std::vector<bool>> flags = file_.GetBoolArray(key(suffix));
  if (!flags.ok()) {
    fail(flags.status());
    return {};
  }
  const int64_t count = flags->size();
  if (count != blocks && count != trunkBlocks) {
    fail("Q2003", suffix,
         absl::StrCat(key(suffix), " has ", count, " entries, expected one per block (", blocks, ")"));
    return {};
  }
  return *flags;
}

namespace {

// A key with the values (besides absence) that leave the arithmetic as the importers emit it.
struct NeutralKey {
  std::string_view suffix;
  std::string_view effect;
  double neutral;
  double alsoNeutral;
};

constexpr std::string_view kExpertCount = "expert_count";

constexpr std::array kNeutralKeys = {
    NeutralKey{kExpertCount, "mixture of experts", 0, 0},
    NeutralKey{"expert_group_count", "experts in groups", 0, 1},
    NeutralKey{"leading_dense_block_count", "dense layers in front of those with experts", 0, 0},
    NeutralKey{"moe_every_n_layers", "experts in some layers only", 0, 1},
    NeutralKey{"interleave_moe_layer_step", "experts in some layers only", 0, 1},
    NeutralKey{"attention.sliding_window", "sliding-window attention", 0, 0},
    NeutralKey{"attention.clamp_kqv", "clamped queries, keys and values", 0, 0},
    NeutralKey{"attention.max_alibi_bias", "ALiBi position bias", 0, 0},
    NeutralKey{"attention.causal", "bidirectional attention", 1, 1},
    NeutralKey{"attn_logit_softcapping", "soft-capped attention scores", 0, 0},
    NeutralKey{"final_logit_softcapping", "soft-capped logits", 0, 0},
    NeutralKey{"logit_scale", "scaled logits", 0, 1},
    NeutralKey{"residual_scale", "scaled residuals", 0, 1},
    NeutralKey{"embedding_scale", "scaled embeddings", 0, 1},
    NeutralKey{"rope.scaling.yarn_log_multiplier", "a YaRN log multiplier", 0, 0},
};

// What readRopeFrequencies, or a row above, looks at; `finetuned` says where the scaling comes from.
constexpr std::string_view kRopeScaling = "rope.scaling.";
constexpr std::array<std::string_view, 10> kRopeScalingKeys = {
    "type",           "factor",         "original_context_length", "finetuned",        "attn_factor",
    "yarn_beta_fast", "yarn_beta_slow", "yarn_ext_factor",         "yarn_attn_factor", "yarn_log_multiplier"};

// Tokens that stand for an image, of files that carry an image encoder along.
constexpr std::array<std::string_view, 3> kImageTokens = {"image_token_id", "vision_start_token_id",
                                                          "vision_end_token_id"};

absl::StatusOr<double> numberOrFlag(const gguf::File& file, const std::string& key) {
  absl::StatusOr<double> number = file.GetFloat(key);
  if (number.ok()) return number;
  absl::StatusOr<bool> flag = file.GetBool(key);
  if (flag.ok()) return *flag ? 1.0 : 0.0;
  return number.status();
}

}  // namespace

void Metadata::warnOfUnread() {
  const std::string prefix = arch_ + ".";
  int64_t vision = 0;
  for (std::string_view key : file_.keys()) {
    if (!key.starts_with(prefix)) continue;
    const std::string_view suffix = key.substr(prefix.size());
    // Which of those matter depends on the kind of scaling; refuseForeignArithmetic has looked at them all.
    if (suffix.starts_with(kRopeScaling) || asked_.contains(suffix)) continue;
    if (suffix.starts_with("vision.") || std::ranges::find(kImageTokens, suffix) != kImageTokens.end()) {
      ++vision;
      continue;
    }
    // The artifact records warnings, and takes no text as long as a key may be.
    const std::string named =
        key.size() <= 256 ? text(key) : absl::StrCat("of ", key.size(), " bytes that begins with ", prefix);
    warn(absl::StrCat("key ", named, " is not used by this architecture"));
  }
  if (vision != 0)
    warn(absl::StrCat(vision, vision == 1 ? " key" : " keys",
                      " of an image encoder (vision.*) not used: programs are made of text"));
}

void refuseForeignArithmetic(Metadata& metadata, bool hasExperts) {
  const gguf::File& file = metadata.file();
  for (const NeutralKey& rule : kNeutralKeys) {
    if (!metadata.has(rule.suffix) || (hasExperts && rule.suffix == kExpertCount)) continue;
    const std::string key = metadata.key(rule.suffix);
    absl::StatusOr<double> value = numberOrFlag(file, key);
    if (!value.ok()) {
      metadata.fail(value.status());
    } else if (*value != rule.neutral && *value != rule.alsoNeutral) {
      metadata.fail(
          "Q2008", rule.suffix,
          absl::StrCat(key, " is ", *value, ": ", text(rule.effect), " is not supported for architecture ",
                       metadata.arch()),
          "this model needs arithmetic that qcc does not have; without it the output would be wrong");
    }
  }
  constexpr std::string_view kPooling = "pooling_type";
  if (metadata.has(kPooling) && numberOrFlag(file, metadata.key(kPooling)).value_or(1) != 0)
    metadata.warn(
        absl::StrCat("key ", metadata.key(kPooling),
                     " says that this is an embedding or reranking model: what it was trained for is "
                     "no text, and qcc makes none of its vectors"));
  const std::string scaling = metadata.key(kRopeScaling);
  for (std::string_view key : file.keys()) {
    if (key.starts_with(scaling) &&
        std::ranges::find(kRopeScalingKeys, key.substr(scaling.size())) == kRopeScalingKeys.end())
      metadata.fail("Q2008", key.substr(metadata.arch().size() + 1),
                    absl::StrCat("key ", text(key), " is no parameter of rope scaling that qcc has"),
                    "the rotation could be wrong without it; use a file with a supported scaling");
    const bool rotated = key.find("hadamard") != key.npos;
    if (!rotated && key.find("pestle") == key.npos) continue;
    metadata.fail(MakeError(
        "Q2008",
        absl::StrCat("key ", text(key), ": ",
                     rotated ? "weights folded with a Hadamard transform" : "factored (Pestle) weights",
                     " are not supported"),
        absl::StrCat(file.path(), ", key ", text(key)),
        "use a file of the same model with ordinary weights"));
  }
}

}  // namespace qcc::models
