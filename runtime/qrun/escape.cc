#include "runtime/qrun/escape.h"

#include <cstdint>
#include <cstdio>

#include "runtime/qrun/utf8.h"

namespace qrun {
namespace {

bool IsControl(uint32_t point) {
  return point < 0x20 || (point >= 0x7F && point <= 0x9F);
}

// Characters that end a line, or show text in another order than it has.
bool MovesText(uint32_t point) {
  return (point >= 0x2028 && point <= 0x202E) || (point >= 0x2066 && point <= 0x2069);
}

std::string Number(const char* format, uint32_t value) {
  char text[16];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string Escaped(uint32_t point) {
  if (point == '\n') return "\\n";
  if (point == '\r') return "\\r";
  if (point == '\t') return "\\t";
  return Number(point < 0x80 ? "\\x%02x" : "\\u{%x}", point);
}

// Copies the characters that `keep` accepts; `escape` gives what stands for the others, `broken` for a byte
// that is no UTF-8.
template <typename Keep, typename Escape, typename Broken>
std::string Rewrite(std::string_view text, Keep keep, Escape escape, Broken broken) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t size = SequenceLength(text);
    if (size == 0) {
      out += broken(static_cast<uint8_t>(text[0]));
    } else {
      const uint32_t point = CodePoint(text.substr(0, size));
      if (keep(point)) {
        out += text.substr(0, size);
      } else {
        out += escape(point);
      }
    }
    text.remove_prefix(size == 0 ? 1 : size);
  }
  return out;
}

std::string BrokenByte(uint8_t byte) {
  return Number("\\x%02x", byte);
}

}  // namespace

std::string OneLine(std::string_view text) {
  return Rewrite(
      text, [](uint32_t point) { return !IsControl(point) && !MovesText(point); }, Escaped, BrokenByte);
}

std::string ForTerminal(std::string_view text) {
  return Rewrite(
      text, [](uint32_t point) { return !IsControl(point) || point == '\n' || point == '\t'; }, Escaped,
      BrokenByte);
}

std::string Quoted(std::string_view text) {
  return "\"" +
         Rewrite(
             text,
             [](uint32_t point) {
               return point != '"' && point != '\\' && !IsControl(point) && !MovesText(point);
             },
             [](uint32_t point) {
               if (point == '"' || point == '\\') return std::string("\\") + static_cast<char>(point);
               return Number("\\u%04x", point);  // none of them is beyond four digits
             },
             [](uint8_t) { return std::string("\\ufffd"); }) +
         "\"";
}

void Tell(std::string_view text) {
  const std::string line = "qrun: " + OneLine(text) + "\n";
  std::fputs(line.c_str(), stderr);
}

}  // namespace qrun
