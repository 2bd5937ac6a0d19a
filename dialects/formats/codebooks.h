// The codebooks of the formats that store 4 or 8 weights as an index: points whose coordinates take few
// levels. Stand-alone and constexpr.
#ifndef QCC_DIALECTS_FORMATS_CODEBOOKS_H_
#define QCC_DIALECTS_FORMATS_CODEBOOKS_H_

#include <stdint.h>

namespace qcc {

#define QCC_GRID(name, count, base) inline constexpr uint16_t name[count] = {
#define QCC_GRID_END \
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

// Levels as ggml's file format has them (IQ1: before the shift by 1/8).
inline constexpr Codebook kIq2XxsBook = {kGridIq2Xxs, 256, 8, 3, {8, 25, 43}};
inline constexpr Codebook kIq2XsBook = {kGridIq2Xs, 512, 8, 3, {8, 25, 43}};
inline constexpr Codebook kIq2SBook = {kGridIq2S, 1024, 8, 3, {8, 25, 43}};
inline constexpr Codebook kIq3XxsBook = {kGridIq3Xxs, 256, 4, 8, {4, 12, 20, 28, 36, 44, 52, 62}};
inline constexpr Codebook kIq3SBook = {kGridIq3S, 512, 4, 8, {1, 3, 5, 7, 9, 11, 13, 15}};
inline constexpr Codebook kIq1Book = {kGridIq1S, 2048, 8, 3, {-1, 0, 1}};

}  // namespace qcc

#endif  // QCC_DIALECTS_FORMATS_CODEBOOKS_H_
