// Unsigned 64-bit arithmetic for numbers that come from a file: an operation that overflows makes the result
// invalid, and an invalid number stays invalid through everything computed from it. Only value() looks
// inside, so no raw + or * meets such a number.
#ifndef QCC_FRONTENDS_GGUF_CHECKED_H_
#define QCC_FRONTENDS_GGUF_CHECKED_H_

#include <cstdint>

namespace qcc::gguf {

class Checked {
 public:
  constexpr Checked(uint64_t value) : value_(value) {}  // NOLINT: every plain number is a valid one
  static constexpr Checked Invalid() {
    Checked c(0);
    c.valid_ = false;
    return c;
  }

  constexpr bool valid() const { return valid_; }
  // The number; 0 if invalid (callers ask valid() or Fits() first).
  constexpr uint64_t value() const { return valid_ ? value_ : 0; }
  // Valid and at most `limit`.
  constexpr bool Fits(uint64_t limit) const { return valid_ && value_ <= limit; }

  friend constexpr Checked operator+(Checked a, Checked b) {
    uint64_t r = 0;
    if (!a.valid_ || !b.valid_ || __builtin_add_overflow(a.value_, b.value_, &r)) return Invalid();
    return Checked(r);
  }
  friend constexpr Checked operator*(Checked a, Checked b) {
    uint64_t r = 0;
    if (!a.valid_ || !b.valid_ || __builtin_mul_overflow(a.value_, b.value_, &r)) return Invalid();
    return Checked(r);
  }
  // Rounded up to a multiple of `alignment`, which must be a power of two.
  constexpr Checked AlignUp(uint64_t alignment) const {
    Checked sum = *this + Checked(alignment - 1);
    return sum.valid_ ? Checked(sum.value_ & ~(alignment - 1)) : Invalid();
  }

 private:
  uint64_t value_;
  bool valid_ = true;
};

}  // namespace qcc::gguf

#endif  // QCC_FRONTENDS_GGUF_CHECKED_H_
