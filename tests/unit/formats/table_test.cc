// The format table against ggml's published type ids, block sizes and names.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "dialects/formats/formats.h"
#include "tests/unit/formats/known_formats.h"

namespace qcc {
namespace {

using Known = testing::KnownFormat;
using testing::kKnownFormats;

TEST(FormatTable, RowsAgreeWithGgml) {
  for (int i = 0; i < kFormatCount; ++i) {
    const FormatInfo& info = format_info(static_cast<Format>(i));
    const Known* known = nullptr;
    for (const Known& k : kKnownFormats) {
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
    if (f != Format::Q2_0_G128) {
      EXPECT_EQ(format_from_ggml_id(info.ggml_id), f) << info.name;
    }
    EXPECT_EQ(format_from_name(info.name), f) << info.name;
  }
  // Of two layouts under one id the first is upstream's.
  EXPECT_EQ(format_from_ggml_id(format_info(Format::Q2_0_G128).ggml_id), Format::Q2_0);
  EXPECT_EQ(format_from_name("q4_k_m"), std::nullopt);
  EXPECT_EQ(format_from_name(""), std::nullopt);
}

TEST(FormatTable, IdsThatArePresentButNotSupportedHaveNoRow) {
  for (uint32_t id : {4u, 5u, 9u, 15u, 24u, 28u, 31u, 36u, 43u, 142u, 0xffffffffu}) {
    EXPECT_EQ(format_from_ggml_id(id), std::nullopt) << "id " << id;
  }
}

TEST(FormatTable, NamesEveryTypeId) {
  for (const Known& k : kKnownFormats) {
    if (std::string_view(k.name) == "q2_0_g128") continue;  // id 42 is named after upstream's
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
