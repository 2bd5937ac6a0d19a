#include "compiler/artifact/tokenizer_section.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <numeric>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/escaping.h"
#include "frontends/base/error.h"
#include "frontends/base/text.h"
#include "runtime/abi/tokenizer.h"
#include "runtime/text/unicode.h"

namespace qcc::compiler {
namespace {

constexpr char kTokens[] = "tokenizer.ggml.tokens";
constexpr char kTypes[] = "tokenizer.ggml.token_type";
constexpr char kMerges[] = "tokenizer.ggml.merges";
// The pre-tokenizers that there are, by which rule of the runtime's they split, and whether the tokenizers
// that use them bring text into Unicode's form C first, which the file does not say. Distills of R1 on Qwen3
// have Qwen's words and DeepSeek's tokenizer around them.
constexpr struct {
  std::string_view name, rule;
  bool nfc;
} kPreTokenizers[] = {
    {"qwen2", "qwen2", true}, {"qwen35", "qwen35", true}, {"deepseek-r1-qwen", "qwen2", false}};
constexpr char kBos[] = "tokenizer.ggml.bos_token_id", kEos[] = "tokenizer.ggml.eos_token_id",
               kEosIds[] = "tokenizer.ggml.eos_token_ids";
// Ids after which generation ends, one or a list each: of the text, a turn, a message, a file to be filled
// in.
constexpr const char* kEndKeys[] = {kEos,
                                    kEosIds,
                                    "tokenizer.ggml.eot_token_id",
                                    "tokenizer.ggml.eom_token_id",
                                    "tokenizer.ggml.fim_pad_token_id",
                                    "tokenizer.ggml.fim_rep_token_id",
                                    "tokenizer.ggml.fim_sep_token_id"};
// Generation ends on these wherever the vocabulary has them, besides the ids that the metadata names.
constexpr std::string_view kEndTokens[] = {"<|im_end|>", "<|endoftext|>", "<|fim_pad|>", "<|repo_name|>",
                                           "<|file_sep|>"};

std::string Place(const gguf::File& file, std::string_view key) {
  return Concat(file.path(), ", key ", key);
}

// Text of a file inside a message: escaped, and not the whole of a megabyte.
std::string Quote(std::string_view text) {
  return Concat("'", absl::CHexEscape(std::string(text.substr(0, 60))), text.size() > 60 ? "...'" : "'");
}

std::string PreTokenizers() {
  std::string list;
  for (const auto& pre : kPreTokenizers) list += Concat(list.empty() ? "" : ", ", pre.name);
  return list;
}

// GPT-2's byte-level alphabet: printable Latin-1 stands for itself, the 68 other bytes are U+0100 and up, in
// order.
class ByteAlphabet {
 public:
  ByteAlphabet() {
    byte_of_.fill(-1);
    int next = 0x100;
    for (int b = 0; b < 256; ++b) {
      const bool itself = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || (b >= 174);
      byte_of_[itself ? b : next++] = static_cast<int16_t>(b);
    }
  }
  // The bytes that `text` stands for; nothing if a character is outside the alphabet (an added token).
  std::optional<std::string> Decode(std::string_view text) const {
    std::string out;
    for (size_t at = 0; at < text.size();) {
      const size_t n = qrt::text::Utf8SequenceLength(text, at);
      if (n == 0) return std::nullopt;
      const char32_t code = qrt::text::DecodeUtf8(text, at, n);
      if (code >= byte_of_.size() || byte_of_[code] < 0) return std::nullopt;
      out += static_cast<char>(byte_of_[code]);
      at += n;
    }
    return out;
  }

 private:
  std::array<int16_t, 0x100 + 68> byte_of_;
};

// "<0x0A>" -> 10; nothing else is a byte token.
std::optional<uint8_t> ParseByteToken(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return std::nullopt;
  int value = 0;
  for (char c : text.substr(3, 2)) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) return std::nullopt;
    value = value * 16 + digit;
  }
  return static_cast<uint8_t>(value);
}

class Builder {
 public:
  Builder(const gguf::File& file, uint32_t vocab_size, std::vector<std::string>& warnings)
      : file_(file), vocab_size_(vocab_size), warnings_(warnings) {}

  absl::StatusOr<TokenizerSection> Build() {
    if (absl::Status s = ReadKind(); !s.ok()) return s;
    if (absl::Status s = ReadTokens(); !s.ok()) return s;
    if (absl::Status s = FindByteTokens(); !s.ok()) return s;
    if (absl::Status s = ReadMerges(); !s.ok()) return s;
    FindSpecials();
    if (absl::Status s = ReadIds(); !s.ok()) return s;
    std::vector<uint32_t> choosable((vocab_size_ + 31) / 32);
    const auto n_tokens = static_cast<uint32_t>(types_.size());
    if (qrt_choosable_tokens(types_.data(), n_tokens, choosable.data()) == vocab_size_) choosable.clear();
    return TokenizerSection{Layout(), std::move(spec_), std::move(choosable)};
  }

 private:
  absl::Status Error(std::string code, std::string_view key, std::string what, std::string help = "") const {
    return MakeError(
        std::move(code), std::move(what), Place(file_, key),
        help.empty() ? "convert the model to GGUF again with a current converter" : std::move(help));
  }

  absl::Status ReadKind() {
    absl::StatusOr<std::string_view> model = file_.GetString("tokenizer.ggml.model");
    if (!model.ok()) return model.status();
    if (*model != "gpt2") {
      return Error("Q2302", "tokenizer.ggml.model",
                   Concat("the tokenizer model is ", Quote(*model), ", expected 'gpt2' (byte-level BPE)"),
                   "this kind of tokenizer is not supported");
    }
    absl::StatusOr<std::string_view> pre = file_.GetString("tokenizer.ggml.pre");
    if (!pre.ok()) return pre.status();
    const auto known = std::find_if(std::begin(kPreTokenizers), std::end(kPreTokenizers),
                                    [&](const auto& one) { return one.name == *pre; });
    if (known == std::end(kPreTokenizers)) {
      return Error("Q2302", "tokenizer.ggml.pre",
                   Concat("the pre-tokenizer is ", Quote(*pre), ", expected one of: ", PreTokenizers()),
                   "this pre-tokenizer is not supported");
    }
    spec_.pre = std::string(known->rule);
    spec_.nfc = known->nfc;
    return absl::OkStatus();
  }

  absl::Status ReadTokens() {
    absl::StatusOr<std::vector<std::string_view>> tokens = file_.GetStringArray(kTokens);
    if (!tokens.ok()) return tokens.status();
    texts_ = *std::move(tokens);
    if (texts_.empty() || texts_.size() > vocab_size_) {
      return Error("Q2303", kTokens,
                   Concat("there are ", texts_.size(), " tokens, expected 1 to ", vocab_size_,
                          " (the rows of the model's head)"));
    }
    types_.assign(texts_.size(), QRT_TOKEN_NORMAL);
    if (file_.Has(kTypes)) {
      absl::StatusOr<std::vector<int64_t>> types = file_.GetIntArray(kTypes);
      if (!types.ok()) return types.status();
      if (types->size() != texts_.size()) {
        return Error("Q2303", kTypes,
                     Concat("there are ", types->size(), " token types, expected ", texts_.size(),
                            ", one for each token"));
      }
      for (size_t i = 0; i < types->size(); ++i) {
        if ((*types)[i] < QRT_TOKEN_NORMAL || (*types)[i] > QRT_TOKEN_BYTE) {
          return Error(
              "Q2304", kTypes,
              Concat("token ", i, " ", Quote(texts_[i]), " has type ", (*types)[i], ", expected 1 to 6"));
        }
        types_[i] = static_cast<uint8_t>((*types)[i]);
      }
    }
    const ByteAlphabet alphabet;
    uint64_t blob_bytes = 0;
    bytes_.resize(texts_.size());
    for (size_t i = 0; i < texts_.size(); ++i) {
      if (types_[i] == QRT_TOKEN_BYTE) {
        const std::optional<uint8_t> byte = ParseByteToken(texts_[i]);
        if (!byte) {
          return Error("Q2304", kTokens,
                       Concat("byte token ", i, " is ", Quote(texts_[i]), ", expected <0x00> to <0xFF>"));
        }
        bytes_[i] = std::string(1, static_cast<char>(*byte));
      } else if (types_[i] == QRT_TOKEN_NORMAL || types_[i] == QRT_TOKEN_UNUSED) {
        bytes_[i] = alphabet.Decode(texts_[i]).value_or(std::string(texts_[i]));
      } else {
        bytes_[i] = std::string(texts_[i]);
      }
      blob_bytes += bytes_[i].size();
      // The first of equal texts counts; an unused one only where there is no other.
      auto [entry, fresh] = ids_.try_emplace(texts_[i], static_cast<uint32_t>(i));
      if (!fresh && types_[entry->second] == QRT_TOKEN_UNUSED && types_[i] != QRT_TOKEN_UNUSED) {
        entry->second = static_cast<uint32_t>(i);
      }
    }
    if (blob_bytes > std::numeric_limits<uint32_t>::max()) {
      return Error("Q2304", kTokens,
                   Concat("the tokens have ", blob_bytes, " bytes, expected less than 2^32"));
    }
    return absl::OkStatus();
  }

  absl::Status FindByteTokens() {
    constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();
    byte_tokens_.fill(kNone);
    const ByteAlphabet alphabet;
    // Merges are spelled in the alphabet, so an added token that is a raw space, say, only serves without it.
    for (const auto& [wanted, spelled] :
         {std::pair(QRT_TOKEN_NORMAL, true), std::pair(QRT_TOKEN_NORMAL, false),
          std::pair(QRT_TOKEN_BYTE, false)}) {
      for (uint32_t i = 0; i < bytes_.size(); ++i) {
        if (types_[i] != wanted || bytes_[i].size() != 1) continue;
        if (spelled && !alphabet.Decode(texts_[i])) continue;
        uint32_t& slot = byte_tokens_[static_cast<uint8_t>(bytes_[i][0])];
        if (slot == kNone) slot = i;
      }
    }
    for (int b = 0; b < 256; ++b) {
      if (byte_tokens_[b] == kNone) {
        return Error("Q2306", kTokens,
                     Concat("no token stands for byte ", b, ", expected one for each of 256"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status ReadMerges() {
    absl::StatusOr<std::vector<std::string_view>> merges = file_.GetStringArray(kMerges);
    if (!merges.ok()) return merges.status();
    if (merges->size() > std::numeric_limits<uint32_t>::max() / sizeof(qrt_tokenizer_merge)) {
      return Error("Q2305", kMerges, Concat("there are ", merges->size(), " merges"));
    }
    merges_.reserve(merges->size());
    std::string joined;
    for (uint32_t rank = 0; rank < merges->size(); ++rank) {
      const std::string_view merge = (*merges)[rank];
      const size_t space = merge.find(' ', 1);
      auto bad = [&](std::string_view why) {
        return Error("Q2305", kMerges, Concat("merge ", rank, " is ", Quote(merge), ": ", why));
      };
      if (merge.empty() || merge[0] == ' ' || space == std::string_view::npos || space + 1 == merge.size() ||
          merge.find(' ', space + 1) != std::string_view::npos) {
        return bad("expected two pieces with one space between them");
      }
      const std::string_view left = merge.substr(0, space), right = merge.substr(space + 1);
      joined.assign(left).append(right);
      const auto l = ids_.find(left), r = ids_.find(right), whole = ids_.find(joined);
      if (l == ids_.end()) return bad(Concat("the vocabulary has no token ", Quote(left)));
      if (r == ids_.end()) return bad(Concat("the vocabulary has no token ", Quote(right)));
      if (whole == ids_.end()) return bad(Concat("the vocabulary has no token ", Quote(joined)));
      merges_.push_back({l->second, r->second, rank, whole->second});
    }
    auto key = [](const qrt_tokenizer_merge& m) { return uint64_t{m.left} << 32 | m.right; };
    std::sort(merges_.begin(), merges_.end(), [key](const auto& a, const auto& b) {
      return std::pair(key(a), a.rank) < std::pair(key(b), b.rank);
    });
    const auto twice = std::adjacent_find(merges_.begin(), merges_.end(),
                                          [key](const auto& a, const auto& b) { return key(a) == key(b); });
    if (twice != merges_.end()) {
      return Error("Q2305", kMerges,
                   Concat("merges ", twice->rank, " and ", std::next(twice)->rank, " are the same pair ",
                          Quote((*merges)[twice->rank])));
    }
    return absl::OkStatus();
  }

  void FindSpecials() {
    for (uint32_t i = 0; i < bytes_.size(); ++i) {
      if (types_[i] >= QRT_TOKEN_UNKNOWN && types_[i] <= QRT_TOKEN_USER_DEFINED && !bytes_[i].empty()) {
        specials_.push_back(i);
      }
    }
    std::sort(specials_.begin(), specials_.end(), [this](uint32_t a, uint32_t b) {
      return bytes_[a].size() != bytes_[b].size() ? bytes_[a].size() > bytes_[b].size() : a < b;
    });
  }

  // Ids of a key that are none, and that the text does without.
  struct LeftOut {
    std::string first;
    size_t count = 0;
  };

  void WarnOf(std::string_view key, const LeftOut& ids) {
    if (ids.count == 0) return;
    const std::string all =
        ids.count == 1 ? "it is left out" : Concat("it and ", ids.count - 1, " more are left out");
    warnings_.push_back(Concat(key, ": ", ids.first, "; ", all));
  }

  // -1 where there is none, or an impossible one that the text does without.
  absl::StatusOr<int32_t> CheckId(std::string_view key, int64_t value, LeftOut& left_out) {
    // Writers that have no such token store all ones.
    if (value == -1 || value == std::numeric_limits<uint32_t>::max()) return -1;
    if (value >= 0 && value < static_cast<int64_t>(texts_.size())) return static_cast<int32_t>(value);
    const std::string what =
        Concat("the id is ", value, ", expected one below ", texts_.size(), " (the number of tokens)");
    if (key == kEos || key == kEosIds || (key == kBos && spec_.add_bos)) return Error("Q2307", key, what);
    if (left_out.count++ == 0) left_out.first = what;
    return -1;
  }

  // The first where there are several.
  absl::Status ReadId(std::string_view key, int32_t& id) {
    if (!file_.Has(key)) return absl::OkStatus();
    absl::StatusOr<std::vector<int64_t>> values = file_.GetIntArray(key);
    if (!values.ok()) return values.status();
    if (values->empty()) return absl::OkStatus();
    LeftOut left_out;
    absl::StatusOr<int32_t> checked = CheckId(key, values->front(), left_out);
    if (!checked.ok()) return checked.status();
    // Of keys that are asked for again, as ends, it is said then.
    if (std::find(std::begin(kEndKeys), std::end(kEndKeys), key) == std::end(kEndKeys)) WarnOf(key, left_out);
    id = *checked;
    return absl::OkStatus();
  }

  absl::Status ReadEnds() {
    for (const char* key : kEndKeys) {
      if (!file_.Has(key)) continue;
      absl::StatusOr<std::vector<int64_t>> values = file_.GetIntArray(key);
      if (!values.ok()) return values.status();
      LeftOut left_out;
      for (const int64_t value : *values) {
        absl::StatusOr<int32_t> id = CheckId(key, value, left_out);
        if (!id.ok()) return id.status();
        if (*id >= 0) spec_.eog.push_back(static_cast<uint32_t>(*id));
      }
      WarnOf(key, left_out);
    }
    for (std::string_view text : kEndTokens) {
      if (auto end = ids_.find(text); end != ids_.end()) spec_.eog.push_back(end->second);
    }
    std::sort(spec_.eog.begin(), spec_.eog.end());
    spec_.eog.erase(std::unique(spec_.eog.begin(), spec_.eog.end()), spec_.eog.end());
    if (spec_.eog.size() > QRT_TOKENIZER_MAX_ENDS) {
      return Error("Q2307", kEosIds,
                   Concat("generation ends after any of ", spec_.eog.size(), " tokens, expected at most ",
                          QRT_TOKENIZER_MAX_ENDS));
    }
    return absl::OkStatus();
  }

  absl::Status ReadIds() {
    constexpr char kAddBos[] = "tokenizer.ggml.add_bos_token";
    if (file_.Has(kAddBos)) {
      absl::StatusOr<bool> add = file_.GetBool(kAddBos);
      if (!add.ok()) return add.status();
      spec_.add_bos = *add;
    }
    if (absl::Status s = ReadId(kBos, spec_.bos); !s.ok()) return s;
    if (absl::Status s = ReadId(kEos, spec_.eos); !s.ok()) return s;
    if (absl::Status s = ReadId("tokenizer.ggml.eot_token_id", spec_.eot); !s.ok()) return s;
    if (absl::Status s = ReadId("tokenizer.ggml.padding_token_id", spec_.pad); !s.ok()) return s;
    if (spec_.add_bos && spec_.bos < 0) {
      return Error("Q2307", kAddBos,
                   "tokenizer.ggml.add_bos_token is true, but there is no tokenizer.ggml.bos_token_id");
    }
    if (spec_.eot < 0) {
      if (auto end = ids_.find("<|im_end|>"); end != ids_.end())
        spec_.eot = static_cast<int32_t>(end->second);
    }
    return ReadEnds();
  }

  std::vector<uint8_t> Layout() const {
    std::vector<uint32_t> starts = {0};
    std::string blob;
    qrt_tokenizer_header h{};
    for (const std::string& b : bytes_) {
      blob += b;
      starts.push_back(static_cast<uint32_t>(blob.size()));
      h.max_token_bytes = std::max(h.max_token_bytes, static_cast<uint32_t>(b.size()));
    }
    h.magic = QRT_TOKENIZER_MAGIC;
    h.abi = QRT_TOKENIZER_ABI;
    h.n_tokens = static_cast<uint32_t>(bytes_.size());
    h.n_merges = static_cast<uint32_t>(merges_.size());
    h.n_special = static_cast<uint32_t>(specials_.size());
    h.blob_bytes = blob.size();
    std::vector<uint8_t> out(sizeof h);
    auto add = [&out](const auto& table) {
      out.resize((out.size() + 7) / 8 * 8);
      const uint64_t at = out.size();
      const auto* data = reinterpret_cast<const uint8_t*>(table.data());
      out.insert(out.end(), data, data + table.size() * sizeof(table[0]));
      return at;
    };
    h.starts_offset = add(starts);
    h.byte_token_offset = add(byte_tokens_);
    h.merges_offset = add(merges_);
    h.special_offset = add(specials_);
    h.types_offset = add(types_);
    h.blob_offset = add(blob);
    std::memcpy(out.data(), &h, sizeof h);
    return out;
  }

  const gguf::File& file_;
  const uint32_t vocab_size_;
  std::vector<std::string>& warnings_;
  std::vector<std::string_view> texts_;  // as in the file
  std::vector<std::string> bytes_;       // what they stand for
  std::vector<uint8_t> types_;
  absl::flat_hash_map<std::string_view, uint32_t> ids_;
  std::array<uint32_t, 256> byte_tokens_;
  std::vector<qrt_tokenizer_merge> merges_;
  std::vector<uint32_t> specials_;
  TokenizerSpec spec_;
};

}  // namespace

absl::StatusOr<std::optional<TokenizerSection>> BuildTokenizerSection(const gguf::File& file,
                                                                      uint32_t vocab_size,
                                                                      std::vector<std::string>& warnings) {
  if (!file.Has(kTokens) && !file.Has("tokenizer.ggml.model")) return std::nullopt;
  absl::StatusOr<TokenizerSection> section = Builder(file, vocab_size, warnings).Build();
  if (!section.ok()) return section.status();
  return std::optional<TokenizerSection>(*std::move(section));
}

}  // namespace qcc::compiler
