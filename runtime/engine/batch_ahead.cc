// Tokens that a device decodes one behind the other: each step is fed what the one before chose, and the host
// sees all of them at the end.
#include <algorithm>
#include <array>

#include "runtime/engine/engine.h"

namespace qrt {

Status Batch::AddAhead(Session& session, std::span<const int32_t> tokens, Sampler& sampler, int32_t* chosen,
                       size_t* count) {
  QRT_RETURN_IF_ERROR(AddGuesses(session, tokens, sampler, chosen, count));
  ahead_ = true;
  return Status();
}

Batch::Outcome Batch::RunAhead() {
  Session& session = *first_;
  Session::Feed& feed = session.feed_;
  const auto steps = static_cast<uint32_t>(feed.count);
  std::array<qrt_seq, kMostChainSteps> seqs;
  std::array<int32_t, 4 * kMostChainSteps> positions;
  std::array<qrt_gpu_sample, kMostChainSteps> samples = {};
  std::array<ChainStep, kMostChainSteps> chain = {};
  constexpr int32_t kOutRow = 0;
  const bool greedy = feed.sampler->plain_greedy();
  feed.taken = 1;
  for (uint32_t i = 0; i < steps; ++i) {
    const uint64_t position = session.position_ + i;
    seqs[i] = {
        nullptr, 0, nullptr, static_cast<int64_t>(session.kv_capacity_), static_cast<int64_t>(position),
        0,       1};
    AimAt(engine_.part_count() - 1, &seqs[i]);
    std::fill_n(&positions[4 * i], 4, static_cast<int32_t>(position));
    // Nothing is penalized: the list stays empty.
    if (!greedy) feed.sampler->Describe(position + 1, &samples[i], nullptr);
    ChainStep& link = chain[i];
    link.fed = i == 0 ? 0 : 1;
    link.hands = i + 1 == steps ? Hands::kNothing : Hands::kChoice;
    link.step.program = engine_.schedule().ForTokens(1).program;
    link.step.seqs = &seqs[i];
    link.step.n_seqs = link.step.n_rows = link.step.n_out = 1;
    link.step.tokens = feed.tokens;
    link.step.positions = &positions[4 * i];
    link.step.out_rows = &kOutRow;
    link.step.samples = greedy ? nullptr : &samples[i];
  }
  chain[steps - 1].step.chosen = feed.next_token + (steps - 1);
  session.has_logits_ = false;
  device_part_ = engine_.part_count() - 1;
  device_result_ = engine_.OnDevice(device_part_, [&](Device& device) {
    return device.RunChain({chain.data(), steps}, feed.next_token);
  });
  if (device_result_ != DeviceResult::kOk) {
    session.damaged_ = device_result_ != DeviceResult::kRefused;
    return Outcome::kDevice;
  }
  feed.taken = steps;
  feed.done += steps;
  *feed.choices = steps;
  session.Advance(steps);
  advanced_ = true;
  return Outcome::kDone;
}

}  // namespace qrt
