#include "runtime/text/pretokenizer.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace qrt::text {
namespace {

using Pieces = std::vector<std::string>;

Pieces Split(const char* rule, std::string_view text) {
  Result<Pretokenizer> pretokenizer = Pretokenizer::Create(rule);
  EXPECT_TRUE(pretokenizer.ok()) << pretokenizer.status().ToString();
  Pieces pieces;
  const Status status =
      pretokenizer->Split(text, [&](std::string_view piece) { pieces.emplace_back(piece); });
  EXPECT_TRUE(status.ok()) << status.ToString();
  return pieces;
}

struct Case {
  const char* text;
  Pieces pieces;
};

// What both rules say.
const Case kCommon[] = {
    {"", {}},
    {"Hello world", {"Hello", " world"}},
    {"Hello  world", {"Hello", " ", " world"}},
    {"I'm you'll WE'RE it's o'clock", {"I", "'m", " you", "'ll", " WE", "'RE", " it", "'s", " o", "'clock"}},
    {"x'Ve", {"x", "'Ve"}},
    {"2024 is 10x", {"2", "0", "2", "4", " is", " ", "1", "0", "x"}},
    {"a,b", {"a", ",b"}},
    {"a, b", {"a", ",", " b"}},
    {"!!!\n\nx", {"!!!\n\n", "x"}},
    {" !?\r\n", {" !?\r\n"}},
    {"a\n\n b", {"a", "\n\n", " b"}},
    {"a \n \n  b", {"a", " \n \n", " ", " b"}},
    {"a   ", {"a", "   "}},
    {"   a", {"  ", " a"}},
    {"\t\ta", {"\t", "\ta"}},
    {"(foo)", {"(foo", ")"}},
    {"((foo", {"((", "foo"}},
    {"\"quoted\"", {"\"quoted", "\""}},
    {"a\xC2\xA0"
     "b",
     {"a",
      "\xC2\xA0"
      "b"}},                                                     // no-break space is white space and a prefix
    {"\xE4\xBD\xA0\xE5\xA5\xBD", {"\xE4\xBD\xA0\xE5\xA5\xBD"}},  // letters of any script
    {"\xC2\xBD\xE2\x85\xA7", {"\xC2\xBD", "\xE2\x85\xA7"}},      // one half, Roman eight: numbers
    {"\xF0\x9F\x98\x80\xF0\x9F\x98\x81 x", {"\xF0\x9F\x98\x80\xF0\x9F\x98\x81", " x"}},
    {"'\xC5\xBF", {"'\xC5\xBF"}},                // long s is no contraction
    {"a\xE1\xA0\x8E!", {"a", "\xE1\xA0\x8E!"}},  // U+180E is no white space any more
};

TEST(Pretokenizer, CommonRules) {
  for (const char* rule : {"qwen2", "qwen35"}) {
    for (const Case& c : kCommon) EXPECT_EQ(Split(rule, c.text), c.pieces) << rule << ": " << c.text;
  }
}

TEST(Pretokenizer, MarksJoinWordsInQwen35Only) {
  const char* decomposed = "cafe\xCC\x81s";  // e + combining acute
  EXPECT_EQ(Split("qwen35", decomposed), (Pieces{"cafe\xCC\x81s"}));
  EXPECT_EQ(Split("qwen2", decomposed), (Pieces{"cafe", "\xCC\x81s"}));
  const char* hindi = "\xE0\xA4\xB9\xE0\xA4\xBF\xE0\xA4\xA8\xE0\xA5\x8D\xE0\xA4\xA6\xE0\xA5\x80";
  EXPECT_EQ(Split("qwen35", hindi), (Pieces{hindi}));
  EXPECT_EQ(Split("qwen2", hindi),
            (Pieces{"\xE0\xA4\xB9", "\xE0\xA4\xBF\xE0\xA4\xA8", "\xE0\xA5\x8D\xE0\xA4\xA6", "\xE0\xA5\x80"}));
  // A mark ends a run of punctuation.
  EXPECT_EQ(Split("qwen35", "!!\xCC\x81"), (Pieces{"!!", "\xCC\x81"}));
  EXPECT_EQ(Split("qwen2", "!!\xCC\x81"), (Pieces{"!!\xCC\x81"}));
  // The optional first character of a word may be a mark in both.
  EXPECT_EQ(Split("qwen2",
                  "\xCC\x81"
                  "a"),
            (Pieces{"\xCC\x81"
                    "a"}));
}

TEST(Pretokenizer, BytesThatAreNoUtf8StandAlone) {
  EXPECT_EQ(Split("qwen35",
                  "ab\xFF"
                  "cd"),
            (Pieces{"ab", "\xFF", "cd"}));
  EXPECT_EQ(Split("qwen35", "\xC3"), (Pieces{"\xC3"}));
  EXPECT_EQ(Split("qwen35", "\xE2\x82 a"), (Pieces{"\xE2", "\x82", " a"}));
  EXPECT_EQ(Split("qwen35", "\xED\xA0\x80"), (Pieces{"\xED", "\xA0", "\x80"})) << "a surrogate";
  EXPECT_EQ(Split("qwen35", "a  \xFF"), (Pieces{"a", "  ", "\xFF"})) << "as if the text ended there";
}

TEST(Pretokenizer, RefusesUnknownNames) {
  const auto result = Pretokenizer::Create("gpt-4o");
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().number(), 7101u);
}

}  // namespace
}  // namespace qrt::text
