// XXH3-128 in the form that artifacts store: canonical, 16 bytes.
#ifndef QRT_BASE_HASH_H_
#define QRT_BASE_HASH_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace qrt {

using Hash128 = std::array<uint8_t, 16>;

Hash128 HashOf(std::span<const uint8_t> bytes);
std::string Hex(const Hash128& hash);                    // 32 lower-case digits, the same order as the bytes
std::optional<Hash128> ParseHash(std::string_view hex);  // what Hex gives; nothing for another text

// The hash of bytes that come in pieces.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;
  void Update(std::span<const uint8_t> bytes);
  Hash128 Finish() const;  // of everything so far

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace qrt

#endif  // QRT_BASE_HASH_H_
