// A small vocabulary and a text from the fuzzer: tokens must spell the text again, and streaming
// must cut it into whole characters only.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/text/nfc.h"
#include "runtime/text/tokenizer.h"
#include "runtime/text/unicode.h"
#include "tests/unit/runtime/text_vocab.h"

namespace {

using qrt::text::TestVocab;
using qrt::text::Tokenizer;

// Aborting is how a fuzz target reports a broken promise.
void Require(bool holds) {
  if (!holds) __builtin_trap();
}

// Bytes: number of merges; for each two token numbers; number of special tokens; for each type, length and
// bytes; one that picks the rule; the rest is the text. Numbers wrap around, so every input means something.
struct Input {
  const uint8_t* data;
  size_t size;
  uint8_t Byte() {
    if (size == 0) return 0;
    --size;
    return *data++;
  }
  std::string Bytes(size_t n) {
    n = n < size ? n : size;
    std::string text(reinterpret_cast<const char*>(data), n);
    data += n;
    size -= n;
    return text;
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input{data, size};
  std::vector<TestVocab::Token> tokens = TestVocab::Bytes();
  std::vector<std::pair<std::string, std::string>> merges;
  for (int n = input.Byte() % 32; n > 0; --n) {
    const auto pick = [&] {
      const uint8_t b = input.Byte();
      const size_t merged = tokens.size() - 256;
      return b >= 128 && merged != 0 ? tokens[256 + b % merged].bytes : std::string(1, static_cast<char>(b));
    };
    const std::string left = pick(), right = pick();
    merges.emplace_back(left, right);
    tokens.push_back({left + right});
  }
  for (int n = input.Byte() % 8; n > 0; --n) {
    const uint8_t type = static_cast<uint8_t>(2 + input.Byte() % 4);
    tokens.push_back({input.Bytes(input.Byte() % 8), type});
  }
  const TestVocab vocab(tokens, merges);
  const char* rule = input.Byte() % 2 == 0 ? "qwen35" : "qwen2";
  const std::string text = input.Bytes(input.size);
  std::string normal, again;
  const std::string_view form_c = qrt::text::NormalizeNfc(text, &normal);
  Require(qrt::text::NormalizeNfc(form_c, &again) == form_c);  // what is in the form stays as it is
  const auto tokenizer = Tokenizer::Create(vocab.tables(), rule, {});
  Require(tokenizer.ok());
  for (bool special : {false, true}) {
    std::vector<int32_t> ids;
    std::string back, streamed, whole;
    Require(tokenizer->Encode(text, special, &ids).ok());
    Require(ids.size() <= text.size());
    Require(tokenizer->Decode(ids, &back).ok() && back == text);
    qrt::text::Utf8Stream stream, at_once;
    for (int32_t id : ids) {
      if (!special) Require(!tokenizer->IsControl(id));
      stream.Push(tokenizer->TokenBytes(id), &streamed);
    }
    stream.Flush(&streamed);
    at_once.Push(text, &whole);
    at_once.Flush(&whole);
    Require(streamed == whole);
    for (size_t pos = 0; pos < whole.size();) {
      const size_t n = qrt::text::Utf8SequenceLength(whole, pos);
      Require(n != 0);
      pos += n;
    }
  }
  return 0;
}
