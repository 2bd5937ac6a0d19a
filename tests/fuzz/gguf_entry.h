// The one entry that the GGUF fuzzer and the mutation test share: parse the bytes, then read everything that
// the view offers. Whatever the bytes are, it returns.
#ifndef QCC_TESTS_FUZZ_GGUF_ENTRY_H_
#define QCC_TESTS_FUZZ_GGUF_ENTRY_H_

#include <cstdint>
#include <span>

namespace qcc::fuzz {

// Result of one input, for tests: whether the file was accepted, and the number of things read from it.
struct GgufResult {
  bool accepted = false;
  bool error_has_code = false;  // if refused
  uint64_t read = 0;
};

GgufResult FuzzGguf(std::span<const uint8_t> bytes);

}  // namespace qcc::fuzz

#endif  // QCC_TESTS_FUZZ_GGUF_ENTRY_H_
