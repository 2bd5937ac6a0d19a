// `qrun tokenize`: ids of a text.
#include "runtime/qrun/commands.h"
#include "runtime/qrun/model.h"
#include "runtime/qrun/process.h"

namespace qrun {

Outcome RunTokenize(const Call& call) {
  std::optional<std::string> path, prompt, file;
  EngineChoice opening;
  bool special = false, as_written = false, json = false;
  Options options("qrun tokenize MODEL (-p TEXT | -f FILE) [OPTION...]",
                  "Prints the token ids of a text on one line. Adds nothing in front or behind.");
  options.Positional("MODEL", &path, "the artifact, or a GGUF, which qcc compiles at first use");
  options.Text("-p, --prompt", "TEXT", &prompt, "the text");
  options.Text("-f, --file", "FILE", &file, "read the text from FILE (-: standard input)");
  options.Flag("--special", &special, "special tokens written in the text become their ids");
  options.Flag("--no-normalize", &as_written, "keep text as it is written, not in Unicode's form C");
  options.Flag("--json", &json, "one JSON object");
  opening.AddOpeningTo(options);
  bool done = false;
  QRUN_RETURN_IF_ERROR(ParseOrHelp(options, call, &done));
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
  ModelFile model_file;
  QRUN_RETURN_IF_ERROR(FindModel(*path, opening, options, &model_file));
  Model model;
  QRUN_RETURN_IF_ERROR(OpenArtifact(model_file.path, opening.said.verbose, &model.artifact, &model.info));
  QRUN_RETURN_IF_ERROR(OpenText(model, &model.text));
  std::vector<int32_t> tokens;
  QRUN_RETURN_IF_ERROR(Tokenize(model.text.get(), text, special, &tokens, as_written));
  std::string line;
  for (const int32_t token : tokens) {
    line += (line.empty() ? "" : json ? ", " : " ") + std::to_string(token);
  }
  return WriteStdout(json ? "{\"tokens\": [" + line + "]}\n" : line + "\n");
}

}  // namespace qrun
