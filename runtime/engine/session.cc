#include "runtime/engine/session.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>

#include "runtime/base/hash.h"
#include "runtime/engine/engine.h"

namespace qrt {
namespace {

// KV is laid out for a multiple of this, so that every plane starts aligned whatever the context.
constexpr uint64_t kKvTokenAlignment = 64;

constexpr char kSnapshotMagic[8] = {'Q', 'R', 'T', 'S', 'N', 'A', 'P', '1'};

struct SnapshotHeader {
  char magic[8];
  uint8_t identity[16];
  uint64_t position;
  uint64_t state_bytes;
  uint64_t kv_bytes_per_token;
  uint8_t hash[16];  // of the snapshot with these bytes taken as zero
};
static_assert(sizeof(SnapshotHeader) == 64, "no padding");

uint64_t KvRowBytes(const ModelPlan& plan) {
  uint64_t bytes = 0;
  for (const KvPlane& plane : plan.kv_planes) bytes += plane.row_bytes;
  return bytes;
}

Hash128 SnapshotHash(SnapshotHeader header, const uint8_t* payload, uint64_t size) {
  std::memset(header.hash, 0, sizeof header.hash);
  // Payload and header are hashed apart, so that no copy of the payload is needed.
  uint8_t parts[sizeof(SnapshotHeader) + sizeof(Hash128)];
  const Hash128 body = HashOf({payload, size});
  std::memcpy(parts, &header, sizeof header);
  std::memcpy(parts + sizeof header, body.data(), body.size());
  return HashOf({parts, sizeof parts});
}

Status Mismatch(std::string message) {
  return Status(Code::kSnapshotMismatch, 5313, std::move(message), "session snapshot",
                "feed the tokens again; a snapshot serves only the artifact it was saved from");
}

}  // namespace

Session::Sizes Session::SizesFor(const ModelPlan& plan, uint64_t context_tokens) {
  return {plan.state_bytes, Checked(context_tokens).aligned(kKvTokenAlignment) * plan.kv_bytes_per_token,
          Checked(plan.logits_stride) * sizeof(float)};
}

Status Session::Init(uint64_t context_tokens, const qrt_allocator* allocator) {
  const ModelPlan& plan = engine_.plan();
  if (context_tokens == 0 || context_tokens > std::numeric_limits<int32_t>::max() - kKvTokenAlignment) {
    return Status(Code::kInvalidArgument, 5308,
                  "context of " + std::to_string(context_tokens) + " tokens, expected 1 to 2147483583");
  }
  const Sizes sizes = SizesFor(plan, context_tokens);
  const auto out_of_memory = [&](const char* what, uint64_t bytes) {
    return Status(Code::kOutOfMemory, 6001,
                  std::string("no memory for ") + what + ": " + std::to_string(bytes) + " bytes",
                  "session of " + std::to_string(context_tokens) + " tokens", "ask for a smaller context");
  };
  if (plan.state_bytes != 0 && !state_.Allocate(allocator, plan.state_bytes)) {
    return out_of_memory("the recurrent state", plan.state_bytes);
  }
  if (!sizes.kv.ok() || (sizes.kv.value() != 0 && !kv_.Allocate(allocator, sizes.kv.value()))) {
    return out_of_memory("the KV cache", sizes.kv.value());
  }
  if (!logits_.Allocate(allocator, sizes.logits.value()))
    return out_of_memory("logits", sizes.logits.value());
  capacity_ = context_tokens;
  kv_capacity_ = Checked(context_tokens).aligned(kKvTokenAlignment).value();
  return Status();
}

void Session::Reset() {
  if (position_ != 0 && state_.size() != 0) std::memset(state_.data(), 0, state_.size());
  position_ = 0;
  has_logits_ = false;
  cancel_.store(false, std::memory_order_relaxed);
}

uint64_t Session::SaveSize() const {
  const ModelPlan& plan = engine_.plan();
  return sizeof(SnapshotHeader) + plan.state_bytes + position_ * KvRowBytes(plan);
}

void Session::Save(uint8_t* bytes) const {
  const ModelPlan& plan = engine_.plan();
  uint8_t* at = bytes + sizeof(SnapshotHeader);
  if (plan.state_bytes != 0) std::memcpy(at, state_.data(), plan.state_bytes);
  at += plan.state_bytes;
  for (const KvPlane& plane : plan.kv_planes) {
    const uint64_t size = position_ * plane.row_bytes;
    if (size != 0) std::memcpy(at, kv_.data() + plane.offset * kv_capacity_, size);
    at += size;
  }
  SnapshotHeader header = {};
  std::memcpy(header.magic, kSnapshotMagic, sizeof header.magic);
  std::memcpy(header.identity, plan.identity.data(), sizeof header.identity);
  header.position = position_;
  header.state_bytes = plan.state_bytes;
  header.kv_bytes_per_token = plan.kv_bytes_per_token;
  const uint8_t* payload = bytes + sizeof header;
  const Hash128 hash = SnapshotHash(header, payload, static_cast<uint64_t>(at - payload));
  std::memcpy(header.hash, hash.data(), sizeof header.hash);
  std::memcpy(bytes, &header, sizeof header);
}

Status Session::Restore(const uint8_t* bytes, uint64_t size) {
  const ModelPlan& plan = engine_.plan();
  SnapshotHeader header;
  if (size < sizeof header) {
    return Mismatch("the snapshot has " + std::to_string(size) + " bytes, expected at least " +
                    std::to_string(sizeof header));
  }
  std::memcpy(&header, bytes, sizeof header);
  if (std::memcmp(header.magic, kSnapshotMagic, sizeof header.magic) != 0) {
    return Mismatch("the bytes do not begin as a snapshot of this release does");
  }
  if (std::memcmp(header.identity, plan.identity.data(), sizeof header.identity) != 0) {
    return Mismatch("the snapshot was saved from another artifact");
  }
  if (header.state_bytes != plan.state_bytes || header.kv_bytes_per_token != plan.kv_bytes_per_token) {
    return Mismatch("the snapshot has " + std::to_string(header.state_bytes) + " bytes of state and " +
                    std::to_string(header.kv_bytes_per_token) + " of KV per token, expected " +
                    std::to_string(plan.state_bytes) + " and " + std::to_string(plan.kv_bytes_per_token));
  }
  const Checked expected = Checked(header.position) * KvRowBytes(plan) + plan.state_bytes + sizeof header;
  if (!expected.is(size)) {
    return Mismatch("the snapshot has " + std::to_string(size) + " bytes, which is not the size of " +
                    std::to_string(header.position) + " tokens");
  }
  const uint8_t* at = bytes + sizeof header;
  const Hash128 hash = SnapshotHash(header, at, size - sizeof header);
  if (std::memcmp(hash.data(), header.hash, sizeof header.hash) != 0) {
    return Mismatch("the snapshot's checksum is wrong: its bytes were changed");
  }
  if (header.position > capacity_) {
    return Status(Code::kContextFull, 5310,
                  "the snapshot holds " + std::to_string(header.position) +
                      " tokens, the session's context is " + std::to_string(capacity_),
                  "session snapshot", "restore into a session with a larger context");
  }
  if (plan.state_bytes != 0) std::memcpy(state_.data(), at, plan.state_bytes);
  at += plan.state_bytes;
  for (const KvPlane& plane : plan.kv_planes) {
    const uint64_t bytes_used = header.position * plane.row_bytes;
    if (bytes_used != 0) std::memcpy(kv_.data() + plane.offset * kv_capacity_, at, bytes_used);
    at += bytes_used;
  }
  position_ = header.position;
  has_logits_ = false;
  return Status();
}

}  // namespace qrt
