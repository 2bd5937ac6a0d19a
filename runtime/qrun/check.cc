// `qrun check`: is the artifact whole, and does this machine compute with it what the compiler's did.
#include <cmath>
#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "runtime/qrun/commands.h"
#include "runtime/qrun/device_choice.h"
#include "runtime/qrun/escape.h"
#include "runtime/qrun/model.h"
#include "runtime/qrun/process.h"

namespace qrun {
namespace {

constexpr uint32_t kArtifactIsADraft = 5336;  // which has no engine of its own

int32_t ShowProgress(void* line, uint64_t done, uint64_t total) {
  static_cast<ProgressLine*>(line)->Show(done, total);
  return Interrupts::Pending();
}

// A reader that left is no reason to stop: what is wrong shows in the exit code, too.
Outcome Say(const std::string& line) {
  Outcome written = WriteStdout(line);
  return written.reader_left() ? Outcome() : std::move(written);
}

// What came of one code variant, as a line or as an element of the JSON array.
struct Checked {
  std::string target, name;
  std::string result;  // "ok", "WRONG", "skipped", "unchecked": there is nothing to compare with; "failed"
  std::string text;    // behind it, for people
  qrt_check_report report = {};

  bool skipped() const { return result == "skipped"; }
  std::string Line() const {
    const char* between = skipped() && IsGpu(target) ? ": " : ", ";
    return OneLine(target + " " + name) + ": " + (result == "unchecked" ? "" : result + between) +
           OneLine(text) + "\n";
  }
  std::string Json() const {
    char numbers[240];
    std::snprintf(numbers, sizeof numbers,
                  ", \"tokens\": %u, \"values\": %u, \"rms_difference\": %.6g, \"rms_tolerance\": %.6g, "
                  "\"max_difference\": %.6g, \"tolerance\": %.6g, \"exact_rows\": %u, \"hashed_rows\": %u",
                  report.tokens, report.values, report.rms_difference, report.rms_tolerance,
                  static_cast<double>(report.max_difference), static_cast<double>(report.tolerance),
                  report.exact_rows, report.hashed_rows);
    // A difference that is no number is none in JSON either.
    const bool compared = (result == "ok" || result == "WRONG") && std::isfinite(report.max_difference);
    return "{\"target\": " + Quoted(target) + ", \"name\": " + Quoted(name) +
           ", \"result\": " + Quoted(result) + (compared ? numbers : ", \"text\": " + Quoted(text)) + "}";
  }
};

// Of a model in parts, why none of it runs here: nothing of what some part needs does. Empty: no such reason.
Outcome FindMissingPart(const qrt_artifact* artifact, const qrt_artifact_info& info, std::string* missing) {
  if (info.parts < 2) return Outcome();
  std::map<std::string, std::string> reasons;  // of targets
  std::set<std::string> supported;
  for (uint32_t i = 0; i < info.code_count; ++i) {
    qrt_code_info code = {};
    code.struct_size = sizeof code;
    QRUN_CALL(qrt_artifact_code(artifact, i, &code, &error));
    if (code.supported) supported.insert(code.target);
    reasons[code.target] = code.missing;
  }
  for (const auto& [target, reason] : reasons) {
    if (!supported.contains(target)) *missing = "no part for " + target + " runs here: " + reason;
  }
  return Outcome();
}

Outcome CheckCode(const std::string& path, const qrt_artifact_info& artifact, const qrt_code_info& code,
                  const std::string& missing_part, const EngineChoice& wanted, Checked* out) {
  out->target = code.target;
  out->name = code.name;
  if (!code.supported) {
    out->result = "skipped";
    out->text = (IsGpu(code.target) ? "" : "this machine lacks ") + std::string(code.missing);
    return Outcome();
  }
  if (!missing_part.empty()) {
    out->result = "skipped";
    out->text = missing_part;
    return Outcome();
  }
  out->result = "failed";
  EngineChoice choice = wanted;
  choice.cpu = code.name;
  // Of a model in parts each device is that of its part.
  if (!choice.device && artifact.parts < 2) choice.device = code.target;
  Model model;
  Outcome opened = OpenModel(path, choice, false, &model);
  if (opened.number() == kArtifactIsADraft) {
    out->result = "unchecked";
    out->text = "a draft, which carries no golden values";
    return Outcome();
  }
  QRUN_RETURN_IF_ERROR(std::move(opened));
  if (!artifact.has_goldens) {
    out->result = "unchecked";
    out->text = "loads; the artifact carries no golden values";
    return Outcome();
  }
  qrt_check_report& report = out->report;
  report.struct_size = sizeof report;
  {
    const EndAtOnce nothing_stops_it;
    QRUN_CALL(qrt_engine_check(model.engine.get(), &report, &error));
  }
  out->result = report.passed ? "ok" : "WRONG";
  char text[200];
  std::snprintf(text, sizeof text,
                "%u golden values of %u tokens, rms difference %.3g (accepted %.3g), max %.3g (accepted "
                "%.3g), %u of %u "
                "rows exact",
                report.values, report.tokens, report.rms_difference, report.rms_tolerance,
                static_cast<double>(report.max_difference), static_cast<double>(report.tolerance),
                report.exact_rows, report.hashed_rows);
  out->text = text;
  if (report.passed) return Outcome();
  return Outcome::Fail(kExitDevice, 5007, "this machine does not compute the artifact's golden values",
                       code.name,
                       "try another --cpu or --device; if the memory and the hardware are sound, report it");
}

// All code that was asked for was skipped: what running it would say.
Outcome NothingChecked(const std::string& path, EngineChoice choice, const std::string& target, bool parts) {
  // A name is that of one target's code.
  if (choice.cpu && !choice.device && !parts) choice.device = target;
  Model none;
  QRUN_RETURN_IF_ERROR(OpenModel(path, choice, false, &none));
  return Outcome::Fail(kExitDevice, 5009, "nothing was checked: no code that was asked for runs here", path,
                       "qrun devices MODEL lists what there is");
}

}  // namespace

Outcome RunCheck(const Call& call) {
  std::optional<std::string> path;
  bool json = false;
  EngineChoice choice;
  Options options(
      "qrun check MODEL [OPTION...]",
      "Verifies every hash, the weights' too, and runs the golden values on each code this machine can run; "
      "none: exit code 5.");
  options.Positional("MODEL", &path, "the artifact, or a GGUF, which qcc compiles at first use");
  options.Flag("--json", &json, "one JSON object");
  choice.AddTo(options);
  bool done = false;
  QRUN_RETURN_IF_ERROR(ParseOrHelp(options, call, &done));
  if (done) return Outcome();

  const Interrupts interrupts;
  ModelFile model_file;
  QRUN_RETURN_IF_ERROR(FindModel(*path, choice, options, &model_file));
  ArtifactPtr artifact;
  qrt_artifact_info info = {};
  QRUN_RETURN_IF_ERROR(OpenArtifact(model_file.path, choice.said.verbose, &artifact, &info));
  {
    ProgressLine line(choice.said.quiet ? "" : "hashing weights");
    qrt_error error = NewError();
    const qrt_status status = qrt_artifact_verify(artifact.get(), ShowProgress, &line, &error);
    if (json && status == QRT_ARTIFACT_CORRUPT) {
      QRUN_RETURN_IF_ERROR(Say("{\"hashes\": \"damaged\", \"code\": []}\n"));
    }
    if (status != QRT_OK) return Outcome::Of(error);
  }
  if (!json) QRUN_RETURN_IF_ERROR(Say("hashes: ok\n"));
  if (choice.device && *choice.device == "auto") choice.device.reset();  // all are tried
  choice.several_devices = !choice.device;
  std::string missing_part;
  QRUN_RETURN_IF_ERROR(FindMissingPart(artifact.get(), info, &missing_part));
  bool found = false, ran = false;
  std::string skipped;  // the target of code that was
  std::set<std::pair<std::string, std::string>> names;
  std::string objects;
  Exit exit = kExitOk;  // of the first failure; one variant's does not keep the others from being checked
  for (uint32_t i = 0; i < info.code_count; ++i) {
    qrt_code_info code = {};
    code.struct_size = sizeof code;
    QRUN_CALL(qrt_artifact_code(artifact.get(), i, &code, &error));
    if (choice.code() != nullptr && choice.code() != std::string_view(code.name)) continue;
    const bool in_parts = info.parts > 1;
    const std::pair<std::string, std::string> name = {code.target, code.name};
    // Several parts have code of one name; they run it together.
    if (in_parts && !names.insert(name).second) continue;
    if (!in_parts && choice.device && choice.device->substr(0, choice.device->find(':')) != code.target) {
      continue;
    }
    found = true;
    Checked checked;
    Outcome outcome = CheckCode(model_file.path, info, code, missing_part, choice, &checked);
    ran = ran || !checked.skipped();
    if (checked.skipped()) skipped = checked.target;
    if (json) {
      objects += (objects.empty() ? "" : ", ") + checked.Json();
    } else if (checked.result != "failed") {
      Outcome written = Say(checked.Line());
      if (outcome.ok()) outcome = std::move(written);
    }
    std::fputs(outcome.Text().c_str(), stderr);
    if (Interrupts::Pending()) return Outcome::Silent(kExitInterrupted);
    if (exit == kExitOk) exit = static_cast<Exit>(outcome.exit_code());
  }
  if (!found) {
    Model none;  // there may be no such device
    if (choice.device) QRUN_RETURN_IF_ERROR(OpenModel(model_file.path, choice, false, &none));
    return Outcome::Fail(kExitUsage, 5003,
                         "the artifact holds no code variant \"" + choice.cpu.value_or("") + "\"" +
                             (choice.device ? " for device " + *choice.device : ""),
                         *path, "qrun devices MODEL lists them");
  }
  if (json) QRUN_RETURN_IF_ERROR(Say("{\"hashes\": \"ok\", \"code\": [" + objects + "]}\n"));
  if (!ran) return NothingChecked(model_file.path, choice, skipped, info.parts > 1);
  return exit == kExitOk ? Outcome() : Outcome::Silent(exit);
}

}  // namespace qrun
