// `qrun logits`: every position's logits, as a file.
#include <algorithm>
#include <charconv>
#include <cstring>

#include "runtime/qrun/commands.h"
#include "runtime/qrun/model.h"
#include "runtime/qrun/process.h"

namespace qrun {
namespace {

bool IsSpace(char c) {
  return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

Outcome ParseIds(const std::string& text, const std::string& path, std::vector<int32_t>* out) {
  const char* end = text.data() + text.size();
  for (const char* at = text.data();;) {
    at = std::find_if_not(at, end, IsSpace);
    if (at == end) break;
    int32_t id = 0;
    const auto parsed = std::from_chars(at, end, id);
    if (parsed.ec != std::errc() || (parsed.ptr != end && !IsSpace(*parsed.ptr))) {
      const char* word_end = std::find_if(at, std::min(end, at + 40), IsSpace);
      return Outcome::Fail(kExitInput, 8003, "\"" + std::string(at, word_end) + "\" is no token id",
                           path + ", byte " + std::to_string(at - text.data()),
                           "the file holds decimal ids, separated by white space");
    }
    out->push_back(id);
    at = parsed.ptr;
  }
  if (out->empty()) return Outcome::Fail(kExitInput, 8003, path + " holds no token ids");
  return Outcome();
}

Outcome ParseSplit(const std::string& text, std::vector<size_t>* out) {
  const char* end = text.data() + text.size();
  for (const char* at = text.data();;) {
    size_t length = 0;
    const auto parsed = std::from_chars(at, end, length);
    if (parsed.ec != std::errc() || length == 0 || (parsed.ptr != end && *parsed.ptr != ',')) {
      return Outcome::Fail(kExitUsage, 101, "--split is \"" + text + "\", expected lengths like 3,5,1");
    }
    out->push_back(length);
    if (parsed.ptr == end) return Outcome();
    at = parsed.ptr + 1;
  }
}

struct Writer {
  OutputFile file;
  Outcome outcome;
};

int32_t WriteRow(void* ctx, qrt_session*, uint64_t, const float* logits, size_t vocab_size) {
  Writer& writer = *static_cast<Writer*>(ctx);
  writer.outcome = writer.file.Write(logits, vocab_size * sizeof(float));
  return writer.outcome.ok() ? 0 : 1;
}

}  // namespace

Outcome RunLogits(const Call& call) {
  std::optional<std::string> path, tokens_path, out_path, split_text;
  EngineChoice choice;
  Options options(
      "qrun logits MODEL --tokens IDS.txt -o OUT.bin [OPTION...]",
      "Writes the logits of every position: \"LGT1\", int32 rows, int32 columns, then float32 rows, little "
      "endian.");
  options.Positional("MODEL", &path, "the artifact, or a GGUF, which qcc compiles at first use");
  options.Text("--tokens", "FILE", &tokens_path, "token ids, decimal, separated by white space");
  options.Text("-o, --output", "FILE", &out_path, "where to write (-: standard output)");
  options.Text("--split", "N,N,...", &split_text,
               "feed the sequence in pieces of these lengths, repeating the last; default: in one piece");
  choice.AddTo(options);
  bool done = false;
  QRUN_RETURN_IF_ERROR(ParseOrHelp(options, call, &done));
  if (done) return Outcome();
  if (!tokens_path || !out_path) {
    return Outcome::Fail(kExitUsage, 101, tokens_path ? "-o is missing" : "--tokens is missing", "",
                         "--help lists the options");
  }
  std::vector<size_t> split;
  if (split_text) QRUN_RETURN_IF_ERROR(ParseSplit(*split_text, &split));
  std::string text;
  QRUN_RETURN_IF_ERROR(ReadFile(*tokens_path, kMaxTextBytes, &text));
  std::vector<int32_t> tokens;
  QRUN_RETURN_IF_ERROR(ParseIds(text, *tokens_path, &tokens));
  if (split.empty()) split.push_back(tokens.size());

  QRUN_RETURN_IF_ERROR(RefuseModel("-o", *out_path, *path, choice));
  QRUN_RETURN_IF_ERROR(RefuseInput("-o", *out_path, "the token file", *tokens_path));
  const Interrupts interrupts;  // before there is a file that must not stay half-written
  Writer writer;
  QRUN_RETURN_IF_ERROR(writer.file.Open(*out_path));
  ModelFile model_file;
  QRUN_RETURN_IF_ERROR(FindModel(*path, choice, options, &model_file));
  Model model;
  QRUN_RETURN_IF_ERROR(OpenModel(model_file.path, choice, false, &model));
  SessionPtr session;
  QRUN_RETURN_IF_ERROR(NewSession(model, tokens.size(), &session));
  const int32_t header[2] = {static_cast<int32_t>(tokens.size()),
                             static_cast<int32_t>(model.info.vocab_size)};
  QRUN_RETURN_IF_ERROR(writer.file.Write("LGT1", 4));
  QRUN_RETURN_IF_ERROR(writer.file.Write(header, sizeof header));
  qrt_append_options append = {};
  append.struct_size = sizeof append;
  append.want = QRT_LOGITS_ALL;
  append.on_logits = WriteRow;
  append.ctx = &writer;
  Interrupts::Watch(session.get());
  for (size_t at = 0, piece = 0; at < tokens.size(); ++piece) {
    const size_t count = std::min(split[std::min(piece, split.size() - 1)], tokens.size() - at);
    qrt_error error = NewError();
    if (qrt_session_append(session.get(), tokens.data() + at, count, &append, &error) != QRT_OK) {
      return writer.outcome.ok() ? Outcome::Of(error) : std::move(writer.outcome);
    }
    at += count;
  }
  return writer.file.Commit();
}

}  // namespace qrun
