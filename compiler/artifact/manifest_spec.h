// The manifest as plain values: what the pipeline fills and the writer stores. The reader's view of it is
// qrt::Manifest (runtime/artifact). Meanings of the fields: runtime/abi/manifest.fbs.
#ifndef QCC_COMPILER_ARTIFACT_MANIFEST_SPEC_H_
#define QCC_COMPILER_ARTIFACT_MANIFEST_SPEC_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/abi/terms.h"
#include "runtime/base/hash.h"

namespace qcc::compiler {

using qrt::Hash128;

using SpecNumerics = qrt::Numerics;
using SpecElement = qrt::Element;
using SpecState = qrt::StateKind;

struct StateSpec {
  std::string name;
  SpecState kind = SpecState::kConv;
  uint32_t layer = 0;
  std::vector<uint64_t> shape;
  SpecElement element = SpecElement::kF32;
  uint64_t offset = 0, bytes = 0;
  uint64_t entry_bytes = 0;

  bool operator==(const StateSpec&) const = default;
};

struct ProgramSpec {
  std::string name;         // for people
  qrt::ProgramFacts facts;  // places lie in `states` and `streams`
  uint32_t rows = 0;
  uint64_t arena_bytes = 0;
  uint32_t dispatches = 0, barriers = 0;
  uint64_t weight_bytes = 0;
  uint32_t logits_cols = 0;

  bool operator==(const ProgramSpec&) const = default;
};

struct CodeSpec {
  std::string target = "cpu";
  std::string isa;
  std::vector<std::string> features;
  uint32_t section = 0, weights_section = 0;  // as returned by ArtifactWriter::AddSection

  bool operator==(const CodeSpec&) const = default;
};

struct TokenizerSpec {
  uint32_t section = 0;
  std::string pre;
  int32_t bos = -1, eos = -1, eot = -1, pad = -1;
  bool add_bos = false;
  std::vector<uint32_t> eog;  // rising
  bool nfc = false;

  bool operator==(const TokenizerSpec&) const = default;
};

struct SamplingSpec {
  std::optional<float> temperature, top_p, min_p, repeat_penalty, presence_penalty, frequency_penalty;
  std::optional<int32_t> top_k, penalty_window;

  bool operator==(const SamplingSpec&) const = default;
};

struct FormatSpec {
  std::string name;
  uint32_t tensors = 0;
  uint64_t source_bytes = 0, packed_bytes = 0;

  bool operator==(const FormatSpec&) const = default;
};

struct KernelSpec {
  std::string name, specification;
  std::vector<uint32_t> programs;    // rising
  std::vector<uint64_t> code_bytes;  // in each CPU code

  bool operator==(const KernelSpec&) const = default;
};

struct StageSpec {
  uint32_t program = 0;
  int32_t kernel = -1;
  uint64_t weight_bytes = 0;

  bool operator==(const StageSpec&) const = default;
};

struct LostRoleSpec {
  std::string role, into;
  std::vector<uint32_t> layers;  // rising

  bool operator==(const LostRoleSpec&) const = default;
};

struct WeightSpec {
  std::string name, format, layout;
  uint64_t rows = 0, cols = 0;
  uint32_t section = 0;
  uint64_t offset = 0, bytes = 0;

  bool operator==(const WeightSpec&) const = default;
};

struct ProvenanceSpec {
  std::string compiler;
  std::vector<std::pair<std::string, std::string>> options;  // sorted by key when written
  std::string source_name;                                   // file name without folder
  uint64_t source_bytes = 0;
  Hash128 source_hash{};

  bool operator==(const ProvenanceSpec&) const = default;
};

struct ManifestSpec {
  std::string arch, name;
  uint32_t vocab_size = 0, logits_stride = 0;
  uint64_t context_length = 0;
  uint32_t embedding_length = 0;
  SpecNumerics numerics = SpecNumerics::kInt8;
  SpecElement kv_element = SpecElement::kF16;
  uint64_t weights_bytes = 0, state_bytes = 0, kv_bytes_per_token = 0;
  std::vector<StateSpec> states;
  std::vector<ProgramSpec> programs;  // in the order of the entries of every code section
  std::vector<std::string> streams;   // names, for people
  std::vector<CodeSpec> code;         // best first
  std::optional<TokenizerSpec> tokenizer;
  SamplingSpec sampling;
  std::optional<uint32_t> chat_template_section, goldens_section;
  std::vector<FormatSpec> formats;
  ProvenanceSpec provenance;
  std::vector<WeightSpec> weights;  // of all weight sections
  uint64_t required_features = 0;   // QBIN_FEATURE_*, in the header
  std::vector<KernelSpec> kernels;  // of CPU code
  // At least 2, or none where one device runs all layers; `part` is the number of one (part_manifest.h).
  std::vector<qrt::PartFacts> parts;
  uint32_t part = 0;
  uint32_t state_block = 0;       // tokens; 0: no state has entries
  std::vector<StageSpec> stages;  // of CPU code
  std::vector<uint32_t> draft_tokens;
  std::vector<LostRoleSpec> lost_roles;

  bool operator==(const ManifestSpec&) const = default;
};

// The manifest section. The same spec gives the same bytes.
std::vector<uint8_t> BuildManifest(const ManifestSpec& spec);

}  // namespace qcc::compiler

#endif  // QCC_COMPILER_ARTIFACT_MANIFEST_SPEC_H_
