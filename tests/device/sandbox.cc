#include "tests/device/sandbox.h"

#include <algorithm>

namespace qcc::gpu {
namespace {

constexpr uint64_t kAlign = 256;

// `bytes` from the first address of `storage` that is a multiple of kAlign.
HostBytes Aligned(std::vector<uint8_t>& storage, uint64_t bytes) {
  storage.resize(bytes + kAlign);
  auto address = reinterpret_cast<uint64_t>(storage.data());
  return {storage.data() + (kAlign - address % kAlign) % kAlign, bytes};
}

}  // namespace

uint32_t StepRows::rows() const {
  uint32_t n = 0;
  for (const Sequence& s : sequences) {
    n += s.rows;
  }
  return n;
}

std::vector<uint8_t> BuildStep(const StepRows& step, int64_t max_rows) {
  auto most = static_cast<uint64_t>(max_rows);
  std::vector<uint8_t> block(qrt_gpu_step_bytes(most));
  auto put = [&](uint64_t offset, const auto& value) { std::memcpy(&block[offset], &value, sizeof(value)); };
  qrt_gpu_step head = {};
  head.n_rows = step.rows();
  head.n_seqs = static_cast<uint32_t>(step.sequences.size());
  head.n_out = static_cast<uint32_t>(step.outs.size());
  // Anywhere behind the entries in use: here behind all.
  head.penalties_at = static_cast<uint32_t>(qrt_gpu_entries_end(most));
  put(0, head);
  const auto entry = [](uint64_t i) { return qrt_gpu_entries_end(i); };
  uint32_t row = 0;
  for (uint32_t s = 0; s < head.n_seqs; ++s) {
    const StepRows::Sequence& from = step.sequences[s];
    qrt_gpu_seq seq = {};
    seq.state = reinterpret_cast<uint64_t>(from.state);
    seq.odd_offset = from.odd_offset;
    seq.kv = reinterpret_cast<uint64_t>(from.kv);
    seq.kv_capacity = from.kv_capacity;
    seq.past = from.past;
    seq.row_begin = row;
    seq.row_count = from.rows;
    put(entry(s) + offsetof(qrt_gpu_entry, seq), seq);
    for (uint32_t i = 0; i < from.rows; ++i, ++row) {
      qrt_gpu_row r = {};
      r.token = row < step.tokens.size() ? step.tokens[row] : 0;
      r.seq = s;
      r.position = from.past + i;
      for (int j = 0; j < 4; ++j) {
        r.rope[j] = row < step.rope.size() ? step.rope[row][j] : static_cast<int32_t>(r.position);
      }
      put(entry(row) + offsetof(qrt_gpu_entry, row), r);
    }
  }
  for (size_t i = 0; i < step.outs.size(); ++i) {
    put(entry(i) + offsetof(qrt_gpu_entry, out_row), step.outs[i]);
  }
  for (size_t i = 0; i < step.samples.size(); ++i) {
    put(entry(i) + offsetof(qrt_gpu_entry, sample), step.samples[i]);
  }
  for (size_t i = 0; i < step.penalties.size(); ++i) {
    put(head.penalties_at + i * sizeof(qrt_gpu_penalty), step.penalties[i]);
  }
  return block;
}

Arg Sandbox::Place(Space space, const void* data, uint64_t bytes) {
  std::vector<uint8_t>& memory = spaces_[static_cast<size_t>(space)];
  uint64_t offset = (memory.size() + kAlign - 1) / kAlign * kAlign;
  memory.resize(offset, 0xff);
  memory.resize(offset + bytes, 0xff);
  if (data != nullptr && bytes != 0) {
    std::memcpy(&memory[offset], data, bytes);
  }
  return {space, offset, bytes};
}

std::string Sandbox::Run(const std::vector<Launch>& launches) {
  if (step.rows() > max_rows_) {
    return "a step of " + std::to_string(step.rows()) + " rows, at most " + std::to_string(max_rows_);
  }
  spaces_[static_cast<size_t>(Space::kStep)] = BuildStep(step, max_rows_);
  HostMemory memory;
  std::array<std::vector<uint8_t>, 8> images;
  for (size_t s = 0; s < spaces_.size(); ++s) {
    memory.spaces[s] = Aligned(images[s], spaces_[s].size());
    std::copy(spaces_[s].begin(), spaces_[s].end(), static_cast<uint8_t*>(memory.spaces[s].data));
  }
  for (std::vector<uint8_t>& outside : outside_) {
    memory.writable.push_back({outside.data(), outside.size()});
  }
  std::string error = Interpret(profile_, launches, memory);
  for (size_t s = 0; s < spaces_.size(); ++s) {
    std::copy_n(static_cast<const uint8_t*>(memory.spaces[s].data), spaces_[s].size(), spaces_[s].begin());
  }
  return error;
}

}  // namespace qcc::gpu
