// Memory: what is planned is what is taken, a token takes none, and running out at any point is an error that
// leaves everything usable.
#include <gtest/gtest.h>

#include <cmath>

#include "runtime/engine/speculation.h"
#include "tests/unit/runtime/counting_allocator.h"
#include "tests/unit/runtime/engine_drafting_toy.h"
#include "tests/unit/runtime/engine_memory_hooks.h"
#include "tests/unit/runtime/engine_toy.h"

namespace {

using toy::Append;
using toy::Tokens;
using toy::Toy;
using toy::ToySession;

TEST(EngineMemory, WhatIsPlannedIsWhatIsTaken) {
  CountingAllocator counting;
  const qrt_allocator allocator = counting.allocator();
  {
    const qrt::ModelPlan plan = toy::Plan(toy::Ladder());
    Toy toy(toy::Ladder(), 1, &allocator);
    ASSERT_TRUE(toy.status.ok());
    const qrt::Checked engine =
        qrt::Engine::MemoryBytes(plan, qrt::Schedule(plan.programs), false) + toy.device->scratch_bytes();
    EXPECT_EQ(counting.live, engine.value());
    EXPECT_EQ(toy.engine->memory_bytes(), engine.value());
    for (const uint64_t context : {1u, 64u, 65u, 1000u}) {
      const uint64_t before = counting.live;
      ToySession s(toy, context, &allocator);
      ASSERT_TRUE(s.status.ok());
      EXPECT_EQ(counting.live - before, qrt::Session::SizesFor(plan, {context}).total().value())
          << "context " << context;
      ASSERT_TRUE(Append(s.session, Tokens(context)).ok());
      EXPECT_EQ(counting.live - before, qrt::Session::SizesFor(plan, {context}).total().value())
          << "after use";
    }
    EXPECT_EQ(counting.live, engine.value()) << "sessions gave back less than they took";
  }
  EXPECT_EQ(counting.live, 0u) << "the engine gave back less than it took";
}

TEST(EngineMemory, InjectedMemoryIsZeroedBeforeUse) {
  CountingAllocator counting;
  const qrt_allocator allocator = counting.allocator();
  Toy toy(toy::Ladder(), 1, &allocator);
  ToySession s(toy, 100, &allocator);
  ASSERT_TRUE(Append(s.session, Tokens(50)).ok());
  EXPECT_EQ(std::vector<float>(s.session.logits(), s.session.logits() + toy::kVocab),
            toy::Reference(Tokens(50))[49]);
}

TEST(EngineMemory, GuessedTokensTakeNone) {
  drafting::DraftingToy toy;
  ASSERT_TRUE(toy.status.ok()) << toy.status.ToString();
  const qrt::ModelPlan plan = drafting::PlanOf(drafting::Both());
  const qrt::Checked planned =
      qrt::Engine::MemoryBytes(plan, qrt::Schedule(plan.programs), false) + toy.device->scratch_bytes();
  EXPECT_EQ(toy.engine->memory_bytes(), planned.value());
  const std::pair<qrt_draft, uint32_t> drafts[] = {
      {QRT_DRAFT_MODEL, 4}, {QRT_DRAFT_LOOKUP, 4}, {QRT_DRAFT_MODEL, QRT_DRAFT_TOKENS_AUTO}};
  for (const auto& [draft, length] : drafts) {
    const auto session = toy.Make(draft, length);
    ASSERT_TRUE(toy.made.ok()) << toy.made.ToString();
    ASSERT_TRUE(Append(*session, Tokens(100)).ok());
    qrt::Sampler sampler = toy::MakeSampler({});
    int32_t chosen[16] = {3};
    size_t guessed = 0;
    const long before = allocations.load();
    for (int i = 0; i < 60; ++i) {
      qrt::Generated generated;
      const bool ok = qrt::Generate(*session, chosen[0], sampler, {}, chosen, &generated).ok();
      guessed += generated.guessed;
      if (!ok) FAIL() << "step " << i;
    }
    const long after = allocations.load();
    EXPECT_EQ(after, before) << "operator new was called while tokens were guessed, draft " << draft;
    EXPECT_GT(guessed, 0u);
  }
}

TEST(EngineMemory, TokensTakeNone) {
  CountingAllocator counting;
  const qrt_allocator allocator = counting.allocator();
  Toy toy(toy::Ladder(), 2, &allocator);
  ToySession a(toy, 2000, &allocator), b(toy, 2000, &allocator);
  const std::vector<int32_t> tokens = Tokens(300);
  const auto feed = [&](size_t count) {
    bool ok = true;
    const qrt_append_options options = toy::Options(QRT_LOGITS_LAST);
    for (qrt::Session* session : {&a.session, &b.session}) {
      qrt::Batch batch(*toy.engine);
      ok = ok && batch.Add(*session, tokens.data(), count, &options).ok() && batch.Run().ok();
    }
    qrt::Batch both(*toy.engine);
    ok = ok && both.Add(a.session, tokens.data(), 1, &options).ok() &&
         both.Add(b.session, tokens.data(), 1, &options).ok();
    return ok && both.Run().ok();
  };
  const long before = allocations.load();
  const uint64_t calls = counting.calls;
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(feed(1));
  ASSERT_TRUE(feed(300));
  EXPECT_EQ(allocations.load(), before) << "operator new was called while tokens were fed";
  EXPECT_EQ(counting.calls, calls) << "the injected allocator was called while tokens were fed";
}

TEST(EngineMemory, RunningOutAnywhereIsAnErrorAndNothingLeaks) {
  const auto expected = toy::Reference(Tokens(30));
  bool finished = false;
  long n = 0;
  for (; n < 10000 && !finished; ++n) {
    CountingAllocator counting;
    const qrt_allocator allocator = counting.allocator();
    const std::vector<int32_t> tokens = Tokens(30);
    const long start = allocations.load();
    fail_at.store(start + n);
    bool threw = false;
    long used = LONG_MAX;  // allocations until the tokens were fed; fewer than n: the failure was not reached
    qrt::Code code = qrt::Code::kOk;
    try {
      auto device = std::make_unique<toy::Device>(toy::Ladder(), qrt::ThreadPool::Create(3, 1), &allocator);
      std::unique_ptr<qrt::Engine> engine;
      qrt::Status status =
          qrt::Engine::Create(toy::Plan(toy::Ladder()), std::move(device), &allocator, &engine);
      if (status.ok()) {
        qrt::Session session(*engine, nullptr);
        status = session.Init({100}, &allocator);
        if (status.ok()) status = Append(session, tokens);
        used = allocations.load() - start;
        fail_at.store(-1);
        if (status.ok()) {
          EXPECT_EQ(std::vector<float>(session.logits(), session.logits() + toy::kVocab), expected[29])
              << "allocation " << n;
        }
      }
      code = status.code();
    } catch (const std::bad_alloc&) {
      threw = true;  // what the C API turns into QRT_OUT_OF_MEMORY
    }
    fail_at.store(-1);
    EXPECT_EQ(counting.live, 0u) << "leak when allocation " << n << " failed";
    if (used > n) {
      EXPECT_TRUE(threw || code == qrt::Code::kOutOfMemory)
          << "allocation " << n << " of " << used << " failed unnoticed, code " << static_cast<int>(code);
    } else {
      EXPECT_FALSE(threw);
      EXPECT_EQ(code, qrt::Code::kOk);
      finished = true;
    }
  }
  EXPECT_TRUE(finished);
  EXPECT_GT(n, 10) << "the failures cover next to nothing";
}

// To say what is wrong takes memory: by then the sessions know what they took, and go on from there.
TEST(EngineMemory, AFaultThatCannotBeToldLeavesNobodyBehind) {
  const std::vector<int32_t> tokens = Tokens(9);
  bool told = false;
  for (long fails = 0; !told; ++fails) {
    ASSERT_LT(fails, 50);
    Toy toy;
    ToySession s(toy);
    ASSERT_TRUE(Append(s.session, {tokens.begin(), tokens.begin() + 6}).ok());
    qrt::SamplerOptions greedy;
    greedy.temperature = 0;
    qrt::Sampler sampler = toy::MakeSampler(greedy);
    toy.device->bend = [](float logit, uint32_t v) { return v == 11 ? NAN : logit; };
    const std::vector<int32_t> some(tokens.begin() + 6, tokens.begin() + 8);
    int32_t next = -1;
    fail_at = allocations + fails;
    try {
      told = toy::AppendSampled(s.session, some, &sampler, &next).number() == 5325;
    } catch (const std::bad_alloc&) {
    }
    fail_at = -1;
    toy.device->bend = nullptr;
    const auto at = static_cast<ptrdiff_t>(s.session.position());
    ASSERT_TRUE(at == 6 || at == 8) << "allocation " << fails << ": at " << at;
    ASSERT_TRUE(Append(s.session, {tokens.begin() + at, tokens.end()}).ok());
    EXPECT_EQ(std::vector<float>(s.session.logits(), s.session.logits() + toy::kVocab),
              toy::Reference(tokens).back())
        << "allocation " << fails << ": what was taken is fed again";
  }
}

}  // namespace
