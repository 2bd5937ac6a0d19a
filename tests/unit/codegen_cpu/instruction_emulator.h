// The tile instructions of AMX, and the products of bytes and of words of AVX-VNNI, on a machine that lacks
// them: the very code that is made for the levels v4amx and v3vnni runs, and each of those instructions is
// computed, in plain C++, where the processor refuses it.
#ifndef QCC_TESTS_UNIT_CODEGEN_CPU_INSTRUCTION_EMULATOR_H_
#define QCC_TESTS_UNIT_CODEGEN_CPU_INSTRUCTION_EMULATOR_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "codegen/cpu/kernels/isa.h"

namespace qcc::cpu {

// The tile registers of a thread and what instructions do to them. False: the processor would refuse.
class TileRegisters {
 public:
  static constexpr size_t kTiles = 8, kRows = 16, kRowBytes = 64;

  // From the 64 bytes that ldtilecfg reads.
  bool Configure(const uint8_t* shapes);
  void Release() { *this = {}; }
  bool Clear(size_t tile);
  // Rows of memory, `stride` bytes apart.
  bool Load(size_t tile, const uint8_t* from, int64_t stride);
  bool Store(size_t tile, uint8_t* to, int64_t stride) const;
  // tdpbssd, and of unsigned bytes tdpbsud, tdpbusd, tdpbuud.
  bool AddProducts(size_t sums, size_t a, size_t b, bool a_signed, bool b_signed);

 private:
  struct Tile {
    size_t rows = 0, row_bytes = 0;
    std::array<std::array<uint8_t, kRowBytes>, kRows> bytes = {};
  };
  bool Usable(size_t tile) const { return tile < kTiles && tiles_[tile].rows != 0; }

  std::array<Tile, kTiles> tiles_ = {};
};

// What keeps this machine from running code of `isa`; empty if nothing does. Where nothing but tile registers
// or AVX-VNNI is missing, they are emulated from then on, until something else handles the signal (LLVM does
// once it writes a file).
std::string WhyNotHere(Isa isa);

// Whether `isa` has AVX-VNNI and this machine has not: each of its products then takes a signal, some
// microseconds.
bool ProductsAreEmulated(Isa isa);

// Instructions that were emulated in this process, by all threads.
uint64_t EmulatedInstructions();

}  // namespace qcc::cpu

#endif  // QCC_TESTS_UNIT_CODEGEN_CPU_INSTRUCTION_EMULATOR_H_
