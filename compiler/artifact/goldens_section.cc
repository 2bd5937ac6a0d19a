#include "compiler/artifact/goldens_section.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "runtime/abi/goldens.h"
#include "runtime/base/hash.h"

namespace qcc::compiler {

std::vector<uint8_t> BuildGoldensSection(std::span<const int32_t> tokens, std::span<const GoldenLogits> rows,
                                         uint32_t top, float tolerance, float rms_tolerance, bool exact) {
  std::vector<uint8_t> out;
  auto add = [&out](const void* data, size_t bytes) {
    const auto* p = static_cast<const uint8_t*>(data);
    out.insert(out.end(), p, p + bytes);
  };
  const qrt_goldens_header header{QRT_GOLDENS_MAGIC,
                                  QRT_GOLDENS_ABI,
                                  static_cast<uint32_t>(tokens.size()),
                                  static_cast<uint32_t>(rows.size()),
                                  top,
                                  tolerance,
                                  rms_tolerance};
  add(&header, sizeof header);
  add(tokens.data(), tokens.size_bytes());
  for (const GoldenLogits& row : rows) {
    qrt_golden_row entry{};
    entry.position = row.position;
    if (exact) {
      const qrt::Hash128 hash =
          qrt::HashOf({reinterpret_cast<const uint8_t*>(row.logits.data()), row.logits.size() * 4});
      std::memcpy(entry.logits_hash, hash.data(), sizeof entry.logits_hash);
    }
    add(&entry, sizeof entry);
    std::vector<uint32_t> ids(row.logits.size());
    std::iota(ids.begin(), ids.end(), 0u);
    std::partial_sort(ids.begin(), ids.begin() + top, ids.end(), [&row](uint32_t a, uint32_t b) {
      return row.logits[a] != row.logits[b] ? row.logits[a] > row.logits[b] : a < b;
    });
    ids.resize(top);
    add(ids.data(), ids.size() * 4);
    for (uint32_t id : ids) add(&row.logits[id], 4);
  }
  return out;
}

}  // namespace qcc::compiler
