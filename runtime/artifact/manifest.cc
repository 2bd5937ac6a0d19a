#include <algorithm>
#include <cmath>
#include <functional>

#include "runtime/abi/integer_row.h"
#include "runtime/abi/manifest_generated.h"
#include "runtime/abi/program.h"
#include "runtime/abi/qbin.h"
#include "runtime/abi/sampling.h"
#include "runtime/abi/tokenizer.h"
#include "runtime/artifact/verifier.h"
#include "runtime/base/checked.h"

namespace qrt {
namespace {

// Limits far above anything real.
constexpr uint64_t kMaxManifestBytes = 16 << 20;
constexpr uint32_t kMaxStates = 1 << 16, kMaxPrograms = 4096, kMaxCode = 64 * kMaxParts, kMaxFeatures = 64,
                   kMaxShape = 8;
constexpr uint32_t kMaxStreams = 4096;
constexpr uint32_t kMaxFormats = 256, kMaxOptions = 1024, kMaxWeights = 1 << 17, kMaxCpuKernels = 1 << 16,
                   kMaxLostRoles = 1 << 12;
constexpr uint64_t kMaxContext = INT32_MAX;
// More tokens than the sampler can sum the weights of; logits behind the vocabulary, which are there for
// alignment.
constexpr uint32_t kMaxVocabulary = 1 << 23, kMaxLogitsPadding = 256;
// All states of a sequence, all keys and values of a token; and what may lie before and behind a state for
// alignment.
constexpr uint64_t kMaxStateBytes = uint64_t{16} << 30, kMaxKvBytes = uint64_t{64} << 20, kStateGap = 4096,
                   kMaxStateBlock = 4096;
// clang-format off
struct SameNumerics { using Other = abi::Numerics; QRT_NUMERICS(QRT_SAME_NUMBER) };
struct SameElement { using Other = abi::Element; QRT_ELEMENTS(QRT_SAME_NUMBER) };
struct SameStateKind { using Other = abi::StateKind; QRT_STATE_KINDS(QRT_SAME_NUMBER) };
struct SameOutput { using Other = abi::Output; QRT_OUTPUTS(QRT_SAME_NUMBER) };
// clang-format on

template <typename T>
std::optional<T> Optional(flatbuffers::Optional<T> value) {
  return value.has_value() ? std::optional<T>(*value) : std::nullopt;
}

}  // namespace

Status OtherInterface(const Manifest& manifest, const std::string& made_for, uint32_t found, uint32_t known,
                      const std::string& where) {
  const std::string& compiler = manifest.provenance.compiler;
  return Status(Code::kArtifactIncompatible, 4017,
                made_for + " " + std::to_string(found) + ", this program knows " + std::to_string(known),
                compiler.empty() ? where : where + ", made by " + compiler,
                "compile the model again, or use the runtime that came with its compiler");
}

Status ArtifactVerifier::BadField(const std::string& field, const std::string& found,
                                  const std::string& expected) const {
  return Status(
      Code::kArtifactCorrupt, 4015, "manifest: " + field + " is " + found + ", expected " + expected,
      a_.path_ + ", section " + std::to_string(manifest_section_) + " (manifest)", "compile the model again");
}

Status ArtifactVerifier::CheckIndex(const std::string& field, uint32_t index) const {
  if (index < a_.sections_.size()) return Status();
  return BadField(field, "section " + std::to_string(index) + " of " + std::to_string(a_.sections_.size()),
                  "a section of the file");
}

Status ArtifactVerifier::CheckReference(const std::string& field, uint32_t index, uint32_t kind) const {
  if (index < a_.sections_.size() && a_.sections_[index].kind == kind) return Status();
  const std::string found =
      "section " + std::to_string(index) +
      (index < a_.sections_.size() ? std::string(" (") + SectionKindName(a_.sections_[index].kind) + ")"
                                   : " of " + std::to_string(a_.sections_.size()));
  return BadField(field, found, std::string("a section of kind ") + SectionKindName(kind));
}

Status ArtifactVerifier::Unfold(const char* field, uint64_t n, uint64_t limit, uint64_t entry_bytes) {
  if (n > limit) {
    return BadField(std::string("the length of ") + field, std::to_string(n),
                    "at most " + std::to_string(limit));
  }
  const uint64_t bytes = a_.SectionBytes(manifest_section_).size();
  if (unfolding_.Add(n * entry_bytes, bytes)) return Status();
  return BadField(Unfolding::kField, Unfolding::Found(field, bytes), Unfolding::Expected("manifest", bytes));
}

Status ArtifactVerifier::Copy(const char* field, const flatbuffers::String* text, std::string* out) {
  QRT_RETURN_IF_ERROR(Unfold(field, text == nullptr ? 0 : text->size(), QBIN_MAX_STRING, 1));
  if (text != nullptr) *out = text->str();
  return Status();
}

template <typename T>
Status ArtifactVerifier::Copy(const char* field, const flatbuffers::Vector<T>& list, uint64_t limit,
                              std::vector<T>* out) {
  QRT_RETURN_IF_ERROR(Unfold(field, list.size(), limit, sizeof(T)));
  // flatbuffers::Verifier checks where the length stands, which has 4 bytes, not where the entries do.
  if (reinterpret_cast<uintptr_t>(list.Data()) % alignof(T) != 0) {
    const uint64_t at = list.Data() - a_.SectionBytes(manifest_section_).data();
    return BadField(std::string("the place of ") + field, "byte " + std::to_string(at),
                    "a multiple of " + std::to_string(alignof(T)));
  }
  out->assign(list.begin(), list.end());
  return Status();
}

Status ArtifactVerifier::ReadManifest() {
  const std::span<const uint8_t> bytes = a_.SectionBytes(manifest_section_);
  if (bytes.size() > kMaxManifestBytes) {
    return CorruptIn(4014, manifest_section_, 0,
                     "the manifest has " + std::to_string(bytes.size()) + " bytes, expected at most " +
                         std::to_string(kMaxManifestBytes));
  }
  flatbuffers::Verifier verifier(bytes.data(), bytes.size());
  if (bytes.size() < 8 || !abi::VerifyManifestBuffer(verifier)) {
    return CorruptIn(4014, manifest_section_, 0, "the manifest is not a valid FlatBuffer of its schema");
  }
  const abi::Manifest& fb = *abi::GetManifest(bytes.data());
  Manifest& m = a_.manifest_;
  const abi::Model& model = *fb.model();
  QRT_RETURN_IF_ERROR(Copy("model.arch", model.arch(), &m.model.arch));
  QRT_RETURN_IF_ERROR(Copy("model.name", model.name(), &m.model.name));
  m.model.vocab_size = model.vocab_size();
  m.model.logits_stride = model.logits_stride();
  m.model.context_length = model.context_length();
  m.model.embedding_length = model.embedding_length();
  m.numerics = static_cast<Numerics>(fb.numerics());
  m.kv_element = static_cast<Element>(fb.kv_element());
  m.weights_bytes = fb.weights_bytes();
  m.state_bytes = fb.state_bytes();
  m.kv_bytes_per_token = fb.kv_bytes_per_token();
  m.state_block = fb.state_block();
  QRT_RETURN_IF_ERROR(ReadStates(fb));
  QRT_RETURN_IF_ERROR(ReadPrograms(fb));
  QRT_RETURN_IF_ERROR(ReadCode(fb));
  QRT_RETURN_IF_ERROR(ReadWeights(fb));
  QRT_RETURN_IF_ERROR(ReadKernels(fb));
  QRT_RETURN_IF_ERROR(ReadStages(fb));
  QRT_RETURN_IF_ERROR(ReadLostRoles(fb));
  QRT_RETURN_IF_ERROR(ReadParts(fb));
  if (fb.draft_tokens() != nullptr) {
    QRT_RETURN_IF_ERROR(Copy("draft_tokens", *fb.draft_tokens(), kMaxVocabulary, &m.draft_tokens));
  }
  QRT_RETURN_IF_ERROR(ReadText(fb));
  return ReadOrigin(fb);
}

Status ArtifactVerifier::ReadStates(const abi::Manifest& fb) {
  std::vector<StateInfo>& states = a_.manifest_.states;
  QRT_RETURN_IF_ERROR(Unfold("states", fb.states()->size(), kMaxStates, sizeof(StateInfo)));
  for (const abi::State* s : *fb.states()) {
    StateInfo& info = states.emplace_back();
    QRT_RETURN_IF_ERROR(Copy("states.name", s->name(), &info.name));
    QRT_RETURN_IF_ERROR(Copy("states.shape", *s->shape(), kMaxShape, &info.shape));
    info.kind = static_cast<StateKind>(s->kind());
    info.layer = s->layer();
    info.element = static_cast<Element>(s->element());
    info.offset = s->offset();
    info.bytes = s->bytes();
    info.entry_bytes = s->entry_bytes();
  }
  return Status();
}

Status ArtifactVerifier::ReadPrograms(const abi::Manifest& fb) {
  Manifest& m = a_.manifest_;
  QRT_RETURN_IF_ERROR(Unfold("streams", fb.streams()->size(), kMaxStreams, sizeof(std::string)));
  for (const flatbuffers::String* name : *fb.streams()) {
    QRT_RETURN_IF_ERROR(Copy("streams", name, &m.streams.emplace_back()));
  }
  QRT_RETURN_IF_ERROR(Unfold("programs", fb.programs()->size(), kMaxPrograms, sizeof(ProgramInfo)));
  for (const abi::Program* p : *fb.programs()) {
    ProgramInfo& info = m.programs.emplace_back();
    QRT_RETURN_IF_ERROR(Copy("programs.name", p->name(), &info.name));
    QRT_RETURN_IF_ERROR(Copy("programs.advances", *p->advances(), kMaxStates, &info.facts.advances));
    info.facts.takes = p->takes();
    info.facts.given_cols = p->given_cols();
    info.facts.stream = p->stream();
    info.facts.leaves = p->leaves();
    info.facts.gives = static_cast<Output>(p->gives());
    info.rows = p->rows();
    info.arena_bytes = p->arena_bytes();
    info.dispatches = p->dispatches();
    info.barriers = p->barriers();
    info.weight_bytes = p->weight_bytes();
    info.logits_cols = p->logits_cols();
  }
  return Status();
}

Status ArtifactVerifier::ReadCode(const abi::Manifest& fb) {
  QRT_RETURN_IF_ERROR(Unfold("code", fb.code()->size(), kMaxCode, sizeof(CodeInfo)));
  for (const abi::Code* c : *fb.code()) {
    CodeInfo& info = a_.manifest_.code.emplace_back();
    QRT_RETURN_IF_ERROR(Copy("code.target", c->target(), &info.target));
    QRT_RETURN_IF_ERROR(Copy("code.isa", c->isa(), &info.isa));
    QRT_RETURN_IF_ERROR(Unfold("code.features", c->features()->size(), kMaxFeatures, sizeof(std::string)));
    for (const flatbuffers::String* f : *c->features()) {
      QRT_RETURN_IF_ERROR(Copy("code.features", f, &info.features.emplace_back()));
    }
    info.section = c->section();
    info.weights_section = c->weights_section();
  }
  return Status();
}

Status ArtifactVerifier::ReadWeights(const abi::Manifest& fb) {
  if (fb.weights() == nullptr) return Status();
  QRT_RETURN_IF_ERROR(Unfold("weights", fb.weights()->size(), kMaxWeights, sizeof(WeightInfo)));
  for (const abi::Weight* w : *fb.weights()) {
    WeightInfo& info = a_.manifest_.weights.emplace_back();
    QRT_RETURN_IF_ERROR(Copy("weights.name", w->name(), &info.name));
    QRT_RETURN_IF_ERROR(Copy("weights.format", w->format(), &info.format));
    QRT_RETURN_IF_ERROR(Copy("weights.layout", w->layout(), &info.layout));
    info.rows = w->rows();
    info.cols = w->cols();
    info.section = w->section();
    info.offset = w->offset();
    info.bytes = w->bytes();
    widest_cols_ = std::max(widest_cols_, info.cols);
    const std::string field = "weight '" + info.name + "'";
    QRT_RETURN_IF_ERROR(CheckReference(field + ".section", info.section, QBIN_SECTION_WEIGHTS));
    const uint64_t section = a_.sections_[info.section].size;
    if (!InRange(info.offset, info.bytes, section)) {
      return BadField(field, std::to_string(info.bytes) + " bytes at " + std::to_string(info.offset),
                      "a range inside the " + std::to_string(section) + " bytes of its section");
    }
  }
  return Status();
}

Status ArtifactVerifier::ReadKernels(const abi::Manifest& fb) {
  if (fb.kernels() == nullptr) return Status();
  const Manifest& m = a_.manifest_;
  const auto variants = static_cast<size_t>(
      std::count_if(m.code.begin(), m.code.end(), [](const CodeInfo& c) { return c.target == "cpu"; }));
  QRT_RETURN_IF_ERROR(Unfold("kernels", fb.kernels()->size(), kMaxCpuKernels, sizeof(KernelInfo)));
  for (const abi::Kernel* k : *fb.kernels()) {
    KernelInfo& info = a_.manifest_.kernels.emplace_back();
    QRT_RETURN_IF_ERROR(Copy("kernels.name", k->name(), &info.name));
    QRT_RETURN_IF_ERROR(Copy("kernels.specification", k->specification(), &info.specification));
    QRT_RETURN_IF_ERROR(Copy("kernels.programs", *k->programs(), kMaxPrograms, &info.programs));
    QRT_RETURN_IF_ERROR(Copy("kernels.code_bytes", *k->code_bytes(), kMaxCode, &info.code_bytes));
    const std::string field = "kernel '" + info.name + "'";
    const auto falls = std::adjacent_find(info.programs.begin(), info.programs.end(), std::greater_equal<>());
    if (falls != info.programs.end() ||
        (!info.programs.empty() && info.programs.back() >= m.programs.size())) {
      return BadField(field + ".programs", "no rising list of places in the list of programs",
                      "places below " + std::to_string(m.programs.size()));
    }
    if (info.code_bytes.size() != variants) {
      return BadField(field + ".code_bytes", std::to_string(info.code_bytes.size()) + " sizes",
                      std::to_string(variants) + ": one for each CPU code");
    }
  }
  return Status();
}

Status ArtifactVerifier::ReadStages(const abi::Manifest& fb) {
  if (fb.stages() == nullptr) return Status();
  Manifest& m = a_.manifest_;
  QRT_RETURN_IF_ERROR(Unfold("stages", fb.stages()->size(), QRT_MAX_STAGES, sizeof(StageInfo)));
  const auto kernels = static_cast<int64_t>(m.kernels.size());
  for (const abi::Stage* s : *fb.stages()) {
    const StageInfo& info = m.stages.emplace_back(s->program(), s->kernel(), s->weight_bytes());
    const std::string field = "stage " + std::to_string(m.stages.size() - 1);
    if (info.program >= m.programs.size()) {
      return BadField(field + ".program", std::to_string(info.program),
                      "below " + std::to_string(m.programs.size()));
    }
    if (info.kernel < -1 || info.kernel >= kernels) {
      return BadField(field + ".kernel", std::to_string(info.kernel), "-1 to " + std::to_string(kernels - 1));
    }
  }
  return Status();
}

Status ArtifactVerifier::ReadLostRoles(const abi::Manifest& fb) {
  if (fb.lost_roles() == nullptr) return Status();
  Manifest& m = a_.manifest_;
  QRT_RETURN_IF_ERROR(Unfold("lost_roles", fb.lost_roles()->size(), kMaxLostRoles, sizeof(LostRole)));
  for (const abi::LostRole* r : *fb.lost_roles()) {
    LostRole& info = m.lost_roles.emplace_back();
    QRT_RETURN_IF_ERROR(Copy("lost_roles.role", r->role(), &info.role));
    QRT_RETURN_IF_ERROR(Copy("lost_roles.into", r->into(), &info.into));
    QRT_RETURN_IF_ERROR(Copy("lost_roles.layers", *r->layers(), kMaxStates, &info.layers));
  }
  return Status();
}

// Tokenizer, sampling, chat template and goldens: what stands in the manifest itself, and which sections.
Status ArtifactVerifier::ReadText(const abi::Manifest& fb) {
  Manifest& m = a_.manifest_;
  if (const abi::Tokenizer* t = fb.tokenizer()) {
    TokenizerInfo& info = m.tokenizer.emplace();
    QRT_RETURN_IF_ERROR(Copy("tokenizer.pre", t->pre(), &info.pre));
    QRT_RETURN_IF_ERROR(Copy("tokenizer.eog", *t->eog(), QRT_TOKENIZER_MAX_ENDS, &info.eog));
    info.bos = t->bos();
    info.eos = t->eos();
    info.eot = t->eot();
    info.pad = t->pad();
    info.add_bos = t->add_bos();
    info.nfc = t->nfc();
    info.section = t->section();
    QRT_RETURN_IF_ERROR(CheckReference("tokenizer.section", info.section, QBIN_SECTION_TOKENIZER));
  }
  if (const abi::Sampling* s = fb.sampling()) {
    m.sampling.temperature = Optional(s->temperature());
    m.sampling.top_k = Optional(s->top_k());
    m.sampling.top_p = Optional(s->top_p());
    m.sampling.min_p = Optional(s->min_p());
    m.sampling.repeat_penalty = Optional(s->repeat_penalty());
    m.sampling.presence_penalty = Optional(s->presence_penalty());
    m.sampling.frequency_penalty = Optional(s->frequency_penalty());
    m.sampling.penalty_window = Optional(s->penalty_window());
  }
  m.chat_template_section = Optional(fb.chat_template_section());
  if (m.chat_template_section) {
    QRT_RETURN_IF_ERROR(
        CheckReference("chat_template_section", *m.chat_template_section, QBIN_SECTION_CHAT_TEMPLATE));
  }
  m.goldens_section = Optional(fb.goldens_section());
  if (!m.goldens_section) return Status();
  return CheckReference("goldens_section", *m.goldens_section, QBIN_SECTION_GOLDENS);
}

Status ArtifactVerifier::ReadOrigin(const abi::Manifest& fb) {
  Manifest& m = a_.manifest_;
  QRT_RETURN_IF_ERROR(Unfold("formats", fb.formats()->size(), kMaxFormats, sizeof(FormatUse)));
  for (const abi::FormatUse* f : *fb.formats()) {
    FormatUse& use = m.formats.emplace_back();
    QRT_RETURN_IF_ERROR(Copy("formats.name", f->name(), &use.name));
    use.tensors = f->tensors();
    use.source_bytes = f->source_bytes();
    use.packed_bytes = f->packed_bytes();
  }
  const abi::Provenance& p = *fb.provenance();
  QRT_RETURN_IF_ERROR(Copy("provenance.compiler", p.compiler(), &m.provenance.compiler));
  QRT_RETURN_IF_ERROR(Copy("provenance.source_name", p.source_name(), &m.provenance.source_name));
  QRT_RETURN_IF_ERROR(
      Unfold("provenance.options", p.options()->size(), kMaxOptions, 2 * sizeof(std::string)));
  for (const abi::Option* o : *p.options()) {
    auto& [key, value] = m.provenance.options.emplace_back();
    QRT_RETURN_IF_ERROR(Copy("provenance.options", o->key(), &key));
    QRT_RETURN_IF_ERROR(Copy("provenance.options", o->value(), &value));
  }
  m.provenance.source_bytes = p.source_bytes();
  if (p.source_hash()->size() != m.provenance.source_hash.size()) {
    return BadField("the length of provenance.source_hash", std::to_string(p.source_hash()->size()), "16");
  }
  std::copy(p.source_hash()->begin(), p.source_hash()->end(), m.provenance.source_hash.begin());
  return Status();
}

Status ArtifactVerifier::CheckModel() {
  const Manifest& m = a_.manifest_;
  if (m.model.arch.empty()) return BadField("model.arch", "empty", "a name");
  if (m.model.vocab_size == 0 || m.model.vocab_size > kMaxVocabulary) {
    return BadField("model.vocab_size", std::to_string(m.model.vocab_size),
                    "1 to " + std::to_string(kMaxVocabulary));
  }
  if (m.model.logits_stride < m.model.vocab_size ||
      m.model.logits_stride - m.model.vocab_size > kMaxLogitsPadding) {
    return BadField("model.logits_stride", std::to_string(m.model.logits_stride),
                    std::to_string(m.model.vocab_size) + " (vocab_size) to " +
                        std::to_string(m.model.vocab_size + kMaxLogitsPadding));
  }
  if (m.model.context_length == 0 || m.model.context_length > kMaxContext) {
    return BadField("model.context_length", std::to_string(m.model.context_length),
                    "1 to " + std::to_string(kMaxContext));
  }
  if (m.model.embedding_length == 0 || m.model.embedding_length > kMaxEmbedding) {
    return BadField("model.embedding_length", std::to_string(m.model.embedding_length),
                    "1 to " + std::to_string(kMaxEmbedding));
  }
  if (!Known(m.numerics)) {
    return BadField("numerics", std::to_string(static_cast<int>(m.numerics)), "0 (f32) or 1 (int8)");
  }
  if (!Known(m.kv_element)) {
    return BadField("kv_element", std::to_string(static_cast<int>(m.kv_element)), "0 (f32) or 1 (f16)");
  }
  if (m.state_bytes > kMaxStateBytes) {
    return BadField("state_bytes", std::to_string(m.state_bytes),
                    "at most " + std::to_string(kMaxStateBytes));
  }
  if (m.kv_bytes_per_token > kMaxKvBytes) {
    return BadField("kv_bytes_per_token", std::to_string(m.kv_bytes_per_token),
                    "at most " + std::to_string(kMaxKvBytes));
  }
  return Status();
}

Status ArtifactVerifier::CheckStates() {
  const Manifest& m = a_.manifest_;
  for (const StateInfo& s : m.states) {
    const std::string field = "state '" + s.name + "'";
    if (!Known(s.kind)) {
      return BadField(field + ".kind", std::to_string(static_cast<int>(s.kind)), "0 to 3");
    }
    if (!Known(s.element)) {
      return BadField(field + ".element", std::to_string(static_cast<int>(s.element)), "0 to 2");
    }
    if (s.element == Element::kB16) QRT_RETURN_IF_ERROR(CheckIntegerRows(s, field));
    const uint64_t area = s.kind == StateKind::kKV ? m.kv_bytes_per_token : m.state_bytes;
    if (s.bytes == 0 || !InRange(s.offset, s.bytes, area)) {
      return BadField(field, std::to_string(s.bytes) + " bytes at " + std::to_string(s.offset),
                      "a range inside the " + std::to_string(area) + " bytes of its area");
    }
    Checked need = Bytes(s.element);
    for (uint64_t extent : s.shape) need = need * extent;
    if (s.entry_bytes != 0) {
      QRT_RETURN_IF_ERROR(CheckEntries(s, field));
      const Checked entries = Checked(s.entry_bytes) * m.state_block;
      need = s.kind == StateKind::kConv ? entries : need + entries;
    }
    if (s.shape.empty() || !need.ok() || need.value() == 0 || need.value() > s.bytes) {
      return BadField(field + ".shape",
                      need.ok() ? std::to_string(need.value()) + " bytes" : "too large to count",
                      "1 to " + std::to_string(s.bytes) + " bytes");
    }
    // K and V of that shape lie in it. The engine makes rows of it by the shape alone.
    if (s.kind == StateKind::kKV && s.bytes != (need * 2).value()) {
      return BadField(field + ".bytes", std::to_string(s.bytes),
                      "twice the " + std::to_string(need.value()) + " bytes of its shape: K and V");
    }
    if (s.offset % Bytes(s.element) != 0) {
      return BadField(field + ".offset", std::to_string(s.offset),
                      "a multiple of " + std::to_string(Bytes(s.element)));
    }
    if (s.entry_bytes != 0 && s.bytes != need.value()) {
      return BadField(field + ".bytes", std::to_string(s.bytes),
                      std::to_string(need.value()) + ", with " + std::to_string(m.state_block) + " entries");
    }
    // What is more than its shape is there for alignment.
    if (s.kind != StateKind::kKV && s.bytes - need.value() > kStateGap) {
      return BadField(field + ".bytes", std::to_string(s.bytes),
                      "at most " + std::to_string(need.value() + kStateGap) + ", " +
                          std::to_string(need.value()) + " of them for its shape");
    }
  }
  return CheckStateAreas();
}

Status ArtifactVerifier::CheckIntegerRows(const StateInfo& s, const std::string& field) const {
  if (s.kind != StateKind::kKV) return BadField(field + ".element", Name(s.element), "f32, for it is no KV");
  const uint64_t values = s.shape.empty() ? 0 : s.shape.back();
  if (values < IntegerRow::kUnitBits || values > IntegerRow::kMostValues) {
    return BadField(field + ".shape", std::to_string(values) + " values in a row of integers",
                    std::to_string(IntegerRow::kUnitBits) + " to " + std::to_string(IntegerRow::kMostValues));
  }
  return Status();
}

Status ArtifactVerifier::CheckEntries(const StateInfo& s, const std::string& field) const {
  const uint64_t block = a_.manifest_.state_block;
  if (s.kind != StateKind::kConv && s.kind != StateKind::kDelta) {
    return BadField(field + ".entry_bytes", std::to_string(s.entry_bytes), "0 for this kind of state");
  }
  if (block == 0 || block > kMaxStateBlock) {
    return BadField("state_block", std::to_string(block),
                    "1 to " + std::to_string(kMaxStateBlock) + ", for " + field + " has entries");
  }
  // The tokens that the next one needs lie in its block and the one before.
  if (s.kind == StateKind::kConv && (s.shape.empty() || s.shape[0] >= block)) {
    return BadField(field + ".shape", s.shape.empty() ? "empty" : std::to_string(s.shape[0]) + " tokens",
                    "less than a block of " + std::to_string(block));
  }
  return Status();
}

Status ArtifactVerifier::CheckStateAreas() const {
  const Manifest& m = a_.manifest_;
  for (const bool kv : {false, true}) {
    std::vector<const StateInfo*> order;
    for (const StateInfo& s : m.states) {
      if ((s.kind == StateKind::kKV) == kv) order.push_back(&s);
    }
    std::sort(order.begin(), order.end(),
              [](const StateInfo* a, const StateInfo* b) { return a->offset < b->offset; });
    uint64_t end = 0;
    std::string behind = "the begin of its area";
    for (const StateInfo* s : order) {
      if (s->offset < end || s->offset - end > kStateGap) {
        return BadField("state '" + s->name + "'.offset", std::to_string(s->offset),
                        std::to_string(end) + " to " + std::to_string(end + kStateGap) + ", from " + behind);
      }
      end = s->offset + s->bytes;
      behind = "the end of state '" + s->name + "'";
    }
    const uint64_t area = kv ? m.kv_bytes_per_token : m.state_bytes;
    if (area - end > kStateGap) {  // every state lies inside
      return BadField(kv ? "kv_bytes_per_token" : "state_bytes", std::to_string(area),
                      std::to_string(end) + " to " + std::to_string(end + kStateGap) + ", from " + behind);
    }
  }
  return Status();
}

Status ArtifactVerifier::CheckSampling() {
  const SamplingInfo& s = a_.manifest_.sampling;
  auto check = [this](const char* field, const std::optional<float>& value, float low, float high) {
    if (!value || (std::isfinite(*value) && *value >= low && *value <= high)) return Status();
    return BadField(std::string("sampling.") + field, std::to_string(*value),
                    std::to_string(low) + " to " + std::to_string(high));
  };
  QRT_RETURN_IF_ERROR(check("temperature", s.temperature, 0, 1000));
  QRT_RETURN_IF_ERROR(check("top_p", s.top_p, 0, 1));
  QRT_RETURN_IF_ERROR(check("min_p", s.min_p, 0, 1));
  QRT_RETURN_IF_ERROR(check("repeat_penalty", s.repeat_penalty, 1e-3f, 1000));
  QRT_RETURN_IF_ERROR(check("presence_penalty", s.presence_penalty, -1000, 1000));
  QRT_RETURN_IF_ERROR(check("frequency_penalty", s.frequency_penalty, -1000, 1000));
  if (s.top_k && *s.top_k < 0) return BadField("sampling.top_k", std::to_string(*s.top_k), "at least 0");
  if (s.penalty_window && (*s.penalty_window < -1 || *s.penalty_window > QRT_SAMPLING_MAX_WINDOW)) {
    return BadField("sampling.penalty_window", std::to_string(*s.penalty_window),
                    "-1 to " + std::to_string(QRT_SAMPLING_MAX_WINDOW));
  }
  return Status();
}

}  // namespace qrt
