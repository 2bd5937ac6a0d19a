// The vocabulary of a synthetic model: a valid byte-level BPE, with the special tokens of the architecture's
// models.
#ifndef QCC_COMPILER_DRIVER_SYNTH_VOCAB_H_
#define QCC_COMPILER_DRIVER_SYNTH_VOCAB_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/gguf/writer.h"

namespace qcc::compiler {

struct SynthVocabulary {
  std::string pre;                  // tokenizer.ggml.pre
  std::vector<std::string> tokens;  // in GPT-2's byte alphabet; special tokens as they are
  std::vector<int32_t> types;       // 1 normal, 3 control, 4 user-defined, 5 unused
  std::vector<std::string> merges;  // "left right"; merge i makes token 256 + i
  int32_t end_of_text = 0, im_end = 0;
  std::string chat_template;
};

// Fewest tokens that a vocabulary of `arch` can have: the bytes and the special tokens.
int64_t MinimumVocabulary(std::string_view arch);

// `size` tokens, at least MinimumVocabulary(arch): the 256 bytes, merges of letters and spaces, the special
// tokens (at the ids that they have in the published models if there is room), and [PADn] up to the end.
SynthVocabulary MakeVocabulary(std::string_view arch, int64_t size);

// tokenizer.* keys.
void AddTokenizerKeys(const SynthVocabulary& vocabulary, gguf::Writer& writer);

}  // namespace qcc::compiler

#endif  // QCC_COMPILER_DRIVER_SYNTH_VOCAB_H_
