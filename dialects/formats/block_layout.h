// Where the numbers of a block lie in its GGUF bytes, as data. One reader and one writer of these
// descriptions serve every format. Stand-alone and constexpr.
#ifndef QCC_DIALECTS_FORMATS_BLOCK_LAYOUT_H_
#define QCC_DIALECTS_FORMATS_BLOCK_LAYOUT_H_

#include <stdint.h>

#include "dialects/formats/codebooks.h"

namespace qcc {

// Small unsigned numbers packed into bytes. Number e = (outer * fields + field) * run + inner starts at bit
// shift + field * field_shift of byte first + outer * step + field * field_step + inner, and may reach into
// the next byte (little endian).
struct BitField {
  int32_t first = 0;  // byte
  int32_t bits = 0;   // of one number; 0: there are none
  int32_t run = 1;    // numbers whose bytes follow each other
  int32_t fields = 1;
  int32_t step = 1;
  int32_t field_step = 0;
  int32_t shift = 0;
  int32_t field_shift = 0;

  constexpr int32_t byte_of(int32_t e) const {
    const int32_t field = e / run % fields;
    return first + e / (run * fields) * step + field * field_step + e % run +
           (shift + field * field_shift) / 8;
  }
  constexpr int32_t bit_of(int32_t e) const { return (shift + e / run % fields * field_shift) % 8; }
  constexpr uint32_t mask() const { return (1u << bits) - 1; }

  constexpr uint32_t get(const uint8_t* block, int32_t e) const {
    const uint8_t* p = block + byte_of(e);
    uint32_t word = p[0];
    if (bit_of(e) + bits > 8) word |= static_cast<uint32_t>(p[1]) << 8;
    return (word >> bit_of(e)) & mask();
  }
  // ORs `value` into place: the block was zeroed before.
  constexpr void put(uint32_t value, uint8_t* block, int32_t e) const {
    uint8_t* p = block + byte_of(e);
    const uint32_t word = (value & mask()) << bit_of(e);
    p[0] = static_cast<uint8_t>(p[0] | word);
    if (bit_of(e) + bits > 8) p[1] = static_cast<uint8_t>(p[1] | (word >> 8));
  }
  // One past the last byte of `count` numbers.
  constexpr int32_t end(int32_t count) const {
    int32_t end = 0;
    for (int32_t e = 0; bits != 0 && e < count; ++e) {
      const int32_t last = byte_of(e) + (bit_of(e) + bits > 8 ? 2 : 1);
      end = last > end ? last : end;
    }
    return end;
  }
};

// Whole bytes from `first` on.
constexpr BitField bytes_at(int32_t first) {
  return {.first = first, .bits = 8};
}
// Bit planes: `run` consecutive bytes hold 8 / bits numbers each, the first `run` numbers in their lowest
// bits.
constexpr BitField plane(int32_t first, int32_t bits, int32_t run = 1) {
  return {.first = first, .bits = bits, .run = run, .fields = 8 / bits, .step = run, .field_shift = bits};
}

// A number in one or two pieces: low | high << low.bits.
struct Number {
  BitField low = {}, high = {};

  constexpr int32_t bits() const { return low.bits + high.bits; }
  constexpr uint32_t get(const uint8_t* block, int32_t e) const {
    const uint32_t v = low.get(block, e);
    return high.bits == 0 ? v : v | high.get(block, e) << low.bits;
  }
  constexpr void put(uint32_t value, uint8_t* block, int32_t e) const {
    low.put(value, block, e);
    if (high.bits != 0) high.put(value >> low.bits, block, e);
  }
  constexpr int32_t end(int32_t count) const {
    return low.end(count) > high.end(count) ? low.end(count) : high.end(count);
  }
};

// How the stored bits of a code become the code of PlainForm.
enum class CodeBits : uint8_t {
  kUnsigned,        // as they are
  kTwosComplement,  // 8 bits, offset 128
  kSignMagnitude,   // 4 bits, sign on top; the table is symmetric with one zero: -0 is 0
};

// Base-3 digits: `run` bytes hold `digits` of them each, the first `run` codes being the first digits. A byte
// b is the fraction b / 256 = 0.d1d2d3d4d5 in base 3, rounded up: digit n is the whole part of 3 * frac(3^n b
// / 256).
struct Trits {
  int32_t first = 0;
  int32_t run = 0;  // 0: there are none
  int32_t digits = 0;
};

struct BlockLayout {
  // The base scales: 16 bits (a half) or 8, in pieces of base.bits from the lowest up.
  BitField base = {};
  int32_t minimum = -1;  // byte of the half m or dmin
  Number scale = {}, min = {};
  int32_t scale_times = 1, scale_plus = 0;  // scale of PlainForm = stored * times + plus
  // The largest scale of PlainForm, where it is not signed.
  constexpr int32_t most_scale() const { return ((1 << scale.bits()) - 1) * scale_times + scale_plus; }
  // The codes: bits, base-3 digits, or points of a codebook.
  Number code = {};
  CodeBits code_bits = CodeBits::kUnsigned;
  Trits trits[3] = {};
  Codebook book = {};
  Number index = {};    // of a point, one for each book.width weights
  BitField sign = {};   // one for each 8 weights: bit i negates weight i. 7 bits: even parity
  BitField delta = {};  // 1: the value is 8 * level - 1, 0: 8 * level + 1
  int32_t columns_per_delta = 0;
};

}  // namespace qcc

#endif  // QCC_DIALECTS_FORMATS_BLOCK_LAYOUT_H_
