// What a user types at a terminal, with arrow keys, a history, and pasted text as one piece.
#ifndef RUNTIME_QRUN_LINE_EDITOR_H_
#define RUNTIME_QRUN_LINE_EDITOR_H_

#include <memory>
#include <string>

#include "runtime/qrun/prompt_history.h"

namespace qrun {

// Lines of a chat. On a terminal that can be drawn on (standard input and error, TERM not "dumb") they are
// edited, as long as they may be; elsewhere they are read as the system gives them.
class LineReader {
 public:
  // Sets the process's character type (LC_CTYPE), which the editor draws by.
  explicit LineReader(PromptHistory history);
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  // The next line without its newline; with newlines where it was pasted so. False at the end of input or
  // when interrupted.
  bool Read(std::string* line);

 private:
  struct Editor;
  std::unique_ptr<Editor> editor_;  // null: none
};

}  // namespace qrun

#endif  // RUNTIME_QRUN_LINE_EDITOR_H_
