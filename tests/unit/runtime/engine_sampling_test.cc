// Tokens chosen inside an append: on the device where it can, else from the logits, with the same result.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/runtime/engine_toy.h"

namespace {

using qrt::Code;
using toy::AppendSampled;
using toy::MakeSampler;
using toy::Options;
using toy::Rows;
using toy::Tokens;
using toy::Toy;
using toy::ToySession;

constexpr int32_t kUntouched = -77;

qrt::SamplerOptions Greedy() {
  qrt::SamplerOptions options;
  options.temperature = 0;
  options.penalty_window = -1;
  return options;
}

int32_t Highest(const std::vector<float>& logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

Toy MakeToy(bool chooses, uint32_t vocab_size = toy::kVocab) {
  return Toy(toy::Ladder(), 1, nullptr, chooses, vocab_size);
}

// Decode, prefill with one head, prefill after prefill.
const std::vector<size_t> kLengths = {1, 5, 20, 100};

TEST(EngineSampling, GreedyIsTheHighestLogitOnEveryDevice) {
  for (const bool chooses : {false, true}) {
    Toy toy = MakeToy(chooses);
    for (const size_t length : kLengths) {
      const std::vector<int32_t> tokens = Tokens(length);
      ToySession s(toy);
      qrt::Sampler sampler = MakeSampler(Greedy());
      int32_t next = kUntouched;
      ASSERT_TRUE(AppendSampled(s.session, tokens, &sampler, &next).ok());
      EXPECT_EQ(next, Highest(toy::Reference(tokens).back()))
          << "length " << length << ", device " << chooses;
      EXPECT_EQ(s.session.logits(), nullptr) << "nobody wanted logits";
      EXPECT_EQ(toy.device->violation, "");
    }
  }
}

TEST(EngineSampling, TheHostDrawsWhatTheSamplerDrawsFromTheLogits) {
  Toy toy = MakeToy(false);
  qrt::SamplerOptions options;
  options.temperature = 30000;  // the toy's logits are large
  options.repeat_penalty = 1.3F;
  options.seed = 5;
  qrt::Sampler inside = MakeSampler(options), outside = MakeSampler(options);
  ToySession a(toy), b(toy);
  for (const int32_t token : Tokens(60)) {
    int32_t next = kUntouched, expected = kUntouched;
    ASSERT_TRUE(AppendSampled(a.session, {token}, &inside, &next).ok());
    ASSERT_TRUE(toy::Append(b.session, {token}).ok());
    outside.Seek(b.session.position());
    ASSERT_TRUE(outside.Sample({b.session.logits(), toy::kVocab}, &expected).ok());
    ASSERT_EQ(next, expected);
    inside.Accept(next);
    outside.Accept(next);
  }
}

TEST(EngineSampling, TheDeviceGetsWhatTheSamplerDescribes) {
  Toy toy = MakeToy(true);
  qrt::SamplerOptions options;
  options.presence_penalty = 2;
  options.penalty_window = 40;
  options.seed = 9;
  qrt::Sampler sampler = MakeSampler(options), twin = MakeSampler(options);
  ToySession s(toy);
  std::vector<int32_t> tokens;
  for (const int32_t token : Tokens(60)) {
    tokens.push_back(token);
    int32_t next = kUntouched;
    ASSERT_TRUE(AppendSampled(s.session, {token}, &sampler, &next).ok());
    qrt_gpu_sample sample = {};
    std::vector<qrt_gpu_penalty> penalties(twin.penalties());
    twin.Describe(tokens.size(), &sample, penalties.data());
    const uint32_t best = static_cast<uint32_t>(Highest(toy::Reference(tokens).back()));
    ASSERT_EQ(next, toy::SampledToken(best, sample, penalties.data()));
    sampler.Accept(next);
    twin.Accept(next);
  }
  EXPECT_EQ(toy.device->violation, "");
}

TEST(EngineSampling, OnlyIdsComeBackUnlessLogitsAreWanted) {
  Toy toy = MakeToy(true);
  ToySession s(toy);
  qrt::Sampler sampler = MakeSampler(Greedy());
  const std::vector<int32_t> tokens = Tokens(40);
  int32_t next = kUntouched;
  ASSERT_TRUE(AppendSampled(s.session, {tokens.begin(), tokens.begin() + 20}, &sampler, &next).ok());
  qrt::DeviceCounters counters = toy.engine->counters();
  EXPECT_EQ(counters.submissions, 2u) << "prefill and head";
  EXPECT_EQ(counters.bytes_to_host, sizeof(int32_t));
  for (size_t i = 20; i < 30; ++i) ASSERT_TRUE(AppendSampled(s.session, {tokens[i]}, &sampler, &next).ok());
  counters = toy.engine->counters();
  EXPECT_EQ(counters.submissions, 12u) << "one a token";
  EXPECT_EQ(counters.bytes_to_host, 11 * sizeof(int32_t));
  ASSERT_TRUE(AppendSampled(s.session, {tokens[30]}, &sampler, &next, QRT_LOGITS_LAST).ok());
  EXPECT_EQ(toy.engine->counters().bytes_to_host, 12 * sizeof(int32_t) + toy::kStride * sizeof(float));
  ASSERT_NE(s.session.logits(), nullptr);
  EXPECT_EQ(next, Highest(std::vector<float>(s.session.logits(), s.session.logits() + toy::kVocab)));
  Rows rows;
  ASSERT_TRUE(
      AppendSampled(s.session, {tokens.begin() + 31, tokens.end()}, &sampler, &next, QRT_LOGITS_ALL, &rows)
          .ok());
  EXPECT_EQ(rows.rows.size(), 9u);
  EXPECT_EQ(next, Highest(rows.rows.back().second));
}

TEST(EngineSampling, EveryItemOfABatchHasItsOwnSampler) {
  for (const bool chooses : {false, true}) {
    Toy toy = MakeToy(chooses);
    std::vector<std::unique_ptr<ToySession>> sessions;
    std::vector<qrt::Sampler> samplers;
    std::vector<std::vector<int32_t>> tokens;
    std::vector<int32_t> next(5, kUntouched);
    const std::vector<size_t> lengths = {1, 30, 2, 1, 7};
    for (size_t i = 0; i < lengths.size(); ++i) {
      sessions.push_back(std::make_unique<ToySession>(toy));
      tokens.push_back(Tokens(lengths[i], i + 3));
      qrt::SamplerOptions options;
      options.seed = i;
      options.presence_penalty = 1;
      options.top_k = 1;  // so that the host takes the highest logit
      samplers.push_back(MakeSampler(options));
      if (i == 4) samplers.back().Accept(3);
    }
    qrt::Batch batch(*toy.engine);
    const qrt_append_options none = Options(QRT_LOGITS_NONE), last = Options(QRT_LOGITS_LAST);
    for (size_t i = 0; i < lengths.size(); ++i) {
      // Item 2 wants logits and no token, item 3 both.
      ASSERT_TRUE(batch
                      .Add(sessions[i]->session, tokens[i].data(), lengths[i],
                           i == 2 || i == 3 ? &last : &none, i == 2 ? nullptr : &samplers[i],
                           i == 2 ? nullptr : &next[i])
                      .ok());
    }
    ASSERT_TRUE(batch.Run().ok());
    EXPECT_EQ(toy.device->violation, "");
    for (size_t i = 0; i < lengths.size(); ++i) {
      const std::vector<float> expected = toy::Reference(tokens[i]).back();
      const float* logits = sessions[i]->session.logits();
      ASSERT_EQ(logits != nullptr, i == 2 || i == 3) << "item " << i;
      if (logits != nullptr) {
        EXPECT_EQ(std::vector<float>(logits, logits + toy::kVocab), expected) << "item " << i;
      }
      if (i == 2) {
        EXPECT_EQ(next[i], kUntouched);
      } else if (!chooses && i != 4) {
        EXPECT_EQ(next[i], Highest(expected)) << "item " << i;
      } else if (chooses) {
        qrt::SamplerOptions options = samplers[i].options();
        qrt::Sampler twin = MakeSampler(options);
        if (i == 4) twin.Accept(3);
        qrt_gpu_sample sample = {};
        std::vector<qrt_gpu_penalty> penalties(twin.penalties());
        twin.Describe(lengths[i], &sample, penalties.data());
        EXPECT_EQ(next[i],
                  toy::SampledToken(static_cast<uint32_t>(Highest(expected)), sample, penalties.data()))
            << "item " << i;
      }
    }
  }
}

TEST(EngineSampling, AFaultOfOneItemLeavesTheOthersAlone) {
  for (const bool chooses : {false, true}) {
    Toy toy = MakeToy(chooses);
    std::vector<std::unique_ptr<ToySession>> sessions;
    qrt::Sampler sampler = MakeSampler(Greedy());
    // The second ends in the first step, the last needs several more.
    const std::vector<size_t> lengths = {1, 1, 2, 200};
    std::vector<std::vector<int32_t>> tokens;
    std::vector<int32_t> next(lengths.size(), kUntouched);
    qrt::Batch batch(*toy.engine);
    const qrt_append_options none = Options(QRT_LOGITS_NONE);
    for (size_t i = 0; i < lengths.size(); ++i) {
      sessions.push_back(std::make_unique<ToySession>(toy));
      tokens.push_back(Tokens(lengths[i], i + 3));
      ASSERT_TRUE(
          batch.Add(sessions[i]->session, tokens[i].data(), lengths[i], &none, &sampler, &next[i]).ok());
    }
    static float damaged;
    damaged = toy::Reference(tokens[1]).back()[11];
    toy.device->bend = [](float logit, uint32_t v) { return v == 11 && logit == damaged ? NAN : logit; };
    const qrt::Status status = batch.Run();
    EXPECT_EQ(status.number(), 5325u) << status.ToString();
    EXPECT_NE(status.message().find("after the token at position 0"), std::string::npos) << status.ToString();
    EXPECT_EQ(batch.faulty(), &sessions[1]->session);
    for (size_t i = 0; i < lengths.size(); ++i) {
      EXPECT_EQ(sessions[i]->session.position(), lengths[i]) << "item " << i;
      EXPECT_EQ(next[i], i == 1 ? kUntouched : Highest(toy::Reference(tokens[i]).back())) << "item " << i;
    }
    EXPECT_EQ(toy.device->violation, "");
  }
}

TEST(EngineSampling, LogitsWithoutATokenAreAnErrorAndTheTokensStayTaken) {
  for (const bool chooses : {false, true}) {
    Toy toy = MakeToy(chooses);
    toy.device->bend = [](float logit, uint32_t v) { return v == 11 ? NAN : logit; };
    ToySession s(toy);
    qrt::Sampler sampler = MakeSampler(Greedy());
    int32_t next = kUntouched;
    const qrt::Status status = AppendSampled(s.session, Tokens(9), &sampler, &next);
    EXPECT_EQ(status.code(), Code::kNumericFault) << status.ToString();
    EXPECT_EQ(status.number(), 5325u) << status.ToString();
    EXPECT_NE(status.message().find("NaN or infinity after the token at position 8"), std::string::npos)
        << status.ToString();
    EXPECT_EQ(next, kUntouched);
    EXPECT_EQ(s.session.position(), 9u);
    toy.device->bend = [](float logit, uint32_t v) { return v == 11 ? -INFINITY : logit; };
    const qrt::Status low = AppendSampled(s.session, {5}, &sampler, &next);
    EXPECT_EQ(low.number(), 5325u) << low.ToString();
    EXPECT_NE(low.message().find("a logit is -infinity"), std::string::npos) << low.ToString();
    toy.device->bend = [](float, uint32_t) { return 0.5f; };
    const qrt::Status equal = AppendSampled(s.session, {5}, &sampler, &next);
    EXPECT_EQ(equal.number(), 5325u) << equal.ToString();
    EXPECT_NE(equal.message().find("all logits are equal"), std::string::npos) << equal.ToString();
    EXPECT_EQ(next, kUntouched);
    toy.device->bend = nullptr;
    ASSERT_TRUE(AppendSampled(s.session, {5}, &sampler, &next).ok()) << "the session goes on";
    EXPECT_NE(next, kUntouched);
  }
}

TEST(EngineSampling, RefusesWhatItCannotServe) {
  Toy toy = MakeToy(true);
  ToySession a(toy), b(toy);
  qrt::Sampler sampler = MakeSampler(Greedy());
  int32_t next = kUntouched;
  EXPECT_EQ(AppendSampled(a.session, {1}, &sampler, nullptr).number(), 5301u) << "no place for the token";
  EXPECT_EQ(AppendSampled(a.session, {}, &sampler, &next).number(), 5305u) << "no token to choose after";
  EXPECT_EQ(next, kUntouched);
  EXPECT_TRUE(toy.device->steps.empty());
}

TEST(EngineSampling, MorePenaltiesThanADeviceTakesAreRefusedBeforeAnyStep) {
  constexpr uint32_t kLarge = QRT_GPU_MAX_PENALTIES + 10;
  qrt::SamplerOptions options;
  options.presence_penalty = 1;
  options.penalty_window = -1;
  qrt::Sampler sampler = *qrt::Sampler::Create(kLarge, options);
  for (uint32_t i = 0; i < QRT_GPU_MAX_PENALTIES; ++i) sampler.Accept(static_cast<int32_t>(i));
  Toy toy = MakeToy(true, kLarge);
  ToySession a(toy), b(toy);
  int32_t next = kUntouched;
  const int32_t token = 1;
  {
    qrt::Batch batch(*toy.engine);
    EXPECT_TRUE(batch.Add(a.session, &token, 1, nullptr, &sampler, &next).ok()) << "as many as fit";
    EXPECT_EQ(batch.Add(b.session, &token, 1, nullptr, &sampler, &next).number(), 5323u)
        << "two are too many";
  }
  sampler.Accept(static_cast<int32_t>(QRT_GPU_MAX_PENALTIES));
  const qrt::Status status = AppendSampled(a.session, {1}, &sampler, &next);
  EXPECT_EQ(status.number(), 5323u);
  EXPECT_NE(status.message().find("65537"), std::string::npos) << status.ToString();
  EXPECT_EQ(a.session.position(), 0u);
  EXPECT_TRUE(toy.device->steps.empty());
}

// With more candidates than logits it would read behind them, with fewer write behind its own.
TEST(EngineSampling, ASamplerOfAnotherVocabularyIsRefused) {
  for (const bool chooses : {false, true}) {
    Toy toy = MakeToy(chooses);
    ToySession s(toy);
    for (const uint32_t vocabulary : {toy::kVocab - 1, toy::kVocab + 1}) {
      qrt::Sampler sampler = *qrt::Sampler::Create(vocabulary, Greedy());
      int32_t next = kUntouched;
      const qrt::Status status = AppendSampled(s.session, {1, 2}, &sampler, &next);
      EXPECT_EQ(status.number(), 5355u) << status.ToString();
      EXPECT_EQ(s.session.position(), 0u);
      EXPECT_EQ(next, kUntouched);
    }
  }
}

// Records more tokens than a device takes when the logits of position 0 come.
struct Recorder {
  qrt::Sampler* sampler;
  static int32_t Record(void* self, qrt_session*, uint64_t position, const float*, size_t) {
    for (uint32_t i = 0; position == 0 && i <= QRT_GPU_MAX_PENALTIES; ++i) {
      static_cast<Recorder*>(self)->sampler->Accept(static_cast<int32_t>(i));
    }
    return 0;
  }
};

TEST(EngineSampling, PenaltiesThatACallbackAddsAreCountedAgain) {
  qrt::SamplerOptions sampler_options;
  sampler_options.presence_penalty = 1;
  sampler_options.penalty_window = -1;
  // Prefill and three heads, of which the last chooses; prefill, heads, and a step that chooses itself.
  for (const size_t length : {20, 65}) {
    constexpr uint32_t kLarge = QRT_GPU_MAX_PENALTIES + 10;
    Toy toy = MakeToy(true, kLarge);
    ToySession s(toy);
    qrt::Sampler sampler = *qrt::Sampler::Create(kLarge, sampler_options);
    Recorder recorder = {&sampler};
    const qrt_append_options options = Options(QRT_LOGITS_ALL, Recorder::Record, &recorder);
    std::vector<int32_t> tokens = Tokens(length);
    int32_t next = kUntouched;
    {
      qrt::Batch batch(*toy.engine);
      ASSERT_TRUE(batch.Add(s.session, tokens.data(), length, &options, &sampler, &next).ok());
      const qrt::Status status = batch.Run();
      EXPECT_EQ(status.code(), Code::kInvalidArgument) << status.ToString();
      EXPECT_EQ(status.number(), 5323u) << status.ToString();
      EXPECT_NE(status.message().find("65537"), std::string::npos) << status.ToString();
    }
    EXPECT_EQ(next, kUntouched);
    EXPECT_EQ(toy.device->violation, "");
    ASSERT_EQ(s.session.position(), length == 20 ? 20u : 64u) << "whole steps stay counted";
    // Nothing was lost: the session goes on.
    if (length == 20) tokens.push_back(3);
    sampler.Reset();
    ASSERT_TRUE(AppendSampled(s.session, {tokens.back()}, &sampler, &next, QRT_LOGITS_LAST).ok());
    EXPECT_EQ(std::vector<float>(s.session.logits(), s.session.logits() + toy::kVocab),
              toy::Reference(tokens).back());
    EXPECT_NE(next, kUntouched);
  }
}

}  // namespace
