// Builds the tokenizer tables that an artifact would carry, from a vocabulary in GGUF's form.
#ifndef QCC_TESTS_UNIT_RUNTIME_TEXT_VOCAB_H_
#define QCC_TESTS_UNIT_RUNTIME_TEXT_VOCAB_H_

#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "runtime/artifact/artifact.h"
#include "runtime/text/unicode.h"

namespace qrt::text {

class TestVocab {
 public:
  struct Token {
    std::string bytes;
    uint8_t type = QRT_TOKEN_NORMAL;
  };

  // `merges`: pairs of token bytes, the first has rank 0; a pair whose parts or result are no tokens is left
  // out.
  TestVocab(const std::vector<Token>& tokens,
            const std::vector<std::pair<std::string, std::string>>& merges) {
    std::map<std::string, uint32_t> ids;
    starts_.push_back(0);
    byte_token_.assign(256, 0);
    for (const Token& token : tokens) {
      const uint32_t id = static_cast<uint32_t>(types_.size());
      ids.emplace(token.bytes, id);
      blob_.insert(blob_.end(), token.bytes.begin(), token.bytes.end());
      starts_.push_back(static_cast<uint32_t>(blob_.size()));
      types_.push_back(token.type);
      if (token.bytes.size() == 1 && ids.at(token.bytes) == id) {
        byte_token_[static_cast<uint8_t>(token.bytes[0])] = id;
      }
      if (!token.bytes.empty() && token.type >= 2 && token.type <= 4) special_.push_back(id);
    }
    uint32_t rank = 0;
    for (const auto& [left, right] : merges) {
      const auto l = ids.find(left), r = ids.find(right), m = ids.find(left + right);
      if (l != ids.end() && r != ids.end() && m != ids.end()) {
        merges_.push_back({l->second, r->second, rank, m->second});
      }
      ++rank;
    }
    std::sort(merges_.begin(), merges_.end(), [](const auto& a, const auto& b) {
      return std::pair(a.left, a.right) < std::pair(b.left, b.right);
    });
    auto size = [&](uint32_t id) { return starts_[id + 1] - starts_[id]; };
    std::stable_sort(special_.begin(), special_.end(),
                     [&](uint32_t a, uint32_t b) { return size(a) > size(b); });
    tables_.blob = blob_;
    tables_.starts = starts_;
    tables_.types = types_;
    tables_.byte_token = byte_token_;
    tables_.merges = merges_;
    tables_.special = special_;
    tables_.n_tokens = static_cast<uint32_t>(types_.size());
    for (uint32_t i = 0; i < tables_.n_tokens; ++i) {
      tables_.max_token_bytes = std::max(tables_.max_token_bytes, size(i));
    }
  }
  TestVocab(const TestVocab&) = delete;
  TestVocab& operator=(const TestVocab&) = delete;

  const TokenizerTables& tables() const { return tables_; }

  // The 256 single bytes (id = byte) and then `more`.
  static std::vector<Token> Bytes(const std::vector<Token>& more = {}) {
    std::vector<Token> tokens;
    for (int b = 0; b < 256; ++b) tokens.push_back({std::string(1, static_cast<char>(b))});
    tokens.insert(tokens.end(), more.begin(), more.end());
    return tokens;
  }

 private:
  std::vector<uint8_t> blob_, types_;
  std::vector<uint32_t> starts_, byte_token_, special_;
  std::vector<qrt_tokenizer_merge> merges_;
  TokenizerTables tables_;
};

// The largest resident size so far, in bytes. (A sanitizer's own memory is within the bounds below.)
inline uint64_t PeakBytes() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

inline std::string ReadTestFile(const std::string& name) {
  std::ifstream file(std::string(QCC_SOURCE_DIR) + "/tests/unit/runtime/data/" + name, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// Undoes the printable alphabet of byte-level BPE: bytes 33..126, 161..172 and 174..255 stand for themselves,
// the others are U+0100, U+0101, ... in order.
inline std::string FromByteAlphabet(const std::string& text) {
  static const std::map<char32_t, char> bytes = [] {
    std::map<char32_t, char> map;
    char32_t next = 0x100;
    for (int b = 0; b < 256; ++b) {
      const bool itself = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
      map[itself ? static_cast<char32_t>(b) : next++] = static_cast<char>(b);
    }
    return map;
  }();
  std::string out;
  for (size_t pos = 0; pos < text.size();) {
    const size_t n = Utf8SequenceLength(text, pos);
    out.push_back(bytes.at(DecodeUtf8(text, pos, n)));
    pos += n;
  }
  return out;
}

// The vocabulary of the small trained model: 4096 tokens, pre-tokenizer qwen35.
inline std::unique_ptr<TestVocab> TinyVocab() {
  std::vector<TestVocab::Token> tokens;
  std::stringstream token_lines(ReadTestFile("tiny_tokens.txt")),
      merge_lines(ReadTestFile("tiny_merges.txt"));
  for (std::string line; std::getline(token_lines, line);) {
    const size_t tab = line.find('\t');
    if (tab == std::string::npos) {
      tokens.push_back({FromByteAlphabet(line)});
    } else {
      tokens.push_back({line.substr(0, tab), static_cast<uint8_t>(std::stoi(line.substr(tab + 1)))});
    }
  }
  std::vector<std::pair<std::string, std::string>> merges;
  for (std::string line; std::getline(merge_lines, line);) {
    const size_t space = line.find(' ', 1);
    merges.emplace_back(FromByteAlphabet(line.substr(0, space)), FromByteAlphabet(line.substr(space + 1)));
  }
  return std::make_unique<TestVocab>(tokens, merges);
}

}  // namespace qrt::text

#endif  // QCC_TESTS_UNIT_RUNTIME_TEXT_VOCAB_H_
