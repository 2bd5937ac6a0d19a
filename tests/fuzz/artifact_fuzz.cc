// Artifact::FromBytes on any bytes: no crash, and what it accepts is safe to read. Each input is tried as it
// is and with its hashes made right, so that the search gets past them.
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "runtime/artifact/artifact.h"

namespace {

using qrt::Artifact;
using qrt::Hash128;

struct Free {
  void operator()(void* p) const { std::free(p); }
};

void Require(bool condition) {
  if (!condition) std::abort();
}

void Use(const Artifact& artifact) {
  const qrt::Manifest& m = artifact.manifest();
  Require(!m.programs.empty() && !m.code.empty());
  uint64_t sum = 0;
  for (size_t i = 0; i < m.code.size(); ++i) {
    Require(m.code[i].section < artifact.sections().size());
    if (m.code[i].target != "cpu") continue;
    const std::span<const uint8_t> code = artifact.code(i);
    for (size_t k = 0; k < m.programs.size(); ++k) {
      uint32_t entry;
      std::memcpy(&entry, code.data() + sizeof(qrt_code_header) + 4 * k, sizeof entry);
      Require(entry < code.size());
      sum += code[entry];
    }
    sum += artifact.weights(i).front() + artifact.weights(i).back();
  }
  for (const qrt::ProgramInfo& p : m.programs) {
    const auto streams = static_cast<int64_t>(m.streams.size());
    Require(p.facts.takes != 0 && p.facts.stream < streams && p.facts.leaves < streams);
    Require(((p.facts.takes & qrt::kStream) != 0) == (p.facts.stream >= 0) && p.facts.leaves >= -1);
    Require(((p.facts.takes & qrt::kGiven) != 0) == (p.facts.given_cols > 0));
    for (uint32_t state : p.facts.advances) Require(state < m.states.size());
  }
  for (const qrt::StateInfo& s : m.states) {
    const uint64_t area = s.kind == qrt::StateKind::kKV ? m.kv_bytes_per_token : m.state_bytes;
    Require(s.offset <= area && s.bytes <= area - s.offset);
    uint64_t shape = qrt::Bytes(s.element);
    for (const uint64_t extent : s.shape) shape *= extent;
    Require(s.kind == qrt::StateKind::kKV ? s.bytes == 2 * shape : s.bytes >= shape);
  }
  if (artifact.tokenizer()) {
    const qrt::TokenizerTables& t = *artifact.tokenizer();
    Require(m.tokenizer.has_value() && t.n_tokens <= m.model.vocab_size);
    for (uint32_t i = 0; i < t.n_tokens; ++i) {
      for (char c : t.bytes(i)) sum += static_cast<unsigned char>(c);
    }
    for (uint32_t id : t.byte_token) sum += t.bytes(id).size();
    for (const qrt_tokenizer_merge& merge : t.merges) {
      sum += t.bytes(merge.left).size() + t.bytes(merge.right).size() + t.bytes(merge.result).size();
    }
    for (uint32_t id : t.special) Require(!t.bytes(id).empty());
    for (uint32_t id : m.tokenizer->eog) Require(id < t.n_tokens);
  }
  if (const auto text = artifact.chat_template()) {
    for (char c : *text) sum += static_cast<unsigned char>(c);
  }
  if (artifact.goldens()) {
    for (int32_t id : artifact.goldens()->tokens) Require(static_cast<uint32_t>(id) < m.model.vocab_size);
  }
  volatile uint64_t keep = sum;
  (void)keep;
}

void Try(std::span<const uint8_t> bytes) {
  auto opened = Artifact::FromBytes(bytes, "fuzz");
  if (opened.ok()) {
    Use(**opened);
    (void)(*opened)->VerifyWeights();
  } else {
    Require(opened.status().number() != 0 && !opened.status().message().empty());
  }
}

// Sections first: the header's hash covers theirs.
void Seal(std::span<uint8_t> file) {
  if (file.size() < sizeof(qbin_header)) return;
  qbin_header header;
  std::memcpy(&header, file.data(), sizeof header);
  const size_t fit = (file.size() - sizeof header) / sizeof(qbin_section);
  if (header.section_count > fit) return;
  for (uint32_t i = 0; i < header.section_count; ++i) {
    uint8_t* at = file.data() + sizeof header + i * sizeof(qbin_section);
    qbin_section s;
    std::memcpy(&s, at, sizeof s);
    if (s.offset > file.size() || s.size > file.size() - s.offset) continue;
    const Hash128 hash = qrt::HashOf(file.subspan(s.offset, s.size));
    std::memcpy(s.hash, hash.data(), sizeof s.hash);
    std::memcpy(at, &s, sizeof s);
  }
  std::memset(header.hash, 0, sizeof header.hash);
  header.file_bytes = file.size();
  std::memcpy(file.data(), &header, sizeof header);
  const Hash128 hash =
      qrt::HashOf(file.first(sizeof header + size_t{header.section_count} * sizeof(qbin_section)));
  std::memcpy(file.data() + offsetof(qbin_header, hash), hash.data(), hash.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  void* memory = nullptr;
  if (posix_memalign(&memory, 64, size == 0 ? 1 : size) != 0) return 0;
  const std::unique_ptr<void, Free> owner(memory);
  const std::span<uint8_t> bytes(static_cast<uint8_t*>(memory), size);
  if (size != 0) std::memcpy(bytes.data(), data, size);
  Try(bytes);
  Seal(bytes);
  Try(bytes);
  return 0;
}
