// What the user asked for. One object, made by the driver (or a test), carried through the whole compiler;
// nothing else changes results. How each field is spelled, checked, explained and recorded:
// compile_options.h.
#ifndef QCC_COMPILER_PIPELINE_OPTIONS_H_
#define QCC_COMPILER_PIPELINE_OPTIONS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/cpu/kernels/isa.h"
#include "frontends/models/function_names.h"
#include "passes/plan/buckets.h"

namespace qcc::compiler {

// In the order of their words in compile_options.cc.
enum class NumericsMode : uint8_t { kInt8, kF32 };
enum class KvMode : uint8_t { kF16, kF32 };
// Unit length of the delta net's queries and keys: x * rsqrt(sum x^2 + eps), or x / max(sqrt(sum x^2), eps).
enum class L2NormMode : uint8_t { kSum, kMax };
// Whose last rows are kept with a sequence: nobody's, what each layer returns, or all values that have names.
enum class TraceMode : uint8_t { kOff, kLayers, kAll };
// Of which rows the last feed-forward part is computed: of those whose logits are asked for, or of all.
enum class LastFfnMode : uint8_t { kChosen, kAll };

// How progress is shown: as the terminal takes it, as plain lines, or as JSON lines for a program.
enum class ProgressMode : uint8_t { kAuto, kPlain, kJson };

// What `--report` can show, as tables or as a line of JSON each.
enum class ReportKind : uint8_t { kFusion, kMemory, kFormats };
enum class ReportForm : uint8_t { kText, kJson };

// What of a finished artifact is printed, as JSON.
enum class EmittedPart : uint8_t { kNone, kManifest, kKernels };
inline constexpr std::array<std::string_view, 3> kEmittedPartNames = {"off", "manifest", "kernels"};
constexpr std::string_view Name(EmittedPart part) {
  return kEmittedPartNames[static_cast<size_t>(part)];
}

// Where `--compile-to` stops. In the order in which they run; kArtifact is the whole way.
enum class CompilePhase : uint8_t { kImport, kFuse, kPlan, kCode, kArtifact };
inline constexpr std::array<std::string_view, 5> kCompilePhaseNames = {"import", "fuse", "plan", "code",
                                                                       "artifact"};
constexpr std::string_view Name(CompilePhase phase) {
  return kCompilePhaseNames[static_cast<size_t>(phase)];
}

inline std::vector<std::string> EveryCpuLevel() {
  std::vector<std::string> names;
  for (const cpu::IsaInfo& isa : cpu::isa_table()) names.emplace_back(isa.name);
  return names;
}

// Layers that one device runs: `first` to `last`, from 0.
struct LayerPart {
  std::string target;
  int64_t first = 0, last = 0;

  bool operator==(const LayerPart&) const = default;
};

struct PipelineOptions {
  std::string input;   // GGUF
  std::string output;  // .qbin

  std::vector<std::string> targets = {"cpu"};      // values of `qcc targets`, in its order
  std::vector<LayerPart> layers;                   // in order, from 0, without gaps; empty: not cut
  std::vector<std::string> cpu = EveryCpuLevel();  // ISA levels, resolved ("native" is gone), lowest first
  // GPU profiles of the chosen targets (codegen/gpu/kernels/profiles.def), in the order of the table.
  std::vector<std::string> gpu_profiles;
  std::string name;     // of the model in the artifact; empty: the file's general.name
  std::string kernels;  // folder with GLSL kernels of the user's own (--kernels), or empty
  NumericsMode numerics = NumericsMode::kInt8;
  KvMode kv = KvMode::kF16;
  L2NormMode l2_norm = L2NormMode::kSum;
  LastFfnMode last_ffn = LastFfnMode::kChosen;
  std::string mtp;     // GGUF of the model's NextN block, where `input` is without it; or empty
  bool draft = false;  // the model's NextN block alone, as a draft for an artifact of the model
  TraceMode traceable = TraceMode::kOff;  // qcc-trace-layers
  bool traced() const { return traceable != TraceMode::kOff; }
  // What becomes of `last_ffn`: a traced layer's result is that of every row.
  LastFfnMode made_last_ffn() const { return traced() ? LastFfnMode::kAll : last_ffn; }

  // The model's functions to make programs of, by the name of the one that begins a step ("trunk" is tokens
  // to logits, "mtp" the NextN block); empty: all that it has.
  std::vector<std::string> functions;
  // Tokens that the NextN block chooses among, the first by id; 0: all; unset: the usual number, or what the
  // file itself has trimmed the block to.
  std::optional<int64_t> draft_vocab;
  // Buckets: the largest rows of each program, rising. Prefill buckets give the chunk ladder.
  std::vector<int64_t> decode_buckets = {std::begin(passes::kTokenBuckets), std::end(passes::kTokenBuckets)};
  std::vector<int64_t> prefill_buckets = {std::begin(passes::kManyBuckets), std::end(passes::kManyBuckets)};

  // Tokens of the prompt whose logits the artifact carries for `qrun check`; 0: none; unset: as many as the
  // model's size allows (goldens.h).
  std::optional<int64_t> golden_tokens;
  std::vector<std::string> require_fused;  // kinds of groups (fusion_report.h) that must be fused everywhere

  std::vector<ReportKind> reports;  // in the order of the enum (ProgressSink::Report)
  ReportForm report_form = ReportForm::kText;
  EmittedPart emit = EmittedPart::kNone;
  CompilePhase compile_to = CompilePhase::kArtifact;
  std::string dump_ir;       // folder, or empty
  std::string dump_kernels;  // folder, or empty
  std::string cache_dir;     // where compiled code is kept between compiles; empty: nowhere
  bool no_cache = false;     // neither kept nor taken from there
  bool strict = false;       // the first warning ends the compile
  ProgressMode progress = ProgressMode::kAuto;
  int verbosity = 0;  // -1 quiet, 0 normal, 1 and 2 more

  // Whether several devices run the model, each some layers: an artifact of several parts.
  bool in_parts() const { return layers.size() > 1; }

  // Names of the options that the user wrote down, for warnings about those without effect.
  std::vector<std::string> given;
};

// Hears what the compiler does. Called from one thread at a time.
class ProgressSink {
 public:
  virtual ~ProgressSink() = default;

  // A stage begins: `name` for people ("pack weights"). The one before has ended. `index` counts from 1 to
  // `count`.
  virtual void BeginStage(int index, int count, std::string_view name) = 0;
  // How far the stage is; `unit` is "B" for bytes, else a plural noun ("kernels").
  virtual void Progress(uint64_t done, uint64_t total, std::string_view unit) = 0;
  // The stage's result in a few words ("1.2 GiB").
  virtual void EndStage(std::string_view summary) = 0;
  virtual void Warning(std::string_view text) = 0;
  // Text that the user asked for with an option (a fusion report): part of the product, goes to stdout.
  virtual void Report(std::string_view text) = 0;
  // True once the user has asked to stop (Ctrl-C): return CancelledError soon.
  virtual bool Interrupted() const = 0;
};

}  // namespace qcc::compiler

#endif  // QCC_COMPILER_PIPELINE_OPTIONS_H_
