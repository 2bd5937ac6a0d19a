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
#include "runtime/device/vulkan/pipeline_cache.h"
#include "tests/unit/temp_folder.h"

namespace {

using qrt::capi::MakeCacheFolder;
using qrt::capi::TrimCacheFolder;

class KernelCache : public testing::Test {
 protected:
  // The name of the kernels that are called `name`, hexadecimal, in the tests.
  static std::string Kernels(const std::string& name) {
    return std::string(32 - name.size(), '0') + name + ".vkpipelines";
  }
  void PutKernels(const std::string& name, size_t bytes, int age) { Put(Kernels(name), bytes, age); }
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
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(root_))
      names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }
  // What the kernels that are left are called.
  std::string Left() const {
    std::string text;
    for (const std::string& name : Names()) {
      const size_t dot = std::min(name.find('.'), name.size());
      const size_t begin = std::min(name.find_first_not_of('0'), dot);
      text += name.substr(begin, dot - begin);
    }
    return text;
  }

  const qrt::testing::TempFolder folder_;
  const std::string root_ = folder_.path();
};

TEST_F(KernelCache, TheLongestUnusedGoFirst) {
  PutKernels("a", 100, 50);
  PutKernels("b", 100, 500);
  PutKernels("c", 100, 5);
  PutKernels("d", 100, 5000);
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
  std::filesystem::create_directory(root_ + "/" + Kernels("d"));
  std::filesystem::create_symlink("/etc/hostname", root_ + "/" + Kernels("e"));
  PutKernels("f", 10, 1);
  TrimCacheFolder(root_, 0);
  EXPECT_EQ(Left(), "de");
}

// --cache-dir may name a folder that holds more than the cache.
TEST_F(KernelCache, FilesOfOthersAreNeitherCountedNorTouched) {
  const std::string kernels = Kernels("a");
  const std::vector<std::string> others = {
      "thesis.tex",
      ".bashrc",
      "x" + kernels,
      kernels.substr(1),
      kernels + ".",
      kernels + ".bak",
      kernels + ".aB3-x_",
      kernels + "xaB3xyz",
      "0" + kernels.substr(1, 30) + "G.vkpipelines",
      kernels.substr(0, 32) + ".vkpipeline",
  };
  for (const std::string& name : others) Put(name, 1000, 5000);
  PutKernels("b", 100, 10);
  Put(Kernels("c") + ".aB3xYz", 100, 400);  // left behind by a process that was killed
  TrimCacheFolder(root_, 200);
  EXPECT_EQ(Names().size(), others.size() + 2) << "the cache itself is within its bounds";
  TrimCacheFolder(root_, 100);
  EXPECT_FALSE(std::filesystem::exists(root_ + "/" + Kernels("c") + ".aB3xYz"));
  EXPECT_TRUE(std::filesystem::exists(root_ + "/" + Kernels("b")));
  TrimCacheFolder(root_, 0);
  std::vector<std::string> sorted = others;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(Names(), sorted);
}

TEST_F(KernelCache, WhatADeviceKeepsIsTheCaches) {
  const qrt::PipelineCacheFile kept(root_, qrt::VulkanFacts(), qrt::Hash128());
  ASSERT_EQ(kept.Save(std::vector<uint8_t>(100)), "");
  ASSERT_TRUE(std::filesystem::exists(kept.path()));
  TrimCacheFolder(root_, 0);
  EXPECT_FALSE(std::filesystem::exists(kept.path())) << "its name is not known, so the folder only grows";
}

// An open that waits for its writer would hold up whoever makes an engine.
TEST_F(KernelCache, OnlyARegularFileIsRead) {
  const qrt::PipelineCacheFile kept(root_, qrt::VulkanFacts(), qrt::Hash128());
  ASSERT_EQ(mkfifo(kept.path().c_str(), 0600), 0);
  std::string problem;
  EXPECT_TRUE(kept.Load(&problem).empty());
  EXPECT_NE(problem.find("not a regular file"), std::string::npos) << problem;
  ASSERT_EQ(kept.Save(std::vector<uint8_t>(100)), "") << "it is replaced";
  EXPECT_TRUE(std::filesystem::is_regular_file(kept.path()));
}

TEST_F(KernelCache, ManyMayTrimAtOnce) {
  for (int i = 0; i < 200; ++i) PutKernels("f" + std::to_string(i), 10, i);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) threads.emplace_back([&] { TrimCacheFolder(root_, 100); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(root_), {}), 10)
      << "the youngest stay, for every one";
  EXPECT_TRUE(std::filesystem::exists(root_ + "/" + Kernels("f0")));
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
