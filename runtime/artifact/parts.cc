// Models whose layers run on several devices: which part has what, and what a part hands to the next.
#include <algorithm>
#include <string>

#include "runtime/artifact/part_manifest.h"
#include "runtime/artifact/verifier.h"
#include "runtime/base/checked.h"

namespace qrt {
namespace {

std::string PartField(size_t number) {
  return "part " + std::to_string(number);
}

}  // namespace

Status ArtifactVerifier::ReadParts(const abi::Manifest& fb) {
  Manifest& m = a_.manifest_;
  const bool required = (a_.required_features_ & QBIN_FEATURE_PARTS) != 0;
  const size_t count = fb.parts() == nullptr ? 0 : fb.parts()->size();
  // A reader that did not know of parts would run the first as if it were the model.
  if (required != (count != 0)) {
    return BadField(
        "the length of parts", std::to_string(count),
        required ? "at least 2: the header requires the feature" : "0: the header does not require it");
  }
  if (count == 0) return Status();
  if (count == 1 || count > kMaxParts) {
    return BadField("the length of parts", std::to_string(count), "2 to " + std::to_string(kMaxParts));
  }
  for (const abi::Part* p : *fb.parts()) {
    PartFacts& part = m.parts.emplace_back();
    QRT_RETURN_IF_ERROR(Copy("parts.target", p->target(), &part.target));
    part.first_layer = p->first_layer();
    part.layers = p->layers();
    part.states = p->states();
    part.programs = p->programs();
    part.code = p->code();
    part.state_bytes = p->state_bytes();
    part.kv_bytes_per_token = p->kv_bytes_per_token();
    part.weights_bytes = p->weights_bytes();
  }
  return Status();
}

// Each part has its layers and its share of each list, and all together are everything.
Status ArtifactVerifier::CheckPartLists() const {
  const Manifest& m = a_.manifest_;
  uint64_t layer = 0, states = 0, programs = 0, code = 0;
  Checked state_bytes = 0, kv_bytes = 0;
  for (size_t i = 0; i < m.parts.size(); ++i) {
    const PartFacts& part = m.parts[i];
    if (part.first_layer != layer) {
      return BadField(PartField(i) + ".first_layer", std::to_string(part.first_layer), std::to_string(layer));
    }
    if (part.layers == 0) return BadField(PartField(i) + ".layers", "0", "at least 1");
    layer += part.layers;
    states += part.states;
    programs += part.programs;
    code += part.code;
    state_bytes = state_bytes + part.state_bytes;
    kv_bytes = kv_bytes + part.kv_bytes_per_token;
  }
  const struct {
    const char* name;
    uint64_t of_parts, all;
  } lists[] = {{"states", states, m.states.size()},
               {"programs", programs, m.programs.size()},
               {"code", code, m.code.size()}};
  for (const auto& list : lists) {
    if (list.of_parts == list.all) continue;
    return BadField(std::string("the sum of parts.") + list.name, std::to_string(list.of_parts),
                    std::to_string(list.all) + ", the length of " + list.name);
  }
  if (!state_bytes.is(m.state_bytes)) {
    return BadField("state_bytes", std::to_string(m.state_bytes), "the sum of its parts'");
  }
  if (!kv_bytes.is(m.kv_bytes_per_token)) {
    return BadField("kv_bytes_per_token", std::to_string(m.kv_bytes_per_token), "the sum of its parts'");
  }
  return Status();
}

// What begins a step in this part, and what it hands on. `part` is sliced, and otherwise unchecked.
Status ArtifactVerifier::CheckPartPrograms(const Manifest& part) const {
  const PartFacts& facts = part.parts[part.part];
  const bool last = part.part + 1 == part.parts.size();
  const uint32_t begins = part.part == 0 ? kTokens : kGiven;
  const uint64_t row_bytes = uint64_t{a_.manifest_.model.embedding_length} * sizeof(float);
  // A NextN block follows the last layer.
  const uint32_t layers = facts.layers + (last ? 1 : 0);
  for (const StateInfo& state : part.states) {
    if (state.layer >= facts.first_layer && state.layer - facts.first_layer < layers) continue;
    return BadField("state '" + state.name + "'.layer", std::to_string(state.layer),
                    "one of the " + std::to_string(facts.layers) + " layers from " +
                        std::to_string(facts.first_layer) + " on: it is of " + PartField(part.part));
  }
  for (const CodeInfo& code : part.code) {
    if (code.target == facts.target) continue;
    return BadField("code '" + code.isa + "'.target", code.target,
                    facts.target + ", the target of " + PartField(part.part));
  }
  for (const ProgramInfo& program : part.programs) {
    const std::string field = "program '" + program.name + "'";
    // Makes logits of what another leaves, or drafts: takes tokens with such rows, or with its own.
    const bool ends = last && (program.facts.takes == kStream || program.facts.takes == (kTokens | kStream));
    const bool drafts = last && program.facts.takes == (kTokens | kGiven);
    if (!ends && !drafts && program.facts.takes != begins) {
      return BadField(field + ".takes", std::to_string(program.facts.takes),
                      std::to_string(begins) + ": it is of " + PartField(part.part));
    }
    if (!ends && begins == kGiven && program.facts.given_cols != a_.manifest_.model.embedding_length) {
      return BadField(field + ".given_cols", std::to_string(program.facts.given_cols),
                      std::to_string(a_.manifest_.model.embedding_length) +
                          " (model.embedding_length): the part before leaves such rows");
    }
    if (last) continue;
    if (program.facts.leaves < 0 || program.facts.gives != Output::kNothing) {
      return BadField(field + ".leaves", std::to_string(program.facts.leaves),
                      "a stream, and no logits: a part follows");
    }
    if (program.arena_bytes < program.rows * row_bytes) {
      return BadField(field + ".arena_bytes", std::to_string(program.arena_bytes),
                      "at least " + std::to_string(program.rows * row_bytes) + ": the rows that it leaves");
    }
  }
  return Status();
}

Status ArtifactVerifier::CheckParts() {
  const Manifest& m = a_.manifest_;
  QRT_RETURN_IF_ERROR(CheckPartLists());
  uint64_t largest = 0;
  for (size_t i = 0; i < m.parts.size(); ++i) {
    std::unique_ptr<Artifact> part(new Artifact());
    part->path_ = a_.path_;
    part->bytes_ = a_.bytes_;
    part->minor_ = a_.minor_;
    part->required_features_ = a_.required_features_;
    part->identity_ = a_.identity_;
    part->sections_ = a_.sections_;
    part->manifest_ = PartManifest(m, i);
    part->manifest_.model = m.model;
    part->manifest_.provenance.compiler = m.provenance.compiler;
    ArtifactVerifier verifier(*part, manifest_section_);
    verifier.widest_cols_ = widest_cols_;
    QRT_RETURN_IF_ERROR(verifier.CheckRunning());
    QRT_RETURN_IF_ERROR(CheckPartPrograms(part->manifest_));
    largest = std::max(largest, part->manifest_.weights_bytes);
    a_.parts_.push_back(std::move(part));
  }
  if (m.weights_bytes == largest) return Status();
  return BadField("weights_bytes", std::to_string(m.weights_bytes),
                  std::to_string(largest) + ", the most of its parts'");
}

}  // namespace qrt
