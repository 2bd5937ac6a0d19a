// What is kept between compiles: it comes back as it was, or not at all.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "compiler/cache/artifact_store.h"
#include "compiler/cache/cache_folder.h"
#include "compiler/cache/code_store.h"
#include "compiler/cache/compiler_identity.h"
#include "runtime/aot/cache_layout.h"
#include "tests/unit/runtime/artifact_sample.h"
#include "tests/unit/temp_folder.h"

namespace qcc::compiler {
namespace {

std::vector<uint8_t> Code(size_t size, uint8_t first = 1) {
  std::vector<uint8_t> bytes(size);
  std::iota(bytes.begin(), bytes.end(), first);
  return bytes;
}

class CacheTest : public testing::Test {
 protected:
  std::unique_ptr<CodeStore> Open(const std::string& identity = "this") {
    auto store = CodeStore::Open(folder_, identity);
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }
  std::vector<CacheEntry> Entries() const {
    auto entries = CacheEntries(cache_);
    EXPECT_TRUE(entries.ok()) << entries.status();
    return entries.ok() ? *entries : std::vector<CacheEntry>();
  }
  static void SetAge(const std::string& path, time_t seconds) {
    const timespec at = {std::time(nullptr) - seconds, 0}, times[] = {at, at};
    ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0) << path;
  }
  void Leave(const std::string& name) const { std::ofstream(folder_ + "/" + name) << "x"; }
  bool Has(const std::string& name) const { return std::filesystem::exists(folder_ + "/" + name); }

  const qrt::testing::TempFolder temp_;
  const std::string cache_ = temp_.File("a"), folder_ = qrt::aot::CodeFolder(cache_);  // of its code
};

TEST_F(CacheTest, GivesBackWhatItWasGiven) {
  auto store = Open();
  EXPECT_TRUE(store->Find("a").empty());
  store->Keep("a", Code(5000));
  store->Keep("b", Code(1));
  EXPECT_EQ(store->Find("a"), Code(5000));
  EXPECT_EQ(Open()->Find("b"), Code(1)) << "in another run";
  EXPECT_EQ(store->found(), 1u);
  EXPECT_EQ(store->missed(), 1u);
  struct stat found;
  ASSERT_EQ(stat(folder_.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0700u) << "code that others could write would be run";
}

TEST_F(CacheTest, AnotherCompilersCodeIsNotTaken) {
  Open("this")->Keep("a", Code(100));
  EXPECT_TRUE(Open("that")->Find("a").empty());
  EXPECT_EQ(Open("this")->Find("a"), Code(100)) << "it stays for who made it";
}

TEST_F(CacheTest, DamagedCodeIsGone) {
  auto store = Open();
  const std::vector<uint8_t> code = Code(300);
  for (const off_t at : {0, 7, 8, 23, 24, 100, 323}) {
    store->Keep("a", code);
    const std::string path = Entries().at(0).path;
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekg(at);
    const char byte = static_cast<char>(file.get());
    file.seekp(at);
    file.put(static_cast<char>(byte ^ 0x10));
    file.close();
    EXPECT_TRUE(CodeStore::Read(path).empty()) << "byte " << at;
    EXPECT_TRUE(store->Find("a").empty()) << "byte " << at;
    EXPECT_TRUE(Entries().empty()) << "byte " << at;
  }
  for (const size_t size : {size_t{0}, size_t{8}, size_t{24}, size_t{323}}) {
    store->Keep("a", code);
    std::filesystem::resize_file(Entries().at(0).path, size);
    EXPECT_TRUE(store->Find("a").empty()) << size << " bytes are left";
  }
  store->Keep("a", code);
  EXPECT_EQ(store->Find("a"), code) << "what was damaged is kept anew";
}

TEST_F(CacheTest, NothingElseIsRead) {
  auto store = Open();
  store->Keep("a", Code(100));
  const std::string path = Entries().at(0).path;
  std::filesystem::rename(path, folder_ + "/elsewhere");
  std::filesystem::create_symlink("elsewhere", path);
  EXPECT_TRUE(store->Find("a").empty()) << "through a link";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_TRUE(store->Find("a").empty()) << "from a pipe";
}

TEST_F(CacheTest, ThreadsAndWritersAtOnce) {
  auto one = Open(), other = Open();
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      CodeStore& store = t % 2 ? *one : *other;
      for (int i = 0; i < 50; ++i) {
        const std::string key = std::to_string(i % 10);
        const std::vector<uint8_t> code = Code(1000, static_cast<uint8_t>(i % 10));
        store.Keep(key, code);
        const std::vector<uint8_t> found = store.Find(key);
        if (found != code) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(Entries().size(), 10u);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 10)
      << "temporary files are left";
}

// It is not "in use".
TEST_F(CacheTest, WhatMayNotBeRemovedIsSaid) {
  Open()->Keep("a", Code(1000));
  const std::string file = Entries().at(0).path, name = std::filesystem::path(file).filename();
  const auto set_modes = [&](mode_t mode) {
    for (std::filesystem::path at = folder_; at.string().size() >= temp_.path().size(); at = at.parent_path())
      ASSERT_EQ(chmod(at.c_str(), mode), 0) << at;
  };
  set_modes(0555);
  constexpr uid_t kNobody = 65534;
  const bool root = geteuid() == 0;  // whom no mode stops
  if (root) {
    ASSERT_EQ(seteuid(kNobody), 0);
  }
  const auto pruned = PruneCache(cache_, 0);
  if (root) {
    ASSERT_EQ(seteuid(0), 0);
  }
  set_modes(0755);
  ASSERT_FALSE(pruned.ok()) << pruned->in_use << " said to be in use";
  EXPECT_NE(pruned.status().ToString().find("Permission denied"), std::string::npos) << pruned.status();
  EXPECT_NE(pruned.status().ToString().find(name), std::string::npos) << pruned.status();
  EXPECT_TRUE(std::filesystem::exists(file));
}

TEST_F(CacheTest, WhatWasNotUsedForTheLongestTimeGoesFirst) {
  auto store = Open();
  for (const char* key : {"a", "b", "c"}) store->Keep(key, Code(1000));
  std::vector<CacheEntry> entries = Entries();
  ASSERT_EQ(entries.size(), 3u);
  SetAge(entries[0].path, 3 * 86400);
  SetAge(entries[1].path, 86400);
  SetAge(entries[2].path, 2 * 86400);
  auto pruned = PruneCache(cache_, 2 * entries[0].bytes);
  ASSERT_TRUE(pruned.ok()) << pruned.status();
  EXPECT_EQ(pruned->files, 1u);
  EXPECT_EQ(pruned->bytes, entries[0].bytes);
  EXPECT_FALSE(std::filesystem::exists(entries[0].path)) << "the oldest";
  qrt::aot::Touch(entries[2].path);
  ASSERT_TRUE(PruneCache(cache_, entries[0].bytes).ok());
  EXPECT_TRUE(std::filesystem::exists(entries[2].path)) << "it has just been used";
  EXPECT_FALSE(std::filesystem::exists(entries[1].path));
  EXPECT_EQ(PruneCache(cache_, 0)->files, 1u);
  EXPECT_TRUE(Entries().empty());
}

TEST_F(CacheTest, WhatIsNotItsOwnStays) {
  auto store = Open();
  store->Keep("a", Code(1000));
  const std::string entry = std::filesystem::path(Entries().at(0).path).filename();
  const std::string old = entry + ".tmp-1-0", young = entry + ".tmp-1-1";
  for (const std::string& name : {std::string("notes.txt"), entry + "x", "0" + entry, old, young})
    Leave(name);
  SetAge(folder_ + "/" + old, 2 * 86400);
  auto pruned = PruneCache(cache_, 0);
  ASSERT_TRUE(pruned.ok()) << pruned.status();
  EXPECT_EQ(pruned->files, 2u) << "the entry, and what a killed process left";
  for (const std::string& name : {std::string("notes.txt"), entry + "x", "0" + entry, young}) {
    EXPECT_TRUE(Has(name)) << name;
  }
  EXPECT_FALSE(Has(old));
}

TEST_F(CacheTest, WhatDriversCompiledIsOfTheCache) {
  const std::string folder = qrt::aot::KernelFolder(cache_), key(32, 'a');
  std::filesystem::create_directories(folder);
  const std::string old = key + ".cubin.aB12xY", young = key + ".vkpipelines.zZ98Qq";
  for (const std::string& name : {key + ".cubin", key + ".vkpipelines", old, young, key + ".cubin.notes"}) {
    std::ofstream(folder + "/" + name) << "kernel";
  }
  SetAge(folder + "/" + old, 2 * 86400);
  ASSERT_EQ(Entries().size(), 2u);
  EXPECT_TRUE(qrt::aot::IsOfDriver(Entries()[0].suffix)) << Entries()[0].path;
  EXPECT_EQ(PruneCache(cache_, 0)->files, 3u) << "both, and what a killed process left";
  EXPECT_TRUE(Entries().empty());
  EXPECT_TRUE(std::filesystem::exists(folder + "/" + young));
  EXPECT_TRUE(std::filesystem::exists(folder + "/" + key + ".cubin.notes"));
}

TEST_F(CacheTest, ASealWithoutItsArtifactGoes) {
  const std::string folder = qrt::aot::ArtifactFolder(cache_);
  std::filesystem::create_directories(folder);
  const std::string left = folder + "/" + std::string(32, 'a'), whole = folder + "/" + std::string(32, 'b');
  for (const std::string& path : {left + ".seal", whole + ".seal", whole + ".qbin"}) {
    std::ofstream(path) << "somebody removed the artifact of the first";
  }
  EXPECT_EQ(PruneCache(cache_, UINT64_MAX)->files, 1u);
  EXPECT_FALSE(std::filesystem::exists(left + ".seal"));
  EXPECT_TRUE(std::filesystem::exists(whole + ".seal"));
}

TEST_F(CacheTest, AFolderThatIsNotThereIsEmpty) {
  EXPECT_TRUE(Entries().empty());
  EXPECT_EQ(PruneCache(cache_, 0)->files, 0u);
}

TEST_F(CacheTest, AFolderThatCannotBeIsNamed) {
  std::filesystem::create_directories(std::filesystem::path(folder_).parent_path());
  std::ofstream(folder_) << "a file";
  const auto store = CodeStore::Open(folder_, "this");
  ASSERT_FALSE(store.ok());
  EXPECT_NE(store.status().message().find(folder_), std::string::npos) << store.status();
}

// A folder that goes away, or cannot be written any more, costs time, no more.
TEST_F(CacheTest, AFolderThatGoesAwayIsNoError) {
  auto store = Open();
  std::filesystem::remove_all(folder_);
  store->Keep("a", Code(100));
  EXPECT_TRUE(store->Find("a").empty());
}

TEST_F(CacheTest, OnlyADamagedArtifactIsRemoved) {
  const std::string key(32, 'a'), path = qrt::aot::ArtifactPath(cache_, key);
  ASSERT_TRUE(MakeCacheFolder(qrt::aot::ArtifactFolder(cache_)).ok());
  qrt::testing::WriteParts(qrt::testing::MakeParts(), path);
  const auto identity = (*qrt::Artifact::Open(path))->identity();
  ASSERT_TRUE(qrt::aot::WriteSeal(cache_, key, {identity, *qrt::aot::FileStamp::Of(path)}));
  const auto take = [&](bool go_on) {
    SetAge(path, 1000);  // it was touched since, so every byte is read
    return TakeArtifact(cache_, key, [go_on](uint64_t, uint64_t) { return go_on; });
  };
  EXPECT_FALSE(take(false)) << "Ctrl-C";
  EXPECT_TRUE(std::filesystem::exists(path)) << "a good one was removed, since nobody looked to its end";
  EXPECT_TRUE(take(true));
  std::vector<uint8_t> bytes = qrt::testing::ReadFile(path);
  const uint32_t weights = qrt::testing::FindSection(bytes, QBIN_SECTION_WEIGHTS);
  bytes[qrt::testing::SectionOf(bytes, weights).offset] ^= 1;
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
  EXPECT_FALSE(take(true));
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(CacheTest, AnArtifactWhoseSealCannotBeReadStays) {
  const std::string key(32, 'a'), path = qrt::aot::ArtifactPath(cache_, key);
  ASSERT_TRUE(MakeCacheFolder(qrt::aot::ArtifactFolder(cache_)).ok());
  qrt::testing::WriteParts(qrt::testing::MakeParts(), path);
  const auto identity = (*qrt::Artifact::Open(path))->identity();
  ASSERT_TRUE(qrt::aot::WriteSeal(cache_, key, {identity, *qrt::aot::FileStamp::Of(path)}));
  rlimit files;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  const rlimit none = {0, files.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  EXPECT_FALSE(TakeArtifact(cache_, key, {})) << "too many open files";
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
  EXPECT_TRUE(TakeArtifact(cache_, key, {}));
  ASSERT_EQ(unlink((qrt::aot::ArtifactFolder(cache_) + "/" + key + ".seal").c_str()), 0);
  EXPECT_FALSE(TakeArtifact(cache_, key, {})) << "what nobody has checked is made again";
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(CacheTest, WhoMakesAnArtifactIsSeen) {
  const std::string key(32, 'a'), other(32, 'b');
  EXPECT_FALSE(MakingLock::IsTaken(cache_, key)) << "there is no cache";
  {
    const auto lock = MakingLock::Take(cache_, key, [](bool) { return false; });
    ASSERT_TRUE(lock.ok()) << lock.status();
    EXPECT_TRUE(MakingLock::IsTaken(cache_, key));
    EXPECT_FALSE(MakingLock::IsTaken(cache_, other));
  }
  EXPECT_FALSE(MakingLock::IsTaken(cache_, key));
}

// Between the name and the seal nobody has it in use, nor while it is read through once more.
TEST_F(CacheTest, AnArtifactThatIsBeingMadeStays) {
  const std::string key(32, 'a'), path = qrt::aot::ArtifactPath(cache_, key);
  ASSERT_TRUE(MakeCacheFolder(qrt::aot::ArtifactFolder(cache_)).ok());
  std::ofstream(path) << "whole";
  {
    const auto lock = MakingLock::Take(cache_, key, [](bool) { return false; });
    ASSERT_TRUE(lock.ok()) << lock.status();
    const auto pruned = PruneCache(cache_, 0);
    ASSERT_TRUE(pruned.ok()) << pruned.status();
    EXPECT_EQ(pruned->in_use, 1u);
    EXPECT_TRUE(std::filesystem::exists(path)) << "its maker loses it";
  }
  ASSERT_TRUE(PruneCache(cache_, 0).ok());
  EXPECT_FALSE(std::filesystem::exists(path));
}

// Each removes what the others leave to be removed, no more.
TEST_F(CacheTest, PrunesAtOnceRemoveWhatOneWould) {
  constexpr int kFiles = 4000, kLeft = 3000;
  Open();
  for (int i = 0; i < kFiles; ++i) {
    char name[64];
    std::snprintf(name, sizeof name, "%032x%s", i, qrt::aot::kCodeSuffix);
    Leave(name);  // one byte
  }
  std::atomic<int> ready{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (++ready; ready < 4;) std::this_thread::yield();
      EXPECT_TRUE(PruneCache(cache_, kLeft).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Entries().size(), static_cast<size_t>(kLeft));
}

TEST_F(CacheTest, TheArtifactThatWasUsedLastMayStay) {
  ASSERT_TRUE(MakeCacheFolder(qrt::aot::ArtifactFolder(cache_)).ok());
  const auto leave = [&](char letter, size_t bytes, time_t age) {
    const std::string path = qrt::aot::ArtifactPath(cache_, std::string(32, letter));
    std::ofstream(path) << std::string(bytes, 'x');
    SetAge(path, age);
    return path;
  };
  const auto exists = [](const std::string& path) { return std::filesystem::exists(path); };
  auto store = Open();
  store->Keep("a", Code(1000));
  const std::string code = Entries().at(0).path;
  SetAge(code, 4 * 86400);
  const std::string old = leave('a', 50'000, 3 * 86400), small = leave('b', 2000, 2 * 86400),
                    last = leave('c', 60'000, 86400);
  EXPECT_EQ(PruneCache(cache_, 10'000, LastArtifact::kStays)->files, 1u);
  EXPECT_FALSE(exists(old)) << "too large by itself, and not used last";
  EXPECT_TRUE(exists(code) && exists(small) && exists(last)) << "all else fits";
  EXPECT_EQ(PruneCache(cache_, 62'500, LastArtifact::kStays)->files, 1u);
  EXPECT_FALSE(exists(code)) << "the oldest, where the last one counts";
  EXPECT_TRUE(exists(small) && exists(last));
  EXPECT_EQ(PruneCache(cache_, 0, LastArtifact::kStays)->files, 1u);
  EXPECT_TRUE(exists(last));
  leave('d', 5000, 2 * 86400);
  EXPECT_EQ(PruneCache(cache_, 70'000, LastArtifact::kStays, 20'000)->files, 0u)
      << "without all else the last one and what is to come were still more than the folder may have";
  EXPECT_EQ(PruneCache(cache_, 70'000, LastArtifact::kStays, 8'000)->files, 1u)
      << "the last one fits beside what is to come, so it counts";
  EXPECT_TRUE(exists(last));
  const std::string left = leave('e', 5000, 2 * 86400);
  EXPECT_EQ(PruneCache(cache_, 70'000, LastArtifact::kStays, 66'000)->files, 1u);
  EXPECT_FALSE(exists(left)) << "it does not fit beside what is to come either";
  EXPECT_TRUE(exists(last));
  EXPECT_EQ(PruneCache(cache_, 10'000)->files, 1u);
  EXPECT_FALSE(exists(last)) << "where that is asked for";
}

// /proc has no size, and nobody makes a folder in it.
TEST(UsualCacheBytes, IsThatOfTheDiskOnWhichTheFolderWillLie) {
  EXPECT_EQ(UsualCacheBytes("/proc/none/of/these"), UsualCacheBytes("/proc"));
  EXPECT_EQ(UsualCacheBytes("/proc"), 0u);
  EXPECT_GT(UsualCacheBytes("none"), 0u);
}

TEST(IdentifyCompiler, IsThatOfTheProgramAndTheVersion) {
  const CompilerIdentity identity = IdentifyCompiler("one");
  EXPECT_EQ(identity.hash.size(), 32u);
  EXPECT_FALSE(identity.files.empty()) << "the program at least";
  EXPECT_EQ(IdentifyCompiler("one").hash, identity.hash);
  EXPECT_NE(IdentifyCompiler("two").hash, identity.hash);
}

}  // namespace
}  // namespace qcc::compiler
