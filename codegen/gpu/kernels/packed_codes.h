// Codes of packed weights (dialects/layouts/x16.h) as words of four columns: signed bytes for integer dot
// products.
#ifndef QCC_CODEGEN_GPU_KERNELS_PACKED_CODES_H_
#define QCC_CODEGEN_GPU_KERNELS_PACKED_CODES_H_

#include <cstdint>
#include <vector>

#include "codegen/gpu/kernels/builder.h"
#include "dialects/formats/plain_form.h"
#include "dialects/layouts/x16.h"

namespace qcc::gpu {

// Whether codes are read as their values: tables are looked up, 8-bit codes turned into two's complement. Of
// other formats a code is read as it is, from 0 on.
constexpr bool ReadsValues(const PlainForm& form) {
  return form.table_size != 0 || form.bits == 8;
}
// What a code is above its value as it is read.
constexpr int CodeOffset(const PlainForm& form) {
  return ReadsValues(form) ? 0 : form.offset;
}

// The step between entries of a table that is a line through low() <= 0, which needs no lookup; 0: it is
// none.
constexpr int EqualSteps(const PlainForm& form) {
  if (form.table_size == 0 || form.low() > 0 || form.high() - form.low() > 127) return 0;
  return form.step();
}
// Whether values are looked up, which is long.
constexpr bool LooksUp(const PlainForm& form) {
  return form.table_size != 0 && EqualSteps(form) == 0;
}

// The codes of one matrix row in a chunk of 32 columns. `base` (i64) + `at` (i32): the row's word in the
// chunk's first vector.
class PackedCodes {
 public:
  PackedCodes(const PlainForm& form, Val base, Val at) : form_(form), base_(base), at_(at) {}

  // Eight words of four codes each, word t for columns 4t..4t+3. In two steps: what is loaded for them, and
  // they of it.
  std::vector<Val> LoadAll() const;
  std::vector<Val> All(const std::vector<Val>& loaded) const;
  // Words `word` and `word + 4` of them, `word` (i32) < 4.
  std::vector<Val> LoadPair(Val word) const;
  std::vector<Val> Pair(const std::vector<Val>& loaded, Val word) const;
  // Word `word` (i32) < 8.
  Val One(Val word) const;

 private:
  // Bits of all codes that lie together.
  struct Plane {
    int32_t width, at;  // bits; bytes from the chunk's first vector
    int32_t moved;      // left, to their place in the code
    int32_t mask() const { return 0x01010101 * ((1 << width) - 1); }
  };
  std::vector<Plane> Planes() const;  // low, high
  // Vectors of a plane with all eight words.
  static int32_t Vectors(const Plane& plane) { return layouts::VectorOfWord(plane.width, 7) + 1; }
  // `vector`: which vector of the plane; `more` vectors behind it.
  Val Vector(const Plane& plane, int32_t vector) const;
  Val Load(const Plane& plane, Val vector, int32_t more = 0) const;
  // The vector of a plane of less than 8 bits that has words `word` and word + 4, `word` < 4.
  Val LoadFields(const Plane& plane, Val word) const;
  // It moved right so that the first's fields are at bit 0 and the second's at bit 4.
  Val Fields(const Plane& plane, Val loaded, Val word) const;
  // The one that has word `word` < 8, its fields at bit 0; upper: word / 4.
  Val Field(const Plane& plane, Val word, Val upper) const;
  Val Read(Val codes) const;  // four codes as they are read (ReadsValues)

  const PlainForm& form_;
  Val base_, at_;
};

// Signed bytes table[code] of four codes.
Val LookUp(const PlainForm& form, Val codes);

// Signed bytes code - offset of four codes up to 127; 0 <= offset <= 128. Where it is taken from the codes,
// which all rows of x share, it costs nothing per row.
Val LessOffset(Val codes, int32_t offset);

}  // namespace qcc::gpu

#endif  // QCC_CODEGEN_GPU_KERNELS_PACKED_CODES_H_
