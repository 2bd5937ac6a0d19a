// What a File holds, shared by the parser and the accessors. Not for other rooms.
#ifndef QCC_FRONTENDS_GGUF_FILE_IMPL_H_
#define QCC_FRONTENDS_GGUF_FILE_IMPL_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "frontends/gguf/gguf.h"

namespace qcc::gguf {

inline constexpr uint64_t kMaxMetadataBytes = uint64_t{256} << 20;  // Qwen3.5's vocabulary takes about 20 MiB
// Of one file. A vocabulary of a million tokens takes about 5 million elements; a file of experts that are
// not stacked has 70,000 tensors. Beyond these limits a small file, or the hole of a sparse one, would take
// minutes and many times its size of memory.
inline constexpr uint64_t kMaxMetadataElements = uint64_t{8} << 20;
inline constexpr uint64_t kMaxEntries = uint64_t{1} << 16;
inline constexpr uint64_t kMaxTensors = uint64_t{1} << 18;
inline constexpr uint64_t kMaxStringBytes = uint64_t{1} << 30;
inline constexpr uint64_t kMaxArrayElements = uint64_t{1} << 30;
inline constexpr uint64_t kMaxKeyBytes = 65535;
inline constexpr uint64_t kMaxTensorNameBytes = 63;
inline constexpr uint32_t kDefaultAlignment = 32;
// What to do about a file that nothing is known of but that it is wrong.
inline constexpr char kMakeAgain[] =
    "the file is damaged or was written wrongly; fetch it, or convert the model, again";

// A metadata value stays in the file; only where it lies is kept. Its bytes were checked when the file was
// parsed.
struct File::Value {
  std::string_view key;
  ValueType type;
  ValueType element;    // element type of an array, otherwise `type`
  uint64_t count;       // elements of an array, otherwise 1
  uint64_t offset;      // file offset of the value (of an array: of its element type)
  const uint8_t* data;  // first element; a string is its u64 length and then its bytes
  const uint8_t* end;   // behind the last one
};

// What tells whether a file is still the one that was opened.
struct FileState {
  uint64_t device = 0, inode = 0, size = 0;
  int64_t seconds = 0, nanoseconds = 0;  // of the last change of its contents

  bool operator==(const FileState&) const = default;
};

struct File::Impl {
  ~Impl();

  std::string path;
  std::span<const uint8_t> bytes;
  void* mapping = nullptr;  // to unmap; null if the caller owns the bytes
  int descriptor = -1;      // of the mapped file, to close; -1 if the caller owns the bytes
  FileState opened;         // when it was mapped
  std::vector<Value> values;
  std::map<std::string_view, size_t> value_index;
  std::vector<Tensor> tensors;
  std::map<std::string, size_t, std::less<>> tensor_index;
  std::vector<IntegerTensor> integers;
  std::vector<absl::Status> refused;  // only of a file opened for a report, as the next
  std::vector<RefusedTensor> refused_tensors;
  // Of the first of several shards: the others, for their bytes; behind them the file that was taken along.
  std::vector<std::unique_ptr<File>> siblings;
  bool has_joined = false;  // whether there is such a file
};

std::string_view ValueTypeName(ValueType type);
// Encoded size of a fixed-size type; 0 for strings and arrays.
uint64_t ValueTypeBytes(ValueType type);

// Text of the file quoted for a message: escaped, and shortened where very long.
std::string Quoted(std::string_view text);
std::string KeyWhere(std::string_view path, std::string_view key, uint64_t offset);
std::string TensorWhere(std::string_view path, std::string_view tensor, uint64_t offset);

bool IsValidUtf8(std::string_view text);

// Not the file's fault: memory or descriptors have run out.
bool IsResourceError(const absl::Status& status);

// Little-endian load of an unsigned number of sizeof(T) bytes from anywhere.
template <typename T>
T LoadLe(const uint8_t* p) {
  T v = 0;
  for (size_t i = 0; i < sizeof(T); ++i) v = static_cast<T>(v | (static_cast<T>(p[i]) << (8 * i)));
  return v;
}

}  // namespace qcc::gguf

#endif  // QCC_FRONTENDS_GGUF_FILE_IMPL_H_
