// What is told of a layer's last row: every count, and the rows that are none.
#include <gtest/gtest.h>

#include <limits>

#include "tests/unit/runtime/engine_toy.h"

namespace {

using qrt::Code;

// A session whose layers 2 and 5 keep four values each at the begin of its state, of which the toy's steps
// use none.
struct TracedToy {
  TracedToy() {
    auto made = std::make_unique<toy::Device>(toy::Ladder(), qrt::ThreadPool::Create(1, 64));
    device = made.get();
    qrt::ModelPlan plan = toy::Plan(toy::Ladder());
    plan.states = {{0, 32, 0, 0, true}, {32, toy::kStateBytes - 32}};
    plan.traces = {{2, 0, 4}, {5, 16, 4}};
    plan.values = {{2, 0, 4}, {5, 16, 4, 0, "attn_norm"}};
    EXPECT_TRUE(qrt::Engine::Create(std::move(plan), std::move(made), nullptr, &engine).ok());
    session = std::make_unique<qrt::Session>(*engine, nullptr);
    EXPECT_TRUE(session->Init({64}, nullptr).ok());
  }
  toy::Device* device = nullptr;
  std::unique_ptr<qrt::Engine> engine;
  std::unique_ptr<qrt::Session> session;
};

qrt_layer_trace TraceOf(const qrt::Session& session, size_t index) {
  qrt_layer_trace trace = {};
  trace.struct_size = sizeof trace;
  const qrt::Status status = session.Trace(index, &trace);
  EXPECT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(trace.struct_size, sizeof trace);
  return trace;
}

TEST(EngineTrace, EveryValueIsCounted) {
  TracedToy toy;
  EXPECT_EQ(TraceOf(*toy.session, 0).nonzero, 0u) << "before the first token";
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  toy.device->keeps = {0, -2, 3.5f, 0, nan, inf, 1, -0.f};
  ASSERT_TRUE(toy::Append(*toy.session, {1}).ok());
  const qrt_layer_trace plain = TraceOf(*toy.session, 0), bad = TraceOf(*toy.session, 1);
  EXPECT_EQ(plain.layer, 2u);
  EXPECT_EQ(plain.length, 4u);
  EXPECT_EQ(plain.nonzero, 2u);
  EXPECT_EQ(plain.nan + plain.infinite, 0u);
  EXPECT_EQ(plain.minimum, -2);
  EXPECT_EQ(plain.maximum, 3.5);
  EXPECT_EQ(plain.mean, 0.375);
  EXPECT_EQ(bad.layer, 5u);
  EXPECT_EQ(bad.nonzero, 3u) << "NaN is not 0";
  EXPECT_EQ(bad.nan, 1u);
  EXPECT_EQ(bad.infinite, 1u);
  EXPECT_EQ(bad.minimum, 0) << "of those that are numbers";
  EXPECT_EQ(bad.maximum, inf);
  EXPECT_EQ(bad.mean, inf);
  toy.device->keeps = {nan, nan, nan, nan};
  ASSERT_TRUE(toy::Append(*toy.session, {1}).ok());
  EXPECT_EQ(TraceOf(*toy.session, 0).nan, 4u);
  EXPECT_EQ(TraceOf(*toy.session, 0).mean, 0) << "there is no number";
}

TEST(EngineTrace, ValuesAreTheRowsThemselves) {
  TracedToy toy;
  toy.device->keeps = {0, -2, 3.5f, 0, 1, 2, 3, 4};
  ASSERT_TRUE(toy::Append(*toy.session, {1}).ok());
  ASSERT_EQ(toy.engine->values().size(), 2u);
  EXPECT_EQ(toy.engine->values()[1].role, "attn_norm");
  std::vector<float> row(4);
  ASSERT_TRUE(toy.session->Value(1, row.data()).ok());
  EXPECT_EQ(row, (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(toy.session->Value(2, row.data()).number(), 5327u);
}

TEST(EngineTrace, RowsThatAreNotKeptAreErrors) {
  TracedToy toy;
  qrt_layer_trace trace = {};
  const qrt::Status behind = toy.session->Trace(2, &trace);
  EXPECT_EQ(behind.code(), Code::kInvalidArgument) << behind.ToString();
  EXPECT_EQ(behind.number(), 5327u) << behind.ToString();
  toy::Toy plain;
  toy::ToySession untraced(plain);
  const qrt::Status none = untraced.session.Trace(0, &trace);
  EXPECT_EQ(none.code(), Code::kUnavailable) << none.ToString();
  EXPECT_EQ(none.number(), 5326u) << none.ToString();
}

// Whatever rows were seen on the way, and gone back over: they are no part of the sequence.
TEST(EngineTrace, TracesAreNoPartOfASequence) {
  TracedToy toy, fresh;
  const auto saved = [](const qrt::Session& session) {
    std::vector<uint8_t> bytes(session.SaveSize());
    EXPECT_TRUE(session.Save(bytes.data()).ok());
    return bytes;
  };
  toy.device->keeps = {1, 2, 3, 4, 5, 6, 7, 8};
  ASSERT_TRUE(toy::Append(*toy.session, {1}).ok());
  ASSERT_TRUE(toy::Append(*fresh.session, {1}).ok());
  EXPECT_EQ(saved(*toy.session), saved(*fresh.session)) << "equal sequences give equal snapshots";

  const std::vector<uint8_t> snapshot = saved(*toy.session);
  qrt::Session restored(*toy.engine, nullptr), fork(*toy.engine, nullptr);
  ASSERT_TRUE(restored.Init({64}, nullptr).ok() && fork.Init({64}, nullptr).ok());
  ASSERT_TRUE(restored.Restore(snapshot.data(), snapshot.size()).ok());
  ASSERT_TRUE(fork.CopyOf(*toy.session, nullptr).ok());
  qrt_layer_trace trace = {};
  for (qrt::Session* session : {&restored, &fork}) {
    EXPECT_EQ(session->Trace(0, &trace).number(), 5329u) << "another session's row, or none";
    ASSERT_TRUE(toy::Append(*session, {2}).ok());
    EXPECT_EQ(TraceOf(*session, 0).nonzero, 4u);
  }
  ASSERT_TRUE(toy::Append(*toy.session, {3}).ok());
  qrt::Session empty(*toy.engine, nullptr);
  ASSERT_TRUE(empty.Init({64}, nullptr).ok());
  const std::vector<uint8_t> nothing = saved(empty);
  ASSERT_TRUE(toy.session->Restore(nothing.data(), nothing.size()).ok());
  ASSERT_TRUE(toy.session->Reset().ok());
  EXPECT_EQ(TraceOf(*toy.session, 0).nonzero, 0u) << "zeros before the first token";
}

TEST(EngineTrace, ANumericFaultNamesTheFirstBadLayer) {
  TracedToy toy;
  qrt::SamplerOptions greedy;
  greedy.temperature = 0;
  toy.device->bend = [](float, uint32_t) { return std::numeric_limits<float>::quiet_NaN(); };
  toy.device->keeps = {1, 1, 1, 1, 1, std::numeric_limits<float>::infinity(), 1, 1};
  for (const char* says : {", layer 5 is the first", ", layer 2 is the first"}) {
    qrt::Sampler sampler = toy::MakeSampler(greedy);
    int32_t next = 0;
    const qrt::Status status = toy::AppendSampled(*toy.session, {1, 2}, &sampler, &next);
    EXPECT_EQ(status.number(), 5325u) << status.ToString();
    EXPECT_NE(status.note().find(says), std::string::npos) << status.ToString();
    toy.device->keeps[3] = std::numeric_limits<float>::quiet_NaN();
  }
}

}  // namespace
