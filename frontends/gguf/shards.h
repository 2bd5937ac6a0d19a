// How the files of a split model are named, and what each says of itself. Not for other rooms.
#ifndef QCC_FRONTENDS_GGUF_SHARDS_H_
#define QCC_FRONTENDS_GGUF_SHARDS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "frontends/gguf/gguf.h"

namespace qcc::gguf {

// What a shard's metadata say: split.no (from 0), split.count, split.tensors.count (of all shards together).
struct Split {
  int64_t no;
  int64_t count;
  int64_t tensors;
};

// None: the file is a whole model (a count of 0 is what mergers write). Error: Q1402.
absl::StatusOr<std::optional<Split>> ReadSplit(const File& file);

// The paths of all shards, by number, made from the name of one of them, "STEM-00002-of-00003.gguf", and
// never from metadata. Errors: Q1401, the name is no such name; Q1403, it contradicts what the file says.
absl::StatusOr<std::vector<std::string>> ShardPaths(const std::string& path, const Split& split);

// "shard 2 of 3", of the number from 0.
std::string ShardText(int64_t no, int64_t count);

// Whether a file is the shard that its name promises, of the same set. Error: Q1405.
absl::Status CheckShard(const File& shard, const Split& expected);

}  // namespace qcc::gguf

#endif  // QCC_FRONTENDS_GGUF_SHARDS_H_
