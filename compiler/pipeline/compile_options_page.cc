// The options as the reference page shows them.
#include <string>
#include <string_view>

#include "compiler/pipeline/compile_options.h"
#include "frontends/base/text.h"

namespace qcc::compiler {

std::string CompileOptionsPage() {
  auto cell = [](std::string text) {
    for (size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, "\\");
    return text;
  };
  std::string out =
      "| option | value | default | in the artifact | meaning |\n"
      "|---|---|---|---|---|\n";
  for (const CompileOption& option : CompileOptions()) {
    const std::string by_default = option.DefaultText();
    const std::string_view quote = by_default.empty() || !option.usual.empty() ? "" : "`";
    out += Concat("| `", option.short_flag, option.short_flag.empty() ? "" : "`, `", option.Flag(), "` | `",
                  cell(option.ValueText()), "` | ", quote, by_default, quote, " | ",
                  option.changes == OptionChanges::kNothing ? "" : "yes", " | ", option.help,
                  option.page.empty() ? "" : ". ", option.page, " |\n");
  }
  return out;
}

}  // namespace qcc::compiler
