// The AOT cache as qcc and qrun share it: what it says holds, or is not said.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "runtime/aot/cache_layout.h"
#include "runtime/aot/file_stamp.h"
#include "runtime/aot/record.h"
#include "runtime/aot/request.h"
#include "tests/unit/temp_folder.h"

namespace qrt::aot {
namespace {

const std::string kKey(32, 'a'), kOther(32, 'b');

class AotTest : public ::testing::Test {
 protected:
  AotTest() { std::filesystem::create_directories(ArtifactFolder(cache_)); }

  std::string In(const std::string& name) const { return cache_ + "/" + name; }
  static void Put(const std::string& path, const std::string& text) { std::ofstream(path) << text; }
  // An artifact with its seal. Nothing here looks into it.
  void Publish(const std::string& key, const std::string& text) const {
    Put(ArtifactPath(cache_, key), text);
    ASSERT_TRUE(WriteSeal(cache_, key, {Hash128{1, 2, 3}, *FileStamp::Of(ArtifactPath(cache_, key))}));
  }

  const qrt::testing::TempFolder folder_;
  const std::string cache_ = folder_.path();
};

TEST_F(AotTest, AStampShowsEveryChange) {
  const std::string path = In("model");
  Put(path, "one");
  const auto stamp = FileStamp::Of(path);
  ASSERT_TRUE(stamp);
  EXPECT_EQ(FileStamp::Of(path), stamp);
  EXPECT_EQ(FileStamp::Parse(stamp->Text()), stamp);
  // Back to the same time, as `cp -p` does: what cannot be set tells.
  Put(path, "two");
  const timespec then = {stamp->modified / 1'000'000'000, stamp->modified % 1'000'000'000};
  const timespec times[] = {then, then};
  ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  EXPECT_EQ(FileStamp::Of(path)->modified, stamp->modified);
  for (int i = 0; i < 100 && FileStamp::Of(path) == stamp;
       ++i) {  // both in one tick of the file system's clock
    usleep(10'000);
    ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  }
  EXPECT_NE(FileStamp::Of(path), stamp);
  EXPECT_FALSE(FileStamp::Of(In("none")));
  EXPECT_FALSE(FileStamp::Of(cache_)) << "a folder";
}

TEST_F(AotTest, OnlyAStampParses) {
  for (const char* text :
       {"", "1 2 3", "1 2 3 4 5", "1 2 3 4 ", " 1 2 3 4", "1 2 3 x", "1  2 3 4", "-1 2 3 4"}) {
    EXPECT_FALSE(FileStamp::Parse(text)) << '"' << text << '"';
  }
}

TEST_F(AotTest, AFileIsSettledTwoSecondsAfterItsChange) {
  constexpr int64_t kSecond = 1'000'000'000;
  FileStamp stamp;
  stamp.modified = stamp.changed = 10 * kSecond;
  EXPECT_TRUE(IsSettled(stamp, 12 * kSecond));
  EXPECT_FALSE(IsSettled(stamp, 12 * kSecond - 1));
  EXPECT_FALSE(IsSettled(stamp, 5 * kSecond)) << "the clock was set back";
  stamp.modified = 0;
  EXPECT_FALSE(IsSettled(stamp, 11 * kSecond)) << "changed, with the old time set again";
  stamp.changed = 10 * kSecond;
  stamp.modified = 1000 * kSecond;
  EXPECT_TRUE(IsSettled(stamp, 12 * kSecond)) << "written in the future, by its time";
  EXPECT_FALSE(IsSettled(stamp, 999 * kSecond)) << "a write now could leave the same time";
}

TEST_F(AotTest, ARecordComesBackAsItWasOrNotAtAll) {
  const std::string path = In("record");
  const RecordLines lines = {"one", "", "three three"};
  EXPECT_FALSE(WriteRecord(path, "kind", {"two\nlines"}));
  EXPECT_FALSE(ReadRecord(path, "kind"));
  ASSERT_TRUE(WriteRecord(path, "kind", lines));
  EXPECT_EQ(ReadRecord(path, "kind"), lines);
  EXPECT_FALSE(ReadRecord(path, "other kind"));
  EXPECT_FALSE(ReadRecord(path, "kin"));
  std::ifstream file(path);
  const std::string whole((std::istreambuf_iterator<char>(file)), {});
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string changed = whole;
    changed[i] ^= 1;
    Put(path, changed);
    EXPECT_FALSE(ReadRecord(path, "kind")) << "byte " << i;
    Put(path, whole.substr(0, i));
    EXPECT_FALSE(ReadRecord(path, "kind")) << i << " bytes are left";
  }
  Put(path, whole);
  EXPECT_EQ(ReadRecord(path, "kind"), lines);
}

TEST_F(AotTest, OnlyASealedArtifactIsUsed) {
  EXPECT_FALSE(UseArtifact(cache_, kKey)) << "there is none";
  Put(ArtifactPath(cache_, kKey), "artifact");
  EXPECT_FALSE(UseArtifact(cache_, kKey)) << "it has no seal";
  Publish(kKey, "artifact");
  const auto use = UseArtifact(cache_, kKey);
  ASSERT_TRUE(use);
  EXPECT_EQ(use->path(), ArtifactPath(cache_, kKey));
  EXPECT_EQ(ReadSeal(cache_, kKey)->identity, (Hash128{1, 2, 3}));
  Put(ArtifactPath(cache_, kKey), "artifacts");
  EXPECT_FALSE(UseArtifact(cache_, kKey)) << "it was written to";
  Publish(kKey, "artifact");
  std::filesystem::copy_file(ArtifactFolder(cache_) + "/" + kKey + kSealSuffix,
                             ArtifactFolder(cache_) + "/" + kOther + kSealSuffix);
  std::filesystem::create_hard_link(ArtifactPath(cache_, kKey), ArtifactPath(cache_, kOther));
  EXPECT_FALSE(UseArtifact(cache_, kOther)) << "another one's seal";
}

TEST_F(AotTest, WhatIsInUseIsLocked) {
  Publish(kKey, "artifact");
  const int fd = open(ArtifactPath(cache_, kKey).c_str(), O_RDONLY);
  ASSERT_GE(fd, 0);
  {
    auto use = UseArtifact(cache_, kKey);
    ASSERT_TRUE(use);
    auto second = UseArtifact(cache_, kKey);
    EXPECT_TRUE(second) << "by several at once";
    const ArtifactInUse moved = *std::move(use);
    second.reset();
    EXPECT_NE(flock(fd, LOCK_EX | LOCK_NB), 0) << "nobody may remove it";
  }
  EXPECT_EQ(flock(fd, LOCK_EX | LOCK_NB), 0);
  EXPECT_FALSE(UseArtifact(cache_, kKey)) << "it is being removed";
  close(fd);
}

TEST_F(AotTest, ARequestIsNamedByAllThatItIs) {
  Put(In("model"), "m");
  std::filesystem::create_symlink("model", In("link"));
  const std::string name = RequestName(In("model"), "/bin/qcc", {"--kv=f32"});
  EXPECT_EQ(name.size(), 32u);
  EXPECT_EQ(RequestName(In("link"), "/bin/qcc", {"--kv=f32"}), name) << "the same file";
  EXPECT_NE(RequestName(In("model"), "/bin/qcc", {}), name);
  EXPECT_NE(RequestName(In("model"), "/opt/qcc", {"--kv=f32"}), name);
  EXPECT_NE(RequestName(In("model"), "/bin/qcc", {"--kv=f32", "--target=cpu"}), name);
  EXPECT_NE(RequestName(In("model"), "/bin/qcc", {"--kv=f32\n--target=cpu"}),
            RequestName(In("model"), "/bin/qcc", {"--kv=f32", "--target=cpu"}));
  EXPECT_EQ(RequestName(In("none"), "/bin/qcc", {}), "");
}

TEST_F(AotTest, WhatCannotBeReadIsNotWhatIsNotThere) {
  Publish(kKey, "artifact");
  bool unread = true;
  EXPECT_TRUE(ReadSeal(cache_, kKey, &unread));
  EXPECT_FALSE(unread);
  EXPECT_FALSE(ReadSeal(cache_, kOther, &unread));
  EXPECT_FALSE(unread) << "there is none";
  rlimit files;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  const rlimit none = {0, files.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  EXPECT_FALSE(ReadSeal(cache_, kKey, &unread));
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
  EXPECT_TRUE(unread) << "too many open files";
}

// What an option names by a relative path is another file in another folder, or none.
TEST_F(AotTest, AFileOfAnOptionIsTheOneInThisFolder) {
  Put(In("model"), "m");
  const std::filesystem::path before = std::filesystem::current_path();
  std::vector<std::string> names;
  for (const char* folder : {"one", "two", "empty"}) {
    std::filesystem::create_directory(In(folder));
    if (folder != std::string("empty")) Put(In(folder) + "/block", "b");
    std::filesystem::current_path(In(folder));
    names.push_back(RequestName(In("model"), "/bin/qcc", {"--mtp=block"}));
  }
  EXPECT_NE(names[0], names[1]) << "another folder's file";
  EXPECT_NE(names[0], names[2]) << "no file";
  std::filesystem::create_symlink(In("one") + "/block", In("empty") + "/block");
  EXPECT_NE(RequestName(In("model"), "/bin/qcc", {"--mtp=block"}), names[2]);
  std::filesystem::current_path(In("one"));
  EXPECT_EQ(RequestName(In("model"), "/bin/qcc", {"--mtp=block"}), names[0]);
  std::filesystem::current_path(before);
}

// As a download cache lays them out: the first shards of two models may be links to one file. The others are
// those beside the name that was given.
TEST_F(AotTest, AShardIsNamedByWhereItsSiblingsAre) {
  Put(In("blob"), "first");
  std::vector<std::string> names, blocks;
  for (const char* folder : {"a", "b"}) {
    std::filesystem::create_directory(In(folder));
    const std::string path = In(folder) + "/m-00001-of-00002.gguf";
    std::filesystem::create_symlink(In("blob"), path);
    EXPECT_EQ(RequestPath(path), path);
    names.push_back(RequestName(path, "/bin/qcc", {}));
    blocks.push_back(RequestName(In("blob"), "/bin/qcc", {"--mtp=m-00001-of-00002.gguf"}));
    const std::filesystem::path before = std::filesystem::current_path();
    std::filesystem::current_path(In(folder));
    EXPECT_EQ(RequestName("m-00001-of-00002.gguf", "/bin/qcc", {}), names.back());
    blocks.push_back(RequestName(In("blob"), "/bin/qcc", {"--mtp=m-00001-of-00002.gguf"}));
    std::filesystem::current_path(before);
  }
  EXPECT_NE(names[0], names[1]);
  EXPECT_EQ(blocks[0], blocks[2]) << "no such file in this folder";
  EXPECT_NE(blocks[1], blocks[3]);
  EXPECT_EQ(RequestPath(In("a/m-00002-of-00002.gguf")), "") << "there is none";
  std::filesystem::create_directory(In("a-of-b"));
  std::filesystem::create_symlink(In("blob"), In("a-of-b/m"));
  EXPECT_EQ(RequestPath(In("a-of-b/m")), std::filesystem::canonical(In("blob"))) << "a folder's name";
}

// A link is followed anew: what it leads to now is another file.
TEST_F(AotTest, AnAnswerEndsWithALinkThatLeadsElsewhere) {
  Put(In("one"), "1");
  Put(In("two"), "2");
  Publish(kKey, "artifact");
  std::filesystem::create_symlink("one", In("link"));
  ASSERT_TRUE(WriteAnswer(cache_, kOther, {kKey, {{In("link"), *FileStamp::Of(In("link"))}}}));
  EXPECT_TRUE(FindAnswered(cache_, kOther));
  std::filesystem::remove(In("link"));
  std::filesystem::create_symlink("two", In("link"));
  EXPECT_FALSE(FindAnswered(cache_, kOther));
}

TEST_F(AotTest, AnAnswerHoldsWhileItsFilesAreUnchanged) {
  Put(In("model"), "m");
  Put(In("qcc"), "q");
  Publish(kKey, "artifact");
  const auto answer = [&] {
    return Answer{kKey, {{In("model"), *FileStamp::Of(In("model"))}, {In("qcc"), *FileStamp::Of(In("qcc"))}}};
  };
  EXPECT_FALSE(FindAnswered(cache_, kOther));
  ASSERT_TRUE(WriteAnswer(cache_, kOther, answer()));
  EXPECT_TRUE(FindAnswered(cache_, kOther));
  for (const char* name : {"model", "qcc"}) {
    Put(In(name), "longer");
    EXPECT_FALSE(FindAnswered(cache_, kOther)) << name << " changed";
    ASSERT_TRUE(WriteAnswer(cache_, kOther, answer()));
    EXPECT_TRUE(FindAnswered(cache_, kOther));
  }
  std::filesystem::remove(In("qcc"));
  EXPECT_FALSE(FindAnswered(cache_, kOther)) << "the compiler is gone";
  Put(In("qcc"), "q");
  ASSERT_TRUE(WriteAnswer(cache_, kOther, answer()));
  std::filesystem::remove(ArtifactPath(cache_, kKey));
  EXPECT_FALSE(FindAnswered(cache_, kOther)) << "the artifact is gone";
}

TEST_F(AotTest, NamesOfTheCache) {
  EXPECT_EQ(CacheSuffix(kKey + ".qbin"), kArtifactSuffix);
  EXPECT_EQ(CacheSuffix(kKey + ".code"), kCodeSuffix);
  EXPECT_TRUE(IsOfDriver(CacheSuffix(kKey + ".cubin")));
  EXPECT_TRUE(IsOfDriver(CacheSuffix(kKey + ".vkpipelines")));
  EXPECT_FALSE(IsOfDriver(CacheSuffix(kKey + ".code")));
  for (const std::string& name : {kKey, kKey + ".txt", kKey + "a.qbin", kKey.substr(1) + ".qbin",
                                  std::string(32, 'A') + ".qbin", kKey + ".qbin.tmp-1", std::string()}) {
    EXPECT_EQ(CacheSuffix(name), "") << name;
  }
}

}  // namespace
}  // namespace qrt::aot
