// Values of a kernel that the interpreter runs: their memory, and the arithmetic on one element.
#ifndef TESTS_DEVICE_INTERPRETER_VALUES_H_
#define TESTS_DEVICE_INTERPRETER_VALUES_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "codegen/gpu/build/value_types.h"
#include "codegen/gpu/kernels/builder.h"
#include "dialects/formats/formats.h"

namespace qcc::gpu {

inline float AsFloat(uint64_t bits) {
  auto word = static_cast<uint32_t>(bits);
  float f;
  std::memcpy(&f, &word, 4);
  return f;
}
inline uint64_t FromFloat(float f) {
  uint32_t word;
  std::memcpy(&word, &f, 4);
  return word;
}
inline int32_t Signed(uint64_t bits) {
  return static_cast<int32_t>(static_cast<uint32_t>(bits));
}

// Values of a kernel: element (lane, thread) at data[lane * threads + thread], in 64 bits whatever the type.
using Cells = uint64_t*;

// Memory of values. A loop's body gives back at its end what it took.
class CellStack {
 public:
  struct Mark {
    size_t chunk, used;
  };
  Mark mark() const { return {chunk_, used_}; }
  void Reset(Mark m) {
    chunk_ = m.chunk;
    used_ = m.used;
  }
  Cells Take(size_t n) {
    if (chunks_.empty() || used_ + n > kChunk) {
      chunk_ = chunks_.empty() ? 0 : chunk_ + 1;
      used_ = 0;
      if (chunk_ == chunks_.size()) {
        chunks_.push_back(std::make_unique<uint64_t[]>(kChunk));
      }
    }
    Cells cells = chunks_[chunk_].get() + used_;
    used_ += n;
    return cells;
  }

 private:
  static constexpr size_t kChunk = 1 << 16;  // cells; a value has at most 4 x 1024
  std::vector<std::unique_ptr<uint64_t[]>> chunks_;
  size_t chunk_ = 0, used_ = 0;
};

// Byte i of a word, signed.
inline int Byte(uint64_t word, int i) {
  return static_cast<int8_t>(static_cast<uint8_t>(word >> (8 * i)));
}

inline float FloatOp(Builder::Op op, float x, float y) {
  switch (op) {
    case Builder::Op::kAdd:
      return x + y;
    case Builder::Op::kSub:
      return x - y;
    case Builder::Op::kMul:
      return x * y;
    case Builder::Op::kDivF:
      return x / y;
    case Builder::Op::kMinF:
      return y < x || std::isnan(x) ? y : x;  // the number where the other is none, as PTX's
    default:
      return x < y || std::isnan(x) ? y : x;
  }
}
template <typename U, typename S>
uint64_t IntegerOp(Builder::Op op, U x, U y) {
  constexpr U kBits = sizeof(U) * 8;
  auto sx = static_cast<S>(x), sy = static_cast<S>(y);
  switch (op) {
    case Builder::Op::kAdd:
      return static_cast<U>(x + y);
    case Builder::Op::kSub:
      return static_cast<U>(x - y);
    case Builder::Op::kMul:
      return static_cast<U>(x * y);
    case Builder::Op::kDivU:
      return x / y;
    case Builder::Op::kRemU:
      return x % y;
    case Builder::Op::kAnd:
      return x & y;
    case Builder::Op::kOr:
      return x | y;
    case Builder::Op::kXor:
      return x ^ y;
    case Builder::Op::kShl:
      return y < kBits ? static_cast<U>(x << y) : 0;
    case Builder::Op::kShrU:
      return y < kBits ? x >> y : 0;
    case Builder::Op::kShrS:
      return static_cast<U>(sx >> (y < kBits ? y : kBits - 1));
    case Builder::Op::kMinS:
      return static_cast<U>(std::min(sx, sy));
    case Builder::Op::kMaxS:
      return static_cast<U>(std::max(sx, sy));
    case Builder::Op::kMinU:
      return std::min(x, y);
    default:
      return std::max(x, y);
  }
}
inline float Function(Builder::Fn fn, float x) {
  switch (fn) {
    case Builder::Fn::kAbs:
      return std::fabs(x);
    case Builder::Fn::kNeg:
      return -x;
    case Builder::Fn::kSqrt:
      return std::sqrt(x);
  }
  return x;
}

// d = a b + c of one subgroup; fragments are [word][lane]: a [4][32], b [2][32], c and d [4][32].
// PTX ISA, mma.m16n8k32 with 8-bit integers. Lane = 4 * group + quad.
// A: word w, byte i: row group + 8 * (w & 1), column 4 * quad + i + 16 * (w >> 1).
// B: word w, byte i: row 4 * quad + i + 16 * w, column group.
// C, D: word w: row group + 8 * (w >> 1), column 2 * quad + (w & 1).
inline void MmaS8Fragments(const uint32_t (*a)[32], const uint32_t (*b)[32], const uint32_t (*c)[32],
                           uint32_t (*d)[32]) {
  int ma[16][32], mb[32][8];
  for (int lane = 0; lane < 32; ++lane) {
    int group = lane / 4, quad = lane % 4;
    for (int i = 0; i < 4; ++i) {
      for (int w = 0; w < 4; ++w) {
        ma[group + 8 * (w & 1)][4 * quad + i + 16 * (w >> 1)] = Byte(a[w][lane], i);
      }
      for (int w = 0; w < 2; ++w) {
        mb[4 * quad + i + 16 * w][group] = Byte(b[w][lane], i);
      }
    }
  }
  for (int lane = 0; lane < 32; ++lane) {
    for (int w = 0; w < 4; ++w) {
      int row = lane / 4 + 8 * (w >> 1), column = 2 * (lane % 4) + (w & 1);
      uint32_t sum = c[w][lane];
      for (int k = 0; k < 32; ++k) {
        sum += static_cast<uint32_t>(ma[row][k] * mb[k][column]);
      }
      d[w][lane] = sum;
    }
  }
}

// A float of 16 bits as mma takes it: mantissa * 2^(exponent - fraction bits). 0 has the exponent of the
// smallest normal number.
template <int kExponentBits>
struct FloatTerm {
  static constexpr int kFraction = 15 - kExponentBits, kBias = (1 << (kExponentBits - 1)) - 1;
  FloatTerm() = default;
  explicit FloatTerm(uint32_t bits) {
    const int field = static_cast<int>(bits >> kFraction) & ((1 << kExponentBits) - 1);
    const int fraction = static_cast<int>(bits & ((1u << kFraction) - 1));
    const int magnitude = field == 0 ? fraction : fraction | 1 << kFraction;
    mantissa = (bits & 0x8000) != 0 ? -magnitude : magnitude;
    exponent = std::max(field, 1) - kBias;
    finite = field != (1 << kExponentBits) - 1;
    if (!finite) {
      special = fraction != 0 ? NAN : mantissa < 0 ? -INFINITY : INFINITY;
    }
  }
  float value() const {
    return finite ? std::ldexp(static_cast<float>(mantissa), exponent - kFraction) : special;
  }
  int mantissa = 0, exponent = 0;
  bool finite = true;
  float special = 0;
};
using HalfTerm = FloatTerm<5>;
using Bf16Term = FloatTerm<8>;

// mantissa * 2^shift, cut off.
inline int64_t Shifted(int64_t mantissa, int shift) {
  if (shift >= 0) {
    return mantissa * (int64_t{1} << shift);
  }
  const int64_t magnitude = shift > -63 ? std::abs(mantissa) >> -shift : 0;
  return mantissa < 0 ? -magnitude : magnitude;
}

// c + the sum of the products of one element of m16n8k16 with floats of 16 bits. How a device adds is its
// own; this is the coarsest that any is known to do: every term loses what lies below 2^-24 of the greatest
// exponent, where an exponent of a product is the sum of its factors' and 0 counts as the smallest normal
// number, and the sum is cut off to f32. So |error| <= 2^-24 * (17 * 2^e + 2 |sum|), e the greatest exponent.
template <typename Term>
float MmaFloatSum(const Term* a, const Term* b, float c) {
  constexpr int kDropped = 24, kFractionF32 = 23, kLeastF32 = -126;
  bool finite = std::isfinite(c);
  int of_c = kLeastF32;
  if (finite && c != 0) {
    of_c = std::max(std::ilogb(c), kLeastF32);
  }
  int top = of_c;
  for (int k = 0; k < 16; ++k) {
    finite = finite && a[k].finite && b[k].finite;
    top = std::max(top, a[k].exponent + b[k].exponent);
  }
  if (!finite) {
    for (int k = 0; k < 16; ++k) {
      c += a[k].value() * b[k].value();
    }
    return c;
  }
  int64_t sum = Shifted(static_cast<int64_t>(std::ldexp(c, kFractionF32 - of_c)),
                        of_c - kFractionF32 - (top - kDropped));
  for (int k = 0; k < 16; ++k) {
    const int unit = a[k].exponent + b[k].exponent - 2 * Term::kFraction;
    sum += Shifted(int64_t{a[k].mantissa} * b[k].mantissa, unit - (top - kDropped));
  }
  const double exact = std::ldexp(static_cast<double>(sum), top - kDropped);
  const auto near = static_cast<float>(exact);
  return std::fabs(static_cast<double>(near)) > std::fabs(exact) ? std::nextafter(near, 0.f) : near;
}

// As MmaS8Fragments, of mma.m16n8k16 with floats of 16 bits, which are h = 0 and 1 of a word.
// A: word w, half h: row group + 8 * (w & 1), column 2 * quad + h + 8 * (w >> 1).
// B: word w, half h: row 2 * quad + h + 8 * w, column group.
// C, D: f32, as there.
template <typename Term>
void MmaFloatFragments(const uint32_t (*a)[32], const uint32_t (*b)[32], const uint32_t (*c)[32],
                       uint32_t (*d)[32]) {
  Term ma[16][16], mb[8][16];  // mb: [column][row]
  for (int lane = 0; lane < 32; ++lane) {
    int group = lane / 4, quad = lane % 4;
    for (int h = 0; h < 2; ++h) {
      for (int w = 0; w < 4; ++w) {
        ma[group + 8 * (w & 1)][2 * quad + h + 8 * (w >> 1)] = Term(a[w][lane] >> (16 * h) & 0xffff);
      }
      for (int w = 0; w < 2; ++w) {
        mb[group][2 * quad + h + 8 * w] = Term(b[w][lane] >> (16 * h) & 0xffff);
      }
    }
  }
  for (int lane = 0; lane < 32; ++lane) {
    for (int w = 0; w < 4; ++w) {
      int row = lane / 4 + 8 * (w >> 1), column = 2 * (lane % 4) + (w & 1);
      d[w][lane] = static_cast<uint32_t>(FromFloat(MmaFloatSum(ma[row], mb[column], AsFloat(c[w][lane]))));
    }
  }
}

}  // namespace qcc::gpu

#endif  // TESTS_DEVICE_INTERPRETER_VALUES_H_
