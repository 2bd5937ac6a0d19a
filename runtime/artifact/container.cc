#include <algorithm>
#include <cstddef>
#include <cstring>

#include "runtime/artifact/verifier.h"
#include "runtime/base/checked.h"

namespace qrt {
namespace {

constexpr char kCopyAgain[] = "compile or copy the artifact again";

}  // namespace

Status ArtifactVerifier::Corrupt(uint32_t number, uint64_t offset, std::string message) const {
  return Status(Code::kArtifactCorrupt, number, std::move(message),
                a_.path_ + ", offset " + std::to_string(offset), kCopyAgain);
}

Status ArtifactVerifier::CorruptIn(uint32_t number, uint32_t section, uint64_t offset,
                                   std::string message) const {
  return Status(Code::kArtifactCorrupt, number, std::move(message),
                a_.path_ + ", section " + std::to_string(section) + " (" +
                    SectionKindName(a_.sections_[section].kind) + "), offset " + std::to_string(offset) +
                    " in it",
                kCopyAgain);
}

Status ArtifactVerifier::Run() {
  QRT_RETURN_IF_ERROR(ReadHeader());
  QRT_RETURN_IF_ERROR(CheckHashes());
  QRT_RETURN_IF_ERROR(CheckKinds());
  QRT_RETURN_IF_ERROR(ReadManifest());
  QRT_RETURN_IF_ERROR(CheckModel());
  QRT_RETURN_IF_ERROR(CheckSampling());
  const Manifest& m = a_.manifest_;
  QRT_RETURN_IF_ERROR(m.parts.empty() ? CheckRunning() : CheckParts());
  if (m.tokenizer) {
    QRT_RETURN_IF_ERROR(ReadTokenizer());
    QRT_RETURN_IF_ERROR(CheckTokenizerInfo());
  }
  if (m.chat_template_section) QRT_RETURN_IF_ERROR(ReadChatTemplate(*m.chat_template_section));
  if (m.goldens_section) QRT_RETURN_IF_ERROR(ReadGoldens(*m.goldens_section));
  return Status();
}

Status ArtifactVerifier::CheckRunning() {
  QRT_RETURN_IF_ERROR(CheckStates());
  QRT_RETURN_IF_ERROR(CheckPrograms());
  return CheckCode();
}

// The major version is looked at before the hash: another major may lay out everything after it differently.
Status ArtifactVerifier::ReadHeader() {
  const std::span<const uint8_t> file = a_.bytes_;
  const size_t magic_bytes = std::min<size_t>(file.size(), QBIN_MAGIC_BYTES);
  if (file.empty() || std::memcmp(file.data(), QBIN_MAGIC, magic_bytes) != 0) {
    constexpr char kGguf[] = {'G', 'G', 'U', 'F'};
    const bool gguf = file.size() >= sizeof kGguf && std::memcmp(file.data(), kGguf, sizeof kGguf) == 0;
    return Status(Code::kArtifactCorrupt, 4005, "not a .qbin artifact: the file does not begin with its mark",
                  a_.path_ + ", offset 0",
                  gguf ? "qcc compile makes a .qbin from a GGUF"
                       : "nor is it a GGUF, of which qcc compile makes one: a web page or a pointer of Git "
                         "LFS? Fetch it again");
  }
  if (file.size() < sizeof(qbin_header)) {
    return Corrupt(4004, 0,
                   "the file is cut off: it has " + std::to_string(file.size()) +
                       " bytes, the header takes " + std::to_string(sizeof(qbin_header)));
  }
  qbin_header header;
  std::memcpy(&header, file.data(), sizeof header);
  if (header.major != QBIN_MAJOR) {
    return Status(Code::kArtifactIncompatible, 4006,
                  "the artifact has format version " + std::to_string(header.major) + "." +
                      std::to_string(header.minor) + ", this runtime reads " + std::to_string(QBIN_MAJOR) +
                      ".x",
                  a_.path_, header.major > QBIN_MAJOR ? "use a newer runtime" : "compile the model again");
  }
  if (header.section_count == 0 || header.section_count > QBIN_MAX_SECTIONS) {
    return Corrupt(4009, offsetof(qbin_header, section_count),
                   "the header counts " + std::to_string(header.section_count) + " sections, expected 1 to " +
                       std::to_string(QBIN_MAX_SECTIONS));
  }
  const size_t table_end = sizeof header + size_t{header.section_count} * sizeof(qbin_section);
  if (file.size() < table_end) {
    return Corrupt(4004, sizeof header,
                   "the file is cut off: it has " + std::to_string(file.size()) +
                       " bytes, header and section table take " + std::to_string(table_end));
  }
  Hasher hasher;
  const std::array<uint8_t, QBIN_HASH_BYTES> zeros{};
  hasher.Update(file.first(offsetof(qbin_header, hash)));
  hasher.Update(zeros);
  hasher.Update(file.subspan(sizeof header, table_end - sizeof header));
  const Hash128 found = hasher.Finish();
  if (std::memcmp(found.data(), header.hash, sizeof header.hash) != 0) {
    return Corrupt(4008, offsetof(qbin_header, hash), "header or section table is damaged: wrong hash");
  }
  a_.minor_ = header.minor;
  a_.required_features_ = header.required_features;
  a_.identity_ = found;
  if ((header.required_features & ~QBIN_KNOWN_FEATURES) != 0) {
    std::string bits;
    for (int bit = 0; bit < 64; ++bit) {
      if (((header.required_features & ~QBIN_KNOWN_FEATURES) >> bit) & 1) bits += " " + std::to_string(bit);
    }
    return Status(Code::kArtifactIncompatible, 4007,
                  "the artifact requires features that this runtime does not have: bits" + bits, a_.path_,
                  "use a newer runtime");
  }
  if (header.file_bytes != file.size()) {
    return Corrupt(
        4004, offsetof(qbin_header, file_bytes),
        std::string(file.size() < header.file_bytes ? "the file is cut off" : "bytes follow the artifact") +
            ": it has " + std::to_string(file.size()) + " bytes, expected " +
            std::to_string(header.file_bytes));
  }
  return ReadTable(header.section_count);
}

Status ArtifactVerifier::ReadTable(uint32_t count) {
  uint64_t end = sizeof(qbin_header) + uint64_t{count} * sizeof(qbin_section);
  a_.sections_.reserve(count);
  for (uint32_t i = 0; i < count; ++i) {
    const uint64_t at = sizeof(qbin_header) + uint64_t{i} * sizeof(qbin_section);
    qbin_section entry;
    std::memcpy(&entry, a_.bytes_.data() + at, sizeof entry);
    const Checked expected = Checked(end).aligned(QBIN_ALIGNMENT);
    if (!expected.is(entry.offset)) {
      return Corrupt(4009, at + offsetof(qbin_section, offset),
                     "section " + std::to_string(i) + " begins at " + std::to_string(entry.offset) +
                         ", expected " + std::to_string(expected.value()));
    }
    if (entry.size == 0 || !InRange(entry.offset, entry.size, a_.bytes_.size())) {
      return Corrupt(
          4009, at + offsetof(qbin_section, size),
          "section " + std::to_string(i) + " has " + std::to_string(entry.size) + " bytes, expected 1 to " +
              std::to_string(a_.bytes_.size() - std::min<uint64_t>(entry.offset, a_.bytes_.size())));
    }
    QRT_RETURN_IF_ERROR(CheckPadding(end, entry.offset));
    end = entry.offset + entry.size;
    Section section{entry.kind, entry.flags, entry.offset, entry.size, {}};
    std::memcpy(section.hash.data(), entry.hash, sizeof entry.hash);
    a_.sections_.push_back(section);
  }
  if (end != a_.bytes_.size()) {
    return Corrupt(
        4009, end,
        "the sections end at " + std::to_string(end) + ", the file at " + std::to_string(a_.bytes_.size()));
  }
  return Status();
}

Status ArtifactVerifier::CheckPadding(uint64_t begin, uint64_t end) {
  for (uint64_t at = begin; at < end; ++at) {
    if (a_.bytes_[at] != 0) return Corrupt(4010, at, "a padding byte is not zero");
  }
  return Status();
}

Status ArtifactVerifier::CheckHashes() {
  for (uint32_t i = 0; i < a_.sections_.size(); ++i) {
    const Section& s = a_.sections_[i];
    if (s.kind == QBIN_SECTION_WEIGHTS) continue;
    const Hash128 found = HashOf(a_.SectionBytes(i));
    if (found != s.hash) {
      return CorruptIn(4011, i, 0,
                       "the section is damaged: its hash is " + Hex(found) + ", expected " + Hex(s.hash));
    }
  }
  return Status();
}

Status ArtifactVerifier::CheckKinds() {
  uint32_t seen[QBIN_SECTION_GOLDENS + 1] = {};
  for (uint32_t i = 0; i < a_.sections_.size(); ++i) {
    const Section& s = a_.sections_[i];
    if (s.kind == 0 || s.kind > QBIN_SECTION_GOLDENS) {
      if ((s.flags & QBIN_SECTION_OPTIONAL) != 0) continue;
      return Status(Code::kArtifactIncompatible, 4013,
                    "section " + std::to_string(i) + " has kind " + std::to_string(s.kind) +
                        ", which this runtime does not know and may not ignore",
                    a_.path_, "use a newer runtime");
    }
    const bool repeatable = s.kind == QBIN_SECTION_CODE || s.kind == QBIN_SECTION_WEIGHTS;
    if (++seen[s.kind] > 1 && !repeatable) {
      return CorruptIn(4013, i, 0, "a second section of this kind, expected at most one");
    }
    if (s.kind == QBIN_SECTION_MANIFEST) manifest_section_ = i;
  }
  if (seen[QBIN_SECTION_MANIFEST] == 0)
    return Corrupt(4013, sizeof(qbin_header), "there is no manifest section");
  return Status();
}

}  // namespace qrt
