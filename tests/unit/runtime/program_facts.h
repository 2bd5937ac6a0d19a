// The programs of today's models, as the runtime sees them: one stream, number 0.
#ifndef QCC_TESTS_UNIT_RUNTIME_PROGRAM_FACTS_H_
#define QCC_TESTS_UNIT_RUNTIME_PROGRAM_FACTS_H_

#include <utility>
#include <vector>

#include "runtime/abi/terms.h"

namespace qrt {

// Tokens -> stream 0 -> logits of chosen rows.
inline ProgramFacts DecodeFacts(std::vector<uint32_t> advances = {}) {
  return {kTokens, 0, -1, 0, Output::kChosenLogits, std::move(advances)};
}
// Tokens -> stream 0.
inline ProgramFacts PrefillFacts(std::vector<uint32_t> advances = {}) {
  return {kTokens, 0, -1, 0, Output::kNothing, std::move(advances)};
}
// Stream 0 -> logits of chosen rows.
inline ProgramFacts HeadFacts() {
  return {kStream, 0, 0, -1, Output::kChosenLogits, {}};
}

}  // namespace qrt

#endif  // QCC_TESTS_UNIT_RUNTIME_PROGRAM_FACTS_H_
