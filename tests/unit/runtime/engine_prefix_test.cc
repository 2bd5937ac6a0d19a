// Kept prefixes and checkpoints of an engine: the bits of a cold start, what stays under the cap, threads,
// and what running out of memory leaves behind. Recurrent state in blocks: tests/programs/step_back.cc.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "runtime/engine/checkpoint.h"
#include "tests/unit/runtime/counting_allocator.h"
#include "tests/unit/runtime/engine_memory_hooks.h"
#include "tests/unit/runtime/engine_parts_toy.h"
#include "tests/unit/runtime/engine_toy.h"

namespace {

using qrt::Code;
using qrt::PrefixStore;
using toy::Append;
using toy::Tokens;
using toy::Toy;
using toy::ToySession;

std::vector<int32_t> First(const std::vector<int32_t>& tokens, size_t count) {
  return {tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(count)};
}

std::vector<int32_t> Behind(const std::vector<int32_t>& tokens, size_t count) {
  return {tokens.begin() + static_cast<ptrdiff_t>(count), tokens.end()};
}

std::vector<float> Logits(const qrt::Session& session) {
  return {session.logits(), session.logits() + toy::kVocab};
}

// Feeds `tokens`, as far as `at`, and keeps that much.
uint64_t Kept(Toy& toy, const std::vector<int32_t>& tokens, size_t at, uint64_t capacity = 512) {
  ToySession source(toy, capacity);
  EXPECT_TRUE(Append(source.session, First(tokens, at), QRT_LOGITS_NONE).ok());
  uint64_t kept = 0;
  const qrt::Status status = toy.engine->prefixes()->Keep(source.session, First(tokens, at), &kept);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return kept;
}

// A session that begins with what is kept of `tokens` has the logits of a cold one. What was found.
PrefixStore::Found Begun(Toy& toy, const std::vector<int32_t>& tokens, uint64_t capacity = 512) {
  ToySession session(toy, capacity);
  EXPECT_TRUE(Append(session.session, Tokens(9, 77)).ok());
  PrefixStore::Found found;
  const qrt::Status status = toy.engine->prefixes()->Begin(session.session, tokens, &found);
  EXPECT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(session.session.position(), found.reused);
  EXPECT_TRUE(Append(session.session, Behind(tokens, found.reused)).ok());
  EXPECT_EQ(Logits(session.session), toy::Reference(tokens).back()) << found.reused << " tokens reused";
  return found;
}

Toy WithCode(const char* code) {
  Toy toy;
  auto device = std::make_unique<toy::Device>(toy::Ladder(), qrt::ThreadPool::Create(1, 64));
  device->code = code;
  qrt::ModelPlan plan = toy::Plan(toy::Ladder());
  toy.device = device.get();
  toy.status = qrt::Engine::Create(std::move(plan), std::move(device), nullptr, &toy.engine);
  toy.engine->KeepPrefixes(1 << 20, nullptr);
  return toy;
}

std::vector<uint8_t> Saved(const qrt::Session& session) {
  std::vector<uint8_t> bytes(session.SaveSize());
  EXPECT_TRUE(session.Save(bytes.data()).ok());
  return bytes;
}

// Other code rounds otherwise, and a prefix promises the bits of a cold start.
TEST(EnginePrefix, WhatOtherCodeComputedIsNotKept) {
  const std::vector<int32_t> tokens = Tokens(40);
  Toy here = WithCode("here"), there = WithCode("there");
  ToySession source(there), session(here), copy(here), back(there);
  ASSERT_TRUE(Append(source.session, First(tokens, 20)).ok());
  const std::vector<uint8_t> bytes = Saved(source.session);
  ASSERT_TRUE(back.session.Restore(bytes.data(), bytes.size()).ok());
  EXPECT_FALSE(back.session.foreign()) << "its own snapshot";
  ASSERT_TRUE(session.session.Restore(bytes.data(), bytes.size()).ok());
  EXPECT_TRUE(session.session.foreign());
  ASSERT_TRUE(Append(session.session, Behind(First(tokens, 32), 20)).ok());
  uint64_t kept = 1;
  ASSERT_TRUE(here.engine->prefixes()->Keep(session.session, First(tokens, 32), &kept).ok());
  EXPECT_EQ(kept, 0u);
  // So is its copy, and its own snapshot on either.
  ASSERT_TRUE(copy.session.CopyOf(session.session, nullptr).ok());
  EXPECT_TRUE(copy.session.foreign());
  const std::vector<uint8_t> mixed = Saved(session.session);
  for (ToySession* to : {&back, &copy}) {
    ASSERT_TRUE(to->session.Restore(mixed.data(), mixed.size()).ok());
    EXPECT_TRUE(to->session.foreign());
  }
  // Until it is another sequence.
  ASSERT_TRUE(session.session.Reset().ok());
  EXPECT_FALSE(session.session.foreign());
  EXPECT_EQ(Kept(here, tokens, 32), 32u);
  PrefixStore::Found found;
  ASSERT_TRUE(here.engine->prefixes()->Begin(copy.session, tokens, &found).ok());
  EXPECT_EQ(found.reused, 32u);
  EXPECT_FALSE(copy.session.foreign());
}

TEST(EnginePrefix, APromptBeginsWithTheLongestPrefixThatWasKept) {
  Toy toy;
  toy.engine->KeepPrefixes(1 << 20, nullptr);
  const std::vector<int32_t> tokens = Tokens(200);
  EXPECT_EQ(Begun(toy, tokens).reused, 0u);
  EXPECT_EQ(Kept(toy, tokens, 64), 64u);
  EXPECT_EQ(Kept(toy, tokens, 160, 1000), 160u);
  EXPECT_EQ(Begun(toy, tokens).reused, 160u);
  EXPECT_EQ(Begun(toy, First(tokens, 161), 4000).reused, 160u);
  EXPECT_EQ(Begun(toy, First(tokens, 160)).reused, 64u) << "one token must be left to feed";
  EXPECT_EQ(Begun(toy, First(tokens, 159)).reused, 64u);
  EXPECT_EQ(Begun(toy, First(tokens, 64)).reused, 0u);

  // Another prompt branches off at 100: what is shared is told, whole blocks of it, and can be kept.
  std::vector<int32_t> other = First(tokens, 100);
  for (const int32_t token : Tokens(60, 5)) other.push_back(token);
  const PrefixStore::Found found = Begun(toy, other);
  EXPECT_EQ(found.reused, 64u);
  EXPECT_EQ(found.shared, 96u);
  const uint64_t before = toy.engine->prefixes()->counters().bytes;
  EXPECT_EQ(Kept(toy, other, 96), 96u);
  EXPECT_EQ(Begun(toy, other).reused, 96u);
  EXPECT_LT(toy.engine->prefixes()->counters().bytes - before, toy::kStateBytes + 64)
      << "blocks that were there are kept twice";
  const PrefixStore::Counters counters = toy.engine->prefixes()->counters();
  EXPECT_EQ(counters.prefixes, 3u);
  EXPECT_EQ(counters.hits, 6u);
  EXPECT_EQ(counters.reused, 160u + 160 + 64 + 64 + 64 + 96);
}

// A range of a copy is a wait for a GPU: of 130 blocks and two planes there would be 260 each way.
TEST(EnginePrefix, ADeviceThatWaitsForEachCopyHasFewOfThem) {
  const std::vector<int32_t> tokens = Tokens(130 * 16 + 5);
  for (const bool waits : {false, true}) {
    Toy toy;
    toy.engine->KeepPrefixes(1 << 20, nullptr);
    toy.device->waits = waits;
    EXPECT_EQ(Kept(toy, tokens, 70 * 16, 4000), 70u * 16);
    toy.device->copied_ranges = 0;
    EXPECT_EQ(Kept(toy, tokens, 130 * 16, 4000), 130u * 16) << "behind what is there";
    EXPECT_EQ(toy.device->copied_ranges, waits ? 2u + 1 : 2u * 60 + 1) << "60 blocks, and the state";
    toy.device->copied_ranges = 0;
    EXPECT_EQ(Begun(toy, tokens, 3000).reused, 130u * 16);
    EXPECT_EQ(toy.device->copied_ranges, waits ? 3 * 2u + 1 : 2u * 130 + 1) << "64 blocks at a time";
  }
}

TEST(EnginePrefix, OfStateInLongerBlocksNothingIsKept) {
  for (const uint32_t block : {16u, 64u}) {
    qrt::ModelPlan plan = toy::Plan(toy::Ladder());
    plan.state_block = block;
    auto device = std::make_unique<toy::Device>(toy::Ladder(), qrt::ThreadPool::Create(1, 64));
    std::unique_ptr<qrt::Engine> engine;
    ASSERT_TRUE(qrt::Engine::Create(std::move(plan), std::move(device), nullptr, &engine).ok());
    engine->KeepPrefixes(1 << 20, nullptr);
    EXPECT_EQ(engine->prefixes() != nullptr, block == 16);
  }
}

TEST(EnginePrefix, WhatCannotBeKeptIsRefused) {
  Toy toy;
  toy.engine->KeepPrefixes(1 << 20, nullptr);
  ToySession session(toy);
  const std::vector<int32_t> tokens = Tokens(40);
  ASSERT_TRUE(Append(session.session, tokens).ok());
  uint64_t kept = 1;
  const qrt::Status between = toy.engine->prefixes()->Keep(session.session, tokens, &kept);
  EXPECT_EQ(between.number(), 5351u) << between.ToString();
  EXPECT_EQ(kept, 0u);
  const qrt::Status other = toy.engine->prefixes()->Keep(session.session, First(tokens, 32), &kept);
  EXPECT_EQ(other.number(), 5351u) << other.ToString();
  EXPECT_EQ(toy.engine->prefixes()->counters().bytes, 0u);
  // A context that the prefix does not fit into takes less of it.
  EXPECT_EQ(Kept(toy, tokens, 16), 16u);
  EXPECT_EQ(Kept(toy, tokens, 32), 32u);
  ToySession small(toy, 20);
  PrefixStore::Found found;
  ASSERT_TRUE(toy.engine->prefixes()->Begin(small.session, tokens, &found).ok());
  EXPECT_EQ(found.reused, 16u);
}

TEST(EnginePrefix, TheLeastRecentlyUsedMakesWayAndWhatIsPinnedStays) {
  Toy measure;
  measure.engine->KeepPrefixes(1 << 20, nullptr);
  Kept(measure, Tokens(64), 64);
  const uint64_t one = measure.engine->prefixes()->counters().bytes;

  Toy toy;
  toy.engine->KeepPrefixes(3 * one, nullptr);
  PrefixStore& store = *toy.engine->prefixes();
  const auto prompt = [](uint64_t seed) { return Tokens(65, seed); };
  for (uint64_t seed = 1; seed <= 3; ++seed) EXPECT_EQ(Kept(toy, prompt(seed), 64), 64u);
  EXPECT_EQ(store.counters().bytes, 3 * one);
  EXPECT_EQ(Begun(toy, prompt(1)).reused, 64u);  // used: the second is the oldest now
  EXPECT_EQ(Kept(toy, prompt(4), 64), 64u);
  EXPECT_EQ(Begun(toy, prompt(2)).reused, 0u);
  EXPECT_EQ(Begun(toy, prompt(2)).shared, 0u) << "blocks stayed that nothing begins from";
  for (const uint64_t seed : {1u, 3u, 4u}) EXPECT_EQ(Begun(toy, prompt(seed)).reused, 64u) << seed;

  EXPECT_EQ(store.Pin(prompt(1)), 64u);
  EXPECT_EQ(store.Pin(prompt(9)), 0u);
  for (uint64_t seed = 10; seed < 20; ++seed) {
    EXPECT_EQ(Kept(toy, prompt(seed), 64), 64u);
    EXPECT_LE(store.counters().bytes, 3 * one);
  }
  EXPECT_EQ(Begun(toy, prompt(1)).reused, 64u) << "what was pinned is gone";
  EXPECT_EQ(Kept(toy, Tokens(177, 30), 176), 0u) << "there is no room beside what is pinned";
  EXPECT_EQ(Begun(toy, prompt(19)).reused, 64u) << "something made way in vain";
  EXPECT_EQ(store.Unpin(First(prompt(1), 48)).number(), 5352u);
  EXPECT_TRUE(store.Unpin(First(prompt(1), 64)).ok());
  EXPECT_EQ(store.Unpin(First(prompt(1), 64)).number(), 5352u);
  EXPECT_EQ(Kept(toy, Tokens(177, 30), 176), 176u);
  EXPECT_LE(store.counters().bytes, 3 * one);
  EXPECT_EQ(Begun(toy, Tokens(177, 30)).reused, 176u);
}

TEST(EnginePrefix, WithKvAloneEveryBlockEndsOneAndTheLastGoFirst) {
  Toy toy;
  qrt::ModelPlan plan = toy::Plan(toy::Ladder());
  plan.states[0].is_trace = true;  // for the store: nothing depends on it
  auto device = std::make_unique<toy::Device>(toy::Ladder(), qrt::ThreadPool::Create(1, 1));
  ASSERT_TRUE(qrt::Engine::Create(plan, std::move(device), nullptr, &toy.engine).ok());
  constexpr uint64_t kBlocks = 10;
  uint64_t block = 0;
  {
    PrefixStore measure(*toy.engine, 1 << 20, nullptr);
    ToySession session(toy);
    uint64_t kept = 0;
    ASSERT_TRUE(Append(session.session, Tokens(16)).ok());
    ASSERT_TRUE(measure.Keep(session.session, Tokens(16), &kept).ok());
    block = measure.counters().bytes;
  }
  toy.engine->KeepPrefixes(kBlocks * block, nullptr);
  PrefixStore& store = *toy.engine->prefixes();
  const auto found = [&](const std::vector<int32_t>& tokens) {
    ToySession session(toy);
    PrefixStore::Found found;
    EXPECT_TRUE(store.Begin(session.session, tokens, &found).ok());
    EXPECT_EQ(found.reused, found.shared);
    return found.reused;
  };
  // Two that share three blocks: seven and five, nine in all. Sessions step back to a block's end by
  // themselves.
  const std::vector<int32_t> one = Tokens(16 * 7 + 5);
  std::vector<int32_t> other = First(one, 50);
  for (const int32_t token : Tokens(35, 3)) other.push_back(token);
  EXPECT_EQ(Kept(toy, one, one.size()), 16u * 7);
  EXPECT_EQ(Kept(toy, other, other.size()), 16u * 5);
  EXPECT_EQ(store.counters().bytes, 9 * block);
  EXPECT_EQ(store.counters().prefixes, 2u);
  EXPECT_EQ(found(one), 16u * 7);
  EXPECT_EQ(found(First(one, 40)), 32u);
  // Three more blocks: of what was used last the least, `other`, both of its own go.
  EXPECT_EQ(Kept(toy, Tokens(48, 9), 48), 48u);
  EXPECT_EQ(found(other), 48u);
  EXPECT_EQ(found(one), 16u * 7);
  EXPECT_EQ(store.Pin(First(one, 70)), 64u);
  for (uint64_t seed = 20; seed < 25; ++seed) EXPECT_EQ(Kept(toy, Tokens(96, seed), 96), 96u);
  EXPECT_EQ(store.counters().bytes, kBlocks * block);
  EXPECT_EQ(store.counters().prefixes, 2u);
  EXPECT_EQ(found(one), 64u) << "four blocks are pinned, and no more";
  EXPECT_TRUE(store.Unpin(First(one, 64)).ok());
  EXPECT_EQ(Kept(toy, Tokens(160, 30), 160), 160u);
  EXPECT_EQ(found(one), 0u);
}

TEST(EnginePrefix, SessionsOnSeveralThreadsShareThem) {
  Toy measure;
  measure.engine->KeepPrefixes(1 << 20, nullptr);
  Kept(measure, Tokens(64), 64);
  Toy toy;
  toy.engine->KeepPrefixes(4 * measure.engine->prefixes()->counters().bytes, nullptr);
  std::vector<std::vector<int32_t>> prompts;
  for (uint64_t seed = 0; seed < 6; ++seed) {
    prompts.push_back(First(Tokens(100), 16 * (seed % 3)));
    for (const int32_t token : Tokens(61, seed)) prompts.back().push_back(token);
  }
  std::vector<std::vector<float>> expected;
  for (const auto& prompt : prompts) expected.push_back(toy::Reference(prompt).back());
  std::atomic<int> wrong{0};
  const auto work = [&](size_t thread) {
    ToySession session(toy, 200 + 64 * thread);
    PrefixStore& store = *toy.engine->prefixes();
    for (size_t i = 0; i < 60; ++i) {
      const size_t which = toy::Mix(thread, i) % prompts.size();
      const std::vector<int32_t>& prompt = prompts[which];
      PrefixStore::Found found;
      bool ok = store.Begin(session.session, prompt, &found).ok();
      const size_t end = (prompt.size() - 1) / 16 * 16;
      if (found.reused < end) {
        uint64_t kept = 0;
        ok = ok && Append(session.session, Behind(First(prompt, end), found.reused), QRT_LOGITS_NONE).ok();
        ok = ok && store.Keep(session.session, First(prompt, end), &kept).ok();
      }
      if (i % 7 == thread && store.Pin(prompt) == end) ok = ok && store.Unpin(First(prompt, end)).ok();
      ok = ok && Append(session.session, Behind(prompt, session.session.position())).ok();
      wrong += !ok || Logits(session.session) != expected[which];
    }
  };
  std::vector<std::thread> threads;
  for (size_t thread = 0; thread < 4; ++thread) threads.emplace_back(work, thread);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_LE(toy.engine->prefixes()->counters().bytes, 4 * measure.engine->prefixes()->counters().bytes);
}

// Calls `body` with every allocation failing in turn, until it needs no more of them, and `after_failure`
// each time that it fails.
template <typename Body, typename Check>
void FailEachAllocation(Body body, Check after_failure) {
  long n = 0;
  for (bool reached = true; reached && n < 1000; ++n) {
    const long start = allocations.load();
    fail_at.store(start + n);
    bool failed = false;
    try {
      failed = !body().ok();
    } catch (const std::bad_alloc&) {
      failed = true;
    }
    fail_at.store(-1);
    reached = failed;
    if (failed) after_failure();
  }
  EXPECT_GT(n, 2) << "the failures cover next to nothing";
  EXPECT_LT(n, 1000);
}

template <typename Body>
void FailEachAllocation(Body body) {
  FailEachAllocation(body, [] {});
}

TEST(EngineParts, ARestoreWithoutMemoryChangesNothing) {
  parts_toy::Parts parts({false, true, false});
  qrt::Session source(*parts.engine, nullptr), target(*parts.engine, nullptr);
  ASSERT_TRUE(source.Init({32}, nullptr).ok() && target.Init({32}, nullptr).ok());
  ASSERT_TRUE(parts.Append(source, {1, 2, 3}).ok() && parts.Append(target, {4, 5}).ok());
  const auto saved = [](const qrt::Session& session) {
    std::vector<uint8_t> bytes(session.SaveSize());
    EXPECT_TRUE(session.Save(bytes.data()).ok());
    return bytes;
  };
  const std::vector<uint8_t> snapshot = saved(source), before = saved(target);
  FailEachAllocation([&] { return target.Restore(snapshot.data(), snapshot.size()); },
                     [&] { EXPECT_EQ(saved(target), before) << "a restore that failed left a part of it"; });
  EXPECT_EQ(saved(target), snapshot);
}

TEST(EnginePrefix, RunningOutOfMemoryLeavesTheStoreWhole) {
  const std::vector<int32_t> tokens = Tokens(97);
  CountingAllocator counting;
  const qrt_allocator allocator = counting.allocator();
  {
    Toy toy;
    toy.engine->KeepPrefixes(1 << 20, &allocator);
    PrefixStore& store = *toy.engine->prefixes();
    ToySession source(toy), target(toy);
    ASSERT_TRUE(Append(source.session, First(tokens, 96)).ok());
    uint64_t kept = 0;
    FailEachAllocation([&]() -> qrt::Status {
      EXPECT_EQ(store.counters().bytes, 0u);
      return store.Keep(source.session, First(tokens, 96), &kept);
    });
    EXPECT_EQ(kept, 96u);
    EXPECT_EQ(store.counters().prefixes, 1u);
    FailEachAllocation([&]() -> qrt::Status {
      PrefixStore::Found found;
      return store.Begin(target.session, tokens, &found);
    });
    ASSERT_TRUE(Append(target.session, Behind(tokens, 96)).ok());
    EXPECT_EQ(Logits(target.session), toy::Reference(tokens).back());
    EXPECT_GT(counting.live, 0u);
  }
  EXPECT_EQ(counting.live, 0u) << "the store gave back less than it took";
}

TEST(EnginePrefix, ADeviceThatFailsOnTheWayLeavesASessionToBeReset) {
  Toy toy;
  toy.engine->KeepPrefixes(1 << 20, nullptr);
  const std::vector<int32_t> tokens = Tokens(65);
  ASSERT_EQ(Kept(toy, tokens, 64), 64u);
  ToySession session(toy);
  toy.device->failure = qrt::DeviceResult::kFailed;
  toy.device->fail_after = 0;
  PrefixStore::Found found;
  EXPECT_EQ(toy.engine->prefixes()->Begin(session.session, tokens, &found).code(), Code::kDeviceFailed);
  toy.device->fail_after = -1;
  EXPECT_EQ(Append(session.session, {1}).number(), 5322u);
  ASSERT_TRUE(toy.engine->prefixes()->Begin(session.session, tokens, &found).ok());
  EXPECT_EQ(found.reused, 64u);
  EXPECT_TRUE(Append(session.session, Behind(tokens, 64)).ok());
  EXPECT_EQ(Logits(session.session), toy::Reference(tokens).back());
}

TEST(EngineCheckpoint, HoldsUntilTheSessionIsTakenBelowIt) {
  Toy toy;
  ToySession session(toy);
  const std::vector<int32_t> tokens = Tokens(120);
  ASSERT_TRUE(Append(session.session, First(tokens, 30)).ok());
  qrt::Checkpoint early(session.session), late(session.session);
  ASSERT_TRUE(early.Take(nullptr).ok());
  EXPECT_EQ(early.bytes(), toy::kStateBytes);
  ASSERT_TRUE(Append(session.session, Behind(First(tokens, 70), 30)).ok());
  ASSERT_TRUE(late.Take(nullptr).ok());
  ASSERT_TRUE(Append(session.session, Behind(tokens, 70)).ok());
  {
    qrt::Checkpoint released(session.session);
    ASSERT_TRUE(released.Take(nullptr).ok());
  }
  ASSERT_TRUE(session.session.RewindTo(late).ok());
  EXPECT_EQ(session.session.logits(), nullptr);
  ASSERT_TRUE(Append(session.session, Behind(tokens, 70)).ok());
  EXPECT_EQ(Logits(session.session), toy::Reference(tokens).back());
  for (const uint64_t seed : {3u, 4u}) {
    ASSERT_TRUE(session.session.RewindTo(early).ok());
    EXPECT_FALSE(late.holds()) << "other tokens may lie before it";
    EXPECT_EQ(session.session.RewindTo(late).number(), 5350u);
    std::vector<int32_t> other = First(tokens, 30);
    for (const int32_t token : Tokens(50, seed)) other.push_back(token);
    ASSERT_TRUE(Append(session.session, Behind(other, 30)).ok());
    EXPECT_EQ(Logits(session.session), toy::Reference(other).back());
  }
  // A device that fails leaves a session that must be reset, which ends what was behind its begin.
  toy.device->failure = qrt::DeviceResult::kFailed;
  toy.device->fail_after = 0;
  EXPECT_EQ(session.session.RewindTo(early).code(), Code::kDeviceFailed);
  toy.device->fail_after = -1;
  EXPECT_EQ(session.session.RewindTo(early).number(), 5322u);
  EXPECT_FALSE(early.holds()) << "a step failed";
  ASSERT_TRUE(session.session.Reset().ok());
  EXPECT_FALSE(early.holds());
  EXPECT_EQ(session.session.RewindTo(early).number(), 5350u);
}

// Every sequence begins with none.
TEST(EngineCheckpoint, TheOneOfNoTokensHoldsInAnySequence) {
  Toy toy;
  ToySession source(toy), session(toy);
  ASSERT_TRUE(Append(source.session, Tokens(50, 3)).ok());
  std::vector<uint8_t> bytes(source.session.SaveSize());
  ASSERT_TRUE(source.session.Save(bytes.data()).ok());
  qrt::Checkpoint none(session.session), later(session.session);
  ASSERT_TRUE(none.Take(nullptr).ok());
  ASSERT_TRUE(Append(session.session, Tokens(30)).ok());
  ASSERT_TRUE(later.Take(nullptr).ok());
  ASSERT_TRUE(session.session.Restore(bytes.data(), bytes.size()).ok());
  EXPECT_FALSE(later.holds());
  EXPECT_TRUE(none.holds());
  ASSERT_TRUE(session.session.RewindTo(none).ok());
  EXPECT_EQ(session.session.position(), 0u);
  const std::vector<int32_t> tokens = Tokens(40, 5);
  ASSERT_TRUE(Append(session.session, tokens).ok());
  EXPECT_EQ(Logits(session.session), toy::Reference(tokens).back());
}

TEST(EngineCheckpoint, RunningOutOfMemoryLeavesTheSessionAsItWas) {
  Toy toy;
  ToySession session(toy);
  const std::vector<int32_t> tokens = Tokens(60);
  ASSERT_TRUE(Append(session.session, First(tokens, 40)).ok());
  CountingAllocator counting;
  const qrt_allocator allocator = counting.allocator();
  qrt::Checkpoint checkpoint(session.session);  // lets go of its memory before the allocator goes
  FailEachAllocation([&] {
    qrt::Checkpoint tried(session.session);
    return tried.Take(&allocator);
  });
  ASSERT_TRUE(checkpoint.Take(&allocator).ok());
  ASSERT_TRUE(Append(session.session, Behind(tokens, 40)).ok());
  FailEachAllocation([&] {
    EXPECT_TRUE(session.session.position() == 60 && checkpoint.holds());
    return session.session.RewindTo(checkpoint);
  });
  EXPECT_EQ(session.session.position(), 40u);
  ASSERT_TRUE(Append(session.session, Behind(tokens, 40)).ok());
  EXPECT_EQ(Logits(session.session), toy::Reference(tokens).back());
}

}  // namespace
