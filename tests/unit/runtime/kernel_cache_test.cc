// The folder of compiled kernels: made, kept small, shared.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "runtime/capi/kernel_cache.h"

namespace {

using qrt::capi::MakeCacheFolder;
using qrt::capi::TrimCacheFolder;

class KernelCache : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "kernel_cache_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  // A file of `bytes`, used `age` seconds ago.
  void Put(const std::string& name, size_t bytes, int age) {
    const std::string path = root_ + "/" + name;
    FILE* file = std::fopen(path.c_str(), "wb");
    const std::vector<char> content(bytes);
    std::fwrite(content.data(), 1, bytes, file);
    std::fclose(file);
    timespec times[2] = {};
    clock_gettime(CLOCK_REALTIME, &times[0]);
    times[0].tv_sec -= age;
    times[1] = times[0];
    ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  }
  std::string Left() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(root_))
      names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    std::string text;
    for (const std::string& name : names) text += name;
    return text;
  }

  std::string root_;
};

TEST_F(KernelCache, TheLongestUnusedGoFirst) {
  Put("a", 100, 50);
  Put("b", 100, 500);
  Put("c", 100, 5);
  Put("d", 100, 5000);
  TrimCacheFolder(root_, 400);
  EXPECT_EQ(Left(), "abcd") << "all fits";
  TrimCacheFolder(root_, 399);
  EXPECT_EQ(Left(), "abc");
  TrimCacheFolder(root_, 150);
  EXPECT_EQ(Left(), "c");
  TrimCacheFolder(root_, 0);
  EXPECT_EQ(Left(), "");
  TrimCacheFolder(root_ + "/none", 0);  // no such folder: nothing to do
}

TEST_F(KernelCache, FoldersAndLinksAreLeftAlone) {
  std::filesystem::create_directory(root_ + "/d");
  std::filesystem::create_symlink("/etc/hostname", root_ + "/l");
  Put("f", 10, 1);
  TrimCacheFolder(root_, 0);
  EXPECT_EQ(Left(), "dl");
}

TEST_F(KernelCache, ManyMayTrimAtOnce) {
  for (int i = 0; i < 200; ++i) Put("f" + std::to_string(i), 10, i);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) threads.emplace_back([&] { TrimCacheFolder(root_, 100); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(root_), {}), 10)
      << "the youngest stay, for every one";
  EXPECT_TRUE(std::filesystem::exists(root_ + "/f0"));
}

TEST_F(KernelCache, IsMadeWithItsParentsForTheUserAlone) {
  ASSERT_TRUE(MakeCacheFolder(root_ + "/x/y/z").ok());
  struct stat made = {};
  ASSERT_EQ(stat((root_ + "/x/y/z").c_str(), &made), 0);
  EXPECT_EQ(made.st_mode & 0777, 0700u);
  EXPECT_TRUE(MakeCacheFolder(root_ + "/x/y/z").ok()) << "it may be there already";
  EXPECT_TRUE(MakeCacheFolder(root_ + "/x/y/z/").ok());
  Put("file", 1, 0);
  for (const char* name : {"/file", "/file/below"}) {
    const qrt::Status status = MakeCacheFolder(root_ + name);
    EXPECT_EQ(status.number(), 6002u) << name;
    EXPECT_NE(status.message().find("file"), std::string::npos) << status.ToString();
  }
}

}  // namespace
