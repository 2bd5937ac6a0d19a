// Steps that run one behind the other, over a driver that computes nothing: what is launched, copied and
// waited for.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/unit/device_cuda/cuda_model.h"
#include "tests/unit/device_cuda/fake_cuda.h"

namespace qrt {
namespace {

uint32_t ProgramOf(uint32_t takes, Output gives, uint32_t rows) {
  const auto& programs = CudaDraftingModel().manifest().programs;
  for (uint32_t i = 0; i < programs.size(); ++i) {
    if (programs[i].facts.takes == takes && programs[i].facts.gives == gives && programs[i].rows == rows) {
      return i;
    }
  }
  ADD_FAILURE() << "no such program";
  return 0;
}

// Two guesses, and the step of three rows that checks them.
struct Chain {
  explicit Chain(Device& device) {
    const ModelInfo& model = CudaDraftingModel().manifest().model;
    EXPECT_EQ(device.Allocate(CudaDraftingModel().manifest().state_bytes, &state), DeviceResult::kOk);
    EXPECT_EQ(device.Allocate(64 * CudaDraftingModel().manifest().kv_bytes_per_token, &kv),
              DeviceResult::kOk);
    row_bytes = model.embedding_length * sizeof(float);
    EXPECT_EQ(device.Allocate(3 * row_bytes, &kept), DeviceResult::kOk);
    const uint32_t programs[] = {ProgramOf(kTokens | kGiven, Output::kLogits, 1),
                                 ProgramOf(kTokens | kStream, Output::kLogits, 1),
                                 ProgramOf(kTokens, Output::kChosenLogits, 4)};
    for (size_t i = 0; i < 3; ++i) {
      const int64_t rows = i == 2 ? 3 : 1;
      seqs[i] = {reinterpret_cast<uint8_t*>(state.address),
                 0,
                 reinterpret_cast<uint8_t*>(kv.address),
                 64,
                 0,
                 0,
                 rows};
      StepRequest& step = steps[i].step;
      step.program = programs[i];
      step.seqs = &seqs[i];
      step.n_seqs = 1;
      step.n_rows = step.n_out = rows;
      step.tokens = tokens;
      step.positions = positions;
      step.out_rows = out_rows;
      steps[i].hands = i != 2 ? Hands::kGuess : Hands::kNothing;
      steps[i].fed = static_cast<uint32_t>(i);
    }
    steps[2].step.chosen = chosen;
    steps[2].after = {&device.arena(), 0, &kept, 0, 3 * row_bytes};
  }
  Chain(const Chain&) = delete;
  void Free(Device& device) {
    for (DeviceBuffer* buffer : {&state, &kv, &kept}) device.Free(buffer);
  }

  DeviceBuffer state, kv, kept;
  uint64_t row_bytes = 0;
  qrt_seq seqs[3] = {};
  ChainStep steps[3];
  const int32_t tokens[3] = {7, 0, 0}, positions[12] = {}, out_rows[3] = {0, 1, 2};
  int32_t chosen[3] = {-7, -7, -7}, guesses[2] = {-7, -7};
};

TEST(CudaChain, GuessesAndTheirCheckAreOneWait) {
  FakeCuda fake;
  {
    auto made = CreateCudaDevice(CudaDraftingModel(), 0, {}, fake.loader());
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    Device& device = **made;
    ASSERT_TRUE(device.chains());
    Chain chain(device);
    std::vector<uint8_t> rows(3 * chain.row_bytes), kept(rows.size());
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<uint8_t>(i * 7);
    const CopyRange place = {&device.arena(), 0, rows.data(), rows.size()},
                    read = {&chain.kept, 0, kept.data(), kept.size()};
    ASSERT_EQ(device.Write({&place, 1}), DeviceResult::kOk);
    const DeviceCounters before = device.counters();
    fake.launched.clear();
    fake.waits = 0;
    ASSERT_EQ(device.RunChain(chain.steps, chain.guesses), DeviceResult::kOk) << device.last_error();
    EXPECT_EQ(fake.waits, 1);
    EXPECT_EQ(fake.launched.size(), 3u) << "graphs";
    EXPECT_EQ(device.counters().bytes_to_host - before.bytes_to_host, 4u * (2 + 3));
    for (const int32_t token : chain.guesses) EXPECT_EQ(token, 0) << "what the results hold";
    for (const int32_t token : chain.chosen) EXPECT_EQ(token, 0);
    ASSERT_EQ(device.Read({&read, 1}), DeviceResult::kOk);
    EXPECT_EQ(kept, rows) << "the rows that the check leaves";

    const auto refused = [&](const char* what, auto change) {
      ChainStep steps[3] = {chain.steps[0], chain.steps[1], chain.steps[2]};
      change(steps);
      fake.launched.clear();
      EXPECT_EQ(device.RunChain(steps, chain.guesses), DeviceResult::kFailed) << what;
      EXPECT_FALSE(device.last_error().empty()) << what;
      EXPECT_TRUE(fake.launched.empty()) << what;
    };
    refused("fed before there is a guess", [](ChainStep* s) { s[0].fed = 1; });
    refused("fed more than there are", [](ChainStep* s) { s[2].fed = 3; });
    refused("a guess that nobody takes", [](ChainStep* s) { s[2].hands = Hands::kGuess; });
    refused("no token chosen", [](ChainStep* s) { s[2].step.chosen = nullptr; });
    refused("a guess of the trunk", [](ChainStep* s) { s[1].step = s[2].step, s[1].step.chosen = nullptr; });
    refused("no such program", [](ChainStep* s) { s[1].step.program = 1000; });
    float logits[1];
    refused("logits", [&](ChainStep* s) { s[1].step.logits = logits; });
    EXPECT_EQ(device.RunChain({}, chain.guesses), DeviceResult::kFailed);

    for (const char* function :
         {"cuMemcpyHtoDAsync_v2", "cuMemcpyDtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuGraphLaunch"}) {
      for (int at = 1;; ++at) {
        fake.fail_function = function;
        fake.fail_at = at;
        fake.fail_with = 1;
        const DeviceResult result = device.RunChain(chain.steps, chain.guesses);
        const bool failed = fake.fail_at == 0;
        fake.fail_at = 0;
        EXPECT_EQ(result, failed ? DeviceResult::kFailed : DeviceResult::kOk) << function << ", call " << at;
        EXPECT_TRUE(fake.pending.empty()) << function << ", call " << at << ": the blocks are still read";
        if (!failed) break;
        EXPECT_LT(at, 50);
      }
    }
    chain.Free(device);
  }
  EXPECT_TRUE(fake.Clean());
  for (const std::string& problem : fake.problems) ADD_FAILURE() << problem;
  {
    auto plain = CreateCudaDevice(CudaModel(), 0, {}, fake.loader());
    ASSERT_TRUE(plain.ok()) << plain.status().ToString();
    EXPECT_FALSE((*plain)->chains_guesses()) << "a model without a draft";
  }
}

// Steps of the trunk, each fed what the one before chose: a graph each, one wait, an id each comes back.
TEST(CudaChain, TokensAreDecodedAheadOfTheHost) {
  FakeCuda fake;
  {
    auto made = CreateCudaDevice(CudaModel(), 0, {}, fake.loader());
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    Device& device = **made;
    ASSERT_TRUE(device.chains());
    const Manifest& manifest = CudaModel().manifest();
    const auto decode =
        std::find_if(manifest.programs.begin(), manifest.programs.end(), [](const ProgramInfo& program) {
          return program.rows == 1 && program.facts.gives == Output::kChosenLogits;
        });
    ASSERT_NE(decode, manifest.programs.end());
    DeviceBuffer state, kv;
    ASSERT_EQ(device.Allocate(manifest.state_bytes, &state), DeviceResult::kOk);
    ASSERT_EQ(device.Allocate(64 * manifest.kv_bytes_per_token, &kv), DeviceResult::kOk);
    const int32_t token = 7, positions[4] = {}, out_row = 0;
    int32_t chosen = -7, handed[3] = {-7, -7, -7};
    qrt_gpu_sample sample = {};
    sample.top_k = 40;
    qrt_seq seqs[4];
    ChainStep steps[4];
    for (int64_t i = 0; i < 4; ++i) {
      seqs[i] = {
          reinterpret_cast<uint8_t*>(state.address), 0, reinterpret_cast<uint8_t*>(kv.address), 64, i, 0, 1};
      StepRequest& step = steps[i].step;
      step.program = static_cast<uint32_t>(decode - manifest.programs.begin());
      step.seqs = &seqs[i];
      step.n_seqs = step.n_rows = step.n_out = 1;
      step.tokens = &token;
      step.positions = positions;
      step.out_rows = &out_row;
      step.samples = &sample;
      steps[i].fed = i == 0 ? 0 : 1;
      steps[i].hands = i == 3 ? Hands::kNothing : Hands::kChoice;
    }
    steps[3].step.chosen = &chosen;
    const DeviceCounters before = device.counters();
    fake.launched.clear();
    fake.waits = 0;
    ASSERT_EQ(device.RunChain(steps, handed), DeviceResult::kOk) << device.last_error();
    EXPECT_EQ(fake.waits, 1);
    EXPECT_EQ(fake.launched.size(), 4u) << "graphs";
    EXPECT_EQ(device.counters().bytes_to_host - before.bytes_to_host, 4u * 4);
    for (const int32_t id : handed) EXPECT_EQ(id, 0) << "what the results hold";
    EXPECT_EQ(chosen, 0);
    steps[1].hands = Hands::kGuess;
    steps[1].step.samples = nullptr;
    EXPECT_EQ(device.RunChain(steps, handed), DeviceResult::kFailed) << "it has no kernels to guess";
    device.Free(&state);
    device.Free(&kv);
  }
  EXPECT_TRUE(fake.Clean());
  for (const std::string& problem : fake.problems) ADD_FAILURE() << problem;
}

}  // namespace
}  // namespace qrt
