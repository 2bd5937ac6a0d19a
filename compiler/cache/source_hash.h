// The hash of a model's files: made once, and remembered while they are unchanged.
#ifndef QCC_COMPILER_CACHE_SOURCE_HASH_H_
#define QCC_COMPILER_CACHE_SOURCE_HASH_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "frontends/gguf/gguf.h"
#include "runtime/aot/file_stamp.h"
#include "runtime/base/hash.h"

namespace qcc::compiler {

// The hash that an artifact's provenance has of its model: of the bytes of all shards, in order. `progress`
// (may be empty) gets bytes done and in all; returning false stops, with nothing.
using HashProgress = std::function<bool(uint64_t done, uint64_t total)>;
std::optional<qrt::Hash128> HashSource(const gguf::File& model, const HashProgress& progress = {});

// A model's files as they are now, before anything of them is read.
class SourceStamps {
 public:
  explicit SourceStamps(const gguf::File& model);

  // Nothing: the files are not known, or have changed since.
  std::optional<qrt::Hash128> Recall(const std::string& cache) const;
  // Not while the files are so new that a change might not show (IsSettled).
  void Remember(const std::string& cache, const qrt::Hash128& hash) const;
  void Forget(const std::string& cache) const;

  bool settled() const { return settled_; }
  const std::vector<std::pair<std::string, qrt::aot::FileStamp>>& files() const { return files_; }

 private:
  std::string RecordPath(const std::string& cache) const;

  std::vector<std::pair<std::string, qrt::aot::FileStamp>> files_;  // by their paths of a request
  bool settled_ = true;
};

}  // namespace qcc::compiler

#endif  // QCC_COMPILER_CACHE_SOURCE_HASH_H_
