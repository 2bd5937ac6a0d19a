#include "tests/fuzz/gguf_fields.h"

#include <algorithm>
#include <cstring>

namespace qcc::fuzz {
namespace {

constexpr uint32_t kString = 8, kArray = 9;
constexpr uint64_t kMostElements = 64;

// Bytes of a scalar by GGUF value type; 0 for the others.
size_t Width(uint32_t type) {
  constexpr size_t kWidths[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return type < std::size(kWidths) ? kWidths[type] : 0;
}

class Walk {
 public:
  explicit Walk(std::span<const uint8_t> file) : file_(file) {}

  GgufHead Run() {
    Skip(8);  // magic and version
    const uint64_t tensors = Take(8), entries = Take(8);
    for (uint64_t i = 0; ok_ && i < entries; ++i) Entry();
    for (uint64_t i = 0; ok_ && i < tensors; ++i) Tensor();
    if (ok_) head_.end = at_;
    return std::move(head_);
  }

 private:
  void Skip(uint64_t bytes) {
    ok_ = ok_ && bytes <= file_.size() - at_;
    if (ok_) at_ += bytes;
  }
  uint64_t Take(size_t bytes) {
    const size_t from = at_;
    Skip(bytes);
    uint64_t value = 0;
    if (ok_) std::memcpy(&value, file_.data() + from, bytes);
    return value;
  }
  uint64_t Number(size_t bytes) {
    if (bytes <= file_.size() - at_) head_.fields.push_back({at_, bytes});
    return Take(bytes);
  }
  void String() { Skip(Take(8)); }

  void Entry() {
    String();
    const uint64_t type = Take(4);
    if (type == kString) return String();
    if (type != kArray) {
      const size_t width = Width(static_cast<uint32_t>(type));
      ok_ = ok_ && width != 0;
      if (ok_) Number(width);
      return;
    }
    const uint64_t element = Take(4), count = Take(8);
    const size_t width = Width(static_cast<uint32_t>(element));
    if (width != 0) {
      ok_ = ok_ && count <= file_.size();
      for (uint64_t i = 0; ok_ && i < std::min(count, kMostElements); ++i) Number(width);
      if (count > kMostElements) Skip((count - kMostElements) * width);
    } else {
      ok_ = ok_ && element == kString;
      for (uint64_t i = 0; ok_ && i < count; ++i) String();
    }
  }

  void Tensor() {
    String();
    const uint64_t dims = Take(4);
    ok_ = ok_ && dims <= 4;
    for (uint64_t i = 0; ok_ && i < dims; ++i) Number(8);
    if (ok_) Number(4);  // type
    Skip(8);             // offset
  }

  std::span<const uint8_t> file_;
  size_t at_ = 0;
  bool ok_ = true;
  GgufHead head_;
};

}  // namespace

GgufHead ReadHead(std::span<const uint8_t> file) {
  return Walk(file).Run();
}

}  // namespace qcc::fuzz
