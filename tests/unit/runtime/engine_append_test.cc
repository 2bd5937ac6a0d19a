// Cutting sequences into steps: whatever the cut, the batch or the thread count, the same logits.
#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "tests/unit/runtime/engine_toy.h"

namespace {

using qrt::Code;
using qrt::DecodeFacts;
using qrt::HeadFacts;
using qrt::PrefillFacts;
using toy::Append;
using toy::Options;
using toy::Rows;
using toy::Step;
using toy::Tokens;
using toy::Toy;
using toy::ToySession;

void ExpectRows(const Rows& rows, const std::vector<std::vector<float>>& expected, const std::string& what) {
  ASSERT_EQ(rows.rows.size(), expected.size()) << what;
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(rows.rows[i].first, i) << what << ": rows out of order";
    ASSERT_EQ(rows.rows[i].second, expected[i]) << what << ": logits of position " << i;
  }
}

TEST(EngineAppend, EverySplitGivesTheReferenceLogits) {
  const std::vector<int32_t> tokens = Tokens(150);
  const auto expected = toy::Reference(tokens);
  for (const uint32_t threads : {1u, 3u}) {
    Toy toy(toy::Ladder(), threads);
    ASSERT_TRUE(toy.status.ok()) << toy.status.ToString();
    for (size_t first = 0; first <= tokens.size(); first += threads == 1 ? 1 : 29) {
      ToySession s(toy);
      Rows rows;
      const auto cut = tokens.begin() + static_cast<ptrdiff_t>(first);
      ASSERT_TRUE(Append(s.session, {tokens.begin(), cut}, QRT_LOGITS_ALL, &rows).ok());
      ASSERT_TRUE(Append(s.session, {cut, tokens.end()}, QRT_LOGITS_ALL, &rows).ok());
      ExpectRows(rows, expected, "split at " + std::to_string(first));
      EXPECT_EQ(toy.device->violation, "") << "split at " << first;
    }
    for (size_t piece = 1; piece <= 20; ++piece) {
      ToySession s(toy);
      Rows rows;
      for (size_t at = 0; at < tokens.size(); at += piece) {
        const size_t end = std::min(tokens.size(), at + piece);
        ASSERT_TRUE(Append(s.session,
                           {tokens.begin() + static_cast<ptrdiff_t>(at),
                            tokens.begin() + static_cast<ptrdiff_t>(end)},
                           QRT_LOGITS_ALL, &rows)
                        .ok());
      }
      ExpectRows(rows, expected, "pieces of " + std::to_string(piece));
      EXPECT_EQ(toy.device->violation, "") << "pieces of " << piece;
    }
  }
}

TEST(EngineAppend, AnyLadderServesAnyLength) {
  const std::vector<std::vector<qrt::Program>> ladders = {
      {{DecodeFacts(), 1, 64}},
      {{DecodeFacts(), 3, 64}},
      {{PrefillFacts(), 5, 64}, {HeadFacts(), 1, 64}},
      {{PrefillFacts(), 64, 8192}, {HeadFacts(), 3, 64}, {DecodeFacts(), 1, 64}},
      {{PrefillFacts(), 8, 64}, {DecodeFacts(), 8, 64}, {HeadFacts(), 8, 64}},
  };
  for (size_t l = 0; l < ladders.size(); ++l) {
    Toy toy(ladders[l]);
    ASSERT_TRUE(toy.status.ok()) << toy.status.ToString();
    for (size_t n = 1; n < 80; n += 7) {
      const std::vector<int32_t> tokens = Tokens(n);
      ToySession s(toy);
      Rows rows;
      ASSERT_TRUE(Append(s.session, tokens, QRT_LOGITS_ALL, &rows).ok());
      ExpectRows(rows, toy::Reference(tokens),
                 "ladder " + std::to_string(l) + ", " + std::to_string(n) + " tokens");
      EXPECT_EQ(toy.device->violation, "") << "ladder " << l;
    }
  }
}

// Programs of the ladder by place: decode 1, 2, 4, 8 are 0..3, prefill 16, 64 are 4, 5, head 8 is 6.
std::vector<Step> StepsOf(size_t tokens, qrt_logits_want want) {
  Toy toy;
  ToySession s(toy);
  Rows rows;
  EXPECT_TRUE(Append(s.session, Tokens(tokens), want, want == QRT_LOGITS_ALL ? &rows : nullptr).ok());
  return toy.device->steps;
}

TEST(EngineAppend, TheSmallestBucketThatFitsIsTaken) {
  using Steps = std::vector<Step>;
  EXPECT_EQ(StepsOf(1, QRT_LOGITS_LAST), (Steps{{0, 1, 1, 1}}));
  EXPECT_EQ(StepsOf(3, QRT_LOGITS_LAST), (Steps{{2, 3, 1, 1}}));
  EXPECT_EQ(StepsOf(8, QRT_LOGITS_ALL), (Steps{{3, 8, 1, 8}}));
  EXPECT_EQ(StepsOf(8, QRT_LOGITS_NONE), (Steps{{3, 8, 1, 0}}));
  EXPECT_EQ(StepsOf(9, QRT_LOGITS_NONE), (Steps{{4, 9, 1, 0}}));
  EXPECT_EQ(StepsOf(16, QRT_LOGITS_LAST), (Steps{{4, 16, 1, 0}, {6, 1, 0, 1}}));
  EXPECT_EQ(StepsOf(17, QRT_LOGITS_NONE), (Steps{{5, 17, 1, 0}}));
  EXPECT_EQ(StepsOf(135, QRT_LOGITS_LAST), (Steps{{5, 64, 1, 0}, {5, 64, 1, 0}, {3, 7, 1, 1}}));
  EXPECT_EQ(StepsOf(20, QRT_LOGITS_ALL), (Steps{{5, 20, 1, 0}, {6, 8, 0, 8}, {6, 8, 0, 8}, {6, 4, 0, 4}}));
}

TEST(EngineAppend, TheDeviceMayAskForSmallerPrograms) {
  using Steps = std::vector<Step>;
  Toy toy;
  toy.device->most_rows = 16;
  ToySession s(toy);
  const std::vector<int32_t> tokens = Tokens(43);
  Rows rows;
  ASSERT_TRUE(Append(s.session, tokens, QRT_LOGITS_ALL, &rows).ok());
  EXPECT_EQ(toy.device->steps, (Steps{{4, 16, 1, 0},
                                      {6, 8, 0, 8},
                                      {6, 8, 0, 8},
                                      {4, 16, 1, 0},
                                      {6, 8, 0, 8},
                                      {6, 8, 0, 8},
                                      {4, 11, 1, 0},
                                      {6, 8, 0, 8},
                                      {6, 3, 0, 3}}));
  EXPECT_EQ(toy.device->asked_context, 43u);
  const std::span<const uint32_t> asked = toy.device->asked_programs;
  EXPECT_EQ(std::vector<uint32_t>(asked.begin(), asked.end()), (std::vector<uint32_t>{4, 5}));
  ExpectRows(rows, toy::Reference(tokens), "steps of at most 16 rows");
  toy.device->most_rows = 0;
  toy.device->steps.clear();
  ASSERT_TRUE(Append(s.session, Tokens(2), QRT_LOGITS_NONE, nullptr).ok());
  EXPECT_EQ(toy.device->steps, (Steps{{0, 1, 1, 0}, {0, 1, 1, 0}})) << "never none";
}

TEST(EngineAppend, LogitsAreThereOnlyWhenTheLastAppendWantedThem) {
  Toy toy;
  ToySession s(toy);
  EXPECT_EQ(s.session.logits(), nullptr) << "before any token";
  const std::vector<int32_t> tokens = Tokens(40);
  const auto expected = toy::Reference(tokens);
  ASSERT_TRUE(Append(s.session, {tokens.begin(), tokens.begin() + 20}).ok());
  ASSERT_NE(s.session.logits(), nullptr);
  EXPECT_EQ(std::vector<float>(s.session.logits(), s.session.logits() + toy::kVocab), expected[19]);
  ASSERT_TRUE(Append(s.session, {}).ok());
  EXPECT_NE(s.session.logits(), nullptr) << "an empty append does nothing";
  ASSERT_TRUE(Append(s.session, {tokens.begin() + 20, tokens.begin() + 21}, QRT_LOGITS_NONE).ok());
  EXPECT_EQ(s.session.logits(), nullptr) << "logits of an older token";
  Rows rows;
  ASSERT_TRUE(Append(s.session, {tokens.begin() + 21, tokens.end()}, QRT_LOGITS_ALL, &rows).ok());
  ASSERT_NE(s.session.logits(), nullptr);
  EXPECT_EQ(std::vector<float>(s.session.logits(), s.session.logits() + toy::kVocab), expected[39]);
  ASSERT_TRUE(s.session.Reset().ok());
  EXPECT_EQ(s.session.logits(), nullptr) << "after reset";
}

TEST(EngineAppend, ResetBeginsAnEmptySequence) {
  Toy toy;
  ToySession s(toy);
  const std::vector<int32_t> tokens = Tokens(30, 7);
  ASSERT_TRUE(Append(s.session, Tokens(100)).ok());
  ASSERT_TRUE(s.session.Reset().ok());
  EXPECT_EQ(s.session.position(), 0u);
  Rows rows;
  ASSERT_TRUE(Append(s.session, tokens, QRT_LOGITS_ALL, &rows).ok());
  ExpectRows(rows, toy::Reference(tokens), "after reset");
}

TEST(EngineAppend, AFullContextTakesNothingAndKeepsEverything) {
  Toy toy;
  ToySession s(toy, 20);
  const std::vector<int32_t> tokens = Tokens(20);
  ASSERT_TRUE(Append(s.session, {tokens.begin(), tokens.begin() + 18}).ok());
  const size_t steps = toy.device->steps.size();
  const qrt::Status full = Append(s.session, {1, 2, 3});
  EXPECT_EQ(full.code(), Code::kContextFull) << full.ToString();
  EXPECT_EQ(full.number(), 5310u);
  EXPECT_NE(full.message().find("3 tokens do not fit: the session holds 18 of 20"), std::string::npos)
      << full.ToString();
  EXPECT_EQ(s.session.position(), 18u);
  EXPECT_EQ(toy.device->steps.size(), steps) << "a step ran for refused tokens";
  EXPECT_NE(s.session.logits(), nullptr) << "a refused append took the logits away";
  ASSERT_TRUE(Append(s.session, {tokens.begin() + 18, tokens.end()}).ok())
      << "the context's last tokens must fit";
  EXPECT_EQ(std::vector<float>(s.session.logits(), s.session.logits() + toy::kVocab),
            toy::Reference(tokens)[19]);
  EXPECT_EQ(Append(s.session, {1}).code(), Code::kContextFull);
  EXPECT_TRUE(Append(s.session, {}).ok()) << "nothing always fits";
}

TEST(EngineAppend, BadInputIsRefusedBeforeAnyStep) {
  Toy toy;
  ToySession s(toy);
  for (const int32_t bad : {-1, static_cast<int32_t>(toy::kVocab), INT32_MAX, INT32_MIN}) {
    const qrt::Status status = Append(s.session, {1, 2, bad});
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << bad;
    EXPECT_EQ(status.number(), 5304u) << bad;
    EXPECT_NE(status.message().find("token 2 is " + std::to_string(bad)), std::string::npos)
        << status.message();
  }
  EXPECT_EQ(Append(s.session, {1}, QRT_LOGITS_ALL, nullptr).number(), 5305u) << "ALL without a callback";
  EXPECT_EQ(Append(s.session, {1}, 3).number(), 5305u) << "no such want";
  qrt::Batch batch(*toy.engine);
  EXPECT_EQ(batch.Add(s.session, nullptr, 1, nullptr).number(), 5301u) << "NULL tokens";
  EXPECT_TRUE(toy.device->steps.empty());
  EXPECT_EQ(s.session.position(), 0u);
}

TEST(EngineAppend, SessionsOfOneEngineDoNotTouchEachOther) {
  Toy toy;
  std::vector<std::unique_ptr<ToySession>> sessions;
  std::vector<std::vector<int32_t>> tokens;
  std::vector<Rows> rows(5);
  for (size_t s = 0; s < 5; ++s) {
    sessions.push_back(std::make_unique<ToySession>(toy));
    tokens.push_back(Tokens(60, s + 1));
  }
  for (size_t at = 0; at < 60; at += 6) {
    for (size_t s = 0; s < 5; ++s) {
      const auto begin = tokens[s].begin() + static_cast<ptrdiff_t>(at);
      ASSERT_TRUE(Append(sessions[s]->session, {begin, begin + 6}, QRT_LOGITS_ALL, &rows[s]).ok());
    }
  }
  for (size_t s = 0; s < 5; ++s)
    ExpectRows(rows[s], toy::Reference(tokens[s]), "session " + std::to_string(s));
}

std::vector<uint8_t> SavedBytes(const qrt::Session& session) {
  std::vector<uint8_t> bytes(session.SaveSize());
  EXPECT_TRUE(session.Save(bytes.data()).ok());
  return bytes;
}

// Sequences wherever they are, blocks of 16 tokens apart.
TEST(EngineAppend, ABatchSharesStepsAndChangesNothing) {
  Toy toy;
  const std::vector<size_t> begins = {3, 17, 200, 0, 16, 5}, lengths = {1, 70, 3, 0, 16, 1};
  std::vector<std::unique_ptr<ToySession>> sessions;
  std::vector<std::vector<int32_t>> tokens;
  std::vector<Rows> rows(lengths.size());
  qrt::Batch batch(*toy.engine);
  for (size_t s = 0; s < lengths.size(); ++s) {
    sessions.push_back(std::make_unique<ToySession>(toy));
    tokens.push_back(Tokens(begins[s] + lengths[s], s));
    const auto begin = tokens[s].begin() + static_cast<ptrdiff_t>(begins[s]);
    ASSERT_TRUE(Append(sessions[s]->session, {tokens[s].begin(), begin}, QRT_LOGITS_ALL, &rows[s]).ok());
    const qrt_append_options options = Options(QRT_LOGITS_ALL, Rows::Take, &rows[s]);
    ASSERT_TRUE(batch.Add(sessions[s]->session, tokens[s].data() + begins[s], lengths[s], &options).ok());
  }
  toy.device->steps.clear();
  ASSERT_TRUE(batch.Run().ok());
  // 91 rows: 64 of two sequences, then 27 of four.
  std::vector<Step> trunks;
  for (const Step& step : toy.device->steps) {
    if (step.program != 6) trunks.push_back(step);
  }
  EXPECT_EQ(trunks, (std::vector<Step>{{5, 64, 2, 0}, {5, 27, 4, 0}}));
  for (size_t s = 0; s < lengths.size(); ++s) {
    SCOPED_TRACE("session " + std::to_string(s));
    ExpectRows(rows[s], toy::Reference(tokens[s]), "of a batch");
    EXPECT_EQ(sessions[s]->session.position(), tokens[s].size());
    ToySession alone(toy);
    ASSERT_TRUE(Append(alone.session, tokens[s], QRT_LOGITS_NONE).ok());
    EXPECT_EQ(SavedBytes(sessions[s]->session), SavedBytes(alone.session));
  }
  EXPECT_EQ(toy.device->violation, "");
}

// HZ-32: each token of sequences at 3, 17 and 200 is one step of all three, over the ends of blocks.
TEST(EngineAppend, SequencesAtAnyPositionsDecodeTogether) {
  Toy toy;
  const size_t begins[] = {3, 17, 200};
  constexpr size_t kTurns = 40;
  std::vector<std::unique_ptr<ToySession>> sessions;
  std::vector<std::vector<int32_t>> tokens;
  std::vector<std::vector<std::vector<float>>> expected;
  for (size_t s = 0; s < 3; ++s) {
    sessions.push_back(std::make_unique<ToySession>(toy));
    tokens.push_back(Tokens(begins[s] + kTurns, s));
    expected.push_back(toy::Reference(tokens[s]));
    const auto begin = tokens[s].begin() + static_cast<ptrdiff_t>(begins[s]);
    ASSERT_TRUE(Append(sessions[s]->session, {tokens[s].begin(), begin}, QRT_LOGITS_NONE).ok());
  }
  for (size_t turn = 0; turn < kTurns; ++turn) {
    qrt::Batch batch(*toy.engine);
    for (size_t s = 0; s < 3; ++s) {
      ASSERT_TRUE(batch.Add(sessions[s]->session, &tokens[s][begins[s] + turn], 1, nullptr).ok());
    }
    toy.device->steps.clear();
    ASSERT_TRUE(batch.Run().ok());
    ASSERT_EQ(toy.device->steps, (std::vector<Step>{{2, 3, 3, 3}})) << "turn " << turn;
    for (size_t s = 0; s < 3; ++s) {
      const float* logits = sessions[s]->session.logits();
      ASSERT_NE(logits, nullptr) << "session " << s;
      ASSERT_EQ(std::vector<float>(logits, logits + toy::kVocab), expected[s][begins[s] + turn])
          << "session " << s << ", turn " << turn;
    }
  }
  for (size_t s = 0; s < 3; ++s) {
    ToySession alone(toy);
    ASSERT_TRUE(Append(alone.session, tokens[s], QRT_LOGITS_NONE).ok());
    EXPECT_EQ(SavedBytes(sessions[s]->session), SavedBytes(alone.session)) << "session " << s;
  }
  EXPECT_EQ(toy.device->violation, "");
}

TEST(EngineAppend, BatchedDecodeIsOneStepForAll) {
  Toy toy(toy::Ladder(), 2);
  std::vector<std::unique_ptr<ToySession>> sessions;
  std::vector<std::vector<int32_t>> tokens;
  for (size_t s = 0; s < 7; ++s) {
    sessions.push_back(std::make_unique<ToySession>(toy));
    tokens.push_back(Tokens(25, s));
  }
  for (size_t i = 0; i < 25; ++i) {
    qrt::Batch batch(*toy.engine);
    for (size_t s = 0; s < 7; ++s)
      ASSERT_TRUE(batch.Add(sessions[s]->session, &tokens[s][i], 1, nullptr).ok());
    toy.device->steps.clear();
    ASSERT_TRUE(batch.Run().ok());
    ASSERT_EQ(toy.device->steps, (std::vector<Step>{{3, 7, 7, 7}})) << "token " << i;
  }
  for (size_t s = 0; s < 7; ++s) {
    const float* logits = sessions[s]->session.logits();
    ASSERT_NE(logits, nullptr) << "session " << s;
    EXPECT_EQ(std::vector<float>(logits, logits + toy::kVocab), toy::Reference(tokens[s])[24])
        << "session " << s;
  }
}

TEST(EngineAppend, ABatchIsCheckedBeforeItRuns) {
  Toy toy, other;
  ToySession a(toy), b(toy, 2), foreign(other);
  const std::vector<int32_t> tokens = Tokens(3);
  {
    qrt::Batch batch(*toy.engine);
    ASSERT_TRUE(batch.Add(a.session, tokens.data(), 3, nullptr).ok());
    EXPECT_EQ(batch.Add(a.session, tokens.data(), 1, nullptr).number(), 5306u) << "the same session twice";
    EXPECT_EQ(batch.Add(b.session, tokens.data(), 3, nullptr).number(), 5310u) << "context full";
    EXPECT_EQ(batch.Add(foreign.session, tokens.data(), 1, nullptr).number(), 5307u)
        << "another engine's session";
  }
  EXPECT_EQ(a.session.position(), 0u);
  EXPECT_TRUE(Append(a.session, tokens).ok()) << "a batch that was dropped must leave its sessions usable";
  EXPECT_TRUE(Append(b.session, {1, 2}).ok());
}

TEST(EngineAppend, ThreadsWithTheirOwnSessionsShareAnEngine) {
  Toy toy(toy::Ladder(), 2);
  std::vector<Rows> rows(4);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      ToySession s(toy);
      const std::vector<int32_t> tokens = Tokens(120, t);
      for (size_t at = 0; at < tokens.size(); at += 10 + t) {
        const size_t end = std::min(tokens.size(), at + 10 + t);
        EXPECT_TRUE(Append(s.session,
                           {tokens.begin() + static_cast<ptrdiff_t>(at),
                            tokens.begin() + static_cast<ptrdiff_t>(end)},
                           QRT_LOGITS_ALL, &rows[t])
                        .ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t t = 0; t < 4; ++t)
    ExpectRows(rows[t], toy::Reference(Tokens(120, t)), "thread " + std::to_string(t));
  EXPECT_EQ(toy.device->violation, "");
}

// Stops at a position.
struct Stopper {
  uint64_t at;
  uint64_t last = 0;
  static int32_t Row(void* self, qrt_session*, uint64_t position, const float*, size_t) {
    Stopper& stopper = *static_cast<Stopper*>(self);
    stopper.last = position;
    return position == stopper.at;
  }
};

TEST(EngineCancel, ACallbackStopsTheAppendAfterItsStep) {
  Toy toy;
  ToySession s(toy);
  const std::vector<int32_t> tokens = Tokens(200);
  Stopper stopper = {70};
  const qrt_append_options options = Options(QRT_LOGITS_ALL, Stopper::Row, &stopper);
  {
    qrt::Batch batch(*toy.engine);
    ASSERT_TRUE(batch.Add(s.session, tokens.data(), tokens.size(), &options).ok());
    EXPECT_EQ(batch.Run().code(), Code::kCancelled);
  }
  EXPECT_EQ(stopper.last, 70u) << "rows came after the callback said stop";
  EXPECT_EQ(s.session.position(), 128u) << "whole steps stay";
  Rows rows;
  ASSERT_TRUE(Append(s.session, {tokens.begin() + 128, tokens.end()}, QRT_LOGITS_ALL, &rows).ok());
  EXPECT_EQ(rows.rows.back().second, toy::Reference(tokens).back())
      << "the sequence goes on where it stopped";
}

TEST(EngineCancel, CancelStopsOneAppend) {
  Toy toy;
  ToySession s(toy);
  s.session.Cancel();
  EXPECT_EQ(Append(s.session, Tokens(5)).code(), Code::kCancelled) << "a cancel before the append counts";
  EXPECT_EQ(s.session.position(), 0u);
  EXPECT_TRUE(Append(s.session, Tokens(5)).ok()) << "one cancel stops one append";
  s.session.Cancel();
  ASSERT_TRUE(s.session.Reset().ok());
  EXPECT_EQ(Append(s.session, Tokens(5)).code(), Code::kCancelled) << "who resets on the way to an append";
}

TEST(EngineCancel, AnotherThreadStopsALongPrefill) {
  Toy toy;
  ToySession s(toy, 1 << 20);
  const std::vector<int32_t> tokens = Tokens(1 << 20);
  std::thread canceller([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    s.session.Cancel();
  });
  const qrt::Status status = Append(s.session, tokens, QRT_LOGITS_NONE);
  canceller.join();
  EXPECT_EQ(status.code(), Code::kCancelled) << status.ToString();
  EXPECT_EQ(s.session.position() % 64, 0u);
  EXPECT_LT(s.session.position(), tokens.size());
}

TEST(EngineCancel, AThreadPoolThatRefusesIsAnErrorAndNotALoss) {
  Toy toy;
  ToySession s(toy);
  const std::vector<int32_t> tokens = Tokens(100);
  toy.device->fail_after = 1;
  const qrt::Status status = Append(s.session, tokens);
  EXPECT_EQ(status.number(), 5321u) << status.ToString();
  EXPECT_EQ(s.session.position(), 64u);
  toy.device->fail_after = -1;
  ASSERT_TRUE(Append(s.session, {tokens.begin() + 64, tokens.end()}).ok());
  EXPECT_EQ(std::vector<float>(s.session.logits(), s.session.logits() + toy::kVocab),
            toy::Reference(tokens)[99]);
}

TEST(EngineCreate, RefusesTablesThatCannotServe) {
  const std::vector<std::vector<qrt::Program>> bad = {{},
                                                      {{HeadFacts(), 8, 64}},
                                                      {{PrefillFacts(), 8, 64}},
                                                      {{PrefillFacts(), 8, 64}, {DecodeFacts(), 1, 64}}};
  for (size_t i = 0; i < bad.size(); ++i) {
    Toy toy(bad[i]);
    EXPECT_EQ(toy.status.code(), Code::kArtifactIncompatible)
        << "table " << i << ": " << toy.status.ToString();
  }
}

TEST(EngineCreate, ContextMustBePossible) {
  Toy toy;
  EXPECT_EQ(ToySession(toy, 0).status.number(), 5308u);
  EXPECT_EQ(ToySession(toy, uint64_t{1} << 31).status.number(), 5308u);
  EXPECT_EQ(ToySession(toy, UINT64_MAX).status.number(), 5308u);
  EXPECT_TRUE(ToySession(toy, 1).status.ok());
  EXPECT_TRUE(ToySession(toy, 1 << 24).status.ok()) << "KV of a huge context is only reserved";
  toy.device->most_tokens = 128;
  EXPECT_TRUE(ToySession(toy, 128).status.ok());
  EXPECT_EQ(ToySession(toy, 129).status.number(), 5308u) << "kernels would reach another token";
}

}  // namespace
