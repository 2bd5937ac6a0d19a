// Splits chat template source into tokens, following Jinja's white space rules with trim_blocks and
// lstrip_blocks on.
#ifndef QRT_TEXT_TEMPLATE_LEXER_H_
#define QRT_TEXT_TEMPLATE_LEXER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/text/template_ast.h"

namespace qrt::text {

enum class TokenKind : uint8_t {
  kText,           // text
  kVariableBegin,  // {{
  kVariableEnd,    // }}
  kBlockBegin,     // {%
  kBlockEnd,       // %}
  kName,           // text
  kString,         // text, escapes resolved
  kInt,            // number.as_int()
  kFloat,          // number.as_double()
  kOperator,       // text
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  int32_t line = 0;
  std::string text;
  Value number;
};

// White space rules: "\r\n" and "\r" count as "\n"; one newline at the very end of the source is dropped; the
// first newline after a block tag or comment is dropped; blanks before a block tag or comment that starts its
// line are dropped; "-" inside a tag strips all white space on that side and "+" switches the two rules off
// there. The last token is kEnd. False with *error on an unclosed tag, string or comment and on unknown
// characters.
bool LexTemplate(std::string_view source, std::vector<Token>* tokens, TemplateError* error);

}  // namespace qrt::text

#endif  // QRT_TEXT_TEMPLATE_LEXER_H_
