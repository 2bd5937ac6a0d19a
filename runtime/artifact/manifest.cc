#include <algorithm>
#include <cmath>

#include "runtime/abi/manifest_generated.h"
#include "runtime/artifact/verifier.h"
#include "runtime/base/checked.h"

namespace qrt {
namespace {

// Limits far above anything real: a table may point many times to the same bytes, so the size of the section
// does not bound what it unfolds to.
constexpr uint64_t kMaxManifestBytes = 16 << 20;
constexpr uint32_t kMaxStates = 1 << 16, kMaxPrograms = 4096, kMaxCode = 64, kMaxFeatures = 64, kMaxShape = 8;
constexpr uint32_t kMaxEog = 4096, kMaxFormats = 256, kMaxOptions = 1024, kMaxString = 1 << 16;
constexpr uint32_t kMaxRows = 1 << 20;
constexpr uint64_t kMaxArenaBytes = uint64_t{1} << 40, kMaxContext = INT32_MAX;
// With each list within its limit, all together could still take gigabytes: many states of one long name.
// qcc's own manifests share nothing, and the plain form of an entry takes less than six times its place
// there.
constexpr uint64_t kMostUnfolding = 16;

std::string Text(const flatbuffers::String* s) {
  return s == nullptr ? std::string() : s->str();
}

template <typename T>
std::optional<T> Optional(flatbuffers::Optional<T> value) {
  return value.has_value() ? std::optional<T>(*value) : std::nullopt;
}

}  // namespace

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

  const uint64_t most = kMostUnfolding * bytes.size();
  uint64_t unfolded = 0;  // bytes; cannot wrap, as each list and text is within its limit
  // Before a list or text is copied: its length, and room for entries of `entry_bytes`.
  auto check_count = [&](const char* field, uint64_t n, uint64_t limit, uint64_t entry_bytes) {
    if (n > limit) {
      return BadField(std::string("the length of ") + field, std::to_string(n),
                      "at most " + std::to_string(limit));
    }
    unfolded += n * entry_bytes;
    if (unfolded <= most) return Status();
    return BadField("what the lists unfold to", "more than " + std::to_string(most) + " bytes at " + field,
                    "at most " + std::to_string(kMostUnfolding) + " times the manifest's " +
                        std::to_string(bytes.size()) + ": lists share bytes");
  };
  auto check_string = [&](const char* field, const flatbuffers::String* s) {
    return check_count(field, s == nullptr ? 0 : s->size(), kMaxString, 1);
  };

  const abi::Model& model = *fb.model();
  QRT_RETURN_IF_ERROR(check_string("model.arch", model.arch()));
  QRT_RETURN_IF_ERROR(check_string("model.name", model.name()));
  m.model = {Text(model.arch()),    Text(model.name()),     model.vocab_size(),
             model.logits_stride(), model.context_length(), model.embedding_length()};
  m.numerics = static_cast<Numerics>(fb.numerics());
  m.kv_element = static_cast<Element>(fb.kv_element());
  m.weights_bytes = fb.weights_bytes();
  m.state_bytes = fb.state_bytes();
  m.kv_bytes_per_token = fb.kv_bytes_per_token();

  QRT_RETURN_IF_ERROR(check_count("states", fb.states()->size(), kMaxStates, sizeof(StateInfo)));
  for (const abi::State* s : *fb.states()) {
    QRT_RETURN_IF_ERROR(check_string("states.name", s->name()));
    QRT_RETURN_IF_ERROR(check_count("states.shape", s->shape()->size(), kMaxShape, sizeof(uint64_t)));
    m.states.push_back({Text(s->name()), static_cast<StateKind>(s->kind()), s->layer(),
                        std::vector<uint64_t>(s->shape()->begin(), s->shape()->end()),
                        static_cast<Element>(s->element()), s->offset(), s->bytes()});
  }
  QRT_RETURN_IF_ERROR(check_count("programs", fb.programs()->size(), kMaxPrograms, sizeof(ProgramInfo)));
  for (const abi::Program* p : *fb.programs()) {
    QRT_RETURN_IF_ERROR(check_string("programs.name", p->name()));
    m.programs.push_back({Text(p->name()), static_cast<Phase>(p->phase()), p->rows(), p->arena_bytes(),
                          p->dispatches(), p->barriers()});
  }
  QRT_RETURN_IF_ERROR(check_count("code", fb.code()->size(), kMaxCode, sizeof(CodeInfo)));
  for (const abi::Code* c : *fb.code()) {
    QRT_RETURN_IF_ERROR(check_string("code.target", c->target()));
    QRT_RETURN_IF_ERROR(check_string("code.isa", c->isa()));
    QRT_RETURN_IF_ERROR(
        check_count("code.features", c->features()->size(), kMaxFeatures, sizeof(std::string)));
    CodeInfo info{Text(c->target()), Text(c->isa()), {}, c->section(), c->weights_section()};
    for (const flatbuffers::String* f : *c->features()) {
      QRT_RETURN_IF_ERROR(check_string("code.features", f));
      info.features.push_back(Text(f));
    }
    m.code.push_back(std::move(info));
  }
  if (const abi::Tokenizer* t = fb.tokenizer()) {
    QRT_RETURN_IF_ERROR(check_string("tokenizer.pre", t->pre()));
    QRT_RETURN_IF_ERROR(check_count("tokenizer.eog", t->eog()->size(), kMaxEog, sizeof(uint32_t)));
    m.tokenizer = TokenizerInfo{Text(t->pre()),
                                t->bos(),
                                t->eos(),
                                t->eot(),
                                t->pad(),
                                t->add_bos(),
                                std::vector<uint32_t>(t->eog()->begin(), t->eog()->end())};
    tokenizer_section_ = t->section();
    QRT_RETURN_IF_ERROR(CheckReference("tokenizer.section", *tokenizer_section_, QBIN_SECTION_TOKENIZER));
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
  chat_template_section_ = Optional(fb.chat_template_section());
  if (chat_template_section_) {
    QRT_RETURN_IF_ERROR(
        CheckReference("chat_template_section", *chat_template_section_, QBIN_SECTION_CHAT_TEMPLATE));
  }
  goldens_section_ = Optional(fb.goldens_section());
  if (goldens_section_) {
    QRT_RETURN_IF_ERROR(CheckReference("goldens_section", *goldens_section_, QBIN_SECTION_GOLDENS));
  }
  QRT_RETURN_IF_ERROR(check_count("formats", fb.formats()->size(), kMaxFormats, sizeof(FormatUse)));
  for (const abi::FormatUse* f : *fb.formats()) {
    QRT_RETURN_IF_ERROR(check_string("formats.name", f->name()));
    m.formats.push_back({Text(f->name()), f->tensors(), f->source_bytes(), f->packed_bytes()});
  }
  const abi::Provenance& p = *fb.provenance();
  QRT_RETURN_IF_ERROR(check_string("provenance.compiler", p.compiler()));
  QRT_RETURN_IF_ERROR(check_string("provenance.source_name", p.source_name()));
  QRT_RETURN_IF_ERROR(
      check_count("provenance.options", p.options()->size(), kMaxOptions, 2 * sizeof(std::string)));
  m.provenance = {Text(p.compiler()), {}, Text(p.source_name()), p.source_bytes(), {}};
  for (const abi::Option* o : *p.options()) {
    QRT_RETURN_IF_ERROR(check_string("provenance.options", o->key()));
    QRT_RETURN_IF_ERROR(check_string("provenance.options", o->value()));
    m.provenance.options.emplace_back(Text(o->key()), Text(o->value()));
  }
  if (p.source_hash()->size() != m.provenance.source_hash.size()) {
    return BadField("the length of provenance.source_hash", std::to_string(p.source_hash()->size()), "16");
  }
  std::copy(p.source_hash()->begin(), p.source_hash()->end(), m.provenance.source_hash.begin());
  return Status();
}

Status ArtifactVerifier::CheckModel() {
  const Manifest& m = a_.manifest_;
  if (m.model.arch.empty()) return BadField("model.arch", "empty", "a name");
  if (m.model.vocab_size == 0 || m.model.vocab_size > INT32_MAX) {
    return BadField("model.vocab_size", std::to_string(m.model.vocab_size), "1 to 2147483647");
  }
  if (m.model.logits_stride < m.model.vocab_size || m.model.logits_stride > INT32_MAX) {
    return BadField("model.logits_stride", std::to_string(m.model.logits_stride),
                    std::to_string(m.model.vocab_size) + " (vocab_size) to 2147483647");
  }
  if (m.model.context_length == 0 || m.model.context_length > kMaxContext) {
    return BadField("model.context_length", std::to_string(m.model.context_length),
                    "1 to " + std::to_string(kMaxContext));
  }
  if (m.model.embedding_length == 0 || m.model.embedding_length > INT32_MAX) {
    return BadField("model.embedding_length", std::to_string(m.model.embedding_length), "1 to 2147483647");
  }
  if (m.numerics > Numerics::kInt8) {
    return BadField("numerics", std::to_string(static_cast<int>(m.numerics)), "0 (f32) or 1 (int8)");
  }
  if (m.kv_element > Element::kF16) {
    return BadField("kv_element", std::to_string(static_cast<int>(m.kv_element)), "0 (f32) or 1 (f16)");
  }
  if (m.state_bytes > kMaxArenaBytes || m.kv_bytes_per_token > kMaxArenaBytes) {
    return BadField(m.state_bytes > kMaxArenaBytes ? "state_bytes" : "kv_bytes_per_token",
                    std::to_string(std::max(m.state_bytes, m.kv_bytes_per_token)),
                    "at most " + std::to_string(kMaxArenaBytes));
  }
  return Status();
}

Status ArtifactVerifier::CheckStates() {
  const Manifest& m = a_.manifest_;
  std::vector<const StateInfo*> order;
  for (const StateInfo& s : m.states) {
    const std::string field = "state '" + s.name + "'";
    if (s.kind > StateKind::kKv) {
      return BadField(field + ".kind", std::to_string(static_cast<int>(s.kind)), "0 to 2");
    }
    if (s.element > Element::kF16) {
      return BadField(field + ".element", std::to_string(static_cast<int>(s.element)), "0 or 1");
    }
    const uint64_t area = s.kind == StateKind::kKv ? m.kv_bytes_per_token : m.state_bytes;
    if (s.bytes == 0 || !InRange(s.offset, s.bytes, area)) {
      return BadField(field, std::to_string(s.bytes) + " bytes at " + std::to_string(s.offset),
                      "a range inside the " + std::to_string(area) + " bytes of its area");
    }
    Checked need = Bytes(s.element);
    for (uint64_t extent : s.shape) need = need * extent;
    if (s.shape.empty() || !need.ok() || need.value() == 0 || need.value() > s.bytes) {
      return BadField(field + ".shape",
                      need.ok() ? std::to_string(need.value()) + " bytes" : "too large to count",
                      "1 to " + std::to_string(s.bytes) + " bytes");
    }
    // K and V of that shape lie in it. The engine makes rows of it by the shape alone.
    if (s.kind == StateKind::kKv && s.bytes != (need * 2).value()) {
      return BadField(field + ".bytes", std::to_string(s.bytes),
                      "twice the " + std::to_string(need.value()) + " bytes of its shape: K and V");
    }
    if (s.offset % Bytes(s.element) != 0) {
      return BadField(field + ".offset", std::to_string(s.offset),
                      "a multiple of " + std::to_string(Bytes(s.element)));
    }
    order.push_back(&s);
  }
  std::sort(order.begin(), order.end(), [](const StateInfo* a, const StateInfo* b) {
    return std::pair(a->kind == StateKind::kKv, a->offset) < std::pair(b->kind == StateKind::kKv, b->offset);
  });
  for (size_t i = 1; i < order.size(); ++i) {
    const StateInfo &a = *order[i - 1], &b = *order[i];
    if ((a.kind == StateKind::kKv) == (b.kind == StateKind::kKv) && b.offset < a.offset + a.bytes) {
      return BadField(
          "state '" + b.name + "'.offset", std::to_string(b.offset),
          "at least " + std::to_string(a.offset + a.bytes) + ", the end of state '" + a.name + "'");
    }
  }
  return Status();
}

Status ArtifactVerifier::CheckPrograms() {
  const Manifest& m = a_.manifest_;
  if (m.programs.empty()) return BadField("the length of programs", "0", "at least 1");
  std::vector<std::pair<Phase, uint32_t>> buckets;
  for (const ProgramInfo& p : m.programs) {
    const std::string field = "program '" + p.name + "'";
    if (p.phase > Phase::kHead) {
      return BadField(field + ".phase", std::to_string(static_cast<int>(p.phase)), "0 to 2");
    }
    if (p.rows == 0 || p.rows > kMaxRows) {
      return BadField(field + ".rows", std::to_string(p.rows), "1 to " + std::to_string(kMaxRows));
    }
    if (p.arena_bytes > kMaxArenaBytes) {
      return BadField(field + ".arena_bytes", std::to_string(p.arena_bytes),
                      "at most " + std::to_string(kMaxArenaBytes));
    }
    buckets.emplace_back(p.phase, p.rows);
  }
  std::sort(buckets.begin(), buckets.end());
  const auto twice = std::adjacent_find(buckets.begin(), buckets.end());
  if (twice != buckets.end()) {
    return BadField(
        "programs",
        std::string("two of phase ") + Name(twice->first) + " for " + std::to_string(twice->second) + " rows",
        "one for each phase and bucket");
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
  if (s.penalty_window && *s.penalty_window < -1) {
    return BadField("sampling.penalty_window", std::to_string(*s.penalty_window), "at least -1");
  }
  return Status();
}

}  // namespace qrt
