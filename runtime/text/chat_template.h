// The model's own chat template: a subset of Jinja, run under budgets.
//
// The language, as Hugging Face sets Jinja up for chat templates (trim_blocks and lstrip_blocks on, nothing
// escaped, undefined variables print as nothing and fail when they are used):
//   statements   if/elif/else, for (with filter "if", else, break, continue; not recursive), set (names,
//   tuples,
//                namespace attributes, blocks), macro (defaults, named arguments), call, with, filter, raw,
//                generation
//   expressions  literals, lists, tuples, dicts with string keys, a.b, a[b], slices, calls, + - * / // % **
//   ~,
//                comparisons, in, and, or, not, "a if c else b", filters, tests
//   loop         index, index0, revindex, revindex0, first, last, length, previtem, nextitem, depth, depth0,
//                cycle
//   functions    range, dict, namespace, raise_exception, strftime_now
//   filters      abs capitalize center count d default dictsort e escape first float format indent int items
//   join last
//                length list lower map max min reject rejectattr replace reverse round safe select selectattr
//                sort string sum title tojson trim unique upper
//   tests        boolean callable defined divisibleby eq equalto even false float ge greaterthan gt in
//   integer
//                iterable le lessthan lower lt mapping ne none number odd sameas sequence string true
//                undefined upper == != < <= > >=
//   methods      str: capitalize center count endswith find format index isdigit islower isspace isupper join
//   ljust
//                lower lstrip partition removeprefix removesuffix replace rfind rindex rjust rpartition
//                rsplit rstrip split splitlines startswith strip title upper zfill; list: count index; dict:
//                get items keys values
// Differences from Jinja: integers have 64 bits (overflow is an error; greater ones of JSON print as they are
// and are floats in arithmetic); map, reject, select and reverse give lists, which are false where they are
// empty and can be read more than once; methods of str search the whole of it (no start, no end); "else" of
// "for" is for a sequence without items alone; case changes touch ASCII letters only; digits are those of
// ASCII ('isdigit', 'int', 'float'), and 'int' has no base 0; characters that Unicode took in after the
// tables were made count as not printable where a string is quoted; printing a macro, loop or namespace is an
// error; anything not listed is an error when the template is parsed (statements, filters, tests) or
// undefined (attributes, functions).
#ifndef QRT_TEXT_CHAT_TEMPLATE_H_
#define QRT_TEXT_CHAT_TEMPLATE_H_

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/text/template_limits.h"
#include "runtime/text/value.h"

namespace qrt::text {

struct TemplateAst;

// One turn. The template sees a dict with `role`, `content` (unless undefined) and the fields of `extra`, for
// example `reasoning_content` or `tool_calls`. A template that shows a text only as a part of a list
// (ChatTemplate::takes_parts) sees `content` that is a string as a list of that one part.
struct ChatMessage {
  std::string role;
  Value content;
  std::vector<Value::Entry> extra;
};

struct ChatOptions {
  bool add_generation_prompt = true;
  std::optional<bool> enable_thinking;  // absent: the variable stays undefined, the template decides
  Value tools = Value::None();          // a list of tool descriptions (ParseJson makes one), or none
  std::vector<Value::Entry> variables;  // more variables, such as eos_token; they win over the ones above
  // Seconds since 1970 for strftime_now, which gives UTC; absent: the template has no such function.
  std::optional<int64_t> now;
  RenderLimits limits;
};

// Immutable; any number of threads may render at once. Throws nothing but std::bad_alloc.
class ChatTemplate {
 public:
  // Errors: kTemplateError Q7001 with the line in the note (syntax, unsupported feature, over 1 MiB).
  static Result<ChatTemplate> Parse(std::string_view source);

  // The prompt. Errors: kTemplateError Q7002 with the line in the note: raise_exception, a use of something
  // undefined, a wrong type, a budget of options.limits exceeded. kCancelled Q5311: options.limits.stop said
  // so.
  Result<std::string> Render(std::span<const ChatMessage> messages, const ChatOptions& options) const;

  // The same with exactly these variables. `Render` adds messages, tools, add_generation_prompt and
  // enable_thinking.
  Result<std::string> RenderWith(const std::vector<Value::Entry>& variables, const RenderLimits& limits,
                                 std::optional<int64_t> now = std::nullopt) const;

  // Found when the template was parsed: whether it shows the text of a message of `role` only where its
  // content is a list of parts, [{"type": "text", "text": ...}], and whether it leaves out a user's either
  // way.
  bool takes_parts(std::string_view role) const;
  bool leaves_out_users() const { return leaves_out_users_; }

 private:
  explicit ChatTemplate(std::shared_ptr<const TemplateAst> ast) : ast_(std::move(ast)) {}
  // Whether a conversation shows the text of its message of `role`; nothing where it cannot be rendered.
  std::optional<bool> Shows(std::string_view role) const;

  std::shared_ptr<const TemplateAst> ast_;
  std::vector<std::string> in_parts_;  // roles
  bool leaves_out_users_ = false;
};

}  // namespace qrt::text

#endif  // QRT_TEXT_CHAT_TEMPLATE_H_
