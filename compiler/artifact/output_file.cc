#include "compiler/artifact/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "frontends/base/error.h"
#include "frontends/base/text.h"
#include "frontends/gguf/gguf.h"

namespace qcc::compiler {
namespace {

// Of what a user named, and of a cache.
constexpr char kNeedsSpace[] =
    "free some space, or give a folder on another disk with -o, for what a cache keeps with --cache-dir";

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string ProcPath(int fd) {
  return Concat("/proc/self/fd/", fd);
}

}  // namespace

bool IsSpaceError(int error) {
  return error == ENOSPC || error == EDQUOT || error == EFBIG;
}

absl::Status WriteError(int error, std::string_view what, const std::string& where, const std::string& help) {
  const bool space = IsSpaceError(error);
  return MakeError(space ? "Q6003" : "Q6002", Concat(what, ": ", std::strerror(error)), where,
                   space && !help.empty() ? kNeedsSpace : help);
}

absl::Status CheckIsNot(const std::string& path, std::string_view input) {
  struct stat out, in;
  if (stat(path.c_str(), &out) != 0 || stat(std::string(input).c_str(), &in) != 0 ||
      in.st_dev != out.st_dev || in.st_ino != out.st_ino) {
    return absl::OkStatus();
  }
  return MakeError(
      "Q0103", path == input ? "the output is an input file" : Concat("the output is an input file, ", input),
      path, "give another name with -o");
}

absl::Status CheckIsNotOf(const std::string& path, const gguf::File& model) {
  for (const gguf::File::Shard& shard : model.shards()) {
    if (absl::Status s = CheckIsNot(path, shard.path); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status CheckOutput(const std::string& path, const std::string& input, uint64_t bytes) {
  struct stat out;
  if (path.empty()) return MakeError("Q0103", "the output has no name", "-o", "give -o FILE");
  if (stat(path.c_str(), &out) == 0) {
    if (S_ISDIR(out.st_mode)) {
      return MakeError("Q0103", "the output is a folder", path, "give the name of a file");
    }
    if (!S_ISREG(out.st_mode)) {
      return MakeError("Q0103", "the output exists and is not a regular file", path,
                       "give another name with -o");
    }
    if (absl::Status s = CheckIsNot(path, input); !s.ok()) return s;
  } else if (errno == ENAMETOOLONG) {
    return MakeError("Q0103", Concat("the output cannot have this name: ", std::strerror(errno)), path,
                     "give a shorter one with -o");
  }
  const std::string folder = FolderOf(path);
  struct stat folder_info;
  if (stat(folder.c_str(), &folder_info) != 0 || !S_ISDIR(folder_info.st_mode)) {
    return MakeError("Q0103", "the output's folder does not exist", folder,
                     "make it, or give another with -o");
  }
  if (access(folder.c_str(), W_OK | X_OK) != 0) {
    return MakeError("Q6002", Concat("cannot write into the output's folder: ", std::strerror(errno)), folder,
                     "give another folder with -o");
  }
  struct statvfs disk;
  if (statvfs(folder.c_str(), &disk) == 0) {
    const uint64_t free = static_cast<uint64_t>(disk.f_bavail) * disk.f_frsize;
    if (free < bytes) {
      return MakeError("Q6003", Concat("the output needs about ", bytes, " bytes, ", free, " are free"),
                       folder, kNeedsSpace);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<OutputFile>> OutputFile::Create(const std::string& path, mode_t mode) {
  const std::string temporary = qrt::NameBeside(path, Concat(".tmp-", getpid()));
  const int nameless = open(FolderOf(path).c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, mode);
  if (nameless >= 0) {
    // It will get its name through /proc; without that, a named file is the way.
    if (access(ProcPath(nameless).c_str(), F_OK) == 0) {
      return std::unique_ptr<OutputFile>(new OutputFile(path, temporary, nameless));
    }
    close(nameless);
  }
  std::unique_ptr<OutputFile> file(new OutputFile(path, temporary, -1));
  file->name_.emplace(temporary);  // a signal may end the process as soon as it is there
  file->fd_ = open(temporary.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, mode);
  if (file->fd_ < 0) {
    const int error = errno;
    file->name_.reset();
    return WriteError(error, "cannot create the output", path, "give another place with -o");
  }
  return file;
}

OutputFile::~OutputFile() {
  if (fd_ >= 0) close(fd_);
  if (name_) unlink(temporary_.c_str());
}

absl::Status OutputFile::Failed(const char* what, int error) const {
  return WriteError(error, what, path_);
}

absl::Status OutputFile::WriteAt(uint64_t offset, std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return Failed("cannot write the output", n == 0 ? EIO : errno);
    bytes = bytes.subspan(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
  }
  return absl::OkStatus();
}

absl::Status OutputFile::Commit(uint64_t size, const Check& check) {
  if (ftruncate(fd_, static_cast<off_t>(size)) != 0) return Failed("cannot set the output's size", errno);
  if (fsync(fd_) != 0) return Failed("cannot flush the output to the disk", errno);
  if (check) {
    if (absl::Status status = check(name_ ? temporary_ : ProcPath(fd_)); !status.ok()) return status;
  }
  if (!name_) {
    unlink(temporary_.c_str());  // of an earlier process with this id
    name_.emplace(temporary_);
    if (linkat(AT_FDCWD, ProcPath(fd_).c_str(), AT_FDCWD, temporary_.c_str(), AT_SYMLINK_FOLLOW) != 0) {
      return Failed("cannot name the output", errno);
    }
  }
  if (rename(temporary_.c_str(), path_.c_str()) != 0) return Failed("cannot rename the output", errno);
  name_.reset();
  // The name lies in the folder: without this it might not outlive a power cut. Some file systems cannot; no
  // harm.
  const int folder = open(FolderOf(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder >= 0) {
    fsync(folder);
    close(folder);
  }
  return absl::OkStatus();
}

}  // namespace qcc::compiler
