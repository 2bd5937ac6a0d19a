// Normalization form C. (Every character, and random strings, against Python's: tests/e2e/test_text.py.)
#include "runtime/text/nfc.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "runtime/text/tokenizer.h"
#include "runtime/text/unicode.h"
#include "tests/unit/runtime/text_vocab.h"

namespace qrt::text {
namespace {

std::string Nfc(std::string_view text) {
  std::string storage;
  return std::string(NormalizeNfc(text, &storage));
}

std::string Utf8(const std::u32string& characters) {
  std::string text;
  for (const char32_t c : characters) AppendUtf8(c, &text);
  return text;
}

TEST(Nfc, KnownPairs) {
  struct Case {
    const char* name;
    std::u32string from, to;
  };
  const Case kCases[] = {
      {"a letter and a mark", U"e\u0301", U"\u00E9"},
      {"two marks that both combine", U"a\u0302\u0301", U"\u1EA5"},
      {"marks in another order", U"a\u0301\u0323", U"\u1EA1\u0301"},
      {"a composed letter is taken apart for it", U"\u00E1\u0323", U"\u1EA1\u0301"},
      {"a mark blocked by one of its class", U"a\u0300\u0301", U"\u00E0\u0301"},
      {"marks behind a blocked one", U"a\u0315\u0300", U"\u00E0\u0315"},
      {"a mark that nothing is before", U"\u0301a", U"\u0301a"},
      {"a mark at the end of ASCII", U"abce\u0301fg", U"abc\u00E9fg"},
      {"one character for another", U"\u212B\u2126", U"\u00C5\u03A9"},
      {"one for another, then a mark", U"\u212B\u0323", U"\u1EA0\u030A"},
      {"excluded from composition", U"\u0958", U"\u0915\u093C"},
      {"excluded, from its parts", U"\u0915\u093C", U"\u0915\u093C"},
      {"excluded: three times as long", U"\U0001D160", U"\U0001D158\U0001D165\U0001D16E"},
      {"starters that combine", U"\u0B47\u0B3E", U"\u0B4B"},
      {"three starters", U"\u0DD9\u0DCF\u0DCA", U"\u0DDD"},
      {"Hangul of two", U"\u1112\u1161", U"\uD558"},
      {"Hangul of three", U"\u1112\u1161\u11AB", U"\uD55C"},
      {"Hangul, a syllable and its tail", U"\uD558\u11AB", U"\uD55C"},
      {"Hangul, a whole syllable and a tail", U"\uD55C\u11AB", U"\uD55C\u11AB"},
      {"Hangul, a vowel alone", U"\u1161\u11AB", U"\u1161\u11AB"},
      {"Hangul, a lead and a syllable", U"\u1112\uD55C", U"\u1112\uD55C"},
      {"no tail", U"\uD558\u11A7", U"\uD558\u11A7"},
      {"beyond the basic plane", U"\U00011099\U000110BA", U"\U0001109A"},
      {"compatibility forms stay", U"\uFB01\u00B2\uFF21", U"\uFB01\u00B2\uFF21"},
  };
  for (const Case& c : kCases) {
    EXPECT_EQ(Nfc(Utf8(c.from)), Utf8(c.to)) << c.name;
    EXPECT_EQ(Nfc(Utf8(c.to)), Utf8(c.to)) << c.name << ", once more";
    EXPECT_EQ(Nfc("x" + Utf8(c.from) + "y"), "x" + Utf8(c.to) + "y") << c.name << ", inside";
  }
}

TEST(Nfc, BytesThatAreNoUtf8Stand) {
  EXPECT_EQ(Nfc("e\xFF\xCC\x81"), "e\xFF\xCC\x81") << "no letter is before the mark";
  EXPECT_EQ(Nfc("\xFF"
                "e\xCC\x81\xC3"),
            "\xFF\xC3\xA9\xC3");
  EXPECT_EQ(Nfc("\xED\xA0\x80"
                "e\xCC\x81"),
            "\xED\xA0\x80\xC3\xA9")
      << "a surrogate";
}

// Text that is in form C already is handed back itself.
TEST(Nfc, WhatIsNormalTakesNoMemory) {
  const std::string ascii(5000, 'a'),
      vietnamese = Utf8(U"Ti\u1EBFng Vi\u1EC7t, h\u00E9llo"),
      mixed = "a\xFFz" + Utf8(U"\u6C34\uD55C\uAE00\u0915\u0916 \U0001F600") + "end";
  for (const std::string& text : {std::string(), ascii, vietnamese, mixed}) {
    std::string storage;
    const size_t room = storage.capacity();
    const std::string_view normal = NormalizeNfc(text, &storage);
    EXPECT_EQ(normal.data(), text.data()) << text;
    EXPECT_EQ(normal.size(), text.size()) << text;
    EXPECT_EQ(storage.capacity(), room) << text;
  }
}

// A million marks on one letter, in the worst order, and letters that are taken apart and put together.
TEST(Nfc, LongRunsAreNotQuadratic) {
  std::u32string marks = U"a", letters;
  for (int i = 0; i < 500000; ++i) marks += i % 2 == 0 ? U"\u0315" : U"\u0316";
  for (int i = 0; i < 300000; ++i) letters += U"\u212Be\u0301";
  const std::string ordered = Nfc(Utf8(marks));
  EXPECT_EQ(ordered.find(Utf8(U"\u0315")), 1 + 250000 * 2u) << "those of the lower class come first";
  EXPECT_EQ(Nfc(Utf8(letters)).size(), 300000 * 4u);
}

TEST(Nfc, TokenizersNormalizeWhereTheModelDoes) {
  const auto vocab = TinyVocab();
  const auto plain = Tokenizer::Create(vocab->tables(), "qwen35", {});
  const auto normal = Tokenizer::Create(vocab->tables(), "qwen35", {}, true);
  ASSERT_TRUE(plain.ok() && normal.ok());
  const std::string apart = "caf" + Utf8(U"e\u0301"), whole = "caf" + Utf8(U"\u00E9");
  std::vector<int32_t> a, b, c, d;
  ASSERT_TRUE(plain->Encode(apart, false, &a).ok() && plain->Encode(whole, false, &b).ok() &&
              normal->Encode(apart, false, &c).ok() && normal->Encode(apart, false, &d, {}, false).ok());
  EXPECT_NE(a, b);
  EXPECT_EQ(c, b) << "as the composed text";
  EXPECT_EQ(d, a) << "as it is written";
  // A special token's own bytes are not part of the text: what follows it combines with nothing.
  std::vector<int32_t> special;
  ASSERT_TRUE(normal->Encode("<think>" + Utf8(U"\u0301"), false, &special).ok());
  std::vector<int32_t> mark;
  ASSERT_TRUE(plain->Encode(Utf8(U"\u0301"), false, &mark).ok());
  ASSERT_EQ(special.size(), 1 + mark.size());
  EXPECT_TRUE(std::equal(mark.begin(), mark.end(), special.begin() + 1));
}

}  // namespace
}  // namespace qrt::text
