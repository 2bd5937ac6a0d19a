// Renders templates in tests.
#ifndef TESTS_UNIT_RUNTIME_TEXT_RENDERING_H_
#define TESTS_UNIT_RUNTIME_TEXT_RENDERING_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/text/chat_template.h"
#include "runtime/text/json.h"

namespace qrt::text {

inline Value Json(std::string_view text) {
  Value value;
  std::string error;
  EXPECT_TRUE(ParseJson(text, &value, &error)) << error;
  return value;
}

inline Result<std::string> Render(std::string_view source, const std::vector<Value::Entry>& variables = {},
                                  const RenderLimits& limits = {},
                                  std::optional<int64_t> now = std::nullopt) {
  Result<ChatTemplate> parsed = ChatTemplate::Parse(source);
  if (!parsed.ok()) return parsed.status();
  return parsed->RenderWith(variables, limits, now);
}

inline std::string RenderOk(std::string_view source, const std::vector<Value::Entry>& variables = {}) {
  const Result<std::string> text = Render(source, variables);
  EXPECT_TRUE(text.ok()) << text.status().ToString() << "\nof " << source;
  return text.ok() ? *text : "";
}

}  // namespace qrt::text

#endif  // TESTS_UNIT_RUNTIME_TEXT_RENDERING_H_
