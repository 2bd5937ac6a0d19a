// Answers that an error ends: what the generator says of its session stays true, and it goes on from there.
#include "runtime/engine/generator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <new>
#include <string>

#include "tests/unit/runtime/engine_drafting_text.h"
#include "tests/unit/runtime/engine_memory_hooks.h"
#include "tests/unit/runtime/text_vocab.h"

namespace {

using drafting::DraftingToy;
using drafting::Scripted;
using drafting::TokensOf;
using qrt::Answer;
using qrt::AnswerRequest;
using qrt::Generator;
using qrt::text::TestVocab;
using qrt::text::Tokenizer;

class GeneratorErrors : public testing::Test {
 protected:
  GeneratorErrors() : vocab_(TestVocab::Bytes(), {}), tokenizer_(MakeTokenizer()) {}

  Tokenizer MakeTokenizer() const {
    auto made = Tokenizer::Create(vocab_.tables(), "qwen35", {});
    EXPECT_TRUE(made.ok()) << made.status().ToString();
    return *std::move(made);
  }

  // A session that plain decoding or guesses, nearly all right, carry on.
  std::unique_ptr<qrt::Session> Make(DraftingToy& toy, bool drafts) const {
    auto session = toy.Make();
    if (drafts) session->Use(std::make_unique<Scripted>(truth_, 7, 4), 7);
    return session;
  }

  AnswerRequest Most(uint64_t tokens) {
    AnswerRequest request;
    request.sampler = &sampler_;
    request.endings.most_tokens = tokens;
    return request;
  }

  // Fills truth_: the prompt and `tokens` of the answer to it.
  void Know(uint64_t tokens) {
    DraftingToy toy;
    const auto session = toy.Make();
    Generator generator(*session, tokenizer_, nullptr);
    Answer answer;
    ASSERT_TRUE(generator.Run(prompt_, 0, Most(tokens), &answer).ok());
    truth_ = generator.Tokens();
    ASSERT_EQ(truth_.size(), prompt_.size() + tokens);
  }

  const TestVocab vocab_;
  const Tokenizer tokenizer_;
  const std::vector<int32_t> prompt_ = TokensOf(30, 5);
  std::vector<int32_t> truth_;
  qrt::Sampler sampler_ = toy::MakeSampler(drafting::SomeSamplers()[3]);
};

TEST_F(GeneratorErrors, AFaultBehindGuessesKeepsWhatWasChosenBeforeIt) {
  Know(100);
  struct Left {
    std::string error, text, more;
    std::vector<int32_t> tokens;
    uint64_t position, counted, decoded;
    bool operator==(const Left&) const = default;
  } left[2];
  for (const bool drafts : {false, true}) {
    DraftingToy toy;
    toy.device->bend = [](uint64_t row, float logit) {
      return row % 16 == 3 ? std::numeric_limits<float>::quiet_NaN() : logit;
    };
    const auto session = Make(toy, drafts);
    Generator generator(*session, tokenizer_, nullptr);
    Answer answer, rest;
    const qrt::Status status = generator.Run(prompt_, 0, Most(100), &answer);
    ASSERT_EQ(status.number(), 5325) << status.ToString();
    ASSERT_GT(answer.tokens, 3u) << "nothing was guessed before";
    Left& l = left[drafts];
    l = {status.ToString(), answer.text,   "", generator.Tokens(), session->position(),
         answer.tokens,     answer.decoded};
    EXPECT_TRUE(l.position == l.tokens.size() || l.position + 1 == l.tokens.size())
        << l.position << " of " << l.tokens.size() << " tokens are in the session";
    toy.device->bend = nullptr;
    ASSERT_TRUE(generator.Continue(Most(10), &rest).ok());
    l.more = rest.text;
    EXPECT_EQ(answer.guessed > 0, drafts);
  }
  EXPECT_EQ(left[1].text, left[0].text);
  EXPECT_EQ(left[1].tokens, left[0].tokens);
  EXPECT_EQ(left[1].more, left[0].more);
  EXPECT_TRUE(left[1] == left[0]) << "position " << left[1].position << ", " << left[1].counted
                                  << " counted, " << left[1].decoded << " decoded; in plain decoding "
                                  << left[0].position << ", " << left[0].counted << ", " << left[0].decoded;
}

TEST_F(GeneratorErrors, WithoutMemoryWhatWasMadeStaysUsable) {
  Know(60);
  for (const bool drafts : {false, true}) {
    bool finished = false;
    for (long n = 0; !finished; ++n) {
      SCOPED_TRACE((drafts ? "guesses, allocation " : "plain, allocation ") + std::to_string(n));
      ASSERT_LT(n, 10000);
      DraftingToy toy;
      const auto session = Make(toy, drafts);
      Generator generator(*session, tokenizer_, nullptr);
      Answer answer;
      fail_at.store(allocations.load() + n);
      try {
        finished = generator.Run(prompt_, 0, Most(60), &answer).ok();
      } catch (const std::bad_alloc&) {
      }
      fail_at.store(-1);
      const std::vector<int32_t> tokens = generator.Tokens();
      ASSERT_LE(tokens.size(), truth_.size());
      ASSERT_TRUE(std::equal(tokens.begin(), tokens.end(), truth_.begin())) << "of " << tokens.size();
      ASSERT_LE(session->position(), tokens.size());
      ASSERT_LE(tokens.size(), session->position() + 1);
      if (tokens.size() < prompt_.size() || tokens.size() == truth_.size()) continue;
      ASSERT_TRUE(generator.Continue(Most(truth_.size() - tokens.size()), &answer).ok());
      ASSERT_EQ(generator.Tokens(), truth_);
    }
  }
}

TEST_F(GeneratorErrors, WithoutMemoryForWhatIsKeptTheAnswerGoesOn) {
  Know(20);
  const qrt_allocator none = {nullptr, [](void*, size_t, size_t) -> void* { return nullptr; },
                              [](void*, void*, size_t, size_t) {}};
  DraftingToy toy(drafting::Both(), drafting::Does::kLogits, drafting::kVocab, true);
  toy.engine->KeepPrefixes(1 << 20, &none);
  const auto session = toy.Make();
  Generator generator(*session, tokenizer_, &none);
  Answer answer;
  const qrt::Status status = generator.Run(prompt_, 10, Most(20), &answer);
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(generator.Tokens(), truth_);
  EXPECT_EQ(toy.engine->prefixes()->counters().prefixes, 0u);
  EXPECT_EQ(generator.Reusable(std::vector<int32_t>(prompt_.begin(), prompt_.begin() + 12)), 0u)
      << "there is no checkpoint";
}

TEST_F(GeneratorErrors, StoppedBehindThePromptTheChosenTokenStays) {
  Know(20);
  DraftingToy toy;
  const auto session = toy.Make();
  Generator generator(*session, tokenizer_, nullptr);
  Answer answer;
  AnswerRequest request = Most(20);
  request.listener.ctx = session.get();
  request.listener.stop = [](void* of) -> int32_t { return static_cast<qrt::Session*>(of)->position() > 0; };
  ASSERT_TRUE(generator.Run(prompt_, 0, request, &answer).ok());
  EXPECT_EQ(answer.finish, qrt::Finish::kCancelled);
  EXPECT_EQ(session->position(), prompt_.size());
  ASSERT_TRUE(generator.Continue(Most(20), &answer).ok());
  EXPECT_EQ(generator.Tokens(), truth_);
  EXPECT_EQ(answer.reused_tokens, 30u);
  EXPECT_EQ(answer.prompt_tokens, 0u);
}

// A sequence that something else moved is fed again, and a step of that fails: none of it is forgotten, nor
// the token that was chosen to follow.
TEST_F(GeneratorErrors, WhatIsToBeFedAgainStays) {
  Know(60);
  static int left;  // steps until one fails
  int failed = 0;
  for (int n = 0; n < 10; ++n) {
    SCOPED_TRACE(n);
    DraftingToy toy;
    toy.device->most_rows = 8;
    const auto session = Make(toy, false);
    Generator generator(*session, tokenizer_, nullptr);
    Answer answer;
    ASSERT_TRUE(generator.Run(prompt_, 0, Most(20), &answer).ok());
    const size_t said = generator.Tokens().size();
    ASSERT_TRUE(session->Reset().ok());
    left = n;
    toy.device->fails = [](const qrt::ProgramFacts&) { return left-- == 0; };
    if (!generator.Continue(Most(1), &answer).ok()) ++failed;
    toy.device->fails = nullptr;
    ASSERT_LT(generator.Tokens().size(), truth_.size());
    if (session->damaged()) {
      ASSERT_TRUE(session->Reset().ok());
    }
    const size_t now = std::max(said, generator.Tokens().size());
    ASSERT_TRUE(generator.Continue(Most(truth_.size() - now), &answer).ok());
    EXPECT_EQ(generator.Tokens(), truth_);
  }
  EXPECT_GE(failed, 3) << "few steps, and what is tested does not happen";
}

}  // namespace
