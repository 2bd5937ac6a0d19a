#include "compiler/driver/report_text.h"

#include <cstdarg>
#include <cstdio>

namespace qcc::compiler {

std::string Clean(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return text;
}

void Append(std::string& out, const char* format, ...) {
  va_list args;
  va_start(args, format);
  va_list again;
  va_copy(again, args);
  const int length = std::vsnprintf(nullptr, 0, format, args);
  va_end(args);
  const size_t at = out.size();
  out.resize(at + static_cast<size_t>(length) + 1);
  std::vsnprintf(out.data() + at, static_cast<size_t>(length) + 1, format, again);
  va_end(again);
  out.resize(at + static_cast<size_t>(length));
}

std::string Joined(const std::vector<std::string>& list) {
  std::string out;
  for (const std::string& s : list) out += (out.empty() ? "" : " ") + Clean(s);
  return out;
}

}  // namespace qcc::compiler
