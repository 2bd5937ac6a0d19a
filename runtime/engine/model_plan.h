// What an engine needs to know about a compiled model: the part of the manifest that running depends on.
#ifndef RUNTIME_ENGINE_MODEL_PLAN_H_
#define RUNTIME_ENGINE_MODEL_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/artifact/manifest.h"
#include "runtime/base/hash.h"
#include "runtime/base/status.h"
#include "runtime/engine/sequence_state.h"

namespace qrt {

struct Program {
  ProgramFacts facts;
  uint32_t rows = 0;  // bucket: the most rows of one step; of one that takes a stream: the most chosen rows
  uint64_t arena_bytes = 0;
  std::string name = {};     // for people
  uint32_t logits_cols = 0;  // ProgramInfo::logits_cols
};

// A run of KV that lies contiguous over tokens: with capacity C it starts at offset * C and holds C rows of
// row_bytes.
struct KvPlane {
  uint64_t offset = 0;     // bytes per token before this plane
  uint64_t row_bytes = 0;  // of one token
  uint32_t state = 0;      // whose it is: place in the manifest's list of states
  // Of integers, where a device has them (Element::kB16, Device::has_integer_rows); 0: of another element.
  int32_t integer_bits = 0;
};

// The role of what a layer returns.
inline constexpr const char kLayerOutput[] = "l_out";

// The last row of a value of a layer, in a sequence's state (StateKind::kTrace).
struct TracedLayer {
  uint32_t layer = 0;
  uint64_t offset = 0;  // bytes into the state
  uint64_t values = 0;  // f32
  size_t part = 0;      // whose state that is
  std::string role = kLayerOutput;
};

// All of a model, or the part of it that one of several devices runs.
struct ModelPlan {
  Hash128 identity = {};  // of the artifact; snapshots are bound to it
  uint32_t vocab_size = 0;
  std::vector<uint32_t> draft_tokens;  // Manifest::draft_tokens
  uint32_t logits_stride = 0;          // floats between two rows of logits, >= vocab_size
  uint64_t context_length = 0;         // the model's own
  uint32_t embedding_length = 0;       // f32 of a row that a part hands to the next
  uint64_t state_bytes = 0;            // may be 0
  std::vector<StatePlace> states;      // inside state_bytes, no overlap
  uint32_t state_block = 0;            // tokens of a block; 0: no state has entries
  uint64_t kv_bytes_per_token = 0;     // may be 0
  std::vector<KvPlane> kv_planes;      // inside kv_bytes_per_token, no overlap
  std::vector<TracedLayer> traces;     // what layers return, by layer; empty: the artifact is not traceable
  std::vector<TracedLayer> values;     // all that are kept, by layer and as they are computed
  std::vector<Program> programs;       // the device's program table
};

// The plan of an artifact's manifest. Errors: artifact incompatible (a KV layer whose shape does not divide
// its bytes, or an absurd number of heads).
Result<ModelPlan> PlanOf(const Manifest& manifest, const Hash128& identity);

}  // namespace qrt

#endif  // RUNTIME_ENGINE_MODEL_PLAN_H_
