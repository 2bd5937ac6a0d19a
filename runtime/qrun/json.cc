#include "runtime/qrun/json.h"

#include <cstdio>

namespace qrun {

std::string Quoted(const std::string& text) {
  std::string json = "\"";
  for (const char c : text) {
    char escaped[8];
    if (c == '"' || c == '\\') {
      json += '\\';
      json += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      std::snprintf(escaped, sizeof escaped, "\\u%04x", c);
      json += escaped;
    } else {
      json += c;
    }
  }
  return json + "\"";
}

}  // namespace qrun
