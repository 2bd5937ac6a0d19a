// libFuzzer target of the GGUF reader. An error without a code, or anything a sanitizer sees, is a finding.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/gguf_entry.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  qcc::fuzz::GgufResult result = qcc::fuzz::FuzzGguf({data, size});
  if (!result.accepted && !result.error_has_code) __builtin_trap();
  return 0;
}
