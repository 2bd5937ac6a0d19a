#include "runtime/qrun/outcome.h"

#include <cstdio>
#include <utility>

#include "runtime/qrun/escape.h"

namespace qrun {
namespace {

// Arguments that come from the user's files, not from the command line.
constexpr uint32_t kTokenOutsideVocabulary = 5304;
constexpr uint32_t kTextTooLong = 7104;
// The library was given the logits of its own model: what is wrong with them is the artifact's.
constexpr uint32_t kLogitNotANumber = 7203;
constexpr uint32_t kNoLogitLeft = 7204;
constexpr uint32_t kContextFull = 5310;

// What to do, where the library's help speaks of its own functions.
std::string HelpFor(const qrt_error& error) {
  if (error.code == kContextFull) return "-c N gives the context more tokens; or shorten the prompt";
  if (error.code == kToolsRefused) return "--tools takes a JSON array, as the model's chat template reads it";
  return error.help;
}

Exit ExitFor(const qrt_error& error) {
  if (error.code / 1000 == 6) return kExitResources;
  switch (error.status) {
    case QRT_INVALID_ARGUMENT:
      if (error.code == kLogitNotANumber || error.code == kNoLogitLeft) return kExitArtifact;
      return error.code == kTokenOutsideVocabulary || error.code == kTextTooLong ||
                     error.code == kToolsRefused
                 ? kExitInput
                 : kExitUsage;
    case QRT_CONTEXT_FULL:
    case QRT_SNAPSHOT_MISMATCH:
      return kExitInput;
    case QRT_NOT_FOUND:
    case QRT_IO_ERROR:
    case QRT_ARTIFACT_CORRUPT:
    case QRT_ARTIFACT_INCOMPATIBLE:
    case QRT_UNAVAILABLE:
    case QRT_TEMPLATE_ERROR:
    case QRT_NUMERIC_FAULT:
      return kExitArtifact;
    case QRT_DEVICE_UNSUPPORTED:
    case QRT_DEVICE_LOST:
    case QRT_DEVICE_FAILED:
      return kExitDevice;
    case QRT_OUT_OF_MEMORY:
      return kExitResources;
    case QRT_CANCELLED:
      return kExitInterrupted;
    default:
      return kExitInternal;
  }
}

}  // namespace

Outcome Outcome::Fail(Exit exit, uint32_t number, std::string message, std::string note, std::string help) {
  Outcome outcome;
  outcome.rep_ =
      std::make_unique<Rep>(Rep{exit, number, std::move(message), std::move(note), std::move(help), false});
  return outcome;
}

Outcome Outcome::Of(const qrt_error& error) {
  return Fail(ExitFor(error), error.code, error.message, error.note, HelpFor(error));
}

Outcome Outcome::Silent(Exit exit) {
  Outcome outcome;
  outcome.rep_ = std::make_unique<Rep>(Rep{exit, 0, "", "", "", true});
  return outcome;
}

std::string Outcome::Text() const {
  if (rep_ == nullptr || rep_->silent) return "";
  char number[16];
  std::snprintf(number, sizeof number, " [Q%04u]\n", rep_->number);
  std::string text = "qrun: error: " + OneLine(rep_->message) + number;
  if (!rep_->note.empty()) text += "  note: " + OneLine(rep_->note) + "\n";
  if (!rep_->help.empty()) text += "  help: " + OneLine(rep_->help) + "\n";
  return text;
}

}  // namespace qrun
