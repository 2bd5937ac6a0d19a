#include "runtime/engine/answer_text.h"

#include <algorithm>
#include <utility>

namespace qrt {

bool Endings::EndsAt(const text::Tokenizer& tokenizer, int32_t token) const {
  return std::find(tokens.begin(), tokens.end(), token) != tokens.end() ||
         (!ignore_end && tokenizer.IsEog(token));
}

AnswerText::AnswerText(const text::Tokenizer& tokenizer, const Endings& endings, std::string_view cut)
    : tokenizer_(tokenizer), endings_(endings), stop_(endings.texts) {
  Push(cut);
}

bool AnswerText::Take(int32_t token) {
  counted_ = false;
  if (closed_) return End(Finish::kCancelled);
  if (tokens_ == endings_.most_tokens) return End(Finish::kLength);
  counted_ = true;
  ++tokens_;
  if (endings_.EndsAt(tokenizer_, token)) return End(Finish::kEnd);
  if (tokenizer_.IsControl(token)) return true;
  Push(tokenizer_.TokenBytes(token));
  return !stop_.found() || End(Finish::kStopText);
}

std::string AnswerText::TakeText() {
  std::string text = std::exchange(ready_, std::string());
  return muted_ ? std::string() : text;
}

std::string AnswerText::Rest() {
  if (!stop_.found()) {
    const std::string held = stop_.Finish();
    const std::string_view unfinished = stream_.unfinished();
    text_ += held;
    text_ += unfinished;
    cut_ = unfinished.size();
    ready_ += held;
    stream_.Flush(&ready_);
  }
  return TakeText();
}

bool AnswerText::End(Finish finish) {
  finish_ = finish;
  ended_ = true;
  return false;
}

void AnswerText::Push(std::string_view bytes) {
  std::string whole;
  stream_.Push(bytes, &whole);
  const std::string text = stop_.Push(whole);
  text_ += text;
  ready_ += text;
}

}  // namespace qrt
