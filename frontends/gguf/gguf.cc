#include "frontends/gguf/gguf.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "frontends/base/error.h"
#include "frontends/base/text.h"
#include "frontends/gguf/checks.h"
#include "frontends/gguf/file_impl.h"
#include "frontends/gguf/parser.h"

namespace qcc::gguf {
namespace {

struct TypeRow {
  std::string_view name;
  uint64_t bytes;
};
constexpr TypeRow kTypes[] = {{"u8", 1},  {"i8", 1},  {"u16", 2},  {"i16", 2},    {"u32", 4},
                              {"i32", 4}, {"f32", 4}, {"bool", 1}, {"string", 0}, {"array", 0},
                              {"u64", 8}, {"i64", 8}, {"f64", 8}};

bool IsInteger(ValueType t) {
  switch (t) {
    case ValueType::U8:
    case ValueType::I8:
    case ValueType::U16:
    case ValueType::I16:
    case ValueType::U32:
    case ValueType::I32:
    case ValueType::U64:
    case ValueType::I64:
      return true;
    default:
      return false;
  }
}

bool IsNumber(ValueType t) {
  return IsInteger(t) || t == ValueType::F32 || t == ValueType::F64;
}

absl::Status IoError(const std::string& path, std::string_view step, int error) {
  const absl::StatusCode status = absl::ErrnoToStatusCode(error);
  const std::string what = Concat("cannot ", step, ": ", std::strerror(error));
  if (error == ENOMEM) return MakeError(status, "Q6001", what, path, "raise the memory limit (ulimit -v)");
  if (error == EMFILE || error == ENFILE) {
    return MakeError(status, "Q6004", what, path, "raise the limit of open files (ulimit -n)");
  }
  return MakeError(status, "Q1001", what, path);
}

FileState StateOf(const struct stat& info) {
  return {info.st_dev, info.st_ino, static_cast<uint64_t>(info.st_size), info.st_mtim.tv_sec,
          info.st_mtim.tv_nsec};
}

absl::Status Changed(std::string what, const std::string& where) {
  return MakeError("Q1009", std::move(what), where, "leave the file alone while it is read, and start again");
}

}  // namespace

std::string_view ValueTypeName(ValueType type) {
  return kTypes[static_cast<uint32_t>(type)].name;
}
uint64_t ValueTypeBytes(ValueType type) {
  return kTypes[static_cast<uint32_t>(type)].bytes;
}

std::string Quoted(std::string_view text) {
  constexpr size_t kShown = 120;
  if (text.size() <= kShown) return Concat("'", absl::Utf8SafeCHexEscape(std::string(text)), "'");
  return Concat("'", absl::CHexEscape(std::string(text.substr(0, kShown))), "...' (", text.size(), " bytes)");
}

std::string KeyWhere(std::string_view path, std::string_view key, uint64_t offset) {
  return Concat(path, ": key ", Quoted(key), ", byte ", offset);
}

std::string TensorWhere(std::string_view path, std::string_view tensor, uint64_t offset) {
  return Concat(path, ": tensor ", Quoted(tensor), ", byte ", offset);
}

// Well-formed UTF-8 as in Unicode table 3-7 (no surrogates, no overlong forms); NUL does not count as text.
bool IsValidUtf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    auto byte = [&](size_t k) { return static_cast<uint8_t>(text[k]); };
    uint8_t lead = byte(i);
    if (lead == 0) return false;
    if (lead < 0x80) {
      ++i;
      continue;
    }
    size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    if (lead < 0xc2 || lead > 0xf4 || text.size() - i < length) return false;
    uint8_t low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    uint8_t high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    if (byte(i + 1) < low || byte(i + 1) > high) return false;
    for (size_t k = 2; k < length; ++k) {
      if ((byte(i + k) & 0xc0) != 0x80) return false;
    }
    i += length;
  }
  return true;
}

bool IsResourceError(const absl::Status& status) {
  return PartsOf(status).code.starts_with("Q6");
}

File::Impl::~Impl() {
  if (mapping != nullptr) ::munmap(mapping, bytes.size());
  if (descriptor >= 0) ::close(descriptor);
}

File::File() : impl_(std::make_unique<Impl>()) {}
File::~File() = default;

absl::StatusOr<std::unique_ptr<File>> File::Open(const std::string& path) {
  absl::StatusOr<std::unique_ptr<File>> file = Map(path);
  if (!file.ok()) return file.status();
  if (absl::Status status = (*file)->Load(/*for_report=*/false); !status.ok()) return status;
  if (absl::Status status = AddSiblings(*file, /*for_report=*/false); !status.ok()) return status;
  return file;
}

absl::StatusOr<std::unique_ptr<File>> File::OpenForReport(const std::string& path) {
  absl::StatusOr<std::unique_ptr<File>> file = Map(path);
  if (!file.ok()) return file.status();
  if (absl::Status status = (*file)->Load(/*for_report=*/true); !status.ok()) return status;
  if (absl::Status status = AddSiblings(*file, /*for_report=*/true); !status.ok()) {
    std::vector<absl::Status>& refused = (*file)->impl_->refused;
    refused.insert(refused.begin(), std::move(status));
  }
  return file;
}

absl::StatusOr<std::unique_ptr<File>> File::Map(const std::string& path) {
  std::unique_ptr<File> file(new File());
  file->impl_->path = path;
  // O_NONBLOCK: opening a FIFO must not wait for a writer; fstat then refuses it.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return IoError(path, "open the file", errno);
  file->impl_->descriptor = descriptor;
  struct stat info;
  if (::fstat(descriptor, &info) != 0) return IoError(path, "read the file's size", errno);
  if (!S_ISREG(info.st_mode))
    return MakeError("Q1001", "this is not a regular file", path,
                     "give a GGUF file, or the first of its shards");
  file->impl_->opened = StateOf(info);
  uint64_t size = static_cast<uint64_t>(info.st_size);
  if (size > 0) {  // an empty file cannot be mapped; the parser names it
    void* mapping = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (mapping == MAP_FAILED) return IoError(path, "map the file", errno);
    file->impl_->mapping = mapping;
    file->impl_->bytes = {static_cast<const uint8_t*>(mapping), size};
  }
  return file;
}

absl::StatusOr<std::unique_ptr<File>> File::Parse(std::span<const uint8_t> bytes, std::string name) {
  std::unique_ptr<File> file(new File());
  file->impl_->path = std::move(name);
  file->impl_->bytes = bytes;
  if (absl::Status status = file->Load(/*for_report=*/false); !status.ok()) return status;
  if (absl::Status status = CheckNotSplit(*file); !status.ok()) return status;
  return file;
}

absl::Status File::Load(bool for_report) {
  Impl& impl = *impl_;
  Parser parser(impl.bytes, impl.path, for_report ? &impl.refused_tensors : nullptr);
  std::vector<Parser::Entry> entries;
  if (absl::Status s = parser.ParseHeader(); !s.ok()) return s;
  if (absl::Status s = parser.ParseEntries(&entries); !s.ok()) return s;
  for (const Parser::Entry& entry : entries) {
    impl.value_index.emplace(entry.key, impl.values.size());
    impl.values.push_back({entry.key, entry.type, entry.element, entry.count, entry.offset,
                           impl.bytes.data() + entry.data, impl.bytes.data() + entry.end});
  }
  if (absl::Status s = CheckVocabulary(*this); !s.ok()) {
    if (!for_report) return s;
    impl.refused.push_back(std::move(s));
  }
  if (absl::Status s = parser.ParseTensors(&impl.tensors, &impl.integers); !s.ok()) return s;
  for (size_t i = 0; i < impl.tensors.size(); ++i) impl.tensor_index.emplace(impl.tensors[i].name, i);
  return absl::OkStatus();
}

absl::Status File::CheckUnchanged() const {
  struct stat info;
  if (impl_->descriptor >= 0 && ::fstat(impl_->descriptor, &info) == 0) {
    const FileState found = StateOf(info), &opened = impl_->opened;
    if (found.size != opened.size) {
      return Changed(Concat("the file changed while it was read: it had ", opened.size, " bytes, now it has ",
                            found.size),
                     impl_->path);
    }
    if (found != opened) return Changed("the file was written to while it was read", impl_->path);
    const bool named = ::stat(impl_->path.c_str(), &info) == 0;
    if (named ? StateOf(info) != opened : errno == ENOENT) {
      return Changed(Concat("the file was ", named ? "replaced" : "removed", " while it was read"),
                     impl_->path);
    }
  }
  for (const std::unique_ptr<File>& sibling : impl_->siblings) {
    if (absl::Status s = sibling->CheckUnchanged(); !s.ok()) return s;
  }
  return absl::OkStatus();
}

const std::string& File::path() const {
  return impl_->path;
}
const std::vector<absl::Status>& File::refused() const {
  return impl_->refused;
}
std::span<const RefusedTensor> File::refused_tensors() const {
  return impl_->refused_tensors;
}
const std::string& File::PathOf(const Tensor& tensor) const {
  return FileOf(tensor.shard).path();
}
// A file that was taken along may be in several shards itself.
const File& File::FileOf(int shard) const {
  if (shard == 0) return *this;
  --shard;
  for (const std::unique_ptr<File>& sibling : impl_->siblings) {
    const int files = static_cast<int>(sibling->impl_->siblings.size()) + 1;
    if (shard < files) return sibling->FileOf(shard);
    shard -= files;
  }
  return *this;
}
std::vector<File::Shard> File::shards() const {
  std::vector<Shard> shards = {{path(), bytes()}};
  for (const std::unique_ptr<File>& sibling : impl_->siblings) {
    for (const Shard& shard : sibling->shards()) shards.push_back(shard);
  }
  return shards;
}
const File* File::joined() const {
  return impl_->has_joined ? impl_->siblings.back().get() : nullptr;
}
uint64_t File::size() const {
  uint64_t size = impl_->bytes.size();
  for (const std::unique_ptr<File>& sibling : impl_->siblings) size += sibling->size();
  return size;
}
std::span<const uint8_t> File::bytes() const {
  return impl_->bytes;
}
std::span<const Tensor> File::tensors() const {
  return impl_->tensors;
}

std::span<const IntegerTensor> File::integer_tensors() const {
  return impl_->integers;
}
const IntegerTensor* File::FindIntegers(std::string_view name) const {
  const auto it = std::find_if(impl_->integers.begin(), impl_->integers.end(),
                               [name](const IntegerTensor& tensor) { return tensor.name == name; });
  return it == impl_->integers.end() ? nullptr : &*it;
}
int64_t IntegerTensor::at(int64_t i) const {
  return static_cast<int64_t>(LoadLe<uint64_t>(data + sizeof(int64_t) * static_cast<size_t>(i)));
}

const Tensor* File::FindTensor(std::string_view name) const {
  auto it = impl_->tensor_index.find(name);
  return it == impl_->tensor_index.end() ? nullptr : &impl_->tensors[it->second];
}

bool File::Has(std::string_view key) const {
  return impl_->value_index.contains(key);
}

std::vector<std::string_view> File::keys() const {
  std::vector<std::string_view> keys;
  keys.reserve(impl_->values.size());
  for (const Value& value : impl_->values) keys.push_back(value.key);
  return keys;
}

absl::StatusOr<const File::Value*> File::Find(std::string_view key) const {
  auto it = impl_->value_index.find(key);
  if (it == impl_->value_index.end()) {
    return MakeError(absl::StatusCode::kNotFound, "Q1110", Concat("key ", Quoted(key), " is missing"),
                     impl_->path, kMakeAgain);
  }
  return &impl_->values[it->second];
}

absl::Status File::WrongType(const Value& value, std::string_view expected) const {
  std::string found(ValueTypeName(value.type));
  if (value.type == ValueType::Array) {
    found = Concat("array of ", value.count, " ", ValueTypeName(value.element));
  }
  return MakeError("Q1111", Concat("the value is ", found, ", expected ", expected),
                   KeyWhere(impl_->path, value.key, value.offset), kMakeAgain);
}

absl::StatusOr<int64_t> File::IntAt(const Value& value, uint64_t i) const {
  const uint8_t* p = value.data + i * ValueTypeBytes(value.element);
  switch (value.element) {
    case ValueType::U8:
      return *p;
    case ValueType::I8:
      return static_cast<int8_t>(*p);
    case ValueType::U16:
      return LoadLe<uint16_t>(p);
    case ValueType::I16:
      return static_cast<int16_t>(LoadLe<uint16_t>(p));
    case ValueType::U32:
      return LoadLe<uint32_t>(p);
    case ValueType::I32:
      return static_cast<int32_t>(LoadLe<uint32_t>(p));
    case ValueType::I64:
      return static_cast<int64_t>(LoadLe<uint64_t>(p));
    default:
      break;
  }
  uint64_t u = LoadLe<uint64_t>(p);
  if (u > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return MakeError("Q1112", Concat("the value is ", u, ", at most 2^63 - 1 is supported"),
                     KeyWhere(impl_->path, value.key, value.offset), kMakeAgain);
  }
  return static_cast<int64_t>(u);
}

absl::StatusOr<double> File::FloatAt(const Value& value, uint64_t i) const {
  if (value.element == ValueType::F32) return std::bit_cast<float>(LoadLe<uint32_t>(value.data + 4 * i));
  if (value.element == ValueType::F64) return std::bit_cast<double>(LoadLe<uint64_t>(value.data + 8 * i));
  absl::StatusOr<int64_t> integer = IntAt(value, i);
  if (!integer.ok()) return integer.status();
  return static_cast<double>(*integer);
}

absl::StatusOr<int64_t> File::GetInt(std::string_view key) const {
  absl::StatusOr<const Value*> value = Find(key);
  if (!value.ok()) return value.status();
  if (!IsInteger((*value)->element) || (*value)->count != 1) return WrongType(**value, "an integer");
  return IntAt(**value, 0);
}

absl::StatusOr<double> File::GetFloat(std::string_view key) const {
  absl::StatusOr<const Value*> value = Find(key);
  if (!value.ok()) return value.status();
  if (!IsNumber((*value)->element) || (*value)->count != 1) return WrongType(**value, "a number");
  return FloatAt(**value, 0);
}

absl::StatusOr<bool> File::GetBool(std::string_view key) const {
  absl::StatusOr<const Value*> value = Find(key);
  if (!value.ok()) return value.status();
  if ((*value)->element != ValueType::Bool || (*value)->count != 1) return WrongType(**value, "a bool");
  return (*value)->data[0] != 0;
}

absl::StatusOr<std::string_view> File::GetString(std::string_view key) const {
  absl::StatusOr<const Value*> value = Find(key);
  if (!value.ok()) return value.status();
  if ((*value)->element != ValueType::String || (*value)->count != 1) return WrongType(**value, "a string");
  return StringAt(**value, (*value)->data);
}

// Its length was checked when the file was parsed, and is again: the file may have been written to since.
absl::StatusOr<std::string_view> File::StringAt(const Value& value, const uint8_t* at) const {
  const auto left = static_cast<uint64_t>(value.end - at);
  const uint64_t length = left < 8 ? 0 : LoadLe<uint64_t>(at);
  if (left < 8 || length > left - 8) {
    return Changed("the file was written to while it was read",
                   KeyWhere(impl_->path, value.key, value.offset));
  }
  return std::string_view(reinterpret_cast<const char*>(at + 8), length);
}

absl::StatusOr<std::vector<int64_t>> File::GetIntArray(std::string_view key) const {
  absl::StatusOr<const Value*> value = Find(key);
  if (!value.ok()) return value.status();
  if (!IsInteger((*value)->element)) return WrongType(**value, "integers");
  std::vector<int64_t> out;
  out.reserve((*value)->count);
  for (uint64_t i = 0; i < (*value)->count; ++i) {
    absl::StatusOr<int64_t> element = IntAt(**value, i);
    if (!element.ok()) return element.status();
    out.push_back(*element);
  }
  return out;
}

absl::StatusOr<std::vector<bool>> File::GetBoolArray(std::string_view key) const {
  absl::StatusOr<const Value*> value = Find(key);
  if (!value.ok()) return value.status();
  if ((*value)->element != ValueType::Bool) return WrongType(**value, "bools");
  std::vector<bool> out((*value)->count);
  for (uint64_t i = 0; i < (*value)->count; ++i) out[i] = (*value)->data[i] != 0;
  return out;
}

absl::StatusOr<std::vector<float>> File::GetFloatArray(std::string_view key) const {
  absl::StatusOr<const Value*> value = Find(key);
  if (!value.ok()) return value.status();
  if (!IsNumber((*value)->element)) return WrongType(**value, "numbers");
  std::vector<float> out;
  out.reserve((*value)->count);
  for (uint64_t i = 0; i < (*value)->count; ++i) {
    absl::StatusOr<double> element = FloatAt(**value, i);
    if (!element.ok()) return element.status();
    out.push_back(static_cast<float>(*element));
  }
  return out;
}

absl::StatusOr<std::vector<std::string_view>> File::GetStringArray(std::string_view key) const {
  absl::StatusOr<const Value*> value = Find(key);
  if (!value.ok()) return value.status();
  if ((*value)->element != ValueType::String) return WrongType(**value, "strings");
  std::vector<std::string_view> out;
  out.reserve((*value)->count);
  const uint8_t* p = (*value)->data;
  for (uint64_t i = 0; i < (*value)->count; ++i) {
    absl::StatusOr<std::string_view> element = StringAt(**value, p);
    if (!element.ok()) return element.status();
    out.push_back(*element);
    p += 8 + element->size();
  }
  return out;
}

}  // namespace qcc::gguf
