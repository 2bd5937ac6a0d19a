// Lays GGUF weights out as layouts.h says, piece by piece straight from the mapped file, so that a matrix
// never exists twice. Values are not changed: unpacking gives what the formats' reference decoder gives, bit
// for bit.
#ifndef QCC_DIALECTS_LAYOUTS_PACK_H_
#define QCC_DIALECTS_LAYOUTS_PACK_H_

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "dialects/layouts/layouts.h"

namespace qcc::layouts {

// A GGUF tensor's bytes. Row r of a weight is its row tensor_row(r), of zeros where that is negative; without
// the function it is row r.
struct Source {
  Source(const uint8_t* data) : data(data) {}  // NOLINT(google-explicit-constructor): all rows in order
  Source(const uint8_t* data, std::function<int64_t(int64_t)> tensor_row)
      : data(data), tensor_row(std::move(tensor_row)) {}
  // Null for a row of zeros.
  const uint8_t* Row(int64_t row, int64_t row_bytes) const {
    const int64_t at = tensor_row ? tensor_row(row) : row;
    return at < 0 ? nullptr : data + at * row_bytes;
  }
  const uint8_t* data;
  std::function<int64_t(int64_t)> tensor_row;
};

// A weight of the artifact. `sources` are SourcesOf(layout) tensors, of rows x cols each or with rows x cols
// picked out, cols a multiple of the format's block.
struct Weight {
  Layout layout;
  Format format;
  int64_t rows, cols;
  std::vector<Source> sources;
  int64_t source_cols = 0;  // where not 0: columns of the sources, behind which are zeros (plain formats)

  // The weight is `pieces()` equal pieces, one behind the other: groups of rows, pairs of groups, rows, or
  // (for kConvTaps) the whole.
  int64_t pieces() const;
  int64_t piece_bytes() const;
};

// Writes the pieces [begin, end); dst receives (end - begin) * piece_bytes(): begin's first byte is dst[0].
// Rows past a matrix' last are zeros.
void Pack(const Weight& weight, int64_t begin, int64_t end, uint8_t* dst);
// All of them.
std::vector<uint8_t> Packed(const Weight& weight);

// Row `row` (0..15) of a packed group, decoded: cols floats.
void UnpackX16Row(Format format, const uint8_t* group, int64_t cols, int row, float* dst);

}  // namespace qcc::layouts

#endif  // QCC_DIALECTS_LAYOUTS_PACK_H_
