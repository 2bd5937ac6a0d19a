// The device's sampling against the host's: the same tokens, bit for bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "tests/device/sandbox.h"
#include "tests/unit/gpu_kernels/sample_cases.h"

namespace qcc::gpu {
namespace {

using ExpandSample = std::vector<Launch> (*)(int64_t, const Vocabulary&, Expansion&, uint64_t*);
using Words = std::vector<uint32_t>;

// Tokens of the interpreted launches for these rows, in programs of `bucket` rows. Rows of logits lie `gap`
// floats apart.
std::vector<int32_t> OnDevice(ExpandSample expand, const std::vector<std::vector<float>>& logits,
                              const std::vector<qrt_gpu_sample>& samples,
                              const std::vector<qrt_gpu_penalty>& penalties, size_t bucket, size_t gap,
                              const Words& choosable = {}) {
  const size_t vocab = logits[0].size(), stride = vocab + gap;
  Sandbox box(Profile{}, static_cast<int64_t>(bucket), static_cast<int64_t>(stride));
  // A gap holds NaN: it must not be read as a logit.
  std::vector<float> memory(bucket * stride, std::nanf(""));
  for (size_t i = 0; i < logits.size(); ++i) {
    std::copy(logits[i].begin(), logits[i].end(), memory.begin() + static_cast<std::ptrdiff_t>(i * stride));
  }
  box.Logits(memory);
  const Arg results = box.Results(bucket * 4);
  box.Write(results, std::vector<int32_t>(bucket, -77));
  for (size_t i = 0; i < logits.size(); ++i) {
    box.step.sequences.push_back({});
    box.step.outs.push_back(static_cast<uint32_t>(i));
  }
  box.step.samples = samples;
  box.step.penalties = penalties;
  uint64_t scratch = 0;
  const std::vector<Launch> launches =
      expand(static_cast<int64_t>(bucket), {static_cast<int64_t>(vocab), choosable}, box, &scratch);
  box.SampleScratch(scratch);
  EXPECT_EQ(box.Run(launches), "");
  std::vector<int32_t> tokens = box.Read<int32_t>(results);
  for (size_t i = logits.size(); i < bucket; ++i) EXPECT_EQ(tokens[i], -77) << "row beyond n_out";
  tokens.resize(logits.size());
  return tokens;
}

// What the device's draws are made by, of these rows: the short form too where each has few tokens.
std::vector<ExpandSample> FormsFor(const std::vector<qrt_gpu_sample>& samples) {
  std::vector<ExpandSample> forms = {ExpandDraw};
  if (std::all_of(samples.begin(), samples.end(),
                  [](const qrt_gpu_sample& s) { return s.top_k >= 1 && s.top_k <= QRT_GPU_FEW_TOKENS; })) {
    forms.push_back(ExpandDrawFew);
  }
  return forms;
}

// Draws `draws` tokens for every row on both sides, which each accept their own.
void ExpectEqualDraws(const std::vector<SampleRow>& rows, int draws, const std::string& what, size_t gap = 3,
                      const Words& choosable = {}) {
  std::vector<qrt::Sampler> host, device;
  std::vector<std::vector<float>> logits;
  for (const SampleRow& row : rows) {
    for (auto* samplers : {&host, &device}) {
      auto made = qrt::Sampler::Create(static_cast<uint32_t>(row.logits.size()), row.options, choosable);
      ASSERT_TRUE(made.ok()) << made.status().ToString();
      samplers->push_back(*std::move(made));
      for (int32_t token : row.accepted) samplers->back().Accept(token);
    }
    logits.push_back(row.logits);
  }
  for (int draw = 0; draw < draws; ++draw) {
    std::vector<qrt_gpu_sample> samples(rows.size());
    std::vector<qrt_gpu_penalty> penalties(5);  // of others
    for (size_t i = 0; i < rows.size(); ++i) {
      samples[i].penalty_begin = static_cast<uint32_t>(penalties.size());
      penalties.resize(penalties.size() + device[i].penalties());
      device[i].Describe(static_cast<uint64_t>(draw), &samples[i],
                         penalties.data() + samples[i].penalty_begin);
    }
    std::vector<int32_t> expected;
    for (size_t i = 0; i < rows.size(); ++i) {
      expected.push_back(OnHost(host[i], static_cast<uint64_t>(draw), logits[i]));
    }
    for (const ExpandSample form : FormsFor(samples)) {
      const std::vector<int32_t> found =
          OnDevice(form, logits, samples, penalties, rows.size() + 1, gap, choosable);
      for (size_t i = 0; i < rows.size(); ++i) {
        const qrt::SamplerOptions& o = rows[i].options;
        ASSERT_EQ(found[i], expected[i])
            << what << ": " << (form == ExpandDraw ? "long" : "short") << " form, row " << i << ", draw "
            << draw << ", temperature " << o.temperature << ", top_k " << o.top_k << ", top_p " << o.top_p
            << ", min_p " << o.min_p << ", repeat " << o.repeat_penalty << ", presence " << o.presence_penalty
            << ", frequency " << o.frequency_penalty << ", window " << o.penalty_window << ", seed "
            << o.seed;
      }
    }
    for (size_t i = 0; i < rows.size(); ++i) {
      host[i].Accept(expected[i]);
      device[i].Accept(expected[i]);
    }
  }
}

TEST(DeviceSampling, DrawsTheHostsTokens) {
  std::mt19937 random(11);
  for (size_t vocab :
       {size_t{1}, size_t{2}, size_t{7}, size_t{127}, size_t{129}, size_t{1000}, size_t{1025}}) {
    const int rounds = 15;
    for (int round = 0; round < rounds; ++round) {
      std::vector<SampleRow> rows(1 + random() % 6);
      for (SampleRow& row : rows) row = AnySampleRow(random, vocab);
      ExpectEqualDraws(rows, 3, "vocabulary " + std::to_string(vocab) + ", round " + std::to_string(round),
                       random() % 2, round % 3 == 0 ? AnyChoosable(random, vocab) : Words());
      if (testing::Test::HasFailure()) return;
    }
  }
}

TEST(DeviceSampling, DrawsTheHostsTokensOverManyChunks) {
  std::mt19937 random(12);
  for (size_t vocab : {size_t{3000}, size_t{5001}, size_t{20000}}) {
    for (int round = 0; round < 5; ++round) {
      std::vector<SampleRow> rows = {AnySampleRow(random, vocab), AnySampleRow(random, vocab)};
      ExpectEqualDraws(rows, 2, "vocabulary " + std::to_string(vocab) + ", round " + std::to_string(round), 3,
                       round % 2 == 0 ? AnyChoosable(random, vocab) : Words());
      if (testing::Test::HasFailure()) return;
    }
  }
}

TEST(DeviceSampling, DrawsTheHostsTokensFromFew) {
  std::mt19937 random(17);
  for (size_t vocab : {size_t{1}, size_t{2}, size_t{7}, size_t{63}, size_t{65}, size_t{129}, size_t{1000},
                       size_t{1025}, size_t{3000}, size_t{5001}, size_t{20000}}) {
    for (int round = 0; round < (vocab > 2000 ? 4 : 12); ++round) {
      std::vector<SampleRow> rows(1 + random() % (vocab > 2000 ? 2 : 5));
      for (SampleRow& row : rows) {
        row = AnySampleRow(random, vocab);
        row.options.top_k = AnyFew(random);
      }
      ExpectEqualDraws(rows, 2, "vocabulary " + std::to_string(vocab) + ", round " + std::to_string(round),
                       random() % 2, round % 3 == 0 ? AnyChoosable(random, vocab) : Words());
      if (testing::Test::HasFailure()) return;
    }
  }
}

// Where the first tokens lie says how much each chunk, and each thread of one, has of them.
TEST(DeviceSampling, DrawsTheHostsTokensFromFewWhereverTheyLie) {
  constexpr int32_t kVocab = 5003;
  std::vector<std::pair<const char*, std::function<float(int32_t)>>> kinds = {
      {"all but one equal", [](int32_t i) { return i == 4000 ? 1.f : 2.f; }},
      {"equal at the front, over chunks",
       [](int32_t i) { return i % 500 == 7 ? 3.f
                              : i % 9 == 0 ? 2.f
                                           : 0.f; }},
      {"rising", [](int32_t i) { return static_cast<float>(i) * 1e-3f; }},
      {"falling", [](int32_t i) { return static_cast<float>(i) * -1e-3f; }},
      {"all in one chunk", [](int32_t i) { return i / 1024 == 2 ? static_cast<float>(i % 97) : -1.f; }},
      {"all of a few threads", [](int32_t i) { return i % 128 < 6 ? static_cast<float>(i % 101) : -1.f; }},
      {"one of each chunk", [](int32_t i) { return i % 1024 == 5 ? 9.f : static_cast<float>(i % 7); }},
      {"the ends", [](int32_t i) { return i == 0 || i == kVocab - 1 ? 5.f : static_cast<float>(i % 3); }}};
  for (const auto& [name, logit] : kinds) {
    std::vector<SampleRow> rows;
    for (const int32_t top_k : {1, 2, 7, 8, 9, 20, 63, 64}) {
      SampleRow& row = rows.emplace_back();
      for (int32_t i = 0; i < kVocab; ++i) row.logits.push_back(logit(i));
      row.options.top_k = top_k;
      row.options.temperature = 50;
      row.options.seed = static_cast<uint64_t>(top_k);
      if (top_k % 4 == 0) row.options.top_p = 0.7f;
      if (top_k % 20 == 0) row.options.presence_penalty = 2;
      row.accepted = {0, 5, 4000};
    }
    ExpectEqualDraws(rows, 3, name, 0);
  }
}

// A flat distribution keeps most tokens in play, so that draws tell ids apart that a wrong order of summing
// or a lost carry would shift.
TEST(DeviceSampling, DrawsTheHostsTokensFromFlatDistributions) {
  std::mt19937 random(13);
  for (float top_p : {1.f, 0.9f, 0.3f}) {
    for (int32_t top_k : {0, 1500}) {
      SampleRow equal, near;
      equal.options.top_p = near.options.top_p = top_p;
      equal.options.top_k = near.options.top_k = top_k;
      equal.options.seed = near.options.seed = 5 + static_cast<uint64_t>(top_k);
      equal.logits.assign(4000, 2.5f);
      equal.logits[17] = 2.4999f;  // all equal would be a fault
      for (int i = 0; i < 4000; ++i) near.logits.push_back(Between(random, -1, 1));
      ExpectEqualDraws({equal, near}, 12, "top_p " + std::to_string(top_p));
    }
  }
}

TEST(DeviceSampling, DrawsTheHostsTokensFromALargeVocabulary) {
  std::mt19937 random(14);
  SampleRow usual, free, tied, few;
  for (SampleRow* row : {&usual, &free, &tied, &few}) {
    row->logits.resize(248320);
    for (float& l : row->logits)
      l = 4 * (Between(random, -1, 1) + Between(random, -1, 1) + Between(random, -1, 1));
    row->options.seed = random();
  }
  usual.options.temperature = 0.7f;
  usual.options.top_k = 20;
  usual.options.top_p = 0.8f;
  usual.options.presence_penalty = 1.5f;
  for (int32_t i = 0; i < 100; ++i) usual.accepted.push_back(i * 2400);
  free.options.top_p = 0.95f;
  for (float& l : tied.logits) l = std::round(l);
  tied.options.top_k = 100000;
  tied.options.top_p = 0.99f;
  tied.options.min_p = 1e-4f;
  ExpectEqualDraws({usual, free, tied}, 1, "large vocabulary", 0);
  for (float& l : few.logits) l = std::round(l);
  few.options.top_k = QRT_GPU_FEW_TOKENS;
  ExpectEqualDraws({usual, few}, 1, "large vocabulary, few tokens", 0);
}

TEST(DeviceSampling, AVocabularyMayBeTooLargeForTheShortForm) {
  uint64_t bytes = 0;
  for (const int64_t vocab : {int64_t{1}, int64_t{151936}, int64_t{262144}, int64_t{327680}}) {
    Sandbox box(Profile{}, 2, vocab);
    EXPECT_EQ(ExpandDrawFew(2, {vocab, {}}, box, &bytes).size(), 2u) << vocab;
    EXPECT_EQ(ExpandDraw(2, {vocab, {}}, box, &bytes).size(), 10u) << vocab;
  }
  Sandbox box(Profile{}, 2, 327681);
  EXPECT_TRUE(ExpandDrawFew(2, {327681, {}}, box, &bytes).empty());
}

TEST(DeviceSampling, GreedyTakesTheHighestAndTheLowestIdOfEquals) {
  std::mt19937 random(15);
  for (size_t vocab : {size_t{1}, size_t{7}, size_t{1000}, size_t{1025}, size_t{5000}, size_t{248320}}) {
    const size_t rows = vocab > 5000 ? 2 : 25;
    std::vector<std::vector<float>> logits;
    std::vector<int32_t> expected;
    qrt::SamplerOptions options;
    options.temperature = 0;
    const Words choosable = vocab % 2 == 0 ? AnyChoosable(random, vocab) : Words();
    auto sampler = qrt::Sampler::Create(static_cast<uint32_t>(vocab), options, choosable);
    ASSERT_TRUE(sampler.ok());
    for (size_t i = 0; i < rows; ++i) {
      logits.push_back(AnyLogits(random, vocab));
      expected.push_back(OnHost(*sampler, 0, logits.back()));
    }
    EXPECT_EQ(OnDevice(ExpandGreedy, logits, {}, {}, rows + 2, vocab % 3, choosable), expected)
        << "vocabulary " << vocab;
  }
}

// A draft's columns stand for the first tokens, or for those of a table; it always guesses something.
TEST(DeviceSampling, ADraftGuessesTheTokenOfTheHighestColumn) {
  const ExpandSample first = [](int64_t rows, const Vocabulary& columns, Expansion& expansion,
                                uint64_t* scratch) {
    return ExpandGuess(rows, {columns.size, expansion.logits_stride(), {}}, expansion, scratch);
  };
  const ExpandSample others = [](int64_t rows, const Vocabulary& columns, Expansion& expansion,
                                 uint64_t* scratch) {
    std::vector<int32_t> tokens;
    for (int64_t i = 0; i < columns.size; ++i) tokens.push_back(static_cast<int32_t>(3 * (columns.size - i)));
    return ExpandGuess(rows, {columns.size, expansion.logits_stride(), tokens}, expansion, scratch);
  };
  std::mt19937 random(16);
  for (const size_t columns : {size_t{1}, size_t{16}, size_t{1008}, size_t{5008}}) {
    std::vector<std::vector<float>> logits = {std::vector<float>(columns, -kInf),
                                              std::vector<float>(columns, 2)};
    std::vector<int32_t> found = {0, 0}, of_table;
    for (size_t i = 0; i < 10; ++i) {
      std::vector<float>& row = logits.emplace_back(AnyLogits(random, columns));
      std::replace_if(
          row.begin(), row.end(), [](float l) { return std::isnan(l); }, 0.f);
      found.push_back(static_cast<int32_t>(std::max_element(row.begin(), row.end()) - row.begin()));
    }
    for (const int32_t column : found) of_table.push_back(3 * (static_cast<int32_t>(columns) - column));
    EXPECT_EQ(OnDevice(first, logits, {}, {}, logits.size() + 2, columns % 3), found)
        << columns << " columns";
    EXPECT_EQ(OnDevice(others, logits, {}, {}, logits.size() + 2, 0), of_table) << columns << " columns";
    std::vector<float> damaged(columns, 1);
    damaged[columns / 2] = std::nanf("");
    EXPECT_EQ(OnDevice(first, {damaged}, {}, {}, 1, 0),
              (std::vector<int32_t>{static_cast<int32_t>(columns / 2)}));
  }
}

// Padding of the vocabulary: the highest logit of all, or no number, where no token is.
TEST(DeviceSampling, WhatStandsForNoTokenIsNeverChosen) {
  const Words choosable = {0x5};  // tokens 0 and 2 of 4
  for (const float elsewhere : {100.f, kInf, std::nanf(""), -kInf}) {
    const std::vector<float> logits = {1, elsewhere, 1.5f, elsewhere};
    EXPECT_EQ(OnDevice(ExpandGreedy, {logits}, {}, {}, 1, 0, choosable), (std::vector<int32_t>{2}))
        << elsewhere;
    SampleRow row{logits, {}, {1, 1, 3}};
    row.options.repeat_penalty = 0.5f;  // also where it makes them likelier
    row.options.penalty_window = -1;
    for (const int32_t top_k : {0, 1, 2, 3}) {
      row.options.top_k = top_k;
      ExpectEqualDraws({row}, 8, "elsewhere " + std::to_string(elsewhere), 0, choosable);
    }
  }
}

TEST(DeviceSampling, FaultsAreTheHosts) {
  const std::vector<float> bad = {1, std::nanf(""), -kInf}, low = {1, -kInf, 3}, none = {-kInf, -kInf, -kInf},
                           equal = {2, 2, 2}, zeros = {0, -0.f, 0}, fine = {2, 2, 3};
  EXPECT_EQ(OnDevice(ExpandGreedy, {bad, low, none, equal, zeros, fine}, {}, {}, 6, 0),
            (std::vector<int32_t>{QRT_GPU_SAMPLE_BAD_LOGIT, QRT_GPU_SAMPLE_MINUS_INFINITY,
                                  QRT_GPU_SAMPLE_MINUS_INFINITY, QRT_GPU_SAMPLE_ALL_EQUAL,
                                  QRT_GPU_SAMPLE_ALL_EQUAL, 2}));
  // One token cannot differ from others.
  EXPECT_EQ(OnDevice(ExpandGreedy, {equal}, {}, {}, 1, 0, {0x2}), (std::vector<int32_t>{1}));
  for (float temperature : {0.f, 1.f}) {
    for (float top_p : {1.f, 0.5f}) {
      for (const int32_t top_k : {0, 2, 40}) {
        qrt::SamplerOptions options;
        options.temperature = temperature;
        options.top_p = top_p;
        options.top_k = top_k;
        options.presence_penalty = 1;
        std::vector<SampleRow> rows;
        for (const auto& logits : {bad, low, none, equal, zeros, fine})
          rows.push_back({logits, options, {1}});
        ExpectEqualDraws(rows, 2, "faults");
      }
    }
  }
}

}  // namespace
}  // namespace qcc::gpu
