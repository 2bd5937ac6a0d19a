// The format table against ggml's published type ids, block sizes and names.
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "dialects/formats/formats.h"

namespace qcc {
namespace {

struct Known {
  const char* name;
  uint32_t ggml_id;
  int elems, bytes;
};
// GGUF's own numbers (type id, weights per block, bytes per block), for every format that the table may name.
constexpr Known kKnown[] = {
    {"f32", 0, 1, 4},         {"f16", 1, 1, 2},        {"q4_0", 2, 32, 18},      {"q4_1", 3, 32, 20},
    {"q5_0", 6, 32, 22},      {"q5_1", 7, 32, 24},     {"q8_0", 8, 32, 34},      {"q2_k", 10, 256, 84},
    {"q3_k", 11, 256, 110},   {"q4_k", 12, 256, 144},  {"q5_k", 13, 256, 176},   {"q6_k", 14, 256, 210},
    {"iq2_xxs", 16, 256, 66}, {"iq2_xs", 17, 256, 74}, {"iq3_xxs", 18, 256, 98}, {"iq1_s", 19, 256, 50},
    {"iq4_nl", 20, 32, 18},   {"iq3_s", 21, 256, 110}, {"iq2_s", 22, 256, 82},   {"iq4_xs", 23, 256, 136},
    {"iq1_m", 29, 256, 56},   {"bf16", 30, 1, 2},      {"tq1_0", 34, 256, 54},   {"tq2_0", 35, 256, 66},
    {"mxfp4", 39, 32, 17},    {"nvfp4", 40, 64, 36},   {"q1_0", 41, 128, 18},    {"q2_0", 42, 64, 18},
};

TEST(FormatTable, RowsAgreeWithGgml) {
  for (int i = 0; i < kFormatCount; ++i) {
    const FormatInfo& info = format_info(static_cast<Format>(i));
    const Known* known = nullptr;
    for (const Known& k : kKnown) {
      if (info.name == k.name) known = &k;
    }
    ASSERT_NE(known, nullptr) << "format " << info.name << " is not one of ggml's";
    EXPECT_EQ(info.ggml_id, known->ggml_id) << info.name;
    EXPECT_EQ(info.block_elems, known->elems) << info.name;
    EXPECT_EQ(info.block_bytes, known->bytes) << info.name;
    EXPECT_EQ(info.cls == FormatClass::kPlain, info.block_elems == 1) << info.name;
  }
}

TEST(FormatTable, LooksUpByIdAndByName) {
  for (int i = 0; i < kFormatCount; ++i) {
    Format f = static_cast<Format>(i);
    const FormatInfo& info = format_info(f);
    EXPECT_EQ(info.id, f) << info.name;
    EXPECT_EQ(format_from_ggml_id(info.ggml_id), f) << info.name;
    EXPECT_EQ(format_from_name(info.name), f) << info.name;
  }
  EXPECT_EQ(format_from_name("q4_k_m"), std::nullopt);
  EXPECT_EQ(format_from_name(""), std::nullopt);
}

TEST(FormatTable, IdsThatArePresentButNotSupportedHaveNoRow) {
  for (uint32_t id : {4u, 5u, 9u, 15u, 24u, 28u, 31u, 36u, 43u, 142u, 0xffffffffu}) {
    EXPECT_EQ(format_from_ggml_id(id), std::nullopt) << "id " << id;
  }
}

TEST(FormatTable, NamesEveryTypeId) {
  for (const Known& k : kKnown) {
    std::string lower;
    for (char c : ggml_type_name(k.ggml_id)) lower.push_back(static_cast<char>(std::tolower(c)));
    EXPECT_EQ(lower, k.name) << "id " << k.ggml_id;
  }
  for (uint32_t id = 0; id <= 42; ++id) EXPECT_NE(ggml_type_name(id), "unknown") << "id " << id;
  EXPECT_NE(ggml_type_name(31).find("removed"), std::string_view::npos);
  EXPECT_NE(ggml_type_name(142).find("PQ2_0"), std::string_view::npos);
  EXPECT_NE(ggml_type_name(152).find("IQ5_KS"), std::string_view::npos);
  EXPECT_EQ(ggml_type_name(5000), "unknown");
}

TEST(FormatTable, RowBytesCountsBlocks) {
  for (int i = 0; i < kFormatCount; ++i) {
    const FormatInfo& info = format_info(static_cast<Format>(i));
    EXPECT_EQ(row_bytes(info.id, 0), 0) << info.name;
    EXPECT_EQ(row_bytes(info.id, 512), 512 / info.block_elems * info.block_bytes) << info.name;
    // Past 2^32 elements the sizes must not wrap.
    EXPECT_EQ(row_bytes(info.id, int64_t{1} << 40), (int64_t{1} << 40) / info.block_elems * info.block_bytes)
        << info.name;
  }
}

}  // namespace
}  // namespace qcc
