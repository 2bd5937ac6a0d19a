// What is to be done when a scope is left, whichever way.
#ifndef RUNTIME_BASE_AT_END_H_
#define RUNTIME_BASE_AT_END_H_

#include <utility>

namespace qrt {

// Calls `last`, which must not throw.
template <typename Last>
class [[nodiscard]] AtEnd {
 public:
  explicit AtEnd(Last last) : last_(std::move(last)) {}
  ~AtEnd() { last_(); }
  AtEnd(const AtEnd&) = delete;
  AtEnd& operator=(const AtEnd&) = delete;

 private:
  const Last last_;
};

}  // namespace qrt

#endif  // RUNTIME_BASE_AT_END_H_
