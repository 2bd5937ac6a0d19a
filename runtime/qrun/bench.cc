// `qrun bench`: prefill and decode speed at a depth.
#include <algorithm>
#include <cinttypes>
#include <cstdio>

#include "runtime/qrun/bench_drafts.h"
#include "runtime/qrun/commands.h"
#include "runtime/qrun/escape.h"
#include "runtime/qrun/model.h"
#include "runtime/qrun/process.h"
#include "runtime/qrun/stage_times.h"

namespace qrun {
namespace {

struct BenchFlags {
  std::optional<std::string> path;
  std::optional<int64_t> prompt, generate, depth, repeat, sessions;
  bool json = false, profile_stages = false;
  std::optional<double> forced;
  DraftFlags draft;
  EngineChoice engine;

  // Warns of a draft of nothing. Errors: usage (what belongs to drafts without one; sessions together with
  // one).
  Outcome Check() const {
    const std::pair<const char*, bool> only_with_draft[] = {{"--draft-len", draft.length.has_value()},
                                                            {"--force-acceptance", forced.has_value()}};
    const bool drafts = draft.draft.value_or("off") != "off";
    for (const auto& [name, given] : only_with_draft) {
      if (!given || drafts) continue;
      return Outcome::Fail(kExitUsage, 101, std::string(name) + " is given, but nothing drafts", "",
                           "say who guesses: --draft mtp, say");
    }
    if (drafts && sessions.value_or(1) != 1) {
      return Outcome::Fail(kExitUsage, 101, "--draft and --sessions: drafts are of one sequence");
    }
    if (prompt == 0 && generate == 0) {
      return Outcome::Fail(kExitUsage, 101, "-p and -n are both 0: nothing to measure");
    }
    if (drafts && generate == 0) engine.said.Warn("--draft has no effect: -n 0 decodes nothing");
    return Outcome();
  }
  bool drafts() const { return draft.draft.value_or("off") != "off" && generate != 0; }

  void AddTo(Options& options) {
    options.Positional("MODEL", &path, "the artifact, or a GGUF, which qcc compiles at first use");
    options.Integer("-p, --prompt", "N", 0, 1 << 24, &prompt,
                    "tokens of the prompt; 0: no prefill; default 512");
    options.Integer("-n, --predict", "N", 0, 1 << 24, &generate,
                    "tokens one by one; 0: no decode; default 128");
    options.Integer("-d, --depth", "N", 0, 1 << 28, &depth, "tokens in the session before either; default 0");
    options.Integer(
        "--sessions", "N", 1, 4096, &sessions,
        "sequences that decode together, a token of each in a step; tokens per second are of all; "
        "default 1");
    options.Integer("-r, --repeat", "N", 1, 10000, &repeat, "samples of each; default 5");
    options.Flag("--profile-stages", &profile_stages,
                 "where the time of a step goes, kernel by kernel and in sums: on a CPU with what threads "
                 "wait for each "
                 "other, on a GPU by its own timestamps, launch behind launch; of all samples together");
    draft.AddTo(options, "off");
    options.Number(
        "--force-acceptance", "X", 0, 1, &forced,
        "to measure what drafts would pay: each guess counts as right with probability X, whatever "
        "the model says; all work is done, and the text is nobody's");
    options.Flag("--json", &json, "one JSON object");
    engine.AddTo(options);
  }
};

// Tokens per second, one per repetition.
struct Samples {
  std::vector<double> values;

  double Median() const {
    if (values.empty()) return 0;
    std::vector<double> sorted = values;
    std::sort(sorted.begin(), sorted.end());
    const size_t middle = sorted.size() / 2;
    return sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
  }

  std::string Json(size_t tokens) const {
    char text[64];
    std::snprintf(text, sizeof text, "{\"tokens\": %zu, \"median\": %.4f, \"samples\": [", tokens, Median());
    std::string json = text;
    for (size_t i = 0; i < values.size(); ++i) {
      std::snprintf(text, sizeof text, "%s%.4f", i == 0 ? "" : ", ", values[i]);
      json += text;
    }
    return json + "]}";
  }

  std::string Line(const char* name, size_t tokens) const {
    if (values.empty()) return "";
    char text[64];
    std::snprintf(text, sizeof text, "%-8s%6zu tokens %10.2f tokens/s  [", name, tokens, Median());
    std::string line = text;
    for (size_t i = 0; i < values.size(); ++i) {
      std::snprintf(text, sizeof text, "%s%.2f", i == 0 ? "" : " ", values[i]);
      line += text;
    }
    return line + "]\n";
  }
};

// A session that can be put back to the same depth again and again.
class DeepSession {
 public:
  Outcome Open(const Model& model, const std::vector<int32_t>& tokens, size_t depth, uint64_t context,
               Drafting decoding) {
    QRUN_RETURN_IF_ERROR(NewSession(model, context, &session_, decoding));
    qrt_engine_info engine = {};
    QRUN_RETURN_IF_ERROR(DescribeEngine(model, &engine));
    if (engine.samples_on_device) {
      // As in use: the device draws, and only ids come back.
      QRUN_RETURN_IF_ERROR(DrawingSampler(model, &sampler_));
    }
    if (depth == 0) return Outcome();
    qrt_append_options options = {};
    options.struct_size = sizeof options;
    options.want = QRT_LOGITS_NONE;
    QRUN_CALL(qrt_session_append(session_.get(), tokens.data(), depth, &options, &error));
    snapshot_.resize(qrt_session_save_size(session_.get()));
    QRUN_CALL(qrt_session_save(session_.get(), snapshot_.data(), snapshot_.size(), nullptr, &error));
    return Outcome();
  }

  Outcome Rewind() {
    if (snapshot_.empty()) {
      QRUN_CALL(qrt_session_reset(session_.get(), &error));
    } else {
      QRUN_CALL(qrt_session_restore(session_.get(), snapshot_.data(), snapshot_.size(), &error));
    }
    return Outcome();
  }

  // The next tokens, as an item of a batch.
  qrt_batch_item Next(const int32_t* tokens, size_t count) {
    qrt_batch_item item = {};
    item.session = session_.get();
    item.tokens = tokens;
    item.count = count;
    item.options.struct_size = sizeof item.options;
    item.options.want = sampler_ != nullptr ? QRT_LOGITS_NONE : QRT_LOGITS_LAST;
    item.options.sampler = sampler_.get();
    item.options.next = sampler_ != nullptr ? &next_ : nullptr;
    return item;
  }

  // `count` tokens one by one: those given, or on a device that chooses tokens its own behind the first,
  // which it need not be told then.
  Outcome Decode(const int32_t* tokens, size_t count) {
    if (sampler_ == nullptr) {
      for (size_t i = 0; i < count; ++i) QRUN_RETURN_IF_ERROR(Append(tokens + i, 1));
      return Outcome();
    }
    qrt_generate_options options = {};
    options.struct_size = sizeof options;
    options.sampler = sampler_.get();
    int32_t chosen[16], token = tokens[0];
    for (size_t made = 0, more = 0; made < count; made += more) {
      const size_t room = std::min(std::size(chosen), count - made);
      QRUN_CALL(qrt_session_generate(session_.get(), token, &options, chosen, room, &more, &error));
      token = chosen[more - 1];
    }
    return Outcome();
  }

  Outcome Append(const int32_t* tokens, size_t count) {
    const qrt_batch_item item = Next(tokens, count);
    QRUN_CALL(qrt_session_append(item.session, item.tokens, item.count, &item.options, &error));
    return Outcome();
  }

 private:
  SessionPtr session_;
  int32_t next_ = 0;    // that the device chose
  SamplerPtr sampler_;  // on a device that chooses tokens
  std::vector<char> snapshot_;
};

// `count` tokens of each session, one by one, all sessions' together.
Outcome Decode(const Model& model, std::vector<DeepSession>& sessions, const int32_t* tokens, size_t count) {
  std::vector<qrt_batch_item> items(sessions.size());
  if (sessions.size() == 1) return sessions[0].Decode(tokens, count);
  for (size_t i = 0; i < count; ++i) {
    for (size_t s = 0; s < items.size(); ++s) items[s] = sessions[s].Next(tokens + i, 1);
    QRUN_CALL(qrt_engine_append(model.engine.get(), items.data(), items.size(), &error));
  }
  return Outcome();
}

// `repeat` times `count` tokens of each session: their samples, and how many steps that were. `profile`:
// times the stages from the first that counts on.
Outcome MeasureDecode(const Model& model, std::vector<DeepSession>& sessions, const int32_t* tokens,
                      size_t count, size_t repeat, bool profile, Samples* samples, size_t* steps) {
  for (size_t round = 0; count != 0 && round <= repeat; ++round) {
    const size_t some = round == 0 ? std::min<size_t>(count, 4) : count;
    // Not a part of decoding: at a depth, all keys and values are read and written.
    for (DeepSession& session : sessions) QRUN_RETURN_IF_ERROR(session.Rewind());
    if (profile && round == 1) QRUN_CALL(qrt_engine_time_stages(model.engine.get(), &error));
    const double begin = Seconds();
    QRUN_RETURN_IF_ERROR(Decode(model, sessions, tokens, some));
    *steps += some;
    const double made = static_cast<double>(some * sessions.size());
    if (round != 0) samples->values.push_back(made / (Seconds() - begin));
  }
  return Outcome();
}

// Ids spread over the vocabulary, the same in every run.
std::vector<int32_t> BenchTokens(size_t count, uint32_t vocab_size) {
  std::vector<int32_t> tokens(count);
  uint64_t state = 1;
  for (int32_t& token : tokens) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    token = static_cast<int32_t>((state >> 33) % vocab_size);
  }
  return tokens;
}

// It touches every weight: the time tells how long a user waits, and the page cache is warm for the rest.
Outcome FirstToken(const Model& model, int32_t token) {
  SessionPtr session;
  QRUN_RETURN_IF_ERROR(NewSession(model, 64, &session));
  QRUN_CALL(qrt_session_append(session.get(), &token, 1, nullptr, &error));
  return Outcome();
}

}  // namespace

Outcome RunBench(const Call& call) {
  BenchFlags flags;
  Options options(
      "qrun bench MODEL [OPTION...]",
      "Measures tokens per second: feeding a prompt in one call, and tokens one by one. Medians and every "
      "sample.");
  flags.AddTo(options);
  bool done = false;
  QRUN_RETURN_IF_ERROR(ParseOrHelp(options, call, &done));
  if (done) return Outcome();
  const size_t prompt = static_cast<size_t>(flags.prompt.value_or(512));
  const size_t generate = static_cast<size_t>(flags.generate.value_or(128));
  const size_t depth = static_cast<size_t>(flags.depth.value_or(0));
  const size_t repeat = static_cast<size_t>(flags.repeat.value_or(5));
  QRUN_RETURN_IF_ERROR(flags.Check());
  flags.engine.draft = flags.draft.File();

  const double start = Seconds();
  ModelFile model_file;
  QRUN_RETURN_IF_ERROR(FindModel(*flags.path, flags.engine, options, &model_file));
  Model model;
  QRUN_RETURN_IF_ERROR(OpenModel(model_file.path, flags.engine, false, &model));
  const size_t context = depth + std::max<size_t>(1, std::max(prompt, generate));
  WarnOfContext(model, context, depth);
  const std::vector<int32_t> tokens = BenchTokens(context, model.info.vocab_size);
  QRUN_RETURN_IF_ERROR(FirstToken(model, tokens[0]));
  const double first_token_seconds = Seconds() - start;
  std::vector<DeepSession> sessions(static_cast<size_t>(flags.sessions.value_or(1)));
  if (!flags.drafts()) QRUN_RETURN_IF_ERROR(flags.draft.WarnOfAhead(model));  // else MeasureDrafts does
  const Drafting plain = {QRT_DRAFT_NONE, 0, flags.draft.Ahead()};
  for (DeepSession& session : sessions) {
    QRUN_RETURN_IF_ERROR(session.Open(model, tokens, depth, context, plain));
  }
  Samples prefill, decode;
  // The first round of each is not counted: it faults in KV and arena.
  for (size_t round = 0; prompt != 0 && round <= repeat; ++round) {
    if (flags.profile_stages && round == 1) QRUN_CALL(qrt_engine_time_stages(model.engine.get(), &error));
    QRUN_RETURN_IF_ERROR(sessions[0].Rewind());
    const double begin = Seconds();
    QRUN_RETURN_IF_ERROR(sessions[0].Append(tokens.data() + depth, prompt));
    if (round != 0) prefill.values.push_back(static_cast<double>(prompt) / (Seconds() - begin));
  }
  qrt_engine_info before = {};
  QRUN_RETURN_IF_ERROR(DescribeEngine(model, &before));
  size_t decoded = 0;
  DraftSpeed drafts;
  if (flags.drafts()) {
    if (flags.profile_stages && prompt == 0) QRUN_CALL(qrt_engine_time_stages(model.engine.get(), &error));
    QRUN_RETURN_IF_ERROR(
        MeasureDrafts(model, flags.draft, flags.forced, tokens, depth, generate, repeat, &drafts));
    decode.values = drafts.plain;
    decoded = 2 * (repeat + 1) * generate;
  }
  if (!flags.drafts()) {
    const bool profile = flags.profile_stages && prompt == 0;
    QRUN_RETURN_IF_ERROR(
        MeasureDecode(model, sessions, tokens.data() + depth, generate, repeat, profile, &decode, &decoded));
  }

  const Samples drafted = {drafts.drafted};
  std::vector<TimedProgram> stages;
  if (flags.profile_stages) QRUN_RETURN_IF_ERROR(ReadStageTimes(model, &stages));
  qrt_engine_info engine = {};
  QRUN_RETURN_IF_ERROR(DescribeEngine(model, &engine));
  const double steps = static_cast<double>(std::max<size_t>(1, decoded));
  const double submissions = static_cast<double>(engine.submissions - before.submissions) / steps;
  const double bytes_to_host = static_cast<double>(engine.bytes_to_host - before.bytes_to_host) / steps;
  const double transfers = static_cast<double>(engine.transfers - before.transfers) / steps;
  char text[1024];
  std::string report;
  if (flags.json) {
    std::snprintf(text, sizeof text,
                  ", \"threads\": %u, \"mean_threads\": %.3f, \"depth\": %zu, \"sessions\": %zu, "
                  "\"load_seconds\": %.6f, "
                  "\"first_token_seconds\": %.6f, "
                  "\"peak_rss_bytes\": %" PRIu64 ", \"weight_bytes\": %" PRIu64
                  ", \"device_weight_bytes\": %" PRIu64
                  ", \"decode_submissions_per_token\": %.4g, \"decode_bytes_to_host_per_token\": %.6g, "
                  "\"decode_transfers_per_token\": %.4g, \"prefill\": ",
                  engine.threads, MeanThreads(engine), depth, sessions.size(), model.load_seconds,
                  first_token_seconds, PeakRssBytes(), model.info.weight_bytes, engine.device_weight_bytes,
                  submissions, bytes_to_host, transfers);
    report = "{\"model\": " + Quoted(*flags.path) + ", \"architecture\": " + Quoted(model.info.architecture) +
             ", \"device\": " + Quoted(engine.device) + ", \"cpu\": " + Quoted(engine.cpu) + text +
             prefill.Json(prompt) + ", \"decode\": " + decode.Json(generate) +
             (flags.drafts() ? ", \"drafts\": " + DraftJson(drafts, drafted.Json(generate)) : "") +
             (flags.profile_stages ? ", \"programs\": " + StageJson(stages) : "") + "}\n";
  } else {
    std::snprintf(text, sizeof text,
                  "%s, depth %zu; load %.3f s, first token %.3f s, peak %.1f MiB; "
                  "%.4g submissions, %.6g bytes read back and %.4g transfers between devices per token\n",
                  ThreadsText(engine).c_str(), depth, model.load_seconds, first_token_seconds,
                  static_cast<double>(PeakRssBytes()) / 1048576.0, submissions, bytes_to_host, transfers);
    report = OneLine(std::string(engine.device) + ", " + engine.cpu) + ", " + text +
             prefill.Line("prefill", prompt) + decode.Line("decode", generate) +
             (flags.drafts() ? drafted.Line("drafted", generate) + DraftLine(drafts) : "") +
             StageTables(stages);
  }
  return WriteStdout(report);
}

}  // namespace qrun
