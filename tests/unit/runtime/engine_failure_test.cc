// Devices that run out of memory, fail or are lost: a status, and nothing else breaks.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/runtime/engine_toy.h"

namespace {

using qrt::Code;
using qrt::DeviceResult;
using toy::Append;
using toy::Tokens;
using toy::Toy;
using toy::ToySession;

std::vector<float> Logits(const qrt::Session& session) {
  return std::vector<float>(session.logits(), session.logits() + toy::kVocab);
}

TEST(EngineFailure, AFailedStepDamagesItsSessionsOnly) {
  struct Case {
    DeviceResult result;
    Code code;
    uint32_t number;
  };
  for (const Case& c : {Case{DeviceResult::kFailed, Code::kDeviceFailed, 5011},
                        Case{DeviceResult::kOutOfMemory, Code::kOutOfMemory, 6001}}) {
    Toy toy;
    ToySession hit(toy), spared(toy);
    const std::vector<int32_t> tokens = Tokens(100);
    ASSERT_TRUE(Append(spared.session, {tokens.begin(), tokens.begin() + 10}).ok());
    toy.device->failure = c.result;
    toy.device->fail_after = 1;
    const qrt::Status failed = Append(hit.session, tokens);
    EXPECT_EQ(failed.code(), c.code) << failed.ToString();
    EXPECT_EQ(failed.number(), c.number);
    EXPECT_NE(failed.message().find("the toy's driver says no"), std::string::npos) << failed.ToString();
    EXPECT_NE(failed.note().find("toy"), std::string::npos) << failed.ToString();
    EXPECT_EQ(hit.session.position(), 64u) << "whole steps stay counted";
    EXPECT_EQ(hit.session.logits(), nullptr);

    toy.device->fail_after = -1;
    const size_t steps = toy.device->steps.size();
    EXPECT_EQ(Append(hit.session, {1}).number(), 5322u) << "undefined content must not be built upon";
    std::vector<uint8_t> bytes(hit.session.SaveSize());
    EXPECT_EQ(hit.session.Save(bytes.data()).number(), 5322u) << "nor saved";
    EXPECT_EQ(toy.device->steps.size(), steps);
    ASSERT_TRUE(Append(spared.session, {tokens.begin() + 10, tokens.end()}).ok());
    EXPECT_EQ(Logits(spared.session), toy::Reference(tokens)[99]);
    ASSERT_TRUE(hit.session.Reset().ok());
    ASSERT_TRUE(Append(hit.session, tokens).ok());
    EXPECT_EQ(Logits(hit.session), toy::Reference(tokens)[99]) << "a reset makes it whole";
  }
}

TEST(EngineFailure, ASnapshotMakesADamagedSessionWhole) {
  Toy toy;
  ToySession source(toy), hit(toy);
  const std::vector<int32_t> tokens = Tokens(50);
  ASSERT_TRUE(Append(source.session, {tokens.begin(), tokens.begin() + 30}).ok());
  std::vector<uint8_t> bytes(source.session.SaveSize());
  ASSERT_TRUE(source.session.Save(bytes.data()).ok());
  toy.device->failure = DeviceResult::kFailed;
  toy.device->fail_after = 0;
  EXPECT_EQ(Append(hit.session, Tokens(3, 5)).code(), Code::kDeviceFailed);
  toy.device->fail_after = -1;
  ASSERT_TRUE(hit.session.Restore(bytes.data(), bytes.size()).ok());
  ASSERT_TRUE(Append(hit.session, {tokens.begin() + 30, tokens.end()}).ok());
  EXPECT_EQ(Logits(hit.session), toy::Reference(tokens)[49]);
}

TEST(EngineFailure, AFailedHeadLeavesTheSequenceWhole) {
  Toy toy;
  ToySession s(toy);
  const std::vector<int32_t> tokens = Tokens(30);
  toy.device->failure = DeviceResult::kFailed;
  toy.device->fail_after = 1;  // the trunk runs, the head does not
  EXPECT_EQ(Append(s.session, {tokens.begin(), tokens.begin() + 20}).code(), Code::kDeviceFailed);
  EXPECT_EQ(s.session.position(), 20u);
  EXPECT_EQ(s.session.logits(), nullptr);
  toy.device->fail_after = -1;
  ASSERT_TRUE(Append(s.session, {tokens.begin() + 20, tokens.end()}).ok());
  EXPECT_EQ(Logits(s.session), toy::Reference(tokens)[29]);
}

TEST(EngineFailure, FailedCopiesAreStatuses) {
  Toy toy;
  ToySession s(toy), other(toy);
  const std::vector<int32_t> tokens = Tokens(20);
  ASSERT_TRUE(Append(s.session, tokens).ok());
  std::vector<uint8_t> bytes(s.session.SaveSize());
  toy.device->failure = DeviceResult::kFailed;
  toy.device->fail_after = 0;
  EXPECT_EQ(s.session.Save(bytes.data()).code(), Code::kDeviceFailed);
  toy.device->fail_after = -1;
  ASSERT_TRUE(s.session.Save(bytes.data()).ok()) << "a failed save takes nothing away";
  toy.device->fail_after = 0;
  EXPECT_EQ(other.session.Restore(bytes.data(), bytes.size()).code(), Code::kDeviceFailed);
  EXPECT_EQ(s.session.Reset().code(), Code::kDeviceFailed);
  toy.device->fail_after = -1;
  EXPECT_EQ(Append(other.session, {1}).number(), 5322u) << "half a snapshot is no sequence";
  EXPECT_EQ(Append(s.session, {1}).number(), 5322u) << "half a reset neither";
  ASSERT_TRUE(s.session.Reset().ok());
  ASSERT_TRUE(Append(s.session, tokens).ok());
  EXPECT_EQ(Logits(s.session), toy::Reference(tokens)[19]);
}

TEST(EngineFailure, NoMemoryForASessionIsAStatusAndNothingLeaks) {
  Toy toy;
  toy.device->failure = DeviceResult::kOutOfMemory;
  toy.device->fail_after = 0;
  ToySession refused(toy);
  EXPECT_EQ(refused.status.code(), Code::kOutOfMemory) << refused.status.ToString();
  EXPECT_NE(refused.status.note().find("session of 512 tokens"), std::string::npos)
      << refused.status.ToString();
  EXPECT_EQ(toy.device->buffers, 0);
  toy.device->fail_after = -1;
  EXPECT_TRUE(ToySession(toy).status.ok());
  EXPECT_EQ(toy.device->buffers, 0) << "the session gave its memory back";
}

TEST(EngineFailure, ALostDeviceStaysLostAndOthersGoOn) {
  const std::vector<int32_t> tokens = Tokens(40);
  Toy other;
  ToySession unaffected(other);
  ASSERT_TRUE(Append(unaffected.session, {tokens.begin(), tokens.begin() + 20}).ok());
  std::vector<uint8_t> bytes;
  {
    Toy toy;
    ToySession a(toy), b(toy);
    ASSERT_TRUE(Append(b.session, {tokens.begin(), tokens.begin() + 20}).ok());
    bytes.resize(b.session.SaveSize());
    ASSERT_TRUE(b.session.Save(bytes.data()).ok());
    toy.device->failure = DeviceResult::kLost;
    toy.device->fail_after = 0;
    const qrt::Status lost = Append(a.session, tokens);
    EXPECT_EQ(lost.code(), Code::kDeviceLost) << lost.ToString();
    EXPECT_EQ(lost.number(), 5010u);
    toy.device->fail_after = -1;  // a driver that pretends that all is well again
    const int calls = toy.device->failures;
    const size_t steps = toy.device->steps.size();
    EXPECT_EQ(Append(b.session, {1}).code(), Code::kDeviceLost);
    EXPECT_EQ(b.session.Reset().code(), Code::kDeviceLost);
    EXPECT_EQ(a.session.Restore(bytes.data(), bytes.size()).code(), Code::kDeviceLost);
    EXPECT_EQ(ToySession(toy).status.code(), Code::kDeviceLost);
    EXPECT_EQ(toy.device->failures, calls);
    EXPECT_EQ(toy.device->steps.size(), steps) << "a lost device was used";
    EXPECT_EQ(toy.device->buffers, 4);
  }  // sessions and engine can be released; the toy aborts if memory is left
  ASSERT_TRUE(Append(unaffected.session, {tokens.begin() + 20, tokens.end()}).ok());
  EXPECT_EQ(Logits(unaffected.session), toy::Reference(tokens)[39]);
  Toy again;
  ToySession restored(again);
  ASSERT_TRUE(restored.session.Restore(bytes.data(), bytes.size()).ok());
  ASSERT_TRUE(Append(restored.session, {tokens.begin() + 20, tokens.end()}).ok());
  EXPECT_EQ(Logits(restored.session), toy::Reference(tokens)[39]) << "a new engine goes on from a snapshot";
}

TEST(EngineFailure, AFailureInABatchDamagesOnlyTheStepsSessions) {
  Toy toy;
  ToySession a(toy), b(toy), c(toy);
  const std::vector<int32_t> tokens = Tokens(64);
  {
    qrt::Batch batch(*toy.engine);
    ASSERT_TRUE(batch.Add(a.session, tokens.data(), 64, nullptr).ok());
    ASSERT_TRUE(batch.Add(b.session, tokens.data(), 64, nullptr).ok());
    ASSERT_TRUE(batch.Add(c.session, tokens.data(), 8, nullptr).ok());
    toy.device->failure = DeviceResult::kFailed;
    toy.device->fail_after = 2;  // a's step and its head pass, b's step does not
    EXPECT_EQ(batch.Run().code(), Code::kDeviceFailed);
  }
  toy.device->fail_after = -1;
  EXPECT_EQ(Logits(a.session), toy::Reference(tokens)[63]);
  EXPECT_EQ(Append(b.session, {1}).number(), 5322u);
  EXPECT_EQ(c.session.position(), 0u);
  EXPECT_TRUE(Append(c.session, tokens).ok()) << "its turn had not come";
}

TEST(ModelPlan, HeadsBeyondReasonAreRefusedBeforeTheyTakeMemory) {
  qrt::Manifest manifest;
  const auto plan = [&](uint64_t heads) {
    manifest.states = {
        {"blk.0.kv", qrt::StateKind::kKV, 0, {64, 8}, qrt::Element::kF16, 0, 2 * 64 * 8 * 2, 0},
        {"blk.1.kv", qrt::StateKind::kKV, 1, {heads, 1}, qrt::Element::kF16, 2048, 4 * heads, 0}};
    return qrt::PlanOf(manifest, qrt::Hash128());
  };
  ASSERT_TRUE(plan(3).ok());
  EXPECT_EQ(plan(3)->kv_planes.size(), 2 * 64 + 2 * 3u);
  for (const uint64_t heads : {uint64_t{1} << 20, uint64_t{1} << 38}) {
    const qrt::Status status = plan(heads).status();
    EXPECT_EQ(status.number(), 5320u) << status.ToString();
    EXPECT_NE(status.message().find("blk.1.kv"), std::string::npos) << status.ToString();
  }
}

TEST(EngineSnapshot, OneCallCopiesAllOfASession) {
  Toy toy;
  ToySession s(toy);
  ASSERT_TRUE(Append(s.session, Tokens(30)).ok());
  std::vector<uint8_t> bytes(s.session.SaveSize());
  ASSERT_TRUE(s.session.Save(bytes.data()).ok());
  EXPECT_EQ(toy.device->copies, 1) << "state and every KV plane go in one call";
  ASSERT_TRUE(s.session.Restore(bytes.data(), bytes.size()).ok());
  EXPECT_EQ(toy.device->copies, 2);
}

TEST(EngineFailure, AChildOfForkIsToldWhyItCannotTimeStages) {
  Toy toy;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(toy.engine->TimeStages().number() == 5324 ? 0 : 1);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "it said something else than Q5324";
  EXPECT_EQ(toy.engine->TimeStages().number(), 5337u);
}

}  // namespace
