// A GGUF without tensors, as it lies in a file.
#ifndef QCC_TESTS_UNIT_GGUF_METADATA_FILE_H_
#define QCC_TESTS_UNIT_GGUF_METADATA_FILE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <vector>

#include "frontends/gguf/writer.h"

namespace qcc::gguf {

inline std::vector<uint8_t> MetadataFile(const Writer& writer) {
  std::vector<uint8_t> bytes;
  const absl::Status written = writer.WriteTo([](const auto&, const auto&) { return absl::OkStatus(); },
                                              [&bytes](std::span<const uint8_t> piece) {
                                                bytes.insert(bytes.end(), piece.begin(), piece.end());
                                                return absl::OkStatus();
                                              });
  EXPECT_TRUE(written.ok()) << written;
  return bytes;
}

}  // namespace qcc::gguf

#endif  // QCC_TESTS_UNIT_GGUF_METADATA_FILE_H_
