#include "runtime/base/file_map.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/base/descriptor.h"
#include "runtime/base/memory.h"

namespace qrt {
namespace {

Status OpenError(int error, const std::string& path) {
  if (error == ENOENT || error == ENOTDIR) {
    return Status(Code::kNotFound, 4001, "no such file", path);
  }
  if (error == ENOMEM) return Status(Code::kOutOfMemory, 6001, "not enough memory to map the file", path);
  if (error == EMFILE || error == ENFILE) {
    return Status(Code::kIoError, 6004, std::string("cannot open the file: ") + std::strerror(error), path,
                  "raise the limit of open files (ulimit -n)");
  }
  return Status(Code::kIoError, 4002, std::string("cannot open the file: ") + std::strerror(error), path);
}

}  // namespace

FileMap::~FileMap() {
  if (data_ != nullptr) munmap(const_cast<uint8_t*>(data_), size_);
}

FileMap::FileMap(FileMap&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

FileMap& FileMap::operator=(FileMap&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Result<FileMap> FileMap::Open(const std::string& path) {
  // O_NONBLOCK: opening a FIFO must not wait for a writer; fstat then refuses it.
  Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) return OpenError(errno, path);
  struct stat info;
  if (fstat(file.get(), &info) != 0) return OpenError(errno, path);
  if (!S_ISREG(info.st_mode)) {
    return Status(Code::kIoError, 4003, "not a regular file", path, "name the .qbin file itself");
  }
  if (info.st_size == 0) return FileMap();
  void* data = mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (data == MAP_FAILED) return OpenError(errno, path);
  PreferLargePages(data, static_cast<uint64_t>(info.st_size));
  return FileMap(static_cast<const uint8_t*>(data), static_cast<size_t>(info.st_size));
}

}  // namespace qrt
