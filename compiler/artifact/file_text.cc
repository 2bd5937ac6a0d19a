#include "compiler/artifact/file_text.h"

#include <cstdint>

#include "frontends/base/text.h"

namespace qcc::compiler {

std::string_view CutText(std::string_view text, size_t most) {
  if (text.size() <= most) return text;
  size_t end = most;
  while (end > 0 && (static_cast<uint8_t>(text[end]) & 0xc0) == 0x80) --end;
  constexpr size_t kMostBehind = 3;  // of a character: more of them in a row are no UTF-8
  return text.substr(0, most - end > kMostBehind ? most : end);
}

std::string ShortName(std::string_view name) {
  constexpr size_t kShown = 60;
  if (name.size() <= kShown) return std::string(name);
  return Concat(CutText(name, kShown), "... (", name.size(), " bytes)");
}

}  // namespace qcc::compiler
