// What somebody may have meant who wrote a name that is none: of an option, a command, a word.
#ifndef RUNTIME_BASE_NEAREST_NAME_H_
#define RUNTIME_BASE_NEAREST_NAME_H_

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace qrt {

// How many letters must be added, left out, replaced or swapped with their neighbour to make `a` of `b`
// (optimal string alignment: no letter is touched twice).
inline size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    std::swap(before, above);
    std::swap(above, row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
  }
  return row[b.size()];
}

// The name nearest to `word`, the first of equals: one letter in three may differ, or one is the beginning of
// the other. Dashes in front do not count. Empty: none is near.
inline std::string NearestName(std::string_view word, const std::vector<std::string>& names) {
  const auto bare = [](std::string_view text) {
    return text.substr(std::min(text.find_first_not_of('-'), text.size()));
  };
  const std::string_view wanted = bare(word);
  constexpr size_t kLeast = 3, kLongest = 64;  // shorter, everything is near; longer, nothing is meant
  if (wanted.size() < kLeast || wanted.size() > kLongest) return "";
  size_t best = wanted.size() / 3 + 1;
  const std::string* nearest = nullptr;
  const std::string* beginning = nullptr;
  for (const std::string& name : names) {
    const std::string_view candidate = bare(name);
    if (candidate.size() < kLeast) continue;
    const size_t distance = EditDistance(wanted, candidate);
    if (distance < best) {
      best = distance;
      nearest = &name;
    }
    const size_t shared = std::min(wanted.size(), candidate.size());
    if (beginning == nullptr && wanted.substr(0, shared) == candidate.substr(0, shared)) beginning = &name;
  }
  if (nearest == nullptr) nearest = beginning;
  return nearest != nullptr ? *nearest : std::string();
}

}  // namespace qrt

#endif  // RUNTIME_BASE_NEAREST_NAME_H_
