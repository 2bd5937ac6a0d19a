// What the state of a sequence takes: one area, or two of which blocks of tokens take turns.
#ifndef QRT_ARTIFACT_STATE_AREA_H_
#define QRT_ARTIFACT_STATE_AREA_H_

#include <cstdint>

#include "runtime/base/checked.h"

namespace qrt {

// Bytes of one or both areas, each at a multiple of 256, which suits every device. `state_bytes`: of a
// device's part, or of all there is.
inline Checked AreaBytes(uint64_t state_bytes, bool steps_back) {
  return steps_back ? Checked(state_bytes).aligned(256) * 2 : Checked(state_bytes);
}

}  // namespace qrt

#endif  // QRT_ARTIFACT_STATE_AREA_H_
