// v4vnni and the tile registers of AMX with their dot product of bytes.
#ifndef QCC_CODEGEN_CPU_KERNELS_LEVELS_V4AMX_H_
#define QCC_CODEGEN_CPU_KERNELS_LEVELS_V4AMX_H_

#include "codegen/cpu/kernels/levels/avx512.h"

namespace qk {

struct Level : Avx512 {
  static constexpr PanelShape panel(bool) { return {.rows = MatrixUnit::kRows, .vectors = 1, .panels = 1}; }
  static constexpr int panel_rows(int, int) { return MatrixUnit::kRows; }

  // Sixteen rows cost the unit what one does: by count of instructions unpacking (35 for 32 columns) and a
  // tile of 16 pay from where two tiles of 4 rows (77 each) would be taken.
  static constexpr int kExpertRows = 5;

  // What tiles cost is not what they multiply (1024 products a cycle) but what goes with it: from their first
  // instruction on, and for microseconds after the last, the processor multiplies 16 floats a cycle instead
  // of 32, and converts as many; it adds, to floats and to integers, 32 as before (model 167). A product
  // takes the unit 16 cycles whatever its columns, and 52 until it is there; storing a tile takes 16. Two
  // tiles loaded, multiplied and a product stored take 46 cycles where it is the one made before, 30 where
  // two or three others were made since.
  //
  // Tiles are named by number: the compiler keeps nothing in them, and moves no operation on them past
  // another.
  struct MatrixUnit {
    static constexpr int kRows = 16;

    // As the instruction reads it: bytes of a row and rows of each tile.
    struct alignas(64) Shapes {
      uint8_t palette, start_row, reserved[14];
      uint16_t row_bytes[16];
      uint8_t rows[16];
    };
    QK_INLINE void begin(const Shapes& shapes) { _tile_loadconfig(&shapes); }
    // The system then need not save tiles with a thread that no longer uses them.
    QK_INLINE void end() { _tile_release(); }

    template <int kTile>
    QK_INLINE void clear() {
      _tile_zero(kTile);
    }
    template <int kTile>
    QK_INLINE void load(const void* from, int64_t stride) {
      _tile_loadd(kTile, from, stride);
    }
    template <int kTile>
    QK_INLINE void store(void* to, int64_t stride) {
      _tile_stored(kTile, to, stride);
    }
    // sums[i][j] += a[i][4 n + b] * b[n][4 j + b] over n and b, of i8, as i32.
    template <int kSums, int kA, int kB>
    QK_INLINE void add_products() {
      _tile_dpbssd(kSums, kA, kB);
    }
  };
};

}  // namespace qk

#endif  // QCC_CODEGEN_CPU_KERNELS_LEVELS_V4AMX_H_
