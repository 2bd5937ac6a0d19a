// Special tokens in text: where it is cut at them, and where somebody else's text looks like one. Internal to
// runtime/text; the meaning is described in tokenizer.h.
#ifndef QRT_TEXT_SPECIAL_TOKENS_H_
#define QRT_TEXT_SPECIAL_TOKENS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/artifact/artifact.h"
#include "runtime/text/matcher.h"

namespace qrt::text {

// Immutable. Time grows as n log n with the text, whatever the vocabulary is; memory with the text and, apart
// from that, with the bytes of the special tokens.
class SpecialTokens {
 public:
  // A stretch of a text taken by a token.
  struct Taken {
    uint32_t pos;
    uint32_t id;
  };

  // `tables` must stay alive and unchanged.
  explicit SpecialTokens(const TokenizerTables& tables);

  // In the order of the text. `as_text`: as in Tokenizer::Encode.
  std::vector<Taken> Cut(std::string_view text, bool parse_special, std::span<const size_t> as_text) const;
  std::vector<size_t> FindControl(std::string_view text) const;

 private:
  // A token is named by its place in tables_.special here: the longest has the lowest.
  static constexpr uint32_t kNone = Matcher::kNone;

  // Tokens that begin at one place of a text are prefixes of each other. From each one to the next shorter of
  // them, and further at once, so that one of at most some length is found in few steps.
  struct Chain {
    std::vector<uint32_t> next, jump, depth;
    void Add(uint32_t token, uint32_t shorter);
  };

  size_t Size(uint32_t token) const { return tables_.bytes(tables_.special[token]).size(); }
  bool Counts(uint32_t token) const { return user_defined_[token] != 0; }
  // The first of `token` and what follows it in the chain that has at most `bytes`.
  uint32_t AtMost(const Chain& chain, uint32_t token, size_t bytes) const;
  // Of `token` and its prefixes the longest of at most `room` bytes; one that is not user-defined of at most
  // `special_room`.
  uint32_t Longest(uint32_t token, size_t room, size_t special_room) const;

  TokenizerTables tables_;
  std::vector<uint8_t> user_defined_;
  Matcher tokens_back_;  // reads from the end: finds where tokens begin
  Chain all_, user_;
  Matcher control_back_, control_;  // of control and unknown tokens
};

}  // namespace qrt::text

#endif  // QRT_TEXT_SPECIAL_TOKENS_H_
