#include "runtime/base/hash.h"

#include <xxhash.h>

#include <cstring>
#include <new>

namespace qrt {
namespace {

Hash128 Canonical(XXH128_hash_t hash) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, hash);
  Hash128 out;
  static_assert(sizeof canonical.digest == sizeof out);
  std::memcpy(out.data(), canonical.digest, out.size());
  return out;
}

}  // namespace

Hash128 HashOf(std::span<const uint8_t> bytes) {
  return Canonical(XXH3_128bits(bytes.data(), bytes.size()));
}

std::string Hex(const Hash128& hash) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  out.reserve(2 * hash.size());
  for (uint8_t byte : hash) {
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out;
}

std::optional<Hash128> ParseHash(std::string_view hex) {
  Hash128 hash;
  if (hex.size() != 2 * hash.size()) return std::nullopt;
  const auto digit = [](char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  };
  for (size_t i = 0; i < hash.size(); ++i) {
    const int high = digit(hex[2 * i]), low = digit(hex[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    hash[i] = static_cast<uint8_t>(high * 16 + low);
  }
  return hash;
}

// The library allocates its state; out of memory there is reported like any other failing new.
struct Hasher::State {
  XXH3_state_t* xxh = XXH3_createState();
  State() {
    if (xxh == nullptr) throw std::bad_alloc();
    XXH3_128bits_reset(xxh);
  }
  ~State() { XXH3_freeState(xxh); }
};

Hasher::Hasher() : state_(std::make_unique<State>()) {}
Hasher::~Hasher() = default;

void Hasher::Update(std::span<const uint8_t> bytes) {
  XXH3_128bits_update(state_->xxh, bytes.data(), bytes.size());
}

Hash128 Hasher::Finish() const {
  return Canonical(XXH3_128bits_digest(state_->xxh));
}

}  // namespace qrt
