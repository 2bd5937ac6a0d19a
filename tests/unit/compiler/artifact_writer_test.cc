// The writer's promises that the reader cannot see: nothing half-written, nothing left behind, streams
// counted.
#include "compiler/artifact/writer.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "frontends/base/error.h"
#include "runtime/artifact/artifact.h"
#include "tests/unit/runtime/program_facts.h"
#include "tests/unit/temp_folder.h"

namespace qcc::compiler {
namespace {

class ArtifactWriterTest : public testing::Test {
 protected:
  std::vector<std::string> Entries() const { return temp_.Entries(); }
  std::unique_ptr<ArtifactWriter> Create() {
    auto writer = ArtifactWriter::Create(path_);
    EXPECT_TRUE(writer.ok()) << writer.status();
    return writer.ok() ? *std::move(writer) : nullptr;
  }
  const qrt::testing::TempFolder temp_;
  const std::string &folder_ = temp_.path(), path_ = temp_.File("model.qbin");
};

// The whole file, weights included, as the runtime reads it.
qrt::Status Check(const std::string& path) {
  const auto artifact = qrt::Artifact::Open(path);
  return artifact.ok() ? (*artifact)->VerifyWeights() : artifact.status();
}

ManifestSpec SomeManifest() {
  ManifestSpec m;
  m.arch = "qwen3";
  m.streams = {"trunk"};
  m.vocab_size = m.logits_stride = 16;
  m.context_length = 64;
  m.embedding_length = 8;
  m.code.push_back({"another target", "", {}, 0, 0});  // which the reader skips
  m.programs.push_back({"p", qrt::DecodeFacts(), 1, 0, 0, 0});
  return m;
}

// What qcc itself would refuse never replaces anything.
TEST_F(ArtifactWriterTest, WhatACheckRefusesIsNotThere) {
  std::ofstream(path_) << "the old one";
  auto writer = Create();
  const absl::Status refused = writer->Finish(SomeManifest(), [&](const std::string& path) {
    EXPECT_TRUE(Check(path).ok()) << "not the whole artifact: " << Check(path).ToString();
    return absl::InternalError("no");
  });
  EXPECT_EQ(refused, absl::InternalError("no"));
  writer.reset();
  std::ifstream old(path_);
  std::string text;
  std::getline(old, text);
  EXPECT_EQ(text, "the old one");
  EXPECT_EQ(Entries(), (std::vector<std::string>{"model.qbin"})) << "something was left beside it";
}

TEST_F(ArtifactWriterTest, NothingIsThereBeforeFinish) {
  std::ofstream(path_) << "the old one";
  auto writer = Create();
  ASSERT_TRUE(writer->AddSection(QBIN_SECTION_CODE, std::vector<uint8_t>(100)).ok());
  std::ifstream old(path_);
  std::string text;
  std::getline(old, text);
  EXPECT_EQ(text, "the old one") << "the output changed before it was complete";
  ASSERT_TRUE(writer->Finish(SomeManifest()).ok());
  writer.reset();
  EXPECT_EQ(Entries(), (std::vector<std::string>{"model.qbin"})) << "something was left beside the artifact";
  EXPECT_TRUE(Check(path_).ok()) << Check(path_).ToString();
}

TEST_F(ArtifactWriterTest, AbandonedLeavesNothing) {
  {
    auto writer = Create();
    ASSERT_TRUE(writer->AddSection(QBIN_SECTION_CODE, std::vector<uint8_t>(100000)).ok());
  }
  EXPECT_TRUE(Entries().empty()) << Entries().front() << " was left behind";
}

TEST_F(ArtifactWriterTest, FailingProducerLeavesNothing) {
  {
    auto writer = Create();
    auto index = writer->AddStream(QBIN_SECTION_WEIGHTS, 1000, [](ArtifactWriter::Append append) {
      const std::vector<uint8_t> piece(100);
      if (absl::Status s = append(piece); !s.ok()) return s;
      return absl::CancelledError("stopped");
    });
    EXPECT_TRUE(absl::IsCancelled(index.status())) << "the producer's error was lost: " << index.status();
  }
  EXPECT_TRUE(Entries().empty());
}

TEST_F(ArtifactWriterTest, StreamsAreCountedAndHashed) {
  std::vector<uint8_t> all(9 << 20);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint8_t>(i * 2654435761u >> 13);
  auto writer = Create();
  // Pieces of all sizes: empty, tiny, larger than the writer's buffer.
  auto index = writer->AddStream(QBIN_SECTION_WEIGHTS, all.size(), [&](ArtifactWriter::Append append) {
    const std::span<const uint8_t> bytes(all);
    size_t at = 0;
    for (size_t n : {size_t{0}, size_t{1}, size_t{4095}, size_t{3} << 20, size_t{5} << 20}) {
      if (absl::Status s = append(bytes.subspan(at, n)); !s.ok()) return s;
      at += n;
    }
    return append(bytes.subspan(at));
  });
  ASSERT_TRUE(index.ok()) << index.status();
  ASSERT_TRUE(writer->Finish(SomeManifest()).ok());
  ASSERT_TRUE(Check(path_).ok()) << Check(path_).ToString();
  const auto artifact = qrt::Artifact::Open(path_);
  ASSERT_TRUE(artifact.ok()) << artifact.status().ToString();
  EXPECT_EQ((*artifact)->sections()[*index].size, all.size());
  EXPECT_EQ((*artifact)->sections()[*index].hash, qrt::HashOf(all)) << "the pieces were not written in order";
}

TEST_F(ArtifactWriterTest, WrongLengthsAreBugs) {
  for (const size_t given : {size_t{9}, size_t{11}}) {
    auto writer = Create();
    auto index = writer->AddStream(QBIN_SECTION_WEIGHTS, 10, [given](ArtifactWriter::Append append) {
      return append(std::vector<uint8_t>(given));
    });
    EXPECT_EQ(PartsOf(index.status()).code, "Q9002") << given << " bytes for a section of 10";
  }
  auto writer = Create();
  EXPECT_EQ(PartsOf(writer->AddSection(QBIN_SECTION_CODE, {}).status()).code, "Q9002") << "an empty section";
}

TEST_F(ArtifactWriterTest, TooManySectionsAreRefused) {
  auto writer = Create();
  const std::vector<uint8_t> byte(1);
  for (uint32_t i = 0; i + 1 < ArtifactWriter::kMaxSections; ++i) {
    ASSERT_TRUE(writer->AddSection(QBIN_SECTION_CODE, byte).ok()) << "section " << i;
  }
  EXPECT_EQ(PartsOf(writer->AddSection(QBIN_SECTION_CODE, byte).status()).code, "Q9002");
}

// A file size limit fails like a full disk: an error, and nothing left.
TEST_F(ArtifactWriterTest, FullDiskIsReported) {
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 64 << 10;
  absl::Status status;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  {
    auto writer = Create();
    auto index = writer->AddSection(QBIN_SECTION_WEIGHTS, std::vector<uint8_t>(1 << 20));
    status = index.ok() ? writer->Finish(SomeManifest()) : index.status();
  }
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_EQ(PartsOf(status).code, "Q6003") << status;
  EXPECT_NE(PartsOf(status).where.find("model.qbin"), std::string::npos) << status;
  EXPECT_TRUE(Entries().empty()) << Entries().front() << " was left behind";
}

TEST_F(ArtifactWriterTest, CheckOutput) {
  EXPECT_TRUE(CheckOutput(path_, "", 1000).ok()) << CheckOutput(path_, "", 1000);
  EXPECT_TRUE(Entries().empty()) << "the check made a file";
  EXPECT_EQ(PartsOf(CheckOutput("", "", 0)).code, "Q0103");
  EXPECT_EQ(PartsOf(CheckOutput(folder_, "", 0)).code, "Q0103") << "a folder";
  EXPECT_EQ(PartsOf(CheckOutput(folder_ + "/none/model.qbin", "", 0)).code, "Q0103") << "no such folder";
  EXPECT_EQ(PartsOf(CheckOutput("/dev/null", "", 0)).code, "Q0103") << "a device";
  EXPECT_EQ(PartsOf(CheckOutput(path_, "", uint64_t{1} << 60)).code, "Q6003") << "an exbibyte";
  EXPECT_TRUE(CheckOutput(folder_ + "/" + std::string(NAME_MAX, 'x'), "", 0).ok());
  EXPECT_EQ(PartsOf(CheckOutput(folder_ + "/" + std::string(NAME_MAX + 1, 'x'), "", 0)).code, "Q0103")
      << "a name that the file system cannot hold";
  std::ofstream(path_) << "x";
  std::filesystem::create_symlink(path_, folder_ + "/link");
  EXPECT_EQ(PartsOf(CheckOutput(folder_ + "/link", path_, 0)).code, "Q0103")
      << "the input under another name";
  EXPECT_TRUE(CheckOutput(path_, folder_ + "/other.gguf", 0).ok()) << "an old output may be replaced";
}

TEST_F(ArtifactWriterTest, AnyNameThatAFileMayHaveCanBeWritten) {
  for (const size_t size : {size_t{1}, size_t{128}, size_t{NAME_MAX - 3}, size_t{NAME_MAX}}) {
    const std::string name(size, 'n');
    auto file = OutputFile::Create(folder_ + "/" + name);
    ASSERT_TRUE(file.ok()) << file.status();
    const absl::Status status = (*file)->Commit(1);
    EXPECT_TRUE(status.ok()) << size << " letters: " << status;
    EXPECT_EQ(Entries(), std::vector<std::string>{name});
    std::filesystem::remove(folder_ + "/" + name);
  }
}

TEST_F(ArtifactWriterTest, PermissionsFollowTheUmask) {
  const mode_t old = umask(027);
  auto writer = Create();
  ASSERT_TRUE(writer->Finish(SomeManifest()).ok());
  umask(old);
  struct stat info;
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0640u);
}

// What is refused, and how, is tested with the reader (tests/unit/runtime); here only that it looks at every
// byte.
TEST_F(ArtifactWriterTest, ReaderRefusesEveryChangedByte) {
  {
    auto writer = Create();
    ASSERT_TRUE(writer->AddSection(QBIN_SECTION_WEIGHTS, std::vector<uint8_t>(300, 5)).ok());
    ASSERT_TRUE(writer->Finish(SomeManifest()).ok());
  }
  const auto size = std::filesystem::file_size(path_);
  std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
  for (size_t at = 0; at < size; at += at < 200 ? 1 : 37) {
    file.seekg(static_cast<std::streamoff>(at));
    const char was = static_cast<char>(file.get());
    auto put = [&](char c) {
      file.seekp(static_cast<std::streamoff>(at));
      file.put(c);
      file.flush();
    };
    put(static_cast<char>(was ^ 0x10));
    EXPECT_FALSE(Check(path_).ok()) << "byte " << at << " was changed";
    put(was);
  }
  EXPECT_TRUE(Check(path_).ok());
  for (uintmax_t cut = 0; cut < size; cut += 61) {
    std::filesystem::resize_file(path_, size - 1 - cut);
    EXPECT_FALSE(Check(path_).ok()) << "cut to " << size - 1 - cut << " bytes";
  }
}

}  // namespace
}  // namespace qcc::compiler
