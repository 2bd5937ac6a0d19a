#include "compiler/targets/code_error.h"

#include <cstdio>
#include <string>
#include <system_error>

#include "compiler/artifact/output_file.h"
#include "frontends/base/error.h"

namespace qcc::compiler {

absl::Status CodeError(llvm::Error error, const std::string& dumps) {
  std::error_code code;
  std::string message;
  llvm::handleAllErrors(std::move(error), [&](const llvm::ErrorInfoBase& info) {
    code = info.convertToErrorCode();
    message += (message.empty() ? "" : "; ") + info.message();
  });
  if (code == std::errc::operation_canceled) return absl::CancelledError("interrupted");
  const std::string where = "stage 'generate code'";
  const std::string help =
      (dumps.empty() ? "" : "kernels are written into " + dumps + " (--dump-kernels), ") +
      "temporary files lie in TMPDIR, or in /tmp";
  if (code == std::errc::not_enough_memory) return MakeError("Q6001", message, where);
  if (code == std::errc::too_many_files_open) return MakeError("Q6004", message, where);
  if (code.category() == std::generic_category() || code.category() == std::system_category()) {
    return MakeError(IsSpaceError(code.value()) ? "Q6003" : "Q6002", message, where, help);
  }
  return MakeError("Q3004", message, where);
}

std::string CodeBytes(uint64_t n) {
  const char* units[] = {"B", "KiB", "MiB", "GiB"};
  double value = static_cast<double>(n);
  int unit = 0;
  for (; value >= 1024 && unit < 3; ++unit) value /= 1024;
  char text[32];
  std::snprintf(text, sizeof text, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
  return text;
}

}  // namespace qcc::compiler
