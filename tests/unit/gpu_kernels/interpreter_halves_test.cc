// The interpreter's products of matrices of half floats.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "codegen/gpu/kernels/profiles.h"
#include "dialects/formats/formats.h"
#include "tests/device/sandbox.h"

namespace qcc::gpu {
namespace {

// One subgroup over `out`.
std::string RunOn(Sandbox& box, const Arg& out, std::function<void(Builder&)> emit) {
  Launch launch;
  launch.name = "test";
  launch.emit = std::move(emit);
  launch.workgroup_size = 32;
  launch.args = {out};
  return box.Run({launch});
}

// [16][16] and [16][8] halves as words [word][lane] of fragments, and room for a result of 4 words.
std::vector<uint32_t> HalfFragments(const std::function<float(int, int)>& a,
                                    const std::function<float(int, int)>& m) {
  const auto word = [](float low, float high) {
    return float_to_half(low) | uint32_t{float_to_half(high)} << 16;
  };
  std::vector<uint32_t> words;
  for (int w = 0; w < 4; ++w) {
    for (int lane = 0; lane < 32; ++lane) {
      const int row = lane / 4 + w % 2 * 8, column = lane % 4 * 2 + w / 2 * 8;
      words.push_back(word(a(row, column), a(row, column + 1)));
    }
  }
  for (int w = 0; w < 2; ++w) {
    for (int lane = 0; lane < 32; ++lane) {
      const int row = lane % 4 * 2 + w * 8;
      words.push_back(word(m(row, lane / 4), m(row + 1, lane / 4)));
    }
  }
  words.resize(words.size() + 4 * 32);
  return words;
}

// D of halves, with C the same number everywhere.
std::function<void(Builder&)> MultiplyHalves(float c) {
  return [c](Builder& b) {
    const auto word = [&](int w) { return b.Load(Type::kI32, b.Arg(0), (b.Thread() + b.I32(32 * w)) * 4); };
    const Val sum = b.F32(c);
    const std::vector<Val> d =
        b.MmaF16({word(0), word(1), word(2), word(3)}, {word(4), word(5)}, {sum, sum, sum, sum});
    for (int w = 0; w < 4; ++w) {
      b.Store(b.Arg(0), (b.Thread() + b.I32(32 * (6 + w))) * 4, d[w]);
    }
  };
}

TEST(MmaOfHalves, MultipliesMatrices) {
  const auto a = [](int row, int k) { return static_cast<float>((row * 16 + k) * 37 % 255 - 127) / 8; };
  const auto m = [](int k, int column) { return static_cast<float>((k * 8 + column) * 91 % 251 - 125) / 16; };
  Sandbox box(FindProfile("sm80")->profile, 1);
  const Arg out = box.Arena(HalfFragments(a, m));
  ASSERT_EQ(RunOn(box, out, MultiplyHalves(0.25f)), "");
  const std::vector<float> got = box.Read<float>(out);
  for (int row = 0; row < 16; ++row) {
    for (int column = 0; column < 8; ++column) {
      float want = 0.25f;
      for (int k = 0; k < 16; ++k) {
        want += a(row, k) * m(k, column);  // exact: multiples of 2^-7 below 2^15
      }
      const int lane = row % 8 * 4 + column / 2, w = column % 2 + row / 8 * 2;
      EXPECT_EQ(got[32 * (6 + w) + lane], want) << row << "," << column;
    }
  }
}

// Of a sum of 2^24 and more nothing below 1 is left, not even where small terms together would make it up; a
// 0 times the greatest half counts as 2^1.
TEST(MmaOfHalves, CutsOffWhatIsFarBelowTheGreatest) {
  const auto only = [](float greatest, float rest) {
    return [=](int k, int) { return k == 0 ? greatest : rest; };
  };
  const auto ones = [](int, int) { return 1.f; };
  struct {
    std::function<float(int, int)> m;
    float c, want;
  } const cases[] = {
      {only(1.f, 0.75f), 0x1p24f, 0x1p24f},        {only(1.f, 1.f), 0x1p24f, 0x1p24f + 16.f},
      {only(1.f, 0.f), -0x1p24f - 2.f, -0x1p24f},  {only(0.f, 0.f), 0x1.000002p-14f, 0x1.000002p-14f},
      {only(0.f, 0.f), 0x1.000002p-30f, 0x1p-30f},
  };
  for (const auto& c : cases) {
    Sandbox box(FindProfile("sm80")->profile, 1);
    const Arg out = box.Arena(HalfFragments(ones, c.m));
    ASSERT_EQ(RunOn(box, out, MultiplyHalves(c.c)), "");
    EXPECT_EQ(box.Read<float>(out)[32 * 6], c.want) << c.c;
  }
}

TEST(MmaOfHalves, AddsFloats) {
  Sandbox box(FindProfile("sm80")->profile, 1);
  const Arg out = box.Arena(4);
  const std::string said = RunOn(box, out, [](Builder& b) {
    const Val i = b.Thread();
    b.MmaF16({i, i, i, i}, {i, i}, {i, i, i, i});
  });
  EXPECT_NE(said.find("fragment of mma has type i32, expected f32"), std::string::npos) << said;
}

}  // namespace
}  // namespace qcc::gpu
