#include "compiler/artifact/manifest_spec.h"

#include <algorithm>

#include "runtime/abi/manifest_generated.h"

namespace qcc::compiler {
namespace {

namespace fb = flatbuffers;
namespace abi = qrt::abi;

template <typename T>
fb::Optional<T> ToFb(const std::optional<T>& value) {
  return value ? fb::Optional<T>(*value) : fb::nullopt;
}

std::vector<fb::Offset<abi::State>> StatesOf(fb::FlatBufferBuilder& b, const ManifestSpec& spec) {
  std::vector<fb::Offset<abi::State>> states;
  for (const StateSpec& s : spec.states) {
    auto name = b.CreateString(s.name);
    auto shape = b.CreateVector(s.shape);
    states.push_back(abi::CreateState(b, name, static_cast<abi::StateKind>(s.kind), s.layer, shape,
                                      static_cast<abi::Element>(s.element), s.offset, s.bytes,
                                      s.entry_bytes));
  }
  return states;
}

std::vector<fb::Offset<abi::Program>> ProgramsOf(fb::FlatBufferBuilder& b, const ManifestSpec& spec) {
  std::vector<fb::Offset<abi::Program>> programs;
  for (const ProgramSpec& p : spec.programs) {
    auto name = b.CreateString(p.name);
    auto advances = b.CreateVector(p.facts.advances);
    programs.push_back(abi::CreateProgram(b, name, p.facts.takes, p.facts.given_cols, p.facts.stream,
                                          p.facts.leaves, static_cast<abi::Output>(p.facts.gives), advances,
                                          p.rows, p.arena_bytes, p.dispatches, p.barriers, p.weight_bytes,
                                          p.logits_cols));
  }
  return programs;
}

// 0: there are none.
fb::Offset<fb::Vector<fb::Offset<abi::LostRole>>> LostRoles(fb::FlatBufferBuilder& b,
                                                            const ManifestSpec& spec) {
  if (spec.lost_roles.empty()) return 0;
  std::vector<fb::Offset<abi::LostRole>> lost;
  for (const LostRoleSpec& r : spec.lost_roles) {
    auto role = b.CreateString(r.role);
    auto into = b.CreateSharedString(r.into);
    auto layers = b.CreateVector(r.layers);
    lost.push_back(abi::CreateLostRole(b, role, into, layers));
  }
  return b.CreateVector(lost);
}

}  // namespace

std::vector<uint8_t> BuildManifest(const ManifestSpec& spec) {
  fb::FlatBufferBuilder b(1 << 16);
  b.ForceDefaults(
      true);  // a field's bytes are there whatever its value, so that the layout tells what was set

  const std::vector<fb::Offset<abi::State>> states = StatesOf(b, spec);
  const std::vector<fb::Offset<abi::Program>> programs = ProgramsOf(b, spec);
  std::vector<fb::Offset<abi::Code>> code;
  for (const CodeSpec& c : spec.code) {
    auto target = b.CreateString(c.target);
    auto isa = b.CreateString(c.isa);
    auto features = b.CreateVectorOfStrings(c.features);
    code.push_back(abi::CreateCode(b, target, isa, features, c.section, c.weights_section));
  }
  fb::Offset<abi::Tokenizer> tokenizer = 0;
  if (spec.tokenizer) {
    const TokenizerSpec& t = *spec.tokenizer;
    auto pre = b.CreateString(t.pre);
    auto eog = b.CreateVector(t.eog);
    tokenizer = abi::CreateTokenizer(b, t.section, pre, t.bos, t.eos, t.eot, t.pad, t.add_bos, eog, t.nfc);
  }
  const SamplingSpec& s = spec.sampling;
  auto sampling = abi::CreateSampling(b, ToFb(s.temperature), ToFb(s.top_k), ToFb(s.top_p), ToFb(s.min_p),
                                      ToFb(s.repeat_penalty), ToFb(s.presence_penalty),
                                      ToFb(s.frequency_penalty), ToFb(s.penalty_window));
  std::vector<fb::Offset<abi::FormatUse>> formats;
  for (const FormatSpec& f : spec.formats) {
    auto name = b.CreateString(f.name);
    formats.push_back(abi::CreateFormatUse(b, name, f.tensors, f.source_bytes, f.packed_bytes));
  }
  auto sorted = spec.provenance.options;
  std::sort(sorted.begin(), sorted.end());
  std::vector<fb::Offset<abi::Option>> options;
  for (const auto& [key, value] : sorted) {
    auto key_text = b.CreateString(key);
    auto value_text = b.CreateString(value);
    options.push_back(abi::CreateOption(b, key_text, value_text));
  }
  auto compiler = b.CreateString(spec.provenance.compiler);
  auto option_list = b.CreateVector(options);
  auto source_name = b.CreateString(spec.provenance.source_name);
  auto source_hash = b.CreateVector(spec.provenance.source_hash.data(), spec.provenance.source_hash.size());
  auto provenance =
      abi::CreateProvenance(b, compiler, option_list, source_name, spec.provenance.source_bytes, source_hash);
  auto arch = b.CreateString(spec.arch);
  auto name = b.CreateString(spec.name);
  auto model = abi::CreateModel(b, arch, name, spec.vocab_size, spec.logits_stride, spec.context_length,
                                spec.embedding_length);
  auto state_list = b.CreateVector(states);
  auto program_list = b.CreateVector(programs);
  auto code_list = b.CreateVector(code);
  auto format_list = b.CreateVector(formats);
  std::vector<fb::Offset<abi::Weight>> weights;
  for (const WeightSpec& w : spec.weights) {
    auto weight_name = b.CreateString(w.name);
    auto format = b.CreateSharedString(w.format);
    auto layout = b.CreateSharedString(w.layout);
    weights.push_back(
        abi::CreateWeight(b, weight_name, format, layout, w.rows, w.cols, w.section, w.offset, w.bytes));
  }
  auto weight_list = b.CreateVector(weights);
  std::vector<fb::Offset<abi::Kernel>> kernels;
  for (const KernelSpec& k : spec.kernels) {
    auto kernel_name = b.CreateString(k.name);
    auto specification = b.CreateString(k.specification);
    auto kernel_programs = b.CreateVector(k.programs);
    auto code_bytes = b.CreateVector(k.code_bytes);
    kernels.push_back(abi::CreateKernel(b, kernel_name, specification, kernel_programs, code_bytes));
  }
  auto kernel_list = b.CreateVector(kernels);
  auto stream_list = b.CreateVectorOfStrings(spec.streams);
  std::vector<fb::Offset<abi::Part>> parts;
  for (const qrt::PartFacts& p : spec.parts) {
    auto target = b.CreateString(p.target);
    parts.push_back(abi::CreatePart(b, target, p.first_layer, p.layers, p.states, p.programs, p.code,
                                    p.state_bytes, p.kv_bytes_per_token, p.weights_bytes));
  }
  std::vector<fb::Offset<abi::Stage>> stages;
  stages.reserve(spec.stages.size());
  for (const StageSpec& stage : spec.stages) {
    stages.push_back(abi::CreateStage(b, stage.program, stage.kernel, stage.weight_bytes));
  }
  auto stage_list = b.CreateVector(stages);
  fb::Offset<fb::Vector<fb::Offset<abi::Part>>> part_list = 0;
  if (!parts.empty()) part_list = b.CreateVector(parts);
  fb::Offset<fb::Vector<uint32_t>> draft_tokens = 0;
  if (!spec.draft_tokens.empty()) draft_tokens = b.CreateVector(spec.draft_tokens);
  auto manifest = abi::CreateManifest(
      b, model, static_cast<abi::Numerics>(spec.numerics), static_cast<abi::Element>(spec.kv_element),
      spec.weights_bytes, spec.state_bytes, spec.kv_bytes_per_token, state_list, program_list, code_list,
      tokenizer, sampling, ToFb(spec.chat_template_section), ToFb(spec.goldens_section), format_list,
      provenance, stream_list, weight_list, kernel_list, part_list, spec.state_block, stage_list,
      draft_tokens, LostRoles(b, spec));
  abi::FinishManifestBuffer(b, manifest);
  return std::vector<uint8_t>(b.GetBufferPointer(), b.GetBufferPointer() + b.GetSize());
}

}  // namespace qcc::compiler
