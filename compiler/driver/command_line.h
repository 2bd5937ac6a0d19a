// The words of a command line as CLI11 reads them rightly.
#ifndef QCC_COMPILER_DRIVER_COMMAND_LINE_H_
#define QCC_COMPILER_DRIVER_COMMAND_LINE_H_

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace qcc::compiler {

// `words` behind the program's name. To CLI11 `--name=` has no value and takes the next word, `-o=FILE` is a
// file "=FILE" and `-output` one "utput": no value is empty, a letter's may stand behind "=", and what is an
// option with two dashes is none with one. Errors: Q0101, Q0102.
absl::StatusOr<std::vector<std::string>> SpellOut(const CLI::App& app, const std::vector<std::string>& words);

}  // namespace qcc::compiler

#endif  // QCC_COMPILER_DRIVER_COMMAND_LINE_H_
