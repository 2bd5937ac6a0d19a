#include <unistd.h>

#include <cstdio>

#include "compiler/driver/commands.h"

namespace qcc::compiler {

ConsoleProgress MakeProgress(const Cli& cli) {
  return ConsoleProgress(stderr, stdout, isatty(STDERR_FILENO) != 0, cli.verbosity(), cli.interrupted);
}

}  // namespace qcc::compiler
