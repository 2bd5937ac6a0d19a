// The public C API: what a model file recommends for sampling is what its sampler does.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "tests/unit/runtime/qrt_api_fixture.h"

namespace {

using namespace qrt_api;  // NOLINT: the fixture of this very test
using qcc::compiler::SamplingSpec;

class QrtSampling : public QrtApi {
 protected:
  Artifact OpenWith(const SamplingSpec& sampling) {
    qrt::testing::SampleParts parts = toy::ToyParts();
    parts.manifest.sampling = sampling;
    WriteParts(parts, File("sampling.qbin"));
    return Open(File("sampling.qbin"));
  }
  qrt_sampler_options DefaultsWith(const SamplingSpec& sampling) {
    const Artifact artifact = OpenWith(sampling);
    qrt_sampler_options options = Sized<qrt_sampler_options>();
    qrt_error error = Sized<qrt_error>();
    EXPECT_EQ(qrt_sampler_defaults(artifact.get(), &options, &error), QRT_OK) << Say(error);
    return options;
  }
  Sampler MakeSampler(const SamplingSpec& sampling, const qrt_sampler_options* options = nullptr) {
    const Artifact artifact = OpenWith(sampling);
    qrt_sampler* sampler = nullptr;
    qrt_error error = Sized<qrt_error>();
    EXPECT_EQ(qrt_sampler_create(artifact.get(), options, &sampler, &error), QRT_OK) << Say(error);
    return Sampler(sampler);
  }
};

// No two fields of one type have the same value, so none can stand for another.
SamplingSpec EveryField() {
  SamplingSpec s;
  s.temperature = 0.625f;
  s.top_k = 41;
  s.top_p = 0.9375f;
  s.min_p = 0.03125f;
  s.repeat_penalty = 1.25f;
  s.presence_penalty = 0.5f;
  s.frequency_penalty = 0.125f;
  s.penalty_window = 77;
  return s;
}

TEST_F(QrtSampling, DefaultsAreTheFilesFieldByField) {
  const qrt_sampler_options o = DefaultsWith(EveryField());
  EXPECT_EQ(o.temperature, 0.625f);
  EXPECT_EQ(o.top_k, 41);
  EXPECT_EQ(o.top_p, 0.9375f);
  EXPECT_EQ(o.min_p, 0.03125f);
  EXPECT_EQ(o.repeat_penalty, 1.25f);
  EXPECT_EQ(o.presence_penalty, 0.5f);
  EXPECT_EQ(o.frequency_penalty, 0.125f);
  EXPECT_EQ(o.penalty_window, 77);
  EXPECT_EQ(o.seed, 0u) << "a file recommends no seed";
}

// What qrt.h promises of a file that says nothing; and a file that says one thing changes that one thing.
TEST_F(QrtSampling, WhereTheFileIsSilentSamplingIsPlain) {
  const qrt_sampler_options plain = DefaultsWith({});
  EXPECT_EQ(plain.temperature, 1.f);
  EXPECT_EQ(plain.top_k, 0);
  EXPECT_EQ(plain.top_p, 1.f);
  EXPECT_EQ(plain.min_p, 0.f);
  EXPECT_EQ(plain.repeat_penalty, 1.f);
  EXPECT_EQ(plain.presence_penalty, 0.f);
  EXPECT_EQ(plain.frequency_penalty, 0.f);
  EXPECT_EQ(plain.seed, 0u);

  SamplingSpec one;
  one.min_p = 0.25f;
  const qrt_sampler_options o = DefaultsWith(one);
  EXPECT_EQ(o.min_p, 0.25f);
  EXPECT_EQ(o.temperature, plain.temperature);
  EXPECT_EQ(o.top_k, plain.top_k);
  EXPECT_EQ(o.top_p, plain.top_p);
  EXPECT_EQ(o.repeat_penalty, plain.repeat_penalty);
  EXPECT_EQ(o.presence_penalty, plain.presence_penalty);
  EXPECT_EQ(o.frequency_penalty, plain.frequency_penalty);
  EXPECT_EQ(o.penalty_window, plain.penalty_window);
}

constexpr int32_t kHigh = 10, kMiddle = 20, kLow = 30;

// The tokens that 60 draws choose. kHigh was accepted twice and kMiddle once, the last; all other logits are
// far below.
std::set<int32_t> Choices(qrt_sampler* sampler) {
  std::vector<float> logits(272, -1000.f);
  logits[kHigh] = 5.5f;
  logits[kMiddle] = 5.f;
  logits[kLow] = 2.25f;
  for (const int32_t token : {kHigh, kHigh, kMiddle}) qrt_sampler_accept(sampler, token);
  std::set<int32_t> chosen;
  for (int i = 0; i < 60; ++i) {
    int32_t token = -1;
    EXPECT_EQ(qrt_sampler_sample(sampler, logits.data(), logits.size(), &token, nullptr), QRT_OK);
    chosen.insert(token);
  }
  return chosen;
}

TEST_F(QrtSampling, ASamplerWithoutOptionsDoesWhatTheFileSays) {
  const std::set<int32_t> all = {kHigh, kMiddle, kLow};
  const struct {
    const char* name;
    void (*say)(SamplingSpec&);
    std::set<int32_t> chosen;
  } cases[] = {
      {"temperature 10", [](SamplingSpec& s) { s.temperature = 10; }, all},
      {"temperature 0", [](SamplingSpec& s) { s.temperature = 0; }, {kHigh}},
      {"top_k 1", [](SamplingSpec& s) { s.temperature = 10, s.top_k = 1; }, {kHigh}},
      {"top_k 2", [](SamplingSpec& s) { s.temperature = 10, s.top_k = 2; }, {kHigh, kMiddle}},
      {"top_p 0", [](SamplingSpec& s) { s.temperature = 10, s.top_p = 0; }, {kHigh}},
      // 0.606 of the highest probability is kMiddle's share, 0.039 kLow's.
      {"min_p 0.5", [](SamplingSpec& s) { s.temperature = 10, s.min_p = 0.5f; }, {kHigh, kMiddle}},
      {"repeat_penalty 3", [](SamplingSpec& s) { s.temperature = 0, s.repeat_penalty = 3; }, {kLow}},
      {"presence_penalty 2", [](SamplingSpec& s) { s.temperature = 0, s.presence_penalty = 2; }, {kHigh}},
      {"presence_penalty 4", [](SamplingSpec& s) { s.temperature = 0, s.presence_penalty = 4; }, {kLow}},
      {"frequency_penalty 2", [](SamplingSpec& s) { s.temperature = 0, s.frequency_penalty = 2; }, {kMiddle}},
      {"the same, penalty_window 1",
       [](SamplingSpec& s) { s.temperature = 0, s.frequency_penalty = 2, s.penalty_window = 1; },
       {kHigh}},
      {"the same, penalty_window 2",
       [](SamplingSpec& s) { s.temperature = 0, s.frequency_penalty = 2, s.penalty_window = 2; },
       {kHigh}},
      {"the same, penalty_window 3",
       [](SamplingSpec& s) { s.temperature = 0, s.frequency_penalty = 2, s.penalty_window = 3; },
       {kMiddle}},
  };
  for (const auto& c : cases) {
    SamplingSpec sampling;
    c.say(sampling);
    EXPECT_EQ(Choices(MakeSampler(sampling).get()), c.chosen) << "a file that says " << c.name;
  }
}

TEST_F(QrtSampling, OptionsTakeTheFilesPlace) {
  SamplingSpec greedy;
  greedy.temperature = 0;
  greedy.top_k = 1;
  qrt_sampler_options options = DefaultsWith(greedy);
  EXPECT_EQ(Choices(MakeSampler(greedy, &options).get()), std::set<int32_t>{kHigh});
  options.temperature = 10;
  EXPECT_EQ(Choices(MakeSampler(greedy, &options).get()), std::set<int32_t>{kHigh})
      << "top_k is still the file's";
  options.top_k = 0;
  EXPECT_EQ(Choices(MakeSampler(greedy, &options).get()), (std::set<int32_t>{kHigh, kMiddle, kLow}));
}

TEST_F(QrtApi, RefusedGeneratingWritesNothing) {
  const Artifact artifact = Open(path());
  const Engine engine = MakeEngine(artifact.get());
  const Session session = MakeSession(engine.get());
  qrt_sampler* made = nullptr;
  ASSERT_EQ(qrt_sampler_create(artifact.get(), nullptr, &made, nullptr), QRT_OK);
  const Sampler sampler(made);
  qrt_generate_options options = Sized<qrt_generate_options>();
  options.sampler = sampler.get();
  int32_t token = 0;
  size_t count = 77;
  EXPECT_EQ(qrt_session_generate(session.get(), 1000, &options, &token, 1, &count, nullptr),
            QRT_INVALID_ARGUMENT);
  EXPECT_EQ(count, 77u);
  EXPECT_EQ(qrt_session_generate(session.get(), 5, &options, &token, 1, &count, nullptr), QRT_OK);
  EXPECT_EQ(count, 1u);
}

}  // namespace
