// Writes GGUF v3 files: metadata and tensor infos are declared first, tensor data streams through afterwards.
#ifndef QCC_FRONTENDS_GGUF_WRITER_H_
#define QCC_FRONTENDS_GGUF_WRITER_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "dialects/formats/formats.h"
#include "frontends/gguf/gguf.h"

namespace qcc::gguf {

class Writer {
 public:
  struct TensorInfo {
    std::string name;
    Format format;
    std::vector<int64_t> ne;  // GGUF order, at most 4
    uint64_t bytes;
  };
  // Takes bytes in order; an error ends the writing.
  using Sink = std::function<absl::Status(std::span<const uint8_t>)>;
  // Gives the data of one tensor to `sink`, in as many pieces as it likes, `info.bytes` bytes altogether.
  using Fill = std::function<absl::Status(const TensorInfo& info, const Sink& sink)>;

  // `alignment`: of tensor data; a power of two, at least 8. Written as general.alignment if it is not the
  // default 32.
  explicit Writer(uint32_t alignment = 32);

  void AddU32(std::string_view key, uint32_t value);
  void AddU64(std::string_view key, uint64_t value);
  void AddI32(std::string_view key, int32_t value);
  void AddF32(std::string_view key, float value);
  void AddBool(std::string_view key, bool value);
  void AddString(std::string_view key, std::string_view value);
  void AddI32Array(std::string_view key, std::span<const int32_t> values);
  void AddF32Array(std::string_view key, std::span<const float> values);
  void AddBoolArray(std::string_view key, const std::vector<bool>& values);
  void AddStringArray(std::string_view key, std::span<const std::string> values);
  // Any value, as the bytes that follow the value type.
  void AddEncoded(std::string_view key, ValueType type, std::string_view bytes);

  // `ne[0]` must be a multiple of the format's block; the data will lie in the order of these calls.
  void AddTensor(std::string_view name, Format format, std::vector<int64_t> ne);

  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  // Size of the whole file as declared so far.
  uint64_t FileBytes() const;

  // The whole file, front to back. Internal error if `fill` gives another number of bytes than the tensor
  // has.
  absl::Status WriteTo(const Fill& fill, const Sink& sink) const;
  // Into a temporary file beside `path`, which is renamed once it is complete and synced: `path` never holds
  // half a file. On an error the temporary file is removed. Errors: Q6002 (the system refuses), Q6003 (disk
  // full).
  absl::Status WriteFile(const std::string& path, const Fill& fill) const;

 private:
  std::string Header() const;

  uint32_t alignment_;
  uint64_t entry_count_ = 0;
  std::string entries_;
  std::vector<TensorInfo> tensors_;
};

}  // namespace qcc::gguf

#endif  // QCC_FRONTENDS_GGUF_WRITER_H_
