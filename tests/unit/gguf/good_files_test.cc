// Files that must open, and what the view says about them.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "dialects/formats/formats.h"
#include "frontends/base/error.h"
#include "frontends/gguf/checks.h"
#include "frontends/gguf/gguf.h"
#include "tests/unit/gguf/bytes.h"

namespace qcc::gguf {
namespace {

namespace fs = std::filesystem;
using testing::Bytes;
using testing::SmallFile;

#define ASSERT_OPENS(file, bytes)                                                          \
  absl::StatusOr<std::unique_ptr<File>> file##_or = File::Parse(bytes.get(), "test.gguf"); \
  ASSERT_TRUE(file##_or.ok()) << file##_or.status();                                       \
  const File& file = **file##_or

TEST(GoodFile, BothVersionsRead) {
  for (uint32_t version : {2u, 3u}) {
    Bytes bytes = SmallFile(version);
    ASSERT_OPENS(file, bytes);
    EXPECT_EQ(file.tensors().size(), 2u) << "version " << version;
    EXPECT_EQ(file.keys().size(), 16u) << "version " << version;
    EXPECT_EQ(file.keys()[1], "t.u8");
    EXPECT_EQ(file.size(), bytes.size());
    EXPECT_EQ(file.path(), "test.gguf");
  }
}

TEST(GoodFile, EveryScalarType) {
  Bytes bytes = SmallFile();
  ASSERT_OPENS(file, bytes);
  EXPECT_EQ(file.GetInt("t.u8").value(), 200);
  EXPECT_EQ(file.GetInt("t.i8").value(), -128);
  EXPECT_EQ(file.GetInt("t.u16").value(), 60000);
  EXPECT_EQ(file.GetInt("t.i16").value(), -32768);
  EXPECT_EQ(file.GetInt("t.u32").value(), 4000000000);
  EXPECT_EQ(file.GetInt("t.i32").value(), -2147483648LL);
  EXPECT_EQ(file.GetInt("t.u64").value(), int64_t{1} << 62);
  EXPECT_EQ(file.GetInt("t.i64").value(), -1);
  EXPECT_EQ(file.GetFloat("t.f32").value(), 1.5);
  EXPECT_EQ(file.GetFloat("t.f64").value(), 2.5);
  EXPECT_EQ(file.GetFloat("t.i16").value(), -32768.0);
  EXPECT_TRUE(file.GetBool("t.bool").value());
  EXPECT_EQ(file.GetString("t.string").value(), "h\xc3\xa9llo");
}

TEST(GoodFile, Arrays) {
  Bytes bytes = SmallFile();
  ASSERT_OPENS(file, bytes);
  EXPECT_EQ(file.GetIntArray("t.ints").value(), (std::vector<int64_t>{1, -1, 3}));
  EXPECT_EQ(file.GetFloatArray("t.ints").value(), (std::vector<float>{1, -1, 3}));
  EXPECT_EQ(file.GetBoolArray("t.bools").value(), (std::vector<bool>{true, false}));
  EXPECT_EQ(file.GetStringArray("t.strings").value(), (std::vector<std::string_view>{"a", "", "ccc"}));
  // A scalar reads as an array of one.
  EXPECT_EQ(file.GetIntArray("t.u8").value(), std::vector<int64_t>{200});
  EXPECT_EQ(file.GetStringArray("general.architecture").value(), std::vector<std::string_view>{"test"});
}

TEST(GoodFile, IntegersOfEveryWidthAndOneElementArrays) {
  struct Row {
    uint32_t type;
    int bytes;
  };
  for (Row row : {Row{0, 1}, Row{1, 1}, Row{2, 2}, Row{3, 2}, Row{4, 4}, Row{5, 4}, Row{10, 8}, Row{11, 8}}) {
    for (bool array : {false, true}) {
      Bytes bytes;
      bytes.Header(0, 1);
      if (array) {
        bytes.KvArray("k", row.type, 1);
      } else {
        bytes.Key("k", row.type);
      }
      bytes.U8(77).Zeros(static_cast<size_t>(row.bytes - 1));
      ASSERT_OPENS(file, bytes);
      EXPECT_EQ(file.GetInt("k").value(), 77) << "type " << row.type << " array " << array;
      EXPECT_EQ(file.GetFloat("k").value(), 77.0) << "type " << row.type << " array " << array;
      EXPECT_EQ(file.GetIntArray("k").value(), std::vector<int64_t>{77})
          << "type " << row.type << " array " << array;
    }
  }
}

TEST(GoodFile, Tensors) {
  Bytes bytes = SmallFile();
  ASSERT_OPENS(file, bytes);
  const Tensor* first = file.FindTensor("first");
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->format, Format::F32);
  EXPECT_EQ(first->n_dims, 2);
  EXPECT_EQ(first->ne, (std::array<int64_t, 4>{4, 2, 1, 1}));
  EXPECT_EQ(first->elements(), 8);
  EXPECT_EQ(first->bytes, 32u);
  EXPECT_EQ(first->file_offset % 32, 0u);
  EXPECT_EQ(first->data, file.bytes().data() + first->file_offset);
  EXPECT_EQ(first->data[3], 0x3f);
  const Tensor* second = file.FindTensor("second");
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(second->format, Format::Q8_0);
  EXPECT_EQ(second->bytes, 68u);
  EXPECT_EQ(second->file_offset, first->file_offset + 32);
  EXPECT_EQ(file.FindTensor("third"), nullptr);
  EXPECT_TRUE(CheckFinite(file, *first).ok());
  EXPECT_TRUE(CheckFinite(file, *second).ok());
}

TEST(GoodFile, EveryFormatOfTheTable) {
  constexpr uint64_t kRows = 16;  // so many that the size tells formats of one id apart
  for (int i = 0; i < kFormatCount; ++i) {
    const FormatInfo& info = format_info(static_cast<Format>(i));
    Bytes bytes;
    bytes.Header(1, 0).TensorInfo("w", {256, kRows}, info.ggml_id, 0).Pad();
    bytes.Zeros(static_cast<size_t>(row_bytes(info.id, 256) * kRows));
    ASSERT_OPENS(file, bytes);
    EXPECT_EQ(file.tensors()[0].format, info.id) << info.name;
    EXPECT_EQ(file.tensors()[0].bytes, static_cast<uint64_t>(row_bytes(info.id, 256) * kRows)) << info.name;
  }
}

// Id 42 has two layouts; the bytes up to the next tensor, or to the end of the file, tell which.
TEST(GoodFile, Id42IsToldByItsExtent) {
  struct Case {
    Format format;
    uint64_t bytes;  // of 256 x 16 weights
  };
  for (Case c : {Case{Format::Q2_0, 64 * 18}, Case{Format::Q2_0_G128, 32 * 34}}) {
    for (bool padded_end : {false, true}) {
      Bytes bytes;
      bytes.Header(3, 0)
          .TensorInfo("first", {256, 16}, 42, 0)
          .TensorInfo("f32", {1}, 0, c.bytes)
          .TensorInfo("last", {256, 16}, 42, c.bytes + 32)
          .Pad()
          .Zeros(c.bytes + 32 + c.bytes);
      if (padded_end) bytes.Pad();
      ASSERT_OPENS(file, bytes);
      for (const char* name : {"first", "last"}) {
        EXPECT_EQ(file.FindTensor(name)->format, c.format) << name << " of " << format_info(c.format).name;
        EXPECT_EQ(file.FindTensor(name)->bytes, c.bytes) << name << " of " << format_info(c.format).name;
      }
    }
  }
}

// 256 weights take 72 or 68 bytes, with padding 96 both: such a tensor goes with the others.
TEST(GoodFile, SmallTensorOfId42GoesWithTheOthers) {
  for (uint64_t other : {64 * 18, 32 * 34}) {
    Bytes bytes;
    bytes.Header(2, 0).TensorInfo("small", {256}, 42, 0).TensorInfo("big", {256, 16}, 42, 96).Pad();
    bytes.Zeros(96 + other);
    ASSERT_OPENS(file, bytes);
    EXPECT_EQ(file.FindTensor("small")->format, other == 64 * 18 ? Format::Q2_0 : Format::Q2_0_G128);
    EXPECT_EQ(file.FindTensor("small")->bytes, other == 64 * 18 ? 72u : 68u);
  }
  Bytes narrow;  // groups of 128 do not fit rows of 64
  narrow.Header(1, 0).TensorInfo("narrow", {64, 2}, 42, 0).Pad().Zeros(36);
  ASSERT_OPENS(narrow_file, narrow);
  EXPECT_EQ(narrow_file.FindTensor("narrow")->format, Format::Q2_0);
}

// A large alignment hides in padding what the layouts differ by: then the bytes behind the shorter one tell.
TEST(GoodFile, Id42IsToldByItsPaddingWhereNoExtentDoes) {
  constexpr int64_t kWeights = 256 * 16;
  std::vector<float> weights(kWeights);
  for (int64_t i = 0; i < kWeights; ++i) weights[i] = static_cast<float>(i % 3 - 1) * 0.25f;
  for (Format format : {Format::Q2_0, Format::Q2_0_G128}) {
    Bytes bytes;
    bytes.Header(2, 1).KvU32("general.alignment", 4096);
    bytes.TensorInfo("first", {256, 16}, 42, 0).TensorInfo("last", {256, 16}, 42, 4096).Pad(4096);
    const size_t data = bytes.size(), size = static_cast<size_t>(row_bytes(format, kWeights));
    bytes.Zeros(2 * 4096);
    std::vector<uint8_t> content = bytes.get();
    for (size_t at : {data, data + 4096}) encode_row(format, weights.data(), kWeights, &content[at]);
    absl::StatusOr<std::unique_ptr<File>> file = File::Parse(content, "test.gguf");
    ASSERT_TRUE(file.ok()) << file.status();
    for (const Tensor& t : (*file)->tensors()) {
      EXPECT_EQ(format_info(t.format).name, format_info(format).name) << t.name;
      EXPECT_EQ(t.bytes, size) << t.name << " of " << format_info(format).name;
    }
  }
}

TEST(GoodFile, NothingInIt) {
  Bytes bytes;
  bytes.Header(0, 0);
  ASSERT_OPENS(file, bytes);
  EXPECT_TRUE(file.tensors().empty());
  EXPECT_TRUE(file.keys().empty());
  EXPECT_FALSE(file.Has("x"));
}

TEST(GoodFile, ScalarAndZeroElementTensorsAreLegal) {
  Bytes bytes;
  bytes.Header(3, 0)
      .TensorInfo("scalar", {}, 0, 0)
      .TensorInfo("empty", {32, 0}, 8, 64)
      .TensorInfo("row", {1, 1, 1, 1}, 0, 32);
  bytes.Pad().Zeros(36);
  ASSERT_OPENS(file, bytes);
  EXPECT_EQ(file.FindTensor("scalar")->elements(), 1);
  EXPECT_EQ(file.FindTensor("scalar")->bytes, 4u);
  EXPECT_EQ(file.FindTensor("empty")->elements(), 0);
  EXPECT_EQ(file.FindTensor("empty")->bytes, 0u);
  EXPECT_EQ(file.FindTensor("row")->n_dims, 4);
}

TEST(GoodFile, DataInAnyOrderWithGaps) {
  Bytes bytes;
  bytes.Header(2, 0).TensorInfo("late", {2}, 0, 128).TensorInfo("early", {2}, 0, 32).Pad().Zeros(136);
  ASSERT_OPENS(file, bytes);
  EXPECT_EQ(file.FindTensor("late")->file_offset - file.FindTensor("early")->file_offset, 96u);
}

TEST(GoodFile, OtherAlignment) {
  for (uint32_t alignment : {8u, 16u, 64u, 4096u}) {
    Bytes bytes;
    bytes.Header(2, 1).KvU32("general.alignment", alignment);
    bytes.TensorInfo("a", {2}, 0, 0).TensorInfo("b", {2}, 0, alignment).Pad(alignment).Zeros(alignment + 8);
    ASSERT_OPENS(file, bytes);
    EXPECT_EQ(file.FindTensor("a")->file_offset % alignment, 0u) << alignment;
  }
}

TEST(GoodFile, VocabularyThatIsConsistent) {
  Bytes bytes;
  bytes.Header(0, 5);
  bytes.KvStr("tokenizer.ggml.model", "gpt2");
  bytes.KvArray("tokenizer.ggml.tokens", 8, 3).Str("a").Str("b").Str("ab");
  bytes.KvArray("tokenizer.ggml.token_type", 5, 3).U32(1).U32(1).U32(1);
  bytes.KvArray("tokenizer.ggml.scores", 6, 3).U32(0).U32(0).U32(0);
  bytes.KvArray("tokenizer.ggml.merges", 8, 1).Str("a b");
  ASSERT_OPENS(file, bytes);
  EXPECT_EQ(file.GetStringArray("tokenizer.ggml.merges").value()[0], "a b");
}

TEST(GoodFile, OneShardOfOneIsAWholeModel) {
  Bytes bytes;
  bytes.Header(0, 1).Key("split.count", 2).Le<uint16_t>(1);
  ASSERT_OPENS(file, bytes);
  EXPECT_EQ(file.GetInt("split.count").value(), 1);
}

TEST(Access, MissingKeyIsNotFoundAndNamed) {
  Bytes bytes = SmallFile();
  ASSERT_OPENS(file, bytes);
  for (const absl::Status& status :
       {file.GetInt("no.such").status(), file.GetFloat("no.such").status(), file.GetBool("no.such").status(),
        file.GetString("no.such").status(), file.GetIntArray("no.such").status(),
        file.GetBoolArray("no.such").status(), file.GetFloatArray("no.such").status(),
        file.GetStringArray("no.such").status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
    EXPECT_EQ(PartsOf(status).code, "Q1110") << status;
    EXPECT_NE(PartsOf(status).what.find("no.such"), std::string::npos) << status;
  }
}

TEST(Access, WrongTypeNamesKeyOffsetAndBothTypes) {
  Bytes bytes = SmallFile();
  ASSERT_OPENS(file, bytes);
  for (const absl::Status& status :
       {file.GetInt("t.string").status(), file.GetInt("t.f32").status(), file.GetInt("t.ints").status(),
        file.GetInt("t.bool").status(), file.GetFloat("t.string").status(), file.GetFloat("t.ints").status(),
        file.GetBool("t.u8").status(), file.GetBool("t.bools").status(), file.GetString("t.u8").status(),
        file.GetString("t.strings").status(), file.GetIntArray("t.strings").status(),
        file.GetIntArray("t.f32").status(), file.GetBoolArray("t.ints").status(),
        file.GetFloatArray("t.strings").status(), file.GetStringArray("t.ints").status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    ErrorParts parts = PartsOf(status);
    EXPECT_EQ(parts.code, "Q1111") << status;
    EXPECT_NE(parts.where.find("test.gguf: key 't."), std::string::npos) << status;
    EXPECT_NE(parts.where.find("byte "), std::string::npos) << status;
    EXPECT_NE(parts.what.find("expected"), std::string::npos) << status;
  }
  EXPECT_NE(PartsOf(file.GetInt("t.ints").status()).what.find("array of 3 i32"), std::string::npos);
}

TEST(Access, U64AboveI64IsRefused) {
  Bytes bytes;
  bytes.Header(0, 1).Key("big", 10).U64(uint64_t{1} << 63);
  ASSERT_OPENS(file, bytes);
  EXPECT_EQ(PartsOf(file.GetInt("big").status()).code, "Q1112");
  EXPECT_EQ(PartsOf(file.GetIntArray("big").status()).code, "Q1112");
}

TEST(Open, ReadsAFileAndNamesWhatItCannot) {
  std::string path = ::testing::TempDir() + "good_files_test.gguf";
  Bytes bytes = SmallFile();
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.get().data()), static_cast<std::streamsize>(bytes.size()));
  absl::StatusOr<std::unique_ptr<File>> file = File::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->GetInt("t.u8").value(), 200);
  EXPECT_EQ((*file)->path(), path);

  absl::Status missing = File::Open(path + ".missing").status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound) << missing;
  EXPECT_EQ(PartsOf(missing).code, "Q1001") << missing;
  EXPECT_EQ(PartsOf(missing).where, path + ".missing");
  EXPECT_EQ(PartsOf(File::Open(::testing::TempDir()).status()).code, "Q1001");
  std::ofstream(path, std::ios::binary | std::ios::trunc).flush();
  EXPECT_EQ(PartsOf(File::Open(path).status()).code, "Q1002");
}

TEST(Open, WhatIsNoRegularFileIsRefusedAtOnce) {
  const fs::path folder = fs::path(::testing::TempDir()) / "good_files_test_kinds";
  fs::remove_all(folder);
  fs::create_directories(folder);
  const std::string fifo = (folder / "fifo.gguf").string(), loop = (folder / "loop.gguf").string();
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  fs::create_symlink(loop, loop);
  for (const std::string& path : {fifo, loop, std::string("/dev/zero"), folder.string()}) {
    const absl::Status status = File::Open(path).status();
    EXPECT_EQ(PartsOf(status).code, "Q1001") << status;
    EXPECT_EQ(PartsOf(status).where, path);
  }
  fs::remove_all(folder);
}

// A file that is written to while it is open; it was made an hour ago.
class ChangingFile : public ::testing::Test {
 protected:
  void SetUp() override {
    Write(path_, bytes_);
    fs::last_write_time(path_, fs::file_time_type::clock::now() - std::chrono::hours(1));
    absl::StatusOr<std::unique_ptr<File>> opened = File::Open(path_);
    ASSERT_TRUE(opened.ok()) << opened.status();
    file_ = *std::move(opened);
    EXPECT_TRUE(file_->CheckUnchanged().ok()) << file_->CheckUnchanged();
  }
  void TearDown() override { fs::remove(path_); }

  static void Write(const std::string& path, const std::vector<uint8_t>& bytes) {
    std::fstream out(path, std::ios::binary | std::ios::in | std::ios::out);
    if (!out.is_open()) out.open(path, std::ios::binary | std::ios::out);
    out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  void ExpectChanged(const absl::Status& status, const std::string& how) const {
    EXPECT_EQ(PartsOf(status).code, "Q1009") << status;
    EXPECT_NE(PartsOf(status).what.find(how), std::string::npos) << status;
    EXPECT_NE(PartsOf(status).where.find(path_), std::string::npos) << status;
  }

  const std::string path_ =
      ::testing::TempDir() + "good_files_test_changing_" + std::to_string(::getpid()) + ".gguf";
  std::vector<uint8_t> bytes_ = SmallFile().get();
  std::unique_ptr<File> file_;
};

TEST_F(ChangingFile, IsToldByItsLength) {
  fs::resize_file(path_, bytes_.size() + 5);
  ExpectChanged(file_->CheckUnchanged(), "it had " + std::to_string(bytes_.size()) + " bytes, now it has " +
                                             std::to_string(bytes_.size() + 5));
}

TEST_F(ChangingFile, IsToldByItsTime) {
  Write(path_, bytes_);
  ExpectChanged(file_->CheckUnchanged(), "written to");
}

TEST_F(ChangingFile, IsToldByItsName) {
  Write(path_ + ".other", bytes_);
  fs::rename(path_ + ".other", path_);
  ExpectChanged(file_->CheckUnchanged(), "replaced");
  fs::remove(path_);
  ExpectChanged(file_->CheckUnchanged(), "removed");
}

// Lengths of strings are read where they lie; what was checked when the file was opened need not be there.
TEST_F(ChangingFile, NoStringReachesBeyondItsValue) {
  for (const std::string key : {"t.string", "t.strings"}) {
    const std::string_view text(reinterpret_cast<const char*>(bytes_.data()), bytes_.size());
    const std::string written =
        key + (key == "t.string" ? std::string("\x08\0\0\0", 4)
                                 : std::string("\x09\0\0\0\x08\0\0\0\x03\0\0\0\0\0\0\0", 16));
    const size_t length = text.find(written);
    ASSERT_NE(length, std::string_view::npos);
    std::fill_n(bytes_.begin() + static_cast<std::ptrdiff_t>(length + written.size()), 8, uint8_t{0xff});
  }
  Write(path_, bytes_);
  ExpectChanged(file_->GetString("t.string").status(), "written to");
  ExpectChanged(file_->GetStringArray("t.strings").status(), "written to");
}

// A refused tensor is in no table, and yet ends what the one before it may take.
TEST(OpenForReport, ARefusedTensorBoundsTheOneBefore) {
  const std::string path = ::testing::TempDir() + "good_files_test_report.gguf";
  Bytes bytes;
  bytes.Header(2, 0)
      .TensorInfo("shared", {256, 16}, 42, 0)
      .TensorInfo("foreign", {256, 16}, 999, 64 * 18)
      .Pad()
      .Zeros(64 * 18 + 4096);
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.get().data()), static_cast<std::streamsize>(bytes.size()));
  absl::StatusOr<std::unique_ptr<File>> file = File::OpenForReport(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->FindTensor("shared")->format, Format::Q2_0);
  ASSERT_EQ((*file)->refused_tensors().size(), 1u);
  EXPECT_EQ((*file)->refused_tensors()[0].name, "foreign");
  EXPECT_EQ(PartsOf((*file)->refused_tensors()[0].error).code, "Q1207");
  EXPECT_EQ(PartsOf(File::Open(path).status()).code, "Q1207");
}

TEST(Error, PartsComeBackAndOtherStatusesPassThrough) {
  absl::Status status = MakeError("Q1234", "what", "where", "help");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  ErrorParts parts = PartsOf(status);
  EXPECT_EQ(parts.code, "Q1234");
  EXPECT_EQ(parts.what, "what");
  EXPECT_EQ(parts.where, "where");
  EXPECT_EQ(parts.help, "help");
  EXPECT_EQ(status.message(), "where: what [Q1234] (help)");
  parts = PartsOf(absl::InternalError("plain"));
  EXPECT_EQ(parts.what, "plain");
  EXPECT_TRUE(parts.code.empty() && parts.where.empty() && parts.help.empty());
  EXPECT_EQ(PartsOf(MakeError(absl::StatusCode::kNotFound, "Q1", "", "")).code, "Q1");
}

}  // namespace
}  // namespace qcc::gguf
