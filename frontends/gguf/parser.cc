#include "frontends/gguf/parser.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "frontends/base/error.h"
#include "frontends/base/text.h"

#define QCC_RETURN_IF_ERROR(expr)                   \
  do {                                              \
    if (absl::Status s = (expr); !s.ok()) return s; \
  } while (false)

namespace qcc::gguf {
namespace {

constexpr uint64_t kMinEntryBytes = 8 + 4 + 1;           // key length, value type, shortest value
constexpr uint64_t kMinTensorInfoBytes = 8 + 4 + 4 + 8;  // name length, n_dims, type, offset
constexpr uint32_t kIntegerTypeId = 27;                  // ggml's I64
constexpr uint64_t kMaxI64 = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
constexpr uint64_t kFirstReserve = 4096;  // tables beyond this grow with what was really read

constexpr char kNewerVersion[] = "use a release of qcc that reads it, or write the model as GGUF version 3";
constexpr char kNoNestedArrays[] =
    "use a release of qcc that reads them, or write the model without this key: qcc needs none of this kind";
constexpr char kUnknownType[] =
    "the file is newer than this qcc, or damaged: use a newer one, or fetch it again";

std::string DimsText(const Tensor& tensor) {
  std::string text = "[";
  for (int d = 0; d < tensor.n_dims; ++d) text += Concat(d == 0 ? "" : ", ", tensor.ne[d]);
  return text + "]";
}

}  // namespace

absl::Status Parser::Fail(std::string_view code, uint64_t offset, std::string what, std::string help) const {
  std::string where = Concat(path_, ": ", subject_, subject_.empty() ? "" : ", ", "byte ", offset);
  if (help.empty()) help = kMakeAgain;
  return MakeError(std::string(code), std::move(what), std::move(where), std::move(help));
}

absl::Status Parser::Need(std::string_view field, qrt::Checked bytes) {
  if (bytes.fits(remaining())) return absl::OkStatus();
  return Fail("Q1007", position_,
              Concat("the file ends inside ", field, ": ",
                     bytes.ok() ? Concat(bytes.value()) : std::string("more than 2^64"), " bytes expected, ",
                     remaining(), " left"),
              "the file is truncated or damaged; fetch it again");
}

template <typename T>
absl::Status Parser::Read(std::string_view field, T* out) {
  QCC_RETURN_IF_ERROR(Need(field, sizeof(T)));
  *out = LoadLe<T>(bytes_.data() + position_);
  position_ += sizeof(T);
  return absl::OkStatus();
}

absl::Status Parser::ReadString(std::string_view field, std::string_view* out) {
  uint64_t start = position_;
  uint64_t length = 0;
  QCC_RETURN_IF_ERROR(Read(Concat("the length of ", field), &length));
  if (length > kMaxStringBytes) {
    return Fail("Q1104", start,
                Concat(field, " claims ", length, " bytes, at most ", kMaxStringBytes, " are allowed"));
  }
  QCC_RETURN_IF_ERROR(Need(field, length));
  *out = std::string_view(reinterpret_cast<const char*>(bytes_.data()) + position_, length);
  position_ += length;
  return absl::OkStatus();
}

absl::Status Parser::ParseHeader() {
  constexpr std::string_view kMagic = "GGUF";
  if (bytes_.size() < kMagic.size()) {
    return Fail("Q1002", 0, Concat("the file has ", bytes_.size(), " bytes, a GGUF header has at least 24"));
  }
  if (std::memcmp(bytes_.data(), kMagic.data(), kMagic.size()) != 0) {
    return Fail("Q1003", 0,
                absl::StrFormat("found the magic bytes %02x %02x %02x %02x, expected 47 47 55 46 (\"GGUF\")",
                                bytes_[0], bytes_[1], bytes_[2], bytes_[3]),
                "this is not a GGUF file");
  }
  if (bytes_.size() < 24) {
    return Fail("Q1002", bytes_.size(),
                Concat("the file has ", bytes_.size(), " bytes, a GGUF header has at least 24"),
                "the file is truncated; fetch it again");
  }
  position_ = kMagic.size();
  uint32_t version = 0;
  QCC_RETURN_IF_ERROR(Read("the version", &version));
  if (version != 0 && (version & 0xffffu) == 0) {
    return Fail("Q1005", 4, absl::StrFormat("the version reads 0x%08x: the file is big-endian", version),
                "convert it to little-endian (gguf_convert_endian.py)");
  }
  if (version != 2 && version != 3) {
    return Fail("Q1004", 4, Concat("found GGUF version ", version, ", expected 2 or 3"),
                version < 2 ? "convert the model again with a current converter" : kNewerVersion);
  }
  QCC_RETURN_IF_ERROR(Read("the tensor count", &tensor_count_));
  QCC_RETURN_IF_ERROR(Read("the metadata count", &entry_count_));
  return CheckCounts();
}

absl::Status Parser::CheckCounts() const {
  struct Count {
    std::string_view name;
    uint64_t value, offset, min_bytes, most;
  };
  const std::array<Count, 2> counts = {
      Count{"tensors", tensor_count_, 8, kMinTensorInfoBytes, kMaxTensors},
      Count{"metadata entries", entry_count_, 16, kMinEntryBytes, kMaxEntries}};
  for (const Count& count : counts) {
    if (count.value > kMaxI64) {
      return Fail(
          "Q1006", count.offset,
          Concat("the number of ", count.name, " is negative (", static_cast<int64_t>(count.value), ")"));
    }
    if (!(qrt::Checked(count.value) * count.min_bytes).fits(remaining())) {
      return Fail("Q1006", count.offset,
                  Concat("the header claims ", count.value, " ", count.name, ", but the ", remaining(),
                         " bytes that follow hold at most ", remaining() / count.min_bytes),
                  "the file is truncated or damaged; fetch it again");
    }
    if (count.value > count.most) {
      return Fail("Q1010", count.offset,
                  Concat("the header claims ", count.value, " ", count.name, ", at most ", count.most,
                         " are allowed"),
                  "no known model needs that: the file is damaged; fetch it again");
    }
  }
  return absl::OkStatus();
}

absl::Status Parser::ParseEntries(std::vector<Entry>* entries) {
  std::map<std::string_view, uint64_t> seen;
  entries->reserve(std::min(entry_count_, kFirstReserve));
  for (uint64_t i = 0; i < entry_count_; ++i) {
    subject_ = Concat("metadata entry ", i);
    uint64_t start = position_;
    Entry entry;
    QCC_RETURN_IF_ERROR(ParseEntry(&entry));
    entry.end = position_;
    auto [it, inserted] = seen.emplace(entry.key, start);
    if (!inserted) {
      return Fail("Q1102", start,
                  Concat("key ", Quoted(entry.key), " appears twice, first at byte ", it->second));
    }
    if (position_ > kMaxMetadataBytes) {
      return Fail("Q1008", start,
                  Concat("the metadata reaches byte ", position_, ", at most ", kMaxMetadataBytes,
                         " bytes of metadata are allowed"));
    }
    if (entry.key == "general.alignment") QCC_RETURN_IF_ERROR(ReadAlignment(entry));
    entries->push_back(entry);
  }
  subject_.clear();
  return absl::OkStatus();
}

absl::Status Parser::ParseEntry(Entry* entry) {
  uint64_t start = position_;
  QCC_RETURN_IF_ERROR(ReadString("the key", &entry->key));
  if (entry->key.empty()) return Fail("Q1101", start, "the key is empty");
  if (entry->key.size() > kMaxKeyBytes) {
    return Fail("Q1101", start,
                Concat("the key has ", entry->key.size(), " bytes, at most ", kMaxKeyBytes, " are allowed"));
  }
  if (!IsValidUtf8(entry->key)) {
    return Fail("Q1101", start, Concat("key ", Quoted(entry->key), " is not valid UTF-8 text"));
  }
  subject_ = Concat("key ", Quoted(entry->key));
  QCC_RETURN_IF_ERROR(ParseValueType("the value type", &entry->type));
  entry->offset = position_;
  entry->element = entry->type;
  entry->count = 1;
  if (entry->type == ValueType::Array) return ParseArray(entry);
  entry->data = position_;
  return ParseScalars(entry->type, 1);
}

absl::Status Parser::ParseValueType(std::string_view field, ValueType* type) {
  uint64_t start = position_;
  uint32_t id = 0;
  QCC_RETURN_IF_ERROR(Read(field, &id));
  if (id > static_cast<uint32_t>(ValueType::F64)) {
    return Fail("Q1103", start, Concat(field, " is ", id, ", expected 0 (u8) to 12 (f64)"), kUnknownType);
  }
  *type = static_cast<ValueType>(id);
  return absl::OkStatus();
}

absl::Status Parser::ParseArray(Entry* entry) {
  QCC_RETURN_IF_ERROR(ParseValueType("the array's element type", &entry->element));
  if (entry->element == ValueType::Array) {
    return Fail("Q1105", entry->offset, "arrays of arrays are not supported", kNoNestedArrays);
  }
  uint64_t count_offset = position_;
  QCC_RETURN_IF_ERROR(Read("the array's length", &entry->count));
  if (entry->count > kMaxArrayElements) {
    return Fail(
        "Q1107", count_offset,
        Concat("the array claims ", entry->count, " elements, at most ", kMaxArrayElements, " are allowed"));
  }
  uint64_t min_bytes = entry->element == ValueType::String ? 8 : ValueTypeBytes(entry->element);
  qrt::Checked bytes = qrt::Checked(entry->count) * min_bytes;
  if (!bytes.fits(remaining())) {
    return Fail("Q1107", count_offset,
                Concat("the array claims ", entry->count, " elements of type ", ValueTypeName(entry->element),
                       " (", bytes.value(), " bytes or more), but only ", remaining(), " bytes are left"),
                "the file is truncated or damaged; fetch it again");
  }
  array_elements_ += entry->count;
  if (array_elements_ > kMaxMetadataElements) {
    return Fail(
        "Q1011", count_offset,
        Concat("the arrays of the metadata hold ", array_elements_, " elements up to this one, which has ",
               entry->count, "; at most ", kMaxMetadataElements, " are allowed"),
        "no known model needs that: the file is damaged; fetch it again");
  }
  entry->data = position_;
  return ParseScalars(entry->element, entry->count);
}

absl::Status Parser::ParseScalars(ValueType type, uint64_t count) {
  if (type == ValueType::String) {
    std::string_view text;
    for (uint64_t i = 0; i < count; ++i) QCC_RETURN_IF_ERROR(ReadString("a string", &text));
    return absl::OkStatus();
  }
  qrt::Checked bytes = qrt::Checked(count) * ValueTypeBytes(type);
  QCC_RETURN_IF_ERROR(Need("a value", bytes));
  if (type == ValueType::Bool) {
    for (uint64_t i = 0; i < count; ++i) {
      uint8_t b = bytes_[position_ + i];
      if (b > 1) return Fail("Q1108", position_ + i, Concat("found the bool ", b, ", expected 0 or 1"));
    }
  }
  position_ += bytes.value();
  return absl::OkStatus();
}

absl::Status Parser::ReadAlignment(const Entry& entry) {
  if (entry.type != ValueType::U32) {
    return Fail("Q1109", entry.offset,
                Concat("general.alignment has type ", ValueTypeName(entry.type), ", expected u32"));
  }
  uint32_t value = LoadLe<uint32_t>(bytes_.data() + entry.data);
  if (value < 8 || (value & (value - 1)) != 0) {
    return Fail("Q1109", entry.offset,
                Concat("general.alignment is ", value, ", expected a power of two that is at least 8"));
  }
  alignment_ = value;
  return absl::OkStatus();
}

absl::Status Parser::ParseTensors(std::vector<Tensor>* tensors, std::vector<IntegerTensor>* integers) {
  std::map<std::string, uint64_t> seen;
  std::vector<uint64_t> offset_fields;
  tensors->reserve(std::min(tensor_count_, kFirstReserve));
  for (uint64_t i = 0; i < tensor_count_; ++i) {
    subject_ = Concat("tensor info ", i);
    uint64_t start = position_;
    Tensor tensor;
    uint64_t offset_field = 0;
    QCC_RETURN_IF_ERROR(ParseTensorInfo(&tensor, &offset_field));
    auto [it, inserted] = seen.emplace(tensor.name, start);
    if (!inserted) {
      return Fail("Q1202", start,
                  Concat("tensor ", Quoted(tensor.name), " appears twice, first at byte ", it->second));
    }
    if (refused_ != nullptr && !refused_->empty() && refused_->back().name == tensor.name) {
      if (tensor.elements() > 0) refused_offsets_.push_back(tensor.file_offset);
      continue;
    }
    tensors->push_back(std::move(tensor));
    offset_fields.push_back(offset_field);
  }
  subject_.clear();
  QCC_RETURN_IF_ERROR(ChooseSharedFormats(tensors, offset_fields));
  QCC_RETURN_IF_ERROR(PlaceTensors(tensors, offset_fields));
  std::erase_if(*tensors, [&](const Tensor& t) {
    if (!integers_.contains(t.name)) return false;
    integers->push_back({t.name, t.n_dims, t.ne, t.file_offset, t.data});
    return true;
  });
  return absl::OkStatus();
}

absl::Status Parser::ParseTensorInfo(Tensor* tensor, uint64_t* offset_field) {
  uint64_t start = position_;
  std::string_view name;
  QCC_RETURN_IF_ERROR(ReadString("the tensor name", &name));
  if (name.empty()) return Fail("Q1201", start, "the tensor name is empty");
  if (name.size() > kMaxTensorNameBytes) {
    return Fail(
        "Q1201", start,
        Concat("the tensor name has ", name.size(), " bytes, at most ", kMaxTensorNameBytes, " are allowed"));
  }
  if (!IsValidUtf8(name)) {
    return Fail("Q1201", start, Concat("tensor name ", Quoted(name), " is not valid UTF-8 text"));
  }
  subject_ = Concat("tensor ", Quoted(name));
  tensor->name = std::string(name);
  tensor->ne = {1, 1, 1, 1};
  uint64_t dims_offset = position_;
  uint32_t n_dims = 0;
  QCC_RETURN_IF_ERROR(Read("the number of dimensions", &n_dims));
  if (n_dims > tensor->ne.size()) {
    return Fail("Q1203", dims_offset, Concat("found ", n_dims, " dimensions, at most 4 are allowed"));
  }
  tensor->n_dims = static_cast<int>(n_dims);
  qrt::Checked elements = 1;
  for (uint32_t d = 0; d < n_dims; ++d) {
    uint64_t dim_offset = position_;
    uint64_t dim = 0;
    QCC_RETURN_IF_ERROR(Read("a dimension", &dim));
    if (dim > kMaxI64) {
      return Fail("Q1204", dim_offset,
                  Concat("dimension ", d, " is negative (", static_cast<int64_t>(dim), ")"));
    }
    tensor->ne[d] = static_cast<int64_t>(dim);
    elements = elements * dim;
    if (!elements.fits(kMaxI64)) {
      return Fail("Q1205", dim_offset,
                  Concat("the dimensions ", DimsText(*tensor), " multiply to more than 2^63 elements"));
    }
  }
  QCC_RETURN_IF_ERROR(ParseTensorFormat(tensor));
  *offset_field = position_;
  return Read("the data offset", &tensor->file_offset);
}

absl::Status Parser::Refuse(const Tensor& tensor, uint32_t type_id, absl::Status error) {
  if (refused_ == nullptr) return error;
  refused_->push_back({tensor.name, type_id, tensor.n_dims, tensor.ne, std::move(error)});
  return absl::OkStatus();
}

// It has a format until it is known to be in the file.
absl::Status Parser::TakeIntegers(Tensor* tensor, uint64_t start) {
  integers_.insert(tensor->name);
  tensor->format = Format::F32;
  const qrt::Checked bytes = qrt::Checked(static_cast<uint64_t>(tensor->elements())) * sizeof(int64_t);
  if (!bytes.fits(kMaxI64)) {
    return Fail(
        "Q1209", start,
        Concat("the dimensions ", DimsText(*tensor), " of 64-bit integers need more than 2^63 bytes"));
  }
  tensor->bytes = bytes.value();
  return absl::OkStatus();
}

absl::Status Parser::ParseTensorFormat(Tensor* tensor) {
  uint64_t start = position_;
  uint32_t type_id = 0;
  QCC_RETURN_IF_ERROR(Read("the tensor type", &type_id));
  if (type_id == kIntegerTypeId) return TakeIntegers(tensor, start);
  std::optional<Format> format = format_from_ggml_id(type_id);
  if (!format) {
    std::string_view type_name = ggml_type_name(type_id);
    std::string supported;
    for (int f = 0; f < kFormatCount; ++f) {
      supported += Concat(f == 0 ? "" : ", ", format_info(static_cast<Format>(f)).name);
    }
    std::string help = Concat("qcc supports ", supported, "; use a file of the model in these formats");
    if (type_name == "unknown") {
      return Refuse(
          *tensor, type_id,
          Fail("Q1207", start,
               Concat("tensor ", Quoted(tensor->name), " has type id ", type_id, ", which is not known"),
               std::move(help)));
    }
    return Refuse(*tensor, type_id,
                  Fail("Q1206", start,
                       Concat("tensor ", Quoted(tensor->name), " has format ", type_name, " (type id ",
                              type_id, "), which qcc does not support"),
                       std::move(help)));
  }
  const FormatInfo& info = format_info(*format);
  tensor->format = *format;
  if (tensor->ne[0] % info.block_elems != 0) {
    return Fail("Q1208", start,
                Concat("the first dimension is ", tensor->ne[0], ", expected a multiple of ",
                       info.block_elems, " (the block of format ", info.name, ")"));
  }
  qrt::Checked bytes = static_cast<uint64_t>(tensor->ne[0] / info.block_elems);
  bytes = bytes * static_cast<uint64_t>(info.block_bytes);
  for (size_t d = 1; d < tensor->ne.size(); ++d) bytes = bytes * static_cast<uint64_t>(tensor->ne[d]);
  if (!bytes.fits(kMaxI64)) {
    return Fail(
        "Q1209", start,
        Concat("the dimensions ", DimsText(*tensor), " in format ", info.name, " need more than 2^63 bytes"));
  }
  tensor->bytes = bytes.value();
  return absl::OkStatus();
}

namespace {

// Bytes of the tensor in another format of its type id; none where its rows are no whole blocks.
std::optional<uint64_t> BytesIn(const Tensor& tensor, Format format) {
  const FormatInfo& info = format_info(format);
  if (tensor.ne[0] % info.block_elems != 0) return std::nullopt;
  const int64_t rows = tensor.elements() == 0 ? 0 : tensor.elements() / tensor.ne[0];
  const qrt::Checked bytes =
      qrt::Checked(static_cast<uint64_t>(row_bytes(format, tensor.ne[0]))) * static_cast<uint64_t>(rows);
  return bytes.fits(kMaxI64) ? std::optional(bytes.value()) : std::nullopt;
}

}  // namespace

// Bytes from each tensor's data to the next tensor's, or to the end of the file; 0 where there are none.
std::vector<uint64_t> Parser::Extents(const std::vector<Tensor>& tensors) const {
  const qrt::Checked data_start = qrt::Checked(position_).aligned(alignment_);
  const uint64_t data_bytes = data_start.fits(bytes_.size()) ? bytes_.size() - data_start.value() : 0;
  std::vector<uint64_t> begins = refused_offsets_;
  begins.push_back(data_bytes);
  for (const Tensor& t : tensors) {
    if (t.bytes > 0) begins.push_back(t.file_offset);
  }
  std::sort(begins.begin(), begins.end());
  std::vector<uint64_t> extents;
  for (const Tensor& t : tensors) {
    auto next = std::upper_bound(begins.begin(), begins.end(), t.file_offset);
    extents.push_back(next == begins.end() || t.file_offset >= data_bytes ? 0 : *next - t.file_offset);
  }
  return extents;
}

// Writers gave type id 42 two layouts. The tensor's extent tells which: its bytes, and less than `alignment_`
// bytes of padding. Small tensors may fit both and then go with the others of the file; where no tensor
// decides, what lies in them does.
absl::Status Parser::ChooseSharedFormats(std::vector<Tensor>* tensors,
                                         const std::vector<uint64_t>& offset_fields) const {
  const auto shared = [](const Tensor& t) { return t.bytes > 0 && next_format_of_same_id(t.format); };
  if (std::none_of(tensors->begin(), tensors->end(), shared)) return absl::OkStatus();
  const std::vector<uint64_t> extents = Extents(*tensors);
  std::optional<Format> others;
  std::vector<size_t> open;
  for (size_t i = 0; i < tensors->size(); ++i) {
    Tensor& t = (*tensors)[i];
    if (!shared(t)) continue;
    std::vector<Format> fitting;
    std::string tried;
    uint64_t smallest = t.bytes;
    for (std::optional<Format> f = t.format; f; f = next_format_of_same_id(*f)) {
      const std::optional<uint64_t> bytes = BytesIn(t, *f);
      if (!bytes) continue;
      tried += Concat(tried.empty() ? "" : " or ", *bytes, " (", format_info(*f).name, ")");
      smallest = std::min(smallest, *bytes);
      if (*bytes <= extents[i] && extents[i] - *bytes < alignment_) fitting.push_back(*f);
    }
    if (fitting.empty() && extents[i] < smallest) continue;  // truncated or overlapping: PlaceTensors tells
    if (fitting.empty()) {
      return MakeError("Q1215",
                       Concat("the data takes ", extents[i], " bytes with the padding behind it, expected ",
                              tried, ": formats that share type id ", format_info(t.format).ggml_id),
                       TensorWhere(path_, t.name, offset_fields[i]),
                       "the file comes from a fork with another layout, or is damaged");
    }
    if (fitting.size() > 1) {  // no id has three
      open.push_back(i);
      continue;
    }
    others = others.value_or(fitting[0]);
    t.format = fitting[0];
    t.bytes = *BytesIn(t, fitting[0]);
  }
  if (!others && !open.empty()) {
    absl::StatusOr<Format> told = TellByContent(*tensors, open, offset_fields[open[0]]);
    if (!told.ok()) return told.status();
    others = *told;
  }
  for (size_t i : open) {
    Tensor& t = (*tensors)[i];
    t.format = others.value_or(t.format);
    t.bytes = BytesIn(t, t.format).value_or(t.bytes);
  }
  return absl::OkStatus();
}

// The format of tensors that fit both of their type id: the shorter one where nothing but zeros follows its
// bytes, which is what writers pad with and what the last codes of the longer one are not in every tensor. It
// stands unless only the other's scales are finite.
absl::StatusOr<Format> Parser::TellByContent(const std::vector<Tensor>& tensors,
                                             const std::vector<size_t>& open, uint64_t offset_field) const {
  const Tensor& first = tensors[open[0]];
  const uint8_t* data = bytes_.data() + qrt::Checked(position_).aligned(alignment_).value();
  Format shorter = first.format, longer = *next_format_of_same_id(first.format);
  if (*BytesIn(first, longer) < *BytesIn(first, shorter)) std::swap(shorter, longer);
  const bool padded = std::all_of(open.begin(), open.end(), [&](size_t i) {
    const uint8_t* begin = data + tensors[i].file_offset;
    return std::all_of(begin + *BytesIn(tensors[i], shorter), begin + *BytesIn(tensors[i], longer),
                       [](uint8_t b) { return b == 0; });
  });
  const auto finite = [&](Format format) {
    return std::all_of(open.begin(), open.end(), [&](size_t i) {
      const int64_t blocks = tensors[i].elements() / format_info(format).block_elems;
      return first_not_finite(format, data + tensors[i].file_offset, blocks) == nullptr;
    });
  };
  const Format told = padded ? shorter : longer, other = padded ? longer : shorter;
  if (finite(told) || !finite(other)) return told;
  return MakeError("Q1215",
                   Concat("it cannot be told whether tensors of type id ", format_info(told).ggml_id, " are ",
                          format_info(told).name, " or ", format_info(other).name,
                          ": their sizes fit both, the bytes behind them the first, the scales the second"),
                   TensorWhere(path_, first.name, offset_field),
                   "the file is damaged, or its padding is not zero: convert the model again");
}

absl::Status Parser::PlaceTensors(std::vector<Tensor>* tensors,
                                  const std::vector<uint64_t>& offset_fields) const {
  qrt::Checked data_start = qrt::Checked(position_).aligned(alignment_);
  for (size_t i = 0; i < tensors->size(); ++i) {
    Tensor& tensor = (*tensors)[i];
    auto fail = [&](std::string_view code, std::string what, std::string help = kMakeAgain) {
      return MakeError(std::string(code), std::move(what), TensorWhere(path_, tensor.name, offset_fields[i]),
                       std::move(help));
    };
    uint64_t relative = tensor.file_offset;
    if (relative % alignment_ != 0) {
      return fail("Q1210", Concat("the data offset is ", relative, ", expected a multiple of ", alignment_));
    }
    qrt::Checked begin = data_start + relative;
    qrt::Checked end = begin + tensor.bytes;
    if (!end.fits(kMaxI64)) {
      return fail("Q1211",
                  Concat("the data offset ", relative, " with ", tensor.bytes, " bytes overflows 63 bits"));
    }
    if (tensor.bytes == 0) {
      // Legal, and never read: the place need not exist.
      tensor.file_offset = std::min<uint64_t>(begin.value(), bytes_.size());
    } else if (!end.fits(bytes_.size())) {
      return fail("Q1212",
                  Concat("the data takes bytes ", begin.value(), " to ", end.value(), ", but the file has ",
                         bytes_.size()),
                  "the file is truncated or damaged; fetch it again");
    } else {
      tensor.file_offset = begin.value();
    }
    tensor.data = bytes_.data() + tensor.file_offset;
  }
  return CheckNoOverlap(*tensors);
}

absl::Status Parser::CheckNoOverlap(const std::vector<Tensor>& tensors) const {
  std::vector<size_t> order;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].bytes > 0) order.push_back(i);
  }
  // Ties keep the file's order, so that the later of two tensors at one place is the one reported.
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::make_pair(tensors[a].file_offset, a) < std::make_pair(tensors[b].file_offset, b);
  });
  for (size_t k = 1; k < order.size(); ++k) {
    const Tensor& before = tensors[order[k - 1]];
    const Tensor& tensor = tensors[order[k]];
    // In range already: the sum cannot overflow, and begin is at least that of `before`.
    if (tensor.file_offset - before.file_offset < before.bytes) {
      return MakeError(
          "Q1213",
          Concat("the data overlaps that of tensor ", Quoted(before.name), " (bytes ", before.file_offset,
                 " to ", (qrt::Checked(before.file_offset) + before.bytes).value(), ")"),
          TensorWhere(path_, tensor.name, tensor.file_offset), kMakeAgain);
    }
  }
  return absl::OkStatus();
}

}  // namespace qcc::gguf
