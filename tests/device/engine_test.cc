// Whole models on every device through the public interface: batches and cuts on CPUs and GPUs, snapshots
// that move between them, the choice of tokens, engines side by side.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "codegen/cpu/kernels/isa.h"
#include "compiler/pipeline/pipeline.h"
#include "runtime/include/qrt/qrt.h"
#include "tests/device/conformance.h"
#include "tests/unit/compiler/quiet_sink.h"
#include "tests/unit/runtime/qrt_handles.h"

namespace qcc::conformance {
namespace {

using qrt_api::Artifact;
using qrt_api::Engine;
using qrt_api::Sampler;
using qrt_api::Say;
using qrt_api::Session;
using qrt_api::Sized;
using Logits = std::vector<float>;

constexpr char kHybrid[] = "tests/golden/t35-q-Q4_K_M.gguf";
constexpr char kAttention[] = "tests/golden/t3-q-Q4_K_M.gguf";
constexpr char kExperts[] = "tests/golden/t3moe-q-Q4_K_M.gguf";
constexpr char kTrained[] = "assets/tiny-qwen35-q8_0.gguf";

// Whether a processor plays the target's GPU: most of the time is then its compiler's, half a second a
// kernel.
bool IsPlayed(const Target& target) {
  if (target.device != "vulkan") return false;
  static const bool played = [] {
    std::vector<qrt_device_info> devices(16, Sized<qrt_device_info>());
    size_t count = 0;
    qrt_error error = Sized<qrt_error>();
    EXPECT_EQ(qrt_devices_list(devices.data(), devices.size(), &count, &error), QRT_OK) << Say(error);
    devices.resize(std::min(count, devices.size()));
    return std::ranges::none_of(devices, [](const qrt_device_info& d) {
      return d.usable != 0 && std::string_view(d.id).starts_with("vulkan:") &&
             !std::string_view(d.facts).starts_with("cpu,");
    });
  }();
  return played;
}

// A model compiled for one GPU profile or one ISA level of CPUs, the trained one for both; compiled and
// opened once for each pair.
qrt_artifact* Open(const std::string& gguf, const Target& target) {
  static auto* opened = new std::map<std::string, Artifact>;
  Artifact& slot = (*opened)[gguf + " " + target.Name()];
  if (slot) return slot.get();
  compiler::PipelineOptions options;
  options.input = std::string(QCC_SOURCE_DIR) + "/" + gguf;
  options.output = testing::TempDir() + "/qcc_engine_" + target.Name() + "_" +
                   std::filesystem::path(gguf).stem().string() + "_" + std::to_string(getpid()) + ".qbin";
  options.targets = {target.device};
  options.cpu.clear();
  if (target.device == "cpu") {
    options.cpu = {target.variant};
  } else {
    options.gpu_profiles = {target.variant};
    if (gguf == kTrained) {
      options.targets = {"cpu", target.device};
      options.cpu = {"base"};
    }
  }
  options.prefill_buckets = {16, 64};
  // What a kernel makes of 2 and 4 rows is device_linear_test's, too.
  if (IsPlayed(target) && (gguf != kHybrid || target.variant == "none")) options.decode_buckets = {1, 8};
  compiler::QuietSink quiet;
  const absl::Status compiled = compiler::CompileModel(options, quiet);
  EXPECT_TRUE(compiled.ok()) << compiled;
  if (!compiled.ok()) return nullptr;
  qrt_artifact* artifact = nullptr;
  qrt_error error = Sized<qrt_error>();
  EXPECT_EQ(qrt_artifact_open(options.output.c_str(), nullptr, &artifact, &error), QRT_OK) << Say(error);
  std::error_code ignored;
  std::filesystem::remove(options.output, ignored);  // stays mapped
  slot.reset(artifact);
  return artifact;
}

// Kernels compiled once in this process.
struct KernelCacheFolder {
  const std::string path = testing::TempDir() + "/qcc_engine_cache_" + std::to_string(getpid());
  ~KernelCacheFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
};

Engine MakeEngine(qrt_artifact* artifact, const char* device) {
  qrt_engine_options options = Sized<qrt_engine_options>();
  options.device = device;
  options.threads = 2;
  static const KernelCacheFolder cache;
  options.cache_dir = cache.path.c_str();
  qrt_engine* engine = nullptr;
  qrt_error error = Sized<qrt_error>();
  EXPECT_EQ(qrt_engine_create(artifact, &options, &engine, &error), QRT_OK) << Say(error);
  return Engine(engine);
}

Session MakeSession(qrt_engine* engine, uint64_t tokens_ahead = 1) {
  qrt_session_options options = Sized<qrt_session_options>();
  options.context_tokens = 256;
  options.tokens_ahead = tokens_ahead;
  qrt_session* session = nullptr;
  qrt_error error = Sized<qrt_error>();
  EXPECT_EQ(qrt_session_create(engine, &options, &session, &error), QRT_OK) << Say(error);
  return Session(session);
}

uint32_t Vocab(const qrt_artifact* artifact) {
  qrt_artifact_info info = Sized<qrt_artifact_info>();
  qrt_artifact_describe(artifact, &info, nullptr);
  return info.vocab_size;
}

// The logits after the last of `tokens`.
Logits Feed(qrt_session* session, const std::vector<int32_t>& tokens, uint32_t vocab) {
  qrt_error error = Sized<qrt_error>();
  EXPECT_EQ(qrt_session_append(session, tokens.data(), tokens.size(), nullptr, &error), QRT_OK) << Say(error);
  const float* logits = qrt_session_logits(session);
  return logits == nullptr ? Logits() : Logits(logits, logits + vocab);
}

std::vector<uint8_t> Saved(const qrt_session* session) {
  std::vector<uint8_t> bytes(qrt_session_save_size(session));
  qrt_error error = Sized<qrt_error>();
  EXPECT_EQ(qrt_session_save(session, bytes.data(), bytes.size(), nullptr, &error), QRT_OK) << Say(error);
  return bytes;
}

Session Fork(const qrt_session* session) {
  qrt_session* fork = nullptr;
  qrt_error error = Sized<qrt_error>();
  EXPECT_EQ(qrt_session_fork(session, &fork, &error), QRT_OK) << Say(error);
  return Session(fork);
}

int32_t Best(const Logits& logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

std::vector<int32_t> RandomTokens(size_t n, uint32_t vocab, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> tokens(n);
  for (int32_t& t : tokens) t = static_cast<int32_t>(random() % vocab);
  return tokens;
}

// The hybrid has attention, too.
std::vector<const char*> DenseModels(const Target& target) {
  if (IsPlayed(target) && target.variant == "none") return {kHybrid};
  return {kHybrid, kAttention};
}

// Every ISA level of the CPU, as an artifact's own step functions run it, and every GPU profile.
std::vector<Target> LevelsAndGpus() {
  std::vector<Target> targets = GpuTargets();
  for (const cpu::IsaInfo& level : cpu::isa_table()) targets.push_back({"cpu", std::string(level.name)});
  return targets;
}

class EngineConformance : public testing::TestWithParam<Target> {
 protected:
  void SetUp() override {
    if (const std::string why = CannotRun(GetParam()); !why.empty()) GTEST_SKIP() << why;
  }
  const char* device() const { return GetParam().device.c_str(); }
};
// With a model of experts.
class ExpertsConformance : public EngineConformance {};
// What needs a GPU to say anything.
class GpuEngineConformance : public EngineConformance {};

std::string NameOf(const testing::TestParamInfo<Target>& info) {
  return info.param.Name();
}
INSTANTIATE_TEST_SUITE_P(On, EngineConformance, testing::ValuesIn(LevelsAndGpus()), NameOf);
INSTANTIATE_TEST_SUITE_P(On, ExpertsConformance, testing::ValuesIn(LevelsAndGpus()), NameOf);
INSTANTIATE_TEST_SUITE_P(On, GpuEngineConformance, testing::ValuesIn(GpuTargets()), NameOf);

// Sessions at different places, blocks of 16 tokens apart and across their borders (HZ-32), decoded alone and
// together: equal bits in every decode bucket. More sessions than the largest of them go through a prefill
// program: equal bits there too. A prompt is fed once, for both.
void CheckBatchMates(const char* gguf, const Target& target, const char* device) {
  SCOPED_TRACE(gguf);
  qrt_artifact* artifact = Open(gguf, target);
  ASSERT_NE(artifact, nullptr);
  const uint32_t vocab = Vocab(artifact);
  Engine engine = MakeEngine(artifact, device);
  ASSERT_NE(engine, nullptr);
  constexpr size_t kBegins[] = {3, 17, 90, 1, 13, 16, 57, 30, 47}, kSessions = std::size(kBegins),
                   kTokens = 5;
  std::vector<std::vector<int32_t>> prompts, next;
  std::vector<std::vector<Logits>> alone(kSessions);
  std::vector<Session> together;
  std::vector<std::vector<uint8_t>> saved;
  for (size_t i = 0; i < kSessions; ++i) {
    prompts.push_back(RandomTokens(kBegins[i], vocab, static_cast<uint32_t>(i)));
    next.push_back(RandomTokens(kTokens, vocab, static_cast<uint32_t>(100 + i)));
    Session session = MakeSession(engine.get());
    Feed(session.get(), prompts[i], vocab);
    together.push_back(Fork(session.get()));
    ASSERT_NE(together[i], nullptr);
    for (int32_t token : next[i]) alone[i].push_back(Feed(session.get(), {token}, vocab));
    saved.push_back(Saved(session.get()));
  }
  for (size_t t = 0; t < kTokens; ++t) {
    const size_t size = std::vector<size_t>{8, 2, 5, 3, 9}[t];
    for (size_t begin = 0; begin < kSessions; begin += size) {
      std::vector<qrt_batch_item> items;
      for (size_t i = begin; i < std::min(begin + size, kSessions); ++i) {
        qrt_batch_item item = {together[i].get(), &next[i][t], 1, Sized<qrt_append_options>()};
        item.options.want = QRT_LOGITS_LAST;
        items.push_back(item);
      }
      qrt_error error = Sized<qrt_error>();
      ASSERT_EQ(qrt_engine_append(engine.get(), items.data(), items.size(), &error), QRT_OK) << Say(error);
    }
    for (size_t i = 0; i < kSessions; ++i) {
      const float* logits = qrt_session_logits(together[i].get());
      ASSERT_NE(logits, nullptr);
      const Logits got(logits, logits + vocab);
      SCOPED_TRACE("session " + std::to_string(i) + ", token " + std::to_string(t) + ", batches of " +
                   std::to_string(size));
      ASSERT_EQ(got, alone[i][t]);
    }
  }
  for (size_t i = 0; i < kSessions; ++i) EXPECT_EQ(Saved(together[i].get()), saved[i]) << "session " << i;
}

TEST_P(EngineConformance, BatchMatesDoNotMatter) {
  for (const char* gguf : DenseModels(GetParam())) CheckBatchMates(gguf, GetParam(), device());
}

// Rows of many sequences that go to the same experts.
TEST_P(ExpertsConformance, BatchMatesDoNotMatter) {
  CheckBatchMates(kExperts, GetParam(), device());
}

// Prompts that share prefill steps, which cut some of them elsewhere than alone.
TEST_P(EngineConformance, PromptsTogether) {
  qrt_artifact* artifact = Open(kHybrid, GetParam());
  ASSERT_NE(artifact, nullptr);
  const uint32_t vocab = Vocab(artifact);
  Engine engine = MakeEngine(artifact, device());
  ASSERT_NE(engine, nullptr);
  std::vector<std::vector<int32_t>> prompts;
  std::vector<Session> sessions;
  std::vector<Logits> alone;
  std::vector<qrt_batch_item> items;
  for (size_t length : {44, 3, 60}) {
    prompts.push_back(RandomTokens(length, vocab, static_cast<uint32_t>(length)));
    alone.push_back(Feed(MakeSession(engine.get()).get(), prompts.back(), vocab));
    sessions.push_back(MakeSession(engine.get()));
  }
  for (size_t i = 0; i < prompts.size(); ++i) {
    items.push_back({sessions[i].get(), prompts[i].data(), prompts[i].size(), Sized<qrt_append_options>()});
    items[i].options.want = QRT_LOGITS_LAST;
  }
  qrt_error error = Sized<qrt_error>();
  ASSERT_EQ(qrt_engine_append(engine.get(), items.data(), items.size(), &error), QRT_OK) << Say(error);
  for (size_t i = 0; i < prompts.size(); ++i) {
    EXPECT_EQ(qrt_session_position(sessions[i].get()), prompts[i].size());
    const float* logits = qrt_session_logits(sessions[i].get());
    ASSERT_NE(logits, nullptr);
    EXPECT_EQ(Logits(logits, logits + vocab), alone[i]) << "prompt of " << prompts[i].size() << " tokens";
  }
}

TEST_P(EngineConformance, CutsOfAPrompt) {
  for (const char* gguf : DenseModels(GetParam())) {
    SCOPED_TRACE(gguf);
    qrt_artifact* artifact = Open(gguf, GetParam());
    ASSERT_NE(artifact, nullptr);
    const uint32_t vocab = Vocab(artifact);
    Engine engine = MakeEngine(artifact, device());
    ASSERT_NE(engine, nullptr);
    const std::vector<int32_t> tokens = RandomTokens(80, vocab, 3);
    Session whole = MakeSession(engine.get());
    const Logits want = Feed(whole.get(), tokens, vocab);
    for (size_t cut : {1, 7, 15, 16, 64, 79}) {
      Session session = MakeSession(engine.get());
      Feed(session.get(), {tokens.begin(), tokens.begin() + static_cast<int64_t>(cut)}, vocab);
      const Logits got =
          Feed(session.get(), {tokens.begin() + static_cast<int64_t>(cut), tokens.end()}, vocab);
      ASSERT_EQ(got, want) << "cut at " << cut;
    }
  }
}

// Of what a session was fed before it was reset, nothing is left on the device.
TEST_P(EngineConformance, AResetSessionIsANewOne) {
  qrt_artifact* artifact = Open(kHybrid, GetParam());
  ASSERT_NE(artifact, nullptr);
  const uint32_t vocab = Vocab(artifact);
  Engine engine = MakeEngine(artifact, device());
  ASSERT_NE(engine, nullptr);
  const std::vector<int32_t> tokens = RandomTokens(20, vocab, 5);
  Session used = MakeSession(engine.get()), fresh = MakeSession(engine.get());
  Feed(used.get(), RandomTokens(30, vocab, 6), vocab);
  qrt_error error = Sized<qrt_error>();
  ASSERT_EQ(qrt_session_reset(used.get(), &error), QRT_OK) << Say(error);
  EXPECT_EQ(Feed(used.get(), tokens, vocab), Feed(fresh.get(), tokens, vocab));
  EXPECT_EQ(Saved(used.get()), Saved(fresh.get()));
}

std::vector<int32_t> Greedy(qrt_session* session, int32_t first, int count, uint32_t vocab) {
  std::vector<int32_t> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(first = Best(Feed(session, {first}, vocab)));
  return tokens;
}

// Saved on one device, continued on the other: the same greedy tokens as where it was saved.
TEST_P(GpuEngineConformance, SnapshotsMove) {
  qrt_artifact* artifact = Open(kTrained, GetParam());
  ASSERT_NE(artifact, nullptr);
  const uint32_t vocab = Vocab(artifact);
  Engine cpu = MakeEngine(artifact, "cpu"), gpu = MakeEngine(artifact, device());
  ASSERT_TRUE(cpu && gpu);
  const std::vector<int32_t> prompt = {940, 1209, 937, 44, 32, 451, 1266, 278, 262, 3036, 327, 891};
  for (auto [from, to] : {std::pair(cpu.get(), gpu.get()), std::pair(gpu.get(), cpu.get())}) {
    Session source = MakeSession(from), target = MakeSession(to);
    const int32_t first = Best(Feed(source.get(), prompt, vocab));
    std::vector<uint8_t> saved(qrt_session_save_size(source.get()));
    size_t written = 0;
    qrt_error error = Sized<qrt_error>();
    ASSERT_EQ(qrt_session_save(source.get(), saved.data(), saved.size(), &written, &error), QRT_OK)
        << Say(error);
    ASSERT_EQ(qrt_session_restore(target.get(), saved.data(), written, &error), QRT_OK) << Say(error);
    EXPECT_EQ(qrt_session_position(target.get()), prompt.size());
    // On its own device a fork goes on with the same bits, whatever the session does meanwhile.
    const Session fork = Fork(source.get());
    ASSERT_NE(fork, nullptr);
    EXPECT_EQ(Greedy(target.get(), first, 12, vocab), Greedy(source.get(), first, 12, vocab))
        << (from == cpu.get() ? "from the CPU" : "to the CPU");
    const Session again = MakeSession(from);
    ASSERT_EQ(qrt_session_restore(again.get(), saved.data(), written, &error), QRT_OK) << Say(error);
    EXPECT_EQ(Feed(fork.get(), prompt, vocab), Feed(again.get(), prompt, vocab)) << "a fork";
  }
}

// A token that the device chose is the one that the sampler chooses from the same logits; only ids come back.
TEST_P(GpuEngineConformance, ChosenOnTheDevice) {
  qrt_artifact* artifact = Open(kHybrid, GetParam());
  ASSERT_NE(artifact, nullptr);
  const uint32_t vocab = Vocab(artifact);
  Engine engine = MakeEngine(artifact, device());
  ASSERT_NE(engine, nullptr);
  qrt_engine_info before = Sized<qrt_engine_info>(), after = Sized<qrt_engine_info>();
  ASSERT_EQ(qrt_engine_describe(engine.get(), &before, nullptr), QRT_OK);
  ASSERT_EQ(before.samples_on_device, 1u);
  for (float temperature : {0.f, .8f}) {
    qrt_sampler_options options = Sized<qrt_sampler_options>();
    ASSERT_EQ(qrt_sampler_defaults(artifact, &options, nullptr), QRT_OK);
    options.temperature = temperature;
    options.seed = 7;
    qrt_sampler *a = nullptr, *b = nullptr;
    ASSERT_EQ(qrt_sampler_create(artifact, &options, &a, nullptr), QRT_OK);
    ASSERT_EQ(qrt_sampler_create(artifact, &options, &b, nullptr), QRT_OK);
    Sampler on_device(a), on_host(b);
    Session drawn = MakeSession(engine.get()), read = MakeSession(engine.get());
    std::vector<int32_t> tokens = {40, 209, 437, 44, 32};
    for (int i = 0; i < 24; ++i) {
      const Logits logits = Feed(read.get(), tokens, vocab);
      int32_t want = -1, next = -1;
      qrt_sampler_seek(on_host.get(), qrt_session_position(read.get()));
      ASSERT_EQ(qrt_sampler_sample(on_host.get(), logits.data(), vocab, &want, nullptr), QRT_OK);
      ASSERT_EQ(qrt_engine_describe(engine.get(), &before, nullptr), QRT_OK);
      qrt_append_options append = Sized<qrt_append_options>();
      append.want = QRT_LOGITS_NONE;
      append.sampler = on_device.get();
      append.next = &next;
      qrt_error error = Sized<qrt_error>();
      ASSERT_EQ(qrt_session_append(drawn.get(), tokens.data(), tokens.size(), &append, &error), QRT_OK)
          << Say(error);
      ASSERT_EQ(qrt_engine_describe(engine.get(), &after, nullptr), QRT_OK);
      EXPECT_LE(after.bytes_to_host - before.bytes_to_host, 64u);
      ASSERT_EQ(next, want) << "token " << i << ", temperature " << temperature;
      qrt_sampler_accept(on_host.get(), want);
      qrt_sampler_accept(on_device.get(), want);
      tokens = {next};
    }
  }
}

// Tokens that the device decodes one behind the other in one submission, each fed what the one before chose,
// are those that it chooses one by one, by every way that it has of choosing.
TEST_P(GpuEngineConformance, TokensAheadAreTheSame) {
  qrt_artifact* artifact = Open(kHybrid, GetParam());
  ASSERT_NE(artifact, nullptr);
  Engine engine = MakeEngine(artifact, device());
  ASSERT_NE(engine, nullptr);
  struct Way {
    const char* name;
    float temperature;
    int32_t top_k;
  };
  for (const Way& way : {Way{"greedy", 0, 0}, Way{"drawn from few", .8f, 40}, Way{"drawn", .8f, 0}}) {
    SCOPED_TRACE(way.name);
    std::vector<int32_t> one_by_one;
    for (const uint64_t ahead : {1, 4}) {
      qrt_sampler_options sampling = Sized<qrt_sampler_options>();
      ASSERT_EQ(qrt_sampler_defaults(artifact, &sampling, nullptr), QRT_OK);
      sampling.temperature = way.temperature;
      sampling.top_k = way.top_k;
      sampling.seed = 7;
      sampling.repeat_penalty = 1;
      qrt_sampler* made = nullptr;
      ASSERT_EQ(qrt_sampler_create(artifact, &sampling, &made, nullptr), QRT_OK);
      const Sampler sampler(made);
      const Session session = MakeSession(engine.get(), ahead);
      qrt_generate_options options = Sized<qrt_generate_options>();
      options.sampler = sampler.get();
      std::vector<int32_t> tokens = {240};
      while (tokens.size() < 13) {
        int32_t next[4] = {};
        size_t count = 0;
        qrt_error error = Sized<qrt_error>();
        ASSERT_EQ(qrt_session_generate(session.get(), tokens.back(), &options, next, 4, &count, &error),
                  QRT_OK)
            << Say(error);
        ASSERT_EQ(count, ahead) << "tokens of a call";
        tokens.insert(tokens.end(), next, next + count);
        qrt_sampler_accept(sampler.get(), tokens.back());
      }
      if (ahead == 1) one_by_one = tokens;
      EXPECT_EQ(tokens, one_by_one) << ahead << " at once";
    }
  }
}

// An artifact without code for CPUs: planned for the GPU, refused on the CPU.
TEST_P(GpuEngineConformance, GpuOnlyArtifact) {
  qrt_artifact* artifact = Open(kHybrid, GetParam());
  ASSERT_NE(artifact, nullptr);
  qrt_artifact_info info = Sized<qrt_artifact_info>();
  ASSERT_EQ(qrt_artifact_describe(artifact, &info, nullptr), QRT_OK);
  qrt_memory_plan plan = Sized<qrt_memory_plan>();
  ASSERT_EQ(qrt_artifact_memory_plan(artifact, 100, 2, &plan, nullptr), QRT_OK);
  EXPECT_GT(plan.weight_bytes, 0u);
  EXPECT_EQ(plan.device_weight_bytes, plan.weight_bytes);
  EXPECT_GE(plan.total_bytes, 2 * plan.weight_bytes + plan.code_bytes + plan.kv_bytes);

  const auto refusal = [&](const char* where, const char* variant) {
    qrt_engine_options options = Sized<qrt_engine_options>();
    options.device = where;
    options.cpu = variant;
    qrt_engine* engine = nullptr;
    qrt_error error = Sized<qrt_error>();
    EXPECT_NE(qrt_engine_create(artifact, &options, &engine, &error), QRT_OK);
    qrt_engine_release(engine);
    return error;
  };
  const qrt_error no_code = refusal("cpu", nullptr), no_variant = refusal(device(), "sg99");
  EXPECT_EQ(no_code.code, 5002u) << Say(no_code);
  EXPECT_NE(Say(no_code).find("--target=cpu"), std::string::npos) << Say(no_code);
  EXPECT_EQ(no_variant.code, 5003u) << Say(no_variant);
  EXPECT_NE(Say(no_variant).find(GetParam().variant), std::string::npos) << Say(no_variant);
  // Without a wish it is the GPU.
  Engine engine = MakeEngine(artifact, nullptr);
  ASSERT_NE(engine, nullptr);
  qrt_engine_info chosen = Sized<qrt_engine_info>();
  ASSERT_EQ(qrt_engine_describe(engine.get(), &chosen, nullptr), QRT_OK);
  EXPECT_EQ(std::string(chosen.cpu), GetParam().variant);
}

TEST_P(EngineConformance, TwoEnginesAtOnce) {
  qrt_artifact* artifact = Open(kHybrid, GetParam());
  ASSERT_NE(artifact, nullptr);
  const uint32_t vocab = Vocab(artifact);
  auto talk = [&](qrt_engine* engine, uint32_t seed) {
    Session session = MakeSession(engine);
    const Logits logits = Feed(session.get(), RandomTokens(40, vocab, seed), vocab);
    return Greedy(session.get(), Best(logits), 12, vocab);
  };
  Engine a = MakeEngine(artifact, device()), b = MakeEngine(artifact, device());
  ASSERT_TRUE(a && b);
  const std::vector<int32_t> want_a = talk(a.get(), 1), want_b = talk(a.get(), 2);
  std::vector<int32_t> got_a, got_b;
  std::thread thread([&] { got_a = talk(a.get(), 1); });
  got_b = talk(b.get(), 2);
  thread.join();
  EXPECT_EQ(got_a, want_a);
  EXPECT_EQ(got_b, want_b);
}

}  // namespace
}  // namespace qcc::conformance
