// The fuzzer's entry under a fixed sequence of mutations of the seed corpus, so that every ordinary test run
// exercises it.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "tests/fuzz/gguf_entry.h"

namespace qcc::fuzz {
namespace {

using Input = std::vector<uint8_t>;

std::vector<Input> Seeds() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(QCC_SOURCE_DIR "/tests/fuzz/corpus/gguf")) {
    paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<Input> seeds;
  for (const auto& path : paths) {
    std::ifstream in(path, std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return seeds;
}

class Mutator {
 public:
  explicit Mutator(uint32_t seed) : random_(seed) {}

  size_t Below(size_t n) { return n == 0 ? 0 : random_() % n; }

  void Mutate(Input* input, const std::vector<Input>& seeds) {
    static constexpr uint64_t kInteresting[] = {0,
                                                1,
                                                2,
                                                3,
                                                7,
                                                8,
                                                9,
                                                12,
                                                13,
                                                31,
                                                32,
                                                63,
                                                64,
                                                255,
                                                256,
                                                65535,
                                                65536,
                                                0x7fffffff,
                                                0x80000000,
                                                0xffffffff,
                                                1u << 30,
                                                (1u << 30) + 1,
                                                uint64_t{1} << 32,
                                                uint64_t{1} << 60,
                                                uint64_t{1} << 62,
                                                uint64_t{1} << 63,
                                                ~uint64_t{0},
                                                ~uint64_t{0} - 31,
                                                ~uint64_t{0} / 24};
    if (input->empty()) {
      *input = seeds[Below(seeds.size())];
      return;
    }
    switch (Below(6)) {
      case 0:
        (*input)[Below(input->size())] ^= static_cast<uint8_t>(1u << Below(8));
        break;
      case 1: {  // a number of 1, 4 or 8 bytes
        size_t width = Below(3) == 0 ? 1 : Below(2) == 0 ? 4 : 8;
        size_t at = Below(input->size());
        uint64_t value = kInteresting[Below(std::size(kInteresting))];
        for (size_t i = 0; i < width && at + i < input->size(); ++i)
          (*input)[at + i] = static_cast<uint8_t>(value >> (8 * i));
        break;
      }
      case 2:
        input->resize(Below(input->size()));
        break;
      case 3: {  // insert
        Input piece(1 + Below(16), static_cast<uint8_t>(random_()));
        input->insert(input->begin() + static_cast<std::ptrdiff_t>(Below(input->size())), piece.begin(),
                      piece.end());
        break;
      }
      case 4: {  // erase
        size_t at = Below(input->size());
        size_t n = std::min(input->size() - at, 1 + Below(16));
        input->erase(input->begin() + static_cast<std::ptrdiff_t>(at),
                     input->begin() + static_cast<std::ptrdiff_t>(at + n));
        break;
      }
      default: {  // head of one, tail of another
        const Input& other = seeds[Below(seeds.size())];
        input->resize(Below(input->size()));
        size_t from = Below(other.size());
        input->insert(input->end(), other.begin() + static_cast<std::ptrdiff_t>(from), other.end());
        break;
      }
    }
  }

 private:
  std::mt19937 random_;
};

TEST(GgufMutation, SeedsDoWhatTheirNamesSay) {
  std::vector<Input> seeds = Seeds();
  ASSERT_GE(seeds.size(), 7u) << "the seed corpus is missing";
  size_t accepted = 0;
  for (const Input& seed : seeds) accepted += FuzzGguf(seed).accepted;
  EXPECT_EQ(accepted, seeds.size() - 1) << "all seeds but bad_type.gguf are valid files";
}

TEST(GgufMutation, EveryMutantIsReadOrRefusedWithACode) {
  std::vector<Input> seeds = Seeds();
  ASSERT_FALSE(seeds.empty());
  size_t accepted = 0, refused = 0;
  for (uint32_t round = 0; round < 20000; ++round) {
    Mutator mutator(round);
    Input input = seeds[mutator.Below(seeds.size())];
    for (size_t n = 1 + mutator.Below(4); n > 0; --n) mutator.Mutate(&input, seeds);
    GgufResult result = FuzzGguf(input);
    result.accepted ? ++accepted : ++refused;
    ASSERT_TRUE(result.accepted || result.error_has_code) << "round " << round << ": an error without a code";
  }
  // Mutants of both kinds, or the loop no longer tests what it should.
  EXPECT_GT(accepted, 500u);
  EXPECT_GT(refused, 5000u);
}

}  // namespace
}  // namespace qcc::fuzz
