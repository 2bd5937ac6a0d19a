// The text of an answer, token by token, and where it ends.
#include "runtime/engine/answer_text.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/unit/runtime/text_vocab.h"

namespace {

using qrt::AnswerText;
using qrt::Endings;
using qrt::Finish;
using qrt::text::TestVocab;
using qrt::text::Tokenizer;

// Bytes, 256 <end>, 257 <odd> (control), 258 "abc", 259 "x" and the first byte of an e with an accent.
class Answers : public testing::Test {
 protected:
  Answers()
      : vocab_(TestVocab::Bytes({{"<end>", QRT_TOKEN_CONTROL},
                                 {"<odd>", QRT_TOKEN_CONTROL},
                                 {"abc", QRT_TOKEN_NORMAL},
                                 {"x\xC3", QRT_TOKEN_NORMAL}}),
               {}),
        tokenizer_(Make()) {}

  Tokenizer Make() const {
    const uint32_t end = 256;
    auto made = Tokenizer::Create(vocab_.tables(), "qwen35", {&end, 1});
    EXPECT_TRUE(made.ok()) << made.status().ToString();
    return *std::move(made);
  }

  const TestVocab vocab_;
  const Tokenizer tokenizer_;
};

TEST_F(Answers, ControlTokensCountAndAreNoText) {
  const Endings endings;
  AnswerText text(tokenizer_, endings, "");
  EXPECT_TRUE(text.Take('a'));
  EXPECT_TRUE(text.Take(257));
  EXPECT_TRUE(text.Take(258));
  EXPECT_FALSE(text.Take(256));
  EXPECT_TRUE(text.counted()) << "the token that ends it is part of it";
  EXPECT_EQ(text.finish(), Finish::kEnd);
  EXPECT_EQ(text.tokens(), 4u);
  EXPECT_EQ(text.Rest(), "aabc");
}

TEST_F(Answers, ACharacterThatIsCutGoesOnInTheNextText) {
  const Endings endings;
  AnswerText first(tokenizer_, endings, "");
  first.Take(259);
  EXPECT_EQ(first.TakeText(), "x");
  EXPECT_EQ(first.Rest(), "\xEF\xBF\xBD");
  EXPECT_EQ(first.text(), "x\xC3");
  EXPECT_EQ(first.cut(), 1u);
  AnswerText next(tokenizer_, endings, first.text().substr(first.text().size() - first.cut()));
  next.Take(0xA9);
  EXPECT_EQ(next.TakeText(), "\xC3\xA9");
  EXPECT_EQ(next.Rest(), "");
  EXPECT_EQ(next.cut(), 0u);
}

TEST_F(Answers, StopTextsAreLeftOutWhereverTokensEnd) {
  Endings endings;
  endings.texts = {"bcd"};
  AnswerText stopped(tokenizer_, endings, "");
  EXPECT_TRUE(stopped.Take(258));
  EXPECT_EQ(stopped.TakeText(), "a") << "what may become the stop text is held back";
  EXPECT_FALSE(stopped.Take('d'));
  EXPECT_EQ(stopped.finish(), Finish::kStopText);
  EXPECT_EQ(stopped.Rest(), "");
  EXPECT_EQ(stopped.text(), "a");

  AnswerText other(tokenizer_, endings, "");
  other.Take(258);
  EXPECT_EQ(other.TakeText(), "a");
  EXPECT_EQ(other.Rest(), "bc") << "it did not become one";
  EXPECT_EQ(other.text(), "abc");
}

TEST_F(Answers, WhoHasEnoughIsToldTheRestUnlessHeSaidSoWhenTold) {
  Endings endings;
  endings.texts = {"bcd"};
  for (const bool mute : {false, true}) {
    AnswerText text(tokenizer_, endings, "");
    text.Take(258);
    EXPECT_EQ(text.TakeText(), "a");
    mute ? text.Mute() : text.Close();
    EXPECT_FALSE(text.Take('z'));
    EXPECT_FALSE(text.counted());
    EXPECT_EQ(text.finish(), Finish::kCancelled);
    EXPECT_EQ(text.Rest(), mute ? "" : "bc");
    EXPECT_EQ(text.text(), "abc") << "what was sampled is the text, whoever listens";
  }
}

TEST_F(Answers, LengthAndTokensOfTheCallersEndIt) {
  Endings endings;
  endings.most_tokens = 2;
  endings.tokens = {'q'};
  endings.ignore_end = true;
  AnswerText text(tokenizer_, endings, "");
  EXPECT_TRUE(text.Take(256)) << "it was to be ignored";
  EXPECT_TRUE(text.Take('a'));
  EXPECT_FALSE(text.Take('b'));
  EXPECT_FALSE(text.counted());
  EXPECT_EQ(text.finish(), Finish::kLength);
  AnswerText quick(tokenizer_, endings, "");
  EXPECT_FALSE(quick.Take('q'));
  EXPECT_EQ(quick.finish(), Finish::kEnd);
}

}  // namespace
