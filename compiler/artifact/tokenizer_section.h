// The vocabulary of a GGUF as the tables of runtime/abi/tokenizer.h.
#ifndef QCC_COMPILER_ARTIFACT_TOKENIZER_SECTION_H_
#define QCC_COMPILER_ARTIFACT_TOKENIZER_SECTION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/artifact/manifest_spec.h"
#include "frontends/gguf/gguf.h"

namespace qcc::compiler {

struct TokenizerSection {
  std::vector<uint8_t> bytes;       // the section
  TokenizerSpec spec;               // all but `section`, which the writer knows
  std::vector<uint32_t> choosable;  // qrt_choosable_tokens; empty: all of the head's rows
};

// Nothing if the file has no tokenizer. `vocab_size`: rows of the head; the tokenizer must not produce more
// ids.
//
// Errors name the key and the entry. Those of gguf::File for a missing key or a wrong type (Q11xx). Q2302: a
// tokenizer model or pre-tokenizer that the runtime does not have. Q2303: lengths disagree. Q2304: a token's
// type or form. Q2305: a merge. Q2306: a byte without token. Q2307: a special id outside the vocabulary that
// the text needs: eos, or bos where it is added. Others are left out, with a warning.
absl::StatusOr<std::optional<TokenizerSection>> BuildTokenizerSection(const gguf::File& file,
                                                                      uint32_t vocab_size,
                                                                      std::vector<std::string>& warnings);

}  // namespace qcc::compiler

#endif  // QCC_COMPILER_ARTIFACT_TOKENIZER_SECTION_H_
