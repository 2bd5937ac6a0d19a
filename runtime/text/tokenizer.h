// Text to token ids and back: byte-level BPE over the tables of an artifact.
#ifndef QRT_TEXT_TOKENIZER_H_
#define QRT_TEXT_TOKENIZER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/artifact/artifact.h"
#include "runtime/base/status.h"
#include "runtime/text/pretokenizer.h"
#include "runtime/text/special_tokens.h"

namespace qrt::text {

// Immutable; any number of threads may use one at once. Throws nothing but std::bad_alloc.
class Tokenizer {
 public:
  // The longest text that Encode takes.
  static constexpr size_t kMaxTextBytes = size_t{1} << 28;

  // `tables` must be checked (Artifact::tokenizer()) and stay alive and unchanged; `eog`: ids after which
  // generation ends; `nfc`: whether the model's tokenizer normalizes text. Errors: kArtifactIncompatible
  // Q7101 (unknown pre-tokenizer), kInternal Q7102.
  static Result<Tokenizer> Create(const TokenizerTables& tables, std::string_view pre,
                                  std::span<const uint32_t> eog, bool nfc = false);

  // Appends the ids of `text`, at most one per byte of what is tokenized. Nothing is added in front or
  // behind.
  //
  // First the text is cut at special tokens: all occurrences of the longest one, from the left, then of the
  // next that do not overlap those already taken, and so on. User-defined tokens always count; control and
  // unknown tokens only with `parse_special`, and then only where they cover none of the bytes `as_text`
  // (rising): the places where somebody else's text looks like one. Each rest is
  // brought into Unicode's form C (nfc.h), where the model's tokenizer does so and `normalize` lets it, and
  // cut by the pre-tokenizer, and each piece is merged: of all neighbours with a merge rule the one of lowest
  // rank, the leftmost of equals, until none is left. Any bytes are taken; ones that are no UTF-8 become byte
  // tokens. Time grows as n log n, also for one huge piece. Errors: kInvalidArgument Q7104 (over
  // kMaxTextBytes); those of Pretokenizer::Split. *out is unchanged then.
  Status Encode(std::string_view text, bool parse_special, std::vector<int32_t>* out,
                std::span<const size_t> as_text = {}, bool normalize = true) const;

  // The bytes of `text`, rising, at which the written form of a control or unknown token begins: a whole one,
  // one that the end of `text` cuts off (what follows may complete it), or, for byte 0, the end of one that
  // what comes before may begin. Occurrences may overlap.
  std::vector<size_t> FindControl(std::string_view text) const { return special_.FindControl(text); }

  // Bytes of a token, possibly a part of a UTF-8 sequence; the written form of a special token; empty for an
  // id outside the vocabulary. Lives as long as the tables.
  std::string_view TokenBytes(int32_t id) const;

  // Appends the bytes of `ids`. Errors: kInvalidArgument Q7105 (an id outside the vocabulary); *out is
  // unchanged then.
  Status Decode(std::span<const int32_t> ids, std::string* out) const;

  uint32_t size() const { return tables_.n_tokens; }
  // Does generation end after this token?
  bool IsEog(int32_t id) const;
  std::span<const uint32_t> eog() const { return eog_; }
  // A control token: part of the protocol, not of the text.
  bool IsControl(int32_t id) const;

 private:
  struct Scratch;

  Tokenizer(const TokenizerTables& tables, Pretokenizer pretokenizer, std::span<const uint32_t> eog,
            bool nfc);

  // The merge rule for (left, right), or null.
  const qrt_tokenizer_merge* FindMerge(uint32_t left, uint32_t right) const;
  void EncodePiece(std::string_view piece, Scratch* scratch, std::vector<int32_t>* out) const;
  void MergeShort(Scratch* scratch) const;
  void MergeLong(Scratch* scratch) const;
  Status EncodeRaw(std::string_view text, bool normalize, Scratch* scratch, std::vector<int32_t>* out) const;

  TokenizerTables tables_;
  Pretokenizer pretokenizer_;
  bool nfc_;
  std::vector<uint32_t> eog_;  // rising
  // merges [merge_begin_[l], merge_begin_[l + 1]) have l on their left.
  std::vector<uint32_t> merge_begin_;
  SpecialTokens special_;
};

}  // namespace qrt::text

#endif  // QRT_TEXT_TOKENIZER_H_
