// Prefixes that sequences of an engine began with, for those that begin alike.
#ifndef RUNTIME_ENGINE_PREFIX_STORE_H_
#define RUNTIME_ENGINE_PREFIX_STORE_H_

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/include/qrt/qrt.h"

namespace qrt {

class Engine;
class Session;

// A tree of blocks of 16 tokens, in the host's memory. KV is kept with each block, once, however many
// prefixes go through it. What recurs is kept where a prefix ends: it is large (as much as the KV of a
// thousand tokens, say), so whoever feeds a prompt says where it is worth that: where prompts end, and where
// one was seen to branch off another (Found::shared; Pan et al., "Marconi: Prefix Caching for the Era of
// Hybrid LLMs", 2025). Of models with KV alone every block ends a prefix.
//
// Any thread. Sessions of the engine share prefixes whatever their context and way back are: what is kept
// does not depend on how a session's memory is laid out. While bytes are copied the tree is free for others.
class PrefixStore {
 public:
  static constexpr uint64_t kBlock = 16;  // tokens

  struct Found {
    uint64_t reused = 0;  // tokens that the session holds now
    uint64_t shared = 0;  // whole blocks of the prompt that the tree knows, from its begin: >= reused
  };
  struct Counters {
    uint64_t bytes = 0;
    uint64_t prefixes = 0;  // ends: with a state, or of models with KV alone the tree's leaves
    uint64_t hits = 0;      // calls of Begin that found something
    uint64_t reused = 0;    // tokens, by them
  };

  // At most `cap` bytes, of `allocator` (NULL: the system). The engine outlives the store.
  PrefixStore(Engine& engine, uint64_t cap, const qrt_allocator* allocator);
  const qrt_allocator* allocator() const { return allocator_ ? &*allocator_ : nullptr; }
  ~PrefixStore();
  PrefixStore(const PrefixStore&) = delete;
  PrefixStore& operator=(const PrefixStore&) = delete;

  // What Begin would find for a session of that capacity; it is not used by that.
  Found Find(std::span<const int32_t> tokens, uint64_t capacity) const;
  // The session becomes the longest prefix of `tokens`, but for their last one at least, that is kept and
  // fits its context; empty where there is none. Throws std::bad_alloc. Errors: device lost, device
  // failed. After both it must be reset.
  Status Begin(Session& session, std::span<const int32_t> tokens, Found* found);

  // Keeps the prefix of whole blocks of `session`, which was fed `tokens`. *kept: its tokens; 0: there is no
  // whole block, or no room beside what is pinned. The least recently used makes way. Throws std::bad_alloc.
  // Errors: invalid argument (another number of tokens than the session holds; it cannot step back to the end
  // of a block; a step failed), device lost, device failed.
  Status Keep(const Session& session, std::span<const int32_t> tokens, uint64_t* kept);

  // The longest kept prefix of `tokens` stays until it was unpinned as often. Its tokens; 0: there is none.
  uint64_t Pin(std::span<const int32_t> tokens);
  // `tokens` are exactly a prefix that was pinned. Errors: invalid argument.
  Status Unpin(std::span<const int32_t> tokens);

  Counters counters() const;

 private:
  using Block = std::array<int32_t, kBlock>;
  class Bytes;
  struct Node;
  // One prefix's part of the tree that is being made: the blocks that are new, each as the only entry of a
  // map, which can be linked without taking memory.
  struct Growth;

  Status Read(const Session& session, uint64_t from, uint64_t blocks, Growth* growth) const;
  std::shared_ptr<Bytes> Make(uint64_t bytes) const;

  // The lock is held in all of these; none of them throws.
  Node* Walk(std::span<const int32_t> tokens) const;
  Node* EndOf(Node* node) const;  // the last node on the way to it that a session can begin from
  // Memory that would be bound by a prefix through `node`, and is not by what is pinned.
  uint64_t UnpinnedOnTheWayTo(const Node* node) const;
  void Touch(Node* end);
  void Hold(Node* node);
  void Release(Node* node);
  // Removes what was not used for the longest time until `bytes` more fit. False: they do not.
  bool MakeRoomFor(uint64_t bytes);
  // Links what is new below `at`, but for what somebody else has linked meanwhile. Its end.
  Node* Link(Node* at, Growth& growth);
  void RemoveLeaf(Node* node);
  void Append(Node* node);  // to the list, as the last one used
  void Unlist(Node* node);

  Engine& engine_;
  const uint64_t cap_;
  std::optional<qrt_allocator> allocator_;
  const bool recurrent_;        // a prefix needs a state at its end
  const uint64_t block_bytes_;  // of a node and its KV
  const uint64_t state_bytes_;
  std::unique_ptr<Node> root_;  // the empty sequence
  // In the order of their use: ends of prefixes that are not pinned; of models with KV alone all nodes on no
  // pinned way, each before those that it hangs from, so that the first one is a leaf.
  Node *oldest_ = nullptr, *newest_ = nullptr;
  Counters counters_;
  uint64_t pinned_bytes_ = 0;
  mutable std::mutex mutex_;  // guards all that is not const
};

}  // namespace qrt

#endif  // RUNTIME_ENGINE_PREFIX_STORE_H_
