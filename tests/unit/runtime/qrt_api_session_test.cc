// The public C API: sessions, snapshots, threads, and memory that is counted and runs out.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __x86_64__
#include <xmmintrin.h>
#endif

#include <atomic>
#include <cstring>
#include <memory>
#include <thread>

#include "tests/unit/runtime/counting_allocator.h"
#include "tests/unit/runtime/engine_memory_hooks.h"
#include "tests/unit/runtime/qrt_api_fixture.h"
#include "tests/unit/runtime/small_stack.h"

namespace {

using namespace qrt_api;  // NOLINT: the fixture of this very test

TEST_F(QrtApi, SplitsAndThreadsGiveEqualBits) {
  const Artifact artifact = Open(path());
  const std::vector<int32_t> tokens = Tokens(100);
  std::vector<float> expected;
  for (const uint32_t threads : {1u, 2u, 5u}) {
    const Engine engine = MakeEngine(artifact.get(), threads);
    for (const size_t piece : {100u, 1u, 3u, 4u, 5u, 16u, 17u, 63u, 65u}) {
      const Session session = MakeSession(engine.get());
      const std::vector<float> logits = AllLogits(session.get(), tokens, piece);
      if (expected.empty()) expected = logits;
      ASSERT_EQ(logits.size(), 100u * 272u);
      EXPECT_EQ(std::memcmp(logits.data(), expected.data(), logits.size() * sizeof(float)), 0)
          << threads << " threads, pieces of " << piece;
    }
  }
}

// Who wants some rows ends an append behind each; the rows between them get no head.
TEST_F(QrtApi, LogitsOfChosenRowsAreThoseOfAllRows) {
  const Artifact artifact = Open(path());
  const Engine engine = MakeEngine(artifact.get(), 2);
  const std::vector<int32_t> tokens = Tokens(16);
  const Session whole = MakeSession(engine.get()), chosen = MakeSession(engine.get()),
                mate = MakeSession(engine.get());
  const std::vector<float> all = AllLogits(whole.get(), tokens, 16);
  qrt_error error = Sized<qrt_error>();
  size_t at = 0;
  for (const size_t row : {3u, 9u, 15u}) {
    const qrt_logits_want want = row == 15 ? QRT_LOGITS_NONE : QRT_LOGITS_LAST;
    qrt_batch_item items[] = {{chosen.get(), &tokens[at], row + 1 - at, Sized<qrt_append_options>()},
                              {mate.get(), &tokens[at], row + 1 - at, Sized<qrt_append_options>()}};
    items[0].options.want = want;
    items[1].options.want = QRT_LOGITS_NONE;
    ASSERT_EQ(qrt_engine_append(engine.get(), items, 2, &error), QRT_OK) << Say(error);
    EXPECT_EQ(qrt_session_logits(mate.get()), nullptr) << "nobody asked for row " << row << " of the other";
    at = row + 1;
    if (want == QRT_LOGITS_NONE) {
      EXPECT_EQ(qrt_session_logits(chosen.get()), nullptr) << "nobody asked for row " << row;
      continue;
    }
    ASSERT_NE(qrt_session_logits(chosen.get()), nullptr);
    EXPECT_EQ(std::memcmp(qrt_session_logits(chosen.get()), &all[row * 272], 272 * sizeof(float)), 0)
        << "row " << row << " has other logits than when all rows are asked for";
  }
}

TEST_F(QrtApi, GenerateIsTheUsualLoop) {
  const Artifact artifact = Open(path());
  const Engine engine = MakeEngine(artifact.get(), 2);
  const Session usual = MakeSession(engine.get()), generated = MakeSession(engine.get());
  qrt_sampler_options sampling = Sized<qrt_sampler_options>();
  qrt_error error = Sized<qrt_error>();
  ASSERT_EQ(qrt_sampler_defaults(artifact.get(), &sampling, &error), QRT_OK) << Say(error);
  sampling.temperature = 2;
  sampling.seed = 5;
  const auto make = [&] {
    qrt_sampler* sampler = nullptr;
    EXPECT_EQ(qrt_sampler_create(artifact.get(), &sampling, &sampler, &error), QRT_OK) << Say(error);
    return Sampler(sampler);
  };
  const Sampler first = make(), second = make();
  qrt_append_options append = Sized<qrt_append_options>();
  append.want = QRT_LOGITS_NONE;
  append.sampler = first.get();
  qrt_generate_options options = Sized<qrt_generate_options>();
  options.sampler = second.get();
  struct Asked {
    int32_t token = -1;
    static int32_t About(void* self, int32_t token) {
      static_cast<Asked*>(self)->token = token;
      return 0;
    }
  } asked;
  options.ends = Asked::About;
  options.ctx = &asked;
  int32_t token = 3, other = 3, tokens[4];
  for (int i = 0; i < 40; ++i) {
    const int32_t fed = token;
    append.next = &token;
    ASSERT_EQ(qrt_session_append(usual.get(), &fed, 1, &append, &error), QRT_OK) << Say(error);
    size_t count = 0;
    ASSERT_EQ(qrt_session_generate(generated.get(), other, &options, tokens, 4, &count, &error), QRT_OK)
        << Say(error);
    ASSERT_EQ(count, 1u) << "a session without a draft chooses one token";
    EXPECT_EQ(asked.token, tokens[0]);
    other = tokens[0];
    ASSERT_EQ(other, token) << "token " << i;
  }
  EXPECT_EQ(qrt_session_position(generated.get()), 40u);
  EXPECT_EQ(qrt_session_logits(generated.get()), nullptr);
  qrt_draft_counters counters = Sized<qrt_draft_counters>();
  ASSERT_EQ(qrt_session_draft_counters(generated.get(), &counters, &error), QRT_OK) << Say(error);
  EXPECT_EQ(counters.steps, 40u);
  EXPECT_EQ(counters.guessed + counters.accepted, 0u);

  size_t count = 0;
  const auto refused = [&](const qrt_generate_options* o, int32_t* out, size_t room, uint32_t code) {
    EXPECT_EQ(qrt_session_generate(generated.get(), other, o, out, room, &count, &error),
              QRT_INVALID_ARGUMENT);
    EXPECT_EQ(error.code, code) << Say(error);
    EXPECT_EQ(qrt_session_position(generated.get()), 40u);
  };
  refused(nullptr, tokens, 4, 5301);
  refused(&options, nullptr, 4, 5301);
  refused(&options, tokens, 0, 5305);
  options.sampler = nullptr;
  refused(&options, tokens, 4, 5301);
  options.struct_size = 8;
  refused(&options, tokens, 4, 5302);
  qrt_session_options drafts = Sized<qrt_session_options>();
  drafts.draft = QRT_DRAFT_MODEL;
  drafts.draft_tokens = 3;
  qrt_session* none = nullptr;
  EXPECT_NE(qrt_session_create(engine.get(), &drafts, &none, &error), QRT_OK) << "the toy has no draft";
  drafts.draft = QRT_DRAFT_LOOKUP;
  EXPECT_EQ(qrt_session_create(engine.get(), &drafts, &none, &error), QRT_UNAVAILABLE)
      << "the toy's state cannot be taken back, so a wrong guess could not";
  EXPECT_EQ(error.code, 5328u) << Say(error);
  qrt_engine_info info = Sized<qrt_engine_info>();
  ASSERT_EQ(qrt_engine_describe(engine.get(), &info, &error), QRT_OK) << Say(error);
  EXPECT_EQ(info.drafts, 0u);
  qrt_engine_options linked = Sized<qrt_engine_options>();
  linked.draft = artifact.get();
  qrt_engine* engine_of_two = nullptr;
  ASSERT_EQ(qrt_engine_create(artifact.get(), &linked, &engine_of_two, &error), QRT_OK) << Say(error);
  const Engine two(engine_of_two);
  ASSERT_EQ(qrt_engine_describe(two.get(), &info, &error), QRT_OK) << Say(error);
  EXPECT_EQ(info.drafts, 1u) << "a model with the same tokenizer can draft";
  drafts.draft = QRT_DRAFT_MODEL;
  EXPECT_EQ(qrt_session_create(two.get(), &drafts, &none, &error), QRT_UNAVAILABLE);
  EXPECT_EQ(error.code, 5328u) << Say(error);
}

TEST_F(QrtApi, SnapshotsMoveBetweenEnginesOfOneArtifact) {
  const Artifact artifact = Open(path());
  const Engine one = MakeEngine(artifact.get(), 1), two = MakeEngine(artifact.get(), 3);
  const Session source = MakeSession(one.get(), 100), target = MakeSession(two.get(), 300);
  const std::vector<int32_t> tokens = Tokens(80);
  ASSERT_EQ(qrt_session_append(source.get(), tokens.data(), 50, nullptr, nullptr), QRT_OK);
  std::vector<uint8_t> bytes(qrt_session_save_size(source.get()));
  size_t written = 0;
  EXPECT_EQ(qrt_session_save(source.get(), bytes.data(), bytes.size() - 1, &written, nullptr),
            QRT_BUFFER_TOO_SMALL);
  EXPECT_EQ(written, bytes.size());
  ASSERT_EQ(qrt_session_save(source.get(), bytes.data(), bytes.size(), &written, nullptr), QRT_OK);
  qrt_error error = Sized<qrt_error>();
  ASSERT_EQ(qrt_session_restore(target.get(), bytes.data(), bytes.size(), &error), QRT_OK) << Say(error);
  ASSERT_EQ(qrt_session_append(source.get(), tokens.data() + 50, 30, nullptr, nullptr), QRT_OK);
  ASSERT_EQ(qrt_session_append(target.get(), tokens.data() + 50, 30, nullptr, nullptr), QRT_OK);
  EXPECT_EQ(
      std::memcmp(qrt_session_logits(source.get()), qrt_session_logits(target.get()), 272 * sizeof(float)),
      0);
  bytes[bytes.size() / 2] ^= 4;
  EXPECT_EQ(qrt_session_restore(target.get(), bytes.data(), bytes.size(), nullptr), QRT_SNAPSHOT_MISMATCH);
  EXPECT_EQ(qrt_session_position(target.get()), 80u);
}

// Threads of the embedder: made for each step.
struct Pool {
  std::atomic<int> runs{0};
  bool refuse = false;
  static int32_t Run(void* self, uint32_t count, void (*task)(void*, uint32_t, uint32_t), void* arg) {
    Pool& pool = *static_cast<Pool*>(self);
    if (pool.refuse) return 1;
    pool.runs.fetch_add(1);
    std::vector<std::thread> threads;
    for (uint32_t i = 0; i < count; ++i) threads.emplace_back(task, arg, i, count);
    for (std::thread& thread : threads) thread.join();
    return 0;
  }
};

// What step_back.cc does at random, of whole models.
TEST_F(QrtApi, AForkGoesOnWithoutTheSessionThatItIsOf) {
  const Artifact artifact = Open(path());
  Engine engine = MakeEngine(artifact.get(), 2);
  const std::vector<int32_t> tokens = Tokens(30);
  const Session whole = MakeSession(engine.get());
  qrt_error error = Sized<qrt_error>();
  ASSERT_EQ(qrt_session_append(whole.get(), tokens.data(), 30, nullptr, &error), QRT_OK) << Say(error);
  Session session = MakeSession(engine.get());
  qrt_session* made = nullptr;
  ASSERT_EQ(qrt_session_fork(session.get(), &made, &error), QRT_OK) << "empty: " << Say(error);
  EXPECT_EQ(qrt_session_position(made), 0u);
  EXPECT_EQ(qrt_session_logits(made), nullptr);
  qrt_session_release(made);
  ASSERT_EQ(qrt_session_append(session.get(), tokens.data(), 20, nullptr, &error), QRT_OK) << Say(error);
  ASSERT_EQ(qrt_session_fork(session.get(), &made, &error), QRT_OK) << Say(error);
  const Session fork(made);
  EXPECT_EQ(qrt_session_position(made), 20u);
  EXPECT_EQ(qrt_session_capacity(made), qrt_session_capacity(session.get()));
  EXPECT_EQ(std::memcmp(qrt_session_logits(made), qrt_session_logits(session.get()), 272 * sizeof(float)), 0);
  EXPECT_EQ(qrt_session_fork(nullptr, &made, &error), QRT_INVALID_ARGUMENT);
  EXPECT_EQ(qrt_session_fork(session.get(), nullptr, &error), QRT_INVALID_ARGUMENT);
  session.reset();
  engine.reset();
  ASSERT_EQ(qrt_session_append(fork.get(), tokens.data() + 20, 10, nullptr, &error), QRT_OK) << Say(error);
  EXPECT_EQ(std::memcmp(qrt_session_logits(fork.get()), qrt_session_logits(whole.get()), 272 * sizeof(float)),
            0)
      << "other logits than of a session that was fed all";
}

TEST_F(QrtApi, AnInjectedThreadPoolRunsEverything) {
  const Artifact artifact = Open(path());
  const Engine own = MakeEngine(artifact.get(), 2);
  Pool pool;
  const qrt_thread_pool threads = {&pool, Pool::Run};
  const Engine engine = MakeEngine(artifact.get(), 3, &threads);
  const Session expected = MakeSession(own.get()), session = MakeSession(engine.get());
  const std::vector<int32_t> tokens = Tokens(90);
  EXPECT_EQ(AllLogits(session.get(), tokens, 11), AllLogits(expected.get(), tokens, 90));
  EXPECT_GT(pool.runs.load(), 8);
  qrt_engine_info info = Sized<qrt_engine_info>();
  ASSERT_EQ(qrt_engine_describe(engine.get(), &info, nullptr), QRT_OK);
  EXPECT_EQ(info.cpu_steps, static_cast<uint64_t>(pool.runs.load()));
  EXPECT_EQ(info.step_threads, 3 * info.cpu_steps) << "an injected pool has all threads in every step";
  pool.refuse = true;
  qrt_error error = Sized<qrt_error>();
  EXPECT_EQ(qrt_session_append(session.get(), tokens.data(), 1, nullptr, &error), QRT_INTERNAL);
  EXPECT_EQ(error.code, 5321u) << Say(error);
  EXPECT_EQ(qrt_session_position(session.get()), 90u);
}

// A host may drop subnormals, round otherwise or trap faults: on all of its threads, or on some.
TEST_F(QrtApi, BitsDoNotFollowTheHostsFloatEnvironment) {
#ifdef __x86_64__
  const Artifact artifact = Open(path());
  const std::vector<int32_t> tokens = Tokens(90);
  const std::vector<float> expected =
      AllLogits(MakeSession(MakeEngine(artifact.get()).get()).get(), tokens, 90);
  constexpr unsigned kFlushed = 0x8040, kUpward = 0x4000, kInvalidTraps = 0x80, kOverflowTraps = 0x400;
  const unsigned plain = _mm_getcsr(),
                 other = (plain | kFlushed | kUpward) & ~(kInvalidTraps | kOverflowTraps);
  Pool pool;
  const qrt_thread_pool injected = {&pool, Pool::Run};
  for (const qrt_thread_pool* threads : {static_cast<const qrt_thread_pool*>(nullptr), &injected}) {
    for (const bool before : {true, false}) {  // the engine's threads begin with what makes them
      if (before) _mm_setcsr(other);
      const Engine engine = MakeEngine(artifact.get(), 3, threads);
      const Session session = MakeSession(engine.get());
      _mm_setcsr(other);
      const std::vector<float> logits = AllLogits(session.get(), tokens, 11);
      const unsigned after = _mm_getcsr();
      _mm_setcsr(plain);
      EXPECT_EQ(logits, expected);
      constexpr unsigned kFlags = 0x3f;  // of what happened so far: whoever divides raises one
      EXPECT_EQ(after & ~kFlags, other & ~kFlags) << "the host's own environment is changed";
    }
  }
#else
  GTEST_SKIP() << "how floats are computed is asked of an x86-64 processor";
#endif
}

TEST_F(QrtApi, ThePlanIsWhatIsAllocated) {
  CountingAllocator counting;
  const qrt_allocator allocator = counting.allocator();
  qrt_artifact_options options = Sized<qrt_artifact_options>();
  options.allocator = &allocator;
  qrt_artifact* made = nullptr;
  ASSERT_EQ(qrt_artifact_open(path().c_str(), &options, &made, nullptr), QRT_OK);
  {
    const Artifact artifact(made);
    qrt_memory_plan plan = Sized<qrt_memory_plan>();
    ASSERT_EQ(qrt_artifact_memory_plan(artifact.get(), 1000, 3, &plan, nullptr), QRT_OK);
    EXPECT_EQ(plan.weight_bytes, 5000u);
    EXPECT_EQ(plan.kv_bytes, 3u * 1024 * 64) << "rounded up to a multiple of 64 tokens";
    EXPECT_EQ(plan.state_bytes, 3u * 5120);
    EXPECT_EQ(plan.total_bytes, plan.weight_bytes + plan.code_bytes + plan.engine_bytes + plan.state_bytes +
                                    plan.kv_bytes + plan.logits_bytes);
    const Engine engine = MakeEngine(artifact.get(), 0);  // as many threads as the plan counts
    std::vector<Session> sessions;
    for (int i = 0; i < 3; ++i) sessions.push_back(MakeSession(engine.get(), 1000));
    const uint64_t planned = plan.total_bytes - plan.weight_bytes - plan.code_bytes;
    EXPECT_GE(counting.live, planned);
    EXPECT_LE(counting.live, planned + 5 * 1024) << "only the handles come on top";
    qrt_memory_plan huge = Sized<qrt_memory_plan>();
    EXPECT_EQ(qrt_artifact_memory_plan(artifact.get(), UINT64_MAX / 2, 1000, &huge, nullptr),
              QRT_INVALID_ARGUMENT);
  }
  EXPECT_EQ(counting.live, 0u) << "memory leaked";
}

TEST_F(QrtApi, RunningOutOfMemoryAnywhereIsAStatus) {
  const std::vector<int32_t> tokens = Tokens(20);
  std::vector<float> expected;
  bool finished = false;
  long n = 0;
  for (; n < 100000 && !finished; ++n) {
    CountingAllocator counting;
    const qrt_allocator allocator = counting.allocator();
    qrt_artifact* artifact = nullptr;
    qrt_engine* engine = nullptr;
    qrt_session *session = nullptr, *fork = nullptr;
    qrt_text* text = nullptr;
    qrt_sampler* sampler = nullptr;
    qrt_artifact_options options = Sized<qrt_artifact_options>();
    options.allocator = &allocator;
    qrt_engine_options engine_options = Sized<qrt_engine_options>();
    engine_options.threads = 2;
    qrt_error error = Sized<qrt_error>();
    // Written control tokens take the longer way.
    const qrt_chat_message message = {"user", "hello there <|im_end|>", nullptr};
    char out[200];
    int32_t ids[200];
    size_t length = 0, count = 0;
    int32_t token = 0;

    const long start = allocations.load();
    fail_at.store(start + n);
    qrt_status status = qrt_artifact_open(path().c_str(), &options, &artifact, &error);
    if (status == QRT_OK) status = qrt_text_create(artifact, &text, &error);
    if (status == QRT_OK) status = qrt_engine_create(artifact, &engine_options, &engine, &error);
    if (status == QRT_OK) status = qrt_session_create(engine, nullptr, &session, &error);
    if (status == QRT_OK) status = qrt_sampler_create(artifact, nullptr, &sampler, &error);
    if (status == QRT_OK) {
      status = qrt_text_render_chat(text, &message, 1, nullptr, out, sizeof out, &length, &error);
    }
    if (status == QRT_OK) {
      status = qrt_text_tokenize(text, out, length, QRT_TOKENIZE_SPECIAL, ids, 200, &count, &error);
    }
    if (status == QRT_OK) {
      status = qrt_text_encode_chat(text, &message, 1, nullptr, ids, 200, &count, &error);
    }
    if (status == QRT_OK) status = qrt_session_append(session, tokens.data(), tokens.size(), nullptr, &error);
    if (status == QRT_OK)
      status = qrt_sampler_sample(sampler, qrt_session_logits(session), 272, &token, &error);
    if (status == QRT_OK) status = qrt_session_fork(session, &fork, &error);
    const bool reached = allocations.load() > start + n;
    fail_at.store(-1);

    ASSERT_TRUE(status == QRT_OK || (reached && status == QRT_OUT_OF_MEMORY))
        << "allocation " << n << ": " << qrt_status_name(status) << ": " << Say(error);
    if (status == QRT_OK) {
      const std::vector<float> logits(qrt_session_logits(session), qrt_session_logits(session) + 272);
      if (expected.empty()) expected = logits;
      EXPECT_EQ(logits, expected) << "allocation " << n << " failed without a status and changed the result";
    }
    qrt_sampler_release(sampler);
    qrt_text_release(text);
    qrt_session_release(fork);
    qrt_session_release(session);
    qrt_engine_release(engine);
    qrt_artifact_release(artifact);
    EXPECT_EQ(counting.live, 0u) << "leak when allocation " << n << " failed";
    finished = !reached;
  }
  EXPECT_TRUE(finished);
  EXPECT_GT(n, 100) << "the failures cover next to nothing";
}

// How much stack `body` took of a thread with `bytes`.
template <class Body>
size_t StackOf(size_t bytes, Body body) {
  return qrt::testing::SmallStackThread(bytes * qrt::testing::kStackScale, body).Join();
}

// The toy's steps take little; those of compiled models: tests/unit/compiler/step_workers_test.cc.
TEST_F(QrtApi, CallsKeepToTheStackThatTheHeaderStates) {
  const std::vector<int32_t> tokens = Tokens(60);
  const auto logits = [&] {
    const Artifact artifact = Open(path());
    const Engine engine = MakeEngine(artifact.get(), 2);
    const Session session = MakeSession(engine.get());
    return AllLogits(session.get(), tokens, 17);
  };
  std::vector<float> held;
  const size_t calls = StackOf(QRT_CALL_STACK, [&] { held = logits(); });
  EXPECT_EQ(held, logits());
  EXPECT_LE(calls, QRT_CALL_STACK / 2 * qrt::testing::kStackScale) << "too near to what the header states";
  RecordProperty("bytes_of_calls", static_cast<int>(calls));
}

// Parsing and running nest as deep as their limits let them.
TEST_F(QrtApi, ChatTemplatesKeepToTheStackThatTheHeaderStates) {
  const auto repeat = [](std::string_view text, int times) {
    std::string all;
    for (int i = 0; i < times; ++i) all += text;
    return all;
  };
  const std::string templates[] = {
      "{% for m in messages %}{{ m.content }}{% endfor %}",
      "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
      "{% macro m(a=m()) %}{% endmacro %}{{ m() }}",
      "{% macro m() %}" + repeat("{% if 1 %}", 90) + "{{ m() }}" + repeat("{% endif %}", 90) +
          "{% endmacro %}{{ m() }}",
      "{% macro m() %}{{ " + repeat("(not ", 90) + "m()" + repeat(")", 90) + " }}{% endmacro %}{{ m() }}",
      "{% macro m() %}{{ " + repeat("[", 90) + "m()" + repeat("]", 90) + " }}{% endmacro %}{{ m() }}",
      "{{ " + repeat("(", 10000) + "1" + repeat(")", 10000) + " }}",
      "{{ " + repeat("[", 10000) + repeat("]", 10000) + " }}",
      "{{ " + repeat("1 if 0 else ", 10000) + "1 }}",
      repeat("{% if 1 %}", 10000),
      "{% set ns = namespace(x=[]) %}{% for i in range(5000) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x "
      "}}"};
  size_t most = 0;
  for (const std::string& source : templates) {
    WriteParts(toy::ToyParts(source), File("nested.qbin"));
    most =
        std::max(most, StackOf(QRT_TEXT_STACK, [&] {
                   const Artifact artifact = Open(File("nested.qbin"));
                   qrt_text* text = nullptr;
                   if (qrt_text_create(artifact.get(), &text, nullptr) != QRT_OK) return;
                   const qrt_chat_message message = {"user", "hello", nullptr};
                   char out[200];
                   size_t length = 0;
                   (void)qrt_text_render_chat(text, &message, 1, nullptr, out, sizeof out, &length, nullptr);
                   qrt_text_release(text);
                 }));
  }
  EXPECT_LE(most, QRT_TEXT_STACK / 8 * 7 * qrt::testing::kStackScale) << "too near to what the header states";
  RecordProperty("bytes_of_templates", static_cast<int>(most));
}

// Steps on a pool whose threads have the least that they may have.
TEST_F(QrtApi, AnInjectedPoolMayHaveSmallStacks) {
  const Artifact artifact = Open(path());
  const Engine own = MakeEngine(artifact.get(), 2);
  const qrt_thread_pool pool = {
      nullptr, [](void*, uint32_t count, void (*task)(void*, uint32_t, uint32_t), void* arg) -> int32_t {
        std::vector<std::unique_ptr<qrt::testing::SmallStackThread>> threads;
        for (uint32_t i = 0; i < count; ++i) {
          threads.push_back(std::make_unique<qrt::testing::SmallStackThread>(
              QRT_STEP_STACK * qrt::testing::kStackScale, [=] { task(arg, i, count); }));
        }
        return 0;
      }};
  const Engine engine = MakeEngine(artifact.get(), 2, &pool);
  const Session expected = MakeSession(own.get()), session = MakeSession(engine.get());
  EXPECT_EQ(AllLogits(session.get(), Tokens(40), 11), AllLogits(expected.get(), Tokens(40), 40));
}

// A host that repeats what ran out of memory would feed the tokens twice.
TEST_F(QrtApi, AnAppendThatWasStoppedSaysSoWithoutMemory) {
  const Artifact artifact = Open(path());
  const Engine engine = MakeEngine(artifact.get(), 1);
  const Session session = MakeSession(engine.get());
  const std::vector<int32_t> tokens = Tokens(5);
  qrt_append_options stopping = Sized<qrt_append_options>();
  stopping.want = QRT_LOGITS_ALL;
  stopping.on_logits = [](void*, qrt_session*, uint64_t, const float*, size_t) -> int32_t { return 1; };
  for (const qrt_append_options* options : {&stopping, static_cast<qrt_append_options*>(nullptr)}) {
    for (int again = 0; again < 2; ++again) {
      ASSERT_EQ(qrt_session_reset(session.get(), nullptr), QRT_OK);
      ASSERT_EQ(qrt_session_append(session.get(), tokens.data(), 1, nullptr, nullptr), QRT_OK);
      if (options == nullptr) qrt_session_cancel(session.get());
      qrt_error error = Sized<qrt_error>();
      fail_at.store(allocations.load());
      const qrt_status status =
          qrt_session_append(session.get(), tokens.data(), tokens.size(), options, &error);
      fail_at.store(-1);
      EXPECT_EQ(status, QRT_CANCELLED) << Say(error);
      EXPECT_EQ(error.code, 5311u) << Say(error);
    }
  }
}

TEST_F(QrtApi, SessionsOnManyThreads) {
  const Artifact artifact = Open(path());
  const Engine engine = MakeEngine(artifact.get(), 2);
  const std::vector<int32_t> tokens = Tokens(60);
  const Session reference = MakeSession(engine.get());
  const std::vector<float> expected = AllLogits(reference.get(), tokens, 60);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const Session session = MakeSession(engine.get());
      if (AllLogits(session.get(), tokens, 3 + 5 * t) != expected) ++wrong;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
}

// ---- fork() ----

// What an append in a child gives; the child also releases what it has.
int InChild(Artifact& artifact, Engine& engine, Session& session) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);  // a step that waits for threads that are not there waits for ever
    const int32_t token = 7;
    qrt_error error = Sized<qrt_error>();
    const qrt_status status = qrt_session_append(session.get(), &token, 1, nullptr, &error);
    const bool told = std::strstr(error.message, "fork()") != nullptr && error.code == 5324;
    session.reset();
    engine.reset();
    artifact.reset();
    _exit(status == QRT_OK ? 0 : status == QRT_INVALID_ARGUMENT && told ? 1 : 2);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

TEST_F(QrtApi, AChildOfForkIsToldThatItHasNoThreads) {
  Pool pool;
  const qrt_thread_pool injected = {&pool, Pool::Run};
  for (const auto& [threads, workers] : {std::pair<uint32_t, const qrt_thread_pool*>{1, nullptr},
                                         {3, nullptr},
                                         {1, &injected},
                                         {3, &injected}}) {
    Artifact artifact = Open(path());
    Engine engine = MakeEngine(artifact.get(), threads, workers);
    Session session = MakeSession(engine.get());
    const std::vector<int32_t> tokens = Tokens(20);
    const std::vector<float> expected = AllLogits(session.get(), tokens, 20);
    EXPECT_EQ(InChild(artifact, engine, session), threads == 1 ? 0 : 1)
        << threads << " threads, injected " << (workers != nullptr);
    ASSERT_EQ(qrt_session_reset(session.get(), nullptr), QRT_OK);
    EXPECT_EQ(AllLogits(session.get(), tokens, 20), expected) << "the parent goes on as before";
  }
}

}  // namespace
