#include "runtime/engine/model_plan.h"

#include <algorithm>
#include <string>

#include "runtime/abi/integer_row.h"
#include "runtime/base/checked.h"

namespace qrt {
namespace {

// Far above anything real, which is heads times layers. A shape of narrow heads costs its maker nothing.
constexpr uint64_t kMaxKvPlanes = 1 << 20;

// Of a traced value, whose state is "blk.N.ROLE"; what layers return was "blk.N.trace" before values had
// roles.
std::string RoleOf(const StateInfo& state) {
  const std::string role = state.name.substr(state.name.rfind('.') + 1);
  return role == "trace" ? kLayerOutput : role;
}

// Of the elements at byte `at` of a token's KV.
int32_t IntegerBits(const StateInfo& state, uint64_t at) {
  if (state.element != Element::kB16) return 0;
  return at < state.bytes / 2 ? IntegerRow::KeyBits(static_cast<int64_t>(state.shape.back()))
                              : IntegerRow::kValueBits;
}

}  // namespace

Result<ModelPlan> PlanOf(const Manifest& manifest, const Hash128& identity) {
  ModelPlan plan;
  plan.identity = identity;
  plan.vocab_size = manifest.model.vocab_size;
  plan.draft_tokens = manifest.draft_tokens;
  plan.logits_stride = manifest.model.logits_stride;
  plan.context_length = manifest.model.context_length;
  plan.embedding_length = manifest.model.embedding_length;
  plan.state_bytes = manifest.state_bytes;
  plan.states = PlacesOf(manifest);
  plan.state_block = manifest.state_block;
  plan.kv_bytes_per_token = manifest.kv_bytes_per_token;
  for (const ProgramInfo& program : manifest.programs) {
    plan.programs.push_back(
        {program.facts, program.rows, program.arena_bytes, program.name, program.logits_cols});
  }
  for (uint32_t place = 0; place < manifest.states.size(); ++place) {
    const StateInfo& state = manifest.states[place];
    if (state.kind == StateKind::kTrace) {
      plan.values.push_back(
          {state.layer, state.offset, state.bytes / sizeof(float), manifest.part, RoleOf(state)});
      if (plan.values.back().role == kLayerOutput) plan.traces.push_back(plan.values.back());
    }
    if (state.kind != StateKind::kKV) continue;
    // K [kv_heads][capacity][head_dim], then V: one plane per head of each.
    const Checked row = Checked(state.shape.empty() ? 0 : state.shape.back()) * Bytes(state.element);
    if (!row.ok() || row.value() == 0 || state.bytes % row.value() != 0) {
      return Status(Code::kArtifactIncompatible, 5320,
                    "KV layer " + state.name + " has " + std::to_string(state.bytes) +
                        " bytes per token, expected a multiple of its head's row",
                    "manifest, state " + state.name, "compile the model again with this release's qcc");
    }
    if (state.bytes / row.value() > kMaxKvPlanes - plan.kv_planes.size()) {
      return Status(
          Code::kArtifactIncompatible, 5320,
          "the KV layers up to " + state.name + " have more than " + std::to_string(kMaxKvPlanes) + " heads",
          "manifest, state " + state.name, "compile the model again with this release's qcc");
    }
    for (uint64_t at = 0; at < state.bytes; at += row.value()) {
      plan.kv_planes.push_back({state.offset + at, row.value(), place, IntegerBits(state, at)});
    }
  }
  for (std::vector<TracedLayer>* list : {&plan.traces, &plan.values}) {
    std::stable_sort(list->begin(), list->end(),
                     [](const TracedLayer& a, const TracedLayer& b) { return a.layer < b.layer; });
  }
  return plan;
}

}  // namespace qrt
