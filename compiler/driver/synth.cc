#include "compiler/driver/synth.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <span>
#include <utility>

#include "compiler/driver/synth_mix.h"
#include "compiler/driver/synth_model.h"
#include "compiler/driver/synth_random.h"
#include "compiler/driver/synth_vocab.h"
#include "frontends/base/error.h"
#include "frontends/base/text.h"
#include "frontends/gguf/writer.h"
#include "frontends/models/Metadata.h"

namespace qcc::compiler {
namespace {

struct PresetRow {
  SynthPreset preset;
  int64_t layers, hidden, ffn, heads, kv_heads, linear_value_heads;
  bool tied = true;
  int64_t experts = 0, experts_used = 0, expert_ffn = 0, shared_ffn = 0;
};
// qwen3next 80b-a3b: 4 of its 48 layers, each of which has 1.6 billion weights; --layers 48 gives all.
constexpr PresetRow kPresets[] = {
    {{"qwen35", "0.8b"}, 24, 1024, 3584, 8, 2, 16},
    {{"qwen35", "2b"}, 24, 2048, 6144, 8, 2, 16},
    {{"qwen35", "4b"}, 32, 2560, 9216, 16, 4, 32},
    {{"qwen35moe", "35b-a3b"}, 40, 2048, 0, 16, 2, 32, false, 256, 8, 512, 512},
    {{"qwen3", "0.6b"}, 28, 1024, 3072, 16, 8, 0},
    {{"qwen3", "1.7b"}, 28, 2048, 6144, 16, 8, 0},
    {{"qwen3", "4b"}, 36, 2560, 9728, 32, 8, 0},
    {{"qwen3", "8b"}, 36, 4096, 12288, 32, 8, 0, false},
    {{"qwen3moe", "30b-a3b"}, 48, 2048, 6144, 32, 4, 0, false, 128, 8, 768, 0},
    {{"qwen3next", "80b-a3b"}, 4, 2048, 5120, 16, 2, 32, false, 512, 10, 512, 512},
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
  c.experts = row.experts;
  c.experts_used = row.experts_used;
  c.expert_ffn = row.expert_ffn;
  c.shared_ffn = row.shared_ffn;
  c.vocab = c.arch.starts_with("qwen35") ? 248320 : 151936;
  if (c.hybrid()) {
    c.head_dim = 256;
    c.rope_dims = 64;
    c.rope_base = 1e7f;
    c.context = 262144;
    c.linear_key_heads = 16;
    c.linear_value_heads = row.linear_value_heads;
    c.linear_head_dim = 128;
  } else {
    c.head_dim = 128;
    c.rope_dims = 128;
    c.rope_base = 1e6f;
    c.context = 40960;
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
  std::vector<Limit> limits = {{"--layers", c.layers, 1, models::kBlocks.max - (c.mtp ? 1 : 0)},
                               {"--hidden", c.hidden, 1, kWidth},
                               {"--ffn", c.ffn, c.has_experts() ? 0 : 1, kWidth},
                               {"--heads", c.heads, 1, 4096},
                               {"--kv-heads", c.kv_heads, 1, c.heads},
                               {"--head-dim", c.head_dim, 2, 4096},
                               {"--rope-dims", c.rope_dims, 2, c.head_dim},
                               {"--context", c.context, 1, models::kDimension.max},
                               {"--vocab", c.vocab, MinimumVocabulary(c.arch), int64_t{1} << 22}};
  if (c.has_experts()) {
    limits.push_back({"--experts-used", c.experts_used, 1, c.experts});
    limits.push_back({"--expert-ffn", c.expert_ffn, 1, kWidth});
    limits.push_back({"--shared-ffn", c.shared_ffn, 0, kWidth});
  }
  if (c.hybrid()) {
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
  if (c.hybrid() && c.linear_value_heads % c.linear_key_heads != 0) {
    return Refuse("--linear-value-heads, --linear-key-heads",
                  Concat(c.linear_value_heads, " value heads are not a multiple of ", c.linear_key_heads,
                         " key heads"));
  }
  return absl::OkStatus();
}

// Puts what the options say in the place of the preset's.
absl::Status Override(const SynthOptions& options, SynthConfig* c) {
  struct Row {
    std::string_view option;
    const std::optional<int64_t>& value;
    int64_t& field;
    bool has_part;  // the architecture
  };
  const bool hybrid = c->hybrid(), experts = c->has_experts();
  const Row rows[] = {
      {"--layers", options.layers, c->layers, true},
      {"--hidden", options.hidden, c->hidden, true},
      {"--ffn", options.ffn, c->ffn, !experts},
      {"--heads", options.heads, c->heads, true},
      {"--kv-heads", options.kv_heads, c->kv_heads, true},
      {"--context", options.context, c->context, true},
      {"--vocab", options.vocab, c->vocab, true},
      {"--linear-key-heads", options.linear_key_heads, c->linear_key_heads, hybrid},
      {"--linear-value-heads", options.linear_value_heads, c->linear_value_heads, hybrid},
      {"--linear-head-dim", options.linear_head_dim, c->linear_head_dim, hybrid},
      {"--full-attention-interval", options.full_attention_interval, c->full_attention_interval, hybrid},
      {"--experts", options.experts, c->experts, experts},
      {"--experts-used", options.experts_used, c->experts_used, experts},
      {"--expert-ffn", options.expert_ffn, c->expert_ffn, experts},
      {"--shared-ffn", options.shared_ffn, c->shared_ffn, experts && hybrid},
  };
  for (const Row& row : rows) {
    if (!row.value) continue;
    if (!row.has_part) {
      return Refuse(std::string(row.option), Concat("architecture '", c->arch, "' has no such part"));
    }
    if (row.option == "--experts") {  // 0 would stand for a dense model
      if (absl::Status s = CheckRange(row.option, *row.value, 1, 1 << 16); !s.ok()) return s;
    }
    row.field = *row.value;
  }
  if (options.head_dim) {
    c->head_dim = *options.head_dim;
    c->rope_dims = hybrid ? c->head_dim / 4 : c->head_dim;
  }
  if (options.rope_dims) c->rope_dims = *options.rope_dims;
  if (options.tied) c->tied = *options.tied;
  c->mtp = options.mtp;
  if (!c->mtp || hybrid) return absl::OkStatus();
  return Refuse("--mtp", Concat("architecture '", c->arch, "' has no NextN block"));
}

// Generates and encodes tensors, some rows at a time. Encoding well takes a minute for a billion weights; so
// of a large tensor of random blocks only some are encoded, and all of it is drawn from these.
class TensorFiller {
 public:
  explicit TensorFiller(uint64_t seed) : seed_(seed) {}

  absl::Status Fill(const SynthTensor& tensor, const gguf::Writer::Sink& sink) {
    int64_t values = 1;
    for (int64_t extent : tensor.ne) values *= extent;
    const bool blocks = format_info(tensor.format).block_elems > 1 && tensor.draw == Draw::kNormal;
    return blocks && values > kPool ? FillFromPool(tensor, values, sink) : FillAnew(tensor, values, sink);
  }

 private:
  static constexpr int64_t kPiece = 1 << 16;  // weights: buffers stay in the cache
  // Weights of a pool. A block of 256 is one of 8192, a row of 2048 one of 10^31.
  static constexpr int64_t kPool = 1 << 21;

  absl::Status FillAnew(const SynthTensor& tensor, int64_t values, const gguf::Writer::Sink& sink) {
    const uint64_t key = StreamKey(seed_, tensor.name);
    const int64_t step = std::max<int64_t>(1, kPiece / tensor.ne[0]) * tensor.ne[0];
    for (int64_t first = 0; first < values; first += step) {
      Encode(tensor, key, first, std::min(step, values - first));
      if (absl::Status s = sink(bytes_); !s.ok()) return s;
    }
    return absl::OkStatus();
  }

  absl::Status FillFromPool(const SynthTensor& tensor, int64_t values, const gguf::Writer::Sink& sink) {
    const FormatInfo& format = format_info(tensor.format);
    const std::vector<uint8_t>& pool = Pool(tensor);
    const auto block = static_cast<size_t>(format.block_bytes);
    const uint64_t key = StreamKey(seed_, tensor.name), choices = pool.size() / block;
    const int64_t blocks = values / format.block_elems, step = kPiece / format.block_elems;
    for (int64_t first = 0; first < blocks; first += step) {
      const int64_t count = std::min(step, blocks - first);
      bytes_.resize(static_cast<size_t>(count) * block);
      for (int64_t i = 0; i < count; ++i) {
        const uint64_t pick = DrawBits(key, static_cast<uint64_t>(first + i)) % choices;
        std::memcpy(bytes_.data() + static_cast<size_t>(i) * block, pool.data() + pick * block, block);
      }
      if (absl::Status s = sink(bytes_); !s.ok()) return s;
    }
    return absl::OkStatus();
  }

  // Encoded blocks of the tensor's format and scale.
  const std::vector<uint8_t>& Pool(const SynthTensor& tensor) {
    std::vector<uint8_t>& pool = pools_[{tensor.format, tensor.scale}];
    const uint64_t key = StreamKey(seed_, Concat("pool of ", format_info(tensor.format).name));
    if (!pool.empty()) return pool;
    for (int64_t first = 0; first < kPool; first += kPiece) {
      Encode(tensor, key, first, kPiece);
      pool.insert(pool.end(), bytes_.begin(), bytes_.end());
    }
    return pool;
  }

  // Values [first, first + count) of a stream as the tensor has them, into bytes_.
  void Encode(const SynthTensor& tensor, uint64_t key, int64_t first, int64_t count) {
    values_.resize(static_cast<size_t>(count));
    DrawValues(tensor.draw, tensor.scale, key, static_cast<uint64_t>(first), values_);
    bytes_.resize(static_cast<size_t>(row_bytes(tensor.format, count)));
    encode_row(tensor.format, values_.data(), count, bytes_.data(), EncodeEffort::kFast);
  }

  uint64_t seed_;
  std::map<std::pair<Format, float>, std::vector<uint8_t>> pools_;
  std::vector<float> values_;
  std::vector<uint8_t> bytes_;
};

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
  if (absl::Status s = Override(options, &c); !s.ok()) return s;
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
  TensorFiller filler(options.seed);
  return writer.WriteFile(options.output,
                          [&](const gguf::Writer::TensorInfo&, const gguf::Writer::Sink& sink) {
                            return filler.Fill(tensors[next++], [&](std::span<const uint8_t> bytes) {
                              done += bytes.size();
                              if (absl::Status s = progress(done, total); !s.ok()) return s;
                              return sink(bytes);
                            });
                          });
}

}  // namespace qcc::compiler
