#include "compiler/artifact/manifest_spec.h"

#include <algorithm>

#include "frontends/gguf/error.h"
#include "frontends/gguf/text.h"
#include "runtime/abi/manifest_generated.h"

namespace qcc::compiler {
namespace {

using gguf::Concat;

namespace fb = flatbuffers;
namespace abi = qrt::abi;

// What a list may hold. Lists of a damaged file may share bytes, so the file's size does not bound them.
constexpr size_t kMaxList = 1 << 16, kMaxText = 1 << 16, kMaxShape = 8, kMaxManifestBytes = 16 << 20;
// What all of them together may unfold to, in manifest's sizes: many states of one long name take gigabytes.
constexpr uint64_t kMostUnfolding = 16;

template <typename T>
fb::Optional<T> ToFb(const std::optional<T>& value) {
  return value ? fb::Optional<T>(*value) : fb::nullopt;
}
template <typename T>
std::optional<T> FromFb(fb::Optional<T> value) {
  return value.has_value() ? std::optional<T>(*value) : std::nullopt;
}
std::string Text(const fb::String* s) {
  return s == nullptr ? std::string() : s->str();
}

// Collects the first violation, so that a long list of fields stays readable. Asked before a list or text is
// copied.
class Limits {
 public:
  Limits(uint64_t manifest_bytes, const std::string& where)
      : most_bytes_(kMostUnfolding * manifest_bytes), where_(where) {}

  // `Entry`: what an entry is copied to.
  template <typename Entry, typename T>
  bool List(std::string_view field, const fb::Vector<T>* list, size_t limit = kMaxList) {
    const size_t size = list == nullptr ? 0 : list->size();
    return Check(field, size, limit, " entries") && Unfold(field, size * sizeof(Entry));
  }
  bool Text(std::string_view field, const fb::String* text) {
    const size_t size = text == nullptr ? 0 : text->size();
    return Check(field, size, kMaxText, " bytes") && Unfold(field, size);
  }
  template <typename Enum>
  bool In(std::string_view field, Enum value, Enum max) {
    return Check(field, static_cast<size_t>(value), static_cast<size_t>(max), "");
  }
  const absl::Status& status() const { return status_; }

 private:
  bool Check(std::string_view field, size_t found, size_t limit, std::string_view unit) {
    if (found > limit && status_.ok()) {
      status_ =
          MakeError("Q4015", Concat("manifest: ", field, " has ", found, unit, ", expected at most ", limit),
                    where_, "compile the model again");
    }
    return found <= limit;
  }
  bool Unfold(std::string_view field, uint64_t bytes) {
    bytes_ += bytes;
    if (bytes_ > most_bytes_ && status_.ok()) {
      status_ = MakeError(
          "Q4015",
          Concat("manifest: lists share bytes, and unfold to more than ", most_bytes_, " bytes at ", field),
          where_, "compile the model again");
    }
    return bytes_ <= most_bytes_;
  }

  const uint64_t most_bytes_;
  uint64_t bytes_ = 0;
  std::string where_;
  absl::Status status_;
};

}  // namespace

std::string_view Name(SpecNumerics value) {
  return value == SpecNumerics::kF32 ? "f32" : "int8";
}
std::string_view Name(SpecElement value) {
  return value == SpecElement::kF32 ? "f32" : "f16";
}
std::string_view Name(SpecPhase value) {
  return value == SpecPhase::kPrefill ? "prefill" : value == SpecPhase::kDecode ? "decode" : "head";
}
std::string_view Name(SpecState value) {
  return value == SpecState::kConv ? "conv" : value == SpecState::kDelta ? "delta" : "kv";
}

std::vector<uint8_t> BuildManifest(const ManifestSpec& spec) {
  fb::FlatBufferBuilder b(1 << 16);
  b.ForceDefaults(
      true);  // a field's bytes are there whatever its value, so that the layout tells what was set

  std::vector<fb::Offset<abi::State>> states;
  for (const StateSpec& s : spec.states) {
    auto name = b.CreateString(s.name);
    auto shape = b.CreateVector(s.shape);
    states.push_back(abi::CreateState(b, name, static_cast<abi::StateKind>(s.kind), s.layer, shape,
                                      static_cast<abi::Element>(s.element), s.offset, s.bytes));
  }
  std::vector<fb::Offset<abi::Program>> programs;
  for (const ProgramSpec& p : spec.programs) {
    auto name = b.CreateString(p.name);
    programs.push_back(abi::CreateProgram(b, name, static_cast<abi::Phase>(p.phase), p.rows, p.arena_bytes,
                                          p.dispatches, p.barriers));
  }
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
    tokenizer = abi::CreateTokenizer(b, t.section, pre, t.bos, t.eos, t.eot, t.pad, t.add_bos, eog);
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
  auto manifest = abi::CreateManifest(b, model, static_cast<abi::Numerics>(spec.numerics),
                                      static_cast<abi::Element>(spec.kv_element), spec.weights_bytes,
                                      spec.state_bytes, spec.kv_bytes_per_token, state_list, program_list,
                                      code_list, tokenizer, sampling, ToFb(spec.chat_template_section),
                                      ToFb(spec.goldens_section), format_list, provenance);
  abi::FinishManifestBuffer(b, manifest);
  return std::vector<uint8_t>(b.GetBufferPointer(), b.GetBufferPointer() + b.GetSize());
}

absl::StatusOr<ManifestSpec> ParseManifest(std::span<const uint8_t> bytes, const std::string& where) {
  fb::Verifier verifier(bytes.data(), std::min(bytes.size(), kMaxManifestBytes));
  if (bytes.size() < 8 || bytes.size() > kMaxManifestBytes || !abi::VerifyManifestBuffer(verifier)) {
    return MakeError("Q4014", "the manifest is not a valid FlatBuffer of its schema", where,
                     "compile the model again");
  }
  const abi::Manifest& m = *abi::GetManifest(bytes.data());
  Limits limits(bytes.size(), where);
  ManifestSpec spec;
  const abi::Model& model = *m.model();
  if (!limits.Text("model.arch", model.arch()) || !limits.Text("model.name", model.name()) ||
      !limits.In("numerics", m.numerics(), abi::Numerics::MAX) ||
      !limits.In("kv_element", m.kv_element(), abi::Element::MAX) ||
      !limits.List<StateSpec>("states", m.states()) || !limits.List<ProgramSpec>("programs", m.programs()) ||
      !limits.List<CodeSpec>("code", m.code()) || !limits.List<FormatSpec>("formats", m.formats())) {
    return limits.status();
  }
  spec.arch = Text(model.arch());
  spec.name = Text(model.name());
  spec.vocab_size = model.vocab_size();
  spec.logits_stride = model.logits_stride();
  spec.context_length = model.context_length();
  spec.embedding_length = model.embedding_length();
  spec.numerics = static_cast<SpecNumerics>(m.numerics());
  spec.kv_element = static_cast<SpecElement>(m.kv_element());
  spec.weights_bytes = m.weights_bytes();
  spec.state_bytes = m.state_bytes();
  spec.kv_bytes_per_token = m.kv_bytes_per_token();
  for (const abi::State* s : *m.states()) {
    if (!limits.Text("states.name", s->name()) ||
        !limits.List<uint64_t>("states.shape", s->shape(), kMaxShape) ||
        !limits.In("states.kind", s->kind(), abi::StateKind::MAX) ||
        !limits.In("states.element", s->element(), abi::Element::MAX)) {
      return limits.status();
    }
    spec.states.push_back({Text(s->name()), static_cast<SpecState>(s->kind()), s->layer(),
                           std::vector<uint64_t>(s->shape()->begin(), s->shape()->end()),
                           static_cast<SpecElement>(s->element()), s->offset(), s->bytes()});
  }
  for (const abi::Program* p : *m.programs()) {
    if (!limits.Text("programs.name", p->name()) ||
        !limits.In("programs.phase", p->phase(), abi::Phase::MAX)) {
      return limits.status();
    }
    spec.programs.push_back({Text(p->name()), static_cast<SpecPhase>(p->phase()), p->rows(), p->arena_bytes(),
                             p->dispatches(), p->barriers()});
  }
  for (const abi::Code* c : *m.code()) {
    if (!limits.Text("code.target", c->target()) || !limits.Text("code.isa", c->isa()) ||
        !limits.List<std::string>("code.features", c->features(), 64)) {
      return limits.status();
    }
    CodeSpec code{Text(c->target()), Text(c->isa()), {}, c->section(), c->weights_section()};
    for (const fb::String* f : *c->features()) {
      if (!limits.Text("code.features", f)) return limits.status();
      code.features.push_back(Text(f));
    }
    spec.code.push_back(std::move(code));
  }
  if (const abi::Tokenizer* t = m.tokenizer()) {
    if (!limits.Text("tokenizer.pre", t->pre()) || !limits.List<uint32_t>("tokenizer.eog", t->eog()))
      return limits.status();
    spec.tokenizer = TokenizerSpec{t->section(), Text(t->pre()),
                                   t->bos(),     t->eos(),
                                   t->eot(),     t->pad(),
                                   t->add_bos(), std::vector<uint32_t>(t->eog()->begin(), t->eog()->end())};
  }
  if (const abi::Sampling* s = m.sampling()) {
    spec.sampling = {FromFb(s->temperature()),
                     FromFb(s->top_p()),
                     FromFb(s->min_p()),
                     FromFb(s->repeat_penalty()),
                     FromFb(s->presence_penalty()),
                     FromFb(s->frequency_penalty()),
                     FromFb(s->top_k()),
                     FromFb(s->penalty_window())};
  }
  spec.chat_template_section = FromFb(m.chat_template_section());
  spec.goldens_section = FromFb(m.goldens_section());
  for (const abi::FormatUse* f : *m.formats()) {
    if (!limits.Text("formats.name", f->name())) return limits.status();
    spec.formats.push_back({Text(f->name()), f->tensors(), f->source_bytes(), f->packed_bytes()});
  }
  const abi::Provenance& p = *m.provenance();
  if (!limits.Text("provenance.compiler", p.compiler()) ||
      !limits.Text("provenance.source_name", p.source_name()) ||
      !limits.List<std::pair<std::string, std::string>>("provenance.options", p.options()) ||
      !limits.List<uint8_t>("provenance.source_hash", p.source_hash(), spec.provenance.source_hash.size())) {
    return limits.status();
  }
  spec.provenance.compiler = Text(p.compiler());
  spec.provenance.source_name = Text(p.source_name());
  spec.provenance.source_bytes = p.source_bytes();
  std::copy(p.source_hash()->begin(), p.source_hash()->end(), spec.provenance.source_hash.begin());
  for (const abi::Option* o : *p.options()) {
    if (!limits.Text("provenance.options", o->key()) || !limits.Text("provenance.options", o->value())) {
      return limits.status();
    }
    spec.provenance.options.emplace_back(Text(o->key()), Text(o->value()));
  }
  return spec;
}

}  // namespace qcc::compiler
