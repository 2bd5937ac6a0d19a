// `qcc diff`: in what two artifacts differ.
#ifndef QCC_COMPILER_DRIVER_ARTIFACT_DIFF_H_
#define QCC_COMPILER_DRIVER_ARTIFACT_DIFF_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/driver/report_text.h"
#include "runtime/artifact/artifact.h"

namespace qcc::compiler {

// Something that both may have; null: that one lacks it.
struct Difference {
  std::string name;
  Json a, b;
};

struct WeightDifference {
  std::string name;
  Json a, b;                           // "format", "layout", "shape", "bytes"; null: that one lacks it
  std::optional<uint64_t> first_byte;  // where bytes begin to differ, of weights that are alike otherwise
};

struct ArtifactDiff {
  std::string a, b;  // paths
  bool equal = false;
  bool damaged = false;              // one of them: identities are the same, bytes are not
  std::vector<Difference> sections;  // by kind, code by what it is for; "bytes" and "hash"
  std::vector<Difference> fields;    // of the manifest: "provenance.options.kv"; entries of lists by name
  std::vector<WeightDifference> weights;
};

// Compares artifacts, and the bytes of their weights, whatever hashes say of these. Places in the
// file (offsets, indices of sections) do not count as differences. `stop` is asked between weights. Errors:
// CancelledError, and those of ReadContents.
absl::StatusOr<ArtifactDiff> DiffArtifacts(const qrt::Artifact& a, const qrt::Artifact& b,
                                           const std::function<bool()>& stop);

std::string DiffText(const ArtifactDiff& diff);  // empty for equal ones
std::string DiffJson(const ArtifactDiff& diff);  // one object, ends with a newline

}  // namespace qcc::compiler

#endif  // QCC_COMPILER_DRIVER_ARTIFACT_DIFF_H_
