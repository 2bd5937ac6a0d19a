// Many strings searched for in one pass (Aho-Corasick). Internal to runtime/text.
#ifndef QRT_TEXT_MATCHER_H_
#define QRT_TEXT_MATCHER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace qrt::text {

// States of reading: each stands for the longest end of what was read that begins a pattern. Its memory is a
// small multiple of the patterns' bytes; reading a byte takes a constant number of steps on average.
class Matcher {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr uint32_t kStart = 0;

  // Patterns must not be empty. Of equal ones all are found.
  explicit Matcher(const std::vector<std::string>& patterns);

  uint32_t Next(uint32_t state, char byte) const;
  // Bytes of the beginning of a pattern that a state stands for.
  size_t Depth(uint32_t state) const { return depth_[state]; }
  // The state of the next shorter one; kStart stands for none.
  uint32_t Shorten(uint32_t state) const { return fail_[state]; }
  // Bytes of the longest pattern.
  size_t longest() const { return depth_.back(); }

  // The longest pattern that ends with the byte that led to `state`, the first of equals; kNone: there is
  // none.
  uint32_t Found(uint32_t state) const { return found_[state]; }
  // The next one that ends there: equal, or shorter.
  uint32_t Shorter(uint32_t pattern) const { return shorter_[pattern]; }

 private:
  uint32_t Child(uint32_t state, uint8_t byte) const;

  // States are numbered by depth, and the children of each follow one another in the order of their bytes.
  std::vector<uint8_t> byte_;
  std::vector<uint32_t> first_child_;  // one more than states
  std::vector<uint32_t> fail_, found_, depth_;
  std::vector<uint32_t> shorter_;        // of each pattern
  std::array<uint32_t, 256> root_ = {};  // children of kStart
};

}  // namespace qrt::text

#endif  // QRT_TEXT_MATCHER_H_
