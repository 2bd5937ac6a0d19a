// Pieces of the reports that `qcc inspect` prints.
#ifndef QCC_COMPILER_DRIVER_REPORT_TEXT_H_
#define QCC_COMPILER_DRIVER_REPORT_TEXT_H_

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace qcc::compiler {

using Json = nlohmann::ordered_json;

template <typename T>
Json OrNull(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

// Names come from a file that anybody may have written: what is not to reach a terminal (control characters,
// line ends, turned directions, bytes that are no UTF-8) becomes "\x1b", "\u{9b}", as qrun shows it.
std::string Clean(std::string_view text);
// Cleaned, with spaces between.
std::string Joined(const std::vector<std::string>& list);
// As std::printf, behind what is there.
void Append(std::string& out, const char* format, ...) __attribute__((format(printf, 2, 3)));

}  // namespace qcc::compiler

#endif  // QCC_COMPILER_DRIVER_REPORT_TEXT_H_
