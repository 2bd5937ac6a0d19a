#include "compiler/pipeline/layer_parts.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "compiler/targets/targets.h"
#include "frontends/base/error.h"
#include "frontends/base/text.h"
#include "frontends/models/Metadata.h"
#include "runtime/abi/terms.h"

namespace qcc::compiler {
namespace {

std::optional<int64_t> ReadLayer(std::string_view text) {
  int64_t layer = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), layer);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  if (!whole || layer < 0 || layer >= models::kBlocks.max) return std::nullopt;
  return layer;
}

std::optional<LayerPart> ReadPart(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const std::string_view range = text.substr(colon + 1);
  const size_t dash = range.find('-');
  const std::optional<int64_t> first = ReadLayer(range.substr(0, dash));
  const std::optional<int64_t> last =
      dash == std::string_view::npos ? first : ReadLayer(range.substr(dash + 1));
  if (!first || !last) return std::nullopt;
  return LayerPart{std::string(text.substr(0, colon)), *first, *last};
}

std::string TargetNames() {
  std::string names;
  for (const TargetInfo& target : Targets()) names += Concat(names.empty() ? "" : ", ", target.name);
  return names;
}

}  // namespace

absl::StatusOr<std::vector<LayerPart>> ParseLayerParts(std::span<const std::string> values,
                                                       const std::string& flag) {
  const auto refuse = [&](std::string what) {
    return MakeError("Q0102", std::move(what), flag,
                     "for example --layers=cpu:0-3,vulkan:4-7: every layer once, in order, from 0");
  };
  if (values.size() > qrt::kMaxParts) {
    return refuse(Concat(values.size(), " parts, expected at most ", qrt::kMaxParts));
  }
  std::vector<LayerPart> parts;
  int64_t next = 0;
  for (const std::string& value : values) {
    std::optional<LayerPart> part = ReadPart(value);
    if (!part) {
      return refuse(Concat("unknown value '", value, "', expected TARGET:FIRST-LAST with layers 0 to ",
                           models::kBlocks.max - 1));
    }
    if (FindTarget(part->target) == nullptr) {
      return refuse(Concat("unknown target '", part->target, "', accepted: ", TargetNames()));
    }
    if (part->first != next) {
      const char* why = part->first < next ? "a layer runs on one device" : "every layer runs on some device";
      return refuse(Concat("'", value, "' begins with layer ", part->first, ", expected ", next, ": ", why));
    }
    if (part->last < part->first) {
      return refuse(Concat("'", value, "' ends with layer ", part->last, ", before its first"));
    }
    next = part->last + 1;
    parts.push_back(*std::move(part));
  }
  return parts;
}

std::string LayerPartsText(std::span<const LayerPart> parts) {
  std::string text;
  for (const LayerPart& part : parts) {
    text += Concat(text.empty() ? "" : ",", part.target, ":", part.first, "-", part.last);
  }
  return text;
}

absl::Status CheckLayerParts(std::span<const LayerPart> parts, int64_t layers, const std::string& file) {
  if (parts.empty() || parts.back().last == layers - 1) return absl::OkStatus();
  return MakeError("Q3009",
                   Concat("--layers=", LayerPartsText(parts), " ends with layer ", parts.back().last,
                          ", the model's layers are 0 to ", layers - 1),
                   file, "give each layer of the model to a device");
}

}  // namespace qcc::compiler
