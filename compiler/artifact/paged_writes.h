// Consecutive bytes of a file, handed on in pieces that end where a large page of the file ends. A file
// system whose cache has large pages makes them of such writes, and what maps the file has them too (ext4 of
// Linux 6.18, two threads of a Zen 5, 0.8b preset in Q8_0, six turns: decode 1.04x to 1.28x, 1.08x in the
// middle, of the same file written in pieces of 64 KiB).
#ifndef QCC_COMPILER_ARTIFACT_PAGED_WRITES_H_
#define QCC_COMPILER_ARTIFACT_PAGED_WRITES_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace qcc::compiler {

class PagedWrites {
 public:
  using Write = absl::FunctionRef<absl::Status(uint64_t offset, std::span<const uint8_t> bytes)>;

  // From `offset` of the file on. `write` is called until Flush and must live as long.
  PagedWrites(uint64_t offset, Write write) : offset_(offset), write_(write) {}

  // Bytes that lack the end of their page wait for it. Errors: those of `write`, after which nothing more may
  // be called.
  absl::Status Append(std::span<const uint8_t> bytes);
  // Writes what waits.
  absl::Status Flush();

 private:
  uint64_t offset_;  // of what is written next
  Write write_;
  std::vector<uint8_t> waiting_;  // from offset_ on, less than a page
};

}  // namespace qcc::compiler

#endif  // QCC_COMPILER_ARTIFACT_PAGED_WRITES_H_
