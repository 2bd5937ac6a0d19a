// The interpreter itself: what it computes.
#include "tests/device/interpreter.h"

#include <functional>
#include <numeric>

#include "tests/unit/gpu_kernels/interpreter_fixture.h"

namespace qcc::gpu {
namespace {

TEST_F(InterpreterTest, LoopsGoRoundPerThread) {
  Sandbox box(Plain(), 1);
  Arg out = box.Arena(32 * 4);
  auto emit = [](Builder& b) {
    Val t = b.Thread();
    // sum of the numbers below t, of the even ones doubled
    Val sum = b.For(b.I32(0), t, b.I32(1), {b.I32(0)}, [&](Val i, const std::vector<Val>& c) {
      Val odd = Eq(i & 1, 1);
      Val add = b.IfElse(
          odd, [&] { return std::vector<Val>{i}; }, [&] { return std::vector<Val>{i * 2}; })[0];
      return std::vector<Val>{c[0] + add};
    })[0];
    b.If(LtS(t, b.I32(30)), [&] { b.Store(b.Arg(0), t * 4, sum); });
  };
  ASSERT_EQ(Run(box, out, emit), "");
  std::vector<int32_t> got = box.Read<int32_t>(out);
  for (int t = 0; t < 30; ++t) {
    int want = 0;
    for (int i = 0; i < t; ++i) {
      want += i % 2 ? i : 2 * i;
    }
    EXPECT_EQ(got[t], want) << t;
  }
  EXPECT_EQ(got[30], -1);  // as it was
  EXPECT_EQ(got[31], -1);
}

TEST_F(InterpreterTest, CarriedValuesMayChangePlaces) {
  Sandbox box(Plain(), 1);
  Arg out = box.Arena(8);
  auto emit = [](Builder& b) {
    auto r = b.For(b.I32(0), b.I32(3), b.I32(1), {b.I32(1), b.I32(2)}, [&](Val, const std::vector<Val>& c) {
      return std::vector<Val>{c[1], c[0]};
    });
    b.If(Eq(b.Thread(), 0), [&] { b.Store(b.Arg(0), b.I32(0), b.Vector(r)); });
  };
  ASSERT_EQ(Run(box, out, emit), "");
  EXPECT_EQ(box.Read<int32_t>(out), (std::vector<int32_t>{2, 1}));
}

TEST_F(InterpreterTest, WorkgroupsMeetInWorkgroupMemory) {
  Sandbox box(Plain(), 1);
  Arg out = box.Arena(2 * 32 * 4);
  auto emit = [](Builder& b) {
    Shared s = b.AllocShared(Type::kF32, 32);
    Val t = b.Thread();
    b.StoreShared(s, t, b.ToF32(t));
    b.Barrier();
    Val other = b.LoadShared(s, b.I32(31) - t);
    b.Store(b.Arg(0), (b.BlockX() * 32 + t) * 4, other);
  };
  ASSERT_EQ(Run(box, out, emit, 32, 2), "");
  std::vector<float> got = box.Read<float>(out);
  for (int i = 0; i < 64; ++i) {
    EXPECT_EQ(got[i], static_cast<float>(31 - i % 32));
  }
}

TEST_F(InterpreterTest, FloatsRoundOnce) {
  Sandbox box(Plain(), 1);
  float a = 1.0f + 0x1p-12f, c = -1.0f;
  Arg out = box.Arena(std::vector<float>{a, c, 0, 0});
  auto emit = [](Builder& b) {
    b.If(Eq(b.Thread(), 0), [&] {
      Val x = b.Load(Type::kF32, b.Arg(0), b.I32(0)), y = b.Load(Type::kF32, b.Arg(0), b.I32(4));
      b.Store(b.Arg(0), b.I32(8), b.Vector({x * x + y, Fma(x, x, y)}));
    });
  };
  ASSERT_EQ(Run(box, out, emit), "");
  EXPECT_EQ(box.Read<float>(out)[2], 0x1p-11f);
  EXPECT_EQ(box.Read<float>(out)[3], 0x1p-11f + 0x1p-24f);
}

TEST_F(InterpreterTest, ShufflesStayInTheirSubgroup) {
  Sandbox box(Plain(8), 1);
  Arg out = box.Arena(32 * 4);
  auto emit = [](Builder& b) {
    Val sum = b.Thread();
    for (int mask : {1, 2, 4}) {
      sum = sum + b.ShuffleXor(sum, mask);
    }
    b.Store(b.Arg(0), b.Thread() * 4, sum);
  };
  ASSERT_EQ(Run(box, out, emit), "");
  std::vector<int32_t> got = box.Read<int32_t>(out);
  for (int t = 0; t < 32; ++t) {
    EXPECT_EQ(got[t], 28 + 64 * (t / 8));
  }
}

TEST_F(InterpreterTest, MmaMultipliesMatrices) {
  int8_t a[16][32], m[32][8];
  for (int i = 0; i < 512; ++i) {
    a[i / 32][i % 32] = static_cast<int8_t>(i * 37 % 255 - 127);
  }
  for (int i = 0; i < 256; ++i) {
    m[i / 8][i % 8] = static_cast<int8_t>(i * 91 % 251 - 125);
  }
  std::vector<int8_t> fragments;  // of A, then B, as words [word][lane]
  for (int w = 0; w < 4; ++w) {
    for (int lane = 0; lane < 32; ++lane) {
      for (int i = 0; i < 4; ++i) {
        fragments.push_back(a[lane / 4 + (w % 2) * 8][lane % 4 * 4 + i + (w / 2) * 16]);
      }
    }
  }
  for (int w = 0; w < 2; ++w) {
    for (int lane = 0; lane < 32; ++lane) {
      for (int i = 0; i < 4; ++i) {
        fragments.push_back(m[lane % 4 * 4 + i + w * 16][lane / 4]);
      }
    }
  }
  fragments.resize(fragments.size() + 512);
  Sandbox box(Plain(32), 1);
  Arg out = box.Arena(fragments);
  auto emit = [](Builder& b) {
    auto word = [&](int w) { return b.Load(Type::kI32, b.Arg(0), (b.Thread() + b.I32(32 * w)) * 4); };
    Val five = b.I32(5);
    auto d = b.MmaS8({word(0), word(1), word(2), word(3)}, {word(4), word(5)}, {five, five, five, five});
    for (int w = 0; w < 4; ++w) {
      b.Store(b.Arg(0), (b.Thread() + b.I32(32 * (6 + w))) * 4, d[w]);
    }
  };
  ASSERT_EQ(Run(box, out, emit), "");
  std::vector<int32_t> got = box.Read<int32_t>(out);
  for (int row = 0; row < 16; ++row) {
    for (int column = 0; column < 8; ++column) {
      int want = 5;
      for (int k = 0; k < 32; ++k) {
        want += a[row][k] * m[k][column];
      }
      int lane = row % 8 * 4 + column / 2, w = column % 2 + row / 8 * 2;
      EXPECT_EQ(got[32 * (6 + w) + lane], want) << row << "," << column;
    }
  }
}

Profile WithMatrices() {
  Profile p = Plain(8);
  p.matrix = {MatrixUnits::Kind::kCooperative, 8, 8, 8};
  return p;
}

TEST_F(InterpreterTest, TilesOfDotProducts) {
  // a: 16 rows, b: 8 rows of 8 columns with two words between them.
  constexpr int kStride = 4;
  const auto byte = [](int i) { return static_cast<int8_t>(i * 37 % 255 - 127); };
  std::vector<int8_t> bytes;
  for (int i = 0; i < 24 * 4 * kStride; ++i) bytes.push_back(byte(i));
  bytes.resize(bytes.size() + 4 * 128);
  Sandbox box(WithMatrices(), 1);
  const Arg out = box.Arena(bytes);
  const auto emit = [](Builder& b) {
    const Shared rows = b.AllocShared(Type::kI32, 24 * kStride), sums = b.AllocShared(Type::kI32, 128);
    b.For(b.Thread(), b.I32(24 * kStride), b.I32(8),
          [&](Val i) { b.StoreShared(rows, i, b.Load(Type::kI32, b.Arg(0), i * 4)); });
    b.Barrier();
    b.DotTile({rows, b.I32(0), kStride}, 16, {rows, b.I32(16 * kStride), kStride}, 8, 8,
              {sums, b.I32(0), 16});
    b.Barrier();
    b.For(b.Thread(), b.I32(128), b.I32(8),
          [&](Val i) { b.Store(b.Arg(0), (i + 24 * kStride) * 4, b.LoadShared(sums, i)); });
  };
  Launch launch;
  launch.name = "dots";
  launch.emit = emit;
  launch.workgroup_size = 8;
  launch.args = {out};
  ASSERT_EQ(box.Run(std::vector<Launch>{launch}), "");
  const std::vector<int32_t> got = box.Read<int32_t>(out);
  for (int j = 0; j < 8; ++j) {
    for (int i = 0; i < 16; ++i) {
      int want = 0;
      for (int c = 0; c < 8; ++c) want += byte(i * 4 * kStride + c) * byte((16 + j) * 4 * kStride + c);
      EXPECT_EQ(got[24 * kStride + j * 16 + i], want) << i << "," << j;
    }
  }
}

TEST_F(InterpreterTest, TilesOfDotProductsNeedBarriersAndWholeSubgroups) {
  const auto error = [&](const Profile& profile, std::function<void(Builder&, Shared, Shared)> body) {
    Sandbox box(profile, 1);
    Launch launch;
    launch.name = "dots";
    launch.workgroup_size = 16;
    launch.emit = [&](Builder& b) {
      const Shared rows = b.AllocShared(Type::kI32, 32), sums = b.AllocShared(Type::kI32, 128);
      body(b, rows, sums);
    };
    return box.Run(std::vector<Launch>{launch});
  };
  const auto fill = [](Builder& b, Shared rows) {
    for (int i = 0; i < 2; ++i) b.StoreShared(rows, b.Thread() + 16 * i, b.Thread());
  };
  const auto dot = [](Builder& b, Shared rows, Shared sums, Val at) {
    b.DotTile({rows, b.I32(0), 2}, 8, {rows, b.I32(16), 2}, 8, 8, {sums, at, 8});
  };
  const Profile profile = WithMatrices();
  const auto subgroup = [](Builder& b) { return ShrU(b.Thread(), 3); };
  EXPECT_EQ(error(profile,
                  [&](Builder& b, Shared rows, Shared sums) {
                    fill(b, rows);
                    b.Barrier();
                    dot(b, rows, sums, subgroup(b) * 64);
                  }),
            "");
  const auto has = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  has(error(profile, [&](Builder& b, Shared rows, Shared sums) { dot(b, rows, sums, subgroup(b) * 64); }),
      "nothing is stored there");
  has(error(profile,
            [&](Builder& b, Shared rows, Shared sums) {
              fill(b, rows);
              dot(b, rows, sums, subgroup(b) * 64);
            }),
      "races with another thread");
  has(error(profile,
            [&](Builder& b, Shared rows, Shared sums) {
              fill(b, rows);
              b.Barrier();
              dot(b, rows, sums, subgroup(b) * 64);
              b.LoadShared(sums, b.Thread());
            }),
      "races with another thread");
  has(error(profile,
            [&](Builder& b, Shared rows, Shared sums) {
              fill(b, rows);
              b.Barrier();
              dot(b, rows, sums, subgroup(b) * 68);
            }),
      "which has 128 words");
  has(error(profile,
            [&](Builder& b, Shared rows, Shared sums) {
              fill(b, rows);
              b.Barrier();
              dot(b, rows, sums, subgroup(b) * 62);
            }),
      "rows of a matrix at 62, 8 apart: no multiples of 4");
  has(error(profile,
            [&](Builder& b, Shared rows, Shared sums) {
              fill(b, rows);
              b.Barrier();
              b.DotTile({rows, b.I32(0), 3}, 8, {rows, b.I32(8), 2}, 8, 8, {sums, b.I32(0), 8});
            }),
      "rows of a matrix at 0, 3 apart: no multiples of 2");
  has(error(profile,
            [&](Builder& b, Shared rows, Shared sums) {
              fill(b, rows);
              b.Barrier();
              b.If(LtS(b.Thread(), b.I32(4)), [&] { dot(b, rows, sums, b.I32(0)); });
            }),
      "with 4 idle threads");
  has(error(profile,
            [&](Builder& b, Shared rows, Shared sums) {
              fill(b, rows);
              b.Barrier();
              dot(b, rows, sums, b.Thread());
            }),
      "at different places");
  has(error(Plain(8), [&](Builder& b, Shared rows, Shared sums) { dot(b, rows, sums, b.I32(0)); }),
      "matrices of 8 and 8 rows of 8 columns in profile");
}

TEST_F(InterpreterTest, IntegersWrapAndBytesAreSigned) {
  Sandbox box(Plain(), 1);
  Arg out = box.Arena(6 * 4);
  auto emit = [](Builder& b) {
    b.If(Eq(b.Thread(), 0), [&] {
      Val big = b.I32(INT32_MAX);
      Val wide = b.ExtendS(b.I32(-2)) * b.I64(3);
      b.Store(b.Arg(0), b.I32(0), b.Vector({big + 1, ShrS(b.I32(-8), 1)}));
      b.Store(b.Arg(0), b.I32(8),
              b.Vector({b.Dot4(b.I32(0x7f80ff01), b.I32(0x02017f03), b.I32(1)), b.Truncate(wide)}));
      b.Store(b.Arg(0), b.I32(16),
              b.Vector({b.MulHighU(b.I32(-1), b.I32(-1)), b.Truncate(b.MulHighU(b.I64(-1), b.I64(3)))}));
    });
  };
  ASSERT_EQ(Run(box, out, emit), "");
  // 1 * 3 + -1 * 127 + -128 * 1 + 127 * 2 + 1 = 3
  EXPECT_EQ(box.Read<int32_t>(out), (std::vector<int32_t>{INT32_MIN, -4, 3, -6, -2, 2}));
}

TEST_F(InterpreterTest, ReadsTheStepBlock) {
  Sandbox box(Plain(), 4);
  auto* state = box.Outside<float>(4);
  box.step.sequences = {{.past = 7, .rows = 1}, {.past = 9, .rows = 2, .state = state}};
  box.step.tokens = {1, 2, 3};
  Arg out = box.Arena(2 * 4);
  Launch launch;
  launch.name = "test";
  launch.args = {out, {Space::kStep, 0, qrt_gpu_step_bytes(4)}};
  launch.workgroup_size = 1;
  launch.emit = [](Builder& b) {
    Val row = b.I32(static_cast<int>(qrt_gpu_entries_end(2)));
    Val token = b.Load(Type::kI32, b.Arg(1), row), position = b.Load(Type::kI32, b.Arg(1), row + 8);
    b.Store(b.Arg(0), b.I32(0), b.Vector({token, position}));
    Val seq = b.I32(static_cast<int>(qrt_gpu_entries_end(1) + offsetof(qrt_gpu_entry, seq)));
    b.Store(b.Load(Type::kI64, b.Arg(1), seq), b.I32(4), b.F32(2.5f));
  };
  ASSERT_EQ(box.Run({launch}), "");
  EXPECT_EQ(box.Read<int32_t>(out), (std::vector<int32_t>{3, 10}));
  EXPECT_EQ(state[1], 2.5f);
}

}  // namespace
}  // namespace qcc::gpu
