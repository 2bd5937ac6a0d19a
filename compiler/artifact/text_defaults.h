// How a GGUF says that its model is spoken of and to: its name, the chat template, and how tokens are best
// chosen.
#ifndef QCC_COMPILER_ARTIFACT_TEXT_DEFAULTS_H_
#define QCC_COMPILER_ARTIFACT_TEXT_DEFAULTS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/artifact/manifest_spec.h"
#include "frontends/gguf/gguf.h"

namespace qcc::compiler {

// `general.name`, for people; empty: there is none. `warnings` says of a longer one than the runtime takes
// that it is cut.
std::string ReadModelName(const gguf::File& file, std::vector<std::string>& warnings);

// `tokenizer.chat_template`, if there is one. Errors: Q2301 (over 1 MiB), and of what is no string.
// `warnings` says of one that the runtime cannot parse that chats will be refused, and which templates under
// other names are left out.
absl::StatusOr<std::optional<std::string>> ReadChatTemplate(const gguf::File& file,
                                                            std::vector<std::string>& warnings);

// `general.sampling.*`. Errors: Q2308 (not a number, out of range). `warnings` says of a penalty window that
// is longer than the runtime's longest that it becomes that one, and which keys ask for what the runtime does
// not do.
absl::StatusOr<SamplingSpec> ReadSampling(const gguf::File& file, std::vector<std::string>& warnings);

}  // namespace qcc::compiler

#endif  // QCC_COMPILER_ARTIFACT_TEXT_DEFAULTS_H_
