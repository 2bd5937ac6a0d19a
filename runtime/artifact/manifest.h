// The manifest as plain values, after every one of them has been checked (artifact.h). Meanings:
// runtime/abi/manifest.fbs.
#ifndef QRT_ARTIFACT_MANIFEST_H_
#define QRT_ARTIFACT_MANIFEST_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/abi/terms.h"
#include "runtime/base/hash.h"
#include "runtime/base/status.h"

namespace qrt {

constexpr uint64_t Bytes(Element e) {
  return e == Element::kF32 ? 4 : 2;
}

// Far above anything real: rows of a program, columns of a row.
inline constexpr uint32_t kMaxRows = 1 << 16, kMaxEmbedding = 1 << 20;

// Scratch that a program has at most: something for lists of experts and the like, and for each row (`rows`
// of the largest program, whose stream a small one may take) so many floats for each column of the widest
// row, which is the model's or one that a weight multiplies, or so many bytes.
constexpr uint64_t MostArenaBytes(uint64_t rows, uint64_t cols) {
  constexpr uint64_t kBytes = uint64_t{16} << 20, kFloats = 256, kRowBytes = uint64_t{64} << 10;
  return kBytes +
         rows * std::max(sizeof(float) * kFloats * std::min<uint64_t>(cols, kMaxEmbedding), kRowBytes);
}

struct ModelInfo {
  std::string arch, name;
  uint32_t vocab_size = 0;     // 1 .. 2^23
  uint32_t logits_stride = 0;  // >= vocab_size, by little
  uint64_t context_length = 0;
  uint32_t embedding_length = 0;
};

struct StateInfo {
  std::string name;
  StateKind kind;
  uint32_t layer;
  std::vector<uint64_t> shape;
  Element element;
  // Inside state_bytes, or kv_bytes_per_token for kKV, which hold the states and little more; states do not
  // overlap. At least the shape's bytes; for kKV exactly twice: K and V.
  uint64_t offset, bytes;
  // Of kConv and kDelta, what each token of a block leaves: state_block * entry_bytes are all of `bytes` or
  // what lies behind the shape's. 0: nothing.
  uint64_t entry_bytes;
};

struct ProgramInfo {
  std::string name;    // for people
  ProgramFacts facts;  // places lie in `states` and `streams`; inputs and outputs may be unknown ones
  uint32_t rows;       // 1 .. kMaxRows; no two programs of equal facts have the same
  uint64_t arena_bytes;
  uint32_t dispatches, barriers;
  uint64_t weight_bytes;  // read by a step with a full bucket
  // Of one that gives logits of the first tokens alone, by id, a multiple of 16 and less than the vocabulary:
  // columns of a row, and floats from one row to the next. 0: of all tokens.
  uint32_t logits_cols = 0;
};

struct CodeInfo {
  std::string target;  // checked if KnownTarget; others are skipped
  std::string isa;
  std::vector<std::string> features;
  uint32_t section, weights_section;  // of the file; of the right kinds if the target is known
};

// Targets whose sections' contents are checked and given out: those of targets.def.
bool KnownTarget(std::string_view target);

struct TokenizerInfo {
  std::string pre;
  int32_t bos = -1, eos = -1, eot = -1, pad = -1;  // -1: none; otherwise < number of tokens
  bool add_bos = false;                            // only with bos >= 0
  bool nfc = false;                                // text is normalized
  std::vector<uint32_t> eog;                       // rising, each < number of tokens
  uint32_t section = 0;                            // of the file, as those below
};

struct SamplingInfo {
  std::optional<float> temperature, top_p, min_p, repeat_penalty, presence_penalty, frequency_penalty;
  std::optional<int32_t> top_k, penalty_window;
};

struct FormatUse {
  std::string name;
  uint32_t tensors;
  uint64_t source_bytes, packed_bytes;
};

// Where a weight lies, for people and for comparing artifacts.
struct WeightInfo {
  std::string name, format, layout;
  uint64_t rows = 0, cols = 0;
  uint32_t section = 0;            // of kind WEIGHTS
  uint64_t offset = 0, bytes = 0;  // inside it
};

// A kernel of CPU code, for people.
struct KernelInfo {
  std::string name, specification;
  std::vector<uint32_t> programs;    // that run it, rising
  std::vector<uint64_t> code_bytes;  // in each CPU code of the list
};

// A place in the code of a CPU's program.
struct StageInfo {
  uint32_t program = 0;
  int32_t kernel = -1;        // -1: the threads wait for each other
  uint64_t weight_bytes = 0;  // of a run with a full bucket
};

// What layers compute and no state keeps, for people.
struct LostRole {
  std::string role;
  std::string into;  // kind of the kernel inside of which it is; empty: it is stored, and not kept
  std::vector<uint32_t> layers;  // rising
};

struct Provenance {
  std::string compiler;
  std::vector<std::pair<std::string, std::string>> options;
  std::string source_name;
  uint64_t source_bytes = 0;
  Hash128 source_hash{};
};

struct Manifest {
  ModelInfo model;
  Numerics numerics = Numerics::kF32;
  Element kv_element = Element::kF16;
  uint64_t weights_bytes = 0;
  uint64_t state_bytes = 0;
  uint64_t kv_bytes_per_token = 0;
  std::vector<StateInfo> states;
  std::vector<ProgramInfo> programs;  // entry i of every code section
  std::vector<CodeInfo> code;         // best first
  std::optional<TokenizerInfo> tokenizer;
  SamplingInfo sampling;
  std::optional<uint32_t> chat_template_section, goldens_section;
  std::vector<FormatUse> formats;
  Provenance provenance;
  std::vector<std::string> streams;  // names, for people
  std::vector<WeightInfo> weights;   // of all weight sections; empty in artifacts of 2.0
  std::vector<KernelInfo> kernels;   // empty in artifacts made before these were listed
  // Where several devices run the model: at least 2, to which the entries of states, programs and code belong
  // in this order; their areas, and so offsets of states, are their own (Artifact::part). Of the manifest of
  // a part: which of them it is.
  std::vector<PartFacts> parts;
  uint32_t part = 0;
  uint32_t state_block = 0;       // tokens; 0 where no state has entries
  std::vector<StageInfo> stages;  // as CPU code numbers them
  // Ids of the columns of trimmed logits, each in the vocabulary and as many as all such programs have;
  // empty: they are the first tokens.
  std::vector<uint32_t> draft_tokens;
  std::vector<LostRole> lost_roles;

  // Floats from one row of a program's logits to the next.
  uint32_t logits_stride(const ProgramInfo& program) const {
    return program.logits_cols != 0 ? program.logits_cols : model.logits_stride;
  }
};

// Q4017. `made_for` says of what the artifact has version `found`, where this program knows `known` alone:
// "the code was made for program interface". Names the compiler that made it: what to do depends on which is
// the older.
Status OtherInterface(const Manifest& manifest, const std::string& made_for, uint32_t found, uint32_t known,
                      const std::string& where);

}  // namespace qrt

#endif  // QRT_ARTIFACT_MANIFEST_H_
