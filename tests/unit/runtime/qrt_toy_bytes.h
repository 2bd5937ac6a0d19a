// The toy artifact (qrt_toy_artifact.h) for tests that must not see the names of the rooms below.
#ifndef TESTS_UNIT_RUNTIME_QRT_TOY_BYTES_H_
#define TESTS_UNIT_RUNTIME_QRT_TOY_BYTES_H_

#include <cstdint>
#include <vector>

namespace toy {

std::vector<uint8_t> ToyBytes();

}  // namespace toy

#endif  // TESTS_UNIT_RUNTIME_QRT_TOY_BYTES_H_
