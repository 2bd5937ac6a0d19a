#include <algorithm>
#include <cstdio>
#include <map>

#include "compiler/driver/console.h"
#include "compiler/driver/model_report.h"
#include "compiler/driver/report_text.h"
#include "frontends/base/error.h"

namespace qcc::compiler {
namespace {

// Of one code, in the text form: a file of a foreign format refuses for each of its tensors.
constexpr size_t kShownOfACode = 8;

template <typename T>
std::string OrDash(const std::optional<T>& value) {
  return value ? std::to_string(*value) : "-";
}
std::string OrDash(const std::optional<double>& value) {
  if (!value) return "-";
  char text[32];
  std::snprintf(text, sizeof text, "%g", *value);
  return text;
}

std::string Numbers(const std::vector<int64_t>& list) {
  std::string out;
  for (int64_t n : list) out += (out.empty() ? "" : " ") + std::to_string(n);
  return out;
}

// 752393024 -> "752.4 M".
std::string Many(uint64_t count) {
  const std::pair<double, const char*> units[] = {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}};
  char text[32];
  for (const auto& [unit, name] : units) {
    if (static_cast<double>(count) < unit) continue;
    std::snprintf(text, sizeof text, "%.1f %s", static_cast<double>(count) / unit, name);
    return text;
  }
  return std::to_string(count);
}

void AppendShares(std::string& out, const char* title, const std::vector<TensorShare>& shares,
                  const TensorShare* sum) {
  Append(out, "\n%-18s tensors  parameters         bytes  bits per weight\n", title);
  auto line = [&out](const TensorShare& s) {
    char bits[24] = "-";
    if (s.unknown == 0 && s.parameters > 0) std::snprintf(bits, sizeof bits, "%.3f", s.BitsPerWeight());
    Append(out, "  %-16s %7llu %11s %13s %16s\n", Clean(s.name).c_str(),
           static_cast<unsigned long long>(s.tensors), Many(s.parameters).c_str(),
           s.unknown == s.tensors ? "-" : HumanBytes(s.bytes).c_str(), bits);
  };
  for (const TensorShare& share : shares) line(share);
  if (sum != nullptr) line(*sum);
}

void AppendShape(std::string& out, const ModelReport& r) {
  Append(out, "layers          %llu: %llu attention, %llu gated delta nets; NextN (MTP) blocks: %llu\n",
         static_cast<unsigned long long>(r.layers), static_cast<unsigned long long>(r.attention_layers),
         static_cast<unsigned long long>(r.delta_net_layers),
         static_cast<unsigned long long>(r.nextn_layers));
  Append(out, "widths          embedding %s, feed-forward %s\n", OrDash(r.embedding).c_str(),
         OrDash(r.feed_forward).c_str());
  Append(out, "attention       heads %s, KV heads %s, head size %s\n", OrDash(r.heads).c_str(),
         r.kv_heads.empty() ? "-" : Numbers(r.kv_heads).c_str(), OrDash(r.head_dim).c_str());
  if (r.delta_net_layers > 0) {
    Append(out, "delta net       key heads %s of %s, value heads %s of %s, convolution %s\n",
           OrDash(r.delta.key_heads).c_str(), OrDash(r.delta.key_dim).c_str(),
           OrDash(r.delta.value_heads).c_str(), OrDash(r.delta.value_dim).c_str(),
           OrDash(r.delta.convolution).c_str());
  }
  if (r.experts.value_or(0) > 0) {
    Append(out, "experts         %s, a token uses %s\n", OrDash(r.experts).c_str(),
           OrDash(r.experts_used).c_str());
  }
  Append(out, "rope            dimensions %s, base %s, sections %s, scaling %s", OrDash(r.rope.dims).c_str(),
         OrDash(r.rope.base).c_str(), r.rope.sections.empty() ? "none" : Numbers(r.rope.sections).c_str(),
         r.rope.scaling.empty() ? "none" : Clean(r.rope.scaling).c_str());
  if (r.rope.factor) Append(out, " x %g", *r.rope.factor);
  if (r.rope.original_context) Append(out, " of %s tokens", OrDash(r.rope.original_context).c_str());
  Append(out, "\ncontext         %s\n", OrDash(r.context).c_str());
}

void AppendRefusals(std::string& out, const ModelReport& r) {
  if (r.refusals.empty()) {
    Append(out, "\nqcc compile takes this file, unless a weight is not finite or a target lacks a kernel\n");
    return;
  }
  Append(out, "\nqcc compile refuses this file\n");
  std::map<std::string, size_t> seen;
  for (const absl::Status& refusal : r.refusals) {
    const ErrorParts parts = PartsOf(refusal);
    if (++seen[parts.code] > kShownOfACode) continue;
    Append(out, "  %s  %s\n", parts.code.c_str(), Clean(parts.what).c_str());
  }
  for (const auto& [code, count] : seen) {
    if (count > kShownOfACode) {
      Append(out, "  %s  and %zu more (--json lists all)\n", code.c_str(), count - kShownOfACode);
    }
  }
}

Json SharesJson(const std::vector<TensorShare>& shares) {
  Json list = Json::array();
  for (const TensorShare& s : shares) {
    list.push_back(
        {{"name", s.name},
         {"tensors", s.tensors},
         {"parameters", s.parameters},
         {"bytes", s.unknown == s.tensors ? Json(nullptr) : Json(s.bytes)},
         {"bits_per_weight", s.unknown > 0 || s.parameters == 0 ? Json(nullptr) : Json(s.BitsPerWeight())}});
  }
  return list;
}

Json RefusalsJson(const std::vector<absl::Status>& refusals) {
  Json list = Json::array();
  for (const absl::Status& refusal : refusals) {
    const ErrorParts parts = PartsOf(refusal);
    list.push_back(
        {{"code", parts.code}, {"what", parts.what}, {"where", parts.where}, {"help", parts.help}});
  }
  return list;
}

}  // namespace

std::string ModelReportText(const ModelReport& r) {
  std::string out;
  Append(out, "%s\n", Clean(r.path).c_str());
  Append(out, "format          GGUF, %s (%llu bytes), %llu keys, %llu tensors\n",
         HumanBytes(r.file_bytes).c_str(), static_cast<unsigned long long>(r.file_bytes),
         static_cast<unsigned long long>(r.keys), static_cast<unsigned long long>(r.all.tensors));
  Append(out, "model           %s \"%s\"%s%s\n", r.arch.empty() ? "no architecture" : Clean(r.arch).c_str(),
         Clean(r.name).c_str(), r.size_label.empty() ? "" : ", by its label ", Clean(r.size_label).c_str());
  if (r.shards.value_or(1) > 1 && r.shard) {
    Append(out, "shards          this is number %lld of %lld; what follows is of this one\n",
           static_cast<long long>(*r.shard + 1), static_cast<long long>(*r.shards));
  } else if (r.shards.value_or(1) > 1) {
    Append(out, "shards          %lld\n", static_cast<long long>(*r.shards));
  }
  Append(out, "parameters      %llu (%s)", static_cast<unsigned long long>(r.all.parameters),
         Many(r.all.parameters).c_str());
  if (r.all.unknown == 0) Append(out, ", %.3f bits each", r.all.BitsPerWeight());
  if (r.active_parameters < r.all.parameters) {
    Append(out, "; a token goes through %s", Many(r.active_parameters).c_str());
  }
  Append(out, "\n");
  AppendShape(out, r);
  Append(
      out, "vocabulary      rows %s; tokenizer %s, pre %s, tokens %llu, merges %llu, chat template %s\n",
      OrDash(r.vocabulary.rows).c_str(), r.vocabulary.model.empty() ? "-" : Clean(r.vocabulary.model).c_str(),
      r.vocabulary.pre.empty() ? "-" : Clean(r.vocabulary.pre).c_str(),
      static_cast<unsigned long long>(r.vocabulary.tokens),
      static_cast<unsigned long long>(r.vocabulary.merges),
      r.vocabulary.chat_template_bytes == 0 ? "none" : HumanBytes(r.vocabulary.chat_template_bytes).c_str());
  Append(out, "vision          %s\n", r.vision ? "yes" : "no");
  if (r.kv_bytes_per_token) {
    Append(out, "KV              %s per token (f16)", HumanBytes(*r.kv_bytes_per_token).c_str());
    const auto context = static_cast<uint64_t>(r.context.value_or(0));
    if (context > 0 && *r.kv_bytes_per_token <= UINT64_MAX / context) {
      Append(out, "; %s at the full context", HumanBytes(*r.kv_bytes_per_token * context).c_str());
    }
    Append(out, "\n");
  }
  if (r.state_bytes) Append(out, "state           %s per sequence\n", HumanBytes(*r.state_bytes).c_str());
  AppendShares(out, "part", r.parts, &r.all);
  AppendShares(out, "weights", r.formats, nullptr);
  for (const std::string& warning : r.warnings) Append(out, "\nwarning: %s", Clean(warning).c_str());
  if (!r.warnings.empty()) Append(out, "\n");
  AppendRefusals(out, r);
  return out;
}

std::string ModelReportJson(const ModelReport& r) {
  Json root;
  root["schema"] = 1;
  root["kind"] = "gguf";
  root["file_bytes"] = r.file_bytes;
  root["model"] = {{"arch", r.arch},
                   {"name", r.name},
                   {"type", r.type},
                   {"size_label", r.size_label},
                   {"parameters", r.all.parameters},
                   {"active_parameters", r.active_parameters},
                   {"weight_bytes", r.all.unknown > 0 ? Json(nullptr) : Json(r.all.bytes)},
                   {"bits_per_weight", r.all.unknown > 0 ? Json(nullptr) : Json(r.all.BitsPerWeight())},
                   {"layers", r.layers},
                   {"attention_layers", r.attention_layers},
                   {"delta_net_layers", r.delta_net_layers},
                   {"nextn_layers", r.nextn_layers},
                   {"vision", r.vision},
                   {"experts", OrNull(r.experts)},
                   {"experts_used", OrNull(r.experts_used)},
                   {"context_length", OrNull(r.context)},
                   {"embedding_length", OrNull(r.embedding)},
                   {"feed_forward_length", OrNull(r.feed_forward)},
                   {"heads", OrNull(r.heads)},
                   {"kv_heads", r.kv_heads},
                   {"head_dim", OrNull(r.head_dim)}};
  root["delta_net"] = {{"key_heads", OrNull(r.delta.key_heads)},
                       {"key_dim", OrNull(r.delta.key_dim)},
                       {"value_heads", OrNull(r.delta.value_heads)},
                       {"value_dim", OrNull(r.delta.value_dim)},
                       {"convolution", OrNull(r.delta.convolution)}};
  root["rope"] = {{"dimensions", OrNull(r.rope.dims)},
                  {"base", OrNull(r.rope.base)},
                  {"sections", r.rope.sections},
                  {"scaling", r.rope.scaling.empty() ? Json(nullptr) : Json(r.rope.scaling)},
                  {"factor", OrNull(r.rope.factor)},
                  {"original_context", OrNull(r.rope.original_context)}};
  root["vocabulary"] = {
      {"rows", OrNull(r.vocabulary.rows)}, {"tokenizer", r.vocabulary.model},
      {"pre", r.vocabulary.pre},           {"tokens", r.vocabulary.tokens},
      {"merges", r.vocabulary.merges},     {"chat_template_bytes", r.vocabulary.chat_template_bytes}};
  root["memory"] = {{"kv_bytes_per_token", OrNull(r.kv_bytes_per_token)},
                    {"state_bytes_per_sequence", OrNull(r.state_bytes)}};
  root["shards"] = {{"number", OrNull(r.shard)}, {"count", OrNull(r.shards)}};
  root["parts"] = SharesJson(r.parts);
  root["formats"] = SharesJson(r.formats);
  root["tensors"] = Json::array();
  for (const ModelTensor& t : r.tensors) {
    root["tensors"].push_back(
        {{"name", t.name}, {"format", t.format}, {"shape", t.shape}, {"bytes", OrNull(t.bytes)}});
  }
  root["warnings"] = r.warnings;
  root["refusals"] = RefusalsJson(r.refusals);
  return root.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace qcc::compiler
