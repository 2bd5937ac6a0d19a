// What a conversation is in tokens, and how much of it a session can keep.
#ifndef RUNTIME_QRUN_CHAT_PROMPT_H_
#define RUNTIME_QRUN_CHAT_PROMPT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/qrun/outcome.h"
#include "runtime/qrun/saved_session.h"

namespace qrun {

// The library takes messages that end at a NUL byte, which would cut a prompt without a word. Errors: input
// refused (also an empty prompt).
Outcome CheckPrompt(const std::string& prompt, bool raw);

// What the template is told besides the turns.
struct TemplateFlags {
  std::optional<std::string> think;  // "on", "off" or nothing
  std::string tools;                 // JSON; empty: none
  bool as_written = false;           // text is not normalised
};

struct Prompt {
  std::vector<int32_t> tokens;
  size_t keep = 0;  // how many of them the next prompt will begin with; 0: not known
};

// The tokens of a conversation that grows: a prompt begins with what was fed and answered before, wherever
// the template allows it, so that only what is new is fed.
class ChatPrompt {
 public:
  // `text` must outlive this.
  ChatPrompt(const qrt_text* text, TemplateFlags flags) : text_(text), flags_(std::move(flags)) {}

  // The prompt for the last of `turns`. An answer keeps the tokens as they were sampled, and what the
  // template put before it (an empty think block), if all that the template makes of it later is its text
  // with that opening or the beginning of it. Where it shows it otherwise (without the thoughts in it), the
  // prompt goes on before the answer.
  Outcome Make(const std::vector<Turn>& turns, Prompt* out);
  // The answer to the last prompt made: its text, and all tokens up to its end, as they lie in the session.
  void Answered(std::string text, std::vector<int32_t> sequence);
  // A conversation that was saved: `turns` end with an answer, `sequence` with its tokens.
  Outcome Load(const std::vector<Turn>& turns, std::vector<int32_t> sequence);
  // Nothing was said yet.
  void Clear() { past_ = next_ = Past(); }

 private:
  // The conversation up to where an answer begins, and the answer.
  struct Past {
    bool known = false;
    std::vector<int32_t> rendered;  // by the template, without the answer's opening
    std::vector<int32_t> fed;       // the same part as it lies in the session
    std::vector<int32_t> opening;   // of the answer
    std::string answer;
    std::vector<int32_t> sequence;  // all that lies in the session; empty: the answer does not
  };

  Outcome Encode(const std::vector<Turn>& turns, bool open_answer, std::vector<int32_t>* out) const;
  // Renders `turns` up to an answer's begin; *all: with its opening.
  Outcome Render(const std::vector<Turn>& turns, Past* past, std::vector<int32_t>* all) const;
  std::string TextOf(const int32_t* begin, const int32_t* end) const;
  // Where in `tail`, which follows past_.rendered, the answer ends that the sequence ends with; nothing if
  // the template shows another one there.
  std::optional<size_t> EndOfAnswer(const std::vector<int32_t>& tail) const;

  const qrt_text* text_;
  TemplateFlags flags_;
  Past past_, next_;
};

}  // namespace qrun

#endif  // RUNTIME_QRUN_CHAT_PROMPT_H_
