// A conversation that grows, as the prompts of a session: what was fed and answered is not fed again.
#ifndef QRT_TEXT_CONVERSATION_H_
#define QRT_TEXT_CONVERSATION_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/text/chat_prompt.h"
#include "runtime/text/chat_template.h"
#include "runtime/text/tokenizer.h"

namespace qrt::text {

// A conversation as it is rendered. The template outlives this.
struct Chat {
  const ChatTemplate* chat_template = nullptr;
  std::vector<ChatMessage> turns;
  ChatOptions options;
  bool normalize = true;  // as in Tokenizer::Encode
};

struct Prompt {
  std::vector<int32_t> tokens;
  size_t keep = 0;  // how many of them the next prompt will begin with; 0: not known
};

// Makes the prompts of one conversation such that each begins with what was fed and answered before, wherever
// the template allows it.
class Conversation {
 public:
  // `tokenizer` must outlive this.
  explicit Conversation(const Tokenizer& tokenizer) : tokenizer_(&tokenizer) {}

  // The prompt for an answer to `chat`'s turns. An earlier answer keeps the tokens as they were sampled, and
  // what the template put before it (an empty think block), if all that the template makes of it later is its
  // text with that opening or the beginning of it. Where the template shows it otherwise (without the
  // thoughts in it), or the turns do, the prompt goes on before the answer. Errors: those of EncodeChat.
  Status Make(Chat& chat, Prompt* out);
  // The answer to the last prompt made: its text, and all tokens up to its end, as they lie in the session,
  // with what a stop text or the end of a turn put behind them; none: they do not.
  void Answered(std::string text, std::vector<int32_t> sequence);
  // The answer went on: with this text, and all tokens as of Answered. Where it lies in the session no
  // longer, or its turn had ended, nothing was said.
  void WentOn(const std::string& text, std::vector<int32_t> sequence);
  // A conversation that goes on: `chat`'s turns end with an answer, `sequence` with its tokens and what ended
  // it. Where the
  // sequence does not begin as the conversation does (its system message or tools are others by now), nothing
  // was said: all is fed again. Errors: those of EncodeChat; nothing was said then.
  Status Load(Chat& chat, std::vector<int32_t> sequence);
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
    size_t prompt = 0;              // tokens ahead of the answer, as they lie in the session
    std::vector<int32_t> sequence;  // all that lies in the session; empty: the answer does not
  };

  // The answer of `past`, as of Answered.
  Past Ended(Past past, std::string text, std::vector<int32_t> sequence) const;
  // Renders up to an answer's begin; *all: with its opening.
  Status Render(Chat& chat, Past* past, std::vector<int32_t>* all) const;
  // Whether the sequence begins with what stands before `chat`'s first answer.
  bool BeginsSo(const Chat& chat, const std::vector<int32_t>& sequence) const;
  std::string TextOf(const int32_t* begin, const int32_t* end) const;
  // The text of those behind the first `begin`, without control tokens.
  std::string SaidBehind(const std::vector<int32_t>& sequence, size_t begin) const;
  // Takes tokens that end turns off its end: the template ends the turn. `begin` tokens stay.
  void DropTurnEnds(size_t begin, std::vector<int32_t>* sequence) const;
  // Where in a sequence the answer begins with which it ends; nothing if its opening does not stand before
  // it.
  std::optional<size_t> BeginOfAnswer(const std::vector<int32_t>& sequence, const std::string& answer,
                                      const std::vector<int32_t>& opening) const;
  // Where in `tail`, which follows past_.rendered, the answer ends that past_.sequence ends with; nothing if
  // that holds none or the template shows another one there.
  std::optional<size_t> EndOfAnswer(const std::vector<int32_t>& tail) const;

  const Tokenizer* tokenizer_;
  Past past_, next_;
};

}  // namespace qrt::text

#endif  // QRT_TEXT_CONVERSATION_H_
