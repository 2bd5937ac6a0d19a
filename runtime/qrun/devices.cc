// `qrun devices`: what this machine has, and what an artifact needs.
#include "runtime/qrun/commands.h"
#include "runtime/qrun/model.h"
#include "runtime/qrun/process.h"

namespace qrun {

Outcome RunDevices(const std::vector<std::string>& arguments) {
  // The artifact is optional here, so it is no positional of the table.
  std::optional<std::string> path;
  std::vector<std::string> rest = arguments;
  if (!rest.empty() && (rest[0].empty() || rest[0][0] != '-')) {
    path = rest[0];
    rest.erase(rest.begin());
  }
  Options options("qrun devices [MODEL.qbin]",
                  "Lists the devices of this machine; with an artifact also its code, best first, and "
                  "whether it runs here.");
  bool done = false;
  QRUN_RETURN_IF_ERROR(ParseOrHelp(options, rest, &done));
  if (done) return Outcome();

  qrt_cpu_info cpu = {};
  cpu.struct_size = sizeof cpu;
  QRUN_CALL(qrt_cpu_describe(&cpu, &error));
  std::string text = "cpu: " + std::string(*cpu.name != '\0' ? cpu.name : "unknown") + ", " +
                     std::to_string(cpu.physical_cores) + " cores (" + std::to_string(cpu.logical_cores) +
                     " threads) available\n  features: " + cpu.features + "\n";
  if (path) {
    ArtifactPtr artifact;
    qrt_artifact_info info = {};
    QRUN_RETURN_IF_ERROR(OpenArtifact(*path, false, &artifact, &info));
    text += *path + ":\n";
    for (uint32_t i = 0; i < info.code_count; ++i) {
      qrt_code_info code = {};
      code.struct_size = sizeof code;
      QRUN_CALL(qrt_artifact_code(artifact.get(), i, &code, &error));
      text +=
          "  " + std::string(code.target) + " " + code.name + ", " + std::to_string(code.bytes) + " bytes: ";
      text += code.supported ? "runs here\n" : "does not run here, needs " + std::string(code.missing) + "\n";
    }
  }
  return WriteStdout(text);
}

}  // namespace qrun
