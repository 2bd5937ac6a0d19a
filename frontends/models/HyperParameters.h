// The hyper-parameters of a dense qwen35 or qwen3 model, checked against each other.
#ifndef QCC_FRONTENDS_MODELS_HYPERPARAMETERS_H_
#define QCC_FRONTENDS_MODELS_HYPERPARAMETERS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "frontends/models/Metadata.h"
#include "frontends/models/RopeFrequencies.h"

namespace qcc::models {

// Gated delta net. The names of GGUF's `ssm.*` keys are historical.
struct DeltaNetParameters {
  int64_t taps = 0;        // ssm.conv_kernel
  int64_t keyDim = 0;      // ssm.state_size: per head
  int64_t keyHeads = 0;    // ssm.group_count
  int64_t valueHeads = 0;  // ssm.time_step_rank
  int64_t valueDim = 0;    // ssm.inner_size / valueHeads: per head

  int64_t keyWidth() const { return keyHeads * keyDim; }
  int64_t valueWidth() const { return valueHeads * valueDim; }
  int64_t convChannels() const { return 2 * keyWidth() + valueWidth(); }
};

struct HyperParameters {
  std::string arch;
  int64_t blocks = 0;       // block_count: trunk and NextN
  int64_t nextnBlocks = 0;  // the last ones of `blocks`
  int64_t contextLength = 0;
  int64_t embedding = 0;
  int64_t feedForward = 0;
  int64_t heads = 0;
  std::vector<int64_t> kvHeads;  // per block
  int64_t headDim = 0;
  float eps = 0;
  RopeFrequencies rope;
  std::vector<int64_t> ropeSections;  // t, h, w, e; empty: one position per token
  std::vector<bool> recurrent;        // per block: delta net instead of attention
  DeltaNetParameters delta;

  int64_t trunkBlocks() const { return blocks - nextnBlocks; }
};

// What differs between the two families before a tensor is looked at.
struct FamilyTraits {
  bool hybrid;                   // has delta-net layers, gated attention and M-RoPE sections
  bool nextn;                    // may have a NextN block
  int64_t defaultRotaryDivisor;  // rotated dims = head_dim / this, without rope.dimension_count
  double defaultRopeBase;
};

// Where `metadata` lists all refusals, arithmetic that is not supported does not keep the parameters back:
// whoever asks looks at metadata.status(), too.
absl::StatusOr<HyperParameters> readHyperParameters(Metadata& metadata, const FamilyTraits& family);

}  // namespace qcc::models

#endif  // QCC_FRONTENDS_MODELS_HYPERPARAMETERS_H_
