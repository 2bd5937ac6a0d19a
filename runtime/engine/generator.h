// Answers: a prompt is fed, as little of it as possible, and what the model says to it comes back as text.
#ifndef RUNTIME_ENGINE_GENERATOR_H_
#define RUNTIME_ENGINE_GENERATOR_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/engine/answer_text.h"
#include "runtime/engine/checkpoint.h"
#include "runtime/engine/sampler.h"
#include "runtime/engine/session.h"
#include "runtime/include/qrt/qrt.h"
#include "runtime/text/tokenizer.h"

namespace qrt {

// Whom an answer is told to while it is made, on the calling thread, outside the engine's lock. Each function
// may be null; a non-zero result ends the answer.
struct Listener {
  int32_t (*on_text)(void* ctx, const char* utf8, size_t length) = nullptr;  // whole characters
  int32_t (*on_prompt)(void* ctx) = nullptr;  // the prompt is fed, nothing of the answer was told
  int32_t (*stop)(void* ctx) = nullptr;       // asked between steps
  void* ctx = nullptr;
};

struct AnswerRequest {
  Sampler* sampler = nullptr;  // needed to answer
  Endings endings;
  Listener listener;
};

struct Answer {
  Finish finish = Finish::kEnd;
  std::string text;  // as AnswerText gives it
  size_t cut = 0;
  uint64_t reused_tokens = 0;  // of the prompt, were in the session or among kept prefixes
  uint64_t prompt_tokens = 0;  // of it, fed
  uint64_t tokens = 0;         // of the answer, that which ended it included
  uint64_t steps = 0;          // that decoded
  uint64_t decoded = 0;        // tokens that they chose
  uint64_t guessed = 0;        // for them, by a draft
  uint64_t accepted = 0;       // of those chosen
  double reuse_seconds = 0;    // to get at the reused tokens
  double prompt_seconds = 0;   // to feed the others
  double decode_seconds = 0;
};

// Knows which tokens its session holds, so the session belongs to it: if anything else moves the session,
// what it holds is forgotten, and fed again. Used by the session's thread; session and tokenizer outlive it.
class Generator {
 public:
  // `allocator` (NULL: the system) is for checkpoints.
  Generator(Session& session, const text::Tokenizer& tokenizer, const qrt_allocator* allocator)
      : session_(session), tokenizer_(tokenizer), allocator_(allocator), moves_(session.moves()) {}

  // Makes the session hold `prompt`: keeps what agrees, steps back, returns to its checkpoint, or begins with
  // a prefix that the engine keeps, whichever leaves the least to feed; and keeps prefixes there. `keep`:
  // there is a checkpoint behind that many tokens, unless the session holds more of the prompt anyway,
  // because the next prompt will begin with them; 0, or prompt.size() and more: not. Then answers. *answer
  // is written in any case, as far as it came. Throws std::bad_alloc. Errors: invalid argument (an empty
  // prompt, tokens or a sampler of another vocabulary), context full (the prompt does not fit): nothing
  // changed; those of Batch::Run but cancelled.
  Status Run(std::span<const int32_t> prompt, size_t keep, const AnswerRequest& request, Answer* answer);
  // Only makes the session hold it.
  Status Feed(std::span<const int32_t> prompt, size_t keep, const AnswerRequest& request, Answer* answer);
  // Goes on where the last answer ended, in its prompt where it was cancelled there, or what was resumed.
  // Errors: as Run.
  Status Continue(const AnswerRequest& request, Answer* answer);

  // How many of the first tokens of `prompt` Run would not feed, prefixes kept by the engine left out of
  // account.
  size_t Reusable(std::span<const int32_t> prompt) const;

  // All tokens so far; the session holds them but for the last one maybe, unless something else moved it. And
  // the token that was chosen to follow, which is no part of any text yet.
  std::vector<int32_t> Tokens() const;
  std::optional<int32_t> next() const { return rest_.empty() ? next_ : std::nullopt; }
  // The session was restored: it is `tokens`, of which it holds all or all but the last. Errors: invalid
  // argument (another number; a token that it has not taken and one to follow; a token outside the
  // vocabulary).
  Status Resume(std::span<const int32_t> tokens, std::optional<int32_t> next);

 private:
  struct Reuse {
    size_t tokens = 0;  // of the prompt
    bool by_rewind = false;
  };
  // Whether the session still is what this left.
  bool holds() const {
    return !session_.damaged() && session_.moves() == moves_ && session_.position() == held_.size();
  }
  Reuse Within(std::span<const int32_t> prompt) const;
  // Brings the session to the longest begin of `prompt` that can be had without feeding it, as held_; where a
  // token is chosen behind it, its last one stays to be fed. *shared: of the prompt, whole blocks that kept
  // prefixes begin with.
  Status Begin(std::span<const int32_t> prompt, bool chooses, size_t* shared);
  // Feeds the rest of it, with stops where something is kept; with `next`, chooses the token behind it.
  // *stopped: that was asked for first; held_ tells how far it got, rest_ what is left, also where it fails.
  Status FeedAll(std::span<const int32_t> prompt, size_t keep, const AnswerRequest& request, int32_t* next,
                 Answer* answer, bool* stopped);
  Status FeedTo(std::span<const int32_t> prompt, size_t end, const AnswerRequest& request, int32_t* next,
                bool* stopped);
  // A checkpoint where the session is.
  // Both for texts to come: without memory for them this one goes on.
  Status TakeCheckpoint();
  Status Keep();
  // The sampler anew, with `tokens` recorded.
  static void Prepare(std::span<const int32_t> tokens, Sampler& sampler);
  Status FeedAndDecode(std::span<const int32_t> prompt, size_t keep, std::string_view cut,
                       const AnswerRequest& request, Answer* answer);
  // The answer, of which `token` is the first, behind the begin of a character; and how long it took.
  Status Decode(int32_t token, std::string_view cut, const AnswerRequest& request, Answer* answer);
  Status Write(int32_t token, const AnswerRequest& request, AnswerText& writing, Answer* answer);
  // Appends unfed_ and takes what is chosen behind it: into `writing`, and into what this holds.
  Status Step(const AnswerRequest& request, AnswerText& writing, Answer* answer);
  // The beginning of a character that the last of the tokens are. `answer`: they are those of an answer, of
  // whose text control tokens are no part; elsewhere it ends there.
  std::string CutOf(std::span<const int32_t> tokens, bool answer) const;

  Session& session_;
  const text::Tokenizer& tokenizer_;
  const qrt_allocator* const allocator_;
  uint64_t moves_;                        // of the session, by what this did to it
  std::vector<int32_t> held_;             // tokens in the session
  std::optional<int32_t> unfed_;          // follows them, not in the session
  std::optional<int32_t> next_;           // chosen to follow (rest_, too), in no text and not in the session
  std::vector<int32_t> rest_;             // of a prompt in which it was stopped, or failed
  size_t rest_keep_ = 0;                  // and its `keep`
  std::optional<Checkpoint> checkpoint_;  // none was asked for
};

}  // namespace qrt

#endif  // RUNTIME_ENGINE_GENERATOR_H_
