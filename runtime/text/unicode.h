// UTF-8 primitives shared by the tokenizer, the chat template engine and the streaming output.
#ifndef QRT_TEXT_UNICODE_H_
#define QRT_TEXT_UNICODE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace qrt::text {

// Bytes (1 to 4) of the well-formed UTF-8 sequence that starts at text[pos]; 0 when the bytes there are not
// one (stray continuation, overlong form, surrogate, above U+10FFFF, or cut off by the end). Requires pos <
// text.size().
size_t Utf8SequenceLength(std::string_view text, size_t pos);

// The code point of the sequence at text[pos], whose length Utf8SequenceLength gave as `length` (>= 1).
char32_t DecodeUtf8(std::string_view text, size_t pos, size_t length);

// Appends `code_point` (at most U+10FFFF) in UTF-8.
void AppendUtf8(char32_t code_point, std::string* out);

// Steps over one character at text[pos]: a well-formed sequence, or one byte where there is none.
size_t NextChar(std::string_view text, size_t pos);

// Number of bytes at text[pos..] that are ASCII.
size_t AsciiRun(std::string_view text, size_t pos);

// Number of characters, where a byte outside any well-formed sequence counts as one.
size_t CountChars(std::string_view text);

// Byte offset of every character, followed by text.size().
std::vector<size_t> CharOffsets(std::string_view text);

// White space as Python's str.isspace() sees it (what strip() without arguments removes).
bool IsPythonSpace(char32_t code_point);

// What Python's str.isprintable() accepts and repr() leaves as it is.
bool IsPythonPrintable(char32_t code_point);

// Bytes of the line break at text[pos] as Python's str.splitlines() sees it; 0: none. Requires pos <
// text.size().
size_t LineBreak(std::string_view text, size_t pos);

inline char AsciiLower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
}
inline char AsciiUpper(char c) {
  return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
}

inline bool IsAsciiDigit(char c) {
  return c >= '0' && c <= '9';
}

// Removes characters from the ends: white space when `chars` is null, else the characters in *chars.
std::string_view Strip(std::string_view text, bool left, bool right, const std::string_view* chars = nullptr);

// Turns token bytes, which may end inside a character, into a stream of whole UTF-8 sequences.
//
// Push releases everything up to the last whole character and keeps at most three bytes back. Bytes that can
// no longer become a character are replaced by U+FFFD as soon as that is known, one per maximal ill-formed
// part (the practice of the Unicode Standard, section 3.9); a sequence still incomplete at Flush becomes one
// U+FFFD. So the concatenated output is always well-formed UTF-8 and does not depend on how the bytes were
// cut into pushes.
class Utf8Stream {
 public:
  void Push(std::string_view bytes, std::string* out);
  void Flush(std::string* out);
  // Bytes held back, and how many.
  std::string_view unfinished() const { return {held_, size_}; }
  size_t pending() const { return size_; }

 private:
  char held_[4] = {};
  size_t size_ = 0;
};

}  // namespace qrt::text

#endif  // QRT_TEXT_UNICODE_H_
