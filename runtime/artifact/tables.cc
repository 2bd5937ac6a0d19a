// The sections that the manifest refers to: code, tokenizer, chat template, goldens.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>

#include "runtime/artifact/code_basis.h"
#include "runtime/artifact/verifier.h"
#include "runtime/base/checked.h"

namespace qrt {
namespace {

template <typename T>
std::span<const T> TableAt(std::span<const uint8_t> section, uint64_t offset, uint64_t count) {
  return {reinterpret_cast<const T*>(section.data() + offset), static_cast<size_t>(count)};
}

// Length of the longest valid UTF-8 prefix (no overlong forms, no surrogates, nothing above U+10FFFF).
size_t ValidUtf8Prefix(std::span<const uint8_t> s) {
  size_t i = 0;
  while (i < s.size()) {
    const uint8_t lead = s[i];
    size_t more = lead < 0x80 ? 0 : lead < 0xc2 ? 4 : lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : lead < 0xf5 ? 3 : 4;
    if (more == 4 || s.size() - i <= more) return i;
    for (size_t k = 1; k <= more; ++k) {
      if ((s[i + k] & 0xc0) != 0x80) return i;
    }
    if ((lead == 0xe0 && s[i + 1] < 0xa0) || (lead == 0xed && s[i + 1] > 0x9f) ||
        (lead == 0xf0 && s[i + 1] < 0x90) || (lead == 0xf4 && s[i + 1] > 0x8f)) {
      return i;
    }
    i += more + 1;
  }
  return i;
}

}  // namespace

Status ArtifactVerifier::CheckCode() {
  const Manifest& m = a_.manifest_;
  if (m.code.empty()) return BadField("the length of code", "0", "at least 1");
  uint64_t largest = 0;
  for (const CodeInfo& c : m.code) {
    const std::string field = "code '" + c.isa + "'";
    // Code of other targets is not read, but listed with its size: its sections must be there, of whatever
    // kind.
    QRT_RETURN_IF_ERROR(CheckIndex(field + ".section", c.section));
    QRT_RETURN_IF_ERROR(CheckIndex(field + ".weights_section", c.weights_section));
    if (!KnownTarget(c.target)) continue;
    QRT_RETURN_IF_ERROR(CheckReference(field + ".section", c.section, QBIN_SECTION_CODE));
    QRT_RETURN_IF_ERROR(CheckReference(field + ".weights_section", c.weights_section, QBIN_SECTION_WEIGHTS));
    largest = std::max(largest, a_.sections_[c.weights_section].size);
  }
  if (largest != 0 && m.weights_bytes != largest) {
    return BadField("weights_bytes", std::to_string(m.weights_bytes),
                    std::to_string(largest) + ", the size of the largest weight section");
  }
  for (const CodeInfo& c : m.code) {
    if (!KnownTarget(c.target)) continue;
    const uint64_t bytes = a_.SectionBytes(c.section).size();
    if (bytes <= QBIN_BASIS_BYTES) {
      return CorruptIn(4016, c.section, 0,
                       "the code has " + std::to_string(bytes) + " bytes, what it was made for takes " +
                           std::to_string(QBIN_BASIS_BYTES) + " of them");
    }
    // What code of a GPU is otherwise is checked where it is used: runtime/artifact/gpu_code.h.
    if (c.target == "cpu") QRT_RETURN_IF_ERROR(CheckCpuCode(c));
    QRT_RETURN_IF_ERROR(CheckBasis(c));
  }
  return Status();
}

Status ArtifactVerifier::CheckBasis(const CodeInfo& code) const {
  const std::span<const uint8_t> section = a_.SectionBytes(code.section);
  Hash128 stored;
  std::copy_n(section.end() - QBIN_BASIS_BYTES, QBIN_BASIS_BYTES, stored.begin());
  const Hash128 found = CodeBasis(a_.manifest_.model, a_.manifest_, code.section,
                                  [this](uint32_t index) { return a_.sections_[index].size; });
  if (found == stored) return Status();
  return CorruptIn(4026, code.section, section.size() - QBIN_BASIS_BYTES,
                   "the code '" + code.isa + "' for " + code.target +
                       " was made for other programs, states or sizes than the manifest's: their hash is " +
                       Hex(found) + ", expected " + Hex(stored));
}

Status ArtifactVerifier::CheckCpuCode(const CodeInfo& c) const {
  const Manifest& m = a_.manifest_;
  const std::span<const uint8_t> section = a_.SectionBytes(c.section);
  const std::span<const uint8_t> blob = section.first(section.size() - QBIN_BASIS_BYTES);
  qrt_code_header header;
  if (blob.size() < sizeof header) {
    return CorruptIn(4016, c.section, 0,
                     "the code has " + std::to_string(blob.size()) + " bytes, its header takes " +
                         std::to_string(sizeof header));
  }
  std::memcpy(&header, blob.data(), sizeof header);
  if (header.magic != QRT_CODE_MAGIC) {
    return CorruptIn(4016, c.section, 0, "the code does not begin with its mark");
  }
  if (header.abi != QRT_PROGRAM_ABI) {
    return OtherInterface(m, "the code was made for program interface", header.abi, QRT_PROGRAM_ABI,
                          a_.path_ + ", section " + std::to_string(c.section) + " (code)");
  }
  if (header.n_entries != m.programs.size()) {
    return CorruptIn(4016, c.section, offsetof(qrt_code_header, n_entries),
                     "the code has " + std::to_string(header.n_entries) + " entries, the manifest " +
                         std::to_string(m.programs.size()) + " programs");
  }
  if (header.thread_scratch % 64 != 0 || header.thread_scratch > QRT_MAX_THREAD_SCRATCH) {
    return CorruptIn(4016, c.section, offsetof(qrt_code_header, thread_scratch),
                     "the code asks for " + std::to_string(header.thread_scratch) +
                         " bytes of scratch a thread, expected a multiple of 64, at most " +
                         std::to_string(QRT_MAX_THREAD_SCRATCH));
  }
  if (header.shared_scratch % 64 != 0 || header.shared_scratch > QRT_MAX_SHARED_SCRATCH) {
    return CorruptIn(4016, c.section, offsetof(qrt_code_header, shared_scratch),
                     "the code asks for " + std::to_string(header.shared_scratch) +
                         " bytes of shared scratch, expected a multiple of 64, at most " +
                         std::to_string(QRT_MAX_SHARED_SCRATCH));
  }
  if (header.n_stages != m.stages.size()) {
    return CorruptIn(4016, c.section, offsetof(qrt_code_header, n_stages),
                     "the code has " + std::to_string(header.n_stages) + " stages, the manifest " +
                         std::to_string(m.stages.size()));
  }
  const uint64_t entries_end = sizeof header + uint64_t{header.n_entries} * sizeof(uint32_t);
  if (entries_end > blob.size()) {
    return CorruptIn(4016, c.section, sizeof header,
                     "the code has " + std::to_string(blob.size()) + " bytes, its entry table ends at " +
                         std::to_string(entries_end));
  }
  for (uint32_t i = 0; i < header.n_entries; ++i) {
    const uint64_t at = sizeof header + uint64_t{i} * sizeof(uint32_t);
    uint32_t entry;
    std::memcpy(&entry, blob.data() + at, sizeof entry);
    if (entry < entries_end || entry >= blob.size()) {
      return CorruptIn(4016, c.section, at,
                       "program '" + m.programs[i].name + "' begins at " + std::to_string(entry) +
                           " of the code, expected " + std::to_string(entries_end) + " to " +
                           std::to_string(blob.size() - 1));
    }
  }
  return Status();
}

Status ArtifactVerifier::BadTokenizer(uint64_t offset, std::string message) const {
  return CorruptIn(4018, a_.manifest_.tokenizer->section, offset, std::move(message));
}

Status ArtifactVerifier::ReadTokenizer() {
  const std::span<const uint8_t> bytes = a_.SectionBytes(a_.manifest_.tokenizer->section);
  qrt_tokenizer_header h;
  if (bytes.size() < sizeof h) return BadTokenizer(0, "the tokenizer is shorter than its header");
  std::memcpy(&h, bytes.data(), sizeof h);
  if (h.magic != QRT_TOKENIZER_MAGIC) return BadTokenizer(0, "the tokenizer does not begin with its mark");
  if (h.abi != QRT_TOKENIZER_ABI) {
    return OtherInterface(
        a_.manifest_, "the tokenizer tables have version", h.abi, QRT_TOKENIZER_ABI,
        a_.path_ + ", section " + std::to_string(a_.manifest_.tokenizer->section) + " (tokenizer)");
  }
  if (h.n_tokens == 0 || h.n_tokens > a_.manifest_.model.vocab_size) {
    return BadTokenizer(offsetof(qrt_tokenizer_header, n_tokens),
                        "the tokenizer has " + std::to_string(h.n_tokens) + " tokens, expected 1 to " +
                            std::to_string(a_.manifest_.model.vocab_size) + " (the model's vocabulary)");
  }
  TokenizerTables t;
  QRT_RETURN_IF_ERROR(PlaceTokenizerTables(h, &t));
  QRT_RETURN_IF_ERROR(CheckTokens(h, t));
  QRT_RETURN_IF_ERROR(CheckMerges(h, t));
  QRT_RETURN_IF_ERROR(CheckSpecialTokens(h, t));
  a_.tokenizer_ = t;
  return Status();
}

Status ArtifactVerifier::PlaceTokenizerTables(const qrt_tokenizer_header& h, TokenizerTables* out) const {
  const std::span<const uint8_t> bytes = a_.SectionBytes(a_.manifest_.tokenizer->section);
  const struct {
    const char* name;
    uint64_t offset;
    Checked size;
  } tables[] = {
      {"token bytes", h.blob_offset, Checked(h.blob_bytes)},
      {"token starts", h.starts_offset, (Checked(h.n_tokens) + 1) * sizeof(uint32_t)},
      {"token types", h.types_offset, Checked(h.n_tokens)},
      {"byte tokens", h.byte_token_offset, Checked(256) * sizeof(uint32_t)},
      {"merges", h.merges_offset, Checked(h.n_merges) * sizeof(qrt_tokenizer_merge)},
      {"special tokens", h.special_offset, Checked(h.n_special) * sizeof(uint32_t)},
  };
  for (const auto& t : tables) {
    if (!t.size.ok() || !InRange(t.offset, t.size.value(), bytes.size()) || t.offset < sizeof h ||
        t.offset % 8 != 0) {
      return BadTokenizer(0, std::string("the table of ") + t.name + " lies at " + std::to_string(t.offset) +
                                 " with " + std::to_string(t.size.value()) +
                                 " bytes, expected a multiple of 8 inside the " +
                                 std::to_string(bytes.size()) + " bytes after the header");
    }
  }
  TokenizerTables& t = *out;
  t.n_tokens = h.n_tokens;
  t.max_token_bytes = h.max_token_bytes;
  t.blob = bytes.subspan(h.blob_offset, h.blob_bytes);
  t.starts = TableAt<uint32_t>(bytes, h.starts_offset, uint64_t{h.n_tokens} + 1);
  t.types = TableAt<uint8_t>(bytes, h.types_offset, h.n_tokens);
  t.byte_token = TableAt<uint32_t>(bytes, h.byte_token_offset, 256);
  t.merges = TableAt<qrt_tokenizer_merge>(bytes, h.merges_offset, h.n_merges);
  t.special = TableAt<uint32_t>(bytes, h.special_offset, h.n_special);
  return Status();
}

Status ArtifactVerifier::CheckTokens(const qrt_tokenizer_header& h, const TokenizerTables& t) const {
  uint32_t longest = 0;
  if (t.starts[0] != 0 || t.starts[h.n_tokens] != h.blob_bytes) {
    return BadTokenizer(h.starts_offset, "the token starts do not run from 0 to the " +
                                             std::to_string(h.blob_bytes) + " bytes of all tokens");
  }
  for (uint32_t i = 0; i < h.n_tokens; ++i) {
    if (t.starts[i + 1] < t.starts[i]) {
      return BadTokenizer(h.starts_offset + 4 * (uint64_t{i} + 1),
                          "token " + std::to_string(i) + " ends at " + std::to_string(t.starts[i + 1]) +
                              ", before its start " + std::to_string(t.starts[i]));
    }
    if (t.types[i] < QRT_TOKEN_NORMAL || t.types[i] > QRT_TOKEN_BYTE) {
      return BadTokenizer(h.types_offset + i, "token " + std::to_string(i) + " has type " +
                                                  std::to_string(t.types[i]) + ", expected 1 to 6");
    }
    longest = std::max(longest, t.starts[i + 1] - t.starts[i]);
  }
  if (longest != h.max_token_bytes) {
    return BadTokenizer(offsetof(qrt_tokenizer_header, max_token_bytes),
                        "the longest token has " + std::to_string(longest) + " bytes, the header says " +
                            std::to_string(h.max_token_bytes));
  }
  for (uint32_t b = 0; b < 256; ++b) {
    const uint32_t id = t.byte_token[b];
    if (id >= h.n_tokens || t.bytes(id).size() != 1 || static_cast<uint8_t>(t.bytes(id)[0]) != b) {
      return BadTokenizer(h.byte_token_offset + 4 * b, "token " + std::to_string(id) + " stands for byte " +
                                                           std::to_string(b) + ", but is not it");
    }
    // So there is always something that a sampler can choose.
    if (t.types[id] == QRT_TOKEN_UNUSED) {
      return BadTokenizer(h.types_offset + id, "token " + std::to_string(id) + " stands for byte " +
                                                   std::to_string(b) + ", but its type is " +
                                                   std::to_string(QRT_TOKEN_UNUSED) + ", unused");
    }
  }
  return Status();
}

Status ArtifactVerifier::CheckMerges(const qrt_tokenizer_header& h, const TokenizerTables& t) const {
  std::vector<bool> ranks(h.n_merges);
  for (uint32_t i = 0; i < h.n_merges; ++i) {
    const qrt_tokenizer_merge& merge = t.merges[i];
    const uint64_t at = h.merges_offset + uint64_t{i} * sizeof merge;
    if (merge.left >= h.n_tokens || merge.right >= h.n_tokens || merge.result >= h.n_tokens) {
      return BadTokenizer(at, "merge " + std::to_string(i) + " names a token outside the vocabulary of " +
                                  std::to_string(h.n_tokens));
    }
    if (merge.rank >= h.n_merges || ranks[merge.rank]) {
      return BadTokenizer(at, "merge " + std::to_string(i) + " has rank " + std::to_string(merge.rank) +
                                  ", expected one below " + std::to_string(h.n_merges) +
                                  " that no other has");
    }
    ranks[merge.rank] = true;
    if (i > 0 &&
        std::pair(t.merges[i - 1].left, t.merges[i - 1].right) >= std::pair(merge.left, merge.right)) {
      return BadTokenizer(
          at, "merge " + std::to_string(i) + " is not after the one before in the order of (left, right)");
    }
  }
  return Status();
}

Status ArtifactVerifier::CheckSpecialTokens(const qrt_tokenizer_header& h, const TokenizerTables& t) const {
  const auto special = [&t](uint32_t id) {
    return t.types[id] >= QRT_TOKEN_UNKNOWN && t.types[id] <= QRT_TOKEN_USER_DEFINED && !t.bytes(id).empty();
  };
  uint32_t specials = 0;
  for (uint32_t i = 0; i < h.n_tokens; ++i) specials += special(i);
  if (specials != h.n_special) {
    return BadTokenizer(offsetof(qrt_tokenizer_header, n_special),
                        "the list of special tokens has " + std::to_string(h.n_special) +
                            " entries, the types give " + std::to_string(specials));
  }
  for (uint32_t i = 0; i < h.n_special; ++i) {
    const uint32_t id = t.special[i];
    const uint64_t at = h.special_offset + 4 * uint64_t{i};
    if (id >= h.n_tokens || !special(id)) {
      return BadTokenizer(at, "entry " + std::to_string(i) + " of the special tokens, id " +
                                  std::to_string(id) + ", is no special token");
    }
    if (i == 0) continue;
    const uint32_t before = t.special[i - 1];
    const size_t was = t.bytes(before).size(), is = t.bytes(id).size();
    if (was < is || (was == is && before >= id)) {
      return BadTokenizer(at, "entry " + std::to_string(i) +
                                  " of the special tokens is out of order (longest first, then id)");
    }
  }
  return Status();
}

Status ArtifactVerifier::CheckTokenizerInfo() {
  const TokenizerInfo& info = *a_.manifest_.tokenizer;
  const uint32_t n = a_.tokenizer_->n_tokens;
  const std::string below = "below " + std::to_string(n) + " (the number of tokens)";
  const struct {
    const char* name;
    int32_t id;
  } ids[] = {{"bos", info.bos}, {"eos", info.eos}, {"eot", info.eot}, {"pad", info.pad}};
  for (const auto& [name, id] : ids) {
    if (id < -1 || (id >= 0 && static_cast<uint32_t>(id) >= n)) {
      return BadField(std::string("tokenizer.") + name, std::to_string(id), "-1 or " + below);
    }
  }
  if (info.add_bos && info.bos < 0)
    return BadField("tokenizer.add_bos", "true", "false: there is no bos token");
  for (size_t i = 0; i < info.eog.size(); ++i) {
    if (info.eog[i] >= n || (i > 0 && info.eog[i - 1] >= info.eog[i])) {
      return BadField("tokenizer.eog[" + std::to_string(i) + "]", std::to_string(info.eog[i]),
                      "rising ids " + below);
    }
  }
  if (info.pre.empty()) return BadField("tokenizer.pre", "empty", "a name");
  return Status();
}

Status ArtifactVerifier::ReadChatTemplate(uint32_t section) {
  const std::span<const uint8_t> bytes = a_.SectionBytes(section);
  const size_t valid = ValidUtf8Prefix(bytes);
  if (valid != bytes.size()) return CorruptIn(4019, section, valid, "the chat template is not valid UTF-8");
  a_.chat_template_ = std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return Status();
}

Status ArtifactVerifier::ReadGoldens(uint32_t section) {
  const std::span<const uint8_t> bytes = a_.SectionBytes(section);
  auto bad = [&](uint64_t offset, std::string message) {
    return CorruptIn(4020, section, offset, std::move(message));
  };
  const uint32_t vocab = a_.manifest_.model.vocab_size;
  qrt_goldens_header h;
  if (bytes.size() < sizeof h) return bad(0, "the goldens are shorter than their header");
  std::memcpy(&h, bytes.data(), sizeof h);
  if (h.magic != QRT_GOLDENS_MAGIC) return bad(0, "the goldens do not begin with their mark");
  if (h.abi != QRT_GOLDENS_ABI) {
    return OtherInterface(a_.manifest_, "the goldens have version", h.abi, QRT_GOLDENS_ABI,
                          a_.path_ + ", section " + std::to_string(section) + " (goldens)");
  }
  const Checked row_bytes = Checked(sizeof(qrt_golden_row)) + Checked(h.n_top) * 8;
  const Checked size = Checked(sizeof h) + Checked(h.n_tokens) * 4 + Checked(h.n_rows) * row_bytes;
  if (!size.is(bytes.size())) {
    return bad(0, "the goldens' counts need " + (size.ok() ? std::to_string(size.value()) : "too many") +
                      " bytes, the section has " + std::to_string(bytes.size()));
  }
  if (h.n_tokens == 0 || !std::isfinite(h.tolerance) || h.tolerance < 0 || !std::isfinite(h.rms_tolerance) ||
      h.rms_tolerance < 0) {
    return bad(0, "the goldens have no tokens or no finite tolerance");
  }
  Goldens goldens;
  goldens.tolerance = h.tolerance;
  goldens.rms_tolerance = h.rms_tolerance;
  goldens.tokens.resize(h.n_tokens);
  uint64_t at = sizeof h;
  std::memcpy(goldens.tokens.data(), bytes.data() + at, 4 * uint64_t{h.n_tokens});
  for (int32_t id : goldens.tokens) {
    if (id < 0 || static_cast<uint32_t>(id) >= vocab) {
      return bad(at, "golden token " + std::to_string(id) + ", expected one below " + std::to_string(vocab));
    }
  }
  at += 4 * uint64_t{h.n_tokens};
  for (uint32_t r = 0; r < h.n_rows; ++r) {
    GoldenRow row;
    std::memcpy(&row.position, bytes.data() + at, sizeof row.position);
    std::memcpy(row.logits_hash.data(), bytes.data() + at + offsetof(qrt_golden_row, logits_hash),
                row.logits_hash.size());
    if (row.position >= h.n_tokens || (r > 0 && goldens.rows.back().position >= row.position)) {
      return bad(at, "golden row " + std::to_string(r) + " is for position " + std::to_string(row.position) +
                         ", expected rising positions below " + std::to_string(h.n_tokens));
    }
    at += sizeof(qrt_golden_row);
    row.ids.resize(h.n_top);
    row.values.resize(h.n_top);
    std::memcpy(row.ids.data(), bytes.data() + at, 4 * uint64_t{h.n_top});
    at += 4 * uint64_t{h.n_top};
    std::memcpy(row.values.data(), bytes.data() + at, 4 * uint64_t{h.n_top});
    at += 4 * uint64_t{h.n_top};
    for (uint32_t k = 0; k < h.n_top; ++k) {
      if (row.ids[k] >= vocab || !std::isfinite(row.values[k])) {
        return bad(
            at, "golden row " + std::to_string(r) + " has an id outside the vocabulary or no finite value");
      }
    }
    goldens.rows.push_back(std::move(row));
  }
  a_.goldens_ = std::move(goldens);
  return Status();
}

}  // namespace qrt
