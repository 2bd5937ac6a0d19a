// What the lists and texts of a FlatBuffer unfold to. Each within its limit, all together could still take
// gigabytes, or hours: tables may point many times to the same bytes, so the size of the section does not
// bound them.
#ifndef QRT_ARTIFACT_UNFOLDING_H_
#define QRT_ARTIFACT_UNFOLDING_H_

#include <cstdint>
#include <string>

namespace qrt {

class Unfolding {
 public:
  // `bytes` that are about to be copied or walked, bounded so that no sum of them wraps. False: with them it
  // is more than kMost times the `whole` section's bytes.
  bool Add(uint64_t bytes, uint64_t whole) {
    bytes_ += bytes;
    return bytes_ <= kMost * whole;
  }

  // Of the error then: the field, what was found at `place`, and what was expected in a `section`.
  static constexpr const char* kField = "what the lists unfold to";
  static std::string Found(const std::string& place, uint64_t whole) {
    return "more than " + std::to_string(kMost * whole) + " bytes at " + place;
  }
  static std::string Expected(const char* section, uint64_t whole) {
    return "at most " + std::to_string(kMost) + " times the " + section + "'s " + std::to_string(whole) +
           ": lists share bytes";
  }

 private:
  // qcc's own sections share short names only, and the plain form of an entry takes less than six times its
  // place there.
  static constexpr uint64_t kMost = 16;

  uint64_t bytes_ = 0;
};

}  // namespace qrt

#endif  // QRT_ARTIFACT_UNFOLDING_H_
