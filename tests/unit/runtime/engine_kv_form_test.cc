// KV that lies in rows of integers on one device and as f16 on another: the rows, and sessions that move.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "runtime/abi/integer_row.h"
#include "runtime/engine/kv_form.h"
#include "tests/unit/runtime/engine_toy.h"

namespace {

using qrt::IntegerRow;
using toy::Append;
using toy::Tokens;
using toy::Toy;
using toy::ToySession;

// A f16 by its definition.
double OfHalf(uint16_t half) {
  const int exponent = half >> 10 & 31, mantissa = half & 1023;
  const double size = exponent == 31  ? mantissa != 0 ? std::nan("") : std::numeric_limits<double>::infinity()
                       : exponent == 0 ? std::ldexp(mantissa, -24)
                                      : std::ldexp(1024 + mantissa, exponent - 25);
  return (half >> 15) != 0 ? -size : size;
}

// A row of integers by the definition of runtime/abi/integer_row.h.
std::vector<double> OfIntegers(const std::vector<uint16_t>& row) {
  int e = 0;
  for (int b = 0; b < 8; ++b) e |= (row[b] & 1) << b;
  std::vector<double> values;
  for (const uint16_t element : row) {
    values.push_back(e == 255 ? std::nan("")
                     : e == 0 ? 0.
                              : std::ldexp(static_cast<int16_t>(element), e - 127));
  }
  return values;
}

// Halves up to 2^`top`, all bits of them at random.
std::vector<uint16_t> RandomHalves(size_t n, int top, uint64_t seed) {
  std::vector<uint16_t> row;
  for (size_t i = 0; i < n; ++i) {
    const uint64_t bits = toy::Mix(seed, i);
    const auto exponent = static_cast<uint16_t>(bits % (static_cast<uint64_t>(top) + 15));
    row.push_back(static_cast<uint16_t>((bits >> 16 & 0x83ff) | exponent << 10));
  }
  return row;
}

TEST(KvForm, HalvesBecomeTheNearestIntegers) {
  for (const int bits : {11, 12, 13, 14}) {
    for (const int top : {-14, -5, 0, 3, 15}) {
      SCOPED_TRACE(std::to_string(bits) + " bits, up to 2^" + std::to_string(top));
      const std::vector<uint16_t> halves =
          RandomHalves(40, top, static_cast<uint64_t>(100 * bits + top + 50));
      std::vector<uint16_t> row = halves;
      qrt::IntegersFromHalves(row, row.size(), bits);
      double largest = 0;
      for (const uint16_t half : halves) largest = std::max(largest, std::abs(OfHalf(half)));
      const double unit = std::ldexp(1, std::ilogb(largest) + 1 - bits);
      const std::vector<double> values = OfIntegers(row);
      for (size_t i = 0; i < row.size(); ++i) {
        const double most = std::ldexp(1, bits) - (i < 8 ? 2 : 1);
        const double want = std::clamp(OfHalf(halves[i]) / unit, -most, most);
        EXPECT_NEAR(values[i] / unit, want, i < 8 ? 1 : .5) << "value " << i;
        EXPECT_LT(std::abs(values[i] / unit), std::ldexp(1, bits)) << "value " << i;
      }
    }
  }
}

// Of what integers make of f16, f16 is exact where it has the bits: back and forth once more is nothing.
TEST(KvForm, IntegersBecomeTheNearestHalves) {
  std::vector<uint16_t> row = RandomHalves(3 * 64, 2, 7);
  qrt::IntegersFromHalves(row, 64, 13);
  std::vector<double> values;
  for (size_t r = 0; r < 3; ++r) {
    for (const double value : OfIntegers({row.begin() + 64 * r, row.begin() + 64 * (r + 1)}))
      values.push_back(value);
  }
  qrt::HalvesFromIntegers(row, 64);
  for (size_t i = 0; i < row.size(); ++i) {
    const double half = OfHalf(row[i]);
    // 11 bits, or steps of 2^-24.
    EXPECT_NEAR(half, values[i], std::max(std::ldexp(std::abs(values[i]), -11), std::ldexp(1, -25)))
        << "value " << i;
    for (const int step : {-1, 1}) {
      const double other = OfHalf(static_cast<uint16_t>(row[i] + step));
      if (std::isfinite(other) && (other < 0) == (half < 0)) {
        EXPECT_LE(std::abs(half - values[i]), std::abs(other - values[i])) << "value " << i;
      }
    }
  }
}

TEST(KvForm, NothingAndNoNumberStay) {
  std::vector<uint16_t> row(4 * 16, 0);
  row[16 + 9] = 0x7c00;
  row[32 + 2] = 0x7e01;
  row[48 + 3] = 0x8001;
  qrt::IntegersFromHalves(row, 16, 13);
  EXPECT_EQ(std::vector<uint16_t>(row.begin(), row.begin() + 16), std::vector<uint16_t>(16, 0));
  qrt::HalvesFromIntegers(row, 16);
  for (size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(row[i], 0) << i;
    EXPECT_TRUE(std::isnan(OfHalf(row[16 + i])) && std::isnan(OfHalf(row[32 + i]))) << i;
    EXPECT_EQ(OfHalf(row[48 + i]), i == 3 ? std::ldexp(-1, -24) : 0) << i;
  }
  // More than f16 has: 8 * 2^(200 - 127).
  std::vector<uint16_t> large(16, 8);
  for (int b = 0; b < 8; ++b) large[b] |= 200 >> b & 1;
  qrt::HalvesFromIntegers(large, 16);
  EXPECT_EQ(large, std::vector<uint16_t>(16, 0x7c00));
}

constexpr size_t kRowValues = 8;
static_assert(kRowValues >= IntegerRow::kUnitBits && 2 * kRowValues == 2 * toy::kKvRow);

// An engine on a device with integers or with f16, of a model whose first plane may lie in either form.
struct OneForm {
  explicit OneForm(bool integers, bool two_forms = true) {
    qrt::ModelPlan plan = toy::Plan(toy::Ladder());
    // Twice as long as the toy's, which leaves room behind it.
    plan.kv_planes[0].row_bytes = 2 * kRowValues;
    if (two_forms) plan.kv_planes[0].integer_bits = 13;
    auto device = std::make_unique<toy::Device>(toy::Ladder(), qrt::ThreadPool::Create(1, 1));
    device->integers = integers;
    toy.device = device.get();
    EXPECT_TRUE(qrt::Engine::Create(plan, std::move(device), nullptr, &toy.engine).ok());
  }
  Toy toy;
};

std::vector<uint8_t> Saved(const qrt::Session& session) {
  std::vector<uint8_t> bytes(session.SaveSize());
  EXPECT_TRUE(session.Save(bytes.data()).ok());
  return bytes;
}

// The first plane of a snapshot, or the second: KV lies at its end, plane by plane.
std::vector<uint16_t> PlaneOf(const std::vector<uint8_t>& snapshot, size_t plane, size_t tokens) {
  std::vector<uint16_t> rows(tokens * (plane == 0 ? kRowValues : toy::kKvRow / 2));
  const uint8_t* end = snapshot.data() + snapshot.size() - (plane == 0 ? tokens * toy::kKvRow : 0);
  std::memcpy(rows.data(), end - rows.size() * 2, rows.size() * 2);
  return rows;
}

TEST(EngineSnapshot, BetweenFormsOfKvValuesAreRoundedOnce) {
  // More than goes through at a time.
  constexpr size_t kTokens = 20000;
  OneForm halves(false), integers(true);
  ToySession a(halves.toy, kTokens), b(integers.toy, kTokens), c(integers.toy, kTokens),
      d(halves.toy, kTokens);
  const std::vector<uint8_t> nothing = Saved(b.session);
  EXPECT_TRUE(a.session.Restore(nothing.data(), nothing.size()).ok()) << "an empty sequence has no rows";
  ASSERT_TRUE(Append(a.session, Tokens(kTokens)).ok());
  const std::vector<uint8_t> first = Saved(a.session);
  qrt::Status status = b.session.Restore(first.data(), first.size());
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(b.session.position(), kTokens);
  const std::vector<uint8_t> second = Saved(b.session);
  std::vector<uint16_t> want = PlaneOf(first, 0, kTokens);
  qrt::IntegersFromHalves(want, kRowValues, 13);
  EXPECT_EQ(PlaneOf(second, 0, kTokens), want);
  EXPECT_EQ(PlaneOf(second, 1, kTokens), PlaneOf(first, 1, kTokens)) << "a plane of one form";
  // On devices of one form nothing changes.
  ASSERT_TRUE(c.session.Restore(second.data(), second.size()).ok());
  EXPECT_EQ(Saved(c.session), second);
  ASSERT_TRUE(d.session.Restore(second.data(), second.size()).ok());
  qrt::HalvesFromIntegers(want, kRowValues);
  EXPECT_EQ(PlaneOf(Saved(d.session), 0, kTokens), want);
}

TEST(EngineSnapshot, WithoutTwoFormsDevicesAreAlike) {
  OneForm halves(false, false), integers(true, false);
  ToySession a(halves.toy, 64), b(integers.toy, 64);
  ASSERT_TRUE(Append(a.session, Tokens(40)).ok());
  const std::vector<uint8_t> bytes = Saved(a.session);
  ASSERT_TRUE(b.session.Restore(bytes.data(), bytes.size()).ok());
  EXPECT_EQ(Saved(b.session), bytes);
}

TEST(EngineSnapshot, ADeviceThatFailsWhileTheFormChangesLeavesADamagedSession) {
  OneForm halves(false), integers(true);
  ToySession a(halves.toy, 64), b(integers.toy, 64);
  ASSERT_TRUE(Append(a.session, Tokens(40)).ok());
  const std::vector<uint8_t> bytes = Saved(a.session);
  integers.toy.device->fail_after = 0;
  EXPECT_FALSE(b.session.Restore(bytes.data(), bytes.size()).ok());
  integers.toy.device->fail_after = -1;
  EXPECT_EQ(Append(b.session, {1}).number(), 5322u);
  ASSERT_TRUE(b.session.Reset().ok());
  EXPECT_TRUE(b.session.Restore(bytes.data(), bytes.size()).ok());
}

}  // namespace
