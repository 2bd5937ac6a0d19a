// Reads header, metadata and tensor infos of a GGUF file into a File's tables. Not for other rooms.
#ifndef QCC_FRONTENDS_GGUF_PARSER_H_
#define QCC_FRONTENDS_GGUF_PARSER_H_

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "frontends/gguf/file_impl.h"
#include "frontends/gguf/gguf.h"
#include "runtime/base/checked.h"

namespace qcc::gguf {

class Parser {
 public:
  // Both views must outlive the parser; the tables that it fills point into `bytes`. With `refused`, tensors
  // of formats that are not supported are left out of the tables and put there.
  Parser(std::span<const uint8_t> bytes, std::string_view path, std::vector<RefusedTensor>* refused = nullptr)
      : bytes_(bytes), path_(path), refused_(refused) {}

  // One metadata entry. `offset`: of the value (of an array: of its element type); `data`: of the first
  // element; `end`: behind the last one.
  struct Entry {
    std::string_view key;
    ValueType type;
    ValueType element;
    uint64_t count;
    uint64_t offset;
    uint64_t data;
    uint64_t end;
  };

  // To be called in this order, each only if the one before it succeeded.
  absl::Status ParseHeader();
  absl::Status ParseEntries(std::vector<Entry>* entries);
  absl::Status ParseTensors(std::vector<Tensor>* tensors, std::vector<IntegerTensor>* integers);

 private:
  uint64_t remaining() const { return bytes_.size() - position_; }

  // Error at a byte of the file; `subject_` names the key or tensor being read.
  absl::Status Fail(std::string_view code, uint64_t offset, std::string what, std::string help = "") const;

  template <typename T>
  absl::Status Read(std::string_view field, T* out);
  absl::Status ReadString(std::string_view field, std::string_view* out);
  absl::Status Need(std::string_view field, qrt::Checked bytes);

  absl::Status ParseEntry(Entry* entry);
  absl::Status ParseValueType(std::string_view field, ValueType* type);
  absl::Status ParseScalars(ValueType type, uint64_t count);
  absl::Status ParseArray(Entry* entry);
  absl::Status CheckCounts() const;
  absl::Status ReadAlignment(const Entry& entry);
  // `offset_field`: where in the file the tensor's data offset is written.
  absl::Status ParseTensorInfo(Tensor* tensor, uint64_t* offset_field);
  absl::Status ParseTensorFormat(Tensor* tensor);
  absl::Status TakeIntegers(Tensor* tensor, uint64_t start);
  std::vector<uint64_t> Extents(const std::vector<Tensor>& tensors) const;
  absl::Status ChooseSharedFormats(std::vector<Tensor>* tensors,
                                   const std::vector<uint64_t>& offset_fields) const;
  absl::StatusOr<Format> TellByContent(const std::vector<Tensor>& tensors, const std::vector<size_t>& open,
                                       uint64_t offset_field) const;
  // An error, unless refused tensors are collected.
  absl::Status Refuse(const Tensor& tensor, uint32_t type_id, absl::Status error);
  absl::Status PlaceTensors(std::vector<Tensor>* tensors, const std::vector<uint64_t>& offset_fields) const;
  absl::Status CheckNoOverlap(const std::vector<Tensor>& tensors) const;

  std::span<const uint8_t> bytes_;
  std::string_view path_;
  std::vector<RefusedTensor>* refused_;
  std::vector<uint64_t> refused_offsets_;  // of those that have data, as written in the file
  std::set<std::string> integers_;         // names of tensors of integers
  uint64_t position_ = 0;
  std::string subject_;
  uint64_t tensor_count_ = 0;
  uint64_t entry_count_ = 0;
  uint64_t array_elements_ = 0;  // of the arrays read so far
  uint64_t alignment_ = kDefaultAlignment;
};

}  // namespace qcc::gguf

#endif  // QCC_FRONTENDS_GGUF_PARSER_H_
