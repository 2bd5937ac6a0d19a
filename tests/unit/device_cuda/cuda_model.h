#ifndef TESTS_UNIT_DEVICE_CUDA_CUDA_MODEL_H_
#define TESTS_UNIT_DEVICE_CUDA_CUDA_MODEL_H_

#include <cstdint>
#include <vector>

#include "runtime/artifact/artifact.h"
#include "runtime/device/device.h"

namespace qrt {

// A small model compiled for CUDA, once.
const Artifact& CudaModel();
// One with a draft.
const Artifact& CudaDraftingModel();

// The program of a model that is described so.
uint32_t ProgramOf(const Manifest& manifest, uint32_t takes, Output gives, uint32_t rows);

// Rows of one sequence, with room for 64 tokens, through one program; the last row's logits if it gives any.
struct SequenceRows {
  SequenceRows(Device& device, const Manifest& manifest, uint32_t program, int64_t count);
  SequenceRows(const SequenceRows&) = delete;
  void Free(Device& device);

  DeviceBuffer state, kv;
  qrt_seq seq;
  std::vector<int32_t> tokens, positions;
  int32_t out_row;
  StepRequest step;
};

}  // namespace qrt

#endif  // TESTS_UNIT_DEVICE_CUDA_CUDA_MODEL_H_
