#include "frontends/gguf/writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <utility>

#include "frontends/base/error.h"
#include "frontends/base/text.h"
#include "frontends/gguf/file_impl.h"
#include "runtime/base/temporary_name.h"

namespace qcc::gguf {
namespace {

template <typename T>
void Put(std::string* out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i)
    out->push_back(static_cast<char>(static_cast<uint64_t>(value) >> (8 * i)));
}

void PutString(std::string* out, std::string_view text) {
  Put<uint64_t>(out, text.size());
  out->append(text);
}

std::string ArrayHead(ValueType element, size_t count) {
  std::string out;
  Put<uint32_t>(&out, static_cast<uint32_t>(element));
  Put<uint64_t>(&out, count);
  return out;
}

uint64_t AlignUp(uint64_t n, uint64_t alignment) {
  return (n + alignment - 1) / alignment * alignment;
}

std::span<const uint8_t> AsBytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// The file being written: buffered, and removed again unless it was committed.
class TempFile {
 public:
  explicit TempFile(const std::string& path) : path_(path) {}
  ~TempFile() {
    if (fd_ >= 0) ::close(fd_);
    if (name_) ::unlink(temp_.c_str());
  }
  TempFile(const TempFile&) = delete;
  TempFile& operator=(const TempFile&) = delete;

  absl::Status Create() {
    for (int attempt = 0; attempt < 100; ++attempt) {
      temp_ = qrt::NameBeside(path_, Concat(".tmp-", ::getpid(), "-", attempt));
      fd_ = ::open(temp_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      if (fd_ >= 0) {
        name_.emplace(temp_);
        return absl::OkStatus();
      }
      if (errno != EEXIST) break;
    }
    return Error("create the file");
  }

  absl::Status Append(std::span<const uint8_t> bytes) {
    while (!bytes.empty()) {
      ssize_t n = ::write(fd_, bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return Error("write the file");
      bytes = bytes.subspan(static_cast<size_t>(n));
    }
    return absl::OkStatus();
  }

  absl::Status Commit() {
    if (::fsync(fd_) != 0) return Error("sync the file");
    int fd = std::exchange(fd_, -1);
    if (::close(fd) != 0) return Error("close the file");
    if (::rename(temp_.c_str(), path_.c_str()) != 0) return Error("rename the finished file");
    name_.reset();
    return absl::OkStatus();
  }

 private:
  absl::Status Error(std::string_view step) const {
    int error = errno;
    bool space = error == ENOSPC || error == EDQUOT || error == EFBIG;
    return MakeError(
        absl::ErrnoToStatusCode(error), space ? "Q6003" : "Q6002",
        Concat("cannot ", step, ": ", std::strerror(error)), path_,
        space ? "free some space, or write to another disk" : "is the folder there and writable?");
  }

  std::string path_;
  std::string temp_;
  int fd_ = -1;
  std::optional<qrt::TemporaryName> name_;  // while it exists
};

}  // namespace

Writer::Writer(uint32_t alignment) : alignment_(alignment) {
  if (alignment != kDefaultAlignment) AddU32("general.alignment", alignment);
}

void Writer::AddEncoded(std::string_view key, ValueType type, std::string_view bytes) {
  PutString(&entries_, key);
  Put<uint32_t>(&entries_, static_cast<uint32_t>(type));
  entries_.append(bytes);
  ++entry_count_;
}

void Writer::AddU32(std::string_view key, uint32_t value) {
  std::string bytes;
  Put(&bytes, value);
  AddEncoded(key, ValueType::U32, bytes);
}

void Writer::AddU64(std::string_view key, uint64_t value) {
  std::string bytes;
  Put(&bytes, value);
  AddEncoded(key, ValueType::U64, bytes);
}

void Writer::AddI32(std::string_view key, int32_t value) {
  std::string bytes;
  Put(&bytes, std::bit_cast<uint32_t>(value));
  AddEncoded(key, ValueType::I32, bytes);
}

void Writer::AddF32(std::string_view key, float value) {
  std::string bytes;
  Put(&bytes, std::bit_cast<uint32_t>(value));
  AddEncoded(key, ValueType::F32, bytes);
}

void Writer::AddBool(std::string_view key, bool value) {
  AddEncoded(key, ValueType::Bool, std::string(1, value ? '\1' : '\0'));
}

void Writer::AddString(std::string_view key, std::string_view value) {
  std::string bytes;
  PutString(&bytes, value);
  AddEncoded(key, ValueType::String, bytes);
}

void Writer::AddI32Array(std::string_view key, std::span<const int32_t> values) {
  std::string bytes = ArrayHead(ValueType::I32, values.size());
  for (int32_t value : values) Put(&bytes, std::bit_cast<uint32_t>(value));
  AddEncoded(key, ValueType::Array, bytes);
}

void Writer::AddF32Array(std::string_view key, std::span<const float> values) {
  std::string bytes = ArrayHead(ValueType::F32, values.size());
  for (float value : values) Put(&bytes, std::bit_cast<uint32_t>(value));
  AddEncoded(key, ValueType::Array, bytes);
}

void Writer::AddBoolArray(std::string_view key, const std::vector<bool>& values) {
  std::string bytes = ArrayHead(ValueType::Bool, values.size());
  for (bool value : values) bytes.push_back(value ? '\1' : '\0');
  AddEncoded(key, ValueType::Array, bytes);
}

void Writer::AddStringArray(std::string_view key, std::span<const std::string> values) {
  std::string bytes = ArrayHead(ValueType::String, values.size());
  for (const std::string& value : values) PutString(&bytes, value);
  AddEncoded(key, ValueType::Array, bytes);
}

void Writer::AddTensor(std::string_view name, Format format, std::vector<int64_t> ne) {
  int64_t rows = 1;
  for (size_t d = 1; d < ne.size(); ++d) rows *= ne[d];
  uint64_t bytes = static_cast<uint64_t>(row_bytes(format, ne.empty() ? 1 : ne[0]) * rows);
  tensors_.push_back({std::string(name), format, std::move(ne), bytes});
}

std::string Writer::Header() const {
  std::string out = "GGUF";
  Put<uint32_t>(&out, 3);
  Put<uint64_t>(&out, tensors_.size());
  Put<uint64_t>(&out, entry_count_);
  out += entries_;
  uint64_t offset = 0;
  for (const TensorInfo& info : tensors_) {
    PutString(&out, info.name);
    Put<uint32_t>(&out, static_cast<uint32_t>(info.ne.size()));
    for (int64_t dim : info.ne) Put<uint64_t>(&out, static_cast<uint64_t>(dim));
    Put<uint32_t>(&out, format_info(info.format).ggml_id);
    Put<uint64_t>(&out, offset);
    offset += AlignUp(info.bytes, alignment_);
  }
  out.resize(AlignUp(out.size(), alignment_), '\0');
  return out;
}

uint64_t Writer::FileBytes() const {
  uint64_t bytes = Header().size();
  for (const TensorInfo& info : tensors_) bytes += AlignUp(info.bytes, alignment_);
  return bytes;
}

absl::Status Writer::WriteTo(const Fill& fill, const Sink& sink) const {
  if (absl::Status s = sink(AsBytes(Header())); !s.ok()) return s;
  for (const TensorInfo& info : tensors_) {
    uint64_t given = 0;
    Sink counted = [&](std::span<const uint8_t> bytes) {
      given += bytes.size();
      return given <= info.bytes ? sink(bytes) : absl::OkStatus();
    };
    if (absl::Status s = fill(info, counted); !s.ok()) return s;
    if (given != info.bytes) {
      return absl::InternalError(
          Concat("tensor '", info.name, "' has ", info.bytes, " bytes, but ", given, " were written"));
    }
    std::string padding(AlignUp(given, alignment_) - given, '\0');
    if (absl::Status s = sink(AsBytes(padding)); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status Writer::WriteFile(const std::string& path, const Fill& fill) const {
  TempFile file(path);
  if (absl::Status s = file.Create(); !s.ok()) return s;
  Sink sink = [&](std::span<const uint8_t> bytes) { return file.Append(bytes); };
  if (absl::Status s = WriteTo(fill, sink); !s.ok()) return s;
  return file.Commit();
}

}  // namespace qcc::gguf
