#include "runtime/device/gpu/gpu_step_block.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "runtime/abi/gpu_step.h"

namespace qrt {

bool FitsStepBlock(const StepRequest& step, uint32_t max_rows) {
  const int64_t rows = max_rows;
  if (step.n_rows < 1 || step.n_rows > rows || step.n_seqs < 0 || step.n_seqs > rows || step.n_out < 0 ||
      step.n_out > rows || step.n_penalties > QRT_GPU_MAX_PENALTIES) {
    return false;
  }
  for (int64_t s = 0; s < step.n_seqs; ++s) {
    const qrt_seq& seq = step.seqs[s];
    if (seq.row_begin < 0 || seq.row_count < 0 || seq.row_count > step.n_rows ||
        seq.row_begin > step.n_rows - seq.row_count) {
      return false;
    }
  }
  return true;
}

uint64_t WriteStepBlock(const StepRequest& step, uint8_t* block) {
  const int64_t count = std::max({step.n_rows, step.n_seqs, step.n_out});
  const uint64_t end = qrt_gpu_entries_end(static_cast<uint64_t>(count));
  qrt_gpu_step header = {};
  header.n_rows = static_cast<uint32_t>(step.n_rows);
  header.n_seqs = static_cast<uint32_t>(step.n_seqs);
  header.n_out = static_cast<uint32_t>(step.n_out);
  header.penalties_at = static_cast<uint32_t>(end);
  std::memcpy(block, &header, sizeof header);

  // Fields beyond a list are zero.
  auto* entries = reinterpret_cast<qrt_gpu_entry*>(block + qrt_gpu_entries_offset());
  std::fill_n(entries, count, qrt_gpu_entry{});
  for (int64_t s = 0; s < step.n_seqs; ++s) {
    const qrt_seq& from = step.seqs[s];
    qrt_gpu_seq& seq = entries[s].seq;
    seq.state = reinterpret_cast<uint64_t>(from.state);
    seq.odd_offset = static_cast<uint64_t>(from.odd_offset);
    seq.kv = reinterpret_cast<uint64_t>(from.kv);
    seq.kv_capacity = static_cast<uint64_t>(from.kv_capacity);
    seq.past = static_cast<uint32_t>(from.past);
    seq.row_begin = static_cast<uint32_t>(from.row_begin);
    seq.row_count = static_cast<uint32_t>(from.row_count);
    for (int64_t i = 0; i < from.row_count; ++i) {
      const int64_t r = from.row_begin + i;
      qrt_gpu_row& row = entries[r].row;
      row.token = step.tokens[r];
      row.seq = static_cast<uint32_t>(s);
      row.position = static_cast<uint32_t>(from.past + i);
      std::memcpy(row.rope, step.positions + 4 * r, sizeof row.rope);
    }
  }
  for (int64_t o = 0; o < step.n_out; ++o) {
    if (step.out_rows != nullptr) entries[o].out_row = static_cast<uint32_t>(step.out_rows[o]);
    if (step.samples != nullptr) entries[o].sample = step.samples[o];
  }
  if (step.samples == nullptr || step.penalties == nullptr) return end;
  const uint64_t bytes = uint64_t{step.n_penalties} * sizeof(qrt_gpu_penalty);
  std::memcpy(block + end, step.penalties, bytes);
  return end + bytes;
}

GpuSampling SamplingOf(const StepRequest& step) {
  if (step.samples == nullptr) return GpuSampling::kGreedy;
  const std::span<const qrt_gpu_sample> samples(step.samples, static_cast<size_t>(step.n_out));
  const bool few = std::all_of(samples.begin(), samples.end(), [](const qrt_gpu_sample& sample) {
    return sample.top_k >= 1 && sample.top_k <= QRT_GPU_FEW_TOKENS;
  });
  return few ? GpuSampling::kDrawFew : GpuSampling::kDraw;
}

std::optional<GpuSampling> ChoosesIn(const ChainStep& link) {
  if (link.hands == Hands::kGuess) return GpuSampling::kGuess;
  if (link.step.chosen == nullptr && link.hands == Hands::kNothing) return std::nullopt;
  return SamplingOf(link.step);
}

uint64_t ChainBlocksBytes(uint32_t max_rows) {
  return qrt_gpu_step_bytes(max_rows) + (kMostChainSteps - 1) * qrt_gpu_entries_end(max_rows);
}

uint64_t ChainBlockOffset(size_t step, size_t steps, uint32_t max_rows) {
  if (step + 1 == steps) return 0;
  return qrt_gpu_step_bytes(max_rows) + step * qrt_gpu_entries_end(max_rows);
}

bool FitsChain(std::span<const ChainStep> steps, uint32_t max_rows) {
  if (steps.empty() || steps.size() > kMostChainSteps) return false;
  uint32_t made = 0;
  for (const ChainStep& link : steps) {
    const bool last = &link == &steps.back();
    if (!FitsStepBlock(link.step, max_rows) || link.fed > made ||
        static_cast<int64_t>(link.fed) > link.step.n_rows || link.step.n_out < 1 ||
        link.step.logits != nullptr || (link.step.chosen != nullptr) != last) {
      return false;
    }
    if (!last && link.step.samples != nullptr &&
        (link.hands != Hands::kChoice || link.step.n_penalties != 0)) {
      return false;
    }
    made += link.hands != Hands::kNothing;
  }
  return steps.back().hands == Hands::kNothing;
}

uint64_t FedTokenOffset(const ChainStep& step, uint32_t i) {
  const uint64_t row = static_cast<uint64_t>(step.step.n_rows) - step.fed + i;
  return qrt_gpu_entries_offset() + row * sizeof(qrt_gpu_entry) + offsetof(qrt_gpu_entry, row) +
         offsetof(qrt_gpu_row, token);
}

}  // namespace qrt
