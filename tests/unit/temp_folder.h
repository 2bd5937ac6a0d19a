#ifndef TESTS_UNIT_TEMP_FOLDER_H_
#define TESTS_UNIT_TEMP_FOLDER_H_

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

namespace qrt::testing {

// A new folder, which is removed with everything in it.
class TempFolder {
 public:
  TempFolder() : path_(::testing::TempDir() + "qrt_test_XXXXXX") {
    EXPECT_NE(mkdtemp(path_.data()), nullptr) << path_;
  }
  ~TempFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string File(const std::string& name) const { return path_ + "/" + name; }
  // Names, without the folder's.
  std::vector<std::string> Entries() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      names.push_back(entry.path().filename());
    }
    return names;
  }

 private:
  std::string path_;
};

}  // namespace qrt::testing

#endif  // TESTS_UNIT_TEMP_FOLDER_H_
