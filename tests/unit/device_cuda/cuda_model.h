#ifndef TESTS_UNIT_DEVICE_CUDA_CUDA_MODEL_H_
#define TESTS_UNIT_DEVICE_CUDA_CUDA_MODEL_H_

#include "runtime/artifact/artifact.h"

namespace qrt {

// A small model compiled for CUDA, once.
const Artifact& CudaModel();
// One with a draft.
const Artifact& CudaDraftingModel();

}  // namespace qrt

#endif  // TESTS_UNIT_DEVICE_CUDA_CUDA_MODEL_H_
