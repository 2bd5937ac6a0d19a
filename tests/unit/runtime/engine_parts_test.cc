// An engine whose model's layers run on several devices: the rows that they hand on, how often and how, and
// what a device that fails on the way leaves behind.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "runtime/engine/checkpoint.h"
#include "tests/unit/runtime/engine_parts_toy.h"

namespace {

using namespace parts_toy;  // NOLINT: the toy of this very test

// The model, straight: the first logit after the last token.
float Reference(const std::vector<int32_t>& tokens, size_t parts) {
  float value = static_cast<float>(tokens.back());
  for (size_t p = 0; p < parts; ++p) value = 2 * value + static_cast<float>(tokens.size());
  return value;
}

TEST(EngineParts, RowsGoFromOneDeviceToTheNextInOneCopy) {
  const std::vector<int32_t> tokens = {3, 1, 4, 1, 5, 2};
  for (const std::vector<bool>& hidden :
       {std::vector<bool>{false, false}, std::vector<bool>{false, true}, std::vector<bool>{true, false},
        std::vector<bool>{true, true}, std::vector<bool>{false, true, true, false}}) {
    Parts parts(hidden);
    qrt::Session session(*parts.engine, nullptr);
    ASSERT_TRUE(session.Init({32}, nullptr).ok());
    ASSERT_TRUE(parts.Append(session, tokens).ok());
    ASSERT_NE(session.logits(), nullptr);
    EXPECT_EQ(session.logits()[0], Reference(tokens, hidden.size()));
    const size_t boundaries = hidden.size() - 1;
    EXPECT_EQ(parts.engine->counters().transfers, 2 * boundaries) << "steps of 4 and 2 rows";
    EXPECT_EQ(parts.engine->counters().bytes_transferred, tokens.size() * kCols * 4 * boundaries);
    EXPECT_EQ(parts.engine->counters().submissions, 2 * hidden.size());
    for (size_t i = 0; i < boundaries; ++i) {
      SCOPED_TRACE("boundary " + std::to_string(i) + " of " + std::to_string(hidden.size()) + " parts");
      // One call where the host sees a side; between two that it does not see, one of each.
      const bool both = hidden[i] && hidden[i + 1];
      EXPECT_EQ(parts.devices[i + 1]->writes, !hidden[i + 1] ? 0 : 2);
      EXPECT_EQ(parts.devices[i]->reads, both || !hidden[i + 1] ? 2 : 0);
    }
  }
}

TEST(EngineParts, EveryDeviceSaysHowManyRows) {
  Parts parts({false, true, false});
  parts.devices[1]->most_rows = 1;
  qrt::Session session(*parts.engine, nullptr);
  ASSERT_TRUE(session.Init({32}, nullptr).ok());
  ASSERT_TRUE(parts.Append(session, {1, 2, 3}).ok());
  EXPECT_EQ(parts.devices[0]->rows, (std::vector<int64_t>{1, 1, 1}));
  EXPECT_EQ(parts.devices[2]->rows, (std::vector<int64_t>{1, 1, 1}));
  EXPECT_EQ(session.logits()[0], Reference({1, 2, 3}, 3));
}

// What the first device advanced cannot be taken back: the session says so until it is reset.
TEST(EngineParts, ADeviceThatFailsOnTheWay) {
  const struct {
    size_t part;
    DeviceResult failure;
    uint32_t number;
    bool damages;
  } cases[] = {{0, DeviceResult::kFailed, 5011, true},  {1, DeviceResult::kFailed, 5011, true},
               {2, DeviceResult::kLost, 5010, true},    {0, DeviceResult::kRefused, 5321, false},
               {1, DeviceResult::kRefused, 5321, true}, {1, DeviceResult::kOutOfMemory, 6001, true}};
  for (const auto& c : cases) {
    SCOPED_TRACE("part " + std::to_string(c.part) + ", Q" + std::to_string(c.number));
    Parts parts({false, true, false});
    qrt::Session session(*parts.engine, nullptr);
    ASSERT_TRUE(session.Init({32}, nullptr).ok());
    ASSERT_TRUE(parts.Append(session, {1, 2}).ok());
    parts.devices[c.part]->failure = c.failure;
    EXPECT_EQ(parts.Append(session, {3}).number(), c.number);
    EXPECT_EQ(session.position(), 2u);
    parts.devices[c.part]->failure = DeviceResult::kOk;
    const qrt::Status after = parts.Append(session, {3});
    if (!c.damages) {
      ASSERT_TRUE(after.ok()) << after.ToString();
      EXPECT_EQ(session.logits()[0], Reference({1, 2, 3}, 3));
      continue;
    }
    EXPECT_EQ(after.number(), 5322u) << after.ToString();
    if (c.failure == DeviceResult::kLost) continue;
    ASSERT_TRUE(session.Reset().ok());
    ASSERT_TRUE(parts.Append(session, {5, 6}).ok());
    EXPECT_EQ(session.logits()[0], Reference({5, 6}, 3)) << "a state was not reset";
  }
}

TEST(EngineParts, ACopyThatFails) {
  for (const size_t part : {size_t{0}, size_t{1}}) {
    Parts parts({true, true});
    qrt::Session session(*parts.engine, nullptr);
    ASSERT_TRUE(session.Init({32}, nullptr).ok());
    parts.devices[part]->copies_fail = true;
    EXPECT_EQ(parts.Append(session, {3}).number(), 5011u);
    EXPECT_EQ(parts.Append(session, {3}).number(), 5322u);
    EXPECT_EQ(parts.engine->counters().transfers, 0u);
  }
}

TEST(EngineParts, SnapshotsHoldAllOfThem) {
  Parts parts({false, true, false});
  qrt::Session session(*parts.engine, nullptr), other(*parts.engine, nullptr);
  ASSERT_TRUE(session.Init({32}, nullptr).ok());
  ASSERT_TRUE(other.Init({32}, nullptr).ok());
  ASSERT_TRUE(parts.Append(session, {1, 2, 3}).ok());
  std::vector<uint8_t> snapshot(session.SaveSize());
  EXPECT_EQ(snapshot.size(), 88u + 3 * 64u);
  ASSERT_TRUE(session.Save(snapshot.data()).ok());
  ASSERT_TRUE(other.Restore(snapshot.data(), snapshot.size()).ok());
  ASSERT_TRUE(parts.Append(other, {4}).ok());
  EXPECT_EQ(other.logits()[0], Reference({1, 2, 3, 4}, 3));
}

TEST(EngineParts, CheckpointsAndKeptPrefixesHoldAllOfThem) {
  Parts parts({false, true, false});
  parts.engine->KeepPrefixes(1 << 20, nullptr);
  qrt::Session session(*parts.engine, nullptr), other(*parts.engine, nullptr);
  ASSERT_TRUE(session.Init({64}, nullptr).ok());
  ASSERT_TRUE(other.Init({32}, nullptr).ok());
  std::vector<int32_t> tokens(16, 2);
  ASSERT_TRUE(parts.Append(session, tokens).ok());
  qrt::Checkpoint checkpoint(session);
  ASSERT_TRUE(checkpoint.Take(nullptr).ok());
  EXPECT_EQ(checkpoint.bytes(), 3 * 64u);
  uint64_t kept = 0;
  ASSERT_TRUE(parts.engine->prefixes()->Keep(session, tokens, &kept).ok());
  EXPECT_EQ(kept, 16u);
  ASSERT_TRUE(parts.Append(session, {1, 5, 6}).ok());
  tokens.push_back(4);
  ASSERT_TRUE(session.RewindTo(checkpoint).ok());
  ASSERT_TRUE(parts.Append(session, {4}).ok());
  EXPECT_EQ(session.logits()[0], Reference(tokens, 3)) << "behind a checkpoint";
  qrt::PrefixStore::Found found;
  ASSERT_TRUE(parts.engine->prefixes()->Begin(other, tokens, &found).ok());
  EXPECT_EQ(found.reused, 16u);
  ASSERT_TRUE(parts.Append(other, {4}).ok());
  EXPECT_EQ(other.logits()[0], Reference(tokens, 3)) << "behind a kept prefix";
  // A part whose device fails leaves a session that is neither here nor there.
  parts.devices[1]->copies_fail = true;
  EXPECT_EQ(session.RewindTo(checkpoint).number(), 5011u);
  EXPECT_EQ(parts.engine->prefixes()->Begin(other, tokens, &found).number(), 5011u);
  parts.devices[1]->copies_fail = false;
  for (qrt::Session* failed : {&session, &other}) {
    EXPECT_EQ(parts.Append(*failed, {4}).number(), 5322u);
    ASSERT_TRUE(failed->Reset().ok());
    ASSERT_TRUE(parts.Append(*failed, {3}).ok());
    EXPECT_EQ(failed->logits()[0], Reference({3}, 3));
  }
}

TEST(EngineParts, PartsThatDoNotFit) {
  const auto create = [](std::vector<qrt::ModelPlan> plans) {
    std::vector<qrt::Engine::Part> parts;
    for (size_t i = 0; i < plans.size(); ++i) {
      parts.push_back({plans[i], std::make_unique<PartDevice>(i == 0, i + 1 == plans.size(), false)});
    }
    std::unique_ptr<qrt::Engine> engine;
    return qrt::Engine::Create(std::move(parts), nullptr, &engine);
  };
  EXPECT_TRUE(create({PlanOfPart(true, false), PlanOfPart(false, true)}).ok());
  EXPECT_EQ(create({PlanOfPart(true, true), PlanOfPart(false, true)}).number(), 5320u) << "nothing is left";
  EXPECT_EQ(create({PlanOfPart(true, false), PlanOfPart(true, true)}).number(), 5320u) << "tokens again";
  qrt::ModelPlan small = PlanOfPart(true, false);
  small.programs.pop_back();
  EXPECT_EQ(create({small, PlanOfPart(false, true)}).number(), 5320u) << "fewer rows";
  qrt::ModelPlan wide = PlanOfPart(true, false), last = PlanOfPart(false, true);
  wide.embedding_length = last.embedding_length = 100;
  EXPECT_EQ(create({wide, last}).number(), 5320u) << "rows that do not fit an arena";
}

}  // namespace
