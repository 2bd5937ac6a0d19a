// Every method of the Builder by which a thread computes, lowered to SPIR-V for every kind of profile,
// validated, and run where this machine has a Vulkan device for the profile. Expected values are computed
// here, in C++.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "builder_fixture.h"
#include "dialects/formats/formats.h"

namespace qcc::gpu::spirv_test {
namespace {

const Words kA = {0,          1,          2,  3,   0x7fffffff, 0x80000000, 0xffffffff, 0xfffffffe,
                  0x01020304, 0xf1e2d3c4, 17, 100, 12345,      0x80818283, 7,          0xfffffff9};
const Words kB = {1, 1, 5, 2, 1, 3, 2, 0xffffffff, 0x10, 0x1f, 4, 7, 0x7f, 0xff01fe02, 0xfffffffd, 3};

TEST_P(BuilderTest, LoadStoreAndPlace) {
  Case c;
  c.name = "place";
  c.grid[0] = 3, c.grid[1] = 2, c.grid[2] = 2;
  c.threads = 8;
  c.buffers = {Words(3 * 2 * 2 * 8)};
  c.numbers = {100000000001};
  c.emit = [](Builder& k) {
    Val block = k.BlockX() + k.BlockY() * 3 + k.BlockZ() * 6;
    Val index = block * 8 + k.Thread();
    k.Store(k.Arg(0), index << 2, index * 10 + k.Truncate(k.Arg(1)));
  };
  c.check = [](const std::vector<Words>& b) {
    for (uint32_t i = 0; i < b[0].size(); ++i)
      EXPECT_EQ(b[0][i], i * 10 + static_cast<uint32_t>(100000000001));
  };
  Run(c);
}

TEST_P(BuilderTest, IntegerOps) {
  auto binary = [&](const char* name, Op op, auto expected) {
    Map(
        name, kA, kB, [op](Builder& k, Val a, Val b) { return k.Binary(op, a, b); }, expected);
  };
  auto s = [](uint32_t x) { return static_cast<int32_t>(x); };
  binary("add", Op::kAdd, [](uint32_t a, uint32_t b) { return a + b; });
  binary("sub", Op::kSub, [](uint32_t a, uint32_t b) { return a - b; });
  binary("mul", Op::kMul, [](uint32_t a, uint32_t b) { return a * b; });
  binary("divu", Op::kDivU, [](uint32_t a, uint32_t b) { return a / b; });
  binary("remu", Op::kRemU, [](uint32_t a, uint32_t b) { return a % b; });
  binary("and", Op::kAnd, [](uint32_t a, uint32_t b) { return a & b; });
  binary("or", Op::kOr, [](uint32_t a, uint32_t b) { return a | b; });
  binary("xor", Op::kXor, [](uint32_t a, uint32_t b) { return a ^ b; });
  binary("mins", Op::kMinS,
         [&](uint32_t a, uint32_t b) { return static_cast<uint32_t>(std::min(s(a), s(b))); });
  binary("maxs", Op::kMaxS,
         [&](uint32_t a, uint32_t b) { return static_cast<uint32_t>(std::max(s(a), s(b))); });
  binary("minu", Op::kMinU, [](uint32_t a, uint32_t b) { return std::min(a, b); });
  binary("maxu", Op::kMaxU, [](uint32_t a, uint32_t b) { return std::max(a, b); });
  auto shift = [&](const char* name, Op op, auto expected) {
    Map(
        name, kA, kB, [op](Builder& k, Val a, Val b) { return k.Binary(op, a, b & 31); },
        [&](uint32_t a, uint32_t b) { return expected(a, b & 31); });
  };
  shift("shl", Op::kShl, [](uint32_t a, uint32_t b) { return a << b; });
  shift("shru", Op::kShrU, [](uint32_t a, uint32_t b) { return a >> b; });
  shift("shrs", Op::kShrS, [&](uint32_t a, uint32_t b) { return static_cast<uint32_t>(s(a) >> b); });
  Map(
      "mulhigh", kA, kB, [](Builder& k, Val a, Val b) { return k.MulHighU(a, b); },
      [](uint32_t a, uint32_t b) { return static_cast<uint32_t>((uint64_t{a} * b) >> 32); });
}

TEST_P(BuilderTest, CompareAndSelect) {
  auto compare = [&](const char* name, Cmp cmp, auto expected) {
    Map(
        name, kA, kB, [cmp](Builder& k, Val a, Val b) { return k.Select(k.Compare(cmp, a, b), a, b * 3); },
        [&](uint32_t a, uint32_t b) { return expected(a, b) ? a : b * 3; });
  };
  auto s = [](uint32_t x) { return static_cast<int32_t>(x); };
  compare("eq", Cmp::kEq, [](uint32_t a, uint32_t b) { return a == b; });
  compare("ne", Cmp::kNe, [](uint32_t a, uint32_t b) { return a != b; });
  compare("lts", Cmp::kLtS, [&](uint32_t a, uint32_t b) { return s(a) < s(b); });
  compare("les", Cmp::kLeS, [&](uint32_t a, uint32_t b) { return s(a) <= s(b); });
  compare("ltu", Cmp::kLtU, [](uint32_t a, uint32_t b) { return a < b; });
  compare("leu", Cmp::kLeU, [](uint32_t a, uint32_t b) { return a <= b; });
  Map(
      "conditions", kA, kB,
      [](Builder& k, Val a, Val b) {
        Val x = LtS(a, b), y = LtU(a, b), z = Eq(a, 1);
        Val both = k.Binary(Op::kXor, And(x, y), k.Binary(Op::kOr, z, k.Compare(Cmp::kNe, x, y)));
        return Select(both, k.I32(1), k.I32(0));
      },
      [&](uint32_t a, uint32_t b) {
        bool x = s(a) < s(b), y = a < b, z = a == 1;
        return static_cast<uint32_t>((x && y) != (z || x != y));
      });
  const std::vector<float> a = {1, 2, -1, 0, 1e30f, -0.0f}, b = {2, 1, -1, 5, 1e30f, 0.0f};
  auto floats = [&](const char* name, Cmp cmp, auto expected) {
    MapF(
        name, a, b,
        [cmp](Builder& k, Val x, Val y) { return k.Select(k.Compare(cmp, x, y), k.F32(1), k.F32(0)); },
        [&](float x, float y) { return expected(x, y) ? 1.f : 0.f; });
  };
  floats("ltf", Cmp::kLtF, [](float x, float y) { return x < y; });
  floats("lef", Cmp::kLeF, [](float x, float y) { return x <= y; });
  floats("eqf", Cmp::kEqF, [](float x, float y) { return x == y; });
}

TEST_P(BuilderTest, FloatOps) {
  const std::vector<float> a = {1, 2.5f, -3.25f, 1e-3f, 16777216.f, 0.1f, 7, 1.0000001f};
  const std::vector<float> b = {3, -2, 0.3f, 1e3f, 1.f, 0.2f, 10, 1.0000001f};
  auto binary = [&](const char* name, Op op, auto expected, int ulps = 0) {
    MapF(
        name, a, b, [op](Builder& k, Val x, Val y) { return k.Binary(op, x, y); }, expected, ulps);
  };
  binary("addf", Op::kAdd, [](float x, float y) { return x + y; });
  binary("subf", Op::kSub, [](float x, float y) { return x - y; });
  binary("mulf", Op::kMul, [](float x, float y) { return x * y; });
  binary(
      "divf", Op::kDivF, [](float x, float y) { return x / y; }, 3);
  binary("minf", Op::kMinF, [](float x, float y) { return std::min(x, y); });
  binary("maxf", Op::kMaxF, [](float x, float y) { return std::max(x, y); });
  // Not fused: the product is rounded before the sum.
  MapF(
      "nocontraction", a, b, [](Builder&, Val x, Val y) { return x * y - x; },
      [](float x, float y) {
        volatile float product = x * y;
        return product - x;
      });
  MapF(
      "fma", a, b, [](Builder& k, Val x, Val y) { return k.Fma(x, y, x); },
      [](float x, float y) { return std::fma(x, y, x); }, 2);
}

TEST_P(BuilderTest, Functions) {
  const std::vector<float> x = {1, 2.5f, 0.5f, 3.5f, 100.25f, 0.001f, 1.5f, 2};
  auto call = [&](const char* name, Fn fn, auto expected, int ulps, bool negative) {
    std::vector<float> in = x;
    if (negative)
      for (float v : x) in.push_back(-v);
    MapF(
        name, in, in, [fn](Builder& k, Val v, Val) { return k.Call(fn, v); },
        [&](float v, float) { return expected(v); }, ulps);
  };
  call(
      "abs", Fn::kAbs, [](float v) { return std::abs(v); }, 0, true);
  call(
      "neg", Fn::kNeg, [](float v) { return -v; }, 0, true);
  call(
      "sqrt", Fn::kSqrt, [](float v) { return std::sqrt(v); }, 4, false);
}

TEST_P(BuilderTest, Conversions) {
  Map(
      "tof32", kA, kB, [](Builder& k, Val a, Val) { return k.AsI32(k.ToF32(a)); },
      [](uint32_t a, uint32_t) { return Bits(static_cast<float>(static_cast<int32_t>(a))); });
  MapF(
      "toi32", {1.9f, -1.9f, 0.5f, -0.5f, 1e6f, -7}, {0, 0, 0, 0, 0, 0},
      [](Builder& k, Val x, Val) { return k.ToF32(k.ToI32(x)); },
      [](float x, float) { return std::trunc(x); });
  Map(
      "asf32", kA, kB,
      [](Builder& k, Val a, Val b) { return k.AsI32(k.AsF32((a & 0x7fffff) | 0x3f800000)) + b; },
      [](uint32_t a, uint32_t b) { return ((a & 0x7fffff) | 0x3f800000) + b; });
}

TEST_P(BuilderTest, WideIntegers) {
  using Wide = std::function<uint64_t(uint64_t, uint64_t)>;
  auto wide = [&](const char* name, const std::function<Val(Builder&, Val, Val)>& make,
                  const Wide& expected) {
    for (int half = 0; half < 2; ++half) {
      Map(
          std::string(name) + (half ? ".high" : ".low"), kA, kB,
          [&](Builder& k, Val a, Val b) {
            Val x = (k.ExtendU(a) << 32) + k.ExtendU(b), y = (k.ExtendS(b) << 7) + k.ExtendS(a);
            return k.Truncate(ShrU(make(k, x, y), 32 * half));
          },
          [&](uint32_t a, uint32_t b) {
            uint64_t x = (uint64_t{a} << 32) + b;
            int64_t y = static_cast<int64_t>(static_cast<uint64_t>(int64_t{static_cast<int32_t>(b)}) << 7) +
                        static_cast<int32_t>(a);
            return static_cast<uint32_t>(expected(x, static_cast<uint64_t>(y)) >> (32 * half));
          });
    }
  };
  wide(
      "add64", [](Builder&, Val x, Val y) { return x + y; }, [](uint64_t x, uint64_t y) { return x + y; });
  wide(
      "mul64", [](Builder&, Val x, Val y) { return x * y; }, [](uint64_t x, uint64_t y) { return x * y; });
  wide(
      "xor64", [](Builder& k, Val x, Val y) { return (x ^ y) | k.I64(int64_t{5} << 40); },
      [](uint64_t x, uint64_t y) { return (x ^ y) | (uint64_t{5} << 40); });
  wide(
      "mulhigh64", [](Builder& k, Val x, Val y) { return k.MulHighU(x, y); },
      [](uint64_t x, uint64_t y) {
        return static_cast<uint64_t>((static_cast<unsigned __int128>(x) * y) >> 64);
      });
  wide(
      "divu64", [](Builder&, Val x, Val) { return DivU(x, 1000); },
      [](uint64_t x, uint64_t) { return x / 1000; });
  wide(
      "shrs64", [](Builder&, Val, Val y) { return ShrS(y, 9); },
      [](uint64_t, uint64_t y) { return static_cast<uint64_t>(static_cast<int64_t>(y) >> 9); });
  wide(
      "minmax64",
      [](Builder& k, Val x, Val y) { return k.Binary(Op::kMaxU, k.Binary(Op::kMinS, x, y), k.I64(77)); },
      [](uint64_t x, uint64_t y) {
        auto least = std::min(static_cast<int64_t>(x), static_cast<int64_t>(y));
        return std::max<uint64_t>(static_cast<uint64_t>(least), 77);
      });
  wide(
      "select64", [](Builder&, Val x, Val y) { return Select(LtU(x, y), y, x); },
      [](uint64_t x, uint64_t y) { return std::max(x, y); });
}

TEST_P(BuilderTest, Halves) {
  Words halves, other;
  for (uint32_t h :
       {0x0000u, 0x3c00u, 0xbc00u, 0x7bffu, 0x0400u, 0x3555u, 0xc248u, 0x8000u, 0x7c00u, 0x2e66u}) {
    halves.push_back(h | 0x40000000u);
    other.push_back(0);
  }
  Map(
      "unpackhalf.low", halves, other,
      [](Builder& k, Val a, Val) { return k.AsI32(k.Extract(k.UnpackHalf(a), 0)); },
      [](uint32_t a, uint32_t) { return Bits(half_to_float(static_cast<uint16_t>(a))); });
  Map(
      "unpackhalf.high", halves, other,
      [](Builder& k, Val a, Val) { return k.AsI32(k.Extract(k.UnpackHalf(a), 1)); },
      [](uint32_t a, uint32_t) { return Bits(half_to_float(static_cast<uint16_t>(a >> 16))); });
  // Subnormal ones, too. math_test.cc has all of them.
  for (uint32_t h : {0x0001u, 0x8001u, 0x0200u, 0x03ffu, 0x83ffu}) {
    halves.push_back(h | 0xffff0000u);
    other.push_back(0);
  }
  Map(
      "halftof32", halves, other, [](Builder& k, Val a, Val) { return k.AsI32(k.HalfToF32(a)); },
      [](uint32_t a, uint32_t) { return Bits(half_to_float(static_cast<uint16_t>(a))); });
  Words low, high;
  for (float f : {0.f,      1.f,         -2.f,    65504.f,        65519.9f,       65520.f,
                  1e9f,     6.1035e-5f,  6e-5f,   5.96e-8f,       2.98e-8f,       3.0e-8f,
                  1e-10f,   0.33325195f, 0.3333f, 1.00048828125f, 1.00146484375f, -1.00048828125f,
                  INFINITY, -INFINITY}) {
    low.push_back(Bits(f));
    high.push_back(Bits(-f * 0.75f));
  }
  Map(
      "packhalf", low, high, [](Builder& k, Val a, Val b) { return k.PackHalf(k.AsF32(a), k.AsF32(b)); },
      [](uint32_t a, uint32_t b) {
        return float_to_half(Float(a)) | static_cast<uint32_t>(float_to_half(Float(b))) << 16;
      });
}

TEST_P(BuilderTest, DotOfBytes) {
  Map(
      "dot4", kA, kB, [](Builder& k, Val a, Val b) { return k.Dot4(a, b, k.I32(-1000)); },
      [](uint32_t a, uint32_t b) {
        int32_t sum = -1000;
        for (int i = 0; i < 4; ++i) sum += static_cast<int8_t>(a >> 8 * i) * static_cast<int8_t>(b >> 8 * i);
        return static_cast<uint32_t>(sum);
      });
}

TEST_P(BuilderTest, Vectors) {
  Case c;
  c.name = "vectors";
  c.threads = 4;
  c.buffers = {Words(16), Words(16), Words(64)};
  for (uint32_t i = 0; i < 16; ++i) {
    c.buffers[0][i] = Bits(static_cast<float>(i) + 0.5f);
    c.buffers[1][i] = 1000 * i;
  }
  c.emit = [](Builder& k) {
    Val t = k.Thread();
    Val f = k.Load(Type::kF32x4, k.Arg(0), t << 4), i = k.Load(Type::kI32x4, k.Arg(1), t << 4);
    Val f2 = k.Load(Type::kF32x2, k.Arg(0), t << 3), i2 = k.Load(Type::kI32x2, k.Arg(1), t << 3);
    Val out = t << 6;
    Val twos = k.Vector({k.F32(2), k.F32(2), k.F32(2), k.F32(2)});
    k.Store(k.Arg(2), out, k.Fma(f, twos, f) + twos);
    k.Store(k.Arg(2), out + 16, i * k.Vector({t, t + 1, t + 2, k.I32(3)}));
    k.Store(k.Arg(2), out + 32, k.Vector({k.Extract(f2, 1), k.Extract(f, 3)}));
    k.Store(k.Arg(2), out + 40, ShrU(k.Extract(i2, 0), 1));
    k.Store(k.Arg(2), out + 44, k.Extract(k.Select(Eq(t, 2), i2, i2 + i2), 1));
    k.Store(k.Arg(2), out + 48, i * i - i);
  };
  c.check = [&](const std::vector<Words>& b) {
    for (uint32_t t = 0; t < 4; ++t) {
      const uint32_t* out = &b[2][16 * t];
      for (uint32_t l = 0; l < 4; ++l) {
        float f = static_cast<float>(4 * t + l) + 0.5f;
        EXPECT_EQ(Float(out[l]), f * 3 + 2);
        EXPECT_EQ(out[4 + l], 1000 * (4 * t + l) * (l == 3 ? 3 : t + l));
        EXPECT_EQ(out[12 + l], 1000 * (4 * t + l) * (1000 * (4 * t + l) - 1));
      }
      EXPECT_EQ(Float(out[8]), static_cast<float>(2 * t + 1) + 0.5f);
      EXPECT_EQ(Float(out[9]), static_cast<float>(4 * t + 3) + 0.5f);
      EXPECT_EQ(out[10], 1000 * t);
      EXPECT_EQ(out[11], 1000 * (2 * t + 1) * (t == 2 ? 1 : 2));
    }
  };
  Run(c);

  c.name = "wide";
  c.buffers = {Words{5, 6, 7, 8}, Words(8)};
  c.threads = 2;
  c.emit = [](Builder& k) {
    k.Store(k.Arg(1), k.Thread() << 3,
            k.Load(Type::kI64, k.Arg(0), k.Thread() << 3) + k.I64(int64_t{1} << 33));
  };
  c.check = [](const std::vector<Words>& b) { EXPECT_EQ(b[1], (Words{5, 8, 7, 10, 0, 0, 0, 0})); };
  Run(c);
}

// That a silent validation layer means something: it speaks up when a grid is larger than the device allows.
TEST(VulkanHostTest, ReportsWhatTheValidationLayerFinds) {
  std::string why;
  VulkanHost* host = VulkanHost::Get(&why);
  if (!host) GTEST_SKIP() << why;
  if (!host->validated()) GTEST_SKIP() << "no validation layer on this machine";
  Launch launch;
  launch.name = "idle";
  launch.workgroup_size = 1;
  launch.emit = [](Builder&) {};
  Profile profile = Make("none", 0, false);
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  auto module = buildKernel(context, profile, launch, "main");
  ASSERT_TRUE(static_cast<bool>(module)) << llvm::toString(module.takeError());
  auto words = emitSpirv(**module, profile, launch);
  ASSERT_TRUE(static_cast<bool>(words)) << llvm::toString(words.takeError());
  std::vector<Words> none;
  const uint32_t good[3] = {1, 1, 1}, bad[3] = {1u << 16, 1, 1};
  EXPECT_EQ(host->Run(*words, "main", good, &none, {}), "");
  EXPECT_NE(host->Run(*words, "main", bad, &none, {}).find("groupCountX"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Profiles, BuilderTest,
                         testing::Values(Make("none", 0, false), Make("none-dot", 0, true),
                                         Make("sg8-dot", 8, true), Make("sg16-dot", 16, true),
                                         Make("sg32-dot", 32, true), Make("sg64-dot", 64, true)),
                         [](const auto& info) {
                           std::string name = info.param.name;
                           for (char& ch : name)
                             if (ch == '-') ch = '_';
                           return name;
                         });

}  // namespace
}  // namespace qcc::gpu::spirv_test
