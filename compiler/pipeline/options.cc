#include "compiler/pipeline/options.h"

namespace qcc::compiler {

std::string_view Name(CompilePhase phase) {
  switch (phase) {
    case CompilePhase::kImport:
      return "import";
    case CompilePhase::kFuse:
      return "fuse";
    case CompilePhase::kPlan:
      return "plan";
    case CompilePhase::kCode:
      return "code";
    case CompilePhase::kArtifact:
      return "artifact";
  }
  return "unknown";
}

}  // namespace qcc::compiler
