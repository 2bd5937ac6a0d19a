#include "runtime/text/matcher.h"

#include <algorithm>
#include <numeric>
#include <string_view>

namespace qrt::text {

Matcher::Matcher(const std::vector<std::string>& patterns) : shorter_(patterns.size(), kNone) {
  std::vector<uint32_t> order(patterns.size());
  std::iota(order.begin(), order.end(), 0u);
  // Compares bytes as unsigned ones: a child is looked for in that order.
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return std::string_view(patterns[a]) < std::string_view(patterns[b]);
  });
  // The patterns that begin as the state does: order[from, to).
  struct Range {
    size_t from, to;
  };
  std::vector<Range> ranges = {{0, order.size()}};
  byte_ = {0};
  depth_ = {0};
  fail_ = {kStart};
  for (uint32_t state = 0; state < ranges.size(); ++state) {
    first_child_.push_back(static_cast<uint32_t>(ranges.size()));
    auto [at, to] = ranges[state];
    const size_t depth = depth_[state];
    uint32_t found = state == kStart ? kNone : found_[fail_[state]];
    size_t ends = at;
    while (ends < to && patterns[order[ends]].size() == depth) ++ends;
    for (size_t i = ends; i > at; --i) {
      shorter_[order[i - 1]] = found;
      found = order[i - 1];
    }
    found_.push_back(found);
    for (at = ends; at < to;) {
      const char byte = patterns[order[at]][depth];
      size_t end = at;
      while (end < to && patterns[order[end]][depth] == byte) ++end;
      const uint32_t child = static_cast<uint32_t>(ranges.size());
      // All states that this reads are complete: they are less deep.
      fail_.push_back(state == kStart ? kStart : Next(fail_[state], byte));
      if (state == kStart) root_[static_cast<uint8_t>(byte)] = child;
      ranges.push_back({at, end});
      byte_.push_back(static_cast<uint8_t>(byte));
      depth_.push_back(static_cast<uint32_t>(depth + 1));
      at = end;
    }
  }
  first_child_.push_back(static_cast<uint32_t>(ranges.size()));
}

uint32_t Matcher::Child(uint32_t state, uint8_t byte) const {
  const auto begin = byte_.begin() + first_child_[state], end = byte_.begin() + first_child_[state + 1];
  const auto it = std::lower_bound(begin, end, byte);
  return it != end && *it == byte ? static_cast<uint32_t>(it - byte_.begin()) : kStart;
}

uint32_t Matcher::Next(uint32_t state, char byte) const {
  for (; state != kStart; state = fail_[state]) {
    const uint32_t child = Child(state, static_cast<uint8_t>(byte));
    if (child != kStart) return child;
  }
  return root_[static_cast<uint8_t>(byte)];
}

}  // namespace qrt::text
