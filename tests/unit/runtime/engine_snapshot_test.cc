// Saving and restoring sessions: exact, and never trusting the bytes.
#include <gtest/gtest.h>

#include "tests/unit/runtime/engine_toy.h"

namespace {

using qrt::Code;
using toy::Append;
using toy::Rows;
using toy::Tokens;
using toy::Toy;
using toy::ToySession;

std::vector<uint8_t> Saved(const qrt::Session& session) {
  std::vector<uint8_t> bytes(session.SaveSize());
  EXPECT_TRUE(session.Save(bytes.data()).ok());
  return bytes;
}

TEST(EngineSnapshot, ARestoredSessionGoesOnWithTheSameBits) {
  Toy toy;
  const std::vector<int32_t> tokens = Tokens(120);
  const auto expected = toy::Reference(tokens);
  for (const size_t at : {size_t{0}, size_t{1}, size_t{63}, size_t{64}, size_t{100}}) {
    ToySession source(toy, 200);
    ASSERT_TRUE(Append(source.session, {tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(at)}).ok());
    const std::vector<uint8_t> bytes = Saved(source.session);
    // Other capacities lay the KV out differently.
    for (const uint64_t capacity : {120u, 200u, 1000u}) {
      ToySession target(toy, capacity);
      ASSERT_TRUE(Append(target.session, Tokens(17, 9)).ok());
      const qrt::Status status = target.session.Restore(bytes.data(), bytes.size());
      ASSERT_TRUE(status.ok()) << status.ToString();
      EXPECT_EQ(target.session.position(), at);
      EXPECT_EQ(target.session.logits(), nullptr) << "a snapshot holds no logits";
      Rows rows;
      ASSERT_TRUE(Append(target.session, {tokens.begin() + static_cast<ptrdiff_t>(at), tokens.end()},
                         QRT_LOGITS_ALL, &rows)
                      .ok());
      for (size_t i = at; i < tokens.size(); ++i) {
        ASSERT_EQ(rows.rows[i - at].second, expected[i]) << "restored at " << at << ", position " << i;
      }
    }
  }
}

TEST(EngineSnapshot, SizeGrowsWithTheTokensOnly) {
  Toy toy;
  ToySession s(toy, 500);
  const uint64_t empty = s.session.SaveSize();
  ASSERT_TRUE(Append(s.session, Tokens(10)).ok());
  EXPECT_EQ(s.session.SaveSize(), empty + 10 * 2 * toy::kKvRow);
}

TEST(EngineSnapshot, EveryFlippedBitAndEveryCutIsRefused) {
  Toy toy;
  ToySession source(toy, 64), target(toy, 64);
  ASSERT_TRUE(Append(source.session, Tokens(5)).ok());
  ASSERT_TRUE(Append(target.session, Tokens(3, 2)).ok());
  const std::vector<uint8_t> before = Saved(target.session);
  std::vector<uint8_t> bytes = Saved(source.session);
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      bytes[i] ^= static_cast<uint8_t>(1 << bit);
      const qrt::Status status = target.session.Restore(bytes.data(), bytes.size());
      ASSERT_EQ(status.code(), Code::kSnapshotMismatch)
          << "byte " << i << ", bit " << bit << ": " << status.ToString();
      bytes[i] ^= static_cast<uint8_t>(1 << bit);
    }
  }
  for (size_t size = 0; size < bytes.size(); ++size) {
    ASSERT_EQ(target.session.Restore(bytes.data(), size).code(), Code::kSnapshotMismatch)
        << "cut to " << size;
  }
  std::vector<uint8_t> longer = bytes;
  longer.push_back(0);
  EXPECT_EQ(target.session.Restore(longer.data(), longer.size()).code(), Code::kSnapshotMismatch);
  EXPECT_EQ(Saved(target.session), before) << "a refused snapshot changed the session";
  EXPECT_TRUE(target.session.Restore(bytes.data(), bytes.size()).ok());
}

TEST(EngineSnapshot, AnotherArtifactOrTooSmallAContextIsRefused) {
  Toy toy;
  ToySession source(toy, 64);
  ASSERT_TRUE(Append(source.session, Tokens(20)).ok());
  const std::vector<uint8_t> bytes = Saved(source.session);

  Toy other;
  qrt::ModelPlan plan = toy::Plan(toy::Ladder());
  plan.identity[15] = 1;
  auto device = std::make_unique<toy::Device>(toy::Ladder(), qrt::ThreadPool::Create(1, 1));
  ASSERT_TRUE(qrt::Engine::Create(plan, std::move(device), nullptr, &other.engine).ok());
  ToySession foreign(other, 64);
  const qrt::Status status = foreign.session.Restore(bytes.data(), bytes.size());
  EXPECT_EQ(status.code(), Code::kSnapshotMismatch);
  EXPECT_NE(status.message().find("another artifact"), std::string::npos) << status.message();

  ToySession small(toy, 19);
  EXPECT_EQ(small.session.Restore(bytes.data(), bytes.size()).code(), Code::kContextFull);
  EXPECT_EQ(small.session.position(), 0u);
  ToySession exact(toy, 20);
  EXPECT_TRUE(exact.session.Restore(bytes.data(), bytes.size()).ok());
}

}  // namespace
