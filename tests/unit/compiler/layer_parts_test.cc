// A model whose layers run on several devices: each part compiled for itself, the same bits as in one piece.
#include "compiler/pipeline/layer_parts.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "compiler/driver/console.h"
#include "compiler/pipeline/compile_options.h"
#include "compiler/pipeline/pipeline.h"
#include "frontends/base/error.h"
#include "runtime/engine/engine.h"
#include "tests/unit/compiler/compiled.h"
#include "tests/unit/compiler/quiet_sink.h"

namespace qcc::compiler {
namespace {

// Delta nets and attention, and a NextN block that is not asked for.
const std::filesystem::path kCutModel =
    std::filesystem::path(QCC_SOURCE_DIR) / "tests" / "golden" / "t35-q-Q8_0.gguf";

TEST(LayerParts, AreReadAndWritten) {
  const std::vector<std::string> values = {"cpu:0-3", "vulkan:4", "cpu:5-7"};
  const auto parts = ParseLayerParts(values, "--layers");
  ASSERT_TRUE(parts.ok()) << parts.status();
  EXPECT_EQ(*parts, (std::vector<LayerPart>{{"cpu", 0, 3}, {"vulkan", 4, 4}, {"cpu", 5, 7}}));
  EXPECT_EQ(LayerPartsText(*parts), "cpu:0-3,vulkan:4-4,cpu:5-7");
  EXPECT_TRUE(CheckLayerParts(*parts, 8, "m.gguf").ok());
  for (const int64_t layers : {7, 9}) {
    const absl::Status status = CheckLayerParts(*parts, layers, "m.gguf");
    EXPECT_EQ(PartsOf(status).code, "Q3009") << status;
    EXPECT_NE(PartsOf(status).what.find("0 to " + std::to_string(layers - 1)), std::string::npos) << status;
  }
  EXPECT_TRUE(CheckLayerParts({}, 9, "m.gguf").ok()) << "not cut at all";
}

TEST(LayerParts, WhatCannotBeIsRefused) {
  const struct {
    std::vector<std::string> values;
    std::string says;
  } cases[] = {
      {{"cpu:0-3", "cpu:5-7"}, "begins with layer 5, expected 4: every layer runs on some device"},
      {{"cpu:0-3", "cpu:3-7"}, "begins with layer 3, expected 4: a layer runs on one device"},
      {{"cpu:1-7"}, "begins with layer 1, expected 0"},
      {{"cpu:0-3", "cpu:4-2"}, "ends with layer 2, before its first"},
      {{"tpu:0-3"}, "unknown target 'tpu', accepted: cpu, "},
      {{"cpu"}, "unknown value 'cpu'"},
      {{"cpu:"}, "unknown value 'cpu:'"},
      {{"cpu:a-b"}, "unknown value 'cpu:a-b'"},
      {{"cpu:0-"}, "unknown value 'cpu:0-'"},
      {{"cpu:-1-3"}, "unknown value 'cpu:-1-3'"},
      {{"cpu:0-3x"}, "unknown value 'cpu:0-3x'"},
      {{"cpu:0-99999999999999999999"}, "unknown value"},
      {{"cpu:0-9223372036854775807", "cpu:5-6"},
       "unknown value 'cpu:0-9223372036854775807', expected TARGET:FIRST-LAST with layers 0 to 4095"},
      {{"cpu:0-4096"}, "unknown value 'cpu:0-4096'"},
      {{"cpu:0-4095", "cpu:4096"}, "unknown value 'cpu:4096'"},
      {std::vector<std::string>(9, "cpu:0"), "9 parts, expected at most 8"},
  };
  for (const auto& c : cases) {
    const auto options = ReadCompileOptions("m.gguf", {{"layers", c.values}});
    ASSERT_FALSE(options.ok()) << c.values.back() << " was accepted";
    EXPECT_EQ(PartsOf(options.status()).code, "Q0102") << options.status();
    EXPECT_EQ(PartsOf(options.status()).where, "--layers") << options.status();
    EXPECT_NE(PartsOf(options.status()).what.find(c.says), std::string::npos)
        << "does not say '" << c.says << "': " << options.status();
  }
}

TEST(LayerParts, TheTargetsFollow) {
  const auto options = ReadCompileOptions("m.gguf", {{"layers", {"vulkan:0-3", "cpu:4-7", "vulkan:8"}}});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->targets, (std::vector<std::string>{"cpu", "vulkan"}));
  EXPECT_FALSE(options->gpu_profiles.empty());
  EXPECT_TRUE(options->in_parts());
  EXPECT_TRUE(ReadCompileOptions("m.gguf", {{"layers", {"cpu:0-7"}}, {"target", {"cpu"}}}).ok());
  const struct {
    GivenOptions given;
    std::string where;
  } conflicts[] = {{{{"target", {"cpu", "vulkan"}}}, "--layers"},
                   {{{"functions", {"mtp"}}}, "--functions"},
                   {{{"kernels", {"k"}}}, "--kernels"},
                   {{{"gpu_profiles", {"sg32-dot"}}}, "--gpu-profiles=sg32-dot"}};
  for (const auto& c : conflicts) {
    GivenOptions given = c.given;
    given["layers"] = {"cpu:0-3", "cpu:4-7"};
    const auto refused = ReadCompileOptions("m.gguf", given);
    ASSERT_FALSE(refused.ok()) << c.where;
    EXPECT_EQ(PartsOf(refused.status()).where, c.where) << refused.status();
  }
}

// An artifact and its parts, each on a CPU device; all share two threads.
struct Running {
  std::unique_ptr<qrt::Artifact> artifact;
  std::unique_ptr<qrt::Engine> engine;
};

class PartsOfModel : public InFolder {
 protected:
  // Pieces of code that parts have in common are made once.
  Running Run(const std::vector<std::string>& layers) {
    GivenOptions given = {{"output", {Path("m.qbin")}}, {"cpu", {"base"}},    {"decode", {"1", "4"}},
                          {"prefill", {"16"}},          {"goldens", {"off"}}, {"cache_dir", {Path("cache")}},
                          {"traceable", {"on"}}};
    if (!layers.empty()) given["layers"] = layers;
    Running out;
    const auto options = ReadCompileOptions(kCutModel.string(), given);
    EXPECT_TRUE(options.ok()) << options.status();
    if (!options.ok()) return out;
    QuietSink quiet;
    const absl::Status compiled = CompileModel(*options, quiet);
    EXPECT_TRUE(compiled.ok()) << compiled;
    auto opened = qrt::Artifact::Open(Path("m.qbin"));
    EXPECT_TRUE(opened.ok()) << opened.status().ToString();
    if (!opened.ok()) return out;
    out.artifact = *std::move(opened);
    std::filesystem::remove(Path("m.qbin"));
    const std::shared_ptr<qrt::Workers> workers = qrt::ThreadPool::Create(2, 2);
    std::vector<qrt::Engine::Part> parts;
    for (size_t i = 0; i < out.artifact->part_count(); ++i) {
      const qrt::Artifact& part = out.artifact->part(i);
      auto plan = qrt::PlanOf(part.manifest(), part.identity());
      auto device = qrt::CpuDevice::Create(part, 0, workers, nullptr);
      EXPECT_TRUE(plan.ok() && device.ok()) << device.status().ToString();
      if (!plan.ok() || !device.ok()) return out;
      parts.push_back({*std::move(plan), *std::move(device)});
    }
    const qrt::Status made = qrt::Engine::Create(std::move(parts), nullptr, &out.engine);
    EXPECT_TRUE(made.ok()) << made.ToString();
    return out;
  }
};

std::vector<int32_t> PromptOf(size_t count, int32_t seed) {
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < count; ++i) tokens.push_back(static_cast<int32_t>(i * 37 + seed) % 250);
  return tokens;
}

using Rows = std::vector<std::vector<float>>;

int32_t TakeRow(void* rows, qrt_session*, uint64_t, const float* logits, size_t count) {
  static_cast<Rows*>(rows)->emplace_back(logits, logits + count);
  return 0;
}

void Append(qrt::Engine& engine, qrt::Session& session, std::span<const int32_t> tokens, Rows* rows) {
  qrt_append_options options = {};
  options.struct_size = sizeof options;
  options.want = QRT_LOGITS_ALL;
  options.on_logits = TakeRow;
  options.ctx = rows;
  qrt::Batch batch(engine);
  ASSERT_TRUE(batch.Add(session, tokens.data(), tokens.size(), &options).ok());
  const qrt::Status ran = batch.Run();
  ASSERT_TRUE(ran.ok()) << ran.ToString();
}

// What each layer left of the last token: all that the report has but the layer's number.
void AddTraces(qrt::Session& session, Rows* rows) {
  for (size_t i = 0; i < 4; ++i) {
    qrt_layer_trace trace = {};
    ASSERT_TRUE(session.Trace(i, &trace).ok()) << "layer " << i;
    EXPECT_EQ(trace.layer, i);
    rows->push_back({static_cast<float>(trace.nonzero), static_cast<float>(trace.minimum),
                     static_cast<float>(trace.maximum), static_cast<float>(trace.mean)});
  }
}

// A prompt in steps of 16 rows, then token by token; a snapshot on the way; then three sessions at once.
Rows Story(qrt::Engine& engine) {
  Rows rows;
  qrt::Session session(engine, nullptr);
  EXPECT_TRUE(session.Init({96}, nullptr).ok());
  const std::vector<int32_t> tokens = PromptOf(46, 11);
  Append(engine, session, std::span(tokens).first(40), &rows);
  std::vector<uint8_t> snapshot(session.SaveSize());
  EXPECT_TRUE(session.Save(snapshot.data()).ok());
  for (size_t i = 40; i < 46; ++i) Append(engine, session, std::span(tokens).subspan(i, 1), &rows);
  const size_t before = rows.size();
  qrt::Session restored(engine, nullptr);
  EXPECT_TRUE(restored.Init({128}, nullptr).ok());
  EXPECT_TRUE(restored.Restore(snapshot.data(), snapshot.size()).ok());
  Append(engine, restored, std::span(tokens).subspan(40), &rows);
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(rows[before + i], rows[before - 6 + i]) << "row " << i;
  EXPECT_TRUE(restored.Reset().ok());
  Append(engine, restored, std::span(tokens).first(3), &rows);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(rows[before + 6 + i], rows[i]) << "row " << i << " after a reset";

  std::vector<std::unique_ptr<qrt::Session>> sessions;
  std::vector<std::vector<int32_t>> prompts = {PromptOf(5, 3), PromptOf(1, 7), PromptOf(21, 5)};
  std::vector<Rows> answers(prompts.size());
  qrt::Batch batch(engine);
  for (size_t i = 0; i < prompts.size(); ++i) {
    sessions.push_back(std::make_unique<qrt::Session>(engine, nullptr));
    EXPECT_TRUE(sessions[i]->Init({64}, nullptr).ok());
    qrt_append_options options = {};
    options.struct_size = sizeof options;
    options.want = QRT_LOGITS_ALL;
    options.on_logits = TakeRow;
    options.ctx = &answers[i];
    EXPECT_TRUE(batch.Add(*sessions[i], prompts[i].data(), prompts[i].size(), &options).ok());
  }
  EXPECT_TRUE(batch.Run().ok());
  for (const Rows& answer : answers) rows.insert(rows.end(), answer.begin(), answer.end());
  AddTraces(*sessions[2], &rows);
  return rows;
}

// Layers, their states and weights are of one part each; this model's head has a matrix of its own.
void ExpectOwnParts(const qrt::Artifact& whole, const qrt::Artifact& parts) {
  const qrt::Manifest &a = whole.manifest(), &b = parts.manifest();
  EXPECT_EQ(b.state_bytes, a.state_bytes);
  EXPECT_EQ(b.kv_bytes_per_token, a.kv_bytes_per_token);
  ASSERT_EQ(b.states.size(), a.states.size());
  for (size_t i = 0; i < a.states.size(); ++i) EXPECT_EQ(b.states[i].name, a.states[i].name);
  for (size_t i = 0; i < parts.part_count(); ++i) {
    const qrt::PartFacts& facts = b.parts[i];
    for (const qrt::StateInfo& state : parts.part(i).manifest().states) {
      EXPECT_GE(state.layer, facts.first_layer) << state.name;
      EXPECT_LT(state.layer, facts.first_layer + facts.layers) << state.name;
    }
  }
  std::map<std::string, std::multiset<uint32_t>> sections;
  for (const qrt::WeightInfo& weight : b.weights) sections[weight.name].insert(weight.section);
  for (const auto& [name, in] : sections) {
    EXPECT_EQ(in.size(), 1u) << name;
  }
  for (const qrt::WeightInfo& weight : a.weights) EXPECT_TRUE(sections.contains(weight.name)) << weight.name;
  EXPECT_TRUE(parts.VerifyWeights().ok());
}

TEST_F(PartsOfModel, TheBitsAreThoseOfOnePiece) {
  const Running whole = Run({});
  ASSERT_TRUE(whole.engine);
  EXPECT_EQ(whole.artifact->required_features() & QBIN_FEATURE_PARTS, 0u);
  const Rows want = Story(*whole.engine);
  ASSERT_EQ(want.size(), 40u + 6 + 6 + 3 + 27 + 4);
  EXPECT_EQ(whole.engine->counters().transfers, 0u);
  for (const std::vector<std::string>& layers :
       {std::vector<std::string>{"cpu:0", "cpu:1-3"}, std::vector<std::string>{"cpu:0-1", "cpu:2-3"},
        std::vector<std::string>{"cpu:0-2", "cpu:3"},
        std::vector<std::string>{"cpu:0", "cpu:1", "cpu:2", "cpu:3"}}) {
    SCOPED_TRACE(layers.front() + " of " + std::to_string(layers.size()) + " parts");
    const Running parts = Run(layers);
    ASSERT_TRUE(parts.engine);
    EXPECT_EQ(parts.engine->part_count(), layers.size());
    EXPECT_EQ(parts.artifact->required_features() & QBIN_FEATURE_PARTS, QBIN_FEATURE_PARTS);
    EXPECT_TRUE(Story(*parts.engine) == want) << "other bits";
    ExpectOwnParts(*whole.artifact, *parts.artifact);
    // Steps: 3 for the prompt, 6 of a token, 1 for six and 1 for three, 2 for the sessions at once.
    EXPECT_EQ(parts.engine->counters().transfers, (3u + 6 + 1 + 1 + 2) * (layers.size() - 1));
    EXPECT_EQ(
        parts.engine->counters().bytes_transferred,
        (want.size() - 4) * whole.artifact->manifest().model.embedding_length * 4 * (layers.size() - 1));
  }
}

}  // namespace
}  // namespace qcc::compiler
