// Single UTF-8 sequences.
#ifndef RUNTIME_QRUN_UTF8_H_
#define RUNTIME_QRUN_UTF8_H_

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

}  // namespace qrun

#endif  // RUNTIME_QRUN_UTF8_H_
