// A whole file mapped read-only.
#ifndef QRT_BASE_FILE_MAP_H_
#define QRT_BASE_FILE_MAP_H_

#include <cstdint>
#include <span>
#include <string>

#include "runtime/base/status.h"

namespace qrt {

class FileMap {
 public:
  FileMap() = default;
  ~FileMap();
  FileMap(FileMap&& other) noexcept;
  FileMap& operator=(FileMap&& other) noexcept;
  FileMap(const FileMap&) = delete;
  FileMap& operator=(const FileMap&) = delete;

  // Maps a regular file, privately and without write or execute permission. The file must not shrink while it
  // is mapped: replace artifacts by rename, as qcc does, never in place. Errors: NOT_FOUND Q4001; IO_ERROR
  // Q4002 (cannot be opened or mapped), Q4003 (not a regular file), Q6004 (too many open files);
  // OUT_OF_MEMORY Q6001.
  static Result<FileMap> Open(const std::string& path);

  std::span<const uint8_t> bytes() const { return {data_, size_}; }  // page aligned; empty for an empty file

 private:
  FileMap(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace qrt

#endif  // QRT_BASE_FILE_MAP_H_
