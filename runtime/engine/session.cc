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

Session::~Session() {
  engine_.Free(&state_);
  engine_.Free(&kv_);
}

Status Session::Init(uint64_t context_tokens, const qrt_allocator* allocator) {
  const ModelPlan& plan = engine_.plan();
  if (context_tokens == 0 || context_tokens > std::numeric_limits<int32_t>::max() - kKvTokenAlignment) {
    return Status(Code::kInvalidArgument, 5308,
                  "context of " + std::to_string(context_tokens) + " tokens, expected 1 to 2147483583");
  }
  const Sizes sizes = SizesFor(plan, context_tokens);
  const std::string note = "session of " + std::to_string(context_tokens) + " tokens";
  const auto allocate = [&](const char* what, Checked bytes, DeviceBuffer* buffer) {
    if (bytes.is(0)) return Status();
    const DeviceResult result =
        bytes.ok() ? engine_.Allocate(bytes.value(), buffer) : DeviceResult::kOutOfMemory;
    if (result == DeviceResult::kOk) return Status();
    const Status failure =
        engine_.Failure(result, std::string(what) + " of " + std::to_string(bytes.value()) + " bytes");
    return Status(failure.code(), failure.number(), failure.message(), failure.note() + ", " + note,
                  failure.help());
  };
  QRT_RETURN_IF_ERROR(allocate("the recurrent state", sizes.state, &state_));
  QRT_RETURN_IF_ERROR(allocate("the KV cache", sizes.kv, &kv_));
  if (!logits_.Allocate(allocator, sizes.logits.value())) {
    return Status(Code::kOutOfMemory, 6001,
                  "no memory for logits: " + std::to_string(sizes.logits.value()) + " bytes", note,
                  "free memory");
  }
  capacity_ = context_tokens;
  kv_capacity_ = Checked(context_tokens).aligned(kKvTokenAlignment).value();
  return Status();
}

Status Session::Damaged() {
  return Status(Code::kInvalidArgument, 5322, "a step of this session failed, so its content is undefined",
                "", "reset the session, or restore a snapshot into it");
}

Status Session::Reset() {
  // What lies in the KV beyond the position is never read.
  if ((position_ != 0 || damaged_) && !state_.empty()) {
    const DeviceResult result = engine_.Zero(state_);
    if (result != DeviceResult::kOk) {
      damaged_ = true;
      return engine_.Failure(result, "a reset");
    }
  }
  position_ = 0;
  has_logits_ = false;
  damaged_ = false;
  cancel_.store(false, std::memory_order_relaxed);
  return Status();
}

std::vector<CopyRange> Session::Ranges(uint8_t* payload, uint64_t tokens) const {
  const ModelPlan& plan = engine_.plan();
  std::vector<CopyRange> ranges;
  if (plan.state_bytes != 0) ranges.push_back({&state_, 0, payload, plan.state_bytes});
  payload += plan.state_bytes;
  for (const KvPlane& plane : plan.kv_planes) {
    const uint64_t bytes = tokens * plane.row_bytes;
    if (bytes != 0) ranges.push_back({&kv_, plane.offset * kv_capacity_, payload, bytes});
    payload += bytes;
  }
  return ranges;
}

uint64_t Session::SaveSize() const {
  const ModelPlan& plan = engine_.plan();
  return sizeof(SnapshotHeader) + plan.state_bytes + position_ * KvRowBytes(plan);
}

Status Session::Save(uint8_t* bytes) const {
  const ModelPlan& plan = engine_.plan();
  if (damaged_) return Damaged();
  const DeviceResult result = engine_.Read(Ranges(bytes + sizeof(SnapshotHeader), position_));
  if (result != DeviceResult::kOk) return engine_.Failure(result, "the saving of a session");
  SnapshotHeader header = {};
  std::memcpy(header.magic, kSnapshotMagic, sizeof header.magic);
  std::memcpy(header.identity, plan.identity.data(), sizeof header.identity);
  header.position = position_;
  header.state_bytes = plan.state_bytes;
  header.kv_bytes_per_token = plan.kv_bytes_per_token;
  const uint8_t* payload = bytes + sizeof header;
  const Hash128 hash = SnapshotHash(header, payload, SaveSize() - sizeof header);
  std::memcpy(header.hash, hash.data(), sizeof header.hash);
  std::memcpy(bytes, &header, sizeof header);
  return Status();
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
  // Write only reads the host's side of a range.
  const DeviceResult result = engine_.Write(Ranges(const_cast<uint8_t*>(at), header.position));
  if (result != DeviceResult::kOk) {
    damaged_ = true;
    return engine_.Failure(result, "the restoring of a session");
  }
  damaged_ = false;
  position_ = header.position;
  has_logits_ = false;
  return Status();
}

}  // namespace qrt
