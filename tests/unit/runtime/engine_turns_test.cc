// Several threads, or several sessions of an append, and what one of them leaves to the others.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/base/fair_mutex.h"
#include "tests/unit/runtime/engine_toy.h"

namespace {

using qrt::Code;
using toy::Append;
using toy::Options;
using toy::Tokens;
using toy::Toy;
using toy::ToySession;

// A thread that takes a mutex again at once, as a long prompt takes the next step.
class Holder {
 public:
  explicit Holder(qrt::FairMutex& mutex)
      : thread_([this, &mutex] {
          while (!ends_.load()) {
            const std::lock_guard<qrt::FairMutex> lock(mutex);
            ++turns;
            std::this_thread::sleep_for(std::chrono::microseconds(200));
          }
        }) {}
  ~Holder() {
    ends_ = true;
    thread_.join();
  }
  std::atomic<uint64_t> turns{0};

 private:
  std::atomic<bool> ends_{false};
  std::thread thread_;
};

TEST(FairMutex, WhoAsksIsNext) {
  qrt::FairMutex mutex;
  Holder holder(mutex);
  // The system may stop this thread between the count and the question, but not each time.
  uint64_t least = std::numeric_limits<uint64_t>::max();
  for (int i = 0; i < 20; ++i) {
    const uint64_t before = holder.turns;
    while (holder.turns == before) std::this_thread::yield();
    const uint64_t asked = holder.turns;
    const std::lock_guard<qrt::FairMutex> lock(mutex);
    least = std::min(least, holder.turns - asked);
  }
  EXPECT_LE(least, 1u) << "turns of a thread that asked later";
}

TEST(FairMutex, ManyThreadsHaveItOneAtATime) {
  qrt::FairMutex mutex;
  uint64_t count = 0;  // guarded
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 5000; ++i) {
        const std::lock_guard<qrt::FairMutex> lock(mutex);
        ++count;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, 20000u);
}

TEST(FairMutex, TellsHowLongOthersHadIt) {
  qrt::FairMutex mutex;
  EXPECT_EQ(mutex.lock().count(), 0);
  mutex.unlock();
  Holder holder(mutex);
  while (holder.turns == 0) std::this_thread::yield();
  bool waited = false;
  for (int i = 0; i < 1000 && !waited; ++i) {
    waited = mutex.lock().count() > 0;
    mutex.unlock();
  }
  EXPECT_TRUE(waited);
}

TEST(EngineTurns, LongCopiesLeaveStepsToOthers) {
  Toy toy;
  constexpr uint64_t kBytes = uint64_t{70} << 20, kFirst = 3;
  qrt::DeviceBuffer buffer;
  ASSERT_EQ(toy.engine->Allocate(0, kBytes, &buffer), qrt::DeviceResult::kOk);
  std::vector<uint8_t> to(kBytes), from(kBytes);
  for (uint64_t i = 0; i < kBytes; i += 4093) to[i] = static_cast<uint8_t>((i * 2654435761u) >> 24);
  const auto ranges = [&](std::vector<uint8_t>& host) {
    return std::vector<qrt::CopyRange>{{&buffer, 0, host.data(), kFirst},
                                       {&buffer, kFirst, host.data() + kFirst, 0},
                                       {&buffer, kFirst, host.data() + kFirst, kBytes - kFirst}};
  };
  toy.device->copies = 0;
  ASSERT_EQ(toy.engine->Write(0, ranges(to)), qrt::DeviceResult::kOk);
  EXPECT_EQ(toy.device->copies, 3) << "of 32 MiB at most";
  ASSERT_EQ(toy.engine->Read(0, ranges(from)), qrt::DeviceResult::kOk);
  EXPECT_TRUE(from == to);
  toy.device->fail_after = 0;
  EXPECT_EQ(toy.engine->Read(0, ranges(from)), qrt::DeviceResult::kRefused);
  toy.device->fail_after = -1;
  toy.engine->Free(0, &buffer);
}

// Takes a row, and no more.
int32_t StopAtOnce(void* rows, qrt_session*, uint64_t, const float*, size_t) {
  ++*static_cast<int*>(rows);
  return 1;
}

TEST(EngineTurns, ACallbackStopsItsOwnSessionsRowsOnly) {
  for (const bool chooses : {false, true}) {
    for (const size_t length : {size_t{3}, size_t{20}}) {
      SCOPED_TRACE(std::to_string(length) + (chooses ? " tokens, chosen on the device" : " tokens"));
      Toy toy(toy::Ladder(), 1, nullptr, chooses);
      ToySession stops(toy), samples(toy), reads(toy), alone(toy);
      qrt::SamplerOptions options;
      options.seed = 5;
      qrt::Sampler sampler = toy::MakeSampler(options), other = toy::MakeSampler(options);
      int32_t next = -7, expected = -8;
      ASSERT_TRUE(toy::AppendSampled(alone.session, {9}, &other, &expected).ok());
      int rows = 0;
      const std::vector<int32_t> tokens = Tokens(length);
      const int32_t one = 9;
      const qrt_append_options all = Options(QRT_LOGITS_ALL, StopAtOnce, &rows),
                               none = Options(QRT_LOGITS_NONE), last = Options(QRT_LOGITS_LAST);
      qrt::Batch batch(*toy.engine);
      ASSERT_TRUE(batch.Add(stops.session, tokens.data(), tokens.size(), &all).ok());
      ASSERT_TRUE(batch.Add(samples.session, &one, 1, &none, &sampler, &next).ok());
      ASSERT_TRUE(batch.Add(reads.session, &one, 1, &last).ok());
      EXPECT_EQ(batch.Run().code(), Code::kCancelled);
      EXPECT_EQ(rows, 1);
      EXPECT_EQ(stops.session.logits(), nullptr);
      EXPECT_EQ(stops.session.position(), length);
      EXPECT_EQ(next, expected) << "the token behind a step that ran";
      ASSERT_NE(reads.session.logits(), nullptr);
      EXPECT_EQ(std::vector<float>(reads.session.logits(), reads.session.logits() + toy::kVocab),
                toy::Reference({one}).back());
      EXPECT_EQ(toy.device->violation, "");
    }
  }
}

}  // namespace
