// A GGUF file as a checked, read-only view: container only, no model knowledge, no MLIR.
// Untrusted bytes in; every count is compared with the bytes that remain before anything is allocated for it.
#ifndef QCC_FRONTENDS_GGUF_GGUF_H_
#define QCC_FRONTENDS_GGUF_GGUF_H_

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dialects/formats/formats.h"

namespace qcc::gguf {

struct Tensor {
  std::string name;
  Format format;
  int n_dims;
  std::array<int64_t, 4> ne;  // GGUF order: ne[0] is the fastest dimension; missing dimensions are 1
  uint64_t file_offset;       // absolute offset of the first byte, for messages and locations
  uint64_t bytes;
  const uint8_t* data;  // into the mapping; valid as long as the File lives
  int shard = 0;        // which of File::shards() holds the data

  int64_t elements() const { return ne[0] * ne[1] * ne[2] * ne[3]; }
};

// A tensor of 64-bit integers (type id 27): a table of ids, which no Format is.
struct IntegerTensor {
  std::string name;
  int n_dims;
  std::array<int64_t, 4> ne;
  uint64_t file_offset;
  const uint8_t* data;  // little-endian, as Tensor::data
  int shard = 0;

  int64_t elements() const { return ne[0] * ne[1] * ne[2] * ne[3]; }
  int64_t at(int64_t i) const;
};

// A tensor that `File::Open` would refuse the file for: of a format that is not supported.
struct RefusedTensor {
  std::string name;
  uint32_t type_id;  // ggml_type_name tells it, where it is known
  int n_dims;
  std::array<int64_t, 4> ne;
  absl::Status error;  // Q1206, Q1207

  int64_t elements() const { return ne[0] * ne[1] * ne[2] * ne[3]; }
};

// Metadata value types, numbered as in the file.
enum class ValueType : uint32_t { U8, I8, U16, I16, U32, I32, F32, Bool, String, Array, U64, I64, F64 };

class File {
 public:
  struct Value;  // defined in file_impl.h

  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  // Maps `path`, and with a shard of a split model, whichever it is, all of its siblings. Errors carry (see
  // error.h) the file, the key or tensor, the byte offset, what was found and expected.
  static absl::StatusOr<std::unique_ptr<File>> Open(const std::string& path);
  // Parses bytes that the caller keeps alive; `name` stands for the file in messages. A shard is refused: its
  // siblings cannot be found. Used by tests and the fuzzer.
  static absl::StatusOr<std::unique_ptr<File>> Parse(std::span<const uint8_t> bytes, std::string name);

  // To look at a file that cannot be compiled: what Open refuses because it is not supported (tensors of
  // other formats), because its siblings do not fit or because the vocabulary is wrong is listed in refused()
  // instead. Such a file lacks the refused tensors, a shard those of its siblings; it is for reports only.
  // Errors: what leaves nothing to look at.
  static absl::StatusOr<std::unique_ptr<File>> OpenForReport(const std::string& path);
  // To be asked when all is read, before a result of it is published: whether every file is still as it was
  // opened, and still has its name. What was mapped changes with its file. Errors: Q1009.
  absl::Status CheckUnchanged() const;

  // Takes another file of the model along: those of its tensors whose names `name_of` gives one, under that.
  // It is among shards() from then on, and part of what CheckUnchanged() asks about; metadata stay this
  // file's. Errors: Q1202 where a name is taken.
  absl::Status Join(std::unique_ptr<File> other,
                    const std::function<std::string(const std::string&)>& name_of);
  // The file that was taken along, with all of its own tensors and metadata; null: none.
  const File* joined() const;

  const std::vector<absl::Status>& refused() const;  // of the file as a whole
  std::span<const RefusedTensor> refused_tensors() const;

  // The files that the model lies in, by number: one, or the shards of a split model, and then those of the
  // file that was taken along. Metadata are the first's.
  struct Shard {
    std::string_view path;
    std::span<const uint8_t> bytes;
  };
  std::vector<Shard> shards() const;
  const std::string& path() const;                        // of the first
  const std::string& PathOf(const Tensor& tensor) const;  // of the one that holds its data
  std::span<const uint8_t> bytes() const;                 // of the first
  uint64_t size() const;                                  // bytes of all
  std::span<const Tensor> tensors() const;                // in file order
  const Tensor* FindTensor(std::string_view name) const;
  std::span<const IntegerTensor> integer_tensors() const;
  const IntegerTensor* FindIntegers(std::string_view name) const;

  // Metadata. Integers may be stored in any width (writers vary); one-element arrays count as scalars.
  // NotFound when the key is absent; InvalidArgument (naming key, offset, type found) when the type does not
  // fit.
  bool Has(std::string_view key) const;
  absl::StatusOr<int64_t> GetInt(std::string_view key) const;
  absl::StatusOr<double> GetFloat(std::string_view key) const;  // integers convert
  absl::StatusOr<bool> GetBool(std::string_view key) const;
  absl::StatusOr<std::string_view> GetString(std::string_view key) const;
  absl::StatusOr<std::vector<int64_t>> GetIntArray(std::string_view key) const;  // a scalar gives one element
  absl::StatusOr<std::vector<bool>> GetBoolArray(std::string_view key) const;
  absl::StatusOr<std::vector<float>> GetFloatArray(std::string_view key) const;
  absl::StatusOr<std::vector<std::string_view>> GetStringArray(std::string_view key) const;
  std::vector<std::string_view> keys() const;  // in file order

 private:
  File();
  static absl::StatusOr<std::unique_ptr<File>> Map(const std::string& path);
  absl::Status Load(bool for_report);
  // shards.cc: where `file` is a shard, reads and checks its siblings and makes it the first, with the
  // tensors of all. Errors leave it as it is: Q1202, Q1401 to Q1406, and what is wrong with a sibling.
  static absl::Status AddSiblings(std::unique_ptr<File>& file, bool for_report);
  static absl::Status CheckSameMetadata(const File& first, const File& shard, const std::string& which);
  static absl::Status CheckSameTensors(std::span<const File* const> shards, int64_t expected);
  void Absorb(std::vector<std::unique_ptr<File>> siblings);
  const File& FileOf(int shard) const;
  absl::StatusOr<const Value*> Find(std::string_view key) const;
  absl::StatusOr<std::string_view> StringAt(const Value& value, const uint8_t* at) const;
  absl::Status WrongType(const Value& value, std::string_view expected) const;
  absl::StatusOr<int64_t> IntAt(const Value& value, uint64_t i) const;
  absl::StatusOr<double> FloatAt(const Value& value, uint64_t i) const;

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace qcc::gguf

#endif  // QCC_FRONTENDS_GGUF_GGUF_H_
