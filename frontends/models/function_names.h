// What importers call a model's public functions. Without MLIR: the command line shows one as its default.
#ifndef QCC_FRONTENDS_MODELS_FUNCTION_NAMES_H_
#define QCC_FRONTENDS_MODELS_FUNCTION_NAMES_H_

#include <string_view>

namespace qcc::models {

inline constexpr std::string_view kTrunkFunction = "trunk";  // tokens -> residual stream
inline constexpr std::string_view kHeadFunction = "head";    // its selected rows -> logits
// The NextN block: tokens, each with the row of the one before it -> logits, and its own rows.
inline constexpr std::string_view kMtpFunction = "mtp";
// Rows that the trunk leaves -> rows that the NextN block is given. Goes with the block.
inline constexpr std::string_view kMtpHiddenFunction = "mtp_hidden";

}  // namespace qcc::models

#endif  // QCC_FRONTENDS_MODELS_FUNCTION_NAMES_H_
