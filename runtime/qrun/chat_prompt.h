// What is said to a model, as the library takes it.
#ifndef RUNTIME_QRUN_CHAT_PROMPT_H_
#define RUNTIME_QRUN_CHAT_PROMPT_H_

#include <cstddef>
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

  // As the library takes them; rendering stops when a signal comes. Used no longer than this lives.
  qrt_chat_options Options() const;
};

// Turns as the library takes them.
class Messages {
 public:
  explicit Messages(const std::vector<Turn>& turns);
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;
  const qrt_chat_message* data() const { return messages_.data(); }
  size_t size() const { return messages_.size(); }

 private:
  std::vector<std::string> contents_;
  std::vector<qrt_chat_message> messages_;
};

// Fills *tokens by `encode(tokens, capacity, &count, &error)`, one of the library's functions that render
// chats. Errors: the library's; Silent where a signal stopped it.
template <typename Encode>
Outcome EncodeChat(Encode encode, std::vector<int32_t>* tokens) {
  tokens->resize(1024);  // enough for most conversations, otherwise a first guess
  for (;;) {
    size_t count = 0;
    qrt_error error = NewError();
    const qrt_status status = encode(tokens->data(), tokens->size(), &count, &error);
    if (status == QRT_CANCELLED) return Outcome::Silent(kExitInterrupted);
    if (status != QRT_OK && status != QRT_BUFFER_TOO_SMALL) return Outcome::Of(error);
    tokens->resize(count);
    if (status == QRT_OK) return Outcome();
  }
}

struct Prompt {
  std::vector<int32_t> tokens;
  uint64_t keep = 0;  // how many of them the next prompt will begin with; 0: not known
};

}  // namespace qrun

#endif  // RUNTIME_QRUN_CHAT_PROMPT_H_
