#include "runtime/artifact/artifact.h"

#include <algorithm>
#include <utility>

#include "runtime/artifact/verifier.h"
#include "runtime/base/bundle.h"

namespace qrt {

bool KnownTarget(std::string_view target) {
#define QRT_TARGET(name, ...) \
  if (target == name) return true;
#include "runtime/artifact/targets.def"
  return false;
}

const char* SectionKindName(uint32_t kind) {
  switch (kind) {
    case QBIN_SECTION_MANIFEST:
      return "manifest";
    case QBIN_SECTION_CODE:
      return "code";
    case QBIN_SECTION_WEIGHTS:
      return "weights";
    case QBIN_SECTION_TOKENIZER:
      return "tokenizer";
    case QBIN_SECTION_CHAT_TEMPLATE:
      return "chat_template";
    case QBIN_SECTION_GOLDENS:
      return "goldens";
    default:
      return "unknown";
  }
}

Artifact::~Artifact() = default;

Result<std::unique_ptr<Artifact>> Artifact::Open(const std::string& path) {
  Result<FileMap> map = FileMap::Open(path);
  if (!map.ok()) return map.status();
  std::unique_ptr<Artifact> artifact(new Artifact());
  artifact->path_ = path;
  artifact->map_ = *std::move(map);
  const auto bundled = ArtifactInBundle(artifact->map_.bytes(), path);
  if (!bundled.ok()) return bundled.status();
  artifact->bytes_ = bundled->value_or(artifact->map_.bytes());
  QRT_RETURN_IF_ERROR(ArtifactVerifier(*artifact).Run());
  return artifact;
}

Result<std::unique_ptr<Artifact>> Artifact::FromBytes(std::span<const uint8_t> bytes, std::string name) {
  const uintptr_t over = reinterpret_cast<uintptr_t>(bytes.data()) % kMemoryAlignment;
  if (over != 0) {
    return Status(Code::kInvalidArgument, 4021,
                  "the artifact's bytes begin " + std::to_string(over) + " behind a multiple of " +
                      std::to_string(kMemoryAlignment),
                  std::move(name), "align the memory that holds them");
  }
  std::unique_ptr<Artifact> artifact(new Artifact());
  artifact->path_ = std::move(name);
  artifact->bytes_ = bytes;
  QRT_RETURN_IF_ERROR(ArtifactVerifier(*artifact).Run());
  return artifact;
}

Artifact::PartCode Artifact::PartOfCode(size_t variant) const {
  for (const std::unique_ptr<Artifact>& part : parts_) {
    if (variant < part->manifest_.code.size()) return {part.get(), variant};
    variant -= part->manifest_.code.size();
  }
  return {this, variant};
}

std::span<const uint8_t> Artifact::code(size_t variant) const {
  return SectionBytes(manifest_.code[variant].section);
}

const Hash128& Artifact::code_hash(size_t variant) const {
  return sections_[manifest_.code[variant].section].hash;
}

std::span<const uint8_t> Artifact::weights(size_t variant) const {
  return SectionBytes(manifest_.code[variant].weights_section);
}

Status Artifact::VerifyWeights(const Progress& progress) const {
  constexpr uint64_t kPiece = uint64_t{64} << 20;
  uint64_t total = 0, done = 0;
  for (const Section& s : sections_) {
    if (s.kind == QBIN_SECTION_WEIGHTS) total += s.size;
  }
  for (size_t i = 0; i < sections_.size(); ++i) {
    const Section& s = sections_[i];
    if (s.kind != QBIN_SECTION_WEIGHTS) continue;
    Hasher hasher;
    for (uint64_t at = 0; at < s.size; at += kPiece) {
      const uint64_t n = std::min(kPiece, s.size - at);
      hasher.Update(bytes_.subspan(s.offset + at, n));
      done += n;
      if (progress && !progress(done, total)) {
        return Status(Code::kCancelled, 4022, "checking the weights was stopped", path_);
      }
    }
    const Hash128 found = hasher.Finish();
    if (found != s.hash) {
      return Status(Code::kArtifactCorrupt, 4012,
                    "the weights are damaged: their hash is " + Hex(found) + ", expected " + Hex(s.hash),
                    path_ + ", section " + std::to_string(i) + " (weights)",
                    "compile or copy the artifact again");
    }
  }
  return Status();
}

}  // namespace qrt
