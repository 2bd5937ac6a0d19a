// Chat templates from the fuzzer, rendered over a fixed conversation under small budgets.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "runtime/text/chat_template.h"
#include "runtime/text/json.h"

namespace {

using qrt::text::Value;

// Aborting is how a fuzz target reports a broken promise.
void Require(bool holds) {
  if (!holds) __builtin_trap();
}

std::vector<Value::Entry> Variables() {
  constexpr std::string_view kJson = R"({
    "messages": [{"role": "system", "content": " Be brief. "},
                 {"role": "user", "content": [{"type": "text", "text": "hé"}, {"type": "image"}]},
                 {"role": "assistant", "content": "<think>\na\n</think>\n\nb",
                  "tool_calls": [{"function": {"name": "f", "arguments": {"x": 1, "y": [null, 2.5]}}}]},
                 {"role": "tool", "content": "r"}],
    "tools": [{"type": "function", "function": {"name": "f", "items": {}}}],
    "add_generation_prompt": true, "enable_thinking": false,
    "s": "Hello, World", "l": [3, 1, 2], "d": {"a": 1, "b": {"c": "x"}}, "n": null, "i": -7, "f": 0.5, "e": ""})";
  Value value;
  std::string error;
  Require(qrt::text::ParseJson(kJson, &value, &error));
  return value.as_map().entries;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::vector<Value::Entry> variables = Variables();
  const std::string_view source(reinterpret_cast<const char*>(data), size);
  const auto parsed = qrt::text::ChatTemplate::Parse(source);
  if (!parsed.ok()) {
    Require(parsed.status().number() == 7001 && !parsed.status().message().empty());
    return 0;
  }
  qrt::text::RenderLimits limits;
  limits.steps = 20000;
  limits.output_bytes = limits.string_bytes = 1 << 16;
  limits.total_bytes = 1 << 20;
  const auto text = parsed->RenderWith(variables, limits);
  if (text.ok()) {
    Require(text->size() <= limits.output_bytes);
    const auto again = parsed->RenderWith(variables, limits);
    Require(again.ok() && *again == *text);
  } else {
    Require(text.status().number() == 7002 && !text.status().message().empty());
  }

  // The same bytes as JSON: what can be read can be written, and reads back as the same text.
  Value value;
  std::string error, once, twice;
  if (qrt::text::ParseJson(source, &value, &error)) {
    Require(qrt::text::AppendJson(value, {}, size_t{1} << 24, &once, &error));
    Require(qrt::text::ParseJson(once, &value, &error));
    Require(qrt::text::AppendJson(value, {}, size_t{1} << 24, &twice, &error));
    Require(once == twice);
  }
  return 0;
}
