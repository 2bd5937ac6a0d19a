// A prefix of prompts as a file keeps it: its tokens and the session behind them.
#ifndef RUNTIME_QRUN_PREFIX_FILE_H_
#define RUNTIME_QRUN_PREFIX_FILE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/base/hash.h"

namespace qrun {

// The file: this, the tokens as i32, what qrt_session_save wrote. Little endian as every machine that qrt
// runs on.
struct PrefixHead {
  char magic[8];
  uint8_t hash[16];  // XXH3-128 of the file with these bytes taken as zero
  uint8_t binding[16];
  uint64_t tokens;
  uint64_t snapshot_bytes;
};
static_assert(sizeof(PrefixHead) == 56, "no padding");

// `binding`: a hash of all that the snapshot's use depends on besides the tokens. The parts of the file, in
// their order, are the head, the tokens and the snapshot.
PrefixHead MakePrefixHead(const qrt::Hash128& binding, std::span<const int32_t> tokens,
                          std::string_view snapshot);

// Names of such files; nothing depends on more of them than that equal ones have equal contents.
std::string PrefixFileName(const qrt::Hash128& binding, std::span<const int32_t> tokens);
bool IsPrefixFileName(std::string_view name);

enum class PrefixRead {
  kGood,
  kForeign,  // not of this release, or for another binding
  kDamaged   // of this release, and not as it was written
};

// The head at the begin of a file of `file_bytes` bytes, of which `begin` are the first, at least
// sizeof(PrefixHead) where there are so many. What it says fits the file then; the hash is not looked at.
PrefixRead ReadPrefixHead(std::string_view begin, uint64_t file_bytes, const qrt::Hash128& binding,
                          PrefixHead* out);

// All of a file: with kGood also its snapshot's place, and that the bytes are those that were written.
PrefixRead ReadPrefix(std::string_view file, const qrt::Hash128& binding, PrefixHead* out,
                      std::string_view* snapshot);

}  // namespace qrun

#endif  // RUNTIME_QRUN_PREFIX_FILE_H_
