// What keys of a terminal mean to the line editor.
#ifndef RUNTIME_QRUN_TERMINAL_KEYS_H_
#define RUNTIME_QRUN_TERMINAL_KEYS_H_

#include <string_view>

namespace qrun {

// Whether `bytes`, which begin with ESC, are the whole of what a key sends: ESC and another key (Alt), or a
// control sequence of ECMA-48, "\x1b[1;5D" or "\x1bOA", the function keys of Linux' console, "\x1b[[A", among
// them.
bool IsWholeKey(std::string_view bytes);

// What the editor is to see for such a key: the same, a key that it binds, or nothing. It binds arrows, Home,
// End and Delete as a terminal sends them alone, and Alt with a letter; of a sequence that it does not know
// it takes the end as if it were typed.
std::string_view EditorKey(std::string_view key);

}  // namespace qrun

#endif  // RUNTIME_QRUN_TERMINAL_KEYS_H_
