#include "compiler/driver/synth_random.h"

#include <cmath>

namespace qcc::compiler {
namespace {

// Finaliser of the SplitMix64 generator: a bijection in which every input bit reaches every output bit.
inline uint64_t Scramble(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// The sum of four independent 16-bit uniforms, near enough to normal (it ends at 3.46 deviations). Integers
// up to the final product, so that every machine gives the same bits.
inline float Normal(uint64_t bits) {
  int32_t sum = static_cast<int32_t>(bits & 0xffff) + static_cast<int32_t>((bits >> 16) & 0xffff) +
                static_cast<int32_t>((bits >> 32) & 0xffff) + static_cast<int32_t>(bits >> 48);
  constexpr float kInverseDeviation = 2.6429e-5f;  // 1 / (65536 * sqrt(1 / 3))
  return static_cast<float>(sum - 2 * 65535) * kInverseDeviation;
}

inline float Uniform(uint64_t bits) {
  return static_cast<float>(bits >> 40) * 0x1p-24f;
}

}  // namespace

uint64_t DrawBits(uint64_t key, uint64_t i) {
  return Scramble(key + i * 0x9e3779b97f4a7c15u);
}

uint64_t StreamKey(uint64_t seed, std::string_view tensor) {
  uint64_t key = Scramble(seed + 0x9e3779b97f4a7c15u);
  for (char c : tensor) key = Scramble(key ^ static_cast<uint8_t>(c));
  return key;
}

void DrawValues(Draw draw, float scale, uint64_t key, uint64_t first, std::span<float> out) {
  switch (draw) {
    case Draw::kNormal:
      for (size_t i = 0; i < out.size(); ++i) out[i] = scale * Normal(DrawBits(key, first + i));
      break;
    case Draw::kAroundOne:
      for (size_t i = 0; i < out.size(); ++i) out[i] = 1.0f + scale * Normal(DrawBits(key, first + i));
      break;
    case Draw::kConstant:
      for (float& v : out) v = scale;
      break;
    case Draw::kDecay:
      for (size_t i = 0; i < out.size(); ++i) out[i] = -(0.1f + 7.9f * Uniform(DrawBits(key, first + i)));
      break;
    case Draw::kTimeStep:
      for (size_t i = 0; i < out.size(); ++i) {
        // In f64 and rounded once: the last bit must not depend on the maths library.
        double step = 0.001 * std::exp(std::log(100.0) * Uniform(DrawBits(key, first + i)));
        out[i] = static_cast<float>(std::log(std::expm1(step)));
      }
      break;
  }
}

}  // namespace qcc::compiler
