// Lays GGUF weights out for the CPU kernels (dialects/plan/tile_layout.h); sizes:
// dialects/plan/pack_layout.h. Works group by group straight from the mapped file, so a matrix never exists
// twice. Values are not changed: unpack gives what the formats' reference decoder gives, bit for bit.
#ifndef QCC_CODEGEN_CPU_PACK_PACK_H_
#define QCC_CODEGEN_CPU_PACK_PACK_H_

#include <cstdint>
#include <span>

#include "dialects/formats/formats.h"

namespace qcc::cpu {

// Rows of one GGUF tensor, row-major blocks; all parts of a matrix have the same format and columns.
struct MatrixPart {
  const uint8_t* data;
  int64_t rows;
};

// Packs groups [group_begin, group_end) of the matrix whose rows are the parts' rows in order (merged linears
// have several). `cols` is a multiple of the format's block. Rows past the last are zeros. dst receives
// (group_end - group_begin) * x16_bytes(format, 16, cols) bytes: group_begin's first byte is dst[0].
void pack_x16(Format format, std::span<const MatrixPart> parts, int64_t cols, int64_t group_begin,
              int64_t group_end, uint8_t* dst);

// The same for two matrices of equal shape whose groups alternate: gate, up, gate, up. Ranges count pairs;
// dst receives twice as many bytes.
void pack_x16_pair(Format format, std::span<const MatrixPart> gate, std::span<const MatrixPart> up,
                   int64_t cols, int64_t pair_begin, int64_t pair_end, uint8_t* dst);

// n values as f32, in GGUF order. n is a multiple of the format's block.
void pack_f32(Format format, const uint8_t* src, int64_t n, float* dst);

// GGUF [channels][taps] to f32 [taps][channels], for channels [channel_begin, channel_end) of dst. Formats
// with blocks of one element only.
void pack_conv_taps(Format format, const uint8_t* src, int64_t channels, int64_t taps, int64_t channel_begin,
                    int64_t channel_end, float* dst);

// Row `row` (0..15) of a packed group, decoded: cols floats. For tests and inspection.
void unpack_x16_row(Format format, const uint8_t* group, int64_t cols, int row, float* dst);

}  // namespace qcc::cpu

#endif  // QCC_CODEGEN_CPU_PACK_PACK_H_
