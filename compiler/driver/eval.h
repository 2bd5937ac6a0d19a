// `qcc eval`: runs a model through hir's reference evaluator. Slow, plain, and what everything else is
// compared with.
#ifndef QCC_COMPILER_DRIVER_EVAL_H_
#define QCC_COMPILER_DRIVER_EVAL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "frontends/gguf/gguf.h"

namespace qcc::compiler {

struct EvalOptions {
  std::string model;   // path of a GGUF file
  std::string tokens;  // path of a text file: token ids separated by white space
  std::string output;  // path of the logits file to write
  bool f64 = true;     // arithmetic in double precision; false: single precision
  bool kv_f16 =
      false;  // round keys and values to half precision in the cache, as `qcc compile --kv=f16` does
  bool l2_max = false;  // as `qcc compile --l2-norm=max`
  // Lengths of the pieces in which the prompt is fed, the last one repeating; empty: as eval.cc chooses.
  std::vector<int64_t> split;
};

// Writes the logits of every position: "LGT1", int32 rows, int32 columns, then float32 rows x columns, little
// endian. A failure leaves no half file.
//
// Errors: unreadable or empty token file, an id outside the vocabulary (names id and position), a split
// length below 1, an output that CheckOutput refuses or that is the model or the token file, anything
// ImportModel reports, weights or logits that are not finite, evaluation errors with the failing op;
// CancelledError once `interrupted` says so.
absl::Status RunEval(const EvalOptions& options, const std::function<bool()>& interrupted = nullptr);

// One sequence through the evaluator, piece by piece.
class EvalSession {
 public:
  // Imports the model. `file` must outlive the session. `interrupted` is asked at every weight.
  static absl::StatusOr<std::unique_ptr<EvalSession>> Create(
      const gguf::File& file, bool f64, bool kv_f16, bool l2_max = false,
      const std::function<bool()>& interrupted = nullptr);
  ~EvalSession();

  int64_t vocabulary() const;
  // Feeds the next tokens of the sequence; returns their logits, ids.size() x vocabulary(), row-major. After
  // an error (CancelledError if `interrupted` says so) the session cannot be used further.
  absl::StatusOr<std::vector<double>> Step(std::span<const int32_t> ids);

 private:
  EvalSession();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace qcc::compiler

#endif  // QCC_COMPILER_DRIVER_EVAL_H_
