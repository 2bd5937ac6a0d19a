// No allocation per token on a GPU: neither by the engine nor by its device, whatever a step is made of.
// Costs a second on lavapipe.
#include <string>
#include <vector>

#include "runtime/engine/engine.h"
#include "runtime/engine/model_plan.h"
#include "runtime/engine/session.h"
#include "tests/unit/device_vulkan/own_allocations.h"
#include "tests/unit/device_vulkan/vulkan_fixture.h"

namespace qrt::testing {
namespace {

using VulkanMemory = VulkanTest;

TEST(OwnAllocations, CountsThisProgramsOwn) {
  OwnAllocations own;
  std::string text(100, 'a');          // inlined
  text.append(std::string(500, 'b'));  // inside the C++ library
  std::vector<int> numbers(10);
  void* memory = std::malloc(text.size() + numbers.size());
  const long found = own.Stop();
  std::free(memory);
  EXPECT_GE(found, 4);
  OwnAllocations none;
  EXPECT_EQ(none.Stop(), 0);
}

struct Feeding {
  qrt_logits_want want;
  size_t count;      // tokens
  Sampler* sampler;  // may be null
};

// Appends to all sessions at once, again and again; allocations of this program meanwhile.
long AllocationsOf(Engine& engine, std::span<Session* const> sessions, const Feeding& feeding, int rounds) {
  const std::vector<int32_t> tokens(feeding.count, 3);
  qrt_append_options options = {};
  options.struct_size = sizeof options;
  options.want = feeding.want;
  int32_t next = 0;
  bool ok = true;
  const auto feed = [&] {
    Batch batch(engine);
    bool first = true;
    for (Session* session : sessions) {
      Sampler* sampler = first ? feeding.sampler : nullptr;
      first = false;
      ok = ok &&
           batch.Add(*session, tokens.data(), tokens.size(), &options, sampler, sampler ? &next : nullptr)
               .ok();
    }
    ok = ok && batch.Run().ok();
    if (feeding.sampler != nullptr) feeding.sampler->Accept(next);
  };
  feed();
  OwnAllocations own;
  for (int i = 0; i < rounds; ++i) feed();
  const long found = own.Stop();
  EXPECT_TRUE(ok) << "an append failed";
  return found;
}

TEST_F(VulkanMemory, TokensTakeNone) {
  const Artifact& artifact = ToyArtifact();
  Result<ModelPlan> plan = PlanOf(artifact.manifest(), artifact.identity());
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  std::unique_ptr<Engine> engine;
  ASSERT_TRUE(Engine::Create(*plan, Create(), nullptr, &engine).ok());
  SamplerOptions drawing, greedy;
  drawing.top_k = 5;
  drawing.top_p = 0.9f;
  drawing.repeat_penalty = 1.1f;
  greedy.temperature = 0;
  Sampler draws = *Sampler::Create(kVocab, drawing), highest = *Sampler::Create(kVocab, greedy);
  const struct {
    const char* name;
    size_t sessions;
    Feeding feeding;
  } kCases[] = {{"logits of one token", 1, {QRT_LOGITS_LAST, 1, nullptr}},
                {"the highest chosen on the device", 1, {QRT_LOGITS_NONE, 1, &highest}},
                {"drawn on the device, with penalties", 1, {QRT_LOGITS_NONE, 1, &draws}},
                {"drawn, and its logits", 1, {QRT_LOGITS_LAST, 1, &draws}},
                {"a prompt of several steps", 1, {QRT_LOGITS_LAST, 21, &draws}},
                {"no logits", 1, {QRT_LOGITS_NONE, 9, nullptr}},
                {"several sequences", 3, {QRT_LOGITS_LAST, 1, &highest}},
                {"several prompts", 3, {QRT_LOGITS_NONE, 13, &draws}}};
  for (const auto& c : kCases) {
    Session a(*engine, nullptr), b(*engine, nullptr), d(*engine, nullptr);
    for (Session* session : {&a, &b, &d}) ASSERT_TRUE(session->Init({500}, nullptr).ok());
    Session* const all[] = {&a, &b, &d};
    EXPECT_EQ(AllocationsOf(*engine, std::span(all).first(c.sessions), c.feeding, 15), 0) << c.name;
  }
}

}  // namespace
}  // namespace qrt::testing
