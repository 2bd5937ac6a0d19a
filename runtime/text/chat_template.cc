#include "runtime/text/chat_template.h"

#include <algorithm>

#include "runtime/text/template_ast.h"
#include "runtime/text/template_interpreter.h"
#include "runtime/text/template_parser.h"

namespace qrt::text {
namespace {

Status TemplateStatus(uint32_t number, const TemplateError& error, std::string help) {
  std::string where = "chat template";
  if (error.line > 0) where += ", line " + std::to_string(error.line);
  return Status(Code::kTemplateError, number, error.message, std::move(where), std::move(help));
}

// A content of one part, as chat interfaces send it.
Value TextPart(const Value& text) {
  return Value::MakeList({Value::MakeMap({{"type", Value(std::string("text"))}, {"text", text}})});
}

}  // namespace

Result<ChatTemplate> ChatTemplate::Parse(std::string_view source) {
  auto ast = std::make_shared<TemplateAst>();
  TemplateError error;
  if (!ParseTemplate(source, ast.get(), &error)) {
    return TemplateStatus(7001, error, "use the model without its template, or with another one");
  }
  ChatTemplate made(std::move(ast));
  for (const char* role : {"user", "system", "assistant", "tool"}) {
    const std::optional<bool> as_text = made.Shows(role);
    if (as_text == true) continue;
    made.in_parts_.emplace_back(role);
    const std::optional<bool> as_part = made.Shows(role);
    if (as_part != true) made.in_parts_.pop_back();
    if (role == std::string_view("user")) made.leaves_out_users_ = as_text == false && as_part != true;
  }
  return made;
}

bool ChatTemplate::takes_parts(std::string_view role) const {
  return std::find(in_parts_.begin(), in_parts_.end(), role) != in_parts_.end();
}

std::optional<bool> ChatTemplate::Shows(std::string_view role) const {
  constexpr std::string_view kText = "f71b0c";  // of letters and digits: however it is quoted, it stays so
  std::vector<ChatMessage> messages;
  if (role != "user" && role != "system") messages.push_back({"user", Value(std::string("u")), {}});
  if (role == "tool") messages.push_back({"assistant", Value(std::string("a")), {}});
  messages.push_back({std::string(role), Value(std::string(kText)), {}});
  if (role == "system") messages.push_back({"user", Value(std::string("u")), {}});
  ChatOptions options;
  options.variables = {{"bos_token", Value(std::string())}, {"eos_token", Value(std::string())}};
  options.now = 0;
  // Templates of models take some hundreds of steps and some kilobytes; a hostile one is run up to eight
  // times (twice a role), and at the limits of a render each of them could take seconds.
  options.limits.steps = 200'000;
  options.limits.output_bytes = options.limits.string_bytes = 1 << 20;
  options.limits.total_bytes = 4 << 20;
  const Result<std::string> text = Render(messages, options);
  if (!text.ok()) return std::nullopt;
  return text->find(kText) != std::string::npos;
}

Result<std::string> ChatTemplate::Render(std::span<const ChatMessage> messages,
                                         const ChatOptions& options) const {
  std::vector<Value> turns;
  turns.reserve(messages.size());
  for (const ChatMessage& message : messages) {
    std::vector<Value::Entry> fields;
    fields.emplace_back("role", Value(message.role));
    if (!message.content.is_undefined()) {
      const bool part = message.content.is_string() && takes_parts(message.role);
      fields.emplace_back("content", part ? TextPart(message.content) : message.content);
    }
    fields.insert(fields.end(), message.extra.begin(), message.extra.end());
    turns.push_back(Value::MakeMap(std::move(fields)));
  }
  std::vector<Value::Entry> variables;
  variables.emplace_back("messages", Value::MakeList(std::move(turns)));
  variables.emplace_back("tools", options.tools);
  variables.emplace_back("add_generation_prompt", Value(options.add_generation_prompt));
  if (options.enable_thinking) variables.emplace_back("enable_thinking", Value(*options.enable_thinking));
  variables.insert(variables.end(), options.variables.begin(), options.variables.end());
  return RenderWith(variables, options.limits, options.now);
}

Result<std::string> ChatTemplate::RenderWith(const std::vector<Value::Entry>& variables,
                                             const RenderLimits& limits, std::optional<int64_t> now) const {
  TemplateError error;
  for (const auto& [name, value] : variables) {
    // The interpreter bounds what a template builds; what comes from outside must fit the same bound.
    if (value.nesting() > Value::kMaxNesting) {
      error.message = "variable '" + name.substr(0, 255) + "' is nested deeper than " +
                      std::to_string(Value::kMaxNesting) + " levels";
      return TemplateStatus(7002, error, "flatten the value");
    }
  }
  std::string out;
  Interpreter interpreter(*ast_, limits, now, &error);
  if (!interpreter.Run(variables, &out)) {
    if (error.stopped) return Status(Code::kCancelled, 5311, error.message);
    return TemplateStatus(7002, error, "");
  }
  return out;
}

}  // namespace qrt::text
