// A conversation to token ids, with a border between the template's text and everybody else's.
#ifndef QRT_TEXT_CHAT_PROMPT_H_
#define QRT_TEXT_CHAT_PROMPT_H_

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/text/chat_template.h"
#include "runtime/text/tokenizer.h"

namespace qrt::text {

// The ids of the text that `chat_template` renders. Control tokens that the template itself writes, and those
// in `options.variables` (such as eos_token), become their ids. Those written in `messages` (roles and fields
// too) or in `options.tools` stay plain text: nobody can end a turn or open one by writing so. User-defined
// tokens, such as <think>, count wherever they stand.
//
// How: in a second render each control token of a message, also one that its end or its beginning cuts off,
// carries a mark behind its first character there, a Unicode noncharacter that occurs nowhere else. The marks
// are taken out again and say which characters no control token may cover. Text without control tokens is
// never marked, and what is left without marks must be the text of the first render. A control token that
// only comes to be by what the template does to a message (such as changing its case) is not seen: the
// template is trusted.
//
// `normalize`: as in Tokenizer::Encode.
//
// Errors: those of ChatTemplate::Render and Tokenizer::Encode; kTemplateError Q7003 (the rendered text
// changes with the marks: the template looks for control tokens, counts or escapes characters);
// kInvalidArgument Q7004 (the messages hold control tokens and each of the 32 noncharacters U+FDD0 to
// U+FDEF).
Result<std::vector<int32_t>> EncodeChat(const ChatTemplate& chat_template, const Tokenizer& tokenizer,
                                        std::span<const ChatMessage> messages, const ChatOptions& options,
                                        bool normalize = true);

}  // namespace qrt::text

#endif  // QRT_TEXT_CHAT_PROMPT_H_
