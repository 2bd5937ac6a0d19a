// Builds GGUF bytes field by field, good and bad, without the library's writer.
#ifndef QCC_TESTS_UNIT_GGUF_BYTES_H_
#define QCC_TESTS_UNIT_GGUF_BYTES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace qcc::gguf::testing {

class Bytes {
 public:
  template <typename T>
  Bytes& Le(T value) {
    for (size_t i = 0; i < sizeof(T); ++i)
      data_.push_back(static_cast<uint8_t>(static_cast<uint64_t>(value) >> (8 * i)));
    return *this;
  }
  Bytes& U8(uint8_t v) { return Le(v); }
  Bytes& U32(uint32_t v) { return Le(v); }
  Bytes& U64(uint64_t v) { return Le(v); }
  Bytes& Raw(std::string_view s) {
    data_.insert(data_.end(), s.begin(), s.end());
    return *this;
  }
  Bytes& Str(std::string_view s) { return U64(s.size()).Raw(s); }
  Bytes& Header(uint64_t tensors, uint64_t entries, uint32_t version = 3) {
    return Raw("GGUF").U32(version).U64(tensors).U64(entries);
  }
  // Metadata entries: key and value type; the value follows.
  Bytes& Key(std::string_view key, uint32_t type) { return Str(key).U32(type); }
  Bytes& KvU32(std::string_view key, uint32_t v) { return Key(key, 4).U32(v); }
  Bytes& KvStr(std::string_view key, std::string_view v) { return Key(key, 8).Str(v); }
  Bytes& KvArray(std::string_view key, uint32_t element, uint64_t count) {
    return Key(key, 9).U32(element).U64(count);
  }
  Bytes& TensorInfo(std::string_view name, const std::vector<uint64_t>& ne, uint32_t type, uint64_t offset) {
    Str(name).U32(static_cast<uint32_t>(ne.size()));
    for (uint64_t n : ne) U64(n);
    return U32(type).U64(offset);
  }
  Bytes& Pad(size_t alignment = 32) {
    while (data_.size() % alignment != 0) data_.push_back(0);
    return *this;
  }
  Bytes& Zeros(size_t n) {
    data_.resize(data_.size() + n);
    return *this;
  }
  size_t size() const { return data_.size(); }
  const std::vector<uint8_t>& get() const { return data_; }

 private:
  std::vector<uint8_t> data_;
};

// A small valid file with a value of every type, strings, arrays and two tensors.
inline Bytes SmallFile(uint32_t version = 3) {
  Bytes b;
  b.Header(2, 16, version);
  b.KvStr("general.architecture", "test");
  b.Key("t.u8", 0).U8(200);
  b.Key("t.i8", 1).U8(0x80);
  b.Key("t.u16", 2).Le<uint16_t>(60000);
  b.Key("t.i16", 3).Le<uint16_t>(0x8000);
  b.KvU32("t.u32", 4000000000u);
  b.Key("t.i32", 5).U32(0x80000000u);
  b.Key("t.f32", 6).U32(0x3fc00000u);  // 1.5
  b.Key("t.bool", 7).U8(1);
  b.KvStr("t.string", "h\xc3\xa9llo");
  b.Key("t.u64", 10).U64(uint64_t{1} << 62);
  b.Key("t.i64", 11).U64(~uint64_t{0});
  b.Key("t.f64", 12).U64(0x4004000000000000u);  // 2.5
  b.KvArray("t.ints", 5, 3).U32(1).U32(0xffffffffu).U32(3);
  b.KvArray("t.bools", 7, 2).U8(1).U8(0);
  b.KvArray("t.strings", 8, 3).Str("a").Str("").Str("ccc");
  b.TensorInfo("first", {4, 2}, 0, 0);  // 32 bytes of f32
  b.TensorInfo("second", {64}, 8, 32);  // two q8_0 blocks, 68 bytes
  b.Pad();
  for (int i = 0; i < 8; ++i) b.U32(0x3f800000u);
  b.Zeros(68);
  return b;
}

}  // namespace qcc::gguf::testing

#endif  // QCC_TESTS_UNIT_GGUF_BYTES_H_
