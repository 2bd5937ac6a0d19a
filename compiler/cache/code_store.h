// Code that was compiled before: pieces of CPU programs, kernels of GPUs, by a hash of all that they depend
// on.
#ifndef QCC_COMPILER_CACHE_CODE_STORE_H_
#define QCC_COMPILER_CACHE_CODE_STORE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace qcc::compiler {

// Find and Keep may be called from several threads; other processes may use the folder at the same time. What
// does not go well costs time only: code that cannot be kept is compiled again, and so is what was damaged,
// which goes.
class CodeStore {
 public:
  // Makes the folder. `identity`: of the compiler (compiler_identity.h). Errors: Q6002.
  static absl::StatusOr<std::unique_ptr<CodeStore>> Open(const std::string& folder, std::string identity);

  // `key`: a hash of what the code depends on besides the compiler. Empty: there is none.
  std::vector<uint8_t> Find(std::string_view key);
  void Keep(std::string_view key, std::span<const uint8_t> bytes);

  size_t found() const { return found_; }
  size_t missed() const { return missed_; }

  // Bytes of an entry's file as Keep writes them, checked: nothing where they are damaged, and where there is
  // no file. For Find, and for who verifies a folder.
  static std::vector<uint8_t> Read(const std::string& path, bool* damaged = nullptr);

 private:
  CodeStore(std::string folder, std::string identity)
      : folder_(std::move(folder)), identity_(std::move(identity)) {}
  std::string PathOf(std::string_view key) const;

  const std::string folder_, identity_;
  std::atomic<size_t> found_{0}, missed_{0};
};

}  // namespace qcc::compiler

#endif  // QCC_COMPILER_CACHE_CODE_STORE_H_
