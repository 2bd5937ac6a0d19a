// `qrun tokenize`: ids of a text.
#include "runtime/qrun/commands.h"
#include "runtime/qrun/model.h"
#include "runtime/qrun/process.h"

namespace qrun {

Outcome RunTokenize(const std::vector<std::string>& arguments) {
  std::optional<std::string> path, prompt, file;
  bool special = false, json = false;
  Verbosity said;
  Options options("qrun tokenize MODEL.qbin (-p TEXT | -f FILE) [OPTION...]",
                  "Prints the token ids of a text on one line. Adds nothing in front or behind.");
  options.Positional("MODEL.qbin", &path, "the artifact");
  options.Text("-p, --prompt", "TEXT", &prompt, "the text");
  options.Text("-f, --file", "FILE", &file, "read the text from FILE (-: standard input)");
  options.Flag("--special", &special, "special tokens written in the text become their ids");
  options.Flag("--json", &json, "one JSON object");
  said.AddTo(options);
  bool done = false;
  QRUN_RETURN_IF_ERROR(ParseOrHelp(options, arguments, &done));
  if (done) return Outcome();
  if (prompt.has_value() == file.has_value()) {
    return Outcome::Fail(kExitUsage, 101, "one of -p and -f is needed", "", "--help lists the options");
  }
  std::string text;
  if (prompt) {
    text = *prompt;
  } else {
    QRUN_RETURN_IF_ERROR(ReadText(*file, &text));
  }
  Model model;
  QRUN_RETURN_IF_ERROR(OpenArtifact(*path, said.verbose, &model.artifact, &model.info));
  QRUN_RETURN_IF_ERROR(OpenText(model, &model.text));
  std::vector<int32_t> tokens;
  QRUN_RETURN_IF_ERROR(Tokenize(model.text.get(), text, special, &tokens));
  std::string line;
  for (const int32_t token : tokens) {
    line += (line.empty() ? "" : json ? ", " : " ") + std::to_string(token);
  }
  return WriteStdout(json ? "{\"tokens\": [" + line + "]}\n" : line + "\n");
}

}  // namespace qrun
