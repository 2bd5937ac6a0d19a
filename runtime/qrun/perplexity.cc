// `qrun perplexity`: how well the model predicts a text.
#include <cmath>
#include <cstdio>
#include <optional>

#include "runtime/qrun/commands.h"
#include "runtime/qrun/log_sum_exp.h"
#include "runtime/qrun/model.h"
#include "runtime/qrun/process.h"

namespace qrun {
namespace {

struct Score {
  const std::vector<int32_t>& tokens;
  double negative_log_likelihood = 0;  // of tokens[1..], in nats
  std::optional<uint64_t> bad_row = {};
  size_t bad_column = 0;
  ProgressLine progress;
};

constexpr uint64_t kRowsBetweenProgress = 128;

// Row i scores token i + 1.
int32_t AddRow(void* ctx, qrt_session*, uint64_t position, const float* logits, size_t vocab_size) {
  Score& score = *static_cast<Score*>(ctx);
  if (position + 1 >= score.tokens.size()) return 0;
  const LogSumExp sum = LogSumExpOf({logits, vocab_size});
  // It makes the whole sum meaningless, and no number JSON could hold.
  if (sum.bad != vocab_size) {
    score.bad_row = position;
    score.bad_column = sum.bad;
    return 1;
  }
  score.negative_log_likelihood += sum.value - logits[score.tokens[position + 1]];
  if ((position + 1) % kRowsBetweenProgress == 0) score.progress.Show(position + 1, score.tokens.size() - 1);
  return 0;
}

}  // namespace

Outcome RunPerplexity(const Call& call) {
  std::optional<std::string> path, file;
  bool json = false;
  EngineChoice choice;
  Options options(
      "qrun perplexity MODEL -f TEXT [OPTION...]",
      "The whole text is one sequence, with nothing added in front; every token but the first is scored.");
  options.Positional("MODEL", &path, "the artifact, or a GGUF, which qcc compiles at first use");
  options.Text("-f, --file", "FILE", &file, "the text (-: standard input)");
  options.Flag("--json", &json, "one JSON object");
  choice.AddTo(options);
  bool done = false;
  QRUN_RETURN_IF_ERROR(ParseOrHelp(options, call, &done));
  if (done) return Outcome();
  if (!file) return Outcome::Fail(kExitUsage, 101, "-f is missing", "", "--help lists the options");
  std::string text;
  QRUN_RETURN_IF_ERROR(ReadText(*file, &text));

  ModelFile model_file;
  QRUN_RETURN_IF_ERROR(FindModel(*path, choice, options, &model_file));
  Model model;
  QRUN_RETURN_IF_ERROR(OpenModel(model_file.path, choice, true, &model));
  std::vector<int32_t> tokens;
  QRUN_RETURN_IF_ERROR(Tokenize(model.text.get(), text, false, &tokens));
  if (tokens.size() < 2) {
    return Outcome::Fail(kExitInput, 8002,
                         "the text has " + std::to_string(tokens.size()) + " tokens, expected at least 2",
                         *file);
  }
  WarnOfContext(model, tokens.size());
  SessionPtr session;
  QRUN_RETURN_IF_ERROR(NewSession(model, tokens.size(), &session));
  Score score = {.tokens = tokens, .progress = ProgressLine(choice.said.quiet ? "" : "scoring")};
  qrt_append_options append = {};
  append.struct_size = sizeof append;
  append.want = QRT_LOGITS_ALL;
  append.on_logits = AddRow;
  append.ctx = &score;
  qrt_error error = NewError();
  if (qrt_session_append(session.get(), tokens.data(), tokens.size() - 1, &append, &error) != QRT_OK) {
    if (!score.bad_row) return Outcome::Of(error);
    return Outcome::Fail(kExitArtifact, 7203,
                         "the model gives a logit that is no number, for token id " +
                             std::to_string(score.bad_column) + " after position " +
                             std::to_string(*score.bad_row),
                         *path, "check the artifact: qrun check");
  }
  const size_t scored = tokens.size() - 1;
  const double perplexity = std::exp(score.negative_log_likelihood / static_cast<double>(scored));
  char line[160];
  if (json) {
    char figure[32] = "null";  // JSON has no infinity
    if (std::isfinite(perplexity)) std::snprintf(figure, sizeof figure, "%.10g", perplexity);
    std::snprintf(line, sizeof line, "{\"perplexity\": %s, \"tokens\": %zu, \"scored\": %zu}\n", figure,
                  tokens.size(), scored);
    return WriteStdout(line);
  }
  // The figure alone goes to stdout, so that a script needs no parser.
  if (!choice.said.quiet) std::fprintf(stderr, "qrun: %zu tokens, %zu scored\n", tokens.size(), scored);
  std::snprintf(line, sizeof line, "perplexity %.6f\n", perplexity);
  return WriteStdout(line);
}

}  // namespace qrun
