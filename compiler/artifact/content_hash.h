// XXH3-128 in the canonical form that artifacts store.
#ifndef QCC_COMPILER_ARTIFACT_CONTENT_HASH_H_
#define QCC_COMPILER_ARTIFACT_CONTENT_HASH_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "compiler/artifact/manifest_spec.h"

namespace qcc::compiler {

// The hash of bytes that come in pieces.
class ContentHasher {
 public:
  ContentHasher();
  ~ContentHasher();
  ContentHasher(const ContentHasher&) = delete;
  ContentHasher& operator=(const ContentHasher&) = delete;
  void Update(std::span<const uint8_t> bytes);
  Hash128 Finish() const;  // of everything so far

 private:
  struct State;
  std::unique_ptr<State> state_;
};

Hash128 HashOf(std::span<const uint8_t> bytes);
std::string Hex(const Hash128& hash);  // 32 lower-case digits

}  // namespace qcc::compiler

#endif  // QCC_COMPILER_ARTIFACT_CONTENT_HASH_H_
