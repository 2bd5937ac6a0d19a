// Lays GGUF weights out as layouts.h says, piece by piece straight from the mapped file, so that a matrix
// never exists twice. Values are not changed: unpacking gives what the formats' reference decoder gives, bit
// for bit.
#ifndef QCC_DIALECTS_LAYOUTS_PACK_H_
#define QCC_DIALECTS_LAYOUTS_PACK_H_

#include <cstdint>
#include <vector>

#include "dialects/layouts/layouts.h"

namespace qcc::layouts {

// A weight of the artifact. `sources` are the GGUF bytes of SourcesOf(layout) tensors of rows x cols each,
// cols a multiple of the format's block.
struct Weight {
  Layout layout;
  Format format;
  int64_t rows, cols;
  std::vector<const uint8_t*> sources;

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
