// The hyper-parameters of a model, checked against each other.
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
  // Value heads stand by key head, not tiled over the key heads (ssm.v_head_reordered); with them the rows of
  // ssm_ba and ssm_in.
  bool byKeyHead = false;
  bool orderStated = false;  // by its own key, not by the architecture alone

  int64_t keyWidth() const { return keyHeads * keyDim; }
  int64_t valueWidth() const { return valueHeads * valueDim; }
  int64_t convChannels() const { return 2 * keyWidth() + valueWidth(); }
};

// Feed-forward blocks of experts.
struct ExpertParameters {
  int64_t count = 0;              // 0: the architecture has none
  int64_t used = 0;               // by a token
  int64_t feedForward = 0;        // hidden values of one
  int64_t sharedFeedForward = 0;  // of the shared expert; 0: the keys give none
  bool sharedStated = false;      // by its own key: each layer of the trunk has a shared expert
  bool sigmoid = false;           // gates are sigmoids, not a softmax over all experts
  bool normalise = true;          // the used gates, by their sum
  float scale = 1;                // of the weights
};

struct HyperParameters {
  std::string arch;
  int64_t blocks = 0;       // block_count: trunk and NextN
  int64_t nextnBlocks = 0;  // the last ones of `blocks`
  int64_t contextLength = 0;
  int64_t embedding = 0;
  int64_t feedForward = 0;  // of a dense block; with experts it may be absent, 0
  int64_t heads = 0;
  std::vector<int64_t> kvHeads;  // per block
  int64_t headDim = 0;
  float attentionScale = 0;  // of the scores; 0: 1 / sqrt(headDim)
  float eps = 0;
  RopeFrequencies rope;
  std::vector<int64_t> ropeSections;  // t, h, w, e; empty: one position per token
  std::vector<bool> recurrent;        // per block: delta net instead of attention
  DeltaNetParameters delta;
  ExpertParameters experts;

  int64_t trunkBlocks() const { return blocks - nextnBlocks; }
};

// What differs between the architectures before a tensor is looked at.
struct FamilyTraits {
  bool hybrid = false;               // has delta-net layers, and gated attention in the others
  bool nextn = false;                // may have a NextN block
  bool experts = false;              // feed-forward blocks of experts
  bool sections = false;             // M-RoPE sections
  bool byKeyHead = false;            // DeltaNetParameters::byKeyHead
  int64_t defaultRotaryDivisor = 1;  // rotated dims = head_dim / this, without rope.dimension_count
  double defaultRopeBase = 1e4;      // what GGUF means by an absent rope.freq_base
};

// Where `metadata` lists all refusals, arithmetic that is not supported does not keep the parameters back:
// whoever asks looks at metadata.status(), too.
absl::StatusOr<HyperParameters> readHyperParameters(Metadata& metadata, const FamilyTraits& family);

}  // namespace qcc::models

#endif  // QCC_FRONTENDS_MODELS_HYPERPARAMETERS_H_
