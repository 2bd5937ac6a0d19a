// What moe_route and moe_group mean, on the host.
#ifndef TESTS_DEVICE_MOE_LISTS_H_
#define TESTS_DEVICE_MOE_LISTS_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <vector>

namespace qcc {

// The ids of `top_k` experts, ascending; a NaN is below all numbers.
inline std::vector<int32_t> RoutedIds(const float* logits, int64_t experts, int64_t top_k) {
  std::vector<int32_t> ids(static_cast<size_t>(experts));
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) {
    if (logits[b] != logits[b]) return logits[a] == logits[a];
    return logits[a] > logits[b];
  });
  ids.resize(static_cast<size_t>(top_k));
  std::sort(ids.begin(), ids.end());
  return ids;
}

struct MoeLists {
  std::vector<int32_t> groups, order;
};

// Of ids [rows][top_k]; what is beyond the lists' ends is -1.
inline MoeLists GroupedSlots(const std::vector<int32_t>& ids, int64_t experts) {
  std::map<int32_t, std::vector<int32_t>> slots;
  for (size_t s = 0; s < ids.size(); ++s) slots[ids[s]].push_back(static_cast<int32_t>(s));
  MoeLists lists;
  lists.groups.assign(static_cast<size_t>(2 * experts + 2), -1);
  int32_t* begins = lists.groups.data() + 1 + experts;
  size_t i = 0;
  for (const auto& [expert, of_expert] : slots) {
    lists.groups[1 + i] = expert;
    begins[i++] = static_cast<int32_t>(lists.order.size());
    lists.order.insert(lists.order.end(), of_expert.begin(), of_expert.end());
  }
  lists.groups[0] = static_cast<int32_t>(i);
  begins[i] = static_cast<int32_t>(ids.size());
  return lists;
}

// Random distinct ids, ascending in a row; `bits` gives random numbers.
template <typename Bits>
std::vector<int32_t> RandomIds(int64_t rows, int64_t experts, int64_t top_k, Bits&& bits) {
  std::vector<int32_t> ids;
  for (int64_t r = 0; r < rows; ++r) {
    std::vector<int32_t> row;
    while (static_cast<int64_t>(row.size()) < top_k) {
      const auto id = static_cast<int32_t>(bits() % static_cast<uint32_t>(experts));
      if (std::find(row.begin(), row.end(), id) == row.end()) row.push_back(id);
    }
    std::sort(row.begin(), row.end());
    ids.insert(ids.end(), row.begin(), row.end());
  }
  return ids;
}

}  // namespace qcc

#endif  // TESTS_DEVICE_MOE_LISTS_H_
