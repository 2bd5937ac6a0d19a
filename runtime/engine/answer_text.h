// The text of an answer, made of tokens as they are chosen, and where it ends.
#ifndef RUNTIME_ENGINE_ANSWER_TEXT_H_
#define RUNTIME_ENGINE_ANSWER_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/text/stop_text.h"
#include "runtime/text/tokenizer.h"
#include "runtime/text/unicode.h"

namespace qrt {

enum class Finish : int32_t { kEnd = 0, kStopText = 1, kLength = 2, kCancelled = 3 };

// When an answer ends, besides the end of the context.
struct Endings {
  uint64_t most_tokens = UINT64_MAX;
  std::vector<std::string> texts;  // not given out, nor what is behind them; empty ones end nothing
  std::vector<int32_t> tokens;     // besides those that end the model's texts
  bool ignore_end = false;         // those end nothing

  bool EndsAt(const text::Tokenizer& tokenizer, int32_t token) const;
};

class AnswerText {
 public:
  // `cut`: the bytes of a character that was begun before, with which the text begins. The references outlive
  // this.
  AnswerText(const text::Tokenizer& tokenizer, const Endings& endings, std::string_view cut);

  // Takes the next chosen token. False: the answer is over; counted() tells whether the token is part of it.
  bool Take(int32_t token);
  bool counted() const { return counted_; }
  bool ended() const { return ended_; }
  Finish finish() const { return finish_; }
  uint64_t tokens() const { return tokens_; }  // of the answer, that which ended it included
  // The caller has enough: the next token ends the answer and is no part of it.
  void Close() { closed_ = true; }
  // The same of one who does not want to be shown more, either.
  void Mute() { closed_ = muted_ = true; }
  bool closed() const { return closed_; }
  // The context is full.
  void EndAtLength() { End(Finish::kLength); }

  // Whole characters that can be shown now.
  std::string TakeText();
  // The same at the end of the answer.
  std::string Rest();

  // All of it, without control tokens and stop text, bytes that cannot belong to a character as U+FFFD;
  // cut(): how many at its end are the beginning of a character. After Rest.
  const std::string& text() const& { return text_; }
  std::string text() && { return std::move(text_); }
  size_t cut() const { return cut_; }

 private:
  bool End(Finish finish);
  void Push(std::string_view bytes);

  const text::Tokenizer& tokenizer_;
  const Endings& endings_;
  text::Utf8Stream stream_;
  text::StopText stop_;
  std::string ready_, text_;
  size_t cut_ = 0;
  uint64_t tokens_ = 0;
  Finish finish_ = Finish::kEnd;
  bool counted_ = false, ended_ = false, closed_ = false, muted_ = false;
};

}  // namespace qrt

#endif  // RUNTIME_ENGINE_ANSWER_TEXT_H_
