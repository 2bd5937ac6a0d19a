// Split models: any shard opens the set; what is missing, doubled, reordered or of another model is named.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "frontends/base/error.h"
#include "frontends/gguf/checks.h"
#include "frontends/gguf/gguf.h"
#include "tests/unit/gguf/bytes.h"

namespace qcc::gguf {
namespace {

namespace fs = std::filesystem;
using testing::Bytes;

// A shard of f32 vectors of 8 values, which are all `value`.
struct Shard {
  int64_t no = 0, count = 3, total = 4;
  std::vector<std::string> tensors;
  float value = 0;
  bool metadata = false;                   // those of the model
  std::string name = "a model";            // general.name, where there are metadata
  std::function<void(Bytes&)> extra = {};  // one more entry
  std::vector<std::string> without = {};   // keys that are left out
  bool has(const char* key) const {
    for (const std::string& left_out : without)
      if (left_out == key) return false;
    return true;
  }

  Bytes bytes() const {
    const bool has_no = has("split.no"), has_total = has("split.tensors.count"),
               has_count = has("split.count");
    Bytes b;
    b.Header(tensors.size(), (metadata ? 2 : 0) + (extra ? 1 : 0) + has_no + has_total + has_count);
    if (metadata) b.KvStr("general.architecture", "test").KvStr("general.name", name);
    if (has_no) b.Key("split.no", 2).Le<uint16_t>(static_cast<uint16_t>(no));
    if (has_count) b.Key("split.count", 2).Le<uint16_t>(static_cast<uint16_t>(count));
    if (has_total) b.Key("split.tensors.count", 5).U32(static_cast<uint32_t>(total));
    if (extra) extra(b);
    for (size_t i = 0; i < tensors.size(); ++i) b.TensorInfo(tensors[i], {8}, 0, 32 * i);
    b.Pad();
    uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    for (size_t i = 0; i < 8 * tensors.size(); ++i) b.U32(bits);
    return b;
  }
};

class Shards : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("qcc_shards_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
    set_ = {{.no = 0, .tensors = {"a"}, .value = 1, .metadata = true},
            {.no = 1, .tensors = {"b", "c"}, .value = 2},
            {.no = 2, .tensors = {"d"}, .value = 3}};
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string Path(int number, int count = 3) const {
    char tail[40];
    std::snprintf(tail, sizeof tail, "m-%05d-of-%05d.gguf", number, count);
    return (folder_ / tail).string();
  }
  static void Write(const std::string& path, const Bytes& bytes) {
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.get().data()), static_cast<std::streamsize>(bytes.size()));
  }
  void WriteAll() const {
    for (size_t i = 0; i < set_.size(); ++i) Write(Path(static_cast<int>(i) + 1), set_[i].bytes());
  }
  // Whichever of the shards there are is opened, the error is of this code and names all of `parts`.
  void ExpectRefused(const std::string& code, const std::vector<std::string>& parts) const {
    for (int number = 1; number <= 3; ++number) {
      if (!fs::exists(Path(number))) continue;
      SCOPED_TRACE("opened: shard " + std::to_string(number));
      ExpectRefused(Path(number), code, parts);
    }
  }
  static void ExpectRefused(const std::string& path, const std::string& code,
                            const std::vector<std::string>& parts) {
    const absl::Status status = File::Open(path).status();
    const ErrorParts error = PartsOf(status);
    EXPECT_EQ(error.code, code) << status;
    const std::string text = error.what + " | " + error.where;
    for (const std::string& part : parts)
      EXPECT_NE(text.find(part), std::string::npos) << "\"" << part << "\" is not named in: " << text;
    EXPECT_EQ(error.help.empty(), code == "Q1001") << status;
  }

  fs::path folder_;
  std::vector<Shard> set_;
};

TEST_F(Shards, AnyOfThemNamesTheSet) {
  WriteAll();
  for (int number : {1, 2, 3}) {
    SCOPED_TRACE(number);
    absl::StatusOr<std::unique_ptr<File>> opened = File::Open(Path(number));
    ASSERT_TRUE(opened.ok()) << opened.status();
    const File& file = **opened;
    EXPECT_EQ(file.path(), Path(1)) << "metadata are the first shard's";
    EXPECT_EQ(file.GetString("general.name").value(), "a model");
    ASSERT_EQ(file.tensors().size(), 4u);
    std::string names;
    for (const Tensor& tensor : file.tensors()) {
      names += tensor.name;
      const int expected = tensor.name == "a" ? 0 : tensor.name == "d" ? 2 : 1;
      EXPECT_EQ(tensor.shard, expected);
      EXPECT_EQ(file.PathOf(tensor), Path(expected + 1));
      float value = 0;
      std::memcpy(&value, tensor.data, sizeof value);
      EXPECT_EQ(value, expected + 1) << tensor.name;
      EXPECT_EQ(file.FindTensor(tensor.name), &tensor);
      EXPECT_EQ(tensor.data, file.shards()[expected].bytes.data() + tensor.file_offset);
    }
    EXPECT_EQ(names, "abcd") << "in the order of the shards, not of the opening";
    ASSERT_EQ(file.shards().size(), 3u);
    EXPECT_EQ(file.shards()[2].path, Path(3));
    uint64_t size = 0;
    for (int i : {1, 2, 3}) size += fs::file_size(Path(i));
    EXPECT_EQ(file.size(), size);
  }
}

// A file of the model, with a table of ids, and one in shards of which two tensors are taken along.
TEST_F(Shards, AnotherFileIsTakenAlong) {
  WriteAll();
  const std::string path = (folder_ / "model.gguf").string();
  Bytes b;
  b.Header(2, 1).KvStr("general.name", "the model").TensorInfo("a", {8}, 0, 0).TensorInfo("ids", {3}, 27, 32);
  b.Pad();
  for (int i = 0; i < 8; ++i) b.U32(0);
  for (const int64_t id : {int64_t{7}, int64_t{-1}, int64_t{1} << 40}) b.Le<int64_t>(id);
  Write(path, b);
  auto file = File::Open(path), other = File::Open(Path(1));
  ASSERT_TRUE(file.ok() && other.ok()) << file.status() << other.status();
  EXPECT_EQ((*file)->tensors().size(), 1u);
  const IntegerTensor* ids = (*file)->FindIntegers("ids");
  ASSERT_NE(ids, nullptr);
  ASSERT_EQ(ids->elements(), 3);
  EXPECT_EQ(ids->at(0), 7);
  EXPECT_EQ(ids->at(1), -1);
  EXPECT_EQ(ids->at(2), int64_t{1} << 40);
  EXPECT_EQ((*file)->joined(), nullptr);

  const auto names = [](const std::string& name) {
    return name == "b" ? "other" : name == "d" ? name : std::string();
  };
  ASSERT_TRUE((*file)->Join(*std::move(other), names).ok());
  ASSERT_EQ((*file)->tensors().size(), 3u);
  for (const auto& [name, shard, value] :
       {std::tuple("a", 0, 0.f), std::tuple("other", 2, 2.f), std::tuple("d", 3, 3.f)}) {
    const Tensor* tensor = (*file)->FindTensor(name);
    ASSERT_NE(tensor, nullptr) << name;
    EXPECT_EQ(tensor->shard, shard) << name;
    EXPECT_EQ((*file)->PathOf(*tensor), shard == 0 ? path : Path(shard)) << name;
    EXPECT_EQ(tensor->data, (*file)->shards()[shard].bytes.data() + tensor->file_offset) << name;
    float found = 0;
    std::memcpy(&found, tensor->data, sizeof found);
    EXPECT_EQ(found, value) << name;
  }
  EXPECT_EQ((*file)->GetString("general.name").value(), "the model");
  ASSERT_NE((*file)->joined(), nullptr);
  EXPECT_EQ((*file)->joined()->GetString("general.name").value(), "a model");
  EXPECT_NE((*file)->joined()->FindTensor("c"), nullptr);
  EXPECT_EQ((*file)->shards().size(), 4u);
  EXPECT_TRUE((*file)->CheckUnchanged().ok());
  fs::remove(Path(2));
  EXPECT_EQ(PartsOf((*file)->CheckUnchanged()).code, "Q1009") << "what was taken along is gone";

  auto again = File::Open(path), same = File::Open(path);
  ASSERT_TRUE(again.ok() && same.ok());
  EXPECT_EQ(PartsOf((*again)->Join(*std::move(same), [](const std::string& name) { return name; })).code,
            "Q1202");
}

TEST_F(Shards, TheFirstMayHoldNoTensorsAndLaterOnesAllMetadata) {
  set_[0].tensors.clear();
  for (Shard& shard : set_) {
    shard.total = 3;
    shard.metadata = true;
  }
  WriteAll();
  absl::StatusOr<std::unique_ptr<File>> file = File::Open(Path(2));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->tensors().size(), 3u);
  EXPECT_EQ((*file)->tensors()[0].shard, 1);
}

TEST_F(Shards, EachHasItsOwnAlignment) {
  set_[1].extra = [](Bytes& b) { b.KvU32("general.alignment", 16); };
  WriteAll();
  EXPECT_TRUE(File::Open(Path(1)).ok()) << File::Open(Path(1)).status();
}

TEST_F(Shards, SymbolicLinksAreFollowedByTheNamesThatTheyHave) {
  const fs::path blobs = folder_ / "blobs";
  fs::create_directories(blobs);
  for (size_t i = 0; i < set_.size(); ++i) {
    Write((blobs / std::to_string(i)).string(), set_[i].bytes());
    fs::create_symlink(blobs / std::to_string(i), Path(static_cast<int>(i) + 1));
  }
  EXPECT_TRUE(File::Open(Path(3)).ok()) << File::Open(Path(3)).status();
}

TEST_F(Shards, AMissingOneIsNamed) {
  WriteAll();
  fs::remove(Path(2));
  ExpectRefused("Q1404", {"shard 2 of 3", "missing", Path(2)});
  fs::create_directories(Path(2));
  ExpectRefused(Path(1), "Q1404", {"shard 2 of 3", "not a regular file"});
}

TEST_F(Shards, ADoubledOneIsNamed) {
  WriteAll();
  Write(Path(3), set_[1].bytes());
  ExpectRefused(Path(1), "Q1405", {"shard 2 of 3", "expected shard 3 of 3", Path(3)});
  ExpectRefused(Path(3), "Q1403", {"shard 3 of 3 by its name", "shard 2 of 3 by its metadata", Path(3)});
}

TEST_F(Shards, ReorderedOnesAreNamed) {
  WriteAll();
  Write(Path(1), set_[2].bytes());
  Write(Path(3), set_[0].bytes());
  ExpectRefused(Path(2), "Q1405", {"shard 3 of 3", "expected shard 1 of 3", Path(1)});
  ExpectRefused(Path(1), "Q1403", {"shard 1 of 3 by its name", "shard 3 of 3 by its metadata"});
}

TEST_F(Shards, OfAnotherNumberThanTheNameSays) {
  for (Shard& shard : set_) shard.count = 4;
  WriteAll();
  ExpectRefused("Q1403", {"of 3 by its name", "of 4 by its metadata"});
  set_[0].count = set_[2].count = 3;
  WriteAll();
  ExpectRefused(Path(1), "Q1405", {"shard 2 of 4", "expected shard 2 of 3", Path(2)});
}

TEST_F(Shards, AWholeModelAmongThemIsNamed) {
  WriteAll();
  Shard whole = set_[1];
  whole.no = 0;
  for (int64_t count : {0, 1}) {
    whole.count = count;
    Write(Path(2), whole.bytes());
    ExpectRefused(Path(1), "Q1405", {"a whole model", "shard 2 of 3", Path(2)});
    EXPECT_TRUE(File::Open(Path(2)).ok()) << "a whole model of that name is one";
  }
}

TEST_F(Shards, TheirTensorsMustBeAsManyAsTheySay) {
  for (Shard& shard : set_) shard.total = 5;
  WriteAll();
  ExpectRefused("Q1406", {"3 shards", "4 tensors", "expected 5"});
  set_[0].total = set_[1].total = 4;
  WriteAll();
  ExpectRefused(Path(1), "Q1405", {"shard 3 of 3", "5 tensors", "4", Path(3)});
}

TEST_F(Shards, ANumberOfTensorsThatCannotBeIsRefused) {
  for (int64_t total : {0, -1}) {
    for (Shard& shard : set_) shard.total = total;
    WriteAll();
    ExpectRefused("Q1406", {"4 tensors together", "expected " + std::to_string(total)});
  }
}

TEST_F(Shards, ATensorInTwoOfThemIsNamed) {
  set_[2].tensors = {"b"};
  WriteAll();
  ExpectRefused("Q1202", {"'b'", "shard 3 of 3", "shard 2 of 3", Path(3)});
}

TEST_F(Shards, OneOfAnotherModelIsNamed) {
  set_[1].metadata = true;
  set_[1].name = "another model";
  WriteAll();
  ExpectRefused("Q1405", {"'general.name'", "shard 2 of 3", "another value", Path(2)});
  set_[1].name = "a model";
  set_[2].extra = [](Bytes& b) { b.KvArray("test.array", 8, 2).Str("x").Str("y"); };
  WriteAll();
  ExpectRefused("Q1405", {"'test.array'", "shard 3 of 3", "not in the first", Path(3)});
  set_[0].extra = [](Bytes& b) { b.KvArray("test.array", 8, 2).Str("x").Str("z"); };
  WriteAll();
  ExpectRefused("Q1405", {"'test.array'", "another value"});
  set_[0].extra = set_[2].extra;
  WriteAll();
  EXPECT_TRUE(File::Open(Path(1)).ok()) << File::Open(Path(1)).status();
}

TEST_F(Shards, WhatIsWrongInASiblingIsAnErrorOfThatFile) {
  WriteAll();
  Bytes cut = set_[2].bytes();
  std::ofstream(Path(3), std::ios::binary)
      .write(reinterpret_cast<const char*>(cut.get().data()), static_cast<std::streamsize>(cut.size() - 8));
  ExpectRefused(Path(1), "Q1212", {Path(3), "'d'"});
  Write(Path(3), Bytes().Raw("not a model at all, is it?"));
  ExpectRefused(Path(1), "Q1003", {Path(3)});
}

TEST_F(Shards, ImpossibleKeysAreRefused) {
  const auto alone = [&](Shard shard, const std::string& code, const std::vector<std::string>& parts) {
    Write(Path(2), shard.bytes());
    ExpectRefused(Path(2), code, parts);
  };
  WriteAll();
  Shard shard = set_[1];
  shard.no = 3;
  alone(shard, "Q1402", {"split.no is 3", "split.count is 3"});
  shard.no = 65535;
  alone(shard, "Q1402", {"split.no is 65535"});
  shard.count = 1;
  alone(shard, "Q1402", {"split.no is 65535", "split.count is 1"});
  shard = set_[1];
  shard.count = 65535;
  alone(shard, "Q1403", {"shard 2 of 3 by its name", "shard 2 of 65535"});
  for (const char* key : {"split.no", "split.tensors.count"}) {
    shard = set_[1];
    shard.without = {key};
    alone(shard, "Q1402", {key, "missing", "3 shards"});
  }
  shard = set_[1];
  shard.without = {"split.count"};
  alone(shard, "Q1402", {"split.no is 1", "split.count is 0"});
  shard.extra = [](Bytes& b) { b.Key("split.count", 5).U32(0xffffffffu); };
  alone(shard, "Q1402", {"split.count is -1", "expected 0 (a whole model) to 65535"});
  shard = set_[1];
  shard.count = 0;
  alone(shard, "Q1402", {"split.no is 1", "split.count is 0"});
}

TEST_F(Shards, ANameThatIsNoShardsNameFindsNoSiblings) {
  for (const char* name : {"model.gguf", "m-0001-of-00003.gguf", "m-00002-of-00003.GGUF",
                           "m-00002-of-0000x.gguf", "m_00002-of-00003.gguf"}) {
    const std::string path = (folder_ / name).string();
    Write(path, set_[1].bytes());
    ExpectRefused(path, "Q1401", {"shard 2 of 3", path});
  }
}

// Names are never made of metadata, and what stands in a stem is never taken for a form.
TEST_F(Shards, OddStemsAreJustStems) {
  for (const char* stem : {"%s%n", "..", "", "a-00001-of-00002"}) {
    const auto path = [&](int number) {
      return (folder_ / (std::string(stem) + "-0000" + std::to_string(number) + "-of-00003.gguf")).string();
    };
    for (int i = 0; i < 3; ++i) Write(path(i + 1), set_[i].bytes());
    EXPECT_TRUE(File::Open(path(2)).ok()) << stem << ": " << File::Open(path(2)).status();
  }
  const std::string longest(4000, 'x');
  ExpectRefused((folder_ / (longest + "-00001-of-00003.gguf")).string(), "Q1001", {"cannot open"});
}

TEST_F(Shards, AReportShowsTheSetOrSaysWhyNot) {
  WriteAll();
  absl::StatusOr<std::unique_ptr<File>> file = File::OpenForReport(Path(2));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE((*file)->refused().empty()) << (*file)->refused()[0];
  EXPECT_EQ((*file)->tensors().size(), 4u);
  fs::remove(Path(1));
  file = File::OpenForReport(Path(2));
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ((*file)->refused().size(), 1u);
  EXPECT_EQ(PartsOf((*file)->refused()[0]).code, "Q1404");
  EXPECT_EQ((*file)->path(), Path(2));
  EXPECT_EQ((*file)->tensors().size(), 2u);
}

TEST_F(Shards, AWeightThatIsNotFiniteIsNamedWithItsFile) {
  set_[1].value = std::numeric_limits<float>::infinity();
  WriteAll();
  absl::StatusOr<std::unique_ptr<File>> file = File::Open(Path(1));
  ASSERT_TRUE(file.ok()) << file.status();
  const absl::Status status = CheckFinite(**file, *(*file)->FindTensor("c"));
  EXPECT_EQ(PartsOf(status).code, "Q1214") << status;
  EXPECT_NE(PartsOf(status).where.find(Path(2)), std::string::npos) << status;
}

}  // namespace
}  // namespace qcc::gguf
