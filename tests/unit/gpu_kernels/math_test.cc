// The functions and reductions that kernels are made of, on the interpreter.
#include "codegen/gpu/kernels/math.h"

#include <cmath>
#include <cstring>
#include <functional>

#include "codegen/gpu/kernels/reduce.h"
#include "tests/unit/gpu_kernels/gpu_fixture.h"

namespace qcc::gpu {
namespace {

// fn of each word of `in`; words are f32 or i32 as fn takes and gives them.
template <typename In, typename Out>
std::vector<Out> Map(const std::vector<In>& in, Type type, const std::function<Val(Val)>& fn) {
  static_assert(sizeof(In) == 4 && sizeof(Out) == 4);
  Sandbox box(FindProfile("none")->profile, 1);
  Launch launch;
  launch.name = "map";
  launch.emit = [&](Builder& b) {
    const Val at = b.BlockX() * 128 + b.Thread();
    b.If(LtS(at, b.Truncate(b.Arg(2))),
         [&] { b.Store(b.Arg(1), at << 2, fn(b.Load(type, b.Arg(0), at << 2))); });
  };
  launch.grid[0] = static_cast<uint32_t>((in.size() + 127) / 128);
  const Arg out = box.Arena(in.size() * 4);
  launch.args = {box.Arena(in), out, Number(in.size())};
  SetRows(box, 1);
  EXPECT_EQ(box.Run(std::vector<Launch>{launch}), "");
  return box.Read<Out>(out);
}

void ExpectRelative(const std::vector<float>& x, const std::function<Val(Val)>& fn,
                    const std::function<double(double)>& exact, double tolerance) {
  const std::vector<float> y = Map<float, float>(x, Type::kF32, fn);
  for (size_t i = 0; i < x.size(); ++i) {
    const double e = exact(x[i]);
    ASSERT_LE(std::fabs(y[i] - e), tolerance * std::fabs(e) + 1e-44)
        << "at " << x[i] << ": " << y[i] << ", exact " << e;
  }
}

std::vector<float> Range(double low, double high, int n) {
  std::vector<float> v;
  for (int i = 0; i <= n; ++i) v.push_back(static_cast<float>(low + (high - low) * i / n));
  return v;
}

TEST(GpuMathTest, Exponentials) {
  ExpectRelative(
      Range(-87, 88, 20000), Exp, [](double x) { return std::exp(x); }, 2e-7);
  const std::vector<float> ends = Map<float, float>({-87.5f, -1000.f, 100.f, 0.f}, Type::kF32, Exp);
  EXPECT_EQ(ends[0], 0.f);
  EXPECT_EQ(ends[1], 0.f);
  EXPECT_NEAR(ends[2] / std::exp(88.), 1, 2e-7);
  EXPECT_EQ(ends[3], 1.f);
  ExpectRelative(
      Range(-80, 80, 5000), Sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }, 3e-7);
  ExpectRelative(
      Range(-80, 80, 5000), Silu, [](double x) { return x / (1 + std::exp(-x)); }, 3e-7);
  ExpectRelative(
      Range(0, 1, 5000), Log1p, [](double x) { return std::log1p(x); }, 3e-7);
  ExpectRelative(
      Range(-86, 60, 20000), Softplus,
      [](double x) { return std::fmax(x, 0) + std::log1p(std::exp(-std::fabs(x))); }, 4e-7);
}

// Also on a device that takes the number of a number and a NaN for their minimum, as the interpreter does,
// and whatever NaN it makes.
TEST(GpuMathTest, FunctionsOfNoNumberAreNone) {
  const std::vector<int32_t> bits = {0x7fc00000, -0x400000, 0x7fffffff, 0x7f800001, -1};
  for (const auto& [name, fn] : std::vector<std::pair<const char*, std::function<Val(Val)>>>{
           {"exp", Exp}, {"sigmoid", Sigmoid}, {"silu", Silu}, {"softplus", Softplus}}) {
    const std::vector<float> y = Map<int32_t, float>(
        bits, Type::kI32, [&fn = fn](Val word) { return fn(word.builder()->AsF32(word)); });
    for (size_t i = 0; i < bits.size(); ++i) {
      EXPECT_TRUE(std::isnan(y[i])) << name << " of NaN " << std::hex << bits[i] << " is " << y[i];
    }
  }
}

TEST(GpuMathTest, RoundsToEven) {
  const std::vector<float> x = {0.5f,  1.5f,       2.5f,        -0.5f,      -1.5f,
                                -2.5f, 126.49999f, 1e6f + 0.5f, -4194303.f, 0.f};
  const std::vector<int32_t> i = Map<float, int32_t>(x, Type::kF32, RoundEvenToI32);
  for (size_t k = 0; k < x.size(); ++k) {
    EXPECT_EQ(i[k], static_cast<int32_t>(std::nearbyint(x[k]))) << x[k];
  }
}

TEST(GpuMathTest, CosSinOfTurns) {
  std::vector<int32_t> turns;
  for (uint32_t i = 0; i < 20000; ++i) turns.push_back(static_cast<int32_t>(i * 214753u));
  for (uint32_t q = 0; q < 8; ++q) {
    for (uint32_t d : {0u, 1u, ~0u}) turns.push_back(static_cast<int32_t>((q << 29) + d));
  }
  const auto c = Map<int32_t, float>(turns, Type::kI32, [](Val v) { return CosSinOfTurn(v).cos; });
  const auto s = Map<int32_t, float>(turns, Type::kI32, [](Val v) { return CosSinOfTurn(v).sin; });
  for (size_t i = 0; i < turns.size(); ++i) {
    const double angle = static_cast<uint32_t>(turns[i]) * (2 * M_PI / 4294967296.);
    ASSERT_NEAR(c[i], std::cos(angle), 1.5e-7) << turns[i];
    ASSERT_NEAR(s[i], std::sin(angle), 1.5e-7) << turns[i];
  }
}

TEST(GpuMathTest, SmallFloatsAreExact) {
  std::vector<int32_t> bits;
  for (int32_t i = 0; i < 65536; ++i) bits.push_back(i | (i % 7) << 16);  // high bits are not looked at
  const std::vector<float> half =
      Map<int32_t, float>(bits, Type::kI32, [](Val word) { return word.builder()->HalfToF32(word); });
  const std::vector<float> bf16 = Map<int32_t, float>(bits, Type::kI32, Bf16ToF32);
  for (size_t i = 0; i < bits.size(); ++i) {
    const float h = half_to_float(static_cast<uint16_t>(bits[i])),
                b = bf16_to_float(static_cast<uint16_t>(bits[i]));
    if (std::isnan(h)) {
      ASSERT_TRUE(std::isnan(half[i])) << i;
    } else {
      ASSERT_EQ(std::memcmp(&half[i], &h, 4), 0) << i;
    }
    ASSERT_EQ(std::memcmp(&bf16[i], &b, 4), 0) << i;
  }
  // Every half, and its neighbours and midpoints as f32.
  std::vector<float> x;
  for (uint32_t i = 0; i < 0x7c00; ++i) {
    const float low = half_to_float(static_cast<uint16_t>(i)),
                high = half_to_float(static_cast<uint16_t>(i + 1));
    const float middle = i + 1 == 0x7c00 ? 65520.f : low + (high - low) / 2;
    for (float v : {low, middle, std::nextafterf(middle, 0.f), std::nextafterf(middle, INFINITY)}) {
      x.push_back(v);
      x.push_back(-v);
    }
  }
  for (float v : {INFINITY, -INFINITY, NAN, 1e30f, 1e-30f}) x.push_back(v);
  const std::vector<int32_t> h = Map<float, int32_t>(x, Type::kF32, F32ToHalf);
  for (size_t i = 0; i < x.size(); ++i) {
    if (std::isnan(x[i])) {
      EXPECT_TRUE(std::isnan(half_to_float(static_cast<uint16_t>(h[i]))));
    } else {
      ASSERT_EQ(h[i], float_to_half(x[i])) << x[i];
    }
  }
}

TEST(GpuReduceTest, EveryThreadKnowsItsGroupsResult) {
  for (const Profile& profile : TestProfiles()) {
    for (int size : {64, 128}) {
      for (int width = 1; width <= size; width *= 2) {
        Random random(static_cast<uint64_t>(width));
        // Small integers: their sums are exact in any order.
        std::vector<float> x;
        for (int i = 0; i < 2 * size; ++i)
          x.push_back(static_cast<float>(static_cast<int>(random.Bits() % 2001) - 1000));
        Sandbox box(profile, 1);
        Launch launch;
        launch.name = "reduce";
        launch.workgroup_size = size;
        launch.emit = [&](Builder& b) {
          Reducer reducer(b, size, width, 2);
          const Val at = b.Thread() << 2;
          const std::vector<Val> v = {b.Load(Type::kF32, b.Arg(0), at),
                                      b.Load(Type::kF32, b.Arg(0), at + 4 * size)};
          // Twice, so that the second meets what the first left.
          const std::vector<Val> sum = reducer(Reduction::kSum, v), max = reducer(Reduction::kMax, v);
          for (int i = 0; i < 2; ++i) {
            b.Store(b.Arg(1), at + 4 * size * i, sum[i]);
            b.Store(b.Arg(1), at + 4 * size * (2 + i), max[i]);
          }
        };
        const Arg out = box.Arena(static_cast<uint64_t>(16 * size));
        launch.args = {box.Arena(x), out};
        SetRows(box, 1);
        ASSERT_EQ(box.Run(std::vector<Launch>{launch}), "") << profile.name << " " << size << " " << width;
        const std::vector<float> y = box.Read<float>(out);
        for (int i = 0; i < 2; ++i) {
          for (int t = 0; t < size; ++t) {
            float sum = 0, max = -INFINITY;
            for (int j = t / width * width; j < t / width * width + width; ++j) {
              sum += x[static_cast<size_t>(i * size + j)];
              max = std::fmax(max, x[static_cast<size_t>(i * size + j)]);
            }
            ASSERT_EQ(y[static_cast<size_t>(i * size + t)], sum)
                << profile.name << " width " << width << " thread " << t;
            ASSERT_EQ(y[static_cast<size_t>((2 + i) * size + t)], max) << profile.name << " width " << width;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace qcc::gpu
