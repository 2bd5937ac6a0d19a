// The public C API: batches of sessions, and what an append chooses.
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/runtime/qrt_api_fixture.h"

namespace {

using namespace qrt_api;  // NOLINT: the fixture of this very test

TEST_F(QrtApi, BatchNamesTheItemThatIsWrong) {
  const Artifact artifact = Open(path());
  const Engine engine = MakeEngine(artifact.get(), 2);
  const Session a = MakeSession(engine.get()), b = MakeSession(engine.get(), 2);
  const std::vector<int32_t> tokens = Tokens(5);
  const qrt_append_options options = Sized<qrt_append_options>();
  qrt_batch_item items[] = {{a.get(), tokens.data(), 5, options}, {b.get(), tokens.data(), 5, options}};
  qrt_error error = Sized<qrt_error>();
  EXPECT_EQ(qrt_engine_append(engine.get(), items, 2, &error), QRT_CONTEXT_FULL);
  EXPECT_STREQ(error.note, "item 1");
  EXPECT_EQ(qrt_session_position(a.get()), 0u) << "no item runs when one is refused";
  items[1].count = 2;
  items[0].options.want = items[1].options.want = QRT_LOGITS_LAST;
  ASSERT_EQ(qrt_engine_append(engine.get(), items, 2, &error), QRT_OK) << Say(error);
  const Session alone = MakeSession(engine.get());
  ASSERT_EQ(qrt_session_append(alone.get(), tokens.data(), 5, nullptr, &error), QRT_OK);
  EXPECT_EQ(std::memcmp(qrt_session_logits(a.get()), qrt_session_logits(alone.get()), 272 * sizeof(float)),
            0);
  ASSERT_EQ(qrt_session_reset(alone.get(), &error), QRT_OK);
  ASSERT_EQ(qrt_session_append(alone.get(), tokens.data(), 2, nullptr, &error), QRT_OK);
  EXPECT_EQ(std::memcmp(qrt_session_logits(b.get()), qrt_session_logits(alone.get()), 272 * sizeof(float)),
            0);
}

// Behind token 1 every logit is NaN.
TEST_F(QrtApi, AFaultOfOneItemIsNamedAndLeavesTheOthersAlone) {
  const Artifact artifact = Open(path());
  const Engine engine = MakeEngine(artifact.get(), 2);
  qrt_sampler_options sampling = Sized<qrt_sampler_options>();
  qrt_sampler* made = nullptr;
  qrt_error error = Sized<qrt_error>();
  ASSERT_EQ(qrt_sampler_defaults(artifact.get(), &sampling, &error), QRT_OK) << Say(error);
  sampling.temperature = 0;
  ASSERT_EQ(qrt_sampler_create(artifact.get(), &sampling, &made, &error), QRT_OK) << Say(error);
  const Sampler sampler(made);
  const std::vector<std::vector<int32_t>> tokens = {{3}, {3, 1}, Tokens(300), {4, 1}};
  std::vector<Session> sessions;
  std::vector<int32_t> next(tokens.size(), -7);
  std::vector<qrt_batch_item> items;
  for (size_t i = 0; i < tokens.size(); ++i) {
    sessions.push_back(MakeSession(engine.get()));
    qrt_append_options options = Sized<qrt_append_options>();
    options.want = QRT_LOGITS_NONE;
    options.sampler = sampler.get();
    options.next = &next[i];
    items.push_back({sessions[i].get(), tokens[i].data(), tokens[i].size(), options});
  }
  EXPECT_EQ(qrt_engine_append(engine.get(), items.data(), items.size(), &error), QRT_NUMERIC_FAULT);
  EXPECT_EQ(error.code, 5325u) << Say(error);
  EXPECT_EQ(std::string(error.note).find("item 1, program "), 0u) << error.note;
  for (size_t i = 0; i < tokens.size(); ++i) {
    EXPECT_EQ(qrt_session_position(sessions[i].get()), tokens[i].size()) << "item " << i;
    int32_t expected = -7;
    if (i % 2 == 0) {
      const Session alone = MakeSession(engine.get());
      items[i].session = alone.get();
      items[i].options.next = &expected;
      ASSERT_EQ(
          qrt_session_append(alone.get(), tokens[i].data(), tokens[i].size(), &items[i].options, &error),
          QRT_OK)
          << Say(error);
    }
    EXPECT_EQ(next[i], expected) << "item " << i;
  }
}

// Whether several choose at once or one for all.
TEST_F(QrtApi, EachItemHasTheTokenOfItsOwnSampler) {
  constexpr size_t kItems = 11;  // more than a head's rows
  const Artifact artifact = Open(path());
  const auto make = [&](uint64_t seed) {
    qrt_sampler_options sampling = Sized<qrt_sampler_options>();
    sampling.temperature = 1;
    sampling.penalty_window = 8;
    sampling.repeat_penalty = 1.5F;
    sampling.seed = seed;
    qrt_sampler* sampler = nullptr;
    EXPECT_EQ(qrt_sampler_create(artifact.get(), &sampling, &sampler, nullptr), QRT_OK);
    return Sampler(sampler);
  };
  std::vector<int32_t> by_threads[2];
  for (const uint32_t threads : {1u, 3u}) {
    const Engine engine = MakeEngine(artifact.get(), threads);
    std::vector<Session> sessions;
    std::vector<Sampler> samplers;
    for (size_t i = 0; i < kItems; ++i) {
      sessions.push_back(MakeSession(engine.get()));
      samplers.push_back(make(i));
    }
    std::vector<int32_t> next(kItems, 7);
    std::vector<int32_t>& all = by_threads[threads > 1];
    for (int step = 0; step < 20; ++step) {
      const std::vector<int32_t> tokens = next;
      std::vector<qrt_batch_item> items;
      for (size_t i = 0; i < kItems; ++i) {
        qrt_append_options options = Sized<qrt_append_options>();
        options.want = QRT_LOGITS_NONE;
        options.sampler = samplers[i].get();
        options.next = &next[i];
        items.push_back({sessions[i].get(), &tokens[i], 1, options});
      }
      qrt_error error = Sized<qrt_error>();
      ASSERT_EQ(qrt_engine_append(engine.get(), items.data(), kItems, &error), QRT_OK) << Say(error);
      for (size_t i = 0; i < kItems; ++i) qrt_sampler_accept(samplers[i].get(), next[i]);
      all.insert(all.end(), next.begin(), next.end());
    }
  }
  EXPECT_EQ(by_threads[1], by_threads[0]);
  std::vector<int32_t> alone;
  const Engine engine = MakeEngine(artifact.get(), 1);
  const Session session = MakeSession(engine.get());
  const Sampler sampler = make(3);
  for (int32_t step = 0, token = 7; step < 20; ++step) {
    qrt_append_options options = Sized<qrt_append_options>();
    options.sampler = sampler.get();
    int32_t next = -1;
    options.next = &next;
    ASSERT_EQ(qrt_session_append(session.get(), &token, 1, &options, nullptr), QRT_OK);
    qrt_sampler_accept(sampler.get(), next);
    token = next;
    EXPECT_EQ(by_threads[0][static_cast<size_t>(step) * kItems + 3], token) << "step " << step;
  }
}

// A callback runs within a step: what others do with their own memory on a CPU does not wait for its end.
TEST_F(QrtApi, SessionsAreMadeSavedAndReleasedWhileAStepRuns) {
  const Artifact artifact = Open(path());
  const Engine engine = MakeEngine(artifact.get(), 2);
  const Session steps = MakeSession(engine.get());
  const std::vector<int32_t> tokens = Tokens(5);
  struct Beside {
    std::promise<void> done;
    bool in_time = false;
  } beside;
  qrt_append_options options = Sized<qrt_append_options>();
  options.want = QRT_LOGITS_LAST;
  options.ctx = &beside;
  options.on_logits = [](void* ctx, qrt_session*, uint64_t, const float*, size_t) -> int32_t {
    Beside& beside = *static_cast<Beside*>(ctx);
    std::future<void> done = beside.done.get_future();
    beside.in_time = done.wait_for(std::chrono::seconds(300)) == std::future_status::ready;
    return 0;
  };
  std::thread others([&] {
    // It may come before the step, which waits for it all the same.
    const Session session = MakeSession(engine.get()), copy = MakeSession(engine.get());
    std::vector<uint8_t> bytes(qrt_session_save_size(session.get()));
    EXPECT_EQ(qrt_session_save(session.get(), bytes.data(), bytes.size(), nullptr, nullptr), QRT_OK);
    EXPECT_EQ(qrt_session_restore(copy.get(), bytes.data(), bytes.size(), nullptr), QRT_OK);
    EXPECT_EQ(qrt_session_reset(session.get(), nullptr), QRT_OK);
    beside.done.set_value();
  });
  qrt_error error = Sized<qrt_error>();
  EXPECT_EQ(qrt_session_append(steps.get(), tokens.data(), tokens.size(), &options, &error), QRT_OK)
      << Say(error);
  others.join();
  EXPECT_TRUE(beside.in_time);
}

TEST_F(QrtApi, ACancelThatCameTooLateIsForgotten) {
  const Artifact artifact = Open(path());
  const Engine engine = MakeEngine(artifact.get(), 1);
  const Session session = MakeSession(engine.get());
  const std::vector<int32_t> tokens = Tokens(5);
  qrt_error error = Sized<qrt_error>();
  ASSERT_EQ(qrt_session_append(session.get(), tokens.data(), 5, nullptr, &error), QRT_OK) << Say(error);
  qrt_session_cancel(session.get());
  qrt_session_forget_cancel(session.get());
  qrt_session_forget_cancel(nullptr);
  EXPECT_EQ(qrt_session_append(session.get(), tokens.data(), 5, nullptr, &error), QRT_OK) << Say(error);
  EXPECT_EQ(qrt_session_position(session.get()), 10u);
}

TEST_F(QrtApi, AnAppendChoosesTheTokenThatTheSamplerWould) {
  const Artifact artifact = Open(path());
  const Engine engine = MakeEngine(artifact.get(), 2);
  qrt_sampler_options sampling = Sized<qrt_sampler_options>();
  sampling.temperature = 1;
  sampling.top_p = 0.9F;
  sampling.repeat_penalty = 1.2F;
  sampling.penalty_window = -1;
  sampling.seed = 3;
  const auto make = [&] {
    qrt_sampler* sampler = nullptr;
    EXPECT_EQ(qrt_sampler_create(artifact.get(), &sampling, &sampler, nullptr), QRT_OK);
    return Sampler(sampler);
  };
  const Session inside = MakeSession(engine.get()), outside = MakeSession(engine.get()),
                batched = MakeSession(engine.get()), other = MakeSession(engine.get());
  const Sampler a = make(), b = make(), c = make();
  std::vector<int32_t> tokens = Tokens(30);
  qrt_error error = Sized<qrt_error>();
  for (int i = 0; i < 40; ++i) {
    int32_t next = -1, expected = -1, in_batch = -1;
    qrt_append_options options = Sized<qrt_append_options>();
    options.sampler = a.get();
    options.next = &next;
    ASSERT_EQ(qrt_session_append(inside.get(), tokens.data(), tokens.size(), &options, &error), QRT_OK)
        << Say(error);
    EXPECT_EQ(qrt_session_logits(inside.get()), nullptr);
    ASSERT_EQ(qrt_session_append(outside.get(), tokens.data(), tokens.size(), nullptr, &error), QRT_OK);
    qrt_sampler_seek(b.get(), qrt_session_position(outside.get()));
    ASSERT_EQ(qrt_sampler_sample(b.get(), qrt_session_logits(outside.get()), 272, &expected, &error), QRT_OK);
    qrt_batch_item items[2] = {};
    items[0] = {other.get(), tokens.data(), 1, Sized<qrt_append_options>()};
    items[1] = {batched.get(), tokens.data(), tokens.size(), options};
    items[1].options.sampler = c.get();
    items[1].options.next = &in_batch;
    ASSERT_EQ(qrt_engine_append(engine.get(), items, 2, &error), QRT_OK) << Say(error);
    ASSERT_EQ(next, expected) << "token " << i;
    ASSERT_EQ(in_batch, expected) << "token " << i;
    for (qrt_sampler* sampler : {a.get(), b.get(), c.get()}) qrt_sampler_accept(sampler, next);
    tokens = {next};
  }
  int32_t next = -1;
  qrt_append_options options = Sized<qrt_append_options>();
  options.next = &next;
  EXPECT_EQ(qrt_session_append(inside.get(), tokens.data(), 1, &options, &error), QRT_INVALID_ARGUMENT);
  EXPECT_EQ(error.code, 5305u) << "next without a sampler";
  options.sampler = a.get();
  options.next = nullptr;
  EXPECT_EQ(qrt_session_append(inside.get(), tokens.data(), 1, &options, &error), QRT_INVALID_ARGUMENT);
  EXPECT_EQ(error.code, 5301u) << "a sampler without next";
  EXPECT_EQ(qrt_session_position(inside.get()), 69u);
}

TEST_F(QrtApi, BatchItemsOfAnOlderHeaderLieCloser) {
  struct OldOptions {  // release 1.0
    size_t struct_size;
    qrt_logits_want want;
    qrt_logits_fn on_logits;
    void* ctx;
  };
  struct OldItem {
    qrt_session* session;
    const int32_t* tokens;
    size_t count;
    OldOptions options;
  };
  static_assert(sizeof(OldItem) < sizeof(qrt_batch_item));
  const Artifact artifact = Open(path());
  const Engine engine = MakeEngine(artifact.get());
  const Session a = MakeSession(engine.get()), b = MakeSession(engine.get());
  const std::vector<int32_t> tokens = Tokens(9);
  const OldOptions options = {sizeof options, QRT_LOGITS_LAST, nullptr, nullptr};
  OldItem items[] = {{a.get(), tokens.data(), 4, options}, {b.get(), tokens.data(), 9, options}};
  qrt_error error = Sized<qrt_error>();
  ASSERT_EQ(qrt_engine_append(engine.get(), reinterpret_cast<qrt_batch_item*>(items), 2, &error), QRT_OK)
      << Say(error);
  EXPECT_EQ(qrt_session_position(a.get()), 4u);
  EXPECT_EQ(qrt_session_position(b.get()), 9u);
  EXPECT_NE(qrt_session_logits(b.get()), nullptr);
  items[1].options.struct_size = sizeof(qrt_append_options);
  EXPECT_EQ(qrt_engine_append(engine.get(), reinterpret_cast<qrt_batch_item*>(items), 2, &error),
            QRT_INVALID_ARGUMENT)
      << "items of two sizes";
  EXPECT_EQ(error.code, 5302u) << Say(error);
  items[0].options.struct_size = 0;
  EXPECT_EQ(qrt_engine_append(engine.get(), reinterpret_cast<qrt_batch_item*>(items), 2, &error),
            QRT_INVALID_ARGUMENT);
}

}  // namespace
