#include "compiler/driver/report_text.h"

#include <cstdarg>
#include <cstdint>
#include <cstdio>

#include "llvm/Support/ConvertUTF.h"

namespace qcc::compiler {

namespace {

// Control characters (C0, DEL, C1), what ends a line, and what turns the writing direction.
bool IsUnsafe(uint32_t point) {
  return point < 0x20 || (point >= 0x7f && point <= 0x9f) || (point >= 0x2028 && point <= 0x202e) ||
         (point >= 0x2066 && point <= 0x2069);
}

}  // namespace

std::string Clean(std::string_view text) {
  std::string out;
  const auto* at = reinterpret_cast<const llvm::UTF8*>(text.data());
  const llvm::UTF8* const end = at + text.size();
  while (at != end) {
    const llvm::UTF8* const begin = at;
    llvm::UTF32 point = 0;
    if (llvm::convertUTF8Sequence(&at, end, &point, llvm::strictConversion) != llvm::conversionOK) {
      at = begin + 1;
      Append(out, "\\x%02x", *begin);
    } else if (IsUnsafe(point)) {
      Append(out, point < 0x80 ? "\\x%02x" : "\\u{%x}", point);
    } else {
      out.append(begin, at);
    }
  }
  return out;
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
