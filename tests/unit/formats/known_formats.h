// What the formats are known to be, independently of the library's tables: one row each.
#ifndef QCC_TESTS_UNIT_FORMATS_KNOWN_FORMATS_H_
#define QCC_TESTS_UNIT_FORMATS_KNOWN_FORMATS_H_

#include <cstdint>

namespace qcc::testing {

struct KnownFormat {
  const char* name;
  // GGUF's own numbers: type id, weights per block, bytes per block.
  uint32_t ggml_id;
  int elems, bytes;
  // Bounds of the encoder's root mean square error over that of the values, for standard normal weights and
  // each EncodeEffort. Uniform codes over the range of a group give about range / (levels * sqrt(12)); the
  // best ternary code of a normal distribution has 0.436, the best code of one bit sqrt(1 - 2 / pi) = 0.603.
  // A codec that lost a bit or swapped fields misses these by far.
  double fast, best;
};

// q2_0_g128 is PrismML's, from before upstream took the id for groups of 64.
inline constexpr KnownFormat kKnownFormats[] = {
    {"f32", 0, 1, 4, 0, 0},
    {"f16", 1, 1, 2, 0x1p-11, 0x1p-11},
    {"q4_0", 2, 32, 18, 0.090, 0.083},
    {"q4_1", 3, 32, 20, 0.082, 0.073},
    {"q5_0", 6, 32, 22, 0.044, 0.042},
    {"q5_1", 7, 32, 24, 0.039, 0.036},
    {"q8_0", 8, 32, 34, 0.006, 0.006},
    {"q2_k", 10, 256, 84, 0.340, 0.280},
    {"q3_k", 11, 256, 110, 0.160, 0.148},
    {"q4_k", 12, 256, 144, 0.082, 0.074},
    {"q5_k", 13, 256, 176, 0.041, 0.037},
    {"q6_k", 14, 256, 210, 0.020, 0.018},
    {"iq2_xxs", 16, 256, 66, 0.395, 0.340},
    {"iq2_xs", 17, 256, 74, 0.345, 0.300},
    {"iq3_xxs", 18, 256, 98, 0.207, 0.185},
    {"iq1_s", 19, 256, 50, 0.520, 0.460},
    {"iq4_nl", 20, 32, 18, 0.083, 0.080},
    {"iq3_s", 21, 256, 110, 0.160, 0.137},
    {"iq2_s", 22, 256, 82, 0.295, 0.250},
    {"iq4_xs", 23, 256, 136, 0.083, 0.080},
    {"iq1_m", 29, 256, 56, 0.465, 0.425},
    {"bf16", 30, 1, 2, 0x1p-8, 0x1p-8},
    {"tq1_0", 34, 256, 54, 0.445, 0.445},
    {"tq2_0", 35, 256, 66, 0.445, 0.445},
    {"mxfp4", 39, 32, 17, 0.120, 0.116},
    {"nvfp4", 40, 64, 36, 0.099, 0.087},
    {"q1_0", 41, 128, 18, 0.605, 0.605},
    {"q2_0", 42, 64, 18, 0.365, 0.360},
    {"q2_0_g128", 42, 128, 34, 0.375, 0.373},
};

}  // namespace qcc::testing

#endif  // QCC_TESTS_UNIT_FORMATS_KNOWN_FORMATS_H_
