#include "codegen/gpu/kernels/matrix_halves.h"

namespace qcc::gpu {
namespace {

constexpr int kMantissa = 23;
// Biased exponents of f32. That of the greatest number is brought to kTopExponent, and taken for at least
// kLeastExponent, so that a quarter of the scale back is a normal number.
constexpr int kBias = 127, kTopExponent = kBias + 14, kLeastExponent = 17;
static_assert(kLeastExponent - (kTopExponent - kBias) >= 3);

}  // namespace

Halves SplitHalves(Builder& b, Val even, Val odd) {
  Halves x;
  x.high = b.PackHalf(even, odd);
  const Val rounded = b.UnpackHalf(x.high);
  x.low = b.PackHalf(even - b.Extract(rounded, 0), odd - b.Extract(rounded, 1));
  return x;
}

HalvesScale ScaleOfHalves(Builder& b, Val top) {
  // Where an f32 has it.
  const Val exponent = MaxS(b.AsI32(top) & (0xff << kMantissa), b.I32(kLeastExponent << kMantissa));
  const auto reversed = static_cast<int32_t>(static_cast<uint32_t>(kTopExponent + kBias) << kMantissa);
  return {b.AsF32(reversed - exponent), b.AsF32(exponent - ((kTopExponent - kBias) << kMantissa))};
}

}  // namespace qcc::gpu
