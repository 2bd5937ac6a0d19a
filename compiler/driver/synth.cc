#include "compiler/driver/synth.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "compiler/driver/synth_mix.h"
#include "compiler/driver/synth_model.h"
#include "compiler/driver/synth_random.h"
#include "compiler/driver/synth_vocab.h"
#include "frontends/base/error.h"
#include "frontends/base/text.h"
#include "frontends/gguf/writer.h"

namespace qcc::compiler {
namespace {

struct PresetRow {
  SynthPreset preset;
  int64_t layers, hidden, ffn, heads, kv_heads, linear_value_heads;
  bool tied = true;
};
constexpr PresetRow kPresets[] = {
    {{"qwen35", "0.8b"}, 24, 1024, 3584, 8, 2, 16},      {{"qwen35", "2b"}, 24, 2048, 6144, 8, 2, 16},
    {{"qwen35", "4b"}, 32, 2560, 9216, 16, 4, 32},       {{"qwen3", "0.6b"}, 28, 1024, 3072, 16, 8, 0},
    {{"qwen3", "1.7b"}, 28, 2048, 6144, 16, 8, 0},       {{"qwen3", "4b"}, 36, 2560, 9728, 32, 8, 0},
    {{"qwen3", "8b"}, 36, 4096, 12288, 32, 8, 0, false},
};

SynthConfig FromPreset(const PresetRow& row) {
  SynthConfig c;
  c.arch = std::string(row.preset.arch);
  c.layers = row.layers;
  c.hidden = row.hidden;
  c.ffn = row.ffn;
  c.heads = row.heads;
  c.kv_heads = row.kv_heads;
  c.tied = row.tied;
  if (c.arch == "qwen35") {
    c.head_dim = 256;
    c.rope_dims = 64;
    c.rope_base = 1e7f;
    c.context = 262144;
    c.vocab = 248320;
    c.linear_key_heads = 16;
    c.linear_value_heads = row.linear_value_heads;
    c.linear_head_dim = 128;
  } else {
    c.head_dim = 128;
    c.rope_dims = 128;
    c.rope_base = 1e6f;
    c.context = 40960;
    c.vocab = 151936;
  }
  return c;
}

absl::Status Refuse(std::string option, std::string what) {
  return MakeError("Q0102", std::move(what), std::move(option));
}

absl::Status CheckRange(std::string_view option, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return Refuse(std::string(option), Concat("the value is ", value, ", accepted: ", low, " to ", high));
}

absl::Status Check(const SynthConfig& c) {
  struct Limit {
    std::string_view option;
    int64_t value, low, high;
  };
  constexpr int64_t kWidth = 1 << 20;
  std::vector<Limit> limits = {{"--layers", c.layers, 1, 4096},
                               {"--hidden", c.hidden, 1, kWidth},
                               {"--ffn", c.ffn, 1, kWidth},
                               {"--heads", c.heads, 1, 4096},
                               {"--kv-heads", c.kv_heads, 1, c.heads},
                               {"--head-dim", c.head_dim, 2, 4096},
                               {"--rope-dims", c.rope_dims, 2, c.head_dim},
                               {"--context", c.context, 1, int64_t{1} << 31},
                               {"--vocab", c.vocab, MinimumVocabulary(c.arch), int64_t{1} << 22}};
  if (c.arch == "qwen35") {
    limits.push_back({"--linear-key-heads", c.linear_key_heads, 1, 4096});
    limits.push_back({"--linear-value-heads", c.linear_value_heads, 1, 4096});
    limits.push_back({"--linear-head-dim", c.linear_head_dim, 1, 4096});
    limits.push_back({"--full-attention-interval", c.full_attention_interval, 1, 4096});
  }
  for (const Limit& l : limits) {
    if (absl::Status s = CheckRange(l.option, l.value, l.low, l.high); !s.ok()) return s;
  }
  if (c.heads % c.kv_heads != 0) {
    return Refuse("--heads, --kv-heads",
                  Concat(c.heads, " heads are not a multiple of ", c.kv_heads, " key/value heads"));
  }
  if (c.rope_dims % 2 != 0)
    return Refuse("--rope-dims", Concat(c.rope_dims, " rotated dimensions are not even"));
  if (c.arch == "qwen35" && c.linear_value_heads % c.linear_key_heads != 0) {
    return Refuse("--linear-value-heads, --linear-key-heads",
                  Concat(c.linear_value_heads, " value heads are not a multiple of ", c.linear_key_heads,
                         " key heads"));
  }
  return absl::OkStatus();
}

// Generates and encodes one tensor, some rows at a time.
absl::Status FillTensor(const SynthTensor& tensor, uint64_t seed, const gguf::Writer::Sink& sink) {
  constexpr int64_t kPiece = 1 << 16;  // weights: both buffers stay in the cache
  const int64_t n = tensor.ne[0];
  int64_t rows = 1;
  for (size_t d = 1; d < tensor.ne.size(); ++d) rows *= tensor.ne[d];
  const int64_t step = std::max<int64_t>(1, kPiece / n);
  const uint64_t key = StreamKey(seed, tensor.name);
  std::vector<float> values;
  std::vector<uint8_t> bytes;
  for (int64_t row = 0; row < rows; row += step) {
    const int64_t count = std::min(step, rows - row) * n;
    values.resize(static_cast<size_t>(count));
    DrawValues(tensor.draw, tensor.scale, key, static_cast<uint64_t>(row * n), values);
    bytes.resize(static_cast<size_t>(row_bytes(tensor.format, count)));
    encode_row(tensor.format, values.data(), count, bytes.data(), EncodeEffort::kFast);
    if (absl::Status s = sink(bytes); !s.ok()) return s;
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<SynthPreset> SynthPresets() {
  std::vector<SynthPreset> presets;
  for (const PresetRow& row : kPresets) presets.push_back(row.preset);
  return presets;
}

std::string SynthPresetsText() {
  std::string text;
  std::string_view arch;
  for (const PresetRow& row : kPresets) {
    if (row.preset.arch != arch) {
      text += Concat(arch.empty() ? "" : "; ", row.preset.arch, ": ", row.preset.name);
    } else {
      text += Concat(", ", row.preset.name);
    }
    arch = row.preset.arch;
  }
  return text;
}

absl::StatusOr<SynthConfig> ResolveSynth(const SynthOptions& options) {
  const PresetRow* found = nullptr;
  for (const PresetRow& row : kPresets) {
    if (row.preset.arch == options.arch && row.preset.name == options.preset) found = &row;
  }
  if (found == nullptr) {
    return Refuse("--arch, --preset", Concat("there is no preset '", options.preset, "' of architecture '",
                                             options.arch, "', accepted: ", SynthPresetsText()));
  }
  if (FindMix(options.format) == nullptr) {
    std::string accepted;
    for (std::string_view name : SynthFormats()) accepted += Concat(accepted.empty() ? "" : ", ", name);
    return Refuse("--format", Concat("unknown value '", options.format, "', accepted: ", accepted));
  }
  SynthConfig c = FromPreset(*found);
  struct Override {
    std::string_view option;
    const std::optional<int64_t>& value;
    int64_t& field;
    bool hybrid_only;
  };
  for (const Override& o :
       {Override{"--layers", options.layers, c.layers, false},
        Override{"--hidden", options.hidden, c.hidden, false}, Override{"--ffn", options.ffn, c.ffn, false},
        Override{"--heads", options.heads, c.heads, false},
        Override{"--kv-heads", options.kv_heads, c.kv_heads, false},
        Override{"--context", options.context, c.context, false},
        Override{"--vocab", options.vocab, c.vocab, false},
        Override{"--linear-key-heads", options.linear_key_heads, c.linear_key_heads, true},
        Override{"--linear-value-heads", options.linear_value_heads, c.linear_value_heads, true},
        Override{"--linear-head-dim", options.linear_head_dim, c.linear_head_dim, true},
        Override{"--full-attention-interval", options.full_attention_interval, c.full_attention_interval,
                 true}}) {
    if (!o.value) continue;
    if (o.hybrid_only && c.arch != "qwen35") {
      return Refuse(std::string(o.option), Concat("architecture '", c.arch, "' has no such part"));
    }
    o.field = *o.value;
  }
  if (options.head_dim) {
    c.head_dim = *options.head_dim;
    c.rope_dims = c.arch == "qwen35" ? c.head_dim / 4 : c.head_dim;
  }
  if (options.rope_dims) c.rope_dims = *options.rope_dims;
  if (options.tied) c.tied = *options.tied;
  c.mtp = options.mtp;
  if (c.mtp && c.arch != "qwen35") {
    return Refuse("--mtp", Concat("architecture '", c.arch, "' has no NextN block"));
  }
  if (absl::Status s = Check(c); !s.ok()) return s;
  return c;
}

absl::Status RunSynth(const SynthOptions& options, const SynthProgress& progress) {
  absl::StatusOr<SynthConfig> config = ResolveSynth(options);
  if (!config.ok()) return config.status();
  const Mix& mix = *FindMix(options.format);  // ResolveSynth refused other names
  gguf::Writer writer;
  AddModelKeys(*config, options, mix, writer);
  AddTokenizerKeys(MakeVocabulary(config->arch, config->vocab), writer);
  const std::vector<SynthTensor> tensors = SynthTensors(*config, mix);
  for (const SynthTensor& tensor : tensors) writer.AddTensor(tensor.name, tensor.format, tensor.ne);
  uint64_t total = 0, done = 0;
  for (const gguf::Writer::TensorInfo& info : writer.tensors()) total += info.bytes;
  size_t next = 0;
  return writer.WriteFile(
      options.output, [&](const gguf::Writer::TensorInfo&, const gguf::Writer::Sink& sink) {
        return FillTensor(tensors[next++], options.seed, [&](std::span<const uint8_t> bytes) {
          done += bytes.size();
          if (absl::Status s = progress(done, total); !s.ok()) return s;
          return sink(bytes);
        });
      });
}

}  // namespace qcc::compiler
