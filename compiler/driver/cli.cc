#include <sys/stat.h>

#include <charconv>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "compiler/driver/commands.h"
#include "compiler/driver/ending.h"
#include "frontends/base/error.h"
#include "frontends/base/text.h"

namespace qcc::compiler {

ConsoleProgress MakeProgress(const Cli& cli, ProgressMode mode) {
  const bool terminal = mode != ProgressMode::kPlain && LinesCanBeRedrawn();
  return ConsoleProgress(stderr, stdout, terminal, cli.verbosity(), cli.interrupted);
}

void AddJson(CLI::App& command, Cli& cli) {
  command.add_flag("--json", cli.json, "as JSON");
}

void PrintJson(const nlohmann::ordered_json& object) {
  const std::string text = object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  std::fwrite(text.data(), 1, text.size(), stdout);
}

CLI::Validator Decimal(uint64_t most) {
  return CLI::Validator(
      [most](std::string& value) -> std::string {
        const char* end = value.data() + value.size();
        uint64_t number = 0;
        const auto [at, error] = std::from_chars(value.data(), end, number);
        if (error != std::errc() || at != end || number > most) {
          return Concat("the value is '", value, "', expected decimal digits, 0 to ", most);
        }
        value = std::to_string(number);  // without the zeros in front, which CLI11 takes for an octal number
        return "";
      },
      "");
}

absl::Status CheckNotAStream(const std::string& output) {
  if (output == "-") {
    return MakeError("Q0103", "the output cannot be the standard output", "-o -",
                     "give the name of a file; ./- is one of that name");
  }
  struct stat out, stream;
  if (stat(output.c_str(), &out) != 0) return absl::OkStatus();
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fstat(fd, &stream) == 0 && stream.st_dev == out.st_dev && stream.st_ino == out.st_ino) {
      return MakeError("Q0103", "the output is a standard stream of this command", output,
                       "give the name of a file with -o");
    }
  }
  return absl::OkStatus();
}

}  // namespace qcc::compiler
