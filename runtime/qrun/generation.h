// Feeding a prompt and writing what the model says.
#ifndef RUNTIME_QRUN_GENERATION_H_
#define RUNTIME_QRUN_GENERATION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/qrun/chat_prompt.h"
#include "runtime/qrun/handles.h"
#include "runtime/qrun/model.h"
#include "runtime/qrun/options.h"
#include "runtime/qrun/outcome.h"
#include "runtime/qrun/prompt_cache.h"
#include "runtime/qrun/saved_session.h"

namespace qrun {

// Sampling flags; what is not given comes from the artifact.
struct SamplingFlags {
  std::optional<double> temperature, top_p, min_p, repeat_penalty, presence_penalty, frequency_penalty;
  std::optional<int64_t> top_k, seed;
  bool greedy = false;

  void AddTo(Options& options);
  // Errors: usage (options that contradict each other).
  Outcome Check() const;
  // *seed: the seed in use, random unless given.
  Outcome MakeSampler(const Model& model, const Verbosity& said, SamplerPtr* out, uint64_t* seed_used) const;
};

// When an answer ends.
struct Endings {
  int64_t most_tokens = -1;        // negative: no limit but the context
  std::vector<std::string> texts;  // not written, nor what is behind them
  std::vector<int64_t> ids;        // besides the artifact's own
  bool ignore_end = false;         // the artifact's own end nothing

  void AddTo(Options& options);
  // Errors: usage (an empty text).
  Outcome Check() const;
  // Errors: usage (an id outside the vocabulary).
  Outcome CheckIds(const Model& model) const;
  bool EndsAt(const qrt_text* text, int32_t token) const;
  // Of a session that holds the first `held` of these: without the token that ended the answer.
  void TakeEndOff(const qrt_text* text, uint64_t held, std::vector<int32_t>* tokens) const;
};

// Who guesses tokens for the model to check; the text is the same with each.
struct DraftFlags {
  std::optional<std::string> draft;  // "off", "mtp", "lookup", or a file
  std::optional<int64_t> length;     // QRT_DRAFT_TOKENS_AUTO: as many as pay
  std::optional<int64_t> ahead;      // QRT_TOKENS_AHEAD_AUTO: as many as nobody notices

  // `usual`: who guesses where nothing is said.
  void AddTo(Options& options, const std::string& usual = "mtp, where the artifact has one");
  uint32_t Ahead() const { return static_cast<uint32_t>(ahead.value_or(QRT_TOKENS_AHEAD_AUTO)); }
  // The artifact that --draft names, or empty.
  std::string File() const;
  // Errors: usage (a length, and no draft asked for).
  Outcome Check() const;
  // For a session of `model`. Warns of what has no effect on its device. Errors: usage (a length, and no
  // draft there).
  Outcome Choose(const Model& model, Drafting* out) const;
  Outcome WarnOfAhead(const Model& model) const;
};

enum class Finish {
  kStop,         // the model ended its turn, or one of Endings::texts came
  kLength,       // the context or -n is full
  kInterrupted,  // Ctrl-C
};
const char* Name(Finish finish);

// One answer, measured.
struct Answer {
  // Without control tokens. Ends with the bytes of a character that was cut, which are shown as U+FFFD.
  std::string text;
  Finish finish = Finish::kStop;
  size_t prompt_tokens = 0;   // fed for this answer
  size_t reused_tokens = 0;   // were in the session already
  size_t tokens = 0;          // sampled, the end token included; 0: it has not begun
  size_t steps = 0;           // decode steps
  size_t decoded = 0;         // tokens that they chose
  uint64_t drafted = 0;       // tokens that were guessed for them
  uint64_t accepted = 0;      // of those chosen
  double reuse_seconds = 0;   // to get the reused tokens there, from a checkpoint or a file
  double prompt_seconds = 0;  // to feed prompt_tokens
  double decode_seconds = 0;
  // Of the decode steps, on a GPU.
  uint64_t submissions = 0;
  uint64_t bytes_to_host = 0;
  uint64_t transfers = 0;  // from one device to the next
};

// What the library's generator makes, written as it comes, with the files that qrun keeps.
class Generator {
 public:
  Generator(const Model& model, SessionPtr session, SamplerPtr sampler, Endings endings)
      : model_(model),
        session_(std::move(session)),
        sampler_(std::move(sampler)),
        endings_(std::move(endings)) {}

  // First. Errors: the library's.
  Outcome Open();

  // The prompt for an answer to `turns`, which begins with what was fed and answered before wherever the
  // template allows it.
  Outcome MakePrompt(const std::vector<Turn>& turns, const TemplateFlags& flags, Prompt* out);

  // Feeds of `prompt` what neither the session nor the prompt cache has, then samples, and writes the text to
  // stdout as it comes. ReaderLeft: what was sampled until then is in the answer and in the session.
  Outcome Run(const Prompt& prompt, Answer* answer);

  // Goes on where the last answer, or the saved session, ended; within a character, the text begins with what
  // there is of it.
  Outcome Continue(Answer* answer);

  // The sequence and its tokens, as a file keeps them; turns and mode are the caller's.
  Outcome Save(SavedSession* out) const;
  // With `flags`, the next prompt goes on from its turns. Errors: input refused (saved from another artifact,
  // damaged, longer than the context). The session is then as it was, or empty where only its tokens are
  // wrong.
  Outcome Load(const SavedSession& saved, const TemplateFlags* flags);

  // What lies in the session and was written behind it, but for the token that ended the answer.
  std::vector<int32_t> Sequence() const;
  // Prompts begin with what is kept there from now on, and are kept; it outlives this.
  void Use(PromptCache* cache) { cache_ = cache; }
  // For the answers from now on.
  void Use(SamplerPtr sampler) { sampler_ = std::move(sampler); }
  qrt_session* session() const { return session_.get(); }
  // Tells with each prompt from now on what the layers left of its last token. Errors: of CheckTraceable.
  Outcome TraceLayers();

 private:
  struct Telling;

  // Lets `call(options, &answer, &error)` make an answer, and adds it to *answer.
  template <typename Call>
  Outcome Make(Call call, Answer* answer);
  // Brings the session to the longest prefix of `prompt` in the prompt cache, where that is longer than what
  // it has itself, and feeds on to where the cache keeps another one.
  Outcome FeedCached(const Prompt& prompt, Answer* answer);
  // All tokens so far, and the one that was chosen to follow.
  std::vector<int32_t> Tokens(std::optional<int32_t>* next) const;

  const Model& model_;
  SessionPtr session_;
  SamplerPtr sampler_;
  Endings endings_;
  GeneratorPtr generator_;
  bool trace_layers_ = false;
  PromptCache* cache_ = nullptr;  // null: none
};

// Writes timing to stderr: one line for people, or one JSON object. `stages`: and what the steps since the
// last time spent theirs on, where the engine times them.
Outcome PrintTiming(const Model& model, const qrt_session* session, const Answer& answer, uint64_t seed,
                    bool json, bool stages);

}  // namespace qrun

#endif  // RUNTIME_QRUN_GENERATION_H_
