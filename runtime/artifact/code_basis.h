// What compiled code takes for granted of its manifest. A code section ends with the hash of it, put there by
// the writer and computed again by the reader: code never runs with programs, states or sizes that are not
// those that it was made for.
#ifndef QRT_ARTIFACT_CODE_BASIS_H_
#define QRT_ARTIFACT_CODE_BASIS_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "runtime/abi/qbin.h"
#include "runtime/abi/terms.h"
#include "runtime/base/hash.h"

namespace qrt {

// The bytes that are hashed: numbers as 64 bits, little-endian; texts and lists behind their length.
class BasisBytes {
 public:
  void Number(uint64_t value) {
    for (int shift = 0; shift < 64; shift += 8) bytes_.push_back(static_cast<uint8_t>(value >> shift));
  }
  template <typename Enum>
  void Term(Enum value) {
    Number(static_cast<uint64_t>(value));
  }
  void Text(std::string_view text) {
    Number(text.size());
    bytes_.insert(bytes_.end(), text.begin(), text.end());
  }
  template <typename List, typename Put>
  void Each(const List& list, Put put) {
    Number(list.size());
    for (const auto& entry : list) put(entry);
  }
  Hash128 Hash() const { return HashOf(bytes_); }

 private:
  std::vector<uint8_t> bytes_;
};

// The basis of the code in `section`: the model's sizes, states, streams and programs, and of every entry of
// the list of code that names the section its target, level, features and the size of the weights that it
// reads, which `weights_bytes(index)` tells. Of a model in parts it is the part's manifest (part_manifest.h),
// and which of which parts it is. For the writer's form of a manifest and for the reader's, whose
// fields have the same names; `model` is where the sizes of the model stand.
template <typename Model, typename Manifest, typename WeightsBytes>
Hash128 CodeBasis(const Model& model, const Manifest& manifest, uint32_t section,
                  WeightsBytes weights_bytes) {
  BasisBytes basis;
  for (const uint64_t size : {uint64_t{model.vocab_size}, uint64_t{model.logits_stride},
                              uint64_t{model.context_length}, uint64_t{model.embedding_length}}) {
    basis.Number(size);
  }
  basis.Term(manifest.numerics);
  basis.Term(manifest.kv_element);
  basis.Number(manifest.state_bytes);
  basis.Number(manifest.kv_bytes_per_token);
  basis.Each(manifest.states, [&](const auto& state) {
    basis.Text(state.name);
    basis.Term(state.kind);
    basis.Number(state.layer);
    basis.Each(state.shape, [&](uint64_t extent) { basis.Number(extent); });
    basis.Term(state.element);
    basis.Number(state.offset);
    basis.Number(state.bytes);
    basis.Number(state.entry_bytes);
  });
  basis.Number(manifest.state_block);
  basis.Each(manifest.streams, [&](const auto& stream) { basis.Text(stream); });
  basis.Each(manifest.programs, [&](const auto& program) {
    basis.Text(program.name);
    basis.Number(program.facts.takes);
    basis.Number(program.facts.given_cols);
    basis.Term(program.facts.stream);
    basis.Term(program.facts.leaves);
    basis.Term(program.facts.gives);
    basis.Each(program.facts.advances, [&](uint32_t state) { basis.Number(state); });
    basis.Number(program.rows);
    basis.Number(program.arena_bytes);
    basis.Number(program.dispatches);
    basis.Number(program.barriers);
    basis.Number(program.weight_bytes);
    basis.Number(program.logits_cols);
  });
  if (!manifest.parts.empty()) {
    basis.Number(manifest.part);
    basis.Each(manifest.parts, [&](const PartFacts& part) {
      basis.Text(part.target);
      basis.Number(part.first_layer);
      basis.Number(part.layers);
    });
  }
  for (const auto& code : manifest.code) {
    if (code.section != section) continue;
    basis.Text(code.target);
    basis.Text(code.isa);
    basis.Each(code.features, [&](const auto& feature) { basis.Text(feature); });
    basis.Number(weights_bytes(code.weights_section));
  }
  return basis.Hash();
}

}  // namespace qrt

#endif  // QRT_ARTIFACT_CODE_BASIS_H_
