// qrt_artifact_open_memory: an artifact in the caller's own bytes.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "runtime/abi/qbin.h"
#include "tests/unit/runtime/aligned_bytes.h"
#include "tests/unit/runtime/qrt_api_fixture.h"
#include "tests/unit/runtime/qrt_toy_bytes.h"

namespace {

using namespace qrt_api;  // NOLINT: the fixture of this very test
using qrt::testing::AlignedBytes;

// Where the first section of this kind begins.
size_t SectionAt(std::span<const uint8_t> artifact, uint32_t kind) {
  for (size_t i = 0; i < QBIN_MAX_SECTIONS; ++i) {
    qbin_section section;
    std::memcpy(&section, artifact.data() + sizeof(qbin_header) + i * sizeof section, sizeof section);
    if (section.kind == kind) return section.offset;
  }
  return 0;
}

// Fails as it should: the status, with `error` filled and nothing handed out.
qrt_status Refused(const void* bytes, size_t size, qrt_error* error,
                   const qrt_artifact_options* options = nullptr) {
  qrt_artifact* artifact = nullptr;
  *error = Sized<qrt_error>();
  const qrt_status status = qrt_artifact_open_memory(bytes, size, "linked in", options, &artifact, error);
  EXPECT_EQ(artifact, nullptr) << "an artifact that was refused is handed out";
  qrt_artifact_release(artifact);
  return status;
}

class QrtApiMemory : public QrtApi {
 protected:
  static Artifact OpenBytes(std::span<const uint8_t> bytes) {
    qrt_artifact* artifact = nullptr;
    qrt_error error = Sized<qrt_error>();
    EXPECT_EQ(qrt_artifact_open_memory(bytes.data(), bytes.size(), nullptr, nullptr, &artifact, &error),
              QRT_OK)
        << Say(error);
    return Artifact(artifact);
  }
};

TEST_F(QrtApiMemory, GivesWhatTheFileGives) {
  const AlignedBytes bytes(toy::ToyBytes());
  const Artifact from_file = Open(path());
  const Artifact from_memory = OpenBytes(bytes.span());
  qrt_artifact_info of_file = Sized<qrt_artifact_info>(), of_memory = Sized<qrt_artifact_info>();
  ASSERT_EQ(qrt_artifact_describe(from_file.get(), &of_file, nullptr), QRT_OK);
  ASSERT_EQ(qrt_artifact_describe(from_memory.get(), &of_memory, nullptr), QRT_OK);
  EXPECT_EQ(std::memcmp(of_file.identity, of_memory.identity, sizeof of_file.identity), 0);
  EXPECT_EQ(of_memory.file_bytes, bytes.size());
  const Engine engine_of_file = MakeEngine(from_file.get()), engine_of_memory = MakeEngine(from_memory.get());
  const Session file_session = MakeSession(engine_of_file.get());
  const Session memory_session = MakeSession(engine_of_memory.get());
  EXPECT_EQ(AllLogits(file_session.get(), Tokens(40), 40), AllLogits(memory_session.get(), Tokens(40), 40));
}

// A page of the host's that may only be read, and that ends with the artifact: one write or one byte too far
// ends the test.
TEST_F(QrtApiMemory, ReadsTheBytesWhereTheyLieAndNothingElse) {
  const std::vector<uint8_t> artifact_bytes = toy::ToyBytes();
  constexpr size_t kPage = 4096;
  const size_t pages = (artifact_bytes.size() + kPage - 1) / kPage * kPage;
  void* memory = mmap(nullptr, pages + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* at = static_cast<uint8_t*>(memory);
  std::memcpy(at, artifact_bytes.data(), artifact_bytes.size());
  ASSERT_EQ(mprotect(at, pages, PROT_READ), 0);
  ASSERT_EQ(mprotect(at + pages, kPage, PROT_NONE), 0);
  {
    const Artifact artifact = OpenBytes({at, artifact_bytes.size()});
    qrt_artifact_info info = Sized<qrt_artifact_info>();
    ASSERT_EQ(qrt_artifact_describe(artifact.get(), &info, nullptr), QRT_OK);
    const Engine engine = MakeEngine(artifact.get());
    const Session session = MakeSession(engine.get());
    EXPECT_FALSE(AllLogits(session.get(), Tokens(5), 5).empty());
    // The weights are not hashed by opening: that these bytes are read, and no copy of them, shows when they
    // are changed (as no caller may) and verified.
    EXPECT_EQ(qrt_artifact_verify(artifact.get(), nullptr, nullptr, nullptr), QRT_OK);
    ASSERT_EQ(mprotect(at, pages, PROT_READ | PROT_WRITE), 0);
    at[SectionAt(artifact_bytes, QBIN_SECTION_WEIGHTS)] ^= 1;
    EXPECT_EQ(qrt_artifact_verify(artifact.get(), nullptr, nullptr, nullptr), QRT_ARTIFACT_CORRUPT)
        << "the artifact was copied";
  }
  munmap(memory, pages + kPage);
}

TEST_F(QrtApiMemory, NeverGivesTheBytesBack) {
  const AlignedBytes bytes(toy::ToyBytes());
  { const Artifact artifact = OpenBytes(bytes.span()); }
  const Artifact again = OpenBytes(bytes.span());
  const Artifact shared = OpenBytes(bytes.span());
  EXPECT_EQ(qrt_artifact_verify(again.get(), nullptr, nullptr, nullptr), QRT_OK);
}

TEST_F(QrtApiMemory, RefusesWhatIsNoArtifact) {
  AlignedBytes bytes(toy::ToyBytes());
  qrt_error error;
  EXPECT_EQ(Refused(nullptr, 100, &error), QRT_INVALID_ARGUMENT);
  EXPECT_NE(std::strstr(error.message, "bytes"), nullptr) << Say(error);
  EXPECT_EQ(qrt_artifact_open_memory(bytes.data(), bytes.size(), nullptr, nullptr, nullptr, &error),
            QRT_INVALID_ARGUMENT);
  EXPECT_EQ(Refused(bytes.data(), 0, &error), QRT_ARTIFACT_CORRUPT);
  EXPECT_EQ(error.code, 4005u) << Say(error);
  EXPECT_EQ(Refused(bytes.data(), 20, &error), QRT_ARTIFACT_CORRUPT);
  EXPECT_EQ(Refused(bytes.data(), bytes.size() - 1, &error), QRT_ARTIFACT_CORRUPT);
  EXPECT_EQ(error.code, 4004u) << Say(error);
  EXPECT_NE(std::strstr(error.note, "linked in"), nullptr) << "the name is not in the note: " << Say(error);

  std::vector<uint8_t> longer = toy::ToyBytes();
  longer.push_back(0);
  const AlignedBytes with_more(longer);
  EXPECT_EQ(Refused(with_more.span().data(), with_more.size(), &error), QRT_ARTIFACT_CORRUPT);
  EXPECT_EQ(error.code, 4004u) << Say(error);

  std::vector<uint8_t> shifted = toy::ToyBytes();
  shifted.insert(shifted.begin(), QRT_ARTIFACT_ALIGNMENT / 2, 0);
  const AlignedBytes odd(shifted);
  EXPECT_EQ(Refused(odd.span().data() + QRT_ARTIFACT_ALIGNMENT / 2, bytes.size(), &error),
            QRT_INVALID_ARGUMENT);
  EXPECT_EQ(error.code, 4021u) << Say(error);
  EXPECT_NE(std::strstr(error.message, "32"), nullptr) << "found and expected: " << Say(error);

  qrt_artifact_options options = Sized<qrt_artifact_options>();
  options.verify_weights = 1;
  bytes.data()[SectionAt(bytes.span(), QBIN_SECTION_WEIGHTS)] ^= 1;
  EXPECT_EQ(Refused(bytes.data(), bytes.size(), &error, &options), QRT_ARTIFACT_CORRUPT);
  EXPECT_EQ(error.code, 4012u) << Say(error);
  bytes.data()[SectionAt(bytes.span(), QBIN_SECTION_CODE)] ^= 1;
  EXPECT_EQ(Refused(bytes.data(), bytes.size(), &error), QRT_ARTIFACT_CORRUPT);
  EXPECT_EQ(error.code, 4011u) << Say(error);
  options.struct_size = sizeof options + 8;
  EXPECT_EQ(Refused(bytes.data(), bytes.size(), &error, &options), QRT_INVALID_ARGUMENT);
}

}  // namespace
