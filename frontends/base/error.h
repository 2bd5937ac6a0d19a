// Errors about input models and whatever else qcc refuses, as absl::Status with parts that a driver can print
// on separate lines:
//   qcc: error: <what> [Q1203]
//     note: <where>
//     help: <what to do>
// Codes are stable; docs/reference/errors.md lists them. Q1xxx: the GGUF container. Q2xxx: the model in it.
#ifndef QCC_FRONTENDS_BASE_ERROR_H_
#define QCC_FRONTENDS_BASE_ERROR_H_

#include <string>

#include "absl/status/status.h"

namespace qcc {

struct ErrorParts {
  std::string code;   // "Q1203"; empty if the status did not come from MakeError
  std::string what;   // found and expected values
  std::string where;  // file, key or tensor, byte offset
  std::string help;   // what the user can do
};

// Status code kInvalidArgument, unless another (not kOk) is given. The message holds all parts on one line.
absl::Status MakeError(std::string code, std::string what, std::string where, std::string help = "");
absl::Status MakeError(absl::StatusCode status_code, std::string code, std::string what, std::string where,
                       std::string help = "");
// The parts of a status made by MakeError. Of any other status the message is `what` and the rest is empty.
ErrorParts PartsOf(const absl::Status& status);

}  // namespace qcc

#endif  // QCC_FRONTENDS_BASE_ERROR_H_
