// What the addresses of a launch may point to, and what an error says about one.
#ifndef TESTS_DEVICE_ADDRESS_RANGES_H_
#define TESTS_DEVICE_ADDRESS_RANGES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "codegen/gpu/kernels/launch.h"

namespace qcc::gpu {

// Besides the spaces of arguments: what the step block points to.
constexpr auto kStateOrKv = static_cast<Space>(8);

inline const char* SpaceName(Space s) {
  static constexpr const char* kNames[] = {"number",    "weights", "arena",   "step",       "logits",
                                           "constants", "results", "scratch", "state or kv"};
  return kNames[static_cast<int>(s)];
}

class AddressRanges {
 public:
  void Clear() { ranges_.clear(); }
  void Add(const void* data, uint64_t bytes, Space space, bool writable) {
    auto begin = reinterpret_cast<uint64_t>(data);
    ranges_.push_back({begin, begin + bytes, space, writable});
  }

  bool Covers(uint64_t address, uint64_t bytes, bool write) {
    auto covers = [&](const Range& r) {
      return address >= r.begin && address + bytes <= r.end && (r.writable || !write);
    };
    if (last_ < ranges_.size() && covers(ranges_[last_])) {
      return true;
    }
    auto it = std::find_if(ranges_.begin(), ranges_.end(), covers);
    last_ = static_cast<size_t>(it - ranges_.begin());
    return it != ranges_.end();
  }

  // Where `address` lies in the range that its `base` is of: " at byte 12 of a range of 8 in arena".
  std::string Describe(uint64_t address, uint64_t base) const {
    const Range* near = nullptr;
    for (const Range& r : ranges_) {
      if (base >= r.begin && base <= r.end && (near == nullptr || r.begin > near->begin)) {
        near = &r;
      }
    }
    if (near == nullptr) {
      return " at " + std::to_string(address);
    }
    return " at byte " + std::to_string(static_cast<int64_t>(address - near->begin)) + " of a range of " +
           std::to_string(near->end - near->begin) + " in " + SpaceName(near->space);
  }

 private:
  struct Range {
    uint64_t begin, end;
    Space space;
    bool writable;
  };
  std::vector<Range> ranges_;
  size_t last_ = 0;  // the range that covered the last address: most often the next one's too
};

}  // namespace qcc::gpu

#endif  // TESTS_DEVICE_ADDRESS_RANGES_H_
