#include "frontends/models/RopeFrequencies.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "absl/strings/str_cat.h"

namespace qcc::models {

std::vector<double> plainFrequencies(double base, int64_t dims) {
  std::vector<double> freq(dims / 2);
  for (size_t s = 0; s < freq.size(); ++s) freq[s] = std::pow(base, -2.0 * static_cast<double>(s) / dims);
  return freq;
}

RopeFrequencies yarnFrequencies(double base, int64_t dims, const YarnParameters& yarn) {
  // Dimension at which a pair makes `rotations` turns over the original context.
  const auto boundary = [&](double rotations) {
    return dims * std::log(yarn.originalContext / (2 * std::numbers::pi * rotations)) / (2 * std::log(base));
  };
  const double low = std::max(0.0, std::floor(boundary(yarn.betaFast)));
  const double high = std::min(static_cast<double>(dims - 1), std::ceil(boundary(yarn.betaSlow)));
  RopeFrequencies rope{plainFrequencies(base, dims), yarn.attnFactor};
  for (size_t s = 0; s < rope.invFreq.size(); ++s) {
    const double position = (static_cast<double>(s) - low) / std::max(0.001, high - low);
    const double keep = (1 - std::clamp(position, 0.0, 1.0)) * yarn.extFactor;
    rope.invFreq[s] = rope.invFreq[s] / yarn.factor * (1 - keep) + rope.invFreq[s] * keep;
  }
  if (yarn.extFactor != 0) rope.magnitude *= 1 + 0.1 * std::log(yarn.factor);
  return rope;
}

// What a configuration calls attention_factor takes the place of the magnitude that YaRN gives by itself;
// what it calls attn_factor is to multiply it, which no known runtime of these architectures does. Converters
// write both under one key.
static void checkYarnAttention(Metadata& metadata, double magnitude) {
  constexpr std::string_view kSuffix = "rope.scaling.yarn_attn_factor";
  const double stated = metadata.optionalFloat(kSuffix, 1);
  const auto is = [&](double value) { return std::abs(stated - value) <= 1e-4; };
  if (is(1) || is(magnitude)) return;
  if (is(1 / magnitude)) {
    metadata.warn(absl::StrCat("key ", metadata.key(kSuffix), " is ", stated,
                               ", which would take back YaRN's own ", magnitude,
                               ": it is not used, as llama.cpp does not use it"));
    return;
  }
  metadata.fail("Q2008", kSuffix,
                absl::StrCat(metadata.key(kSuffix), " is ", stated,
                             ": a YaRN attention factor of its own is not supported for architecture ",
                             metadata.arch()),
                "this model needs arithmetic that qcc does not have; without it the output would be wrong");
}

RopeFrequencies readRopeFrequencies(Metadata& metadata, int64_t dims, double defaultBase,
                                    int64_t contextLength) {
  // Wider than any real model and narrow enough that every frequency stays finite. The bounds are in it, as
  // f32 has them, too.
  const auto positive = [&](std::string_view suffix, double fallback) {
    const double value = metadata.optionalFloat(suffix, fallback);
    if (const auto stored = static_cast<float>(value); stored >= 1e-9F && stored <= 1e12F) return value;
    metadata.fail("Q2003", suffix,
                  absl::StrCat(metadata.key(suffix), " is ", value, ", expected 1e-9 to 1e12"));
    return fallback;
  };
  const double base = positive("rope.freq_base", defaultBase);
  metadata.warnOfDefault("rope.freq_base", base);
  if (base <= 1)
    metadata.fail("Q2003", "rope.freq_base",
                  absl::StrCat(metadata.key("rope.freq_base"), " is ", base, ", expected more than 1"));
  // 0 is written where nothing is scaled.
  const auto scaling = [&](std::string_view suffix, double fallback) {
    return metadata.has(suffix) && metadata.file().GetFloat(metadata.key(suffix)).value_or(1) == 0
               ? 1
               : positive(suffix, fallback);
  };
  // `rope.scale_linear` is the older spelling; a factor without a type means linear.
  const double factor = scaling("rope.scaling.factor", scaling("rope.scale_linear", 1));
  const std::string type = metadata.optionalString("rope.scaling.type", "linear");
  RopeFrequencies rope{plainFrequencies(base, dims), positive("rope.scaling.attn_factor", 1)};
  if (type != "yarn") checkYarnAttention(metadata, 1);
  if (!metadata.ok() || type == "none") return rope;
  if (type == "linear") {
    for (double& freq : rope.invFreq) freq /= factor;
    return rope;
  }
  if (type != "yarn") {
    metadata.fail("Q2009", "rope.scaling.type",
                  absl::StrCat("rope scaling \"", type, "\", expected none, linear or yarn"),
                  "the rotation would be wrong without it; use a file with a supported scaling");
    return rope;
  }
  YarnParameters yarn;
  yarn.factor = factor;
  if (factor < 1)
    metadata.fail("Q2003", "rope.scaling.factor",
                  absl::StrCat("YaRN factor ", factor, ", expected at least 1"));
  yarn.originalContext = metadata.optionalInt("rope.scaling.original_context_length", contextLength);
  if (factor != 1) metadata.warnOfDefault("rope.scaling.original_context_length", yarn.originalContext);
  yarn.betaFast = positive("rope.scaling.yarn_beta_fast", 32);
  yarn.betaSlow = positive("rope.scaling.yarn_beta_slow", 1);
  yarn.extFactor = metadata.optionalFloat("rope.scaling.yarn_ext_factor", 1);
  if (yarn.extFactor == -1) yarn.extFactor = 1;  // "not set" of those who write it
  if (!(yarn.extFactor >= 0 && yarn.extFactor <= 1))
    metadata.fail("Q2003", "rope.scaling.yarn_ext_factor",
                  absl::StrCat(metadata.key("rope.scaling.yarn_ext_factor"), " is ", yarn.extFactor,
                               ", expected 0 to 1"));
  checkYarnAttention(metadata, yarn.extFactor != 0 ? 1 + 0.1 * std::log(std::max(factor, 1.0)) : 1);
  yarn.attnFactor = rope.magnitude;
  return yarnFrequencies(base, dims, yarn);
}

}  // namespace qcc::models
