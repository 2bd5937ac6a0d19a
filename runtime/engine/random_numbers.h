// Random numbers that are functions of a key and a place, not steps of a sequence.
#ifndef RUNTIME_ENGINE_RANDOM_NUMBERS_H_
#define RUNTIME_ENGINE_RANDOM_NUMBERS_H_

#include <array>
#include <cstdint>

namespace qrt {

// Philox4x32-10 (Salmon, Moraes, Dror and Shaw: "Parallel random numbers: as easy as 1, 2, 3", 2011; the
// Random123 library). Passes BigCrush over counters, over keys, and over both interleaved.
constexpr std::array<uint32_t, 4> Philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * counter[0], b = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

// What the token at `position` of a sequence is drawn with: the first two words of Philox, the seed as key,
// the position as counter, low words first.
constexpr uint64_t RandomAt(uint64_t seed, uint64_t position) {
  const std::array<uint32_t, 4> words =
      Philox({static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32), 0, 0},
             {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  return words[0] | uint64_t{words[1]} << 32;
}

}  // namespace qrt

#endif  // RUNTIME_ENGINE_RANDOM_NUMBERS_H_
