// Tokens that a device decodes one behind the other before the host looks at them: the text and the session
// are those of decoding one by one, wherever the text ends.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "runtime/engine/tokens_ahead.h"
#include "tests/unit/runtime/engine_drafting_text.h"
#include "tests/unit/runtime/engine_drafting_toy.h"

namespace {

using drafting::Does;
using drafting::DraftingToy;
using drafting::kSpeculatedText;
using drafting::SomeSamplers;
using drafting::TextOf;
using drafting::TokensOf;
using qrt::Generate;
using qrt::Generated;
using qrt::Sampler;
using qrt::SamplerOptions;
using qrt::Session;
using qrt::TokensAhead;

// Text of one by one, of a device that chooses tokens.
struct Plain {
  Plain(const SamplerOptions& options, const std::vector<int32_t>& prompt)
      : toy(drafting::Both(), Does::kTokens), session(toy.Make()), text(TextOf(*session, options, prompt)) {}
  DraftingToy toy;
  std::unique_ptr<Session> session;
  const std::vector<int32_t> text;
};

std::unique_ptr<Session> AheadBy(DraftingToy& toy, uint32_t count, uint64_t capacity = 600) {
  auto session = std::make_unique<Session>(*toy.engine, nullptr);
  EXPECT_TRUE(session->Init({capacity, 0, QRT_DRAFT_NONE, 0, count}, nullptr).ok());
  return session;
}

TEST(TokensAheadTest, TextAndSessionAreThoseOfOneByOne) {
  const std::vector<int32_t> prompt = TokensOf(45, 3);
  for (const SamplerOptions& options : SomeSamplers()) {
    SCOPED_TRACE("seed " + std::to_string(options.seed));
    const Plain plain(options, prompt);
    ASSERT_EQ(plain.text.size(), kSpeculatedText);
    const bool penalizes = toy::MakeSampler(options).penalizes();
    for (uint32_t count = 1; count <= TokensAhead::kMost; count += count < 5 ? 1 : 3) {
      DraftingToy toy(drafting::Both(), Does::kChains);
      const auto session = AheadBy(toy, count);
      Generated sum;
      EXPECT_EQ(TextOf(*session, options, prompt, &sum), plain.text) << count;
      EXPECT_EQ(drafting::SavedBytes(*session), drafting::SavedBytes(*plain.session)) << count;
      EXPECT_EQ(toy.device->trunk_rows_read, 0u) << "no logits come back";
      EXPECT_EQ(sum.guessed + sum.accepted, 0u) << "nothing was guessed";
      EXPECT_EQ(sum.steps, kSpeculatedText - 1);
      const size_t runs = count == 1 || penalizes ? 0 : (kSpeculatedText - 1 + count - 1) / count;
      EXPECT_LE(toy.device->chains_run, runs) << count;
      EXPECT_GE(toy.device->chains_run, runs == 0 ? 0 : runs - 1) << count << ": the last one may be alone";
    }
  }
}

// What lies behind the token that is the last is taken back, and the text goes on from there.
TEST(TokensAheadTest, ATextMayEndAnywhere) {
  SamplerOptions options;
  options.seed = 7;
  const std::vector<int32_t> prompt = TokensOf(20, 5);
  const Plain plain(options, prompt);
  for (size_t end = 0; end < 12; ++end) {
    DraftingToy toy(drafting::Both(), Does::kChains);
    const auto session = AheadBy(toy, 5);
    Sampler sampler = toy::MakeSampler(options);
    int32_t token = 0;
    ASSERT_TRUE(toy::AppendSampled(*session, prompt, &sampler, &token).ok());
    std::vector<int32_t> text = {token};
    struct Ends {
      size_t left;
      std::vector<int32_t> asked;
    } ends{end, {}};
    qrt::Verdicts verdicts;
    verdicts.ends = [](void* ctx, int32_t chosen) -> int32_t {
      auto* of = static_cast<Ends*>(ctx);
      of->asked.push_back(chosen);
      return of->left-- == 0 ? 1 : 0;
    };
    verdicts.ctx = &ends;
    int32_t chosen[16];
    while (text.size() < 30) {
      Generated made;
      ASSERT_TRUE(Generate(*session, text.back(), sampler, verdicts, chosen, &made).ok());
      text.insert(text.end(), chosen, chosen + made.tokens);
      ASSERT_EQ(session->position(), prompt.size() + text.size() - 1) << "only what counts is in the session";
      EXPECT_EQ(made.steps, made.tokens);
    }
    EXPECT_EQ(std::vector<int32_t>(ends.asked.begin(), ends.asked.begin() + 20),
              std::vector<int32_t>(plain.text.begin() + 1, plain.text.begin() + 21))
        << "each token is asked about once, in order; it ends at " << end;
    text.resize(30);
    EXPECT_EQ(text, std::vector<int32_t>(plain.text.begin(), plain.text.begin() + 30)) << "ends at " << end;
  }
}

TEST(TokensAheadTest, TheContextIsFilledToItsEnd) {
  SamplerOptions options;
  options.seed = 3;
  const std::vector<int32_t> prompt = TokensOf(9, 1);
  DraftingToy toy(drafting::Both(), Does::kChains);
  const auto session = AheadBy(toy, 4, 9 + 10);
  Sampler sampler = toy::MakeSampler(options);
  int32_t token = 0, chosen[16];
  ASSERT_TRUE(toy::AppendSampled(*session, prompt, &sampler, &token).ok());
  Generated made;
  for (size_t fed = 0; fed < 10; fed += made.tokens) {
    ASSERT_TRUE(Generate(*session, token, sampler, {}, chosen, &made).ok());
    token = chosen[made.tokens - 1];
  }
  EXPECT_EQ(session->position(), session->capacity());
  EXPECT_EQ(Generate(*session, token, sampler, {}, chosen, &made).code(), qrt::Code::kContextFull);
  EXPECT_EQ(made.tokens, 0u);
}

// Logits that no model gives: what was chosen before them counts, and the error is that of one by one.
TEST(TokensAheadTest, AFaultEndsTheTextWhereItIs) {
  SamplerOptions options;
  options.temperature = 0;
  const std::vector<int32_t> prompt = TokensOf(9, 1);
  const Plain plain(options, prompt);
  static uint64_t bad_row;
  std::vector<int32_t> fed = prompt;
  fed.insert(fed.end(), plain.text.begin(), plain.text.begin() + 3);
  bad_row = drafting::TrunkRows(fed).back();
  DraftingToy toy(drafting::Both(), Does::kChains);
  toy.device->bend = [](uint64_t of, float logit) { return of == bad_row ? NAN : logit; };
  const auto session = AheadBy(toy, 8);
  Sampler sampler = toy::MakeSampler(options);
  int32_t token = 0, chosen[16];
  ASSERT_TRUE(toy::AppendSampled(*session, prompt, &sampler, &token).ok());
  Generated made;
  const qrt::Status status = Generate(*session, token, sampler, {}, chosen, &made);
  EXPECT_EQ(status.code(), qrt::Code::kNumericFault) << status.ToString();
  ASSERT_EQ(made.tokens, 2u);
  EXPECT_EQ(chosen[0], plain.text[1]);
  EXPECT_EQ(chosen[1], plain.text[2]);
  EXPECT_EQ(session->position(), prompt.size() + 3) << "as one by one, which has fed the third";
}

TEST(TokensAheadTest, ADeviceThatFailsLeavesADamagedSession) {
  const std::vector<int32_t> prompt = TokensOf(9, 1);
  DraftingToy toy(drafting::Both(), Does::kChains);
  const auto session = AheadBy(toy, 8);
  Sampler sampler = toy::MakeSampler({});
  int32_t token = 0, chosen[16];
  ASSERT_TRUE(toy::AppendSampled(*session, prompt, &sampler, &token).ok());
  toy.device->fails = [](const qrt::ProgramFacts&) { return true; };
  Generated made;
  EXPECT_EQ(Generate(*session, token, sampler, {}, chosen, &made).code(), qrt::Code::kInternal);
  EXPECT_EQ(made.tokens, 0u);
  EXPECT_FALSE(session->damaged()) << "refused: nothing was begun";
  EXPECT_EQ(session->position(), prompt.size());
}

// Whatever the clock says, the text is the same.
TEST(TokensAheadTest, ACountThatAdaptsChangesNoToken) {
  SamplerOptions options;
  options.seed = 7;
  const std::vector<int32_t> prompt = TokensOf(45, 3);
  const Plain plain(options, prompt);
  drafting::AnyTicks ticks{.most = 30'000'000};
  DraftingToy toy(drafting::Both(), Does::kChains);
  const auto session = AheadBy(toy, 0);
  session->DecodeAhead(TokensAhead(0, {drafting::Tick, &ticks}));
  EXPECT_EQ(TextOf(*session, options, prompt), plain.text);
  EXPECT_EQ(drafting::SavedBytes(*session), drafting::SavedBytes(*plain.session));
  EXPECT_GT(toy.device->chains_run, 5u);
  EXPECT_LT(toy.device->chains_run, kSpeculatedText / 2) << "some steps were alone";
}

// By the clock: as many as take 20 ms, and never more than the session can take back.
TEST(TokensAheadTest, TheCountFollowsTheTimeOfAStep) {
  TokensAhead ahead(0);
  EXPECT_EQ(ahead.Choose(16), 1u) << "nothing is known";
  const std::pair<uint64_t, uint32_t> steps[] = {{100, 8},       {2'000'000, 8},  {2'600'000, 7},
                                                 {6'000'000, 3}, {15'000'000, 1}, {400'000'000, 1}};
  for (const auto& [nanoseconds, count] : steps) {
    ahead.Saw(4, 4 * nanoseconds);
    EXPECT_EQ(ahead.Choose(16), count) << nanoseconds << " ns a step";
    EXPECT_EQ(ahead.Choose(1), 1u);
  }
  EXPECT_EQ(TokensAhead(12).Choose(16), 12u);
  EXPECT_EQ(TokensAhead(12).Choose(5), 5u);

  DraftingToy toy(drafting::Both(), Does::kChains);
  Session session(*toy.engine, nullptr);
  EXPECT_EQ(session.Init({600, 0, QRT_DRAFT_NONE, 0, 17}, nullptr).code(), qrt::Code::kInvalidArgument);
}

}  // namespace
