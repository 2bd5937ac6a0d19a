// Architecture-prefixed metadata with range checks, and the keys that would change the arithmetic.
#ifndef QCC_FRONTENDS_MODELS_METADATA_H_
#define QCC_FRONTENDS_MODELS_METADATA_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "frontends/gguf/gguf.h"

namespace qcc::models {

struct IntRange {
  int64_t min;
  int64_t max;
};

// Any single dimension, head count or length of a model: far above real models, and small enough that the
// product of two fits int64 with room to spare.
inline constexpr IntRange kDimension = {1, int64_t{1} << 30};
// Blocks of a file are listed one by one in the IR; real models have at most a few hundred.
inline constexpr IntRange kBlocks = {1, 4096};

// For absl::StrCat, whose own string view is a class apart in Debian's build.
inline std::string text(std::string_view view) {
  return std::string(view);
}

// Reads `{arch}.KEY`. The first error sticks: later reads return their fallback, and `status()` has the
// error, so a reader asks for all it needs and checks once.
class Metadata {
 public:
  // With `refusals`, every error is added to it.
  Metadata(const gguf::File& file, std::string arch, std::vector<absl::Status>* refusals = nullptr);

  const std::string& arch() const { return arch_; }
  const gguf::File& file() const { return file_; }
  std::string key(std::string_view suffix) const;
  bool has(std::string_view suffix) const;

  int64_t requiredInt(std::string_view suffix, IntRange range = kDimension);
  int64_t optionalInt(std::string_view suffix, int64_t fallback, IntRange range = kDimension);
  // Finite values only.
  double requiredFloat(std::string_view suffix);
  double optionalFloat(std::string_view suffix, double fallback);
  bool optionalFlag(std::string_view suffix, bool fallback);
  std::string optionalString(std::string_view suffix, std::string_view fallback);
  // One value per block from a scalar or an array of `blocks` or `trunkBlocks` entries; entries that an array
  // leaves out (NextN blocks) or holds as 0 (recurrent blocks) become the array's maximum, which must be at
  // least 1.
  std::vector<int64_t> requiredPerBlock(std::string_view suffix, int64_t blocks, int64_t trunkBlocks);
  // As requiredInt; an array as of requiredPerBlock has the same number for every block.
  int64_t requiredForAll(std::string_view suffix, int64_t blocks, int64_t trunkBlocks,
                         IntRange range = kDimension);
  // Empty when absent; otherwise `blocks` or `trunkBlocks` entries.
  std::vector<bool> optionalFlags(std::string_view suffix, int64_t blocks, int64_t trunkBlocks);

  // Empty when absent.
  std::vector<int64_t> optionalInts(std::string_view suffix);

  // Reports an impossible value of a key.
  void fail(std::string_view code, std::string_view suffix, std::string what, std::string help = "");
  void fail(const absl::Status& status);
  // Records what the file leaves open or says twice, and how it was taken: one sentence.
  void warn(std::string sentence) { warnings_.push_back(std::move(sentence)); }
  // Where the key is missing, and what stands in decides what the model computes.
  template <class T>
  void warnOfDefault(std::string_view suffix, T taken) {
    if (!has(suffix)) warn(absl::StrCat("key ", key(suffix), " is missing; ", taken, " is taken"));
  }
  // Warns of the architecture's keys that nothing has asked for.
  void warnOfUnread();
  const std::vector<std::string>& warnings() const { return warnings_; }
  bool listsAll() const { return refusals_ != nullptr; }
  bool ok() const { return status_.ok(); }
  const absl::Status& status() const { return status_; }

 private:
  void failMissing(std::string_view suffix);
  int64_t checked(std::string_view suffix, const absl::StatusOr<int64_t>& value, int64_t fallback,
                  IntRange range);

  const gguf::File& file_;
  std::string arch_;
  std::vector<absl::Status>* refusals_;
  absl::Status status_;
  std::vector<std::string> warnings_;
  mutable std::set<std::string, std::less<>> asked_;  // suffixes
};

// Refuses files whose keys ask for arithmetic that the importer does not emit (soft-capping, sliding windows,
// rotated weights, ...; experts, unless the architecture has them): ignoring such a key would give fluent
// garbage. Errors stick in `metadata`.
void refuseForeignArithmetic(Metadata& metadata, bool hasExperts);

}  // namespace qcc::models

#endif  // QCC_FRONTENDS_MODELS_METADATA_H_
