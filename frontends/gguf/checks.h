// Checks of a parsed file that need more than one entry at once.
#ifndef QCC_FRONTENDS_GGUF_CHECKS_H_
#define QCC_FRONTENDS_GGUF_CHECKS_H_

#include "absl/status/status.h"
#include "frontends/gguf/gguf.h"

namespace qcc::gguf {

// A file that is one shard of several (`split.count` above 1) is refused where its siblings cannot be read.
absl::Status CheckNotSplit(const File& file);

// Where `tokenizer.ggml.tokens` exists: token types and scores are as many as the tokens; and for byte-level
// BPE (tokenizer.ggml.model "gpt2") every token is valid UTF-8 and every merge is two non-empty pieces around
// one space.
absl::Status CheckVocabulary(const File& file);

// Every weight of `tensor` (one of `file`'s, in whichever shard) is finite: no NaN and no infinity, neither
// as a value nor as a block scale. Looks at scales only, so it costs about one read of the tensor. `qcc
// compile` asks for it; File::Open does not.
absl::Status CheckFinite(const File& file, const Tensor& tensor);

}  // namespace qcc::gguf

#endif  // QCC_FRONTENDS_GGUF_CHECKS_H_
