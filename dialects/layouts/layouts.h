// The layouts in which weights lie in an artifact, their sizes, and which one a target takes. No MLIR.
#ifndef QCC_DIALECTS_LAYOUTS_LAYOUTS_H_
#define QCC_DIALECTS_LAYOUTS_LAYOUTS_H_

#include <cstdint>
#include <optional>

#include "dialects/formats/formats.h"
#include "dialects/layouts/int8_row.h"
#include "dialects/layouts/x16.h"

namespace qcc::layouts {

// Numbered as plan.weight's layout (dialects/plan/IR/PlanBase.td).
enum class Layout : uint8_t {
  kX16,       // groups of 16 matrix rows, interleaved (x16.h); rows are padded to a multiple of 16
  kX16Pair,   // two matrices of one shape: their groups alternate
  kF32,       // f32 values in GGUF order
  kConvTaps,  // f32 [taps][channels] of a GGUF [channels][taps]
};

// GGUF tensors that one weight of this layout is made of.
constexpr int64_t SourcesOf(Layout layout) {
  return layout == Layout::kX16Pair ? 2 : 1;
}

constexpr int64_t AlignUp(int64_t n, int64_t a) {
  return (n + a - 1) / a * a;
}

// Bytes of `rows` x `cols` weights in the x16 layout. cols is a multiple of the format's block.
int64_t X16Bytes(Format format, int64_t rows, int64_t cols);

// Bytes of a weight of SourcesOf(layout) tensors of `rows` x `cols` each; nothing if cols is no multiple of
// the format's block.
std::optional<int64_t> PackedBytes(Layout layout, Format format, int64_t rows, int64_t cols);

// What a program does with a weight.
enum class Use : uint8_t {
  kMatrix,      // multiplies with it, or looks rows up
  kMatrixPair,  // multiplies with two that the same input goes through, side by side
  kVector,      // takes its values in order
  kConvTaps,    // slides its rows over a sequence
};

// A target's choice for a weight of this format and shape. A fat artifact stores a weight once for all
// targets that choose the same.
using Policy = Layout (*)(Use use, Format format, int64_t rows, int64_t cols);

// Matrices as x16: the choice of every target today.
Layout X16Everywhere(Use use, Format format, int64_t rows, int64_t cols);

}  // namespace qcc::layouts

#endif  // QCC_DIALECTS_LAYOUTS_LAYOUTS_H_
