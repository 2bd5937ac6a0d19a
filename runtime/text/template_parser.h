// Chat template source to syntax tree.
#ifndef QRT_TEXT_TEMPLATE_PARSER_H_
#define QRT_TEXT_TEMPLATE_PARSER_H_

#include <cstddef>
#include <string_view>

#include "runtime/text/template_ast.h"

namespace qrt::text {

// Deepest syntax tree that is accepted; bounds the recursion of everything that walks one.
inline constexpr int kMaxTemplateDepth = 100;
inline constexpr size_t kMaxTemplateBytes = 1 << 20;
inline constexpr size_t kMaxTemplateNodes = 200000;

// Parses the subset described in chat_template.h. Unknown statements, filters and tests are errors here,
// before anything runs.
bool ParseTemplate(std::string_view source, TemplateAst* ast, TemplateError* error);

// Is there such a filter or test? (template_builtins.cc)
bool IsKnownFilter(std::string_view name);
bool IsKnownTest(std::string_view name);

}  // namespace qrt::text

#endif  // QRT_TEXT_TEMPLATE_PARSER_H_
