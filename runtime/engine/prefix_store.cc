#include "runtime/engine/prefix_store.h"

#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include "runtime/engine/engine.h"
#include "runtime/engine/session.h"

namespace qrt {

// Memory that follows the model, not zeroed. Throws std::bad_alloc.
class PrefixStore::Bytes {
 public:
  Bytes(const std::optional<qrt_allocator>& allocator, uint64_t size) : allocator_(allocator), size_(size) {
    data_ = static_cast<uint8_t*>(allocator_ ? allocator_->allocate(allocator_->ctx, size, kAlignment)
                                             : ::operator new(size));
    if (data_ == nullptr) throw std::bad_alloc();
  }
  ~Bytes() {
    if (allocator_) {
      allocator_->deallocate(allocator_->ctx, data_, size_, kAlignment);
    } else {
      ::operator delete(data_);
    }
  }
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;
  uint8_t* data() const { return data_; }

 private:
  static constexpr size_t kAlignment = 64;
  const std::optional<qrt_allocator> allocator_;
  const uint64_t size_;
  uint8_t* data_;
};

struct PrefixStore::Node {
  Block tokens = {};
  Node* parent = nullptr;  // null: the root
  std::map<Block, Node*> children;
  std::shared_ptr<Bytes> kv, state;  // null: none. Begin copies from them after it has let the tree go
  uint64_t depth = 0;                // blocks up to here
  uint32_t asked = 0;                // by Pin, not yet by Unpin
  uint32_t pins = 0;                 // they, and prefixes that are being made from here
  uint32_t pinned_below = 0;         // pins here and of longer ones
  Node *older = nullptr, *newer = nullptr;
  bool listed = false;
};

struct PrefixStore::Growth {
  std::vector<std::map<Block, Node*>> nodes;
  std::shared_ptr<Bytes> state;

  ~Growth() {
    for (auto& node : nodes) {
      if (!node.empty()) delete node.begin()->second;
    }
  }
};

PrefixStore::PrefixStore(Engine& engine, uint64_t cap, const qrt_allocator* allocator)
    : engine_(engine),
      cap_(cap),
      recurrent_(engine.StateBytes(kBlock) != 0),
      block_bytes_(engine.KvBytes(kBlock) + sizeof(Node) + sizeof(std::pair<const Block, Node*>)),
      state_bytes_(engine.StateBytes(kBlock)),
      root_(std::make_unique<Node>()) {
  if (allocator != nullptr) allocator_ = *allocator;
}

PrefixStore::~PrefixStore() {
  // Leaf by leaf: a sequence may have more blocks than a stack has room for calls.
  Node* node = root_.get();
  while (node != nullptr) {
    if (node->children.empty()) {
      Node* parent = node->parent;
      if (parent != nullptr) {
        parent->children.erase(node->tokens);
        delete node;
      }
      node = parent;
    } else {
      node = node->children.begin()->second;
    }
  }
}

std::shared_ptr<PrefixStore::Bytes> PrefixStore::Make(uint64_t bytes) const {
  return bytes == 0 ? nullptr : std::make_shared<Bytes>(allocator_, bytes);
}

PrefixStore::Node* PrefixStore::Walk(std::span<const int32_t> tokens) const {
  Node* node = root_.get();
  Block block;
  for (; tokens.size() >= kBlock; tokens = tokens.subspan(kBlock)) {
    std::copy_n(tokens.begin(), kBlock, block.begin());
    const auto child = node->children.find(block);
    if (child == node->children.end()) break;
    node = child->second;
  }
  return node;
}

PrefixStore::Node* PrefixStore::EndOf(Node* node) const {
  while (recurrent_ && node->parent != nullptr && node->state == nullptr) node = node->parent;
  return node;
}

void PrefixStore::Unlist(Node* node) {
  if (!node->listed) return;
  (node->older != nullptr ? node->older->newer : oldest_) = node->newer;
  (node->newer != nullptr ? node->newer->older : newest_) = node->older;
  node->older = node->newer = nullptr;
  node->listed = false;
}

void PrefixStore::Append(Node* node) {
  Unlist(node);
  node->older = newest_;
  (newest_ != nullptr ? newest_->newer : oldest_) = node;
  newest_ = node;
  node->listed = true;
}

void PrefixStore::Touch(Node* end) {
  if (recurrent_) {
    if (end->parent != nullptr && end->pins == 0) Append(end);
    return;
  }
  for (Node* node = end; node->parent != nullptr; node = node->parent) {
    if (node->pinned_below == 0) Append(node);
  }
}

void PrefixStore::Hold(Node* node) {
  if (node->pins++ == 0) {
    if (recurrent_) Unlist(node);
    if (node->state != nullptr) pinned_bytes_ += state_bytes_;
  }
  for (; node != nullptr; node = node->parent) {
    if (node->pinned_below++ != 0 || node->parent == nullptr) continue;
    pinned_bytes_ += block_bytes_;
    if (!recurrent_) Unlist(node);
  }
}

void PrefixStore::Release(Node* node) {
  Node* const end = node;
  if (--node->pins == 0) {
    if (node->state != nullptr) pinned_bytes_ -= state_bytes_;
    if (recurrent_ && node->state != nullptr) Append(node);
  }
  for (; node != nullptr; node = node->parent) {
    if (--node->pinned_below != 0 || node->parent == nullptr) continue;
    pinned_bytes_ -= block_bytes_;
    if (!recurrent_) Append(node);
  }
  // What was held without an end, and whose ends went meanwhile.
  for (node = end; recurrent_ && node->parent != nullptr && node->children.empty() &&
                   node->state == nullptr && node->pinned_below == 0;) {
    Node* const parent = node->parent;
    RemoveLeaf(node);
    node = parent;
  }
}

void PrefixStore::RemoveLeaf(Node* node) {
  Unlist(node);
  Node* const parent = node->parent;
  parent->children.erase(node->tokens);
  if (!recurrent_) counters_.prefixes -= parent->parent == nullptr || !parent->children.empty() ? 1 : 0;
  counters_.bytes -= block_bytes_;
  delete node;
}

bool PrefixStore::MakeRoomFor(uint64_t bytes) {
  while (counters_.bytes > cap_ - bytes) {
    Node* node = oldest_;
    if (node == nullptr) return false;
    if (!recurrent_) {
      RemoveLeaf(node);
      continue;
    }
    Unlist(node);
    node->state.reset();
    counters_.bytes -= state_bytes_;
    --counters_.prefixes;
    // Nothing begins from blocks without an end behind them.
    while (node->parent != nullptr && node->children.empty() && node->state == nullptr &&
           node->pinned_below == 0) {
      Node* const parent = node->parent;
      RemoveLeaf(node);
      node = parent;
    }
  }
  return true;
}

uint64_t PrefixStore::UnpinnedOnTheWayTo(const Node* node) const {
  uint64_t bytes = node->state != nullptr && node->pins == 0 ? state_bytes_ : 0;
  for (; node->parent != nullptr; node = node->parent) {
    if (node->pinned_below == 0) bytes += block_bytes_;
  }
  return bytes;
}

namespace {

// How many of a prompt's tokens a session of that capacity can begin with.
uint64_t MostOf(std::span<const int32_t> tokens, uint64_t capacity) {
  return std::min<uint64_t>(tokens.empty() ? 0 : tokens.size() - 1, capacity);
}

}  // namespace

PrefixStore::Found PrefixStore::Find(std::span<const int32_t> tokens, uint64_t capacity) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  Node* const last = Walk(tokens.first(MostOf(tokens, capacity)));
  return {EndOf(last)->depth * kBlock, last->depth * kBlock};
}

Status PrefixStore::Begin(Session& session, std::span<const int32_t> tokens, Found* found) {
  *found = Found();
  std::vector<std::shared_ptr<Bytes>> blocks;
  std::vector<uint8_t*> kv;
  std::shared_ptr<Bytes> state;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    Node* const last = Walk(tokens.first(MostOf(tokens, session.capacity())));
    Node* const end = EndOf(last);
    blocks.resize(end->depth);
    kv.resize(end->depth);
    for (const Node* node = end; node->parent != nullptr; node = node->parent) {
      blocks[node->depth - 1] = node->kv;
      kv[node->depth - 1] = node->kv != nullptr ? node->kv->data() : nullptr;
    }
    state = end->state;
    Touch(end);
    counters_.hits += end->depth != 0;
    counters_.reused += end->depth * kBlock;
    *found = {end->depth * kBlock, last->depth * kBlock};
  }
  if (found->reused == 0) return session.Reset();
  return session.Become(kBlock, kv, state != nullptr ? state->data() : nullptr);
}

Status PrefixStore::Read(const Session& session, uint64_t from, uint64_t blocks, Growth* growth) const {
  std::vector<uint8_t*> kv;
  for (std::map<Block, Node*>& node : growth->nodes) {
    Node& made = *node.begin()->second;
    made.kv = Make(engine_.KvBytes(kBlock));
    kv.push_back(made.kv != nullptr ? made.kv->data() : nullptr);
  }
  QRT_RETURN_IF_ERROR(session.ReadKv(from * kBlock, kBlock, kv));
  if (growth->state == nullptr) return Status();
  return session.ReadState(blocks * kBlock, growth->state->data());
}

PrefixStore::Node* PrefixStore::Link(Node* at, Growth& growth) {
  for (std::map<Block, Node*>& made : growth.nodes) {
    const auto known = at->children.find(made.begin()->first);
    if (known != at->children.end()) {
      counters_.bytes -= block_bytes_;
      at = known->second;
      continue;
    }
    Node* const node = made.begin()->second;
    if (!recurrent_) counters_.prefixes += at->parent == nullptr || !at->children.empty() ? 1 : 0;
    at->children.insert(made.extract(made.begin()));
    node->parent = at;
    node->depth = at->depth + 1;
    at = node;
  }
  if (growth.state == nullptr) return at;
  if (at->state != nullptr) {
    counters_.bytes -= state_bytes_;
    return at;
  }
  at->state = std::move(growth.state);
  if (at->pins != 0) pinned_bytes_ += state_bytes_;
  ++counters_.prefixes;
  return at;
}

Status PrefixStore::Keep(const Session& session, std::span<const int32_t> tokens, uint64_t* kept) {
  *kept = 0;
  const uint64_t position = session.position(), rest = position % kBlock;
  const auto refused = [](std::string message, const char* help) {
    return Status(Code::kInvalidArgument, 5351, std::move(message), "session", help);
  };
  if (session.damaged()) return Session::Damaged();
  if (tokens.size() != position) {
    return refused(
        std::to_string(tokens.size()) + " tokens are given, the session holds " + std::to_string(position),
        "give all tokens that it was fed, and no others");
  }
  if (rest > session.rewindable()) {
    return refused("the session holds " + std::to_string(position) +
                       " tokens, and cannot step back to a multiple of " + std::to_string(kBlock),
                   "keep a prefix when the session holds a multiple of 16 tokens, or make it with "
                   "max_rewind");
  }
  const uint64_t blocks = position / kBlock;
  if (blocks == 0 || session.foreign()) return Status();
  tokens = tokens.first(blocks * kBlock);

  Node* at;
  uint64_t reserved;
  bool needs_state;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    at = Walk(tokens);
    const uint64_t fresh = blocks - at->depth;
    needs_state = recurrent_ && (fresh != 0 || at->state == nullptr);
    reserved = fresh * block_bytes_ + (needs_state ? state_bytes_ : 0);
    if (reserved == 0) {
      Touch(at);
      *kept = tokens.size();
      return Status();
    }
    const uint64_t taken = pinned_bytes_ + UnpinnedOnTheWayTo(at);
    if (taken > cap_ || reserved > cap_ - taken) return Status();
    Hold(at);
    if (!MakeRoomFor(reserved)) {
      Release(at);
      return Status();
    }
    counters_.bytes += reserved;
  }
  // Gives back what was reserved, whatever happens.
  struct Reservation {
    PrefixStore& store;
    Node* at;
    uint64_t bytes;
    ~Reservation() {
      const std::lock_guard<std::mutex> lock(store.mutex_);
      store.counters_.bytes -= bytes;
      store.Release(at);
    }
  } reservation{*this, at, reserved};

  Growth growth;
  growth.nodes.resize(blocks - at->depth);
  for (size_t i = 0; i < growth.nodes.size(); ++i) {
    auto node = std::make_unique<Node>();
    std::copy_n(tokens.begin() + static_cast<ptrdiff_t>((at->depth + i) * kBlock), kBlock,
                node->tokens.begin());
    growth.nodes[i].emplace(node->tokens, node.get());
    static_cast<void>(node.release());
  }
  if (needs_state) growth.state = Make(state_bytes_);
  QRT_RETURN_IF_ERROR(Read(session, at->depth, blocks, &growth));
  const std::lock_guard<std::mutex> lock(mutex_);
  reservation.bytes = 0;
  Touch(Link(at, growth));
  *kept = tokens.size();
  return Status();
}

uint64_t PrefixStore::Pin(std::span<const int32_t> tokens) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Node* const end = EndOf(Walk(tokens));
  if (end->parent == nullptr) return 0;
  Hold(end);
  ++end->asked;
  return end->depth * kBlock;
}

Status PrefixStore::Unpin(std::span<const int32_t> tokens) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Node* const end = Walk(tokens);
  if (end->parent == nullptr || end->depth * kBlock != tokens.size() || end->asked == 0) {
    return Status(Code::kInvalidArgument, 5352,
                  "no prefix of these " + std::to_string(tokens.size()) + " tokens is pinned", "engine",
                  "give the tokens of which qrt_engine_pin_prefix told how many");
  }
  --end->asked;
  Release(end);
  return Status();
}

PrefixStore::Counters PrefixStore::counters() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return counters_;
}

}  // namespace qrt
