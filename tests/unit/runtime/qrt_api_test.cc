// The public C API over a real artifact with real native code (the toy model).
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "runtime/include/qrt/qrt.h"
#include "tests/unit/runtime/engine_memory_hooks.h"
#include "tests/unit/runtime/qrt_toy_artifact.h"

extern "C" const char* qrt_c_answer(const char* path, const char* prompt, char* answer, size_t capacity);

namespace {

template <typename T>
T Sized() {
  T value = {};
  value.struct_size = sizeof value;
  return value;
}

template <auto Release>
struct Releaser {
  template <typename T>
  void operator()(T* handle) const {
    Release(handle);
  }
};
using Artifact = std::unique_ptr<qrt_artifact, Releaser<qrt_artifact_release>>;
using Engine = std::unique_ptr<qrt_engine, Releaser<qrt_engine_release>>;
using Session = std::unique_ptr<qrt_session, Releaser<qrt_session_release>>;
using Text = std::unique_ptr<qrt_text, Releaser<qrt_text_release>>;

std::string Say(const qrt_error& error) {
  return std::string(error.message) + " | " + error.note + " | " + error.help + " [Q" +
         std::to_string(error.code) + "]";
}

class QrtApi : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new qrt::testing::TempFolder();
    path_ = new std::string(folder_->File("toy.qbin"));
    WriteParts(toy::ToyParts(), *path_);
  }
  static void TearDownTestSuite() {
    delete folder_;
    delete path_;
  }

  static const std::string& path() { return *path_; }
  static std::string File(const std::string& name) { return folder_->File(name); }

  Artifact Open(const std::string& file) {
    qrt_artifact* artifact = nullptr;
    qrt_error error = Sized<qrt_error>();
    EXPECT_EQ(qrt_artifact_open(file.c_str(), nullptr, &artifact, &error), QRT_OK) << Say(error);
    return Artifact(artifact);
  }
  Engine MakeEngine(qrt_artifact* artifact, uint32_t threads = 1) {
    qrt_engine_options options = Sized<qrt_engine_options>();
    options.threads = threads;
    qrt_engine* engine = nullptr;
    qrt_error error = Sized<qrt_error>();
    EXPECT_EQ(qrt_engine_create(artifact, &options, &engine, &error), QRT_OK) << Say(error);
    return Engine(engine);
  }
  Session MakeSession(qrt_engine* engine, uint64_t context = 512) {
    qrt_session_options options = Sized<qrt_session_options>();
    options.context_tokens = context;
    qrt_session* session = nullptr;
    qrt_error error = Sized<qrt_error>();
    EXPECT_EQ(qrt_session_create(engine, &options, &session, &error), QRT_OK) << Say(error);
    return Session(session);
  }

 private:
  static inline qrt::testing::TempFolder* folder_ = nullptr;
  static inline std::string* path_ = nullptr;
};

std::vector<int32_t> Tokens(size_t count) {
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < count; ++i) tokens.push_back(static_cast<int32_t>(i * i * 31 % 256));
  return tokens;
}

// All logits of a sequence, fed in pieces.
std::vector<float> AllLogits(qrt_session* session, const std::vector<int32_t>& tokens, size_t piece) {
  std::vector<float> all;
  qrt_append_options options = Sized<qrt_append_options>();
  options.want = QRT_LOGITS_ALL;
  options.ctx = &all;
  options.on_logits = [](void* ctx, qrt_session*, uint64_t, const float* logits,
                         size_t vocab_size) -> int32_t {
    auto& all = *static_cast<std::vector<float>*>(ctx);
    all.insert(all.end(), logits, logits + vocab_size);
    return 0;
  };
  for (size_t at = 0; at < tokens.size(); at += piece) {
    qrt_error error = Sized<qrt_error>();
    EXPECT_EQ(qrt_session_append(session, tokens.data() + at, std::min(piece, tokens.size() - at), &options,
                                 &error),
              QRT_OK)
        << Say(error);
  }
  return all;
}

TEST_F(QrtApi, WorksFromC) {
  char answer[4096];
  const char* failure = qrt_c_answer(path().c_str(), "tell me", answer, sizeof answer);
  ASSERT_EQ(failure, nullptr) << failure;
  EXPECT_GT(std::strlen(answer), 3u);
  char again[4096];
  ASSERT_EQ(qrt_c_answer(path().c_str(), "tell me", again, sizeof again), nullptr);
  EXPECT_STREQ(answer, again);
  ASSERT_EQ(qrt_c_answer(path().c_str(), "tell us", again, sizeof again), nullptr);
  EXPECT_STRNE(answer, again) << "the prompt does not matter";
  EXPECT_NE(qrt_c_answer((path() + ".missing").c_str(), "x", again, sizeof again), nullptr);
}

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

TEST_F(QrtApi, DescribesWhatItOpened) {
  const Artifact artifact = Open(path());
  qrt_artifact_info info = Sized<qrt_artifact_info>();
  ASSERT_EQ(qrt_artifact_describe(artifact.get(), &info, nullptr), QRT_OK);
  EXPECT_STREQ(info.architecture, "qwen35");
  EXPECT_STREQ(info.model_name, "toy");
  EXPECT_EQ(info.vocab_size, 272u);
  EXPECT_EQ(info.state_bytes, 5120u);
  EXPECT_EQ(info.kv_bytes_per_token, 64u);
  EXPECT_EQ(info.weight_bytes, 5000u);
  EXPECT_EQ(info.program_count, 5u);
  EXPECT_EQ(info.code_count, 3u);
  EXPECT_EQ(info.has_tokenizer, 1u);
  EXPECT_EQ(info.has_chat_template, 1u);
  EXPECT_EQ(info.has_goldens, 0u);
  qrt_code_info code = Sized<qrt_code_info>();
  ASSERT_EQ(qrt_artifact_code(artifact.get(), 0, &code, nullptr), QRT_OK);
  EXPECT_STREQ(code.name, "future");
  EXPECT_EQ(code.supported, 0u);
  EXPECT_STREQ(code.missing, "no-such-feature");
  ASSERT_EQ(qrt_artifact_code(artifact.get(), 1, &code, nullptr), QRT_OK);
  EXPECT_STREQ(code.name, "toy");
  EXPECT_EQ(code.supported, 1u);
  EXPECT_EQ(qrt_artifact_code(artifact.get(), 3, &code, nullptr), QRT_INVALID_ARGUMENT);
  const Engine engine = MakeEngine(artifact.get(), 3);
  qrt_engine_info engine_info = Sized<qrt_engine_info>();
  ASSERT_EQ(qrt_engine_describe(engine.get(), &engine_info, nullptr), QRT_OK);
  EXPECT_STREQ(engine_info.cpu, "toy") << "the best variant needs a feature that nobody has";
  EXPECT_EQ(engine_info.threads, 3u);
  EXPECT_EQ(engine_info.max_step_rows, 64u);
  qrt_cpu_info cpu = Sized<qrt_cpu_info>();
  ASSERT_EQ(qrt_cpu_describe(&cpu, nullptr), QRT_OK);
  EXPECT_GE(cpu.physical_cores, 1u);
  EXPECT_GE(cpu.logical_cores, cpu.physical_cores);
}

TEST_F(QrtApi, CodeIsChosenByNameOrRefusedByName) {
  const Artifact artifact = Open(path());
  qrt_engine_options options = Sized<qrt_engine_options>();
  qrt_engine* engine = nullptr;
  qrt_error error = Sized<qrt_error>();
  options.cpu = "future";
  EXPECT_EQ(qrt_engine_create(artifact.get(), &options, &engine, &error), QRT_DEVICE_UNSUPPORTED);
  EXPECT_NE(std::strstr(error.message, "no-such-feature"), nullptr) << Say(error);
  options.cpu = "none";
  EXPECT_EQ(qrt_engine_create(artifact.get(), &options, &engine, &error), QRT_INVALID_ARGUMENT);
  EXPECT_NE(std::strstr(error.help, "future, toy, toy-2"), nullptr) << Say(error);
  EXPECT_EQ(engine, nullptr);
  options.cpu = "toy-2";
  ASSERT_EQ(qrt_engine_create(artifact.get(), &options, &engine, &error), QRT_OK) << Say(error);
  qrt_engine_info info = Sized<qrt_engine_info>();
  ASSERT_EQ(qrt_engine_describe(engine, &info, nullptr), QRT_OK);
  EXPECT_STREQ(info.cpu, "toy-2");
  qrt_engine_release(engine);
}

TEST_F(QrtApi, AnyOrderOfReleaseIsRight) {
  Artifact artifact = Open(path());
  Engine engine = MakeEngine(artifact.get(), 2);
  Session session = MakeSession(engine.get());
  qrt_text* made = nullptr;
  ASSERT_EQ(qrt_text_create(artifact.get(), &made, nullptr), QRT_OK);
  Text text(made);
  artifact.reset();
  engine.reset();
  const std::vector<int32_t> tokens = Tokens(70);
  EXPECT_EQ(qrt_session_append(session.get(), tokens.data(), tokens.size(), nullptr, nullptr), QRT_OK);
  size_t length = 0;
  EXPECT_EQ(std::string(qrt_text_token_bytes(text.get(), 'x', &length), 1), "x");
  for (int i = 0; i < 50; ++i) {
    Artifact again = Open(path());
    Engine other = MakeEngine(again.get(), 2);
    if (i % 2 == 0) again.reset();
    Session short_lived = MakeSession(other.get());
    if (i % 3 == 0) other.reset();
  }
}

TEST_F(QrtApi, NullIsAnErrorAndNeverACrash) {
  const Artifact artifact = Open(path());
  const Engine engine = MakeEngine(artifact.get());
  const Session session = MakeSession(engine.get());
  qrt_text* made = nullptr;
  ASSERT_EQ(qrt_text_create(artifact.get(), &made, nullptr), QRT_OK);
  const Text text(made);
  qrt_sampler* sampler = nullptr;
  ASSERT_EQ(qrt_sampler_create(artifact.get(), nullptr, &sampler, nullptr), QRT_OK);
  qrt_artifact* a = nullptr;
  qrt_engine* e = nullptr;
  qrt_session* s = nullptr;
  qrt_text* t = nullptr;
  qrt_sampler* p = nullptr;
  int32_t token = 7;
  float logits[272] = {};
  const qrt_status statuses[] = {
      qrt_artifact_open(nullptr, nullptr, &a, nullptr),
      qrt_artifact_open(path().c_str(), nullptr, nullptr, nullptr),
      qrt_artifact_verify(nullptr, nullptr, nullptr, nullptr),
      qrt_artifact_describe(nullptr, nullptr, nullptr),
      qrt_artifact_describe(artifact.get(), nullptr, nullptr),
      qrt_artifact_code(nullptr, 0, nullptr, nullptr),
      qrt_artifact_code(artifact.get(), 0, nullptr, nullptr),
      qrt_artifact_memory_plan(nullptr, 1, 1, nullptr, nullptr),
      qrt_artifact_memory_plan(artifact.get(), 1, 1, nullptr, nullptr),
      qrt_cpu_describe(nullptr, nullptr),
      qrt_engine_create(nullptr, nullptr, &e, nullptr),
      qrt_engine_create(artifact.get(), nullptr, nullptr, nullptr),
      qrt_engine_describe(nullptr, nullptr, nullptr),
      qrt_engine_describe(engine.get(), nullptr, nullptr),
      qrt_engine_check(nullptr, nullptr, nullptr),
      qrt_engine_append(nullptr, nullptr, 0, nullptr),
      qrt_engine_append(engine.get(), nullptr, 1, nullptr),
      qrt_session_create(nullptr, nullptr, &s, nullptr),
      qrt_session_create(engine.get(), nullptr, nullptr, nullptr),
      qrt_session_reset(nullptr, nullptr),
      qrt_session_append(nullptr, &token, 1, nullptr, nullptr),
      qrt_session_append(session.get(), nullptr, 1, nullptr, nullptr),
      qrt_session_save(nullptr, nullptr, 0, nullptr, nullptr),
      qrt_session_save(session.get(), nullptr, 1 << 20, nullptr, nullptr),
      qrt_session_restore(nullptr, &token, 4, nullptr),
      qrt_session_restore(session.get(), nullptr, 4, nullptr),
      qrt_text_create(nullptr, &t, nullptr),
      qrt_text_create(artifact.get(), nullptr, nullptr),
      qrt_text_tokenize(nullptr, "", 0, 0, nullptr, 0, nullptr, nullptr),
      qrt_text_tokenize(text.get(), nullptr, 1, 0, nullptr, 0, nullptr, nullptr),
      qrt_text_tokenize(text.get(), "a", 1, 0, nullptr, 1, nullptr, nullptr),
      qrt_text_tokenize(text.get(), "a", 1, 2, &token, 1, nullptr, nullptr),
      qrt_text_detokenize(nullptr, &token, 1, nullptr, 0, nullptr, nullptr),
      qrt_text_detokenize(text.get(), nullptr, 1, nullptr, 0, nullptr, nullptr),
      qrt_text_render_chat(nullptr, nullptr, 0, nullptr, nullptr, 0, nullptr, nullptr),
      qrt_text_render_chat(text.get(), nullptr, 1, nullptr, nullptr, 0, nullptr, nullptr),
      qrt_sampler_defaults(nullptr, nullptr, nullptr),
      qrt_sampler_defaults(artifact.get(), nullptr, nullptr),
      qrt_sampler_create(nullptr, nullptr, &p, nullptr),
      qrt_sampler_create(artifact.get(), nullptr, nullptr, nullptr),
      qrt_sampler_sample(nullptr, logits, 272, &token, nullptr),
      qrt_sampler_sample(sampler, nullptr, 272, &token, nullptr),
      qrt_sampler_sample(sampler, logits, 272, nullptr, nullptr),
  };
  for (size_t i = 0; i < std::size(statuses); ++i)
    EXPECT_EQ(statuses[i], QRT_INVALID_ARGUMENT) << "call " << i;
  EXPECT_TRUE(a == nullptr && e == nullptr && s == nullptr && t == nullptr && p == nullptr);
  EXPECT_EQ(qrt_session_position(nullptr) + qrt_session_capacity(nullptr) + qrt_session_save_size(nullptr),
            0u);
  EXPECT_EQ(qrt_session_logits(nullptr), nullptr);
  EXPECT_EQ(qrt_text_is_end(nullptr, 0) + qrt_text_is_special(nullptr, 0), 0);
  EXPECT_EQ(qrt_text_begin_token(nullptr), -1);
  EXPECT_STREQ(qrt_text_token_bytes(nullptr, 0, nullptr), "");
  EXPECT_EQ(qrt_utf8_whole_prefix(nullptr, 3), 0u);
  qrt_session_cancel(nullptr);
  qrt_sampler_accept(nullptr, 1);
  qrt_sampler_reset(nullptr);
  qrt_artifact_release(nullptr);
  qrt_engine_release(nullptr);
  qrt_session_release(nullptr);
  qrt_text_release(nullptr);
  qrt_sampler_release(nullptr);
  qrt_sampler_release(sampler);
}

TEST_F(QrtApi, StructSizesOfOtherVersions) {
  const Artifact artifact = Open(path());
  qrt_engine* engine = nullptr;
  for (const size_t size :
       {size_t{0}, sizeof(qrt_engine_options) - 1, sizeof(qrt_engine_options) + 8, SIZE_MAX}) {
    qrt_engine_options options = {};
    options.struct_size = size;
    qrt_error error = Sized<qrt_error>();
    EXPECT_EQ(qrt_engine_create(artifact.get(), &options, &engine, &error), QRT_INVALID_ARGUMENT) << size;
    EXPECT_EQ(error.code, 5302u) << Say(error);
  }
  // An info struct of a newer header is filled as far as this library knows it.
  struct {
    qrt_artifact_info info;
    uint64_t newer;
  } larger = {};
  larger.info.struct_size = sizeof larger;
  larger.newer = 77;
  EXPECT_EQ(qrt_artifact_describe(artifact.get(), &larger.info, nullptr), QRT_OK);
  EXPECT_EQ(larger.info.struct_size, sizeof larger);
  EXPECT_EQ(larger.newer, 77u);
  EXPECT_EQ(larger.info.vocab_size, 272u);
  larger.info.struct_size = 8;
  EXPECT_EQ(qrt_artifact_describe(artifact.get(), &larger.info, nullptr), QRT_INVALID_ARGUMENT);
  qrt_error error = {};  // no struct_size: nothing is written
  EXPECT_EQ(qrt_artifact_describe(nullptr, nullptr, &error), QRT_INVALID_ARGUMENT);
  EXPECT_EQ(error.status, QRT_OK);
}

TEST_F(QrtApi, ErrorsOfOpening) {
  qrt_artifact* artifact = nullptr;
  qrt_error error = Sized<qrt_error>();
  EXPECT_EQ(qrt_artifact_open(File("missing.qbin").c_str(), nullptr, &artifact, &error), QRT_NOT_FOUND);
  EXPECT_NE(std::strstr(error.note, "missing.qbin"), nullptr) << Say(error);
  std::vector<uint8_t> bytes = qrt::testing::ReadFile(path());
  const auto write = [&](const std::string& name) {
    const std::string file = File(name);
    std::unique_ptr<FILE, int (*)(FILE*)> out(std::fopen(file.c_str(), "wb"), std::fclose);
    std::fwrite(bytes.data(), 1, bytes.size(), out.get());
    return file;
  };
  const qbin_section code =
      qrt::testing::SectionOf(bytes, qrt::testing::FindSection(bytes, QBIN_SECTION_CODE));
  const qbin_section weights =
      qrt::testing::SectionOf(bytes, qrt::testing::FindSection(bytes, QBIN_SECTION_WEIGHTS));
  bytes[code.offset + 100] ^= 1;
  EXPECT_EQ(qrt_artifact_open(write("code.qbin").c_str(), nullptr, &artifact, &error), QRT_ARTIFACT_CORRUPT);
  bytes[code.offset + 100] ^= 1;
  bytes[weights.offset + 100] ^= 1;
  const std::string bad_weights = write("weights.qbin");
  qrt_artifact_options options = Sized<qrt_artifact_options>();
  options.verify_weights = 1;
  EXPECT_EQ(qrt_artifact_open(bad_weights.c_str(), &options, &artifact, &error), QRT_ARTIFACT_CORRUPT);
  EXPECT_EQ(artifact, nullptr);
  const Artifact opened = Open(bad_weights);  // weights are checked on request only
  EXPECT_EQ(qrt_artifact_verify(opened.get(), nullptr, nullptr, &error), QRT_ARTIFACT_CORRUPT);
  const Artifact good = Open(path());
  EXPECT_EQ(qrt_artifact_verify(good.get(), nullptr, nullptr, &error), QRT_OK) << Say(error);
  EXPECT_EQ(qrt_artifact_verify(
                good.get(), [](void*, uint64_t, uint64_t) { return 1; }, nullptr, &error),
            QRT_CANCELLED);
}

TEST_F(QrtApi, CodeThatChangedAfterOpeningIsNotRun) {
  const std::string file = File("changing.qbin");
  WriteParts(toy::ToyParts(), file);
  const Artifact artifact = Open(file);
  const std::vector<uint8_t> bytes = qrt::testing::ReadFile(file);
  const qbin_section code =
      qrt::testing::SectionOf(bytes, qrt::testing::FindSection(bytes, QBIN_SECTION_CODE));
  const int descriptor = open(file.c_str(), O_WRONLY);
  ASSERT_GE(descriptor, 0);
  const uint8_t trap = 0xCC;
  ASSERT_EQ(pwrite(descriptor, &trap, 1, static_cast<off_t>(code.offset + 80)), 1);
  close(descriptor);
  qrt_engine* engine = nullptr;
  qrt_error error = Sized<qrt_error>();
  EXPECT_EQ(qrt_engine_create(artifact.get(), nullptr, &engine, &error), QRT_ARTIFACT_CORRUPT) << Say(error);
}

TEST_F(QrtApi, GoldensPassOrFail) {
  for (const bool wrong : {false, true}) {
    qrt::testing::SampleParts parts = toy::ToyParts();
    toy::AddGoldens(parts, wrong);
    const std::string file = File(wrong ? "wrong.qbin" : "right.qbin");
    WriteParts(parts, file);
    const Artifact artifact = Open(file);
    const Engine engine = MakeEngine(artifact.get(), 2);
    qrt_check_report report = Sized<qrt_check_report>();
    qrt_error error = Sized<qrt_error>();
    ASSERT_EQ(qrt_engine_check(engine.get(), &report, &error), QRT_OK) << Say(error);
    EXPECT_EQ(report.passed, wrong ? 0u : 1u);
    EXPECT_EQ(report.tokens, 20u);
    EXPECT_EQ(report.hashed_rows, 4u);
    EXPECT_EQ(report.exact_rows, wrong ? 3u : 4u);
    EXPECT_EQ(report.values, 20u);
    if (wrong) {
      EXPECT_GT(report.max_difference, 40.0f);
    } else {
      EXPECT_EQ(report.max_difference, 0.0f);
    }
  }
  const Artifact artifact = Open(path());
  const Engine engine = MakeEngine(artifact.get());
  qrt_check_report report = Sized<qrt_check_report>();
  EXPECT_EQ(qrt_engine_check(engine.get(), &report, nullptr), QRT_UNAVAILABLE);
}

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

TEST_F(QrtApi, AnInjectedThreadPoolRunsEverything) {
  const Artifact artifact = Open(path());
  const Engine own = MakeEngine(artifact.get(), 2);
  Pool pool;
  const qrt_thread_pool threads = {&pool, Pool::Run};
  qrt_engine_options options = Sized<qrt_engine_options>();
  options.threads = 3;
  options.thread_pool = &threads;
  qrt_engine* made = nullptr;
  ASSERT_EQ(qrt_engine_create(artifact.get(), &options, &made, nullptr), QRT_OK);
  const Engine engine(made);
  const Session expected = MakeSession(own.get()), session = MakeSession(engine.get());
  const std::vector<int32_t> tokens = Tokens(90);
  EXPECT_EQ(AllLogits(session.get(), tokens, 11), AllLogits(expected.get(), tokens, 90));
  EXPECT_GT(pool.runs.load(), 8);
  pool.refuse = true;
  qrt_error error = Sized<qrt_error>();
  EXPECT_EQ(qrt_session_append(session.get(), tokens.data(), 1, nullptr, &error), QRT_INTERNAL);
  EXPECT_EQ(error.code, 5321u) << Say(error);
  EXPECT_EQ(qrt_session_position(session.get()), 90u);
}

TEST_F(QrtApi, TextGoesRoundAndBuffersAreRespected) {
  const Artifact artifact = Open(path());
  qrt_text* made = nullptr;
  ASSERT_EQ(qrt_text_create(artifact.get(), &made, nullptr), QRT_OK);
  const Text text(made);
  const std::string source = "in the h\xC3\xA9lium <|im_end|>";
  std::vector<int32_t> tokens(source.size());
  size_t count = 0;
  for (const uint32_t flags : {0u, static_cast<uint32_t>(QRT_TOKENIZE_SPECIAL)}) {
    ASSERT_EQ(qrt_text_tokenize(text.get(), source.data(), source.size(), flags, nullptr, 0, &count, nullptr),
              QRT_BUFFER_TOO_SMALL);
    int32_t guard = -7;
    EXPECT_EQ(qrt_text_tokenize(text.get(), source.data(), source.size(), flags, &guard, 1, &count, nullptr),
              QRT_BUFFER_TOO_SMALL);
    EXPECT_EQ(guard, -7) << "a small buffer was written";
    ASSERT_EQ(qrt_text_tokenize(text.get(), source.data(), source.size(), flags, tokens.data(), count, &count,
                                nullptr),
              QRT_OK);
    EXPECT_EQ(tokens[count - 1] == 264, flags != 0) << "the special token at the end";
    std::string back(100, '\0');
    size_t length = 0;
    ASSERT_EQ(
        qrt_text_detokenize(text.get(), tokens.data(), count, back.data(), back.size(), &length, nullptr),
        QRT_OK);
    EXPECT_EQ(back.substr(0, length), source);
  }
  EXPECT_EQ(qrt_text_is_end(text.get(), 264), 1);
  EXPECT_EQ(qrt_text_is_end(text.get(), 263), 0);
  EXPECT_EQ(qrt_text_is_special(text.get(), 263), 1);
  EXPECT_EQ(qrt_text_is_special(text.get(), 'a'), 0);
  EXPECT_EQ(qrt_text_begin_token(text.get()), -1);
  const qrt_chat_message messages[] = {{"system", "S", nullptr}, {"user", "U", nullptr}};
  const auto rendered = [&](const qrt_chat_options* options) {
    char out[200];
    size_t length = 0;
    qrt_error error = Sized<qrt_error>();
    EXPECT_EQ(qrt_text_render_chat(text.get(), messages, 2, options, out, sizeof out, &length, &error),
              QRT_OK)
        << Say(error);
    return std::string(out, length);
  };
  const std::string history = "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU<|im_end|>\n";
  EXPECT_EQ(rendered(nullptr), history + "<|im_start|>assistant\n");
  qrt_chat_options options = Sized<qrt_chat_options>();
  EXPECT_EQ(rendered(&options), history);
  options.add_generation_prompt = 1;
  options.enable_thinking = 1;
  EXPECT_EQ(rendered(&options), history + "<|im_start|>assistant\n<think>");
}

TEST_F(QrtApi, WholePrefixKeepsBackOnlyWhatCanBeCompleted) {
  const struct {
    const char* bytes;
    size_t whole;
  } cases[] = {{"", 0},          {"abc", 3},           {"\xC3\xA9", 2},     {"a\xC3", 1},
               {"a\xE2\x82", 1}, {"a\xE2\x82\xAC", 4}, {"\xF0\x9F\x98", 0}, {"\xF0\x9F\x98\x80", 4},
               {"\xF0\x9F", 0},  {"a\x80\x80\x80", 4},  // stray continuations can never be completed
               {"\xE0\x80", 2},                         // overlong
               {"\xED\xA0", 2},                         // a surrogate
               {"\xF4\x90", 2},                         // above U+10FFFF
               {"\xF5", 1},      {"\xC1", 1},          {"\xC3(", 2}};
  for (const auto& c : cases) {
    EXPECT_EQ(qrt_utf8_whole_prefix(c.bytes, std::strlen(c.bytes)), c.whole)
        << testing::PrintToString(c.bytes);
  }
}

// Live bytes of an injected allocator; shares the failing allocation's number with operator new.
struct Counting {
  uint64_t live = 0;
  static void* Allocate(void* self, size_t bytes, size_t alignment) {
    if (!MayAllocate()) return nullptr;
    static_cast<Counting*>(self)->live += bytes;
    return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  }
  static void Deallocate(void* self, void* memory, size_t bytes, size_t) {
    static_cast<Counting*>(self)->live -= bytes;
    std::free(memory);
  }
};

TEST_F(QrtApi, ThePlanIsWhatIsAllocated) {
  Counting counting;
  const qrt_allocator allocator = {&counting, Counting::Allocate, Counting::Deallocate};
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
    const Engine engine = MakeEngine(artifact.get());
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
    Counting counting;
    const qrt_allocator allocator = {&counting, Counting::Allocate, Counting::Deallocate};
    qrt_artifact* artifact = nullptr;
    qrt_engine* engine = nullptr;
    qrt_session* session = nullptr;
    qrt_text* text = nullptr;
    qrt_sampler* sampler = nullptr;
    qrt_artifact_options options = Sized<qrt_artifact_options>();
    options.allocator = &allocator;
    qrt_engine_options engine_options = Sized<qrt_engine_options>();
    engine_options.threads = 2;
    qrt_error error = Sized<qrt_error>();
    const qrt_chat_message message = {"user", "hello there", nullptr};
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
    if (status == QRT_OK) status = qrt_session_append(session, tokens.data(), tokens.size(), nullptr, &error);
    if (status == QRT_OK)
      status = qrt_sampler_sample(sampler, qrt_session_logits(session), 272, &token, &error);
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
    qrt_session_release(session);
    qrt_engine_release(engine);
    qrt_artifact_release(artifact);
    EXPECT_EQ(counting.live, 0u) << "leak when allocation " << n << " failed";
    finished = !reached;
  }
  EXPECT_TRUE(finished);
  EXPECT_GT(n, 100) << "the failures cover next to nothing";
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

TEST_F(QrtApi, StatusNamesAreKnown) {
  for (qrt_status status = QRT_OK; status <= QRT_INTERNAL; ++status) {
    EXPECT_STRNE(qrt_status_name(status), "unknown status") << status;
  }
  EXPECT_STREQ(qrt_status_name(-1), "unknown status");
  EXPECT_STREQ(qrt_status_name(QRT_INTERNAL + 1), "unknown status")
      << "a new status needs a name, and this test";
}

}  // namespace
