// Where the numbers of a GGUF head lie, read leniently: for mutations that keep the file readable.
#ifndef QCC_TESTS_FUZZ_GGUF_FIELDS_H_
#define QCC_TESTS_FUZZ_GGUF_FIELDS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace qcc::fuzz {

struct Field {
  size_t offset;
  size_t bytes;  // 1, 2, 4 or 8
};

struct GgufHead {
  // Values of metadata, elements of arrays of numbers (the first 64 of each), the tensors' extents and types.
  std::vector<Field> fields;
  // Bytes of the head; the data begins at the next multiple of the alignment. 0 if the file is not readable
  // so far.
  size_t end = 0;
};

GgufHead ReadHead(std::span<const uint8_t> file);

}  // namespace qcc::fuzz

#endif  // QCC_TESTS_FUZZ_GGUF_FIELDS_H_
