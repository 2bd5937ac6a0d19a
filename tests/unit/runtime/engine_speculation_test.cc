// Guessing and checking: whatever is guessed, the text and the session are those of plain decoding; and the
// model's draft is fed what it should be.
#include "runtime/engine/speculation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "runtime/engine/lookup_drafter.h"
#include "tests/unit/runtime/engine_drafting_text.h"
#include "tests/unit/runtime/engine_drafting_toy.h"

namespace {

using drafting::Does;
using drafting::DraftingToy;
using drafting::kSpeculatedText;
using drafting::kVocab;
using drafting::SavedBytes;
using drafting::Scripted;
using drafting::SomeSamplers;
using drafting::TextOf;
using drafting::TokensOf;
using qrt::Generate;
using qrt::Generated;
using qrt::Sampler;
using qrt::SamplerOptions;
using qrt::Session;

class SpeculationOn : public testing::TestWithParam<Does> {};
INSTANTIATE_TEST_SUITE_P(Devices, SpeculationOn,
                         testing::Values(Does::kLogits, Does::kTokens, Does::kChains));

TEST_P(SpeculationOn, TextAndSessionAreThoseOfPlainDecoding) {
  DraftingToy toy(drafting::Both(), GetParam());
  ASSERT_TRUE(toy.status.ok()) << toy.status.ToString();
  const std::vector<int32_t> prompt = TokensOf(45, 3);
  for (const SamplerOptions& options : SomeSamplers()) {
    SCOPED_TRACE("seed " + std::to_string(options.seed));
    const auto plain = toy.Make();
    const std::vector<int32_t> text = TextOf(*plain, options, prompt);
    ASSERT_EQ(text.size(), kSpeculatedText);
    std::vector<int32_t> truth = prompt;
    truth.insert(truth.end(), text.begin(), text.end());
    const std::vector<uint8_t> saved = SavedBytes(*plain);
    for (uint32_t length = 1; length <= 15; length += length < 8 ? 1 : 7) {
      for (const unsigned right : {0u, 5u, 8u}) {
        const auto session = toy.Make();
        session->Use(std::make_unique<Scripted>(truth, right, length * 9 + right), length);
        Generated sum;
        EXPECT_EQ(TextOf(*session, options, prompt, &sum), text)
            << length << " guesses, " << right << " of 8 right";
        EXPECT_EQ(SavedBytes(*session), saved) << length << " guesses, " << right << " of 8 right";
        EXPECT_EQ(toy.device->trunk_rows_read == 0, GetParam() != Does::kLogits)
            << "a device that chooses sends no logits";
        if (right != 8 || length == 1) continue;
        EXPECT_EQ(sum.accepted, sum.guessed) << "guesses that were right";
        EXPECT_GT(sum.accepted, kSpeculatedText / 3);
      }
      for (const qrt_draft draft : {QRT_DRAFT_MODEL, QRT_DRAFT_LOOKUP}) {
        const auto session = toy.Make(draft, length);
        ASSERT_TRUE(toy.made.ok()) << toy.made.ToString();
        EXPECT_EQ(TextOf(*session, options, prompt), text)
            << "draft " << draft << ", " << length << " guesses";
        EXPECT_EQ(SavedBytes(*session), saved) << "draft " << draft << ", " << length << " guesses";
      }
    }
  }
}

// A length that adapts gives the same text, whatever the clock says; with guesses that are right it drafts.
TEST(Speculation, ALengthThatAdaptsChangesNoToken) {
  DraftingToy toy;
  const std::vector<int32_t> prompt = TokensOf(45, 3);
  for (const SamplerOptions& options : SomeSamplers()) {
    SCOPED_TRACE("seed " + std::to_string(options.seed));
    const auto plain = toy.Make();
    const std::vector<int32_t> text = TextOf(*plain, options, prompt);
    const std::vector<uint8_t> saved = SavedBytes(*plain);
    std::vector<int32_t> truth = prompt;
    truth.insert(truth.end(), text.begin(), text.end());
    for (const unsigned right : {0u, 8u}) {
      const auto session = toy.Make();
      session->Use(std::make_unique<Scripted>(truth, right, right), 15);
      drafting::AnyTicks ticks{.most = 1000};
      session->Adapt(qrt::DraftLength(15, {drafting::Tick, &ticks}));
      Generated sum;
      EXPECT_EQ(TextOf(*session, options, prompt, &sum), text) << right << " of 8 right";
      EXPECT_EQ(SavedBytes(*session), saved) << right << " of 8 right";
      EXPECT_GT(sum.guessed, 0u);
      EXPECT_GT(ticks.now, 0u) << "steps are timed by the clock that was given";
    }
    for (const qrt_draft draft : {QRT_DRAFT_MODEL, QRT_DRAFT_LOOKUP}) {
      const auto session = toy.Make(draft, QRT_DRAFT_TOKENS_AUTO);
      ASSERT_TRUE(toy.made.ok()) << toy.made.ToString();
      EXPECT_EQ(session->draft_tokens(), 15u);
      EXPECT_EQ(TextOf(*session, options, prompt), text) << "draft " << draft;
      EXPECT_EQ(SavedBytes(*session), saved) << "draft " << draft;
    }
  }
}

// Tokens are drawn by their positions: a sequence that was taken back, restored or forked goes on as one that
// was left alone, though its sampler has drawn in between.
TEST(Speculation, WhatFollowsARewindARestoreAndAForkIsWhatWouldHaveFollowed) {
  DraftingToy toy;
  const std::vector<int32_t> prompt = TokensOf(45, 3);
  const SamplerOptions options = SomeSamplers()[1];
  const std::vector<int32_t> text = TextOf(*toy.Make(), options, prompt);
  for (const qrt_draft draft : {QRT_DRAFT_NONE, QRT_DRAFT_MODEL}) {
    SCOPED_TRACE("draft " + std::to_string(draft));
    const auto session = toy.Make(draft, 3), restored = toy.Make(draft, 3), fork = toy.Make(draft, 3);
    Sampler sampler = toy::MakeSampler(options);
    // The `count` tokens behind the token text[at], which is the next of `of`.
    const auto goes_on = [&](Session& of, size_t at, size_t count) {
      std::vector<int32_t> more;
      int32_t token = text[at], chosen[16];
      while (more.size() < count) {
        Generated generated;
        EXPECT_TRUE(
            Generate(of, token, sampler, {}, {chosen, std::min<size_t>(16, count - more.size())}, &generated)
                .ok());
        if (generated.tokens == 0) break;
        more.insert(more.end(), chosen, chosen + generated.tokens);
        token = more.back();
      }
      return more;
    };
    const auto expected = [&](size_t at, size_t count) {
      const auto begin = text.begin() + static_cast<ptrdiff_t>(at) + 1;
      return std::vector<int32_t>(begin, begin + static_cast<ptrdiff_t>(count));
    };
    int32_t first = -1;
    ASSERT_TRUE(toy::AppendSampled(*session, prompt, &sampler, &first).ok());
    EXPECT_EQ(first, text[0]);
    EXPECT_EQ(goes_on(*session, 0, 40), expected(0, 40));
    ASSERT_TRUE(session->Rewind(30).ok());
    EXPECT_EQ(goes_on(*session, 10, 25), expected(10, 25)) << "after a rewind";
    const std::vector<uint8_t> saved = SavedBytes(*session);
    ASSERT_TRUE(restored->Restore(saved.data(), saved.size()).ok());
    ASSERT_TRUE(fork->CopyOf(*session, nullptr).ok());
    for (Session* of : {session.get(), restored.get(), fork.get()}) {
      EXPECT_EQ(goes_on(*of, 35, 50), expected(35, 50)) << "session "
                                                        << (of == session.get() ? 0
                                                            : of == fork.get()  ? 2
                                                                                : 1);
    }
  }
}

// What the caller says of guesses decides; the session holds what was chosen.
TEST_P(SpeculationOn, TheCallerSaysWhichGuessesAreRight) {
  DraftingToy toy(drafting::Both(), GetParam());
  const std::vector<int32_t> prompt = TokensOf(45, 3);
  const auto session = toy.Make(QRT_DRAFT_MODEL, 5), again = toy.Make();
  Sampler sampler = toy::MakeSampler(SomeSamplers()[3]);
  struct {
    uint32_t right = 0;
    uint32_t asked = 0;
  } says;
  const auto agrees = [](void* ctx, uint32_t index) -> int32_t {
    auto* of = static_cast<decltype(&says)>(ctx);
    EXPECT_EQ(index, of->asked++) << "guesses in order";
    return index < of->right;
  };
  std::vector<int32_t> held = prompt;
  ASSERT_TRUE(toy::Append(*session, prompt, QRT_LOGITS_NONE).ok());
  int32_t token = 4, chosen[16];
  for (says.right = 0; says.right <= 5; ++says.right) {
    int32_t guesses[5];
    ASSERT_EQ(session->drafter()->Propose(session->position(), token, guesses), 5u);
    Generated generated;
    says.asked = 0;
    ASSERT_TRUE(Generate(*session, token, sampler, {nullptr, agrees, &says}, chosen, &generated).ok());
    EXPECT_EQ(generated.guessed, 5u);
    EXPECT_EQ(generated.accepted, says.right);
    ASSERT_EQ(generated.tokens, says.right + 1);
    EXPECT_TRUE(std::equal(chosen, chosen + says.right, guesses)) << says.right << " right";
    held.push_back(token);
    held.insert(held.end(), chosen, chosen + says.right);
    token = chosen[says.right];
    ASSERT_EQ(session->position(), held.size());
  }
  ASSERT_TRUE(toy::Append(*again, held).ok());
  EXPECT_EQ(SavedBytes(*session), SavedBytes(*again));
}

// Between two rounds of guessing and checking nothing goes through the host but ids; the guesses are those
// that a host that feeds each of them gets.
TEST(Speculation, ADeviceGuessesAndChecksInOneRun) {
  const std::vector<int32_t> prompt = TokensOf(45, 3);
  for (const SamplerOptions& options : SomeSamplers()) {
    for (const uint32_t length : {1u, 2u, 5u, 7u}) {
      SCOPED_TRACE("seed " + std::to_string(options.seed) + ", " + std::to_string(length) + " guesses");
      DraftingToy toys[] = {DraftingToy(drafting::Both(), Does::kTokens),
                            DraftingToy(drafting::Both(), Does::kChains)};
      Generated sums[2];
      std::vector<int32_t> texts[2];
      std::vector<uint8_t> saved[2];
      for (const size_t t : {0, 1}) {
        const auto session = toys[t].Make(QRT_DRAFT_MODEL, length);
        ASSERT_TRUE(toys[t].made.ok()) << toys[t].made.ToString();
        texts[t] = TextOf(*session, options, prompt, &sums[t]);
        saved[t] = SavedBytes(*session);
      }
      EXPECT_EQ(texts[1], texts[0]);
      EXPECT_EQ(saved[1], saved[0]);
      EXPECT_EQ(sums[1].guessed, sums[0].guessed);
      EXPECT_EQ(sums[1].accepted, sums[0].accepted);
      const bool penalizes = toy::MakeSampler(options).penalizes();
      EXPECT_EQ(toys[1].device->chains_run == 0, penalizes) << "guesses are known too late for penalties";
      if (penalizes) continue;

      // Behind the prompt more tokens wait than go in with a guess; the next round begins with what the host
      // saw.
      const auto session = toys[1].Make(QRT_DRAFT_MODEL, length);
      Sampler sampler = toy::MakeSampler(options);
      ASSERT_TRUE(toy::Append(*session, prompt, QRT_LOGITS_NONE).ok());
      int32_t token = 4, chosen[16];
      for (int round = 0; round < 12; ++round) {
        const size_t chains = toys[1].device->chains_run, copies = toys[1].device->copies;
        Generated generated;
        ASSERT_TRUE(Generate(*session, token, sampler, {}, chosen, &generated).ok());
        token = chosen[generated.tokens - 1];
        EXPECT_EQ(generated.guessed, length);
        EXPECT_EQ(toys[1].device->chains_run, chains + (round != 0));
        if (round == 0) continue;
        EXPECT_EQ(toys[1].device->copies, copies + (round == 1)) << "rows stay on the device";
      }
    }
  }
}

// Lists of tokens to penalize that are too long together: the rows come to the host, which has one list.
TEST(Speculation, ADeviceChoosesAsLongAsItsTableOfPenaltiesHasRoom) {
  constexpr uint32_t kManyTokens = 16400;
  DraftingToy toy(drafting::Both(), Does::kTokens, kManyTokens);
  ASSERT_TRUE(toy.status.ok()) << toy.status.ToString();
  SamplerOptions options;
  options.presence_penalty = 1;
  options.penalty_window = -1;
  for (const int32_t recorded : {16300, 16390}) {
    const auto session = toy.Make();
    session->Use(std::make_unique<Scripted>(std::vector<int32_t>(8, 1), 8, 1), 3);
    Sampler sampler = std::move(*Sampler::Create(kManyTokens, options));
    for (int32_t token = 0; token < recorded; ++token) sampler.Accept(token);
    Generated generated;
    while (generated.guessed < 3) {
      ASSERT_TRUE(session->Reset().ok());
      int32_t chosen[4];
      const qrt::Status status = Generate(*session, 1, sampler, {}, chosen, &generated);
      ASSERT_TRUE(status.ok()) << status.ToString();
    }
    EXPECT_EQ(toy.device->trunk_rows_read, recorded == 16300 ? 0u : 4u);
  }
}

TEST(Speculation, ATextThatRepeatsItselfIsLookedUp) {
  DraftingToy toy;
  SamplerOptions greedy;
  greedy.temperature = 0;
  const auto session = toy.Make(QRT_DRAFT_LOOKUP, 4);
  std::vector<int32_t> prompt = TokensOf(20, 4);
  prompt.insert(prompt.end(), prompt.begin(), prompt.begin() + 19);
  Generated sum;
  TextOf(*session, greedy, prompt, &sum);
  EXPECT_GT(sum.guessed, 0u);
  EXPECT_LT(sum.tokens, kSpeculatedText);

  qrt::LookupDrafter lookup(100);
  int32_t guesses[4] = {};
  const std::vector<int32_t> seen = {1, 2, 3, 4, 5, 9, 2, 3, 7, 1, 2};
  lookup.Follow(0, seen, nullptr);
  ASSERT_EQ(lookup.Propose(seen.size(), 3, guesses), 4u);
  EXPECT_EQ((std::vector<int32_t>(guesses, guesses + 4)), (std::vector<int32_t>{4, 5, 9, 2}))
      << "1 2 3 is longer than 2 3";
  EXPECT_EQ(lookup.Propose(seen.size(), 30, guesses), 0u) << "nothing like it was said";
  lookup.BackTo(8);  // 1 2 3 4 5 9 2 3
  ASSERT_EQ(lookup.Propose(7, 3, guesses), 4u);
  EXPECT_EQ(guesses[0], 4);
  lookup.Forget(50);
  EXPECT_EQ(lookup.Propose(50, 3, guesses), 0u);
}

// Every proposal, in any order of appends of any length, checked steps and plain ones.
TEST(Speculation, TheModelsDraftIsFedTheTrunksRows) {
  for (uint32_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    DraftingToy toy;
    std::mt19937 random(seed);
    const auto session = toy.Make(QRT_DRAFT_MODEL, 5);
    ASSERT_TRUE(toy.made.ok()) << toy.made.ToString();
    SamplerOptions options;
    options.temperature = 3000;
    Sampler sampler = toy::MakeSampler(options);
    std::vector<int32_t> held;
    size_t proposals = 0;
    while (held.size() < 520) {
      const auto token = static_cast<int32_t>(random() % kVocab);
      std::vector<int32_t> with = held;
      with.push_back(token);
      int32_t guesses[5];
      const size_t count = 1 + random() % 5;
      ASSERT_EQ(session->drafter()->Propose(held.size(), token, {guesses, count}), count);
      EXPECT_EQ((std::vector<int32_t>(guesses, guesses + count)), drafting::ReferenceGuesses(with, count))
          << "behind " << held.size() << " tokens";
      ++proposals;
      if (random() % 3 == 0) {
        int32_t chosen[16];
        Generated generated;
        // Another token than the last guess was for, too.
        if (random() % 2 == 0) with.back() = static_cast<int32_t>(random() % kVocab);
        ASSERT_TRUE(Generate(*session, with.back(), sampler, {}, chosen, &generated).ok());
        held = with;
        held.insert(held.end(), chosen, chosen + generated.tokens - 1);
      } else {
        const size_t lengths[] = {1, 3, 17, 40};
        const std::vector<int32_t> more = TokensOf(1 + random() % lengths[random() % 4], random());
        ASSERT_TRUE(toy::Append(*session, more, random() % 2 == 0 ? QRT_LOGITS_LAST : QRT_LOGITS_NONE).ok());
        held.insert(held.end(), more.begin(), more.end());
      }
      ASSERT_EQ(session->position(), held.size());
      if (HasFailure()) return;
    }
    EXPECT_GT(proposals, 20u);
  }
}

TEST(Speculation, ADraftGoesOnAfterWhatItHasNotSeen) {
  DraftingToy toy;
  const auto session = toy.Make(QRT_DRAFT_MODEL, 3), other = toy.Make(QRT_DRAFT_MODEL, 3);
  const std::vector<int32_t> tokens = TokensOf(50, 6);
  ASSERT_TRUE(toy::Append(*session, tokens).ok());
  const std::vector<uint8_t> saved = SavedBytes(*session);
  ASSERT_TRUE(other->Restore(saved.data(), saved.size()).ok());
  std::vector<int32_t> with = tokens;
  with.push_back(5);
  int32_t guesses[3];
  ASSERT_EQ(other->drafter()->Propose(50, 5, guesses), 3u);
  EXPECT_EQ((std::vector<int32_t>(guesses, guesses + 3)), drafting::ReferenceGuesses(with, 3, 50))
      << "the draft begins where it is restored";
  ASSERT_TRUE(toy::Append(*other, {5, 6, 7}).ok());
  with.insert(with.end(), {6, 7, 8});
  ASSERT_EQ(other->drafter()->Propose(53, 8, guesses), 3u);
  EXPECT_EQ((std::vector<int32_t>(guesses, guesses + 3)), drafting::ReferenceGuesses(with, 3, 50));

  ASSERT_TRUE(other->Reset().ok());
  ASSERT_TRUE(toy::Append(*other, {5, 6, 7}).ok());
  ASSERT_EQ(other->drafter()->Propose(3, 8, guesses), 3u);
  EXPECT_EQ((std::vector<int32_t>(guesses, guesses + 3)), drafting::ReferenceGuesses({5, 6, 7, 8}, 3));

  // Far back: one row is not known any more.
  ASSERT_TRUE(session->Rewind(30).ok());
  ASSERT_EQ(session->drafter()->Propose(20, 8, guesses), 3u);
}

TEST(Speculation, ADraftThatFailsGuessesNothing) {
  DraftingToy toy;
  const std::vector<int32_t> prompt = TokensOf(30, 5);
  const auto plain = toy.Make();
  const std::vector<int32_t> text = TextOf(*plain, SomeSamplers()[3], prompt);
  toy.device->fails = [](const qrt::ProgramFacts& facts) { return facts.leaves == drafting::kDraftStream; };
  const auto session = toy.Make(QRT_DRAFT_MODEL, 3);
  Generated sum;
  EXPECT_EQ(TextOf(*session, SomeSamplers()[3], prompt, &sum), text);
  EXPECT_EQ(sum.guessed, 0u);
}

TEST_P(SpeculationOn, TheCallerSaysWhichTokenIsTheLast) {
  DraftingToy toy(drafting::Both(), GetParam());
  const std::vector<int32_t> prompt = TokensOf(30, 5);
  SamplerOptions options = SomeSamplers()[3];
  const std::vector<int32_t> text = TextOf(*toy.Make(), options, prompt);
  std::vector<int32_t> truth = prompt;
  truth.insert(truth.end(), text.begin(), text.end());
  for (size_t end = 1; end <= 6; ++end) {
    SCOPED_TRACE(end);
    const auto session = toy.Make();
    session->Use(std::make_unique<Scripted>(truth, 8, 4), 7);
    Sampler sampler = toy::MakeSampler(options);
    for (const int32_t token : prompt) sampler.Accept(token);
    int32_t token = 0, chosen[16];
    ASSERT_TRUE(toy::AppendSampled(*session, prompt, &sampler, &token).ok());
    size_t asked = 0, done = 0;
    struct {
      size_t* asked;
      size_t end;
    } ctx = {&asked, end};
    const auto ends = [](void* self, int32_t) -> int32_t {
      auto* of = static_cast<decltype(&ctx)>(self);
      return ++*of->asked == of->end;
    };
    while (asked < end) {
      sampler.Accept(token);
      Generated generated;
      ASSERT_TRUE(Generate(*session, token, sampler, {ends, nullptr, &ctx}, chosen, &generated).ok());
      token = chosen[generated.tokens - 1];
      done += generated.tokens;
    }
    EXPECT_EQ(done, end);
    EXPECT_EQ(token, text[end]);
    EXPECT_EQ(session->position(), prompt.size() + end);
  }
}

// A check that takes several steps stops between them; the call that is made again goes on with the same
// text, also where what was chosen before is penalized: each token is recorded once.
TEST_P(SpeculationOn, ACancelledCheckGoesOnWithTheSameText) {
  DraftingToy toy(drafting::Both(), GetParam());
  const std::vector<int32_t> prompt = TokensOf(30, 5);
  for (const SamplerOptions& options : SomeSamplers()) {
    SCOPED_TRACE("seed " + std::to_string(options.seed));
    const std::vector<int32_t> text = TextOf(*toy.Make(), options, prompt);
    std::vector<int32_t> truth = prompt;
    truth.insert(truth.end(), text.begin(), text.end());
    toy.device->most_rows = 2;
    const auto session = toy.Make();
    session->Use(std::make_unique<Scripted>(truth, 7, 4), 7);
    Sampler sampler = toy::MakeSampler(options);
    for (const int32_t token : prompt) sampler.Accept(token);
    std::vector<int32_t> said(1);
    ASSERT_TRUE(toy::AppendSampled(*session, prompt, &sampler, said.data()).ok());
    const auto cancel = [](void* self, int32_t) -> int32_t {
      static_cast<Session*>(self)->Cancel();
      return 0;
    };
    while (said.size() < kSpeculatedText) {
      sampler.Accept(said.back());
      int32_t chosen[16];
      Generated made;
      qrt::Status status;
      do {
        status = Generate(*session, said.back(), sampler, {cancel, nullptr, session.get()}, chosen, &made);
      } while (status.code() == qrt::Code::kCancelled);
      ASSERT_TRUE(status.ok()) << status.ToString();
      said.insert(said.end(), chosen, chosen + made.tokens);
    }
    said.resize(kSpeculatedText);
    EXPECT_EQ(said, text);
    toy.device->most_rows = std::numeric_limits<uint32_t>::max();
  }
}

TEST_P(SpeculationOn, DamagedLogitsAreThoseOfPlainDecoding) {
  const std::vector<int32_t> prompt = TokensOf(30, 5);
  SamplerOptions options = SomeSamplers()[3];
  std::vector<int32_t> truth = prompt;
  {
    DraftingToy toy(drafting::Both(), GetParam());
    const std::vector<int32_t> text = TextOf(*toy.Make(), options, prompt);
    truth.insert(truth.end(), text.begin(), text.end());
  }
  // Also behind the first token of a check, with a session that steps back as far as its guesses and no
  // further.
  std::string errors[3];
  size_t positions[3];
  for (const int drafts : {0, 1, 2}) {
    DraftingToy toy(drafting::Both(), GetParam(), kVocab, /*recurrent=*/true);
    toy.device->bend = [](uint64_t row, float logit) {
      return row % 16 == 3 ? std::numeric_limits<float>::quiet_NaN() : logit;
    };
    const auto session = drafts == 0 ? toy.Make() : toy.Make(QRT_DRAFT_LOOKUP, 7);
    ASSERT_TRUE(toy.made.ok()) << toy.made.ToString();
    if (drafts != 0) session->Use(std::make_unique<Scripted>(truth, 8, 4), 7);
    Sampler sampler = toy::MakeSampler(options);
    for (const int32_t token : prompt) sampler.Accept(token);
    int32_t token = 0, chosen[16];
    ASSERT_TRUE(toy::Append(*session, prompt, QRT_LOGITS_NONE).ok());
    token = truth[prompt.size()];
    qrt::Status status;
    Generated generated;
    for (int i = 0; i < 100 && status.ok(); ++i) {
      sampler.Accept(token);
      const bool alone = drafts == 2 && session->position() + 1 < positions[0];
      status = Generate(*session, token, sampler, {}, std::span(chosen).first(alone ? 1 : 16), &generated);
      token = chosen[generated.tokens == 0 ? 0 : generated.tokens - 1];
    }
    if (drafts == 2) {
      EXPECT_EQ(generated.tokens == 0 && generated.guessed > 0, true) << "the case of this loop";
    }
    errors[drafts] = status.ToString();
    positions[drafts] = session->position();
    EXPECT_EQ(status.number(), 5325) << status.ToString();
    EXPECT_EQ(errors[drafts], errors[0]);
    EXPECT_EQ(positions[drafts], positions[0]);
  }
}

TEST(Speculation, WhatCannotDraft) {
  {
    DraftingToy toy(drafting::TrunkPrograms());
    EXPECT_FALSE(toy.engine->drafts());
    toy.Make(QRT_DRAFT_MODEL, 3);
    EXPECT_EQ(toy.made.number(), 5334) << toy.made.ToString();
    toy.Make(QRT_DRAFT_LOOKUP, 3);
    EXPECT_TRUE(toy.made.ok()) << toy.made.ToString();
    toy.Make(QRT_DRAFT_LOOKUP, QRT_DRAFT_TOKENS_AUTO);
    EXPECT_TRUE(toy.made.ok()) << toy.made.ToString();
    toy.Make(QRT_DRAFT_LOOKUP, 16);
    EXPECT_EQ(toy.made.number(), 5305) << toy.made.ToString();
    toy.Make(99, 3);
    EXPECT_EQ(toy.made.number(), 5305) << toy.made.ToString();
  }
  DraftingToy alone(drafting::DraftPrograms());
  EXPECT_EQ(alone.status.number(), 5336) << alone.status.ToString();
  std::vector<qrt::Program> programs = drafting::TrunkPrograms(/*leaves=*/false);
  for (const qrt::Program& program : drafting::DraftPrograms()) programs.push_back(program);
  DraftingToy hidden(programs);
  EXPECT_FALSE(hidden.engine->drafts()) << "decode leaves no rows to draft from";
}

TEST(Speculation, ADraftOfAnotherArtifact) {
  const auto link = [](DraftingToy& toy, qrt::ModelPlan plan) {
    std::vector<qrt::Program> programs = plan.programs;
    return toy.engine->Link({std::move(plan), std::make_unique<drafting::Device>(std::move(programs))},
                            nullptr);
  };
  const qrt::ModelPlan good = drafting::PlanOf(drafting::DraftPrograms());
  DraftingToy own;
  const std::vector<int32_t> prompt = TokensOf(45, 3);
  DraftingToy toy(drafting::TrunkPrograms());
  const std::vector<int32_t> text = TextOf(*toy.Make(), SomeSamplers()[3], prompt);
  ASSERT_TRUE(link(toy, good).ok());
  EXPECT_TRUE(toy.engine->drafts());
  {
    const auto session = toy.Make(QRT_DRAFT_MODEL, 4);
    ASSERT_TRUE(toy.made.ok()) << toy.made.ToString();
    Generated sum, of_own;
    EXPECT_EQ(TextOf(*session, SomeSamplers()[3], prompt, &sum), text);
    TextOf(*own.Make(QRT_DRAFT_MODEL, 4), SomeSamplers()[3], prompt, &of_own);
    EXPECT_EQ(sum.guessed, of_own.guessed);
    EXPECT_EQ(sum.accepted, of_own.accepted);
    int32_t guesses[4];
    ASSERT_EQ(session->drafter()->Propose(session->position(), 4, guesses), 4u);
  }

  qrt::ModelPlan other = good;
  other.vocab_size = 36;
  DraftingToy another(drafting::TrunkPrograms());
  EXPECT_EQ(link(another, other).number(), 5335);
  other = good;
  other.embedding_length = 4;
  EXPECT_EQ(link(another, other).number(), 5335) << "its programs are given rows of 2";
  EXPECT_EQ(link(another, drafting::PlanOf(drafting::TrunkPrograms())).number(), 5335);
  EXPECT_FALSE(another.engine->drafts());
  DraftingToy hidden(drafting::TrunkPrograms(/*leaves=*/false));
  const qrt::Status status = link(hidden, good);
  EXPECT_EQ(status.number(), 5335);
  EXPECT_NE(status.ToString().find("--last-ffn=all"), std::string::npos) << status.ToString();
}

TEST(Speculation, SessionsOfABatchAreFollowedEachByItsOwnDraft) {
  DraftingToy toy;
  const auto a = toy.Make(QRT_DRAFT_MODEL, 3), plain = toy.Make(), b = toy.Make(QRT_DRAFT_MODEL, 3);
  Session* sessions[] = {a.get(), plain.get(), b.get()};
  std::vector<int32_t> tokens[3];
  for (size_t turn = 0; turn < 12; ++turn) {
    std::vector<int32_t> more[3];
    qrt::Batch batch(*toy.engine);
    const qrt_append_options options = toy::Options(QRT_LOGITS_LAST);
    for (size_t s = 0; s < 3; ++s) {
      more[s] = TokensOf(1 + (turn * 7 + s * 5) % 23, turn * 3 + s);
      ASSERT_TRUE(batch.Add(*sessions[s], more[s].data(), more[s].size(), &options).ok());
      tokens[s].insert(tokens[s].end(), more[s].begin(), more[s].end());
    }
    ASSERT_TRUE(batch.Run().ok());
    for (const size_t s : {0, 2}) {
      std::vector<int32_t> with = tokens[s];
      with.push_back(9);
      int32_t guesses[3];
      ASSERT_EQ(sessions[s]->drafter()->Propose(tokens[s].size(), 9, guesses), 3u);
      EXPECT_EQ((std::vector<int32_t>(guesses, guesses + 3)), drafting::ReferenceGuesses(with, 3))
          << "session " << s << ", turn " << turn;
    }
  }
}

}  // namespace
