// Heads that leave keys of each 16 logits, and the greedy choice that one launch makes of them: the host's,
// by the logits that a head without gives.
#include <bit>
#include <cstring>

#include "codegen/gpu/kernels/linear.h"
#include "dialects/layouts/layouts.h"
#include "tests/unit/gpu_kernels/gpu_fixture.h"
#include "tests/unit/gpu_kernels/sample_cases.h"

namespace qcc::gpu {
namespace {

using Words = std::vector<uint32_t>;

std::vector<Profile> AllKinds() {
  std::vector<Profile> profiles = TestProfiles();
  profiles.push_back(FindProfile("sm80")->profile);
  return profiles;
}

// A head of `rows` rows of the step, in programs of `bucket`.
struct Head {
  Matrix w;
  std::vector<float> x;
  int64_t rows, bucket;
};

Dispatch<plan::LinearSpec> DispatchOf(Sandbox& box, const Head& head, bool int8) {
  const int64_t stride = layouts::AlignUp(head.w.rows, layouts::kGroupRows), k = head.w.cols;
  Dispatch<plan::LinearSpec> d{.spec = {.format = head.w.format,
                                        .numerics = int8 ? plan::Numerics::Int8 : plan::Numerics::F32,
                                        .k = k,
                                        .n = head.w.rows,
                                        .epilogue = Epilogue::Store,
                                        .rows = plan::RowsFrom::OutRows},
                               .bindings = {},
                               .rows = head.bucket};
  std::vector<float> x = head.x;
  x.resize(static_cast<size_t>(head.bucket * k));
  if (int8)
    d.bindings.xq = box.Arena(QuantizedRows(x, head.bucket, k));
  else
    d.bindings.x = box.Arena(x);
  d.bindings.w = box.Weights(head.w.Packed());
  d.bindings.y = box.Logits(std::vector<float>(static_cast<size_t>(head.bucket * stride), std::nanf("")));
  for (int64_t i = 0; i < head.rows; ++i) {
    box.step.sequences.push_back({});
    box.step.outs.push_back(static_cast<uint32_t>(i));
  }
  return d;
}

void ExpectTheHostsChoice(const Profile& profile, const Head& head, bool int8, const Words& choosable) {
  const int64_t vocab = head.w.rows, stride = layouts::AlignUp(vocab, layouts::kGroupRows);
  Sandbox plain(profile, head.bucket, stride), box(profile, head.bucket, stride);
  const auto expected = DispatchOf(plain, head, int8), d = DispatchOf(box, head, int8);
  ASSERT_EQ(plain.Run(Expand_linear, expected), "");
  const std::vector<float> logits = plain.Read<float>(*expected.bindings.y);

  const Vocabulary vocabulary = {vocab, choosable};
  const UnitKeys keys = UnitKeysOf(head.bucket, vocabulary, box);
  uint64_t scratch = 0;
  std::vector<Launch> launches = ExpandLeavingKeys(d, keys, box);
  ASSERT_EQ(launches.size(), 1u);
  const std::vector<Launch> choice = ExpandGreedyOfUnits(head.bucket, vocabulary, box, &scratch);
  ASSERT_EQ(choice.size(), 1u);
  launches.push_back(choice[0]);
  box.SampleScratch(scratch);
  const Arg results = box.Results(static_cast<uint64_t>(head.bucket) * 4);
  box.Write(results, std::vector<int32_t>(static_cast<size_t>(head.bucket), -77));
  ASSERT_EQ(box.Run(launches), "");
  const std::vector<float> found = box.Read<float>(*d.bindings.y);
  ASSERT_EQ(std::memcmp(found.data(), logits.data(), 4 * logits.size()), 0);

  qrt::SamplerOptions options;
  options.temperature = 0;
  auto sampler = qrt::Sampler::Create(static_cast<uint32_t>(vocab), options, choosable);
  ASSERT_TRUE(sampler.ok());
  const std::vector<int32_t> tokens = box.Read<int32_t>(results);
  for (int64_t i = 0; i < head.bucket; ++i) {
    const auto row = logits.begin() + i * stride;
    const int32_t want = i < head.rows ? OnHost(*sampler, 0, {row, row + vocab}) : -77;
    ASSERT_EQ(tokens[static_cast<size_t>(i)], want) << "row " << i;
  }
}

// Row i of logits is column i of the matrix: ties, both zeros, all equal, infinities, NaN.
Head HeadOf(const std::vector<std::vector<float>>& logits, int64_t k, int64_t bucket) {
  const int64_t rows = static_cast<int64_t>(logits.size()), vocab = static_cast<int64_t>(logits[0].size());
  Head head = {{Format::F32, vocab, k, {}, {}}, {}, rows, bucket};
  head.w.values.assign(static_cast<size_t>(vocab * k), 0.f);
  head.x.assign(static_cast<size_t>(rows * k), 0.f);
  for (int64_t i = 0; i < rows; ++i) {
    head.x[static_cast<size_t>(i * k + i)] = 1.f;
    for (int64_t id = 0; id < vocab; ++id)
      head.w.values[static_cast<size_t>(id * k + i)] =
          logits[static_cast<size_t>(i)][static_cast<size_t>(id)];
  }
  head.w.gguf.resize(head.w.values.size() * 4);
  std::memcpy(head.w.gguf.data(), head.w.values.data(), head.w.gguf.size());
  return head;
}

class GreedyOfUnits : public testing::TestWithParam<Profile> {};
INSTANTIATE_TEST_SUITE_P(Profiles, GreedyOfUnits, testing::ValuesIn(AllKinds()), [](const auto& info) {
  std::string name = info.param.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST_P(GreedyOfUnits, TakesTheHostsToken) {
  std::mt19937 random(23);
  // Units of 8, 4 and 1 a workgroup; an odd number of units, a last one that is not full.
  for (int64_t k : {32, 64, 256}) {
    for (size_t vocab : {size_t{1}, size_t{7}, size_t{48}, size_t{129}, size_t{2064}}) {
      for (const auto& [rows, bucket] : {std::pair<size_t, int64_t>{1, 1}, {3, 4}, {8, 8}}) {
        SCOPED_TRACE("k " + std::to_string(k) + ", vocabulary " + std::to_string(vocab) + ", rows " +
                     std::to_string(rows));
        std::vector<std::vector<float>> logits;
        for (size_t i = 0; i < rows; ++i) logits.push_back(AnyLogits(random, vocab));
        const Words choosable = random() % 2 ? AnyChoosable(random, vocab) : Words();
        ExpectTheHostsChoice(GetParam(), HeadOf(logits, k, bucket), false, choosable);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Whatever the rest of the row is.
TEST_P(GreedyOfUnits, FaultsAreTheHosts) {
  const float nan = std::nanf("");
  for (const std::vector<float>& ends : {std::vector<float>{nan, 1},
                                         {-kInf, 1},
                                         {kInf, 1},
                                         {-kInf, -kInf},
                                         {2, 2},
                                         {0.f, -0.f},
                                         {3, 2},
                                         {2, 3}}) {
    std::vector<float> logits(40, ends[0]);
    logits[33] = ends[1];
    SCOPED_TRACE(std::to_string(ends[0]) + " but for " + std::to_string(ends[1]));
    for (const Words& choosable : {Words{}, Words{0xF0, 0x2}, Words{0, 0x2}})
      ExpectTheHostsChoice(GetParam(), HeadOf({logits}, 32, 1), false, choosable);
  }
}

TEST_P(GreedyOfUnits, OfInt8Heads) {
  Random random(3);
  for (Format format : {Format::Q4_K, Format::Q6_K, Format::Q8_0}) {
    for (int64_t rows : {1, 2, 5, 8}) {
      const Head head = {RandomMatrix(format, 200, 512, 9), random.Normals(rows * 512), rows,
                         static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(rows)))};
      SCOPED_TRACE(std::string(format_info(format).name) + ", rows " + std::to_string(rows));
      ExpectTheHostsChoice(GetParam(), head, true, {});
    }
  }
}

// What a draft guesses behind a head, by the keys that it leaves or by all logits.
std::vector<int32_t> Guesses(const Profile& profile, const Head& head, const DraftColumns& draft,
                             bool of_units) {
  Sandbox box(profile, head.bucket, draft.stride);
  const auto d = DispatchOf(box, head, false);
  uint64_t scratch = 0;
  std::vector<Launch> launches =
      of_units ? ExpandLeavingKeys(d, UnitKeysOf(head.bucket, draft.all(), box), box) : Expand_linear(d, box);
  std::vector<Launch> choice =
      (of_units ? ExpandGuessOfUnits : ExpandGuess)(head.bucket, draft, box, &scratch);
  EXPECT_EQ(choice.size(), of_units ? 1u : 2u);
  for (Launch& launch : choice) launches.push_back(std::move(launch));
  box.SampleScratch(scratch);
  const Arg results = box.Results(static_cast<uint64_t>(head.bucket) * 4);
  box.Write(results, std::vector<int32_t>(static_cast<size_t>(head.bucket), -77));
  EXPECT_EQ(box.Run(launches), "");
  return box.Read<int32_t>(results);
}

// Of the first tokens or of a table's, whatever the row is.
TEST_P(GreedyOfUnits, GuessesAreThoseOfAllLogits) {
  std::mt19937 random(29);
  for (size_t columns : {size_t{16}, size_t{1008}, size_t{1013}}) {
    std::vector<std::vector<float>> rows = {std::vector<float>(columns, -kInf),
                                            std::vector<float>(columns, 2)};
    for (size_t i = 0; i < 4; ++i) rows.push_back(AnyLogits(random, columns));
    for (size_t i = 0; i < rows.size(); ++i) {
      const Head head = HeadOf({rows[i]}, 32, 2);
      DraftColumns draft = {head.w.rows, layouts::AlignUp(head.w.rows, layouts::kGroupRows), {}};
      const std::vector<int32_t> found = Guesses(GetParam(), head, draft, true);
      EXPECT_EQ(found, Guesses(GetParam(), head, draft, false)) << columns << " columns, row " << i;
      if (i < 2) {
        EXPECT_EQ(found[0], 0) << "none is above the first";
      }
      EXPECT_EQ(found[1], -77) << "there is no such row";
      for (int32_t t = 0; t < head.w.rows; ++t) draft.tokens.push_back(7 * (5000 - t));
      EXPECT_EQ(Guesses(GetParam(), head, draft, true)[0], 7 * (5000 - found[0]));
    }
  }
}

// Of heads that leave nothing a greedy choice takes two launches.
TEST(GreedyOfUnitsForms, HeadsOfManyRowsLeaveNoKeys) {
  Sandbox box(FindProfile("sm80")->profile, 64, 4096);
  const Arg somewhere = {Space::kArena, 0, 1 << 20};
  const auto leaves = [&](int64_t rows, Epilogue epilogue) {
    const plan::LinearSpec spec = {.format = Format::Q4_K,
                                   .numerics = plan::Numerics::Int8,
                                   .k = 1024,
                                   .n = 4096,
                                   .epilogue = epilogue,
                                   .rows = plan::RowsFrom::OutRows};
    return !ExpandLeavingKeys(Anywhere(spec, rows, somewhere), UnitKeysOf(rows, {4096, {}}, box), box)
                .empty();
  };
  EXPECT_TRUE(leaves(1, Epilogue::Store));
  EXPECT_TRUE(leaves(8, Epilogue::Store));
  EXPECT_FALSE(leaves(9, Epilogue::Store));
  EXPECT_FALSE(leaves(1, Epilogue::Add));
}

}  // namespace
}  // namespace qcc::gpu
