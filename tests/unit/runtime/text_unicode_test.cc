#include "runtime/text/unicode.h"

#include <gtest/gtest.h>

#include <random>

namespace qrt::text {
namespace {

TEST(Unicode, SequenceLengths) {
  EXPECT_EQ(Utf8SequenceLength("a", 0), 1u);
  EXPECT_EQ(Utf8SequenceLength("\xC3\xA9", 0), 2u);
  EXPECT_EQ(Utf8SequenceLength("\xE2\x82\xAC", 0), 3u);
  EXPECT_EQ(Utf8SequenceLength("\xF0\x9F\x98\x80", 0), 4u);
  for (const char* bad :
       {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF",
        "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "\xC3", "\xE2\x82", "\xF0\x9F\x98"}) {
    EXPECT_EQ(Utf8SequenceLength(bad, 0), 0u)
        << std::hex << static_cast<int>(static_cast<unsigned char>(bad[0]));
  }
}

TEST(Unicode, AppendAndDecodeAgree) {
  for (char32_t c : {0x0, 0x7F, 0x80, 0x7FF, 0x800, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x10FFFF}) {
    std::string text;
    AppendUtf8(c, &text);
    ASSERT_EQ(Utf8SequenceLength(text, 0), text.size()) << static_cast<uint32_t>(c);
    EXPECT_EQ(DecodeUtf8(text, 0, text.size()), c) << static_cast<uint32_t>(c);
  }
}

TEST(Unicode, Strip) {
  EXPECT_EQ(Strip(" \t\na b\r\n ", true, true), "a b");
  EXPECT_EQ(Strip(" a ", true, false), "a ");
  EXPECT_EQ(Strip(" a ", false, true), " a");
  EXPECT_EQ(Strip("\xE3\x80\x80x\xC2\xA0", true, true), "x");
  EXPECT_EQ(Strip("   ", true, true), "");
  EXPECT_EQ(Strip("\xFF \xFF", true, true), "\xFF \xFF");
  const std::string_view chars = "x\xC3\xA9";
  EXPECT_EQ(Strip("\xC3\xA9xa\xC3\xA9", true, true, &chars), "a");
  // Bytes that only look like the end of a character in the set stay.
  EXPECT_EQ(Strip("a\xC3\xAA", true, true, &chars), "a\xC3\xAA");
}

TEST(Unicode, WhatPythonPrints) {
  for (char32_t c : {0x20, 0x7E, 0xA1, 0xAE, 0xE9, 0x2027, 0x2603, 0x4E2D, 0xFFFD, 0x1F468})
    EXPECT_TRUE(IsPythonPrintable(c)) << std::hex << static_cast<uint32_t>(c);
  // Controls, spaces but that of ASCII, what formats, what ends lines, what nobody assigned.
  for (char32_t c : {0x0, 0x1F, 0x7F, 0x85, 0xA0, 0xAD, 0x378, 0x200B, 0x200D, 0x2028, 0x3000, 0xE000, 0xFEFF,
                     0xFFFF, 0xE0001, 0x10FFFF})
    EXPECT_FALSE(IsPythonPrintable(c)) << std::hex << static_cast<uint32_t>(c);
}

std::string Stream(const std::vector<std::string>& parts) {
  Utf8Stream stream;
  std::string out;
  for (const std::string& part : parts) stream.Push(part, &out);
  stream.Flush(&out);
  EXPECT_EQ(stream.pending(), 0u);
  return out;
}

TEST(Utf8Stream, HoldsBackIncompleteCharacters) {
  Utf8Stream stream;
  std::string out;
  stream.Push("a\xF0\x9F", &out);
  EXPECT_EQ(out, "a");
  EXPECT_EQ(stream.pending(), 2u);
  stream.Push("\x98", &out);
  EXPECT_EQ(out, "a");
  stream.Push(
      "\x80"
      "b",
      &out);
  EXPECT_EQ(out,
            "a\xF0\x9F\x98\x80"
            "b");
  EXPECT_EQ(stream.pending(), 0u);
}

TEST(Utf8Stream, ReplacesWhatCannotBecomeACharacter) {
  EXPECT_EQ(Stream({"a\xFF", "b"}),
            "a\xEF\xBF\xBD"
            "b");
  EXPECT_EQ(Stream({"\xE2\x82", "x"}), "\xEF\xBF\xBDx");
  EXPECT_EQ(Stream({"\xE2\x82"}), "\xEF\xBF\xBD") << "one replacement for a cut-off sequence at Flush";
  EXPECT_EQ(Stream({"\xED\xA0\x80"}), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(Stream({"\xF0\x9F", "\xF0\x9F\x98\x80"}), "\xEF\xBF\xBD\xF0\x9F\x98\x80");
}

TEST(Utf8Stream, OutputIsWellFormedAndIndependentOfTheCuts) {
  std::mt19937 random(3);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes(random() % 24, '\0');
    for (char& c : bytes) c = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\xFF\xED\xA0"[random() % 13];
    const std::string whole = Stream({bytes});
    for (size_t pos = 0; pos < whole.size(); pos += Utf8SequenceLength(whole, pos)) {
      ASSERT_NE(Utf8SequenceLength(whole, pos), 0u) << "ill-formed output in round " << round;
    }
    std::vector<std::string> parts;
    for (size_t pos = 0; pos < bytes.size();) {
      const size_t n = 1 + random() % 3;
      parts.push_back(bytes.substr(pos, n));
      pos += n;
    }
    ASSERT_EQ(Stream(parts), whole) << "round " << round;
  }
}

}  // namespace
}  // namespace qrt::text
