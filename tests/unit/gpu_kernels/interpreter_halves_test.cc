// The interpreter's products of matrices of half floats and bf16 numbers.
#include <gtest/gtest.h>

#include <cmath>
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

struct Kind {
  const char* name;
  uint16_t (*encode)(float);
  decltype(&Builder::MmaF16) multiply;
};
const Kind kKinds[] = {{"f16", float_to_half, &Builder::MmaF16}, {"bf16", float_to_bf16, &Builder::MmaBf16}};

class MmaOfHalves : public testing::TestWithParam<Kind> {};

// [16][16] and [16][8] numbers as words [word][lane] of fragments, and room for a result of 4 words.
std::vector<uint32_t> HalfFragments(const Kind& kind, const std::function<float(int, int)>& a,
                                    const std::function<float(int, int)>& m) {
  const auto word = [&](float low, float high) {
    return kind.encode(low) | uint32_t{kind.encode(high)} << 16;
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

// D, with C the same number everywhere.
std::function<void(Builder&)> MultiplyHalves(const Kind& kind, float c) {
  return [kind, c](Builder& b) {
    const auto word = [&](int w) { return b.Load(Type::kI32, b.Arg(0), (b.Thread() + b.I32(32 * w)) * 4); };
    const Val sum = b.F32(c);
    const std::vector<Val> d =
        (b.*kind.multiply)({word(0), word(1), word(2), word(3)}, {word(4), word(5)}, {sum, sum, sum, sum});
    for (int w = 0; w < 4; ++w) {
      b.Store(b.Arg(0), (b.Thread() + b.I32(32 * (6 + w))) * 4, d[w]);
    }
  };
}

TEST_P(MmaOfHalves, MultipliesMatrices) {
  const auto a = [](int row, int k) { return static_cast<float>((row * 16 + k) * 37 % 255 - 127) / 8; };
  const auto m = [](int k, int column) { return static_cast<float>((k * 8 + column) * 91 % 251 - 125) / 16; };
  Sandbox box(FindProfile("sm80")->profile, 1);
  const Arg out = box.Arena(HalfFragments(GetParam(), a, m));
  ASSERT_EQ(RunOn(box, out, MultiplyHalves(GetParam(), 0.25f)), "");
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
// 0 counts as the smallest normal number.
TEST_P(MmaOfHalves, CutsOffWhatIsFarBelowTheGreatest) {
  const auto only = [](float greatest, float rest) {
    return [=](int k, int) { return k == 0 ? greatest : rest; };
  };
  const auto ones = [](int, int) { return 1.f; };
  const float near_zero = 0x1.000002p-30f;
  const bool half = GetParam().encode == float_to_half;
  struct {
    std::function<float(int, int)> m;
    float c, want;
  } const cases[] = {
      {only(1.f, 0.75f), 0x1p24f, 0x1p24f},
      {only(1.f, 1.f), 0x1p24f, 0x1p24f + 16.f},
      {only(1.f, 0.f), -0x1p24f - 2.f, -0x1p24f},
      {only(0.f, 0.f), 0x1.000002p-14f, 0x1.000002p-14f},
      {only(0.f, 0.f), near_zero, half ? 0x1p-30f : near_zero},
  };
  for (const auto& c : cases) {
    Sandbox box(FindProfile("sm80")->profile, 1);
    const Arg out = box.Arena(HalfFragments(GetParam(), ones, c.m));
    ASSERT_EQ(RunOn(box, out, MultiplyHalves(GetParam(), c.c)), "");
    EXPECT_EQ(box.Read<float>(out)[32 * 6], c.want) << c.c;
  }
}

// Infinities and what is no number go through; nothing else becomes one.
TEST_P(MmaOfHalves, KeepsWhatIsNotFinite) {
  const auto ones = [](int, int) { return 1.f; };
  for (const float x : {INFINITY, -INFINITY, NAN}) {
    Sandbox box(FindProfile("sm80")->profile, 1);
    const Arg out = box.Arena(HalfFragments(GetParam(), ones, [x](int k, int) { return k == 3 ? x : 1.f; }));
    ASSERT_EQ(RunOn(box, out, MultiplyHalves(GetParam(), 1.f)), "");
    const float got = box.Read<float>(out)[32 * 6];
    EXPECT_TRUE(std::isnan(x) ? std::isnan(got) : got == x) << x << " " << got;
  }
}

TEST_P(MmaOfHalves, AddsFloats) {
  Sandbox box(FindProfile("sm80")->profile, 1);
  const Arg out = box.Arena(4);
  const std::string said = RunOn(box, out, [&](Builder& b) {
    const Val i = b.Thread();
    (b.*GetParam().multiply)({i, i, i, i}, {i, i}, {i, i, i, i});
  });
  EXPECT_NE(said.find("fragment of mma has type i32, expected f32"), std::string::npos) << said;
}

INSTANTIATE_TEST_SUITE_P(Kinds, MmaOfHalves, testing::ValuesIn(kKinds),
                         [](const testing::TestParamInfo<Kind>& info) { return info.param.name; });

}  // namespace
}  // namespace qcc::gpu
