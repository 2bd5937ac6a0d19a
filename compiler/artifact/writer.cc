#include "compiler/artifact/writer.h"

#include <algorithm>
#include <cstring>

#include "compiler/artifact/paged_writes.h"
#include "frontends/base/error.h"
#include "frontends/base/text.h"
#include "runtime/artifact/code_basis.h"
#include "runtime/artifact/part_manifest.h"
#include "runtime/base/hash.h"

namespace qcc::compiler {
namespace {

constexpr uint64_t AlignUp(uint64_t n) {
  return (n + QBIN_ALIGNMENT - 1) / QBIN_ALIGNMENT * QBIN_ALIGNMENT;
}

absl::Status Bug(std::string what) {
  return MakeError("Q9002", std::move(what), "artifact writer", "this is a bug in qcc; please report it");
}

void SetHash(qbin_section& section, const qrt::Hasher& hasher) {
  const Hash128 hash = hasher.Finish();
  std::memcpy(section.hash, hash.data(), sizeof section.hash);
}

std::span<const uint8_t> BytesOf(const auto& value) {
  return {reinterpret_cast<const uint8_t*>(&value), sizeof value};
}

}  // namespace

ArtifactWriter::ArtifactWriter(std::unique_ptr<OutputFile> file)
    : file_(std::move(file)), end_(QBIN_ALIGNMENT) {}

absl::StatusOr<std::unique_ptr<ArtifactWriter>> ArtifactWriter::Create(const std::string& path) {
  absl::StatusOr<std::unique_ptr<OutputFile>> file = OutputFile::Create(path);
  if (!file.ok()) return file.status();
  return std::unique_ptr<ArtifactWriter>(new ArtifactWriter(*std::move(file)));
}

absl::StatusOr<uint32_t> ArtifactWriter::AddSection(uint32_t kind, std::span<const uint8_t> bytes,
                                                    uint32_t flags) {
  return AddStream(
      kind, bytes.size(), [bytes](Append append) { return append(bytes); }, flags);
}

absl::StatusOr<uint32_t> ArtifactWriter::AddStream(uint32_t kind, uint64_t size,
                                                   absl::FunctionRef<absl::Status(Append)> produce,
                                                   uint32_t flags) {
  if (size == 0) return Bug(Concat("section ", sections_.size(), " of kind ", kind, " is empty"));
  // The last place is the manifest's.
  if (sections_.size() + (kind == QBIN_SECTION_MANIFEST ? 0 : 1) >= kMaxSections) {
    return Bug(Concat("more than ", kMaxSections, " sections"));
  }
  const uint64_t begin = AlignUp(end_);
  auto hasher = std::make_unique<qrt::Hasher>();
  const auto write = [&](uint64_t offset, std::span<const uint8_t> piece) {
    hasher->Update(piece);
    return file_->WriteAt(offset, piece);
  };
  PagedWrites file(begin, write);
  uint64_t got = 0;
  const auto append = [&](std::span<const uint8_t> piece) -> absl::Status {
    if (piece.size() > size - got) {
      return Bug(Concat("section ", sections_.size(), " gets more than its ", size, " bytes"));
    }
    got += piece.size();
    return file.Append(piece);
  };
  if (absl::Status status = produce(append); !status.ok()) return status;
  if (absl::Status status = file.Flush(); !status.ok()) return status;
  if (got != size) {
    return Bug(Concat("section ", sections_.size(), " got ", got, " bytes, expected ", size));
  }
  qbin_section section{};
  section.kind = kind;
  section.flags = flags;
  section.offset = begin;
  section.size = size;
  if (kind == QBIN_SECTION_CODE) {
    section.size += QBIN_BASIS_BYTES;
    code_.emplace_back(sections_.size(), std::move(hasher));
  } else {
    SetHash(section, *hasher);
  }
  sections_.push_back(section);
  end_ = begin + section.size;
  return static_cast<uint32_t>(sections_.size() - 1);
}

absl::Status ArtifactWriter::FinishCode(const ManifestSpec& manifest) {
  const auto weights_bytes = [this](uint32_t index) {
    return index < sections_.size() ? sections_[index].size : 0;
  };
  std::vector<ManifestSpec> parts;
  parts.reserve(manifest.parts.size());
  for (size_t i = 0; i < manifest.parts.size(); ++i) parts.push_back(qrt::PartManifest(manifest, i));
  for (auto& [index, hasher] : code_) {
    qbin_section& section = sections_[index];
    const auto reads = [&](const ManifestSpec& m) {
      return std::any_of(m.code.begin(), m.code.end(),
                         [&](const CodeSpec& code) { return code.section == index; });
    };
    const auto of = std::find_if(parts.begin(), parts.end(), reads);
    const Hash128 basis = qrt::CodeBasis(manifest, of == parts.end() ? manifest : *of, index, weights_bytes);
    const uint64_t at = section.offset + section.size - QBIN_BASIS_BYTES;
    if (absl::Status status = file_->WriteAt(at, basis); !status.ok()) return status;
    hasher->Update(basis);
    SetHash(section, *hasher);
  }
  return absl::OkStatus();
}

absl::Status ArtifactWriter::Finish(const ManifestSpec& manifest, const OutputFile::Check& check) {
  if (absl::Status status = FinishCode(manifest); !status.ok()) return status;
  absl::StatusOr<uint32_t> index = AddSection(QBIN_SECTION_MANIFEST, BuildManifest(manifest));
  if (!index.ok()) return index.status();

  qbin_header header{};
  std::memcpy(header.magic, QBIN_MAGIC, sizeof header.magic);
  header.major = QBIN_MAJOR;
  header.minor = QBIN_MINOR;
  header.section_count = static_cast<uint32_t>(sections_.size());
  header.required_features = manifest.required_features;
  header.file_bytes = end_;
  const std::span<const uint8_t> table(reinterpret_cast<const uint8_t*>(sections_.data()),
                                       sections_.size() * sizeof(qbin_section));
  qrt::Hasher hasher;
  hasher.Update(BytesOf(header));  // its hash field is zero here
  hasher.Update(table);
  identity_ = hasher.Finish();
  std::memcpy(header.hash, identity_.data(), sizeof header.hash);
  if (absl::Status status = file_->WriteAt(0, BytesOf(header)); !status.ok()) return status;
  if (absl::Status status = file_->WriteAt(sizeof header, table); !status.ok()) return status;
  return file_->Commit(end_, check);
}

}  // namespace qcc::compiler
