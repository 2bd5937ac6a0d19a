#include "runtime/device/vulkan/kernel_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>

namespace qrt {
namespace {

constexpr char kMagic[8] = {'Q', 'R', 'T', 'K', 'E', 'R', 'N', '1'};
constexpr uint64_t kMaxBytes = uint64_t{512} << 20;

struct FileHeader {
  char magic[8];
  uint64_t bytes;   // of the driver's data, which follow
  uint8_t key[16];  // device, driver, code
  uint8_t hash[16];
};
static_assert(sizeof(FileHeader) == 48, "no padding");

class File {
 public:
  explicit File(std::FILE* file) : file_(file) {}
  ~File() { Close(); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  std::FILE* get() const { return file_; }
  bool Close() {
    std::FILE* file = file_;
    file_ = nullptr;
    return file == nullptr || std::fclose(file) == 0;
  }

 private:
  std::FILE* file_;
};

}  // namespace

KernelFile::KernelFile(const std::string& folder, std::string_view suffix, const Hash128& key) : key_(key) {
  if (!folder.empty()) path_ = folder + "/" + Hex(key_) + std::string(suffix);
}

std::vector<uint8_t> KernelFile::Load(std::string* problem) const {
  if (path_.empty()) return {};
  // O_NONBLOCK: opening a FIFO must not wait for a writer; fstat then refuses it.
  const int descriptor = open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (descriptor < 0) return {};
  File file(fdopen(descriptor, "rb"));
  if (file.get() == nullptr) {
    close(descriptor);
    return {};
  }
  FileHeader header;
  const auto bad = [&](const char* what) {
    *problem = path_ + " is not used: " + what;
    return std::vector<uint8_t>();
  };
  struct stat info;
  if (fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode)) return bad("it is not a regular file");
  if (std::fread(&header, 1, sizeof header, file.get()) != sizeof header ||
      std::memcmp(header.magic, kMagic, sizeof kMagic) != 0) {
    return bad("it does not begin as such a file does");
  }
  if (std::memcmp(header.key, key_.data(), key_.size()) != 0) return bad("it belongs to something else");
  // The size is believed only as far as the file goes.
  if (std::fseek(file.get(), 0, SEEK_END) != 0) return bad("it cannot be read");
  const long end = std::ftell(file.get());
  if (end < 0 || header.bytes > kMaxBytes || static_cast<uint64_t>(end) != sizeof header + header.bytes ||
      std::fseek(file.get(), sizeof header, SEEK_SET) != 0) {
    return bad("it has another size than it says");
  }
  std::vector<uint8_t> data(header.bytes);
  if (std::fread(data.data(), 1, data.size(), file.get()) != data.size()) return bad("it cannot be read");
  const Hash128 hash = HashOf(data);
  if (std::memcmp(header.hash, hash.data(), hash.size()) != 0) return bad("its hash is wrong");
  return data;
}

std::string KernelFile::Save(std::span<const uint8_t> data) const {
  if (path_.empty() || data.size() > kMaxBytes) return "";
  FileHeader header = {};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.bytes = data.size();
  std::memcpy(header.key, key_.data(), key_.size());
  const Hash128 hash = HashOf(data);
  std::memcpy(header.hash, hash.data(), hash.size());
  // Another process, or another engine of this one, may save the same file now.
  std::string temporary = path_ + ".XXXXXX";
  const int descriptor = mkstemp(temporary.data());
  if (descriptor < 0) return temporary + " cannot be created: " + std::strerror(errno);
  File file(fdopen(descriptor, "wb"));
  const auto failed = [&](const char* what) {
    const int error = errno;
    file.Close();
    std::remove(temporary.c_str());
    return temporary + " cannot be " + what + ": " + std::strerror(error);
  };
  if (file.get() == nullptr) {
    close(descriptor);
    return failed("created");
  }
  if (std::fwrite(&header, 1, sizeof header, file.get()) != sizeof header ||
      std::fwrite(data.data(), 1, data.size(), file.get()) != data.size() || !file.Close()) {
    return failed("written");
  }
  if (std::rename(temporary.c_str(), path_.c_str()) != 0) return failed("renamed");
  return "";
}

}  // namespace qrt
