// A model in parts, each on a device of its own: numbers that the host can follow.
#ifndef TESTS_UNIT_RUNTIME_ENGINE_PARTS_TOY_H_
#define TESTS_UNIT_RUNTIME_ENGINE_PARTS_TOY_H_

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "runtime/engine/engine.h"
#include "tests/unit/runtime/host_toy_device.h"
#include "tests/unit/runtime/program_facts.h"

namespace parts_toy {

using qrt::CopyRange;
using qrt::DeviceBuffer;
using qrt::DeviceResult;

inline constexpr uint32_t kCols = 3, kWords = 7;
inline constexpr uint32_t kBucket = 4;

// A part of a model of few numbers: each row becomes its values times two plus what the part has counted of
// the sequence. Its arena may be out of the host's sight, as a GPU's is.
class PartDevice final : public toy::HostToyDevice {
 public:
  PartDevice(bool first, bool last, bool hidden)
      : HostToyDevice("part", kBucket * kCols * sizeof(float)), first_(first), last_(last), hidden_(hidden) {}

  uint32_t MostRows(std::span<const uint32_t>, uint64_t) const override { return most_rows; }
  uint8_t* host_arena() const override { return hidden_ ? nullptr : qrt::HostMemory::Data(arena_); }
  qrt::DeviceCounters counters() const override { return {runs, 0}; }

  DeviceResult Run(const qrt::StepRequest& step) override {
    if (failure != DeviceResult::kOk) return failure;
    ++runs;
    rows.push_back(step.n_rows);
    auto* x = reinterpret_cast<float*>(arena_.address);
    for (int64_t s = 0; s < step.n_seqs; ++s) {
      const qrt_seq& seq = step.seqs[s];
      auto* count = reinterpret_cast<float*>(seq.state);
      for (int64_t r = seq.row_begin; r < seq.row_begin + seq.row_count; ++r) {
        *count += 1;
        for (uint32_t c = 0; c < kCols; ++c) {
          float& value = x[r * kCols + c];
          if (first_) value = static_cast<float>(step.tokens[r]) + static_cast<float>(c);
          value = 2 * value + *count;
        }
      }
    }
    EXPECT_TRUE(last_ || (step.n_out == 0 && step.logits == nullptr)) << "only the last part gives logits";
    for (int64_t i = 0; i < step.n_out; ++i) {
      for (uint32_t w = 0; w < kWords; ++w) {
        step.logits[i * kWords + w] = x[step.out_rows[i] * kCols + w % kCols] + static_cast<float>(w);
      }
    }
    return DeviceResult::kOk;
  }
  DeviceResult Allocate(uint64_t bytes, DeviceBuffer* buffer) override {
    return failure == DeviceResult::kOk ? memory_.Allocate(bytes, buffer) : failure;
  }
  DeviceResult Read(std::span<const CopyRange> ranges) override {
    ++reads;
    return copies_fail ? DeviceResult::kFailed : memory_.Read(ranges);
  }
  DeviceResult Write(std::span<const CopyRange> ranges) override {
    ++writes;
    return copies_fail ? DeviceResult::kFailed : memory_.Write(ranges);
  }

  DeviceResult failure = DeviceResult::kOk;
  bool copies_fail = false;
  uint32_t most_rows = 1000;
  uint64_t runs = 0;
  int reads = 0, writes = 0;
  std::vector<int64_t> rows;  // of each run

 private:
  const bool first_, last_, hidden_;
};

inline qrt::ProgramFacts GivenRows(qrt::ProgramFacts facts) {
  facts.takes = qrt::kGiven;
  facts.given_cols = kCols;
  return facts;
}

inline qrt::ModelPlan PlanOfPart(bool first, bool last) {
  qrt::ModelPlan plan;
  plan.vocab_size = plan.logits_stride = kWords;
  plan.context_length = 100;
  plan.embedding_length = kCols;
  plan.state_bytes = 64;
  plan.states = {{0, 64}};
  const qrt::ProgramFacts leaves = first ? qrt::PrefillFacts({0}) : GivenRows(qrt::PrefillFacts({0}));
  const qrt::ProgramFacts gives = first ? qrt::DecodeFacts({0}) : GivenRows(qrt::DecodeFacts({0}));
  if (!last) {
    plan.programs = {{leaves, 1, 64, "one"}, {leaves, kBucket, 64, "all"}};
  } else {
    plan.programs = {{gives, 1, 64, "decode_1"}, {gives, kBucket, 64, "decode_4"}};
  }
  return plan;
}

struct Parts {
  // `hidden`: of each part whether the host sees its arena.
  explicit Parts(const std::vector<bool>& hidden) {
    std::vector<qrt::Engine::Part> parts;
    for (size_t i = 0; i < hidden.size(); ++i) {
      const bool first = i == 0, last = i + 1 == hidden.size();
      auto device = std::make_unique<PartDevice>(first, last, hidden[i]);
      devices.push_back(device.get());
      parts.push_back({PlanOfPart(first, last), std::move(device)});
    }
    const qrt::Status made = qrt::Engine::Create(std::move(parts), nullptr, &engine);
    EXPECT_TRUE(made.ok()) << made.ToString();
  }
  qrt::Status Append(qrt::Session& session, const std::vector<int32_t>& tokens) {
    qrt::Batch batch(*engine);
    const qrt::Status added = batch.Add(session, tokens.data(), tokens.size(), nullptr);
    return added.ok() ? batch.Run() : added;
  }

  std::vector<PartDevice*> devices;
  std::unique_ptr<qrt::Engine> engine;
};

}  // namespace parts_toy

#endif  // TESTS_UNIT_RUNTIME_ENGINE_PARTS_TOY_H_
