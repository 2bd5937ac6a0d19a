// Drafts by another model: whatever it says, the text and the session are those of plain decoding.
#include "runtime/engine/second_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "tests/unit/runtime/engine_drafting_text.h"

namespace {

using drafting::DraftingToy;
using drafting::kSpeculatedText;
using drafting::SavedBytes;
using drafting::SomeSamplers;
using drafting::TextOf;
using drafting::TokensOf;
using qrt::Generated;
using qrt::SamplerOptions;

// Another opinion about one row of three.
float Otherwise(uint64_t row, float logit) {
  return row % 3 == 0 ? -logit : logit;
}

// A model with a second one, whose device is `second`.
struct TwoModels : DraftingToy {
  explicit TwoModels(float (*bend)(uint64_t, float) = nullptr) {
    DraftingToy other(drafting::TrunkPrograms());
    second = other.device;
    second->bend = bend;
    engine->Link(std::move(other.engine));
  }
  drafting::Device* second;
};

TEST(SecondModel, TextAndSessionAreThoseOfPlainDecoding) {
  for (auto* bend : {+[](uint64_t, float logit) { return logit; }, &Otherwise}) {
    TwoModels toy(bend);
    EXPECT_TRUE(toy.engine->drafts());
    for (const SamplerOptions& options : SomeSamplers()) {
      SCOPED_TRACE("seed " + std::to_string(options.seed));
      for (const size_t length : {1u, 45u, 100u}) {
        const std::vector<int32_t> prompt = TokensOf(length, 3);
        const auto plain = toy.Make();
        const std::vector<int32_t> text = TextOf(*plain, options, prompt);
        for (const uint32_t guesses : {1u, 3u, 15u, QRT_DRAFT_TOKENS_AUTO}) {
          const auto session = toy.Make(QRT_DRAFT_MODEL, guesses);
          ASSERT_TRUE(toy.made.ok()) << toy.made.ToString();
          EXPECT_EQ(TextOf(*session, options, prompt), text) << guesses << " guesses, prompt of " << length;
          EXPECT_EQ(SavedBytes(*session), SavedBytes(*plain)) << guesses << " guesses";
        }
      }
    }
  }
}

// The same model greedily: all guesses are right, each token goes through the second model once, and a prompt
// by its largest steps.
TEST(SecondModel, FeedsEachTokenOnce) {
  TwoModels toy;
  const std::vector<int32_t> prompt = TokensOf(70, 5);
  const auto session = toy.Make(QRT_DRAFT_MODEL, 3);
  Generated sum;
  TextOf(*session, SomeSamplers()[0], prompt, &sum);
  EXPECT_EQ(sum.accepted, sum.guessed);
  EXPECT_GT(sum.accepted, kSpeculatedText / 2);
  int64_t rows = 0;
  ASSERT_GT(toy.second->steps.size(), 3u);
  for (const toy::Step& step : toy.second->steps) rows += step.rows;
  EXPECT_EQ(toy.second->steps[0].rows, 32) << "it catches up by one step a call";
  EXPECT_EQ(toy.second->steps[0].out, 0) << "and needs no logits for that";
  EXPECT_EQ(toy.second->steps[1].rows, 32);
  EXPECT_LE(rows, static_cast<int64_t>(session->position())) << "a token is fed twice";
}

// Wrong guesses are taken back; what is far behind, or another sequence, is fed anew.
TEST(SecondModel, FollowsWhereverTheSessionGoes) {
  TwoModels toy(Otherwise);
  const SamplerOptions options = SomeSamplers()[1];
  const std::vector<int32_t> prompt = TokensOf(45, 3);
  const std::vector<int32_t> text = TextOf(*toy.Make(), options, prompt);
  const auto session = toy.Make(QRT_DRAFT_MODEL, 7);
  EXPECT_EQ(TextOf(*session, options, prompt), text);
  ASSERT_TRUE(session->Rewind(kSpeculatedText - 1).ok());  // KV alone: any number
  EXPECT_EQ(session->position(), prompt.size());
  ASSERT_TRUE(session->Reset().ok());
  EXPECT_EQ(TextOf(*session, options, prompt), text) << "after a reset";
  const std::vector<int32_t> other = TokensOf(50, 9);
  const std::vector<int32_t> expected = TextOf(*toy.Make(), options, other);
  ASSERT_TRUE(session->Reset().ok());
  EXPECT_EQ(TextOf(*session, options, other), expected) << "another prompt";
}

TEST(SecondModel, OneThatFailsGuessesNothing) {
  TwoModels toy;
  const SamplerOptions options = SomeSamplers()[0];
  const std::vector<int32_t> prompt = TokensOf(20, 3);
  const std::vector<int32_t> text = TextOf(*toy.Make(), options, prompt);
  toy.second->fails = [](const qrt::ProgramFacts&) { return true; };
  const auto session = toy.Make(QRT_DRAFT_MODEL, 3);
  Generated sum;
  EXPECT_EQ(TextOf(*session, options, prompt, &sum), text);
  EXPECT_EQ(sum.guessed, 0u);
  toy.second->fails = nullptr;
  ASSERT_TRUE(session->Reset().ok());
  sum = {};
  EXPECT_EQ(TextOf(*session, options, prompt, &sum), text);
  EXPECT_GT(sum.guessed, 0u) << "it works again";
  toy.second->bend = [](uint64_t, float) { return std::nanf(""); };
  ASSERT_TRUE(session->Reset().ok());
  EXPECT_EQ(TextOf(*session, options, prompt), text) << "its logits are no numbers";
}

}  // namespace
