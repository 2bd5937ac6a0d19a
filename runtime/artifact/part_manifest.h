// The manifest of one part of a model whose layers run on several devices, as if it were an artifact's.
#ifndef QRT_ARTIFACT_PART_MANIFEST_H_
#define QRT_ARTIFACT_PART_MANIFEST_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace qrt {

// Part `number` of manifest.parts; of a list that they count wrongly, what there is of it. What stands beside
// states, programs and code is left empty, but for what a part's code relies on. For the writer's form of a
// manifest and for the reader's, whose fields have the same names.
template <typename Manifest>
Manifest PartManifest(const Manifest& manifest, size_t number) {
  Manifest out;
  size_t states = 0, programs = 0, code = 0;
  for (size_t i = 0; i < number; ++i) {
    states += manifest.parts[i].states;
    programs += manifest.parts[i].programs;
    code += manifest.parts[i].code;
  }
  const auto slice = [](const auto& list, size_t begin, size_t count, auto* to) {
    begin = std::min(begin, list.size());
    count = std::min(count, list.size() - begin);
    to->assign(list.begin() + static_cast<ptrdiff_t>(begin),
               list.begin() + static_cast<ptrdiff_t>(begin + count));
  };
  const auto& part = manifest.parts[number];
  slice(manifest.states, states, part.states, &out.states);
  slice(manifest.programs, programs, part.programs, &out.programs);
  slice(manifest.code, code, part.code, &out.code);
  for (auto& program : out.programs) {
    for (uint32_t& state : program.facts.advances) state -= static_cast<uint32_t>(states);
  }
  for (auto stage : manifest.stages) {
    if (stage.program < programs || stage.program - programs >= part.programs) continue;
    stage.program -= static_cast<uint32_t>(programs);
    out.stages.push_back(stage);
  }
  out.numerics = manifest.numerics;
  out.kv_element = manifest.kv_element;
  out.streams = manifest.streams;
  out.draft_tokens = manifest.draft_tokens;
  out.state_block = manifest.state_block;
  out.weights_bytes = part.weights_bytes;
  out.state_bytes = part.state_bytes;
  out.kv_bytes_per_token = part.kv_bytes_per_token;
  out.parts = manifest.parts;
  out.part = static_cast<uint32_t>(number);
  return out;
}

}  // namespace qrt

#endif  // QRT_ARTIFACT_PART_MANIFEST_H_
