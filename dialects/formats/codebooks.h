// The codebooks of the formats that store 4 or 8 weights as an index: points whose coordinates take few
// levels. Stand-alone and constexpr.
#ifndef QCC_DIALECTS_FORMATS_CODEBOOKS_H_
#define QCC_DIALECTS_FORMATS_CODEBOOKS_H_

#include <stdint.h>

namespace qcc {

template <int32_t kCount>
struct Grid {
  int32_t base;  // of the digits of a point
  uint16_t points[kCount];
};
#define QCC_GRID(name, count, base) inline constexpr Grid<count> name = {base, {
#define QCC_GRID_END \
  }                  \
  }                  \
  ;
#include "dialects/formats/grids.inc"
#undef QCC_GRID
#undef QCC_GRID_END

struct Codebook {
  const uint16_t* points = nullptr;
  int32_t count = 0;     // 0: the format has none
  int32_t width = 0;     // weights of a point
  int32_t levels = 0;    // base of its digits
  int8_t level[8] = {};  // what a digit stands for, rising

  constexpr int32_t cells() const {
    int32_t n = 1;
    for (int32_t i = 0; i < width; ++i) n *= levels;
    return n;
  }
};

template <int32_t kCount>
constexpr Codebook book_of(const Grid<kCount>& grid, Codebook book) {
  book.points = grid.points;
  book.count = kCount;
  book.levels = grid.base;
  return book;
}

// Levels as ggml's file format has them (IQ1: before the shift by 1/8).
inline constexpr Codebook kIq2Levels = {.width = 8, .level = {8, 25, 43}};
inline constexpr Codebook kIq2XxsBook = book_of(kGridIq2Xxs, kIq2Levels);
inline constexpr Codebook kIq2XsBook = book_of(kGridIq2Xs, kIq2Levels);
inline constexpr Codebook kIq2SBook = book_of(kGridIq2S, kIq2Levels);
inline constexpr Codebook kIq3XxsBook =
    book_of(kGridIq3Xxs, {.width = 4, .level = {4, 12, 20, 28, 36, 44, 52, 62}});
inline constexpr Codebook kIq3SBook = book_of(kGridIq3S, {.width = 4, .level = {1, 3, 5, 7, 9, 11, 13, 15}});
inline constexpr Codebook kIq1Book = book_of(kGridIq1S, {.width = 8, .level = {-1, 0, 1}});

}  // namespace qcc

#endif  // QCC_DIALECTS_FORMATS_CODEBOOKS_H_
