#include "frontends/base/error.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "frontends/base/text.h"

namespace qcc {
namespace {

constexpr char kCodeUrl[] = "qcc/error-code";
constexpr char kWhatUrl[] = "qcc/error-what";
constexpr char kWhereUrl[] = "qcc/error-where";
constexpr char kHelpUrl[] = "qcc/error-help";

std::string Payload(const absl::Status& status, const char* url) {
  auto cord = status.GetPayload(url);
  return cord ? std::string(*cord) : std::string();
}

}  // namespace

absl::Status MakeError(std::string code, std::string what, std::string where, std::string help) {
  return MakeError(absl::StatusCode::kInvalidArgument, std::move(code), std::move(what), std::move(where),
                   std::move(help));
}

absl::Status MakeError(absl::StatusCode status_code, std::string code, std::string what, std::string where,
                       std::string help) {
  std::string message = Concat(where, where.empty() ? "" : ": ", what, " [", code, "]");
  if (!help.empty()) message += Concat(" (", help, ")");
  absl::Status status(status_code, message);
  status.SetPayload(kCodeUrl, absl::Cord(code));
  status.SetPayload(kWhatUrl, absl::Cord(what));
  status.SetPayload(kWhereUrl, absl::Cord(where));
  status.SetPayload(kHelpUrl, absl::Cord(help));
  return status;
}

ErrorParts PartsOf(const absl::Status& status) {
  ErrorParts parts;
  parts.code = Payload(status, kCodeUrl);
  if (parts.code.empty()) {
    parts.what = std::string(status.message());
    return parts;
  }
  parts.what = Payload(status, kWhatUrl);
  parts.where = Payload(status, kWhereUrl);
  parts.help = Payload(status, kHelpUrl);
  return parts;
}

}  // namespace qcc
