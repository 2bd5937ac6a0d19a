// Which programs of a table serve a step: decided by what they take, advance, leave and give, never by a
// name.
#include <gtest/gtest.h>

#include "runtime/engine/schedule.h"
#include "tests/unit/runtime/program_facts.h"

namespace qrt {
namespace {

const std::vector<uint32_t> kStates = {0, 1, 2};

// What a model with three states has, from place 0 on.
std::vector<Program> Model() {
  return {{DecodeFacts(kStates), 1, 64},
          {DecodeFacts(kStates), 8, 64},
          {PrefillFacts(kStates), 32, 64},
          {HeadFacts(), 8, 64}};
}

void ExpectModel(const Schedule& schedule, uint32_t first) {
  ASSERT_FALSE(schedule.empty());
  EXPECT_EQ(schedule.max_rows(), 32u);
  EXPECT_EQ(schedule.max_out_rows(), 8u);
  EXPECT_EQ(schedule.ForTokens(1).program, first);
  EXPECT_EQ(schedule.ForTokens(2).program, first + 1);
  EXPECT_EQ(schedule.ForTokens(9).program, first + 2);
  EXPECT_EQ(schedule.ForTokens(1000).program, first + 2);
  EXPECT_EQ(schedule.ForStream(1).program, first + 3);
  const std::span<const uint32_t> without_logits = schedule.without_logits();
  ASSERT_EQ(without_logits.size(), 1u) << "a device would be asked about programs that are passed over";
  EXPECT_EQ(without_logits[0], first + 2);
}

// Programs that a sequence of tokens cannot be run with.
const struct Other {
  const char* what;
  ProgramFacts facts;
} kOthers[] = {
    {"a draft: tokens and given rows", {kTokens | kGiven, 64, -1, 1, Output::kLogits, {3}}},
    {"rows of an image", {kGiven, 64, -1, 0, Output::kNothing, kStates}},
    {"an embedding: nobody makes logits of its rows", {kTokens, 0, -1, 1, Output::kNothing, {}}},
    {"verification: logits of every row", {kTokens, 0, -1, 0, Output::kLogits, kStates}},
    {"a head that advances a state", {kStream, 0, 0, -1, Output::kChosenLogits, {3}}},
    {"a head of another stream", {kStream, 0, 1, -1, Output::kChosenLogits, {}}},
    {"an input of a later release", {kTokens | 64, 0, -1, 0, Output::kChosenLogits, kStates}},
    {"an output of a later release", {kTokens, 0, -1, 0, static_cast<Output>(9), kStates}},
    {"a program that only fills a state", {kTokens, 0, -1, -1, Output::kNothing, kStates}},
};

TEST(Schedule, PassesOverWhatItCannotServe) {
  for (const Other& other : kOthers) {
    for (uint32_t rows : {1u, 2u, 16u, 4096u}) {
      SCOPED_TRACE(std::string(other.what) + ", " + std::to_string(rows) + " rows");
      std::vector<Program> table = Model();
      table.push_back({other.facts, rows, 64});
      ExpectModel(Schedule(table), 0);
      table.insert(table.begin(), {other.facts, rows, 64});
      ExpectModel(Schedule(table), 1);
    }
    EXPECT_TRUE(Schedule({{other.facts, 4, 64}}).empty()) << other.what << " alone";
  }
}

// Two models in one table, with states and streams of their own: the first one's programs are taken, wherever
// they stand.
TEST(Schedule, TheFirstModelOfTwo) {
  const std::vector<uint32_t> small = {3};
  const ProgramFacts other_decode = {kTokens, 0, -1, 1, Output::kChosenLogits, small};
  const ProgramFacts other_prefill = {kTokens, 0, -1, 1, Output::kNothing, small};
  const ProgramFacts other_head = {kStream, 0, 1, -1, Output::kChosenLogits, {}};
  std::vector<Program> table = Model();
  const std::vector<Program> second = {{other_decode, 4, 64}, {other_prefill, 128, 64}, {other_head, 16, 64}};
  table.insert(table.end(), second.begin(), second.end());
  ExpectModel(Schedule(table), 0);

  std::vector<Program> swapped = second;
  const std::vector<Program> first = Model();
  swapped.insert(swapped.end(), first.begin(), first.end());
  const Schedule schedule(swapped);
  EXPECT_EQ(schedule.max_rows(), 128u);
  EXPECT_EQ(schedule.max_out_rows(), 16u);
  EXPECT_EQ(schedule.ForTokens(1).program, 0u);
  EXPECT_EQ(schedule.ForTokens(5).program, 1u);
  EXPECT_EQ(schedule.ForStream(1).program, 2u);
}

// Rows that no program turns into logits are the model's fault, not another model's.
TEST(Schedule, RowsOfTheModelWithoutAHead) {
  std::vector<Program> table = Model();
  table.pop_back();
  const Schedule schedule(table);
  EXPECT_TRUE(schedule.leaves_stream());
  EXPECT_FALSE(schedule.serves_stream());
}

TEST(Schedule, OneThatGivesLogitsGoesFirstAmongEqualBuckets) {
  const Schedule schedule({{PrefillFacts(), 8, 64}, {DecodeFacts(), 8, 64}, {HeadFacts(), 8, 64}});
  EXPECT_EQ(schedule.ForTokens(8).program, 1u);
  EXPECT_TRUE(schedule.ForTokens(8).gives_logits);
  EXPECT_FALSE(schedule.leaves_stream());
  EXPECT_EQ(schedule.without_logits().size(), 1u) << "its bucket stays one to choose among";
}

// A program that goes on from the rows of a stream to logits in place leaves none.
TEST(Schedule, OneThatOverwritesItsRowsServesBesideThoseThatLeaveThem) {
  ProgramFacts decode = DecodeFacts();
  decode.leaves = -1;
  const Schedule schedule({{decode, 2, 64}, {PrefillFacts(), 16, 64}, {HeadFacts(), 8, 64}});
  EXPECT_EQ(schedule.ForTokens(2).program, 0u);
  EXPECT_EQ(schedule.ForTokens(3).program, 1u) << "prefill leaves what the head takes";
  ASSERT_TRUE(schedule.serves_stream());
  EXPECT_EQ(schedule.ForStream(1).program, 2u);
  EXPECT_EQ(schedule.max_out_rows(), 8u);

  // Alone it serves, too; a program that leaves rows which nobody takes does not.
  ProgramFacts other = PrefillFacts();
  other.leaves = 1;
  const Schedule alone({{decode, 2, 64}, {other, 16, 64}});
  EXPECT_EQ(alone.max_rows(), 2u);
  EXPECT_FALSE(alone.serves_stream());
}

}  // namespace
}  // namespace qrt
