// Text of others (models, files, drivers, the command line) made safe to show. Everything that qrun says on
// stderr, and every name in its tables, comes through here: such text must move no cursor, set no title and
// begin no line that looks like one of qrun's own.
#ifndef RUNTIME_QRUN_ESCAPE_H_
#define RUNTIME_QRUN_ESCAPE_H_

#include <string>
#include <string_view>

namespace qrun {

// For messages: one line of well-formed UTF-8. Control characters (C0, DEL, C1), line separators, characters
// that turn the writing direction, and bytes that are no UTF-8 become "\n", "\x1b", "\u{9b}" and the like.
std::string OneLine(std::string_view text);

// For what a model says, on a terminal: control characters but newline and tab are escaped as above.
std::string ForTerminal(std::string_view text);

// A JSON string, quotes included: well-formed whatever the bytes are, and ASCII where OneLine escapes.
std::string Quoted(std::string_view text);

// "qrun: TEXT" as one line on stderr.
void Tell(std::string_view text);

}  // namespace qrun

#endif  // RUNTIME_QRUN_ESCAPE_H_
