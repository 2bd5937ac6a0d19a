// The only writer of .qbin files. Sections go to the disk as they come, hashed on the way; the weights never
// lie in memory as a whole. The same sections and manifest give the same bytes.
#ifndef QCC_COMPILER_ARTIFACT_WRITER_H_
#define QCC_COMPILER_ARTIFACT_WRITER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/artifact/manifest_spec.h"
#include "compiler/artifact/output_file.h"
#include "runtime/abi/qbin.h"
#include "runtime/base/hash.h"

namespace qcc::compiler {

// After an error the writer can only be destroyed.
class ArtifactWriter {
 public:
  // As many as keep header and table inside the first page.
  static constexpr uint32_t kMaxSections = (QBIN_ALIGNMENT - sizeof(qbin_header)) / sizeof(qbin_section);

  // Begins a file that will be `path`. Unless Finish succeeds, nothing appears there and nothing is left
  // behind.
  static absl::StatusOr<std::unique_ptr<ArtifactWriter>> Create(const std::string& path);

  // Adds a section and returns its index for the manifest. Code gets QBIN_BASIS_BYTES at its end, which
  // Finish fills. Errors: writing (Q6002, Q6003); an empty section
  // or too many of them are bugs of the caller (Q9002).
  absl::StatusOr<uint32_t> AddSection(uint32_t kind, std::span<const uint8_t> bytes, uint32_t flags = 0);

  // The same for bytes that are made piece by piece: `produce` calls its argument with consecutive pieces,
  // `size` bytes in all (Q9002 otherwise), and hands on the errors it gets.
  using Append = absl::FunctionRef<absl::Status(std::span<const uint8_t>)>;
  absl::StatusOr<uint32_t> AddStream(uint32_t kind, uint64_t size,
                                     absl::FunctionRef<absl::Status(Append)> produce, uint32_t flags = 0);

  // Says at the end of each code section what it was made for, which is the manifest, then writes manifest,
  // header and section table, flushes, lets `check` look and renames. The writer is used up.
  absl::Status Finish(const ManifestSpec& manifest, const OutputFile::Check& check = {});

  // Of the artifact (qrt::Artifact::identity), after Finish.
  const qrt::Hash128& identity() const { return identity_; }

  // Bytes of the file so far.
  uint64_t size() const { return end_; }

 private:
  explicit ArtifactWriter(std::unique_ptr<OutputFile> file);

  absl::Status FinishCode(const ManifestSpec& manifest);

  std::unique_ptr<OutputFile> file_;
  std::vector<qbin_section> sections_;
  // The hash of each code section up to its basis.
  std::vector<std::pair<uint32_t, std::unique_ptr<qrt::Hasher>>> code_;
  uint64_t end_;
  qrt::Hash128 identity_{};
};

}  // namespace qcc::compiler

#endif  // QCC_COMPILER_ARTIFACT_WRITER_H_
