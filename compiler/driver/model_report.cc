#include "compiler/driver/model_report.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <string_view>
#include <system_error>

#include "compiler/artifact/text_defaults.h"
#include "compiler/artifact/tokenizer_section.h"
#include "compiler/pipeline/diagnostics.h"
#include "dialects/layouts/sequence_state.h"
#include "frontends/base/text.h"
#include "frontends/models/import.h"
#include "mlir/IR/MLIRContext.h"
#include "passes/Passes.h"
#include "runtime/base/checked.h"

namespace qcc::compiler {
namespace {

using qrt::Checked;

// Reads what is there; what is missing or of another type is absent, and the importer's refusal says so.
class Keys {
 public:
  explicit Keys(const gguf::File& file) : file_(file), arch_(Text("general.architecture")) {}

  std::string Text(std::string_view key) const {
    auto value = file_.GetString(key);
    return value.ok() ? std::string(*value) : "";
  }
  std::optional<int64_t> Count(std::string_view key) const {
    auto value = file_.GetInt(key);
    return value.ok() && *value >= 0 ? std::optional(*value) : std::nullopt;
  }
  std::optional<double> Number(std::string_view key) const {
    auto value = file_.GetFloat(key);
    return value.ok() ? std::optional(*value) : std::nullopt;
  }
  std::vector<int64_t> Counts(std::string_view key) const {
    auto value = file_.GetIntArray(key);
    return value.ok() ? *std::move(value) : std::vector<int64_t>();
  }
  // Of a number, or of one for each layer.
  std::optional<int64_t> Most(std::string_view key) const {
    const std::vector<int64_t> counts = Counts(key);
    const auto most = std::max_element(counts.begin(), counts.end());
    return most != counts.end() && *most >= 0 ? std::optional(*most) : std::nullopt;
  }
  uint64_t Strings(std::string_view key) const {
    auto value = file_.GetStringArray(key);
    return value.ok() ? value->size() : 0;
  }
  // "qwen35.KEY"
  std::string Of(std::string_view suffix) const { return Concat(arch_, ".", suffix); }
  const std::string& arch() const { return arch_; }

 private:
  const gguf::File& file_;
  std::string arch_;
};

void ReadMetadata(const gguf::File& file, ModelReport& r) {
  const Keys keys(file);
  r.arch = keys.arch();
  r.name = keys.Text("general.name");
  r.type = keys.Text("general.type");
  r.size_label = keys.Text("general.size_label");
  r.context = keys.Count(keys.Of("context_length"));
  r.embedding = keys.Count(keys.Of("embedding_length"));
  r.feed_forward = keys.Most(keys.Of("feed_forward_length"));
  r.experts = keys.Count(keys.Of("expert_count"));
  r.experts_used = keys.Most(keys.Of("expert_used_count"));
  r.heads = keys.Most(keys.Of("attention.head_count"));
  r.kv_heads = keys.Counts(keys.Of("attention.head_count_kv"));
  if (r.kv_heads.empty() && r.heads) r.kv_heads = {*r.heads};
  r.head_dim = keys.Count(keys.Of("attention.key_length"));
  if (!r.head_dim && r.embedding && r.heads && *r.heads > 0) r.head_dim = *r.embedding / *r.heads;
  r.delta.convolution = keys.Count(keys.Of("ssm.conv_kernel"));
  r.delta.key_heads = keys.Count(keys.Of("ssm.group_count"));
  r.delta.key_dim = keys.Count(keys.Of("ssm.state_size"));
  r.delta.value_heads = keys.Count(keys.Of("ssm.time_step_rank"));
  r.delta.value_dim = r.delta.key_dim;
  const auto inner = keys.Count(keys.Of("ssm.inner_size"));
  if (inner && r.delta.value_heads && *r.delta.value_heads > 0) {
    r.delta.value_dim = *inner / *r.delta.value_heads;
  }
  r.rope.dims = keys.Count(keys.Of("rope.dimension_count"));
  r.rope.base = keys.Number(keys.Of("rope.freq_base"));
  r.rope.sections = keys.Counts(keys.Of("rope.dimension_sections"));
  r.rope.scaling = keys.Text(keys.Of("rope.scaling.type"));
  r.rope.factor = keys.Number(keys.Of("rope.scaling.factor"));
  r.rope.original_context = keys.Count(keys.Of("rope.scaling.original_context_length"));
  r.vocabulary.model = keys.Text("tokenizer.ggml.model");
  r.vocabulary.pre = keys.Text("tokenizer.ggml.pre");
  r.vocabulary.tokens = keys.Strings("tokenizer.ggml.tokens");
  r.vocabulary.merges = keys.Strings("tokenizer.ggml.merges");
  r.vocabulary.chat_template_bytes = keys.Text("tokenizer.chat_template").size();
  // The number is of a shard whose siblings could not be read.
  if (file.shards().size() == 1) r.shard = keys.Count("split.no");
  r.shards = keys.Count("split.count");
  const auto vision = file.GetBool("clip.has_vision_encoder");
  r.vision = vision.ok() && *vision;
}

// N of "blk.N.role", and the role; nothing for other names.
std::optional<std::pair<int64_t, std::string_view>> BlockOf(std::string_view name) {
  constexpr std::string_view kPrefix = "blk.";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const std::string_view rest = name.substr(kPrefix.size());
  int64_t block = 0;
  const char* end = std::to_address(rest.end());
  const auto [at, error] = std::from_chars(std::to_address(rest.begin()), end, block);
  if (error != std::errc() || at == end || *at != '.' || block < 0) return std::nullopt;
  return std::pair(block, std::string_view(at + 1, end));
}

struct Block {
  bool delta_net = false, attention = false, nextn = false;
};

void Add(TensorShare& share, int64_t elements, std::optional<uint64_t> bytes) {
  ++share.tensors;
  const Checked parameters = Checked(share.parameters) + static_cast<uint64_t>(elements);
  share.parameters = parameters.ok() ? parameters.value() : UINT64_MAX;  // refused tensors need no data
  share.bytes += bytes.value_or(0);
  share.unknown += !bytes;
}

// The tensors, sorted by what they are for.
class TensorCount {
 public:
  TensorCount(const gguf::File& file, ModelReport& report) : report_(report) {
    const std::vector<std::string_view> order = {"embedding",    "attention", "delta net",
                                                 "feed-forward", "norms",     "output",
                                                 "NextN (MTP)",  "vision",    "other"};
    for (std::string_view name : order) report_.parts.push_back({std::string(name)});
    report_.all.name = "all";
    for (const gguf::Tensor& t : file.tensors()) Look(t.name);
    for (const gguf::RefusedTensor& t : file.refused_tensors()) Look(t.name);
    for (const gguf::Tensor& t : file.tensors()) {
      Count(t.name, std::string(format_info(t.format).name), t.n_dims, t.ne, t.elements(), t.bytes);
    }
    for (const gguf::RefusedTensor& t : file.refused_tensors()) {
      const std::string_view known = ggml_type_name(t.type_id);
      Count(t.name, known == "unknown" ? Concat("type ", t.type_id) : std::string(known), t.n_dims, t.ne,
            t.elements(), std::nullopt);
    }
    for (const auto& [number, block] : blocks_) {
      report_.nextn_layers += block.nextn;
      if (block.nextn) continue;
      ++report_.layers;
      report_.delta_net_layers += block.delta_net;
      report_.attention_layers += block.attention && !block.delta_net;
    }
    std::erase_if(report_.parts, [](const TensorShare& part) { return part.tensors == 0; });
    std::stable_sort(report_.formats.begin(), report_.formats.end(),
                     [](const TensorShare& a, const TensorShare& b) { return a.bytes > b.bytes; });
  }

  // Attention layers that are no NextN block, with their numbers.
  std::vector<int64_t> AttentionLayers() const {
    std::vector<int64_t> layers;
    for (const auto& [number, block] : blocks_) {
      if (block.attention && !block.delta_net && !block.nextn) layers.push_back(number);
    }
    return layers;
  }

 private:
  void Look(std::string_view name) {
    const auto place = BlockOf(name);
    if (!place) return;
    Block& block = blocks_[place->first];
    block.delta_net |= place->second.starts_with("ssm_");
    block.attention |= place->second.starts_with("attn_q.") || place->second.starts_with("attn_qkv.");
    block.nextn |= place->second.starts_with("nextn.");
  }

  std::string_view PartOf(std::string_view name) const {
    if (name.starts_with("v.") || name.starts_with("mm.")) return "vision";
    if (name.starts_with("token_embd.")) return "embedding";
    if (name == "output.weight") return "output";
    const auto place = BlockOf(name);
    if (!place) return name.find("norm") != name.npos ? "norms" : "other";
    const auto& [number, role] = *place;
    const Block& block = blocks_.at(number);
    if (block.nextn) return "NextN (MTP)";
    if (role.starts_with("ffn_") && role.find("norm") == role.npos) return "feed-forward";
    if (role == "attn_norm.weight" || role.starts_with("ffn_norm") || role.starts_with("post_"))
      return "norms";
    if (block.delta_net && (role.starts_with("ssm_") || role.starts_with("attn_"))) return "delta net";
    return role.starts_with("attn_") ? "attention" : "other";
  }

  void Count(const std::string& name, std::string format, int n_dims, const std::array<int64_t, 4>& ne,
             int64_t elements, std::optional<uint64_t> bytes) {
    Add(report_.all, elements, bytes);
    const std::string_view part = PartOf(name);
    Add(*std::find_if(report_.parts.begin(), report_.parts.end(),
                      [part](const TensorShare& share) { return share.name == part; }),
        elements, bytes);
    if (part != "NextN (MTP)" && part != "vision") AddActive(name, elements);
    const auto [use, is_new] = format_index_.emplace(format, report_.formats.size());
    if (is_new) report_.formats.push_back({format});
    Add(report_.formats[use->second], elements, bytes);
    report_.tensors.push_back({name, std::move(format), {ne.begin(), ne.begin() + n_dims}, bytes});
    report_.vision |= part == "vision";
    if (name == "token_embd.weight") report_.vocabulary.rows = ne[1];
  }

  // All elements, or those of as many experts as a token uses.
  void AddActive(std::string_view name, int64_t elements) {
    const int64_t experts = report_.experts.value_or(0), used = report_.experts_used.value_or(0);
    const bool shared_out = name.find("_exps.") != name.npos && experts > 0 && used <= experts;
    const int64_t active = shared_out ? elements / experts * used : elements;
    const Checked sum = Checked(report_.active_parameters) + static_cast<uint64_t>(active);
    report_.active_parameters = sum.ok() ? sum.value() : UINT64_MAX;
  }

  ModelReport& report_;
  std::map<int64_t, Block> blocks_;
  std::map<std::string, size_t> format_index_;
};

// Sizes of what a session keeps. Absent where a number is missing or they do not fit 64 bits.
void MeasureSession(const std::vector<int64_t>& attention_layers, ModelReport& r) {
  if (r.head_dim && !r.kv_heads.empty()) {
    Checked bytes = 0;
    bool known = true;
    for (int64_t layer : attention_layers) {
      const bool one = r.kv_heads.size() == 1;
      known = known && (one || static_cast<uint64_t>(layer) < r.kv_heads.size());
      if (!known) break;
      const int64_t heads = r.kv_heads[one ? 0 : static_cast<size_t>(layer)];
      known = heads > 0;  // 0: a layer without attention, by that key
      bytes = bytes + Checked(static_cast<uint64_t>(heads)) * static_cast<uint64_t>(*r.head_dim) * 2 * 2;
    }
    if (known && bytes.ok()) r.kv_bytes_per_token = bytes.value();
  }
  if (r.delta_net_layers == 0) r.state_bytes = 0;
  const auto& d = r.delta;
  if (r.delta_net_layers == 0 || !d.key_heads || !d.key_dim || !d.value_heads || !d.value_dim ||
      !d.convolution)
    return;
  const Checked key = Checked(static_cast<uint64_t>(*d.key_heads)) * static_cast<uint64_t>(*d.key_dim);
  const Checked value = Checked(static_cast<uint64_t>(*d.value_heads)) * static_cast<uint64_t>(*d.value_dim);
  const Checked channels = key * 2 + value;
  const Checked widths = channels + static_cast<uint64_t>(*d.value_heads);
  if (!widths.ok() || widths.value() > std::numeric_limits<int32_t>::max()) return;  // so an entry fits, too
  const auto entry = static_cast<uint64_t>(
      layouts::DeltaEntry(*d.key_heads, *d.value_heads, *d.key_dim, *d.value_dim).floats);
  const Checked bytes = (value * static_cast<uint64_t>(*d.key_dim) +
                         (channels + entry) * static_cast<uint64_t>(layouts::kStateBlock)) *
                        4 * r.delta_net_layers;
  if (bytes.ok()) r.state_bytes = bytes.value();
}

// The checks of `qcc compile` that need no weights, each as far as it comes.
void ListRefusals(const gguf::File& file, ModelReport& r) {
  r.refusals = file.refused();
  const bool text_is_whole = r.refusals.empty();
  for (const gguf::RefusedTensor& t : file.refused_tensors()) r.refusals.push_back(t.error);
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  DiagnosticCollector diagnostics(context);
  std::vector<absl::Status> importer;
  models::ImportOptions options;
  options.refusals = &importer;
  auto imported = models::ImportModel(context, file, options);
  r.refusals.insert(r.refusals.end(), importer.begin(), importer.end());
  if (imported.ok()) {
    r.warnings = imported->warnings;
    mlir::PassManager pm(&context);
    pm.addPass(passes::createVerifyModelContract());
    if (mlir::failed(pm.run(*imported->module))) {
      r.refusals.push_back(diagnostics.ToStatus("Q3001", "import"));
    }
  } else if (std::find(r.refusals.begin(), r.refusals.end(), imported.status()) == r.refusals.end()) {
    r.refusals.push_back(imported.status());
  }
  if (!text_is_whole) return;
  auto refuse = [&r](const absl::Status& status) {
    if (!status.ok()) r.refusals.push_back(status);
  };
  ReadModelName(file, r.warnings);
  refuse(ReadSampling(file, r.warnings).status());
  refuse(ReadChatTemplate(file, r.warnings).status());
  if (r.vocabulary.rows && *r.vocabulary.rows <= UINT32_MAX) {
    refuse(BuildTokenizerSection(file, static_cast<uint32_t>(*r.vocabulary.rows), r.warnings).status());
  }
}

}  // namespace

double TensorShare::BitsPerWeight() const {
  return unknown > 0 || parameters == 0 ? 0
                                        : 8.0 * static_cast<double>(bytes) / static_cast<double>(parameters);
}

absl::StatusOr<ModelReport> ReportModel(const std::string& path) {
  auto file = gguf::File::OpenForReport(path);
  if (!file.ok()) return file.status();
  ModelReport report;
  report.path = path;
  report.file_bytes = (*file)->size();
  report.keys = (*file)->keys().size();
  ReadMetadata(**file, report);
  const TensorCount count(**file, report);
  MeasureSession(count.AttentionLayers(), report);
  ListRefusals(**file, report);
  return report;
}

bool IsGguf(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;  // a pipe would be waited for
  char magic[4] = {};
  std::ifstream in(path, std::ios::binary);
  return in.read(magic, sizeof magic) && std::string_view(magic, sizeof magic) == "GGUF";
}

}  // namespace qcc::compiler
