// Packing: sizes, values and the kernels' table of formats.
#include "codegen/cpu/kernels/bitcode.h"
#include "dialects/plan/tile_layout.h"
#include "codegen/cpu/pack/pack.h"
#include "dialects/plan/pack_layout.h"
#include "tests/unit/codegen_cpu/kernel_harness.h"

namespace qcc::cpu {
namespace {

TEST(KernelTables, FormatsAgree) {
  const auto list = format_kernels(kernels_of(Isa::base));
  ASSERT_EQ(list.size(), static_cast<size_t>(kFormatCount))
      << "kernels.def and formats.def list different formats";
  for (const FormatKernels& f : list) {
    const FormatInfo& info = format_info(f.format);
    EXPECT_EQ(f.name, info.name) << "the suffix of kernels.def is the name in formats.def";
    EXPECT_EQ(f.int8 != nullptr, info.cls == FormatClass::kBlock) << f.name;
  }
}

TEST(KernelTables, TileSizesAgree) {
#define CHECK_TILE(id)                                                          \
  EXPECT_EQ(plan::kTile##id.bytes(), plan::x16_tile_bytes(Format::id)) << #id;  \
  EXPECT_EQ(plan::kTile##id.block, format_info(Format::id).block_elems) << #id; \
  EXPECT_EQ(plan::kTile##id.body, plan::kTile##id.chunk*(plan::kTile##id.block / 32)) << #id;
#define QK_BLOCK_FORMAT(id, suffix) CHECK_TILE(id)
#include "codegen/cpu/kernels/kernels.def"
#undef CHECK_TILE
}

TEST(KernelTables, IsaNamesAndBitcode) {
  for (const IsaInfo& i : isa_table()) {
    EXPECT_EQ(isa_from_name(i.name), i.id);
    EXPECT_EQ(&isa_info(i.id), &i);
    const std::string_view bc = kernel_bitcode(i.id);
    ASSERT_GT(bc.size(), 4u) << i.name;
    EXPECT_EQ(bc.substr(0, 2), "BC") << i.name << ": not LLVM bitcode";
    for (const IsaInfo& other : isa_table()) {
      EXPECT_EQ(bc == kernel_bitcode(other.id), other.id == i.id) << i.name << " and " << other.name;
    }
  }
  EXPECT_FALSE(isa_from_name("v9"));
  EXPECT_EQ(missing_cpu_flag(Isa::base), "");
  EXPECT_EQ(missing_cpu_flag(host_isa()), "");
}

TEST(KernelPack, UnpackedValuesAreExact) {
  uint32_t seed = 1;
  for (const FormatKernels& f : format_kernels(kernels_of(Isa::base))) {
    const int64_t block = format_info(f.format).block_elems;
    for (int64_t cols : {block, 2 * block, 3 * block, 1024 / block * block}) {
      for (int64_t rows : {1, 16, 17, 40}) {
        SCOPED_TRACE(f.name + " " + std::to_string(rows) + " x " + std::to_string(cols));
        const auto gguf = random_gguf(f.format, rows, cols, seed++);
        const int64_t groups = (rows + 15) / 16, bytes = plan::x16_bytes(f.format, 16, cols);
        Guarded<uint8_t> packed(static_cast<size_t>(plan::x16_bytes(f.format, rows, cols)));
        // Two parts and one call per group.
        const MatrixPart parts[] = {{gguf.data(), rows / 3},
                                    {gguf.data() + rows / 3 * row_bytes(f.format, cols), rows - rows / 3}};
        for (int64_t g = 0; g < groups; ++g)
          pack_x16(f.format, parts, cols, g, g + 1, packed.data() + g * bytes);
        std::vector<float> got(static_cast<size_t>(cols)), want(static_cast<size_t>(cols));
        for (int64_t r = 0; r < groups * 16; ++r) {
          unpack_x16_row(f.format, packed.data() + r / 16 * bytes, cols, static_cast<int>(r % 16),
                         got.data());
          if (r < rows) {
            decode_row(f.format, gguf.data() + r * row_bytes(f.format, cols), cols, want.data());
            ASSERT_TRUE(same_bits(got.data(), want.data(), cols)) << "row " << r;
          } else {
            for (float v : got) ASSERT_EQ(v, 0.f) << "padding row " << r;
          }
        }
      }
    }
  }
}

TEST(KernelPack, PairsAlternate) {
  for (const FormatKernels& f : format_kernels(kernels_of(Isa::base))) {
    const int64_t cols = 256, rows = 40, bytes = plan::x16_bytes(f.format, 16, cols);
    const auto a = random_gguf(f.format, rows, cols, 1), b = random_gguf(f.format, rows, cols, 2);
    const MatrixPart pa[] = {{a.data(), rows}}, pb[] = {{b.data(), rows}};
    Guarded<uint8_t> pair(static_cast<size_t>(6 * bytes)), one(static_cast<size_t>(3 * bytes)),
        two(static_cast<size_t>(3 * bytes));
    pack_x16_pair(f.format, pa, pb, cols, 0, 1, pair.data());
    pack_x16_pair(f.format, pa, pb, cols, 1, 3, pair.data() + 2 * bytes);
    pack_x16(f.format, pa, cols, 0, 3, one.data());
    pack_x16(f.format, pb, cols, 0, 3, two.data());
    for (int64_t g = 0; g < 3; ++g) {
      EXPECT_EQ(std::memcmp(pair.data() + 2 * g * bytes, one.data() + g * bytes, bytes), 0)
          << f.name << " gate " << g;
      EXPECT_EQ(std::memcmp(pair.data() + (2 * g + 1) * bytes, two.data() + g * bytes, bytes), 0)
          << f.name << " up " << g;
    }
  }
}

TEST(KernelPack, F32AndConvTaps) {
  for (Format f : {Format::F32, Format::F16, Format::BF16}) {
    const int64_t channels = 24, taps = 4;
    const auto gguf = random_gguf(f, channels, taps, 3);
    std::vector<float> plain(channels * taps), conv(channels * taps), want(channels * taps);
    for (int64_t c = 0; c < channels; ++c)
      decode_row(f, gguf.data() + c * row_bytes(f, taps), taps, want.data() + c * taps);
    pack_f32(f, gguf.data(), channels * taps, plain.data());
    EXPECT_TRUE(same_bits(plain.data(), want.data(), plain.size())) << format_info(f).name;
    pack_conv_taps(f, gguf.data(), channels, taps, 0, 10, conv.data());
    pack_conv_taps(f, gguf.data(), channels, taps, 10, channels, conv.data());
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t t = 0; t < taps; ++t) {
        EXPECT_EQ(conv[t * channels + c], want[c * taps + t])
            << format_info(f).name << " channel " << c << " tap " << t;
      }
    }
  }
}

}  // namespace
}  // namespace qcc::cpu
