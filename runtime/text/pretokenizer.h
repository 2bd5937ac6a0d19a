// Cuts text into the pieces that byte-pair encoding then works on one by one.
#ifndef QRT_TEXT_PRETOKENIZER_H_
#define QRT_TEXT_PRETOKENIZER_H_

#include <functional>
#include <memory>
#include <string_view>

#include "runtime/base/status.h"

namespace qrt::text {

// A compiled pre-tokenizer rule. Immutable; Split may run on any number of threads at once.
//
// The rules are those of the models' tokenizer.json files; first alternative that matches wins:
//   1. an English contraction suffix ('s 't 're 've 'm 'll 'd), ASCII letters in either case
//   2. optionally one character that is no letter, number, CR or LF, then letters (qwen35: and combining
//   marks)
//   3. one number character
//   4. optionally one space, then characters that are no white space, letter, number (qwen35: nor mark), then
//   CR/LFs
//   5. white space that ends in CR/LFs
//   6. white space, up to the last of it when something else follows
//   7. white space
// "White space" is Unicode's White_Space property; letters, marks and numbers are the general categories L, M
// and N as of PCRE2's Unicode tables.
class Pretokenizer {
 public:
  // `name`: "qwen2" or "qwen35". Errors: kArtifactIncompatible Q7101 (another name), kInternal Q7102.
  static Result<Pretokenizer> Create(std::string_view name);

  Pretokenizer(Pretokenizer&&) noexcept;
  Pretokenizer& operator=(Pretokenizer&&) noexcept;
  ~Pretokenizer();

  // Hands out the pieces of `text` in order; together they are exactly `text`, none is empty. A byte that is
  // not part of well-formed UTF-8 is a piece of its own, and the text on its two sides is split as if it
  // stood alone. Errors: kInternal Q7103 (the matcher gave up: over its limits or out of memory).
  Status Split(std::string_view text, const std::function<void(std::string_view piece)>& emit) const;

 private:
  struct Pattern;
  explicit Pretokenizer(std::unique_ptr<Pattern> pattern);
  std::unique_ptr<Pattern> pattern_;
};

}  // namespace qrt::text

#endif  // QRT_TEXT_PRETOKENIZER_H_
