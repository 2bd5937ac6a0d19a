#include "runtime/qrun/terminal_keys.h"

namespace qrun {
namespace {

constexpr char kEscape = '\x1b';

bool IsFinal(char c) {
  return c >= 0x40 && c <= 0x7e;
}

}  // namespace

bool IsWholeKey(std::string_view bytes) {
  if (bytes.size() < 2) return false;
  if (bytes[1] == 'O') return bytes.size() == 3;
  if (bytes[1] != '[') return true;
  if (bytes.size() < 3) return false;
  return bytes[2] == '[' ? bytes.size() == 4 : IsFinal(bytes.back());
}

std::string_view EditorKey(std::string_view key) {
  constexpr struct {
    std::string_view sent, seen;
  } kKeys[] = {
      {"\x1b[1~", "\x01"},       {"\x1b[7~", "\x01"},       {"\x1b[H", "\x01"},
      {"\x1bOH", "\x01"},  // Home: Ctrl-A
      {"\x1b[4~", "\x05"},       {"\x1b[8~", "\x05"},       {"\x1b[F", "\x05"},
      {"\x1bOF", "\x05"},                                                             // End: Ctrl-E
      {"\x1b[1;5D", "\x1b\x62"}, {"\x1b[1;3D", "\x1b\x62"}, {"\x1b[5D", "\x1b\x62"},  // a word back
      {"\x1bOd", "\x1b\x62"},    {"\x1b[1;5C", "\x1b\x66"}, {"\x1b[1;3C", "\x1b\x66"},
      {"\x1b[5C", "\x1b\x66"},                                                          // and forth
      {"\x1bOc", "\x1b\x66"},    {"\x1b[3;5~", "\x1b\x64"}, {"\x1b[3;3~", "\x1b\x64"},  // a word less
  };
  for (const auto& [sent, seen] : kKeys) {
    if (key == sent) return seen;
  }
  constexpr std::string_view kBound[] = {"\x1b[A", "\x1b[B", "\x1b[C", "\x1b[D",  "\x1bOA",
                                         "\x1bOB", "\x1bOC", "\x1bOD", "\x1b[3~", "\x1b[200~"};
  for (const std::string_view bound : kBound) {
    if (key == bound) return key;
  }
  const bool sequence = key.size() > 2 && key[0] == kEscape && (key[1] == '[' || key[1] == 'O');
  return sequence ? std::string_view() : key;
}

}  // namespace qrun
