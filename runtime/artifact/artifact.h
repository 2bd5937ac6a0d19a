// An artifact: mapped, verified, read-only. Nothing of a file that fails a check is given out.
//
// Open checks the header and its hash, that the section table describes exactly the file, the hash of every
// section but the weights, that the manifest is a valid FlatBuffer, and then the meaning of every field:
// whatever an accessor returns can be used without looking at it again. Errors are ARTIFACT_CORRUPT or
// ARTIFACT_INCOMPATIBLE with a Q4xxx code; they name the file, section and offset, what was found and what
// was expected.
#ifndef QRT_ARTIFACT_ARTIFACT_H_
#define QRT_ARTIFACT_ARTIFACT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/abi/goldens.h"
#include "runtime/abi/program.h"
#include "runtime/abi/qbin.h"
#include "runtime/abi/tokenizer.h"
#include "runtime/artifact/manifest.h"
#include "runtime/base/file_map.h"
#include "runtime/base/hash.h"
#include "runtime/base/status.h"

namespace qrt {

struct Section {
  uint32_t kind;  // QBIN_SECTION_*
  uint32_t flags;
  uint64_t offset, size;
  Hash128 hash;
};

const char* SectionKindName(uint32_t kind);  // "manifest", "chat_template", ...; "unknown"

// The checked tables of the tokenizer section, in place.
struct TokenizerTables {
  std::span<const uint8_t> blob;
  std::span<const uint32_t> starts;             // [n_tokens + 1], not decreasing, last == blob.size()
  std::span<const uint8_t> types;               // [n_tokens], QRT_TOKEN_*
  std::span<const uint32_t> byte_token;         // [256]
  std::span<const qrt_tokenizer_merge> merges;  // sorted by (left, right); ids < n_tokens, ranks distinct
  std::span<const uint32_t> special;            // longest first; none is empty
  uint32_t n_tokens = 0;
  uint32_t max_token_bytes = 0;

  std::string_view bytes(uint32_t token) const {
    return {reinterpret_cast<const char*>(blob.data()) + starts[token], starts[token + 1] - starts[token]};
  }
};

struct GoldenRow {
  uint32_t position;
  Hash128 logits_hash;  // zeros: none
  std::vector<uint32_t> ids;
  std::vector<float> values;
};
struct Goldens {
  std::vector<int32_t> tokens;
  float tolerance = 0, rms_tolerance = 0;
  std::vector<GoldenRow> rows;
};

class Artifact {
 public:
  ~Artifact();
  Artifact(const Artifact&) = delete;
  Artifact& operator=(const Artifact&) = delete;

  // Of a bundle (runtime/base/bundle.h) the artifact in it. Errors also: those of bundles.
  static Result<std::unique_ptr<Artifact>> Open(const std::string& path);
  // The same over bytes that the caller keeps alive and unchanged; `name` stands for the path in messages.
  // Errors also: INVALID_ARGUMENT Q4021 (not aligned).
  static constexpr uintptr_t kMemoryAlignment = 64;
  static Result<std::unique_ptr<Artifact>> FromBytes(std::span<const uint8_t> bytes, std::string name);

  const std::string& path() const { return path_; }
  std::span<const uint8_t> bytes() const { return bytes_; }  // all of the artifact
  uint64_t file_bytes() const { return bytes_.size(); }
  uint16_t minor() const { return minor_; }  // of format version QBIN_MAJOR.minor
  uint64_t required_features() const { return required_features_; }
  const Hash128& identity() const { return identity_; }  // the header's hash: equal only for equal artifacts
  std::span<const Section> sections() const { return sections_; }
  const Manifest& manifest() const { return manifest_; }

  // The parts of a model whose layers run on several devices, in their order: each is like an artifact with
  // its states, programs and code alone, over the same file, with the whole's identity, and without what is
  // not about running it. It lives as long as this. An artifact that is not cut is its only part.
  size_t part_count() const { return parts_.empty() ? 1 : parts_.size(); }
  const Artifact& part(size_t number) const { return parts_.empty() ? *this : *parts_[number]; }
  // The part that manifest().code[variant] belongs to, and its place among the part's.
  struct PartCode {
    const Artifact* part;
    size_t variant;
  };
  PartCode PartOfCode(size_t variant) const;

  // Code and weights of manifest().code[variant], whose target must be known (KnownTarget). The code's last
  // QBIN_BASIS_BYTES say what it was made for, which is this manifest. For "cpu" the
  // code starts with a checked qrt_code_header: entry[i], i < programs.size(), lies in the blob. It is mapped
  // without execute permission: the device copies it, checks the copy against `code_hash`, and makes the copy
  // executable. For a GPU it is what GpuCode::Read (runtime/device/gpu) checks and reads.
  std::span<const uint8_t> code(size_t variant) const;
  const Hash128& code_hash(size_t variant) const;
  // 64-byte aligned. Not hashed by Open.
  std::span<const uint8_t> weights(size_t variant) const;

  const std::optional<TokenizerTables>& tokenizer() const { return tokenizer_; }  // with manifest().tokenizer
  std::optional<std::string_view> chat_template() const { return chat_template_; }
  const std::optional<Goldens>& goldens() const { return goldens_; }

  // Hashes the weight sections. `progress` (may be empty) gets bytes done and in all, about every 64 MiB;
  // returning false stops with CANCELLED. Errors: ARTIFACT_CORRUPT Q4012.
  using Progress = std::function<bool(uint64_t done, uint64_t total)>;
  Status VerifyWeights(const Progress& progress = {}) const;

 private:
  friend class ArtifactVerifier;
  Artifact() = default;
  std::span<const uint8_t> SectionBytes(uint32_t index) const {
    return bytes_.subspan(sections_[index].offset, sections_[index].size);
  }

  std::string path_;
  FileMap map_;
  std::span<const uint8_t> bytes_;
  uint16_t minor_ = 0;
  uint64_t required_features_ = 0;
  Hash128 identity_{};
  std::vector<Section> sections_;
  Manifest manifest_;
  std::vector<std::unique_ptr<Artifact>> parts_;
  std::optional<TokenizerTables> tokenizer_;
  std::optional<std::string_view> chat_template_;
  std::optional<Goldens> goldens_;
};

}  // namespace qrt

#endif  // QRT_ARTIFACT_ARTIFACT_H_
