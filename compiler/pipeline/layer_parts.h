// Which layers run on which device, as the user writes it: "cpu:0-3,vulkan:4-7".
#ifndef QCC_COMPILER_PIPELINE_LAYER_PARTS_H_
#define QCC_COMPILER_PIPELINE_LAYER_PARTS_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/pipeline/options.h"

namespace qcc::compiler {

// TARGET:FIRST-LAST each, or TARGET:LAYER, in order, from layer 0, each layer once. Errors: Q0102, at `flag`.
absl::StatusOr<std::vector<LayerPart>> ParseLayerParts(std::span<const std::string> values,
                                                       const std::string& flag);

// The same again.
std::string LayerPartsText(std::span<const LayerPart> parts);

// Whether these are all layers of a model that has so many. Errors: Q3009, in `file`.
absl::Status CheckLayerParts(std::span<const LayerPart> parts, int64_t layers, const std::string& file);

}  // namespace qcc::compiler

#endif  // QCC_COMPILER_PIPELINE_LAYER_PARTS_H_
