// Which codes unpacked weights have, and the dot product of those of 16 bits. Kernels only.
#ifndef QCC_CODEGEN_CPU_KERNELS_PANEL_DOT_H_
#define QCC_CODEGEN_CPU_KERNELS_PANEL_DOT_H_

#include "codegen/cpu/kernels/linear_int8.h"
#include "codegen/cpu/kernels/scratch.h"

namespace qk {

using qcc::cpu::LinearScratch;
using qcc::cpu::PanelCodes;

template <Format F, int kTerms>
constexpr PanelCodes panel_codes() {
  typedef BlockFormat<F> B;
  if (Level::wide_panels(B::kHigh, kTerms)) return PanelCodes::kWide;
  const bool scaled = Level::template Dot<B::kHigh>::kScales && B::kOneBase && B::kHasScale && kTerms == 1;
  return scaled ? PanelCodes::kScaled : PanelCodes::kBytes;
}
template <Format F, int kTerms>
inline constexpr PanelCodes kPanelCodes = panel_codes<F, kTerms>();

typedef I16<2 * kLanes> Pairs;

// Of the bytes of each 16 bits one, with its sign.
template <class V>
QK_INLINE V even_bytes(V v) {
  return (v << 8) >> 8;
}
template <class V>
QK_INLINE V odd_bytes(V v) {
  return v >> 8;
}

// The dot product of 16-bit codes and rows: two of each in a lane.
struct PairDot {
  static constexpr bool kSigned = true, kScales = false;
  Words sum;
  QK_INLINE void begin(PairDot& d, Words init) { d.sum = init; }
  QK_INLINE void add(PairDot& d, int, int, Words codes, int32_t x) {
    d.sum = Level::add_pairs(d.sum, codes, Words(x));
  }
  QK_INLINE Words end(const PairDot& d) { return d.sum; }
};

template <bool kWide, class Bytes>
struct PanelDot {
  typedef Bytes Type;
};
template <class Bytes>
struct PanelDot<true, Bytes> {
  typedef PairDot Type;
};

}  // namespace qk

#endif  // QCC_CODEGEN_CPU_KERNELS_PANEL_DOT_H_
