// PagedWrites: every byte once and in order, and no write that ends within a large page but the last before
// Flush.
#include "compiler/artifact/paged_writes.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "runtime/base/memory.h"

namespace qcc::compiler {
namespace {

using qrt::kLargePage;

class PagedWritesTest : public testing::Test {
 protected:
  absl::Status Write(uint64_t offset, std::span<const uint8_t> bytes) {
    if (!fails_.ok()) return fails_;
    EXPECT_EQ(offset, begin_ + file_.size()) << "a gap, or bytes written twice";
    file_.insert(file_.end(), bytes.begin(), bytes.end());
    ends_.push_back(begin_ + file_.size());
    return absl::OkStatus();
  }

  uint64_t begin_ = 0;
  absl::Status fails_;
  std::vector<uint8_t> file_;
  std::vector<uint64_t> ends_;
};

TEST_F(PagedWritesTest, WritesEndWithPages) {
  std::mt19937_64 random(1);
  for (const uint64_t begin : {uint64_t{0}, uint64_t{4096}, kLargePage - 1, 3 * kLargePage + 64}) {
    begin_ = begin;
    file_.clear();
    ends_.clear();
    const auto write = [this](uint64_t at, std::span<const uint8_t> bytes) { return Write(at, bytes); };
    PagedWrites writes(begin, write);
    std::vector<uint8_t> all;
    for (const uint64_t size : {uint64_t{1}, uint64_t{0}, kLargePage, 3 * kLargePage + 5, uint64_t{70000},
                                kLargePage - 1, uint64_t{12}, 2 * kLargePage, random() % kLargePage}) {
      std::vector<uint8_t> piece(size);
      for (uint8_t& byte : piece) byte = static_cast<uint8_t>(random());
      ASSERT_TRUE(writes.Append(piece).ok());
      all.insert(all.end(), piece.begin(), piece.end());
    }
    for (const uint64_t end : ends_)
      EXPECT_EQ(end % kLargePage, 0u) << "from " << begin << ": ends at " << end;
    EXPECT_EQ((begin + all.size()) / kLargePage, (begin + file_.size()) / kLargePage)
        << "from " << begin << ": a whole page waits";
    ASSERT_TRUE(writes.Flush().ok());
    ASSERT_TRUE(writes.Flush().ok());
    EXPECT_TRUE(file_ == all) << "from " << begin << ": other bytes than were given";
  }
}

TEST_F(PagedWritesTest, ErrorsComeBack) {
  const auto write = [this](uint64_t at, std::span<const uint8_t> bytes) { return Write(at, bytes); };
  fails_ = absl::UnavailableError("full");
  PagedWrites whole(0, write);
  EXPECT_EQ(whole.Append(std::vector<uint8_t>(kLargePage)), fails_);
  PagedWrites joined(0, write);
  EXPECT_TRUE(joined.Append(std::vector<uint8_t>(1)).ok());
  EXPECT_EQ(joined.Append(std::vector<uint8_t>(kLargePage)), fails_);
  PagedWrites last(0, write);
  EXPECT_TRUE(last.Append(std::vector<uint8_t>(1)).ok());
  EXPECT_EQ(last.Flush(), fails_);
}

}  // namespace
}  // namespace qcc::compiler
