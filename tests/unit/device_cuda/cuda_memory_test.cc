// No allocation per token on CUDA: neither by the engine nor by its device. Costs a compile, 5 s.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "runtime/engine/engine.h"
#include "runtime/engine/model_plan.h"
#include "runtime/engine/session.h"
#include "runtime/engine/speculation.h"
#include "tests/unit/device_cuda/cuda_model.h"
#include "tests/unit/device_cuda/fake_cuda.h"
#include "tests/unit/device_vulkan/own_allocations.h"

namespace qrt {
namespace {

TEST(CudaMemory, TokensTakeNone) {
  FakeCuda fake;
  Result<std::unique_ptr<Device>> device = CreateCudaDevice(CudaModel(), 0, {}, fake.loader());
  ASSERT_TRUE(device.ok()) << device.status().ToString();
  Result<ModelPlan> plan = PlanOf(CudaModel().manifest(), CudaModel().identity());
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  const uint32_t vocab = plan->vocab_size;
  std::unique_ptr<Engine> engine;
  ASSERT_TRUE(Engine::Create(*plan, std::move(*device), nullptr, &engine).ok());
  SamplerOptions drawing, greedy;
  drawing.repeat_penalty = 1.1f;
  greedy.temperature = 0;
  Sampler draws = *Sampler::Create(vocab, drawing), highest = *Sampler::Create(vocab, greedy);
  for (Sampler* sampler : {static_cast<Sampler*>(nullptr), &highest, &draws}) {
    for (const size_t count : {size_t{1}, size_t{3}, size_t{70}}) {
      for (const qrt_logits_want want : {QRT_LOGITS_NONE, QRT_LOGITS_LAST}) {
        Session session(*engine, nullptr);
        ASSERT_TRUE(session.Init({1000}, nullptr).ok());
        const std::vector<int32_t> tokens(count, 3);
        qrt_append_options options = {};
        options.struct_size = sizeof options;
        options.want = want;
        int32_t next = 0;
        bool ok = true;
        const auto feed = [&] {
          Batch batch(*engine);
          ok = ok &&
               batch.Add(session, tokens.data(), count, &options, sampler, sampler ? &next : nullptr).ok() &&
               batch.Run().ok();
          if (sampler != nullptr) sampler->Accept(next);
        };
        feed();
        testing::OwnAllocations own(FakeCuda::Within);
        for (int i = 0; i < 8; ++i) feed();
        const long found = own.Stop();
        EXPECT_TRUE(ok) << "an append failed";
        EXPECT_EQ(found, 0) << "steps of " << count << " tokens, logits " << want;
      }
    }
  }
}

TEST(CudaMemory, TokensDecodedAheadTakeNone) {
  FakeCuda fake;
  Result<std::unique_ptr<Device>> device = CreateCudaDevice(CudaModel(), 0, {}, fake.loader());
  ASSERT_TRUE(device.ok()) << device.status().ToString();
  Result<ModelPlan> plan = PlanOf(CudaModel().manifest(), CudaModel().identity());
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  std::unique_ptr<Engine> engine;
  ASSERT_TRUE(Engine::Create(*plan, std::move(*device), nullptr, &engine).ok());
  Sampler draws = *Sampler::Create(engine->plan().vocab_size, {});
  Session session(*engine, nullptr);
  ASSERT_TRUE(session.Init({1000, 0, QRT_DRAFT_NONE, 0, 8}, nullptr).ok());
  int32_t chosen[16];
  bool ok = true;
  const auto generate = [&] {
    Generated made;
    ok = ok && Generate(session, 3, draws, {}, chosen, &made).ok() && made.tokens == 8;
  };
  generate();
  testing::OwnAllocations own(FakeCuda::Within);
  for (int i = 0; i < 8; ++i) generate();
  const long found = own.Stop();
  EXPECT_TRUE(ok) << "a step failed";
  EXPECT_EQ(found, 0);
}

}  // namespace
}  // namespace qrt
