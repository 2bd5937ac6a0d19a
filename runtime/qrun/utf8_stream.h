// Text that arrives in arbitrary pieces of bytes, given out as whole UTF-8 sequences.
#ifndef RUNTIME_QRUN_UTF8_STREAM_H_
#define RUNTIME_QRUN_UTF8_STREAM_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace qrun {

// Bytes of the well-formed sequence at the start of `bytes` (not empty), 0 if there is none.
size_t SequenceLength(std::string_view bytes);

// The character in a well-formed sequence.
uint32_t CodePoint(std::string_view sequence);

// Its sequence; of what is no character, U+FFFD's.
std::string EncodeUtf8(uint32_t point);

// What is given out is always well-formed UTF-8: bytes that cannot belong to a sequence become U+FFFD.
class Utf8Stream {
 public:
  // Takes more bytes; returns what is complete now.
  std::string Push(std::string_view bytes);
  // The bytes that wait for the rest of their sequence.
  const std::string& unfinished() const { return rest_; }
  // Ends the text: an unfinished sequence becomes U+FFFD.
  std::string Finish();

 private:
  std::string rest_;  // at most 3 bytes: the beginning of a sequence
};

}  // namespace qrun

#endif  // RUNTIME_QRUN_UTF8_STREAM_H_
