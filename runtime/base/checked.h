// Arithmetic on numbers that came from a file or a caller. A Checked value that overflowed stays invalid, so
// an expression is written plainly and asked once: `auto end = Checked(offset) + size; if (!end.fits(limit))
// ...`.
#ifndef QRT_BASE_CHECKED_H_
#define QRT_BASE_CHECKED_H_

#include <bit>
#include <cstdint>

namespace qrt {

class Checked {
 public:
  constexpr Checked(uint64_t value) : value_(value) {}  // NOLINT: implicit on purpose

  constexpr bool ok() const { return ok_; }
  constexpr uint64_t value() const { return ok_ ? value_ : 0; }  // callers ask ok() or fits() first
  constexpr bool fits(uint64_t limit) const { return ok_ && value_ <= limit; }
  constexpr bool is(uint64_t expected) const { return ok_ && value_ == expected; }

  friend constexpr Checked operator+(Checked a, Checked b) {
    Checked r(0);
    r.ok_ = !__builtin_add_overflow(a.value_, b.value_, &r.value_) && a.ok_ && b.ok_;
    return r;
  }
  friend constexpr Checked operator-(Checked a, Checked b) {
    Checked r(0);
    r.ok_ = !__builtin_sub_overflow(a.value_, b.value_, &r.value_) && a.ok_ && b.ok_;
    return r;
  }
  friend constexpr Checked operator*(Checked a, Checked b) {
    Checked r(0);
    r.ok_ = !__builtin_mul_overflow(a.value_, b.value_, &r.value_) && a.ok_ && b.ok_;
    return r;
  }
  // The next multiple of `alignment`, a power of two.
  constexpr Checked aligned(uint64_t alignment) const {
    Checked r = *this + (alignment - 1);
    r.value_ &= ~(alignment - 1);
    r.ok_ = r.ok_ && std::has_single_bit(alignment);
    return r;
  }

 private:
  uint64_t value_;
  bool ok_ = true;
};

// True if [offset, offset + size) lies in [0, limit).
constexpr bool InRange(uint64_t offset, uint64_t size, uint64_t limit) {
  return offset <= limit && size <= limit - offset;
}

}  // namespace qrt

#endif  // QRT_BASE_CHECKED_H_
