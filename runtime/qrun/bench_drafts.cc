#include "runtime/qrun/bench_drafts.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <iterator>

#include "runtime/qrun/escape.h"
#include "runtime/qrun/process.h"

namespace qrun {
namespace {

// Says of each guess whether it counts as right: the same in every run.
class Verdict {
 public:
  explicit Verdict(double share) : share_(share) {}
  static int32_t Agrees(void* self, uint32_t) { return static_cast<Verdict*>(self)->Next() ? 1 : 0; }

 private:
  bool Next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<double>(state_ >> 33) < share_ * static_cast<double>(uint64_t{1} << 31);
  }
  const double share_;
  uint64_t state_ = 1;
};

// A sequence that is written again and again behind the same history.
class Writer {
 public:
  Outcome Open(const Model& model, uint64_t context, Drafting draft) {
    QRUN_RETURN_IF_ERROR(NewSession(model, context, &session_, draft));
    return GreedySampler(model, &sampler_);
  }

  // `count` tokens behind tokens[depth]. *rate: tokens per second. `verdict` NULL: the sampler says which
  // guesses are right.
  Outcome Write(const std::vector<int32_t>& tokens, size_t depth, size_t count, Verdict* verdict,
                double* rate) {
    QRUN_CALL(qrt_session_reset(session_.get(), &error));
    qrt_append_options history = {};
    history.struct_size = sizeof history;
    history.want = QRT_LOGITS_NONE;
    QRUN_CALL(qrt_session_append(session_.get(), tokens.data(), depth, &history, &error));
    qrt_generate_options options = {};
    options.struct_size = sizeof options;
    options.sampler = sampler_.get();
    options.agrees = verdict != nullptr ? Verdict::Agrees : nullptr;
    options.ctx = verdict;
    int32_t chosen[16], token = tokens[depth];
    const double begin = Seconds();
    for (size_t made = 0, more = 0; made < count; made += more) {
      const size_t room = std::min(std::size(chosen), count - made);
      QRUN_CALL(qrt_session_generate(session_.get(), token, &options, chosen, room, &more, &error));
      token = chosen[more - 1];
    }
    *rate = static_cast<double>(count) / (Seconds() - begin);
    return Outcome();
  }

  Outcome Counters(qrt_draft_counters* out) const {
    *out = {};
    out->struct_size = sizeof *out;
    QRUN_CALL(qrt_session_draft_counters(session_.get(), out, &error));
    return Outcome();
  }

 private:
  SessionPtr session_;
  SamplerPtr sampler_;
};

}  // namespace

double DraftSpeed::Ratio() const {
  std::vector<double> ratios;
  for (size_t i = 0; i < plain.size(); ++i) ratios.push_back(drafted[i] / plain[i]);
  std::sort(ratios.begin(), ratios.end());
  const size_t middle = ratios.size() / 2;
  if (ratios.empty()) return 0;
  return ratios.size() % 2 == 1 ? ratios[middle] : (ratios[middle - 1] + ratios[middle]) / 2;
}

double DraftSpeed::TokensPerStep() const {
  return steps == 0 ? 0 : static_cast<double>(chosen) / static_cast<double>(steps);
}

Outcome MeasureDrafts(const Model& model, const DraftFlags& flags, std::optional<double> forced,
                      const std::vector<int32_t>& tokens, size_t depth, size_t count, size_t repeat,
                      DraftSpeed* out) {
  Drafting draft;
  QRUN_RETURN_IF_ERROR(flags.Choose(model, &draft));
  out->draft = *flags.draft;
  out->tokens = draft.tokens;
  out->forced = forced;
  Writer plain, drafting;
  const uint64_t context = depth + count + 1;
  QRUN_RETURN_IF_ERROR(plain.Open(model, context, {QRT_DRAFT_NONE, 0, flags.Ahead()}));
  QRUN_RETURN_IF_ERROR(drafting.Open(model, context, draft));
  Verdict verdict(forced.value_or(0));
  qrt_draft_counters before, after;
  for (size_t round = 0; round <= repeat; ++round) {
    double rate = 0, drafted_rate = 0;
    QRUN_RETURN_IF_ERROR(plain.Write(tokens, depth, count, nullptr, &rate));
    if (round == 1) QRUN_RETURN_IF_ERROR(drafting.Counters(&before));
    QRUN_RETURN_IF_ERROR(drafting.Write(tokens, depth, count, forced ? &verdict : nullptr, &drafted_rate));
    if (round == 0) continue;
    out->plain.push_back(rate);
    out->drafted.push_back(drafted_rate);
  }
  QRUN_RETURN_IF_ERROR(drafting.Counters(&after));
  out->steps = after.steps - before.steps;
  out->guessed = after.guessed - before.guessed;
  out->accepted = after.accepted - before.accepted;
  out->chosen = repeat * count;
  return Outcome();
}

std::string DraftLine(const DraftSpeed& speed) {
  char text[256];
  std::snprintf(text, sizeof text,
                ", %s at once: %.3f times plain decoding; %" PRIu64 " of %" PRIu64
                " guesses right, %.2f tokens per step\n",
                speed.tokens == QRT_DRAFT_TOKENS_AUTO ? "auto" : std::to_string(speed.tokens).c_str(),
                speed.Ratio(), speed.accepted, speed.guessed, speed.TokensPerStep());
  std::string line = "drafts of " + OneLine(speed.draft) + text;
  if (speed.forced) {
    std::snprintf(text, sizeof text,
                  "ACCEPTANCE IS FAKED: each guess counted as right with probability %g, whatever the model "
                  "chose; all work was done, but the text is nobody's\n",
                  *speed.forced);
    line += text;
  }
  return line;
}

std::string DraftJson(const DraftSpeed& speed, const std::string& drafted) {
  char text[256];
  std::snprintf(text, sizeof text, "%g", speed.forced.value_or(0));
  std::string json = "{\"draft\": " + Quoted(speed.draft) + ", \"draft_tokens\": " +
                     (speed.tokens == QRT_DRAFT_TOKENS_AUTO ? "\"auto\"" : std::to_string(speed.tokens)) +
                     ", \"acceptance_faked\": " + (speed.forced ? "true" : "false") +
                     ", \"forced_acceptance\": " + (speed.forced ? text : "null");
  std::snprintf(text, sizeof text,
                ", \"ratio\": %.4f, \"steps\": %" PRIu64 ", \"guessed\": %" PRIu64 ", \"accepted\": %" PRIu64
                ", \"tokens_per_step\": %.3f, \"drafted\": ",
                speed.Ratio(), speed.steps, speed.guessed, speed.accepted, speed.TokensPerStep());
  return json + text + drafted + "}";
}

}  // namespace qrun
