// KV of Element::kB16 in its two forms: rows of integers (runtime/abi/integer_row.h) and of f16. Between
// devices of different forms a session moves with its values rounded once more.
#ifndef RUNTIME_ENGINE_KV_FORM_H_
#define RUNTIME_ENGINE_KV_FORM_H_

#include <cstdint>
#include <span>

namespace qrt {

// `rows`: whole rows of `values` elements each, at least IntegerRow::kUnitBits, in place.

// f16 becomes integers of `bits` bits. A row with a value that is no number becomes one that is none.
void IntegersFromHalves(std::span<uint16_t> rows, uint64_t values, int32_t bits);

// Integers become the nearest f16; beyond 65504 infinite. A row that is no number: all NaN.
void HalvesFromIntegers(std::span<uint16_t> rows, uint64_t values);

}  // namespace qrt

#endif  // RUNTIME_ENGINE_KV_FORM_H_
