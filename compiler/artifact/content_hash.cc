#include "compiler/artifact/content_hash.h"

#include <xxhash.h>

#include <cstring>
#include <new>

#include "absl/strings/escaping.h"

namespace qcc::compiler {
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

struct ContentHasher::State {
  XXH3_state_t* xxh = XXH3_createState();
  State() {
    if (xxh == nullptr) throw std::bad_alloc();
    XXH3_128bits_reset(xxh);
  }
  ~State() { XXH3_freeState(xxh); }
};

ContentHasher::ContentHasher() : state_(std::make_unique<State>()) {}
ContentHasher::~ContentHasher() = default;

void ContentHasher::Update(std::span<const uint8_t> bytes) {
  XXH3_128bits_update(state_->xxh, bytes.data(), bytes.size());
}

Hash128 ContentHasher::Finish() const {
  return Canonical(XXH3_128bits_digest(state_->xxh));
}

Hash128 HashOf(std::span<const uint8_t> bytes) {
  return Canonical(XXH3_128bits(bytes.data(), bytes.size()));
}

std::string Hex(const Hash128& hash) {
  return absl::BytesToHexString({reinterpret_cast<const char*>(hash.data()), hash.size()});
}

}  // namespace qcc::compiler
