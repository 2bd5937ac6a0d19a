// Packing: sizes, values and the kernels' table of formats.
#include "codegen/cpu/kernels/bitcode.h"
#include "dialects/layouts/pack.h"
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

// Every bit of every code has a place of its own in the chunk, and the places fill it.
TEST(KernelTables, CodesFillTheirChunk) {
  for (int bits : {1, 2, 3, 4, 5, 6, 8}) {
    const int low = layouts::LowBits(bits);
    std::vector<int> taken(static_cast<size_t>(bits * layouts::kVectorBytes * 8), 0);
    for (int row = 0; row < 16; ++row) {
      for (int column = 0; column < 32; ++column) {
        for (int bit = 0; bit < bits; ++bit) {
          const int width = bit < low ? low : bits - low, within = bit < low ? bit : bit - low;
          const int byte = (bit < low ? 0 : low * 64) + layouts::CodeByte(width, row, column);
          const int shift = layouts::ShiftOfWord(width, column / 4) + within;
          ASSERT_LT(shift, 8) << bits << " bits, row " << row << ", column " << column;
          ASSERT_LT(byte, bits * 64) << bits << " bits, row " << row << ", column " << column;
          EXPECT_EQ(taken[static_cast<size_t>(byte * 8 + shift)]++, 0)
              << bits << " bits: bit " << bit << " of row " << row << ", column " << column;
        }
      }
    }
  }
}

TEST(KernelTables, TilesFillTheirGroup) {
  for (const FormatKernels& f : format_kernels(kernels_of(Isa::base))) {
    const layouts::Tile tile = layouts::TileOf(description(f.format).plain);
    if (tile.block == 0) continue;
    EXPECT_EQ(tile.block, format_info(f.format).block_elems) << f.name;
    EXPECT_EQ(tile.bytes() * tile.run % 64, 0) << f.name << ": a run of tiles is no multiple of a cache line";
    for (int64_t count : {1, 2, 3, 4, 5, 7}) {
      std::vector<int> taken(static_cast<size_t>(layouts::X16Bytes(f.format, 16, count * tile.block)), 0);
      ASSERT_EQ(taken.size(), static_cast<size_t>(count * tile.bytes())) << f.name;
      for (int64_t i = 0; i < count; ++i) {
        const layouts::TilePlace at = layouts::PlaceOfTile(tile, i, count);
        // Prefetchers follow from the fields to the body; registers are read from whole cache lines.
        EXPECT_EQ(at.body, at.fields + tile.fields) << f.name << ", tile " << i << " of " << count;
        if (i / tile.run < count / tile.run) {
          EXPECT_EQ(at.body % 64, 0) << f.name << ", tile " << i << " of " << count;
        }
        for (int b = 0; b < tile.bases; ++b) ++taken.at(static_cast<size_t>(at.bases + b));
        for (int b = 0; b < tile.fields; ++b) ++taken.at(static_cast<size_t>(at.fields + b));
        for (int b = 0; b < tile.body; ++b) ++taken.at(static_cast<size_t>(at.body + b));
      }
      EXPECT_EQ(std::count(taken.begin(), taken.end(), 1), static_cast<long>(taken.size()))
          << f.name << ", " << count << " tiles";
    }
  }
}

// The bytes of artifacts must not move: hashes of what the first packer wrote for these formats, FNV-1a; of
// Q6_K, since base scales of neighbours stand together.
TEST(KernelPack, BytesAreThoseOfBefore) {
  struct Case {
    Format format;
    size_t bytes;
    uint64_t hash;
  };
  for (const Case& c : {Case{Format::F32, 384, 0xcce68afccc2b4c95u},
                        {Format::F16, 192, 0x92a83279bde0da2du},
                        {Format::BF16, 192, 0x92a83279bde0da2du},
                        {Format::Q4_0, 1728, 0x78eccfb7e69210b1u},
                        {Format::Q4_1, 1920, 0x71c7f3e2d0d5c96du},
                        {Format::Q8_0, 3264, 0xe724ca2e8a7a04d1u},
                        {Format::Q4_K, 14208, 0x3fc1bc3c02e31f02u},
                        {Format::Q5_K, 17280, 0x38592752e51529eeu},
                        {Format::Q6_K, 20160, 0xb7c2f1680141a4c0u}}) {
    const int64_t rows = 20, cols = 3 * format_info(c.format).block_elems;
    std::vector<uint8_t> gguf(static_cast<size_t>(rows * row_bytes(c.format, cols)));
    for (size_t i = 0; i < gguf.size(); ++i) gguf[i] = static_cast<uint8_t>(i * 197 + (i >> 8) * 31);
    const Guarded<uint8_t> bytes = packed(c.format, gguf, rows, cols);
    ASSERT_EQ(bytes.size(), c.bytes) << format_info(c.format).name;
    uint64_t hash = 0xcbf29ce484222325u;
    for (uint8_t b : bytes) hash = (hash ^ b) * 0x100000001b3u;
    EXPECT_EQ(hash, c.hash) << format_info(c.format).name;
  }
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
        const layouts::Weight weight{layouts::Layout::kX16, f.format, rows, cols, {gguf.data()}};
        const int64_t groups = (rows + 15) / 16, bytes = weight.piece_bytes();
        ASSERT_EQ(weight.pieces(), groups);
        Guarded<uint8_t> all(static_cast<size_t>(layouts::X16Bytes(f.format, rows, cols)));
        for (int64_t g = 0; g < groups; ++g) layouts::Pack(weight, g, g + 1, all.data() + g * bytes);
        std::vector<float> got(static_cast<size_t>(cols)), want(static_cast<size_t>(cols));
        for (int64_t r = 0; r < groups * 16; ++r) {
          layouts::UnpackX16Row(f.format, all.data() + r / 16 * bytes, cols, static_cast<int>(r % 16),
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

// A bit of the file is a bit of the artifact, at a place of its own, and there are no others.
TEST(KernelPack, OneBitWeightsAreAPermutationOfTheFilesBits) {
  const int64_t rows = 16, cols = 256;
  std::vector<uint8_t> gguf(static_cast<size_t>(rows * row_bytes(Format::Q1_0, cols)));
  const layouts::Weight weight{layouts::Layout::kX16, Format::Q1_0, rows, cols, {gguf.data()}};
  const std::vector<uint8_t> zeros = layouts::Packed(weight);
  ASSERT_EQ(zeros.size(), gguf.size()) << "the artifact has other bytes than the file";
  std::vector<bool> taken(8 * zeros.size());
  for (size_t bit = 0; bit < 8 * gguf.size(); ++bit) {
    gguf[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    const std::vector<uint8_t> packed = layouts::Packed(weight);
    gguf[bit / 8] = 0;
    int moved = 0;
    for (size_t at = 0; at < taken.size(); ++at) {
      if (((packed[at / 8] ^ zeros[at / 8]) >> at % 8 & 1) == 0) continue;
      ++moved;
      ASSERT_FALSE(taken[at]) << "bit " << bit << " of the file shares bit " << at << " of the artifact";
      taken[at] = true;
    }
    ASSERT_EQ(moved, 1) << "bit " << bit << " of the file is that many bits of the artifact";
  }
}

TEST(KernelPack, PairsAlternate) {
  for (const FormatKernels& f : format_kernels(kernels_of(Isa::base))) {
    const int64_t cols = 256, rows = 40, bytes = layouts::X16Bytes(f.format, 16, cols);
    const auto a = random_gguf(f.format, rows, cols, 1), b = random_gguf(f.format, rows, cols, 2);
    const layouts::Weight weight{layouts::Layout::kX16Pair, f.format, rows, cols, {a.data(), b.data()}};
    ASSERT_EQ(weight.piece_bytes(), 2 * bytes);
    Guarded<uint8_t> pair(static_cast<size_t>(6 * bytes));
    layouts::Pack(weight, 0, 1, pair.data());
    layouts::Pack(weight, 1, 3, pair.data() + 2 * bytes);
    const Guarded<uint8_t> one = packed(f.format, a, rows, cols), two = packed(f.format, b, rows, cols);
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
    const auto bytes_of = [](std::vector<float>& v) { return reinterpret_cast<uint8_t*>(v.data()); };
    const layouts::Weight rows{layouts::Layout::kF32, f, channels, taps, {gguf.data()}};
    layouts::Pack(rows, 0, 10, bytes_of(plain));
    layouts::Pack(rows, 10, rows.pieces(), bytes_of(plain) + 10 * rows.piece_bytes());
    EXPECT_TRUE(same_bits(plain.data(), want.data(), plain.size())) << format_info(f).name;
    const layouts::Weight whole{layouts::Layout::kConvTaps, f, channels, taps, {gguf.data()}};
    layouts::Pack(whole, 0, whole.pieces(), bytes_of(conv));
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t t = 0; t < taps; ++t) {
        EXPECT_EQ(conv[t * channels + c], want[c * taps + t])
            << format_info(f).name << " channel " << c << " tap " << t;
      }
    }
  }
}

TEST(KernelPack, SizesAndChoices) {
  using layouts::Layout;
  EXPECT_EQ(layouts::PackedBytes(Layout::kX16, Format::Q4_K, 17, 512), 2 * 2 * 2368);
  EXPECT_EQ(layouts::PackedBytes(Layout::kX16Pair, Format::Q4_K, 17, 512), 2 * 2 * 2 * 2368);
  EXPECT_EQ(layouts::PackedBytes(Layout::kX16, Format::BF16, 17, 5), 2 * 5 * 32);
  EXPECT_EQ(layouts::PackedBytes(Layout::kF32, Format::Q8_0, 3, 64), 3 * 64 * 4);
  EXPECT_EQ(layouts::PackedBytes(Layout::kX16, Format::Q4_K, 17, 128), std::nullopt) << "half a block";
  EXPECT_EQ(layouts::X16Everywhere(layouts::Use::kMatrix, Format::Q4_K, 16, 256), Layout::kX16);
  EXPECT_EQ(layouts::X16Everywhere(layouts::Use::kMatrixPair, Format::Q4_K, 16, 256), Layout::kX16Pair);
  EXPECT_EQ(layouts::X16Everywhere(layouts::Use::kVector, Format::F32, 1, 256), Layout::kF32);
  EXPECT_EQ(layouts::X16Everywhere(layouts::Use::kConvTaps, Format::F32, 256, 4), Layout::kConvTaps);
}

}  // namespace
}  // namespace qcc::cpu
