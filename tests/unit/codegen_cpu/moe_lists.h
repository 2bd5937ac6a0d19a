// What the tests of the expert kernels share: which experts a row uses, and the lists of moe_group, plainly.
#ifndef QCC_TESTS_UNIT_CODEGEN_CPU_MOE_LISTS_H_
#define QCC_TESTS_UNIT_CODEGEN_CPU_MOE_LISTS_H_

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/unit/codegen_cpu/kernel_harness.h"

namespace qcc::cpu {

// The ids of the top_k largest logits, NaN being the lowest; ascending.
inline std::vector<int32_t> used_experts(const float* logits, int64_t experts, int64_t top_k) {
  std::vector<int32_t> ids(static_cast<size_t>(experts));
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) {
    return !std::isnan(logits[a]) && (std::isnan(logits[b]) || logits[a] > logits[b]);
  });
  ids.resize(static_cast<size_t>(top_k));
  std::sort(ids.begin(), ids.end());
  return ids;
}

// The lists of kernel_families.md.
struct Lists {
  std::vector<int32_t> ids, groups, order;
};
inline Lists lists_of(const std::vector<int32_t>& ids, int64_t experts) {
  Lists l{ids, std::vector<int32_t>(static_cast<size_t>(2 * experts + 2), -1),
          std::vector<int32_t>(ids.size())};
  std::iota(l.order.begin(), l.order.end(), 0);
  std::stable_sort(l.order.begin(), l.order.end(), [&](int32_t a, int32_t b) { return ids[a] < ids[b]; });
  int32_t active = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i > 0 && ids[l.order[i]] == ids[l.order[i - 1]]) continue;
    l.groups[1 + active] = ids[l.order[i]];
    l.groups[1 + experts + active++] = static_cast<int32_t>(i);
  }
  l.groups[0] = active;
  l.groups[1 + experts + active] = static_cast<int32_t>(ids.size());
  return l;
}

// Ascending ids of each row, multiples of `step`.
inline std::vector<int32_t> random_ids(int64_t rows, int64_t experts, int64_t top_k, int64_t step,
                                       Random& random) {
  std::vector<int32_t> ids;
  for (int64_t r = 0; r < rows; ++r) {
    std::vector<float> logits = random.normals(static_cast<size_t>(experts));
    for (int64_t e = 0; e < experts; ++e) logits[e] -= e % step ? 100 : 0;
    const auto used = used_experts(logits.data(), experts, top_k);
    ids.insert(ids.end(), used.begin(), used.end());
  }
  return ids;
}

}  // namespace qcc::cpu

#endif  // QCC_TESTS_UNIT_CODEGEN_CPU_MOE_LISTS_H_
