// What `qrun check` compares with: runtime/abi/goldens.h.
#ifndef QCC_COMPILER_ARTIFACT_GOLDENS_SECTION_H_
#define QCC_COMPILER_ARTIFACT_GOLDENS_SECTION_H_

#include <cstdint>
#include <span>
#include <vector>

namespace qcc::compiler {

struct GoldenLogits {
  uint32_t position;
  std::span<const float> logits;  // [vocab]
};

// Stores the `top` highest logits (equal ones by id) of each row; all rows must have at least `top` columns.
// `exact`: also the hash of each row, for artifacts whose every code variant gives these bits.
std::vector<uint8_t> BuildGoldensSection(std::span<const int32_t> tokens, std::span<const GoldenLogits> rows,
                                         uint32_t top, float tolerance, float rms_tolerance, bool exact);

}  // namespace qcc::compiler

#endif  // QCC_COMPILER_ARTIFACT_GOLDENS_SECTION_H_
