// `qrun devices`: what this machine has, and what an artifact needs.
#include <vector>

#include "runtime/qrun/commands.h"
#include "runtime/qrun/device_choice.h"
#include "runtime/qrun/escape.h"
#include "runtime/qrun/model.h"
#include "runtime/qrun/process.h"

namespace qrun {
namespace {

struct Code {
  std::string target, name, missing;
  uint64_t bytes = 0;
  bool supported = false;
};

Outcome ListCode(const std::string& path, bool verbose, std::vector<Code>* out) {
  ArtifactPtr artifact;
  qrt_artifact_info info = {};
  QRUN_RETURN_IF_ERROR(OpenArtifact(path, verbose, &artifact, &info));
  for (uint32_t i = 0; i < info.code_count; ++i) {
    qrt_code_info code = {};
    code.struct_size = sizeof code;
    QRUN_CALL(qrt_artifact_code(artifact.get(), i, &code, &error));
    out->push_back({code.target, code.name, code.missing, code.bytes, code.supported != 0});
  }
  return Outcome();
}

std::string Text(const qrt_cpu_info& cpu, const std::vector<qrt_device_info>& devices) {
  std::string text;
  for (const qrt_device_info& device : devices) {
    std::string line = std::string(device.id) + ": ";
    if (*device.name != '\0') line += std::string(device.name) + ", ";
    if (*device.facts != '\0') line += device.facts;
    if (!device.usable)
      line += std::string(*device.facts != '\0' ? "; " : "") + "cannot be used: " + device.why_not;
    text += OneLine(line) + "\n";
    if (std::string_view(device.id) == "cpu") text += "  features: " + OneLine(cpu.features) + "\n";
  }
  return text;
}

std::string Text(const std::string& path, const std::vector<Code>& codes) {
  std::string text = OneLine(path) + ":\n";
  for (const Code& code : codes) {
    const std::string name = OneLine(code.target + " " + code.name);
    text += "  " + name + ", " + std::to_string(code.bytes) + " bytes: ";
    const char* why_not = IsGpu(code.target) ? "does not run here: " : "does not run here, needs ";
    text += code.supported ? "runs here\n" : why_not + OneLine(code.missing) + "\n";
  }
  return text;
}

std::string Json(const std::vector<qrt_device_info>& devices, const std::vector<Code>* codes) {
  std::string json = "{\"devices\": [";
  for (const qrt_device_info& device : devices) {
    if (&device != devices.data()) json += ", ";
    json += "{\"id\": " + Quoted(device.id) + ", \"name\": " + Quoted(device.name) +
            ", \"facts\": " + Quoted(device.facts) + ", \"usable\": " + (device.usable ? "true" : "false") +
            ", \"why_not\": " + Quoted(device.why_not) +
            ", \"memory_bytes\": " + std::to_string(device.memory_bytes) + "}";
  }
  json += "]";
  if (codes == nullptr) return json + "}\n";
  json += ", \"code\": [";
  for (const Code& code : *codes) {
    if (&code != codes->data()) json += ", ";
    json += "{\"target\": " + Quoted(code.target) + ", \"name\": " + Quoted(code.name) +
            ", \"bytes\": " + std::to_string(code.bytes) +
            ", \"supported\": " + (code.supported ? "true" : "false") +
            ", \"missing\": " + Quoted(code.missing) + "}";
  }
  return json + "]}\n";
}

}  // namespace

Outcome RunDevices(const Call& call) {
  std::optional<std::string> path;
  EngineChoice opening;
  bool json = false;
  Options options("qrun devices [MODEL] [--json]",
                  "Lists the devices of this machine, and why one cannot be used; with an artifact also its "
                  "code, best first, and whether it runs here.");
  options.Positional("MODEL", &path, "an artifact, or a GGUF", false);
  options.Flag("--json", &json, "one JSON object");
  opening.AddOpeningTo(options);
  bool done = false;
  QRUN_RETURN_IF_ERROR(ParseOrHelp(options, call, &done));
  if (done) return Outcome();

  qrt_cpu_info cpu = {};
  cpu.struct_size = sizeof cpu;
  QRUN_CALL(qrt_cpu_describe(&cpu, &error));
  std::vector<qrt_device_info> devices;
  QRUN_RETURN_IF_ERROR(ListDevices(&devices));
  std::vector<Code> codes;
  ModelFile model_file;
  if (!path) QRUN_RETURN_IF_ERROR(options.RefusePassed());
  if (path) QRUN_RETURN_IF_ERROR(FindModel(*path, opening, options, &model_file));
  if (path) QRUN_RETURN_IF_ERROR(ListCode(model_file.path, opening.said.verbose, &codes));
  if (json) return WriteStdout(Json(devices, path ? &codes : nullptr));
  return WriteStdout(Text(cpu, devices) + (path ? Text(*path, codes) : ""));
}

}  // namespace qrun
