#include "frontends/gguf/checked.h"

#include <gtest/gtest.h>

namespace qcc::gguf {
namespace {

constexpr uint64_t kMax = ~uint64_t{0};

TEST(Checked, OverflowIsInvalidAndStaysSo) {
  EXPECT_EQ((Checked(2) + 3).value(), 5u);
  EXPECT_EQ((Checked(2) * 3).value(), 6u);
  EXPECT_TRUE((Checked(kMax) + 0).valid());
  EXPECT_FALSE((Checked(kMax) + 1).valid());
  EXPECT_FALSE((Checked(uint64_t{1} << 32) * (uint64_t{1} << 32)).valid());
  EXPECT_FALSE((Checked::Invalid() * 0).valid()) << "an overflow must not be multiplied away";
  EXPECT_FALSE((Checked(1) + Checked::Invalid()).valid());
}

TEST(Checked, FitsOnlyIfValid) {
  EXPECT_TRUE(Checked(5).Fits(5));
  EXPECT_FALSE(Checked(6).Fits(5));
  EXPECT_FALSE(Checked::Invalid().Fits(kMax));
  EXPECT_EQ(Checked::Invalid().value(), 0u);
}

TEST(Checked, AlignUp) {
  EXPECT_EQ(Checked(0).AlignUp(32).value(), 0u);
  EXPECT_EQ(Checked(1).AlignUp(32).value(), 32u);
  EXPECT_EQ(Checked(32).AlignUp(32).value(), 32u);
  EXPECT_EQ(Checked(kMax - 31).AlignUp(32).value(), kMax - 31);
  EXPECT_FALSE(Checked(kMax - 30).AlignUp(32).valid());
  EXPECT_FALSE(Checked::Invalid().AlignUp(8).valid());
}

}  // namespace
}  // namespace qcc::gguf
