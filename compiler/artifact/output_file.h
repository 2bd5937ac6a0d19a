// A file that appears under its name whole or not at all.
#ifndef QCC_COMPILER_ARTIFACT_OUTPUT_FILE_H_
#define QCC_COMPILER_ARTIFACT_OUTPUT_FILE_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/base/temporary_name.h"

namespace qcc::gguf {
class File;
}

namespace qcc::compiler {

// Before any work is done: can `path` be written? Checks that its folder exists and takes files and such a
// name, that `path` is not something else than a regular file, that it is not `input` (may be empty), and
// that `bytes` fit on the disk. Errors: Q0103 (no such folder or name, not a regular file, is the input),
// Q6002 (not permitted, read-only), Q6003 (space).
absl::Status CheckOutput(const std::string& path, const std::string& input, uint64_t bytes);

// Whether `path` would replace a file that is read, by whatever name. Errors: Q0103.
absl::Status CheckIsNot(const std::string& path, std::string_view input);
// As soon as the model is open: only then it is known in which files it lies.
absl::Status CheckIsNotOf(const std::string& path, const gguf::File& model);

// A write that failed with this errno: Q6003 where space ran out (disk, quota, limit of a file's size), else
// Q6002 with `help`.
absl::Status WriteError(int error, std::string_view what, const std::string& where,
                        const std::string& help = "check the disk");
bool IsSpaceError(int error);

// Written beside its final name and renamed by Commit; without Commit nothing remains. Where the file system
// can, the bytes have no name at all until then, so that not even a killed process leaves them.
class OutputFile {
 public:
  // `mode`: permissions, of which the umask takes its part. Errors: Q6002.
  static absl::StatusOr<std::unique_ptr<OutputFile>> Create(const std::string& path, mode_t mode = 0666);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // Errors: Q6002 (input/output), Q6003 (disk full, quota or file size limit).
  absl::Status WriteAt(uint64_t offset, std::span<const uint8_t> bytes);
  // Looks at the finished file, by a path that leads to it for as long as it looks.
  using Check = std::function<absl::Status(const std::string& path)>;
  // Sets the size, flushes to the disk, lets `check` look, and renames. Errors: as WriteAt, and check's.
  absl::Status Commit(uint64_t size, const Check& check = {});

 private:
  OutputFile(std::string path, std::string temporary, int fd)
      : path_(std::move(path)), temporary_(std::move(temporary)), fd_(fd) {}
  absl::Status Failed(const char* what, int error) const;

  std::string path_;
  std::string temporary_;                   // beside path_
  std::optional<qrt::TemporaryName> name_;  // while temporary_ exists in the folder
  int fd_ = -1;
};

}  // namespace qcc::compiler

#endif  // QCC_COMPILER_ARTIFACT_OUTPUT_FILE_H_
