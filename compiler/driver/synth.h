// qcc synth: a GGUF file with random weights of a named or given configuration, for benchmarks and tests. The
// weights are sane: activations and logits have the size that those of a trained model have. The same options
// give the same bytes, on any machine.
#ifndef QCC_COMPILER_DRIVER_SYNTH_H_
#define QCC_COMPILER_DRIVER_SYNTH_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace qcc::compiler {

// Hyper-parameters; fields from `linear_key_heads` to `mtp` belong to the hybrids alone.
struct SynthConfig {
  std::string arch;    // of SynthPresets()
  int64_t layers = 0;  // without the MTP block
  int64_t hidden = 0;
  int64_t ffn = 0;  // of a dense block; with experts only a key, where not 0
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  int64_t rope_dims = 0;  // rotated dimensions of a head
  float rope_base = 0;
  int64_t context = 0;
  int64_t vocab = 0;
  bool tied = true;  // the token embedding serves as output matrix
  int64_t linear_key_heads = 0, linear_value_heads = 0, linear_head_dim = 0;
  int64_t conv_kernel = 4;
  int64_t full_attention_interval = 4;
  bool mtp = false;                       // one NextN block behind the layers
  int64_t experts = 0, experts_used = 0;  // 0: dense
  int64_t expert_ffn = 0;
  int64_t shared_ffn = 0;  // of the shared expert; 0: there is none

  // Delta nets between layers of attention, which is gated.
  bool hybrid() const { return arch != "qwen3" && arch != "qwen3moe"; }
  bool has_experts() const { return experts > 0; }
  // Value heads stand by key head, and so do the rows of ssm_ba.
  bool by_key_head() const { return arch == "qwen3next"; }
};

struct SynthOptions {
  std::string arch = "qwen35";
  std::string preset = "0.8b";
  std::string format = "q8_0";  // a name of SynthFormats()
  uint64_t seed = 0;
  std::string output;  // path of the file
  bool mtp = false;
  // What differs from the preset. A new head_dim changes rope_dims along with it unless that is given too.
  std::optional<int64_t> layers, hidden, ffn, heads, kv_heads, head_dim, rope_dims, context, vocab;
  std::optional<int64_t> linear_key_heads, linear_value_heads, linear_head_dim, full_attention_interval;
  std::optional<int64_t> experts, experts_used, expert_ffn, shared_ffn;
  std::optional<bool> tied;
};

struct SynthPreset {
  std::string_view arch;
  std::string_view name;
};
std::vector<SynthPreset> SynthPresets();
// Presets as the help shows them: "qwen35: 0.8b, 2b, 4b; qwen3: 0.6b, 1.7b, 4b, 8b".
std::string SynthPresetsText();

// Names of the format mixes, as files are named: q8_0, q4_k_m, iq2_xxs, mxfp4, ... A mix gives each matrix a
// format as llama.cpp's does; where its blocks do not fit the rows the matrix is Q8_0, or F16. NVFP4 matrices
// come with their tensor scales (NAME.scale).
std::vector<std::string_view> SynthFormats();

// The configuration that the options name. Errors: Q0102 with the option and the values that are possible.
absl::StatusOr<SynthConfig> ResolveSynth(const SynthOptions& options);

// Bytes written and to write; called often. An error that it returns ends the writing and leaves no file.
using SynthProgress = std::function<absl::Status(uint64_t done, uint64_t total)>;

// Writes `options.output` (through a temporary file beside it). Memory: the vocabulary and one piece of a
// tensor.
absl::Status RunSynth(const SynthOptions& options, const SynthProgress& progress);

}  // namespace qcc::compiler

#endif  // QCC_COMPILER_DRIVER_SYNTH_H_
