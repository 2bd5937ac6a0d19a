// Any damage is refused with a reason, and never crashes the reader (run under sanitizers for the full
// meaning of that).
#include <gtest/gtest.h>

#include <fstream>

#include "tests/unit/runtime/artifact_sample.h"

namespace qrt::testing {
namespace {

bool IsRefusal(const Status& status) {
  return (status.code() == Code::kArtifactCorrupt || status.code() == Code::kArtifactIncompatible) &&
         ((status.number() >= 4004 && status.number() <= 4020) || status.number() == 4026) &&
         !status.message().empty() && !status.note().empty();
}

TEST(ArtifactDamage, EveryTruncationIsRefused) {
  const std::vector<uint8_t> file = BytesOfParts(MakeParts());
  for (size_t size = 0; size < file.size(); ++size) {
    const Status status = OpenAndUse(std::span(file).first(size));
    ASSERT_TRUE(IsRefusal(status)) << "cut to " << size << " bytes: " << status.ToString();
  }
}

TEST(ArtifactDamage, TrailingAndLeadingBytesAreRefused) {
  std::vector<uint8_t> file = BytesOfParts(MakeParts());
  file.push_back(0);
  EXPECT_EQ(OpenAndUse(file).number(), 4004u);
  file.insert(file.begin(), 'x');
  EXPECT_EQ(OpenAndUse(file).number(), 4005u);
}

// Every bit of everything that means something; of the padding, one bit of each byte.
TEST(ArtifactDamage, EveryBitFlipIsRefused) {
  const std::vector<uint8_t> file = BytesOfParts(MakeParts());
  std::vector<bool> padding(file.size(), true);
  const uint32_t sections = HeaderOf(file).section_count;
  std::fill_n(padding.begin(), sizeof(qbin_header) + sections * sizeof(qbin_section), false);
  for (uint32_t i = 0; i < sections; ++i) {
    const qbin_section s = SectionOf(file, i);
    std::fill_n(padding.begin() + static_cast<ptrdiff_t>(s.offset), s.size, false);
  }
  AlignedBytes bytes(file);
  const auto verdict = [&bytes] {
    auto opened = Artifact::FromBytes(bytes.span(), "sample.qbin");
    return opened.ok() ? (*opened)->VerifyWeights() : opened.status();
  };
  ASSERT_TRUE(verdict().ok()) << verdict().ToString();
  for (size_t at = 0; at < file.size(); ++at) {
    for (int bit = 0; bit < (padding[at] ? 1 : 8); ++bit) {
      bytes.data()[at] ^= static_cast<uint8_t>(1 << bit);
      const Status status = verdict();
      bytes.data()[at] ^= static_cast<uint8_t>(1 << bit);
      ASSERT_TRUE(IsRefusal(status)) << "bit " << bit << " of byte " << at << ": " << status.ToString();
    }
  }
}

TEST(ArtifactDamage, DamagedWeightsOpenButDoNotVerify) {
  std::vector<uint8_t> file = BytesOfParts(MakeParts());
  file[SectionOf(file, FindSection(file, QBIN_SECTION_WEIGHTS)).offset + 17] ^= 1;
  const AlignedBytes bytes(file);
  auto opened = Artifact::FromBytes(bytes.span(), "sample");
  ASSERT_TRUE(opened.ok()) << "open must not read the weights: " << opened.status().ToString();
  EXPECT_EQ((*opened)->VerifyWeights().number(), 4012u);
}

TEST(ArtifactDamage, VerifyWeightsReportsAndStops) {
  const AlignedBytes bytes(BytesOfParts(MakeParts()));
  auto opened = Artifact::FromBytes(bytes.span(), "sample");
  ASSERT_TRUE(opened.ok()) << opened.status().ToString();
  uint64_t last = 0, total = 0;
  EXPECT_TRUE((*opened)
                  ->VerifyWeights([&](uint64_t done, uint64_t all) {
                    last = done;
                    total = all;
                    return true;
                  })
                  .ok());
  EXPECT_EQ(last, 5000u);
  EXPECT_EQ(total, 5000u);
  EXPECT_EQ((*opened)->VerifyWeights([](uint64_t, uint64_t) { return false; }).code(), Code::kCancelled);
}

// Damage that is sealed again: the hashes are right, so the checks of meaning stand alone. Whatever they
// accept must be safe to use; that is what OpenAndUse and the sanitizers look at.
class SealedMutation : public ::testing::TestWithParam<uint32_t> {};

TEST_P(SealedMutation, NeverCrashes) {
  const std::vector<uint8_t> original = BytesOfParts(MakeParts());
  const qbin_section section = SectionOf(original, FindSection(original, GetParam()));
  size_t refused = 0;
  for (size_t at = 0; at < section.size; ++at) {
    const uint8_t was = original[section.offset + at];
    for (uint8_t value : {uint8_t{0}, uint8_t{0xff}, uint8_t{0x7f}, static_cast<uint8_t>(was + 1),
                          static_cast<uint8_t>(was - 1), static_cast<uint8_t>(was ^ 0x80)}) {
      if (value == was) continue;
      std::vector<uint8_t> file = original;
      file[section.offset + at] = value;
      Seal(file);
      const Status status = OpenAndUse(file);
      if (!status.ok()) {
        ++refused;
        ASSERT_TRUE(IsRefusal(status))
            << "byte " << at << " set to " << int{value} << ": " << status.ToString();
      }
    }
  }
  EXPECT_GT(refused, 0u) << "no mutation of this section was refused";
}

INSTANTIATE_TEST_SUITE_P(Sections, SealedMutation,
                         ::testing::Values(QBIN_SECTION_MANIFEST, QBIN_SECTION_CODE, QBIN_SECTION_TOKENIZER,
                                           QBIN_SECTION_CHAT_TEMPLATE, QBIN_SECTION_GOLDENS),
                         [](const auto& param) {
                           std::string name = SectionKindName(param.param);
                           std::erase(name, ' ');
                           return name;
                         });

TEST(ArtifactDamage, OddAddressesAreRefused) {
  std::vector<uint8_t> file = BytesOfParts(MakeParts());
  file.insert(file.begin(), 3, 0);
  const AlignedBytes shifted(file);
  EXPECT_EQ(Artifact::FromBytes(shifted.span().subspan(3), "sample").status().number(), 4021u);
}

TEST(ArtifactDamage, FilesThatAreNone) {
  const TempFolder folder;
  EXPECT_EQ(Artifact::Open(folder.File("absent")).status().code(), Code::kNotFound);
  EXPECT_EQ(Artifact::Open(folder.path()).status().code(), Code::kIoError);
  std::ofstream(folder.File("empty"));
  EXPECT_EQ(Artifact::Open(folder.File("empty")).status().number(), 4005u);
  std::ofstream(folder.File("gguf")) << "GGUF and so on";
  const Status status = Artifact::Open(folder.File("gguf")).status();
  EXPECT_EQ(status.number(), 4005u);
  EXPECT_NE(status.note().find("gguf"), std::string::npos)
      << "the error does not name the file: " << status.ToString();
}

TEST(ArtifactDamage, TheSameFileOpensTwice) {
  const TempFolder folder;
  WriteParts(MakeParts(), folder.File("a.qbin"));
  auto first = Artifact::Open(folder.File("a.qbin"));
  auto second = Artifact::Open(folder.File("a.qbin"));
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ((*first)->identity(), (*second)->identity());
}

}  // namespace
}  // namespace qrt::testing
