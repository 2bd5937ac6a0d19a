// What the writer writes, the reader reads; and a file under its final name is always whole.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "frontends/base/error.h"
#include "frontends/gguf/gguf.h"
#include "frontends/gguf/writer.h"

namespace qcc::gguf {
namespace {

Writer Example(uint32_t alignment = 32) {
  Writer writer(alignment);
  writer.AddString("general.architecture", "test");
  writer.AddU32("u32", 7);
  writer.AddU64("u64", uint64_t{1} << 40);
  writer.AddI32("i32", -7);
  writer.AddF32("f32", 0.25f);
  writer.AddBool("bool", true);
  writer.AddI32Array("ints", std::vector<int32_t>{1, -2, 3});
  writer.AddF32Array("floats", std::vector<float>{0.5f, -0.5f});
  writer.AddBoolArray("bools", {true, false, true});
  writer.AddStringArray("strings", std::vector<std::string>{"a", "", "long text"});
  writer.AddEncoded("i16", ValueType::I16, std::string_view("\xfe\xff", 2));
  writer.AddTensor("a", Format::F32, {3, 2});
  writer.AddTensor("b", Format::Q8_0, {64});
  writer.AddTensor("c", Format::F16, {1});
  return writer;
}

// Every byte of a tensor is its index in the tensor plus the name's letter, in pieces of uneven length.
absl::Status FillExample(const Writer::TensorInfo& info, const Writer::Sink& sink) {
  std::vector<uint8_t> bytes(info.bytes);
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<uint8_t>(i + static_cast<uint8_t>(info.name[0]));
  size_t middle = bytes.size() / 3;
  std::span<const uint8_t> all(bytes);
  if (absl::Status s = sink(all.first(middle)); !s.ok()) return s;
  return sink(all.subspan(middle));
}

std::string TestDirectory() {
  std::string dir = ::testing::TempDir() + "writer_test_" + std::to_string(::getpid());
  std::filesystem::create_directories(dir);
  return dir;
}

size_t FilesIn(const std::string& dir) {
  size_t n = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(dir)) ++n;
  return n;
}

TEST(Writer, ReaderReadsItBack) {
  for (uint32_t alignment : {8u, 32u, 4096u}) {
    std::string dir = TestDirectory();
    std::string path = dir + "/model.gguf";
    Writer writer = Example(alignment);
    absl::Status status = writer.WriteFile(path, FillExample);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(std::filesystem::file_size(path), writer.FileBytes()) << "alignment " << alignment;
    auto opened = File::Open(path);
    ASSERT_TRUE(opened.ok()) << opened.status();
    const File& file = **opened;
    EXPECT_EQ(file.GetString("general.architecture").value(), "test");
    EXPECT_EQ(file.GetInt("u32").value(), 7);
    EXPECT_EQ(file.GetInt("u64").value(), int64_t{1} << 40);
    EXPECT_EQ(file.GetInt("i32").value(), -7);
    EXPECT_EQ(file.GetInt("i16").value(), -2);
    EXPECT_EQ(file.GetFloat("f32").value(), 0.25);
    EXPECT_TRUE(file.GetBool("bool").value());
    EXPECT_EQ(file.GetIntArray("ints").value(), (std::vector<int64_t>{1, -2, 3}));
    EXPECT_EQ(file.GetFloatArray("floats").value(), (std::vector<float>{0.5f, -0.5f}));
    EXPECT_EQ(file.GetBoolArray("bools").value(), (std::vector<bool>{true, false, true}));
    EXPECT_EQ(file.GetStringArray("strings").value(), (std::vector<std::string_view>{"a", "", "long text"}));
    ASSERT_EQ(file.tensors().size(), 3u);
    for (const Tensor& tensor : file.tensors()) {
      EXPECT_EQ(tensor.file_offset % alignment, 0u) << tensor.name;
      for (uint64_t i = 0; i < tensor.bytes; ++i) {
        ASSERT_EQ(tensor.data[i], static_cast<uint8_t>(i + static_cast<uint8_t>(tensor.name[0])))
            << tensor.name << " byte " << i << " alignment " << alignment;
      }
    }
    EXPECT_EQ(file.FindTensor("a")->ne, (std::array<int64_t, 4>{3, 2, 1, 1}));
    EXPECT_EQ(FilesIn(dir), 1u) << "a temporary file was left behind";
    std::filesystem::remove_all(dir);
  }
}

TEST(Writer, TheSameInputGivesTheSameBytes) {
  std::vector<uint8_t> a, b;
  for (std::vector<uint8_t>* out : {&a, &b}) {
    absl::Status status = Example().WriteTo(FillExample, [&](std::span<const uint8_t> bytes) {
      out->insert(out->end(), bytes.begin(), bytes.end());
      return absl::OkStatus();
    });
    ASSERT_TRUE(status.ok()) << status;
  }
  EXPECT_EQ(a, b);
  EXPECT_EQ(a.size(), Example().FileBytes());
}

TEST(Writer, AFailureLeavesTheOldFileAndNoTemporary) {
  std::string dir = TestDirectory();
  std::string path = dir + "/model.gguf";
  ASSERT_TRUE(Example().WriteFile(path, FillExample).ok());
  uint64_t size = std::filesystem::file_size(path);
  auto fail = [](const Writer::TensorInfo& info, const Writer::Sink& sink) {
    if (info.name == "b") return absl::CancelledError("stopped");
    return FillExample(info, sink);
  };
  absl::Status status = Example().WriteFile(path, fail);
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
  EXPECT_EQ(std::filesystem::file_size(path), size);
  EXPECT_EQ(FilesIn(dir), 1u) << "a temporary file was left behind";
  std::filesystem::remove_all(dir);
}

TEST(Writer, TooFewOrTooManyBytesAreAnError) {
  for (int difference : {-1, 1}) {
    auto wrong = [&](const Writer::TensorInfo& info, const Writer::Sink& sink) {
      return sink(std::vector<uint8_t>(info.bytes + static_cast<uint64_t>(difference)));
    };
    absl::Status status = Example().WriteTo(wrong, [](std::span<const uint8_t>) { return absl::OkStatus(); });
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
    EXPECT_NE(status.message().find("'a'"), std::string::npos) << status;
  }
}

TEST(Writer, NamesThePathThatItCannotWrite) {
  absl::Status status = Example().WriteFile("/no/such/folder/model.gguf", FillExample);
  EXPECT_EQ(PartsOf(status).code, "Q6002") << status;
  EXPECT_EQ(PartsOf(status).where, "/no/such/folder/model.gguf");
}

}  // namespace
}  // namespace qcc::gguf
