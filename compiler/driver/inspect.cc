#include "compiler/driver/inspect.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <optional>
#include <span>

#include "compiler/driver/console.h"
#include "compiler/driver/gpu_report.h"
#include "compiler/driver/report_text.h"
#include "frontends/base/error.h"
#include "runtime/abi/program.h"
#include "runtime/abi/qbin.h"
#include "runtime/artifact/state_area.h"

namespace qcc::compiler {
namespace {

using qrt::Hex;
using qrt::SectionKindName;

// Of the devices together.
uint64_t ArenaBytes(const qrt::Manifest& m) {
  uint64_t bytes = 0;
  size_t begin = 0;
  const auto add = [&](size_t programs) {
    uint64_t largest = 0;
    for (size_t i = begin; i < begin + programs; ++i) largest = std::max(largest, m.programs[i].arena_bytes);
    bytes += largest;
    begin += programs;
  };
  for (const qrt::PartFacts& part : m.parts) add(part.programs);
  if (m.parts.empty()) add(m.programs.size());
  return bytes;
}
uint64_t WeightBytes(const qrt::Manifest& m) {
  uint64_t bytes = 0;
  for (const qrt::PartFacts& part : m.parts) bytes += part.weights_bytes;
  return m.parts.empty() ? m.weights_bytes : bytes;
}

// Of a sequence that can step back.
uint64_t StateBytesWithWayBack(const qrt::Manifest& m) {
  const bool blocks = m.state_block != 0;
  qrt::Checked bytes = m.parts.empty() ? qrt::AreaBytes(m.state_bytes, blocks) : qrt::Checked(0);
  for (const qrt::PartFacts& part : m.parts) bytes = bytes + qrt::AreaBytes(part.state_bytes, blocks);
  return bytes.ok() ? bytes.value() : UINT64_MAX;
}

// The part that entry `index` of one of the lists belongs to: of manifest.states with &PartFacts::states.
std::optional<size_t> PartOf(const qrt::Manifest& m, size_t index, uint32_t qrt::PartFacts::*count) {
  for (size_t i = 0; i < m.parts.size(); ++i) {
    if (index < m.parts[i].*count) return i;
    index -= m.parts[i].*count;
  }
  return std::nullopt;
}
// Adds which part it is, where there are several.
void AddPart(const qrt::Manifest& m, size_t index, uint32_t qrt::PartFacts::*count, Json& entry) {
  if (const std::optional<size_t> part = PartOf(m, index, count)) entry["part"] = *part;
}
// What code number `index` runs.
const qrt::Manifest& ManifestOfCode(const ArtifactContents& c, size_t index) {
  const std::optional<size_t> part = PartOf(c.manifest, index, &qrt::PartFacts::code);
  return part ? c.parts[*part] : c.manifest;
}

// Size of a section that the manifest names; the index is not trusted.
uint64_t SectionSize(const ArtifactContents& c, uint32_t index) {
  return index < c.sections.size() ? c.sections[index].size : 0;
}

// The largest power of two that divides the offset.
uint64_t Alignment(uint64_t offset) {
  return offset & (~offset + 1);
}

// What a program takes, by the bits that this compiler knows.
std::vector<std::string> InputNames(const qrt::ProgramFacts& facts) {
  std::vector<std::string> names;
#define ADD(Name, text, number) \
  if ((facts.takes & (number)) != 0) names.emplace_back(text);
  QRT_INPUTS(ADD)
#undef ADD
  if ((facts.takes & ~qrt::kKnownInputs) != 0) names.emplace_back("unknown");
  return names;
}

// A place that is in no list (the reader refuses such a file) is shown as a number.
std::string StreamName(const qrt::Manifest& m, int32_t stream) {
  return static_cast<size_t>(stream) < m.streams.size() ? m.streams[static_cast<size_t>(stream)]
                                                        : "stream " + std::to_string(stream);
}
Json StreamOrNull(const qrt::Manifest& m, int32_t stream) {
  return stream < 0 ? Json(nullptr) : Json(StreamName(m, stream));
}
Json StateNames(const qrt::Manifest& m, const qrt::ProgramFacts& facts) {
  Json names = Json::array();
  for (uint32_t state : facts.advances) {
    if (state < m.states.size()) names.push_back(m.states[state].name);
  }
  return names;
}

// Columns of the rows of logits that a program gives; 0: it gives none.
uint32_t LogitsCols(const qrt::Manifest& m, const qrt::ProgramInfo& p) {
  if (!p.facts.gives_logits()) return 0;
  return p.logits_cols != 0 ? p.logits_cols : m.model.vocab_size;
}

std::string GivesText(const qrt::ProgramInfo& p) {
  std::string text = Name(p.facts.gives);
  if (p.logits_cols != 0) text += " of the first " + std::to_string(p.logits_cols) + " tokens";
  return text;
}

std::string InputsText(const qrt::Manifest& m, const qrt::ProgramFacts& facts) {
  std::string text = Joined(InputNames(facts));
  if (facts.stream >= 0) text += " " + Clean(StreamName(m, facts.stream));
  if (facts.given_cols != 0) text += " x" + std::to_string(facts.given_cols);
  return text;
}

void SamplingText(std::string& out, const qrt::SamplingInfo& s) {
  std::string text;
  auto add = [&text](const char* name, const auto& value) {
    if (!value) return;
    char number[48];
    std::snprintf(number, sizeof number, "%g", static_cast<double>(*value));
    text += (text.empty() ? "" : ", ") + std::string(name) + " " + number;
  };
  add("temperature", s.temperature);
  add("top_k", s.top_k);
  add("top_p", s.top_p);
  add("min_p", s.min_p);
  add("repeat_penalty", s.repeat_penalty);
  add("presence_penalty", s.presence_penalty);
  add("frequency_penalty", s.frequency_penalty);
  add("penalty_window", s.penalty_window);
  Append(out, "sampling        %s\n", text.empty() ? "no recommendation" : text.c_str());
}

// Code of a GPU target; null for others and for a section that does not exist.
const qrt::GpuCode* GpuCodeOf(const ArtifactContents& c, const qrt::CodeInfo& code) {
  const auto found = c.gpu_code.find(code.section);
  return found == c.gpu_code.end() ? nullptr : &found->second;
}

void GpuText(std::string& out, const qrt::GpuCode& code, const qrt::Manifest& m) {
  const GpuCodeReport report = ReportGpuCode(code);
  Append(out, "      %zu kernels, %s of %s, %s of scratch for sampling\n", code.kernels.size(),
         HumanBytes(report.ptx_bytes ? report.ptx_bytes : report.spirv_bytes).c_str(),
         report.ptx_bytes ? "PTX" : "SPIR-V", HumanBytes(code.bytes(qrt::GpuSpace::kScratch)).c_str());
  Append(out, "      to the host per token: 4 B (sampled on the device), else %s (its logits)\n",
         HumanBytes(uint64_t{4} * m.model.vocab_size).c_str());
  Append(out,
         "      program        rows  dispatches  per attention/GDN layer  barriers   read a step  of it "
         "weights       written  KV per context token\n");
  for (size_t i = 0; i < report.programs.size() && i < m.programs.size(); ++i) {
    const GpuProgramReport& p = report.programs[i];
    Append(out, "      %-13s %5u %11u %12u / %-12u %7u %13s %15s %13s %21s\n",
           Clean(m.programs[i].name).c_str(), m.programs[i].rows, p.dispatches, p.attention_layer_dispatches,
           p.delta_layer_dispatches, p.barriers, HumanBytes(p.read_bytes).c_str(),
           HumanBytes(p.weight_bytes).c_str(), HumanBytes(p.write_bytes).c_str(),
           HumanBytes(p.kv_bytes).c_str());
  }
}

Json GpuKernelsJson(const qrt::GpuCode& code) {
  std::vector<uint64_t> dispatches(code.kernels.size());
  code.ForEachDispatch([&](const qrt::GpuDispatch& d) { ++dispatches[d.kernel]; });
  Json kernels = Json::array();
  for (size_t i = 0; i < code.kernels.size(); ++i) {
    const qrt::GpuKernel& k = code.kernels[i];
    kernels.push_back({{"name", k.name},
                       {"entry", k.entry},
                       {"workgroup_size", k.workgroup_size},
                       {"arguments", k.n_args},
                       {"shared_bytes", k.shared_bytes},
                       {"spirv_bytes", 4 * k.spirv.size()},
                       {"dispatches", dispatches[i]},
                       {"source", k.source}});
  }
  return kernels;
}

// Of CPU code, `variant` among the artifact's, of a part if there are several; names of programs are those of
// the manifest.
Json CpuKernelsJson(const qrt::Manifest& m, size_t variant, std::optional<size_t> part) {
  Json kernels = Json::array();
  for (const qrt::KernelInfo& k : m.kernels) {
    const auto other = [&](uint32_t program) {
      return PartOf(m, program, &qrt::PartFacts::programs) != part;
    };
    if (std::any_of(k.programs.begin(), k.programs.end(), other)) continue;
    Json programs = Json::array();
    for (const uint32_t program : k.programs) programs.push_back(m.programs[program].name);
    kernels.push_back({{"name", k.name},
                       {"specification", k.specification},
                       {"code_bytes", k.code_bytes[variant]},
                       {"programs", std::move(programs)}});
  }
  return kernels;
}

// Where each program's function begins in CPU code that was checked.
Json EntriesJson(std::span<const uint8_t> code, const qrt::Manifest& m) {
  Json entries = Json::array();
  for (size_t i = 0; i < m.programs.size(); ++i) {
    uint32_t entry;
    std::memcpy(&entry, code.data() + sizeof(qrt_code_header) + i * sizeof entry, sizeof entry);
    entries.push_back({{"name", m.programs[i].name},
                       {"entry", entry},
                       {"dispatches", m.programs[i].dispatches},
                       {"barriers", m.programs[i].barriers}});
  }
  return entries;
}

Json GpuJson(const qrt::GpuCode& code, const qrt::Manifest& m) {
  const GpuCodeReport report = ReportGpuCode(code);
  Json json;
  json["spirv_bytes"] = report.spirv_bytes;
  json["ptx_bytes"] = report.ptx_bytes;
  json["constants_bytes"] = code.constants.size();
  json["sampling_scratch_bytes"] = code.bytes(qrt::GpuSpace::kScratch);
  json["host_bytes_per_token"] = {{"sampled", 4}, {"logits", uint64_t{4} * m.model.vocab_size}};
  json["programs"] = Json::array();
  for (size_t i = 0; i < report.programs.size() && i < m.programs.size(); ++i) {
    const GpuProgramReport& p = report.programs[i];
    json["programs"].push_back({{"name", m.programs[i].name},
                                {"rows", m.programs[i].rows},
                                {"scratch_bytes", code.programs[i].arena_bytes},
                                {"dispatches", p.dispatches},
                                {"dispatches_per_attention_layer", p.attention_layer_dispatches},
                                {"dispatches_per_gdn_layer", p.delta_layer_dispatches},
                                {"barriers", p.barriers},
                                {"read_bytes", p.read_bytes},
                                {"weight_bytes", p.weight_bytes},
                                {"write_bytes", p.write_bytes},
                                {"kv_bytes_per_context_token", p.kv_bytes},
                                {"operations", p.ops}});
  }
  json["sample_programs"] = Json::array();
  for (const qrt::GpuSampleProgram& p : code.sample_programs) {
    const auto barriers = std::count_if(p.dispatches.begin(), p.dispatches.end(),
                                        [](const qrt::GpuDispatch& d) { return d.barrier; });
    json["sample_programs"].push_back({{"kind", Name(p.kind)},
                                       {"rows", p.rows},
                                       {"dispatches", p.dispatches.size()},
                                       {"barriers", barriers}});
  }
  json["kernels"] = GpuKernelsJson(code);
  return json;
}

Json TargetJson(const ArtifactContents& c, size_t index) {
  const qrt::CodeInfo& code = c.manifest.code[index];
  Json json = {{"target", code.target},
               {"isa", code.isa},
               {"features", code.features},
               {"section", code.section},
               {"code_bytes", SectionSize(c, code.section)},
               {"weights_section", code.weights_section}};
  if (const auto scratch = c.scratch.find(code.section); scratch != c.scratch.end()) {
    json["thread_scratch_bytes"] = scratch->second.thread;
    json["shared_scratch_bytes"] = scratch->second.shared;
  }
  if (const qrt::GpuCode* gpu = GpuCodeOf(c, code)) json["gpu"] = GpuJson(*gpu, ManifestOfCode(c, index));
  AddPart(c.manifest, index, &qrt::PartFacts::code, json);
  return json;
}

void PartsText(std::string& out, const qrt::Manifest& m) {
  if (m.parts.empty()) return;
  Append(out, "\nparts   layers     target        weights         state  KV per token\n");
  for (size_t i = 0; i < m.parts.size(); ++i) {
    const qrt::PartFacts& p = m.parts[i];
    const std::string layers =
        std::to_string(p.first_layer) + "-" + std::to_string(p.first_layer + p.layers - 1);
    Append(out, "  %zu     %-10s %-10s %10s %13s %13s\n", i, layers.c_str(), Clean(p.target).c_str(),
           HumanBytes(p.weights_bytes).c_str(), HumanBytes(p.state_bytes).c_str(),
           HumanBytes(p.kv_bytes_per_token).c_str());
  }
}

// In front of the first entry of each part.
void PartTitle(std::string& out, const qrt::Manifest& m, size_t index, uint32_t qrt::PartFacts::*count) {
  const std::optional<size_t> part = PartOf(m, index, count);
  if (part && (index == 0 || PartOf(m, index - 1, count) != part)) Append(out, " part %zu\n", *part);
}

}  // namespace

absl::Status FromRuntime(const qrt::Status& status) {
  if (status.ok()) return absl::OkStatus();
  if (status.code() == qrt::Code::kCancelled) return absl::CancelledError(status.message());
  char code[8];
  std::snprintf(code, sizeof code, "Q%04u", status.number());
  return MakeError(code, status.message(), status.note(), status.help());
}

absl::StatusOr<ArtifactContents> ReadContents(const qrt::Artifact& artifact) {
  ArtifactContents contents{artifact.path(),
                            artifact.file_bytes(),
                            artifact.minor(),
                            artifact.required_features(),
                            artifact.identity(),
                            {artifact.sections().begin(), artifact.sections().end()},
                            artifact.manifest(),
                            {},
                            {},
                            {}};
  for (size_t i = 0; i < contents.manifest.parts.size(); ++i) {
    contents.parts.push_back(artifact.part(i).manifest());
  }
  for (size_t i = 0; i < contents.manifest.code.size(); ++i) {
    const qrt::CodeInfo& code = contents.manifest.code[i];
    if (code.target == "cpu") {
      qrt_code_header header;  // checked when the artifact was opened
      std::memcpy(&header, artifact.code(i).data(), sizeof header);
      contents.scratch[code.section] = {header.thread_scratch, header.shared_scratch};
    }
    const std::optional<qrt::GpuTarget> target = qrt::GpuTargetNamed(code.target);
    if (!target) continue;
    const qrt::Artifact::PartCode of = artifact.PartOfCode(i);
    qrt::Result<qrt::GpuCode> read = qrt::GpuCode::Read(*of.part, of.variant, *target);
    if (!read.ok()) return FromRuntime(read.status());
    contents.gpu_code[code.section] = *std::move(read);
  }
  return contents;
}

std::string InspectText(const ArtifactContents& c) {
  const qrt::Manifest& m = c.manifest;
  std::string out;
  Append(out, "%s\n", Clean(c.path).c_str());
  Append(out, "format          qbin %u.%u, %s (%llu bytes), required features %#llx\n", QBIN_MAJOR, c.minor,
         HumanBytes(c.file_bytes).c_str(), static_cast<unsigned long long>(c.file_bytes),
         static_cast<unsigned long long>(c.required_features));
  Append(out, "identity        %s\n", Hex(c.identity).c_str());
  Append(out, "model           %s \"%s\", vocabulary %u, embedding %u, context %llu\n",
         Clean(m.model.arch).c_str(), Clean(m.model.name).c_str(), m.model.vocab_size,
         m.model.embedding_length, static_cast<unsigned long long>(m.model.context_length));
  Append(out, "numerics        %s, KV %s\n", Name(m.numerics), Name(m.kv_element));
  if (m.tokenizer) {
    Append(out, "tokenizer       %s%s, bos %d%s, eos %d, ends on", Clean(m.tokenizer->pre).c_str(),
           m.tokenizer->nfc ? ", text in form C" : "", m.tokenizer->bos,
           m.tokenizer->add_bos ? " (added)" : "", m.tokenizer->eos);
    for (uint32_t id : m.tokenizer->eog) Append(out, " %u", id);
    Append(out, "\n");
  } else {
    Append(out, "tokenizer       none\n");
  }
  SamplingText(out, m.sampling);

  Append(out, "\nsections\n   #  kind           align        offset          size  hash\n");
  for (size_t i = 0; i < c.sections.size(); ++i) {
    const qrt::Section& s = c.sections[i];
    Append(out, "  %2zu  %-13s %6llu %13llu %13llu  %s\n", i, SectionKindName(s.kind),
           static_cast<unsigned long long>(std::min<uint64_t>(Alignment(s.offset), QBIN_ALIGNMENT)),
           static_cast<unsigned long long>(s.offset), static_cast<unsigned long long>(s.size),
           Hex(s.hash).c_str());
  }
  PartsText(out, m);
  Append(out, "\ntargets (best first)\n");
  for (size_t i = 0; i < m.code.size(); ++i) {
    const qrt::CodeInfo& code = m.code[i];
    PartTitle(out, m, i, &qrt::PartFacts::code);
    Append(out, "  %s %-10s code %s, weights in section %u\n      needs: %s\n", Clean(code.target).c_str(),
           Clean(code.isa).c_str(), HumanBytes(SectionSize(c, code.section)).c_str(), code.weights_section,
           code.features.empty() ? "nothing more" : Joined(code.features).c_str());
    if (const auto scratch = c.scratch.find(code.section); scratch != c.scratch.end())
      Append(out, "      scratch: %s a thread, %s of all\n", HumanBytes(scratch->second.thread).c_str(),
             HumanBytes(scratch->second.shared).c_str());
    if (const qrt::GpuCode* gpu = GpuCodeOf(c, code)) GpuText(out, *gpu, ManifestOfCode(c, i));
  }
  Append(out, "\nformats             tensors        in GGUF         packed\n");
  for (const qrt::FormatUse& f : m.formats) {
    Append(out, "  %-12s %12u %14s %14s\n", Clean(f.name).c_str(), f.tensors,
           HumanBytes(f.source_bytes).c_str(), HumanBytes(f.packed_bytes).c_str());
  }
  Append(out, "\nmemory\n");
  Append(out, "  weights           %12s  mapped, shared by processes\n", HumanBytes(WeightBytes(m)).c_str());
  Append(out, "  scratch           %12s  per engine: the largest program\n",
         HumanBytes(ArenaBytes(m)).c_str());
  Append(out, "  state             %12s  per sequence; %s where it can step back\n",
         HumanBytes(m.state_bytes).c_str(), HumanBytes(StateBytesWithWayBack(m)).c_str());
  Append(out, "  KV                %12s  per token; %s at the full context\n",
         HumanBytes(m.kv_bytes_per_token).c_str(),
         HumanBytes(m.model.context_length <= UINT64_MAX / std::max<uint64_t>(m.kv_bytes_per_token, 1)
                        ? m.kv_bytes_per_token * m.model.context_length
                        : UINT64_MAX)
             .c_str());
  Append(out,
         "\nprograms             rows       scratch  dispatches  barriers  weights read  takes -> leaves; "
         "gives\n");
  for (size_t i = 0; i < m.programs.size(); ++i) {
    const qrt::ProgramInfo& p = m.programs[i];
    PartTitle(out, m, i, &qrt::PartFacts::programs);
    Append(out, "  %-17s %6u %13s %11u %9u %13s  %s -> %s; %s\n", Clean(p.name).c_str(), p.rows,
           HumanBytes(p.arena_bytes).c_str(), p.dispatches, p.barriers, HumanBytes(p.weight_bytes).c_str(),
           InputsText(m, p.facts).c_str(),
           p.facts.leaves < 0 ? "nothing" : Clean(StreamName(m, p.facts.leaves)).c_str(),
           GivesText(p).c_str());
  }
  Append(out, "\nprovenance\n  compiler          %s\n  source            %s, %llu bytes, xxh3-128 %s\n",
         Clean(m.provenance.compiler).c_str(), Clean(m.provenance.source_name).c_str(),
         static_cast<unsigned long long>(m.provenance.source_bytes), Hex(m.provenance.source_hash).c_str());
  for (const auto& [key, value] : m.provenance.options) {
    Append(out, "  %-17s %s\n", Clean(key).c_str(), Clean(value).c_str());
  }
  return out;
}

namespace {

Json TokenizerJson(const std::optional<qrt::TokenizerInfo>& t) {
  if (!t) return nullptr;
  return {{"pre", t->pre},         {"bos", t->bos}, {"eos", t->eos}, {"eot", t->eot},        {"pad", t->pad},
          {"add_bos", t->add_bos}, {"eog", t->eog}, {"nfc", t->nfc}, {"section", t->section}};
}

Json SamplingJson(const qrt::SamplingInfo& s) {
  return {{"temperature", OrNull(s.temperature)},
          {"top_k", OrNull(s.top_k)},
          {"top_p", OrNull(s.top_p)},
          {"min_p", OrNull(s.min_p)},
          {"repeat_penalty", OrNull(s.repeat_penalty)},
          {"presence_penalty", OrNull(s.presence_penalty)},
          {"frequency_penalty", OrNull(s.frequency_penalty)},
          {"penalty_window", OrNull(s.penalty_window)}};
}

Json ProvenanceJson(const qrt::Provenance& p) {
  Json options = Json::object();
  for (const auto& [key, value] : p.options) options[key] = value;
  return {{"compiler", p.compiler},
          {"source_name", p.source_name},
          {"source_bytes", p.source_bytes},
          {"source_hash", Hex(p.source_hash)},
          {"options", std::move(options)}};
}

// The lists of the manifest, and what stands beside them.
void AddManifest(const qrt::Manifest& m, Json& root) {
  root["formats"] = Json::array();
  for (const qrt::FormatUse& f : m.formats) {
    root["formats"].push_back({{"name", f.name},
                               {"tensors", f.tensors},
                               {"source_bytes", f.source_bytes},
                               {"packed_bytes", f.packed_bytes}});
  }
  root["parts"] = Json::array();
  for (const qrt::PartFacts& p : m.parts) {
    root["parts"].push_back({{"target", p.target},
                             {"first_layer", p.first_layer},
                             {"layers", p.layers},
                             {"weights_bytes", p.weights_bytes},
                             {"state_bytes_per_sequence", p.state_bytes},
                             {"kv_bytes_per_token", p.kv_bytes_per_token}});
  }
  root["memory"] = {{"weights_bytes", WeightBytes(m)},
                    {"scratch_bytes", ArenaBytes(m)},
                    {"state_bytes_per_sequence", m.state_bytes},
                    {"rewindable_state_bytes_per_sequence", StateBytesWithWayBack(m)},
                    {"kv_bytes_per_token", m.kv_bytes_per_token}};
  root["programs"] = Json::array();
  for (size_t i = 0; i < m.programs.size(); ++i) {
    const qrt::ProgramInfo& p = m.programs[i];
    root["programs"].push_back({{"name", p.name},
                                {"takes", InputNames(p.facts)},
                                {"given_cols", p.facts.given_cols},
                                {"stream", StreamOrNull(m, p.facts.stream)},
                                {"advances", StateNames(m, p.facts)},
                                {"leaves", StreamOrNull(m, p.facts.leaves)},
                                {"gives", Name(p.facts.gives)},
                                {"rows", p.rows},
                                {"scratch_bytes", p.arena_bytes},
                                {"dispatches", p.dispatches},
                                {"barriers", p.barriers},
                                {"weight_bytes", p.weight_bytes},
                                {"logits_cols", LogitsCols(m, p)}});
    AddPart(m, i, &qrt::PartFacts::programs, root["programs"].back());
  }
  root["states"] = Json::array();
  for (size_t i = 0; i < m.states.size(); ++i) {
    const qrt::StateInfo& s = m.states[i];
    root["states"].push_back({{"name", s.name},
                              {"kind", Name(s.kind)},
                              {"layer", s.layer},
                              {"shape", s.shape},
                              {"element", Name(s.element)},
                              {"offset", s.offset},
                              {"bytes", s.bytes},
                              {"entry_bytes", s.entry_bytes}});
    AddPart(m, i, &qrt::PartFacts::states, root["states"].back());
  }
  root["weights"] = Json::array();
  for (const qrt::WeightInfo& w : m.weights) {
    root["weights"].push_back({{"name", w.name},
                               {"format", w.format},
                               {"layout", w.layout},
                               {"shape", {w.rows, w.cols}},
                               {"section", w.section},
                               {"offset", w.offset},
                               {"bytes", w.bytes}});
  }
  root["tokenizer"] = TokenizerJson(m.tokenizer);
  root["sampling"] = SamplingJson(m.sampling);
  root["chat_template_section"] = OrNull(m.chat_template_section);
  root["goldens_section"] = OrNull(m.goldens_section);
  root["provenance"] = ProvenanceJson(m.provenance);
}

void AddModel(const qrt::Manifest& m, Json& root) {
  root["model"] = {{"arch", m.model.arch},
                   {"name", m.model.name},
                   {"vocab_size", m.model.vocab_size},
                   {"logits_stride", m.model.logits_stride},
                   {"context_length", m.model.context_length},
                   {"embedding_length", m.model.embedding_length}};
  root["numerics"] = Name(m.numerics);
  root["kv"] = Name(m.kv_element);
}

}  // namespace

Json ManifestJson(const ArtifactContents& c) {
  Json root;
  AddModel(c.manifest, root);
  root["targets"] = Json::array();
  for (size_t i = 0; i < c.manifest.code.size(); ++i) {
    const qrt::CodeInfo& code = c.manifest.code[i];
    root["targets"].push_back({{"target", code.target},
                               {"isa", code.isa},
                               {"features", code.features},
                               {"section", code.section},
                               {"weights_section", code.weights_section}});
    AddPart(c.manifest, i, &qrt::PartFacts::code, root["targets"].back());
  }
  root["streams"] = c.manifest.streams;
  AddManifest(c.manifest, root);
  return root;
}

Json KernelsJson(const qrt::Artifact& artifact, const ArtifactContents& c) {
  Json root = {{"schema", 1}, {"targets", Json::array()}};
  size_t cpu_variants = 0;
  for (size_t i = 0; i < c.manifest.code.size(); ++i) {
    const qrt::CodeInfo& code = c.manifest.code[i];
    Json target = {{"target", code.target}, {"isa", code.isa}, {"code_bytes", SectionSize(c, code.section)}};
    if (const qrt::GpuCode* gpu = GpuCodeOf(c, code)) target["kernels"] = GpuKernelsJson(*gpu);
    if (code.target == "cpu") {
      target["programs"] = EntriesJson(artifact.code(i), ManifestOfCode(c, i));
      const std::optional<size_t> part = PartOf(c.manifest, i, &qrt::PartFacts::code);
      if (!c.manifest.kernels.empty()) target["kernels"] = CpuKernelsJson(c.manifest, cpu_variants++, part);
    }
    AddPart(c.manifest, i, &qrt::PartFacts::code, target);
    root["targets"].push_back(std::move(target));
  }
  return root;
}

std::string InspectJson(const ArtifactContents& c) {
  const qrt::Manifest& m = c.manifest;
  Json root;
  root["schema"] = 2;
  root["file_bytes"] = c.file_bytes;
  root["format"] = {{"major", QBIN_MAJOR}, {"minor", c.minor}, {"required_features", c.required_features}};
  root["identity"] = Hex(c.identity);
  AddModel(m, root);
  root["sections"] = Json::array();
  for (size_t i = 0; i < c.sections.size(); ++i) {
    const qrt::Section& s = c.sections[i];
    root["sections"].push_back({{"index", i},
                                {"kind", SectionKindName(s.kind)},
                                {"offset", s.offset},
                                {"size", s.size},
                                {"alignment", std::min<uint64_t>(Alignment(s.offset), QBIN_ALIGNMENT)},
                                {"optional", (s.flags & QBIN_SECTION_OPTIONAL) != 0},
                                {"hash", Hex(s.hash)}});
  }
  root["targets"] = Json::array();
  for (size_t i = 0; i < m.code.size(); ++i) root["targets"].push_back(TargetJson(c, i));
  AddManifest(m, root);
  return root.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace qcc::compiler
