// What guessing and checking costs, in steps and in rows of logits.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/engine/speculation.h"
#include "tests/unit/runtime/engine_drafting_toy.h"

namespace {

using drafting::DraftingToy;
using toy::Step;

const uint32_t kNext = static_cast<uint32_t>(drafting::Both().size() - 1);

bool IsDraft(const Step& step) {
  return drafting::Both()[step.program].facts.leaves == drafting::kDraftStream;
}

// Of the draft's steps.
struct Totals {
  int64_t fed = 0;   // tokens with a row of the trunk
  int64_t next = 0;  // tokens that were guessed themselves
  int64_t logits = 0;
};

Totals DraftTotals(const std::vector<Step>& steps) {
  Totals totals;
  for (const Step& step : steps) {
    if (!IsDraft(step)) continue;
    (step.program == kNext ? totals.next : totals.fed) += step.rows;
    totals.logits += step.out;
  }
  return totals;
}

// LC-23: the draft follows a prompt without its head; of the token behind it there is one row of logits.
TEST(DraftSteps, APromptTakesNoLogitsOfTheDraft) {
  DraftingToy toy;
  const std::vector<int32_t> tokens = toy::Tokens(512);
  const auto whole = toy.Make(QRT_DRAFT_MODEL, 1), one_by_one = toy.Make(QRT_DRAFT_MODEL, 1);
  int32_t guess = -1;
  toy.device->steps.clear();
  ASSERT_TRUE(toy::Append(*whole, tokens, QRT_LOGITS_LAST).ok());
  Totals totals = DraftTotals(toy.device->steps);
  EXPECT_EQ(totals.fed, 512);
  EXPECT_EQ(totals.logits, 0) << "rows of logits that nobody asked for";
  ASSERT_EQ(whole->drafter()->Propose(512, 3, {&guess, 1}), 1u);
  totals = DraftTotals(toy.device->steps);
  EXPECT_EQ(totals.fed, 513);
  EXPECT_EQ(totals.logits, 1) << "one guess was asked for";

  toy.device->steps.clear();
  for (const int32_t token : tokens) ASSERT_TRUE(toy::Append(*one_by_one, {token}, QRT_LOGITS_LAST).ok());
  totals = DraftTotals(toy.device->steps);
  EXPECT_GT(totals.fed, 512 - 17);  // the last ones wait
  EXPECT_EQ(totals.logits, 0) << "rows of logits that nobody asked for";
}

// RLX-63: a round is the draft's guesses and one step of the trunk, the last. To take over what was right,
// and to take back the rest, nothing runs; the draft is fed the right ones together with the next guess.
TEST(DraftSteps, TakingGuessesOverRunsNothing) {
  struct Says {
    uint32_t right = 0;
    static int32_t Agrees(void* self, uint32_t index) { return index < static_cast<Says*>(self)->right; }
  };
  for (uint32_t count = 1; count <= 7; ++count) {
    for (uint32_t right = 0; right <= count; ++right) {
      SCOPED_TRACE(std::to_string(right) + " of " + std::to_string(count) + " guesses are right");
      DraftingToy toy;
      qrt::Sampler sampler = toy::MakeSampler({});
      const auto session = toy.Make(QRT_DRAFT_MODEL, count);
      ASSERT_TRUE(toy::Append(*session, toy::Tokens(64), QRT_LOGITS_NONE).ok());
      Says says = {right};
      int32_t token = 4, chosen[16];
      for (int64_t waiting = 0, round = 0; round < 5; ++round, waiting = right) {
        const uint64_t begin = session->position();
        toy.device->steps.clear();
        qrt::Generated generated;
        ASSERT_TRUE(
            qrt::Generate(*session, token, sampler, {nullptr, Says::Agrees, &says}, chosen, &generated).ok());
        ASSERT_EQ(generated.accepted, right);
        ASSERT_EQ(session->position(), begin + right + 1);
        const std::vector<Step>& steps = toy.device->steps;
        ASSERT_FALSE(steps.empty());
        const auto drafted = static_cast<size_t>(std::count_if(steps.begin(), steps.end(), IsDraft));
        EXPECT_EQ(drafted, steps.size() - 1) << "the check is not one step";
        EXPECT_FALSE(IsDraft(steps.back())) << "something ran after the check";
        EXPECT_EQ(steps.back().rows, count + 1);
        EXPECT_EQ(steps.back().out, count + 1);
        const Totals totals = DraftTotals(steps);
        EXPECT_EQ(totals.fed, waiting + 1) << "the draft is fed what was right and the next token, once";
        EXPECT_EQ(totals.next, count - 1);
        EXPECT_LE(totals.logits, waiting + count) << "rows of logits of the draft";
        token = chosen[right];
      }
    }
  }
}

// Notes what sessions take.
class Noting final : public toy::HostToyDevice {
 public:
  Noting() : HostToyDevice("noting toy", 8192) {}
  qrt::DeviceResult Run(const qrt::StepRequest&) override { return qrt::DeviceResult::kOk; }
  qrt::DeviceResult Allocate(uint64_t bytes, qrt::DeviceBuffer* buffer) override {
    taken.push_back(bytes);
    return HostToyDevice::Allocate(bytes, buffer);
  }
  std::vector<uint64_t> taken;
};

// N-8: guesses are taken back within the block before, so recurrent state has room for two blocks, however
// many are guessed at once.
TEST(DraftSteps, StateHasRoomForTwoBlocksWhateverIsGuessed) {
  qrt::ModelPlan plan = toy::Plan(toy::Ladder());
  plan.state_bytes = 256 + 16 * 64;
  plan.states = {{0, 256, 64}};
  plan.state_block = 16;
  auto made = std::make_unique<Noting>();
  Noting& device = *made;
  std::unique_ptr<qrt::Engine> engine;
  ASSERT_TRUE(qrt::Engine::Create(plan, std::move(made), nullptr, &engine).ok());
  for (const uint32_t guesses : {0u, 1u, 3u, 15u}) {
    SCOPED_TRACE(std::to_string(guesses) + " guesses");
    device.taken.clear();
    qrt::Session session(*engine, nullptr);
    const qrt_draft draft = guesses == 0 ? QRT_DRAFT_NONE : QRT_DRAFT_LOOKUP;
    ASSERT_TRUE(session.Init({64, 0, draft, guesses}, nullptr).ok());
    const uint64_t areas = guesses == 0 ? 1 : 2;
    EXPECT_EQ(device.taken, (std::vector<uint64_t>{areas * plan.state_bytes, 64 * toy::kKvBytesPerToken}));
  }
}

}  // namespace
