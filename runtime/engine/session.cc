#include "runtime/engine/session.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>
#include <string>
#include <utility>

#include "runtime/abi/integer_row.h"
#include "runtime/artifact/state_area.h"
#include "runtime/base/hash.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/kv_form.h"
#include "runtime/engine/lookup_drafter.h"
#include "runtime/engine/model_drafter.h"
#include "runtime/engine/second_model.h"

namespace qrt {
namespace {

// KV is laid out for a multiple of this, so that every plane starts aligned whatever the context.
constexpr uint64_t kKvTokenAlignment = 64;

// What a snapshot's KV goes through where it changes its form; more than any row of two forms.
constexpr uint64_t kStagingBytes = uint64_t{256} << 10;
static_assert(kStagingBytes >= 4 * IntegerRow::kMostValues);

constexpr char kSnapshotMagic[8] = {'Q', 'R', 'T', 'S', 'N', 'A', 'P', '4'};

struct SnapshotHeader {
  char magic[8];
  uint8_t identity[16];
  uint64_t position;
  uint64_t state_bytes;
  uint64_t kv_bytes_per_token;
  uint64_t integer_parts;  // bit i: KV of Element::kB16 of part i lies in rows of integers, not as f16
  uint8_t arithmetic[16];  // Engine::arithmetic of the one that computed all of it; zeros: several did
  uint8_t hash[16];        // of the snapshot with these bytes taken as zero
};
static_assert(sizeof(SnapshotHeader) == 88, "no padding");

bool HasTwoForms(const ModelPlan& plan) {
  return std::any_of(plan.kv_planes.begin(), plan.kv_planes.end(),
                     [](const KvPlane& plane) { return plane.integer_bits != 0; });
}

// A bit for each part whose KV may lie in either form.
uint64_t PartsOfTwoForms(const Engine& engine) {
  uint64_t parts = 0;
  for (size_t part = 0; part < engine.part_count(); ++part) {
    parts |= static_cast<uint64_t>(HasTwoForms(engine.plan(part))) << part;
  }
  return parts;
}

// Rows of a plane become integers, or f16. They are aligned: memory of a vector.
void ChangeForm(std::span<uint8_t> rows, const KvPlane& plane, bool integers) {
  const std::span<uint16_t> elements = {reinterpret_cast<uint16_t*>(rows.data()), rows.size() / 2};
  if (integers) {
    IntegersFromHalves(elements, plane.row_bytes / 2, plane.integer_bits);
  } else {
    HalvesFromIntegers(elements, plane.row_bytes / 2);
  }
}

// Of a snapshot of an engine's sessions, but for its position and hash.
SnapshotHeader EmptyHeader(const Engine& engine) {
  SnapshotHeader header = {};
  std::memcpy(header.magic, kSnapshotMagic, sizeof header.magic);
  std::memcpy(header.identity, engine.plan().identity.data(), sizeof header.identity);
  std::memcpy(header.arithmetic, engine.arithmetic().data(), sizeof header.arithmetic);
  for (size_t part = 0; part < engine.part_count(); ++part) {
    header.state_bytes += engine.plan(part).state_bytes;
    header.kv_bytes_per_token += engine.plan(part).kv_bytes_per_token;
    const bool integers = HasTwoForms(engine.plan(part)) && engine.device(part).has_integer_rows();
    header.integer_parts |= static_cast<uint64_t>(integers) << part;
  }
  return header;
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

Session::Sizes Session::SizesFor(const ModelPlan& plan, const Options& options) {
  return {AreaBytes(plan.state_bytes, options.max_rewind != 0 && plan.state_block != 0),
          Checked(options.context_tokens).aligned(kKvTokenAlignment) * plan.kv_bytes_per_token,
          Checked(plan.logits_stride) * sizeof(float)};
}

Session::~Session() {
  for (size_t part = 0; part < areas_.size(); ++part) {
    engine_.Free(part, &areas_[part].state);
    engine_.Free(part, &areas_[part].kv);
  }
  if (!draft_kv_.empty()) engine_.Free(engine_.draft_part(), &draft_kv_);
}

Status Session::InitDraft(const Options& options, const qrt_allocator* allocator) {
  if (options.draft == QRT_DRAFT_NONE) return Status();
  draft_tokens_ = options.draft_tokens;
  const std::string note = "session options";
  if (draft_tokens_ > kMaxDraftTokens) {
    return Status(Code::kInvalidArgument, 5305,
                  "draft_tokens is " + std::to_string(draft_tokens_) + ", expected 1 to " +
                      std::to_string(kMaxDraftTokens) + ", or QRT_DRAFT_TOKENS_AUTO",
                  note);
  }
  if (draft_tokens_ == QRT_DRAFT_TOKENS_AUTO) {
    draft_tokens_ = MostDraftTokens();
    draft_length_.emplace(draft_tokens_);
  }
  if (options.draft == QRT_DRAFT_LOOKUP) {
    drafter_ = std::make_unique<LookupDrafter>(capacity_);
    return Status();
  }
  if (options.draft != QRT_DRAFT_MODEL) {
    return Status(Code::kInvalidArgument, 5305,
                  "draft is " + std::to_string(options.draft) + ", expected a QRT_DRAFT value", note);
  }
  if (!engine_.drafts()) {
    return Status(
        Code::kUnavailable, 5334, "the model has no function that drafts tokens", note,
        "compile a model with a NextN block, or give it one with qcc compile --mtp, or link a draft");
  }
  if (Engine* second = engine_.second_model()) {
    auto drafter = std::make_unique<SecondModel>(*second, capacity_);
    QRT_RETURN_IF_ERROR(drafter->Init(engine_.plan().vocab_size, allocator));
    drafter_ = std::move(drafter);
    return Status();
  }
  const DeviceBuffer* kv = &areas_.back().kv;
  if (engine_.draft_part() == engine_.part_count()) {
    const Checked bytes = Checked(kv_capacity_) * engine_.plan(engine_.draft_part()).kv_bytes_per_token;
    QRT_RETURN_IF_ERROR(Take(engine_.draft_part(), "the draft's KV cache", bytes, &draft_kv_));
    kv = &draft_kv_;
  }
  auto drafter = std::make_unique<ModelDrafter>(engine_, *kv, kv_capacity_);
  QRT_RETURN_IF_ERROR(drafter->Init(allocator));
  drafter_ = std::move(drafter);
  return Status();
}

uint32_t Session::MostDraftTokens() const {
  uint32_t most = kMaxDraftTokens;
  for (size_t part = 0; part < engine_.part_count(); ++part) {
    const uint32_t block = engine_.plan(part).state_block;
    if (block != 0) most = std::min(most, block);
  }
  return most;
}

Status Session::InitRewind(uint32_t max_rewind) {
  most_back_ = std::numeric_limits<uint64_t>::max();  // KV is by position, and stays
  for (size_t part = 0; part < engine_.part_count(); ++part) {
    const ModelPlan& plan = engine_.plan(part);
    for (const StatePlace& place : plan.states) {
      if (place.is_trace) continue;
      if (place.entry_bytes == 0) most_back_ = 0;
      most_back_ = std::min<uint64_t>(most_back_, max_rewind);
      if (max_rewind <= plan.state_block || place.entry_bytes == 0) continue;
      return Status(Code::kInvalidArgument, 5305,
                    "max_rewind is " + std::to_string(max_rewind) + ", expected 0 to " +
                        std::to_string(plan.state_block) + ", a block of this model's recurrent state",
                    "session options", "take fewer tokens back at once, or restore a snapshot");
    }
  }
  steps_back_ = max_rewind != 0;
  return Status();
}

StateAreas Session::AreasOf(size_t part) const {
  const ModelPlan& plan = engine_.plan(part);
  const bool two = steps_back_ && plan.state_block != 0;
  return {plan.state_block, two ? AreaBytes(plan.state_bytes, true).value() / 2 : 0};
}

void Session::Advance(uint64_t tokens) {
  position_ += tokens;
  ++moves_;
  if (tokens != 0) untraced_ = false;
  if (position_ > most_back_) floor_ = std::max(floor_, position_ - most_back_);
}

Status Session::Rewind(uint64_t tokens) {
  if (damaged_) return Damaged();
  if (tokens > rewindable()) {
    return Status(Code::kInvalidArgument, 5328,
                  "cannot take back " + std::to_string(tokens) + " tokens of " + std::to_string(position_) +
                      ", expected at most " + std::to_string(rewindable()),
                  "session",
                  most_back_ == 0 ? "create the session with max_rewind"
                                  : "restore a snapshot, or feed the tokens again");
  }
  if (tokens == 0) return Status();
  position_ -= tokens;
  ++moves_;
  EndCheckpointsAbove(position_);
  has_logits_ = false;
  untraced_ = true;
  if (drafter_ != nullptr) drafter_->BackTo(position_);
  return Status();
}

Status Session::Take(size_t part, const char* what, Checked bytes, DeviceBuffer* buffer) {
  if (bytes.is(0)) return Status();
  const DeviceResult result =
      bytes.ok() ? engine_.Allocate(part, bytes.value(), buffer) : DeviceResult::kOutOfMemory;
  if (result == DeviceResult::kOk) return Status();
  const Status failure =
      engine_.Failure(part, result, std::string(what) + " of " + std::to_string(bytes.value()) + " bytes");
  return Status(failure.code(), failure.number(), failure.message(),
                failure.note() + ", session of " + std::to_string(capacity_) + " tokens", failure.help());
}

Status Session::Init(const Options& options, const qrt_allocator* allocator) {
  options_ = options;
  const uint64_t context_tokens = options.context_tokens;
  if (context_tokens == 0 || context_tokens > std::numeric_limits<int32_t>::max() - kKvTokenAlignment) {
    return Status(Code::kInvalidArgument, 5308,
                  "context of " + std::to_string(context_tokens) + " tokens, expected 1 to 2147483583");
  }
  uint32_t draft = options.draft == QRT_DRAFT_NONE ? 0 : options.draft_tokens;
  if (options.draft != QRT_DRAFT_NONE && draft == QRT_DRAFT_TOKENS_AUTO) draft = MostDraftTokens();
  capacity_ = context_tokens;
  kv_capacity_ = Checked(context_tokens).aligned(kKvTokenAlignment).value();
  Options asked = options;
  asked.max_rewind = std::max(options.max_rewind, std::min(draft, kMaxDraftTokens));
  if (options.tokens_ahead > TokensAhead::kMost) {
    return Status(Code::kInvalidArgument, 5305,
                  "tokens_ahead is " + std::to_string(options.tokens_ahead) + ", expected 1 to " +
                      std::to_string(TokensAhead::kMost) + ", or QRT_TOKENS_AHEAD_AUTO",
                  "session options");
  }
  const auto ahead = static_cast<uint32_t>(options.tokens_ahead);
  tokens_ahead_ = TokensAhead(ahead);
  if (ahead > 1) asked.max_rewind = std::max(asked.max_rewind, ahead - 1);
  QRT_RETURN_IF_ERROR(InitRewind(asked.max_rewind));
  if (draft != 0 && most_back_ == 0) {
    return Status(
        Code::kUnavailable, 5328,
        "a draft's wrong guesses are taken back, and this model's recurrent state goes forward only",
        "session options", "make the session without a draft");
  }
  areas_.resize(engine_.part_count());
  for (size_t part = 0; part < areas_.size(); ++part) {
    const Device& device = engine_.device(part);
    if (kv_capacity_ > device.most_context()) {
      return Status(Code::kInvalidArgument, 5308,
                    "context of " + std::to_string(context_tokens) + " tokens, expected at most " +
                        std::to_string(device.most_context()) + ", as far as kernels of " + device.name() +
                        " reach",
                    "session options", "a smaller context, or another device");
    }
    const Sizes sizes = SizesFor(engine_.plan(part), asked);
    QRT_RETURN_IF_ERROR(Take(part, "the recurrent state", sizes.state, &areas_[part].state));
    QRT_RETURN_IF_ERROR(Take(part, "the KV cache", sizes.kv, &areas_[part].kv));
    engine_.FillsInParts(part, areas_[part].kv);
  }
  const Sizes sizes = SizesFor(engine_.plan(), asked);
  if (!logits_.Allocate(allocator, sizes.logits.value())) {
    return Status(Code::kOutOfMemory, 6001,
                  "no memory for logits: " + std::to_string(sizes.logits.value()) + " bytes",
                  "session of " + std::to_string(context_tokens) + " tokens", "free memory");
  }
  return InitDraft(options, allocator);
}

Status Session::Damaged() {
  return Status(Code::kInvalidArgument, 5322, "a step of this session failed, so its content is undefined",
                "", "reset the session, or restore a snapshot into it");
}

Status Session::Reset() {
  // What lies in the KV beyond the position is never read.
  for (size_t part = 0; part < areas_.size() && (position_ != 0 || untraced_ || damaged_); ++part) {
    if (areas_[part].state.empty()) continue;
    const DeviceResult result = engine_.Zero(part, areas_[part].state);
    if (result != DeviceResult::kOk) {
      damaged_ = true;
      return engine_.Failure(part, result, "a reset");
    }
  }
  position_ = floor_ = 0;
  ++moves_;
  EndCheckpointsAbove(0);
  has_logits_ = untraced_ = false;
  damaged_ = foreign_ = false;
  if (drafter_ != nullptr) drafter_->Forget(0);
  return Status();
}

std::vector<CopyRange> Session::Ranges(size_t part, uint8_t* payload, uint64_t tokens) const {
  std::vector<CopyRange> ranges = StateRanges(part, payload, tokens);
  if (tokens != 0) AppendKvRanges(part, 0, tokens, payload + engine_.StateBytes(part, tokens), &ranges);
  return ranges;
}

std::vector<CopyRange> Session::StateRanges(size_t part, uint8_t* bytes, uint64_t tokens) const {
  std::vector<CopyRange> ranges;
  AppendLiveRanges(engine_.plan(part).states, AreasOf(part), tokens, &areas_[part].state, bytes, &ranges);
  return ranges;
}

Status Session::ReadState(uint64_t tokens, uint8_t* bytes) const {
  if (damaged_) return Damaged();
  for (size_t part = 0; part < engine_.part_count(); ++part) {
    const DeviceResult result = engine_.Read(part, StateRanges(part, bytes, tokens));
    if (result != DeviceResult::kOk) return engine_.Failure(part, result, "the reading of a session's state");
    bytes += engine_.StateBytes(part, tokens);
  }
  return Status();
}

Status Session::WriteRanges(std::span<const std::vector<CopyRange>> ranges, const char* what) {
  for (size_t part = 0; part < ranges.size(); ++part) {
    const DeviceResult result = engine_.Write(part, ranges[part]);
    if (result == DeviceResult::kOk) continue;
    damaged_ = true;
    return engine_.Failure(part, result, what);
  }
  return Status();
}

Status Session::WriteState(uint64_t tokens, const uint8_t* bytes, const char* what) {
  // All lists first: without memory for one nothing is written.
  std::vector<std::vector<CopyRange>> ranges;
  for (size_t part = 0; part < engine_.part_count(); ++part) {
    // Write only reads the host's side of a range.
    ranges.push_back(StateRanges(part, const_cast<uint8_t*>(bytes), tokens));
    bytes += engine_.StateBytes(part, tokens);
  }
  return WriteRanges(ranges, what);
}

Checked Session::PayloadOf(size_t part, uint64_t tokens) const {
  const ModelPlan& plan = engine_.plan(part);
  return Checked(tokens) * engine_.KvBytes(part, 1) + LiveBytes(plan.states, plan.state_block, tokens);
}

Checked Session::Payload(uint64_t tokens) const {
  Checked bytes = 0;
  for (size_t part = 0; part < engine_.part_count(); ++part) bytes = bytes + PayloadOf(part, tokens);
  return bytes;
}

uint64_t Session::SaveSize() const {
  return (Payload(position_) + sizeof(SnapshotHeader)).value();
}

Status Session::Save(uint8_t* bytes) const {
  if (damaged_) return Damaged();
  uint8_t* at = bytes + sizeof(SnapshotHeader);
  for (size_t part = 0; part < engine_.part_count(); ++part) {
    const DeviceResult result = engine_.Read(part, Ranges(part, at, position_));
    if (result != DeviceResult::kOk) return engine_.Failure(part, result, "the saving of a session");
    at += PayloadOf(part, position_).value();
  }
  SnapshotHeader header = EmptyHeader(engine_);
  header.position = position_;
  if (foreign_) std::memset(header.arithmetic, 0, sizeof header.arithmetic);
  const uint8_t* payload = bytes + sizeof header;
  const Hash128 hash = SnapshotHash(header, payload, SaveSize() - sizeof header);
  std::memcpy(header.hash, hash.data(), sizeof header.hash);
  std::memcpy(bytes, &header, sizeof header);
  return Status();
}

Status Session::Restore(const uint8_t* bytes, uint64_t size) {
  const SnapshotHeader own = EmptyHeader(engine_);
  SnapshotHeader header;
  if (size < sizeof header) {
    return Mismatch("the snapshot has " + std::to_string(size) + " bytes, expected at least " +
                    std::to_string(sizeof header));
  }
  std::memcpy(&header, bytes, sizeof header);
  if (std::memcmp(header.magic, own.magic, sizeof header.magic) != 0) {
    return Mismatch("the bytes do not begin as a snapshot of this release does");
  }
  if (std::memcmp(header.identity, own.identity, sizeof header.identity) != 0) {
    return Mismatch("the snapshot was saved from another artifact");
  }
  if (header.state_bytes != own.state_bytes || header.kv_bytes_per_token != own.kv_bytes_per_token) {
    return Mismatch("the snapshot has " + std::to_string(header.state_bytes) + " bytes of state and " +
                    std::to_string(header.kv_bytes_per_token) + " of KV per token, expected " +
                    std::to_string(own.state_bytes) + " and " + std::to_string(own.kv_bytes_per_token));
  }
  if ((header.integer_parts & ~PartsOfTwoForms(engine_)) != 0) {
    return Mismatch("the snapshot has integers in the KV of parts " + std::to_string(header.integer_parts) +
                    ", a bit for each, of the model's parts " + std::to_string(PartsOfTwoForms(engine_)));
  }
  if (!(Payload(header.position) + sizeof header).is(size)) {
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
  std::vector<std::vector<CopyRange>> ranges;
  const uint64_t other_forms = header.integer_parts ^ own.integer_parts;
  std::vector<uint8_t> staging(other_forms != 0 ? kStagingBytes : 0);
  const uint8_t* const payload = at;
  for (size_t part = 0; part < engine_.part_count(); ++part) {
    // Write only reads the host's side of a range.
    uint8_t* const from = const_cast<uint8_t*>(at);
    ranges.push_back((other_forms >> part & 1) == 0 ? Ranges(part, from, header.position)
                                                    : StateRanges(part, from, header.position));
    at += PayloadOf(part, header.position).value();
  }
  QRT_RETURN_IF_ERROR(WriteRanges(ranges, "the restoring of a session"));
  at = payload;
  for (size_t part = 0; part < engine_.part_count(); ++part) {
    if ((other_forms >> part & 1) != 0) {
      QRT_RETURN_IF_ERROR(
          WriteOtherForm(part, at + engine_.StateBytes(part, header.position), header.position, staging));
    }
    at += PayloadOf(part, header.position).value();
  }
  Arrived(header.position);
  foreign_ = std::memcmp(header.arithmetic, own.arithmetic, sizeof header.arithmetic) != 0;
  return Status();
}

Status Session::WriteOtherForm(size_t part, const uint8_t* kv, uint64_t tokens, std::span<uint8_t> staging) {
  const bool integers = engine_.device(part).has_integer_rows();
  for (const KvPlane& plane : engine_.plan(part).kv_planes) {
    if (engine_.IsDraftsOwn(part, plane)) continue;
    const bool changes = plane.integer_bits != 0;
    for (uint64_t done = 0, run; done < tokens; done += run) {
      run = changes ? std::min(staging.size() / plane.row_bytes, tokens - done) : tokens;
      // Write only reads the host's side of a range.
      std::span<uint8_t> rows = {const_cast<uint8_t*>(kv) + done * plane.row_bytes, run * plane.row_bytes};
      if (changes) {
        std::memcpy(staging.data(), rows.data(), rows.size());
        rows = staging.first(rows.size());
        ChangeForm(rows, plane, integers);
      }
      const CopyRange range = {&areas_[part].kv, plane.offset * kv_capacity_ + done * plane.row_bytes,
                               rows.data(), rows.size()};
      const DeviceResult result = engine_.Write(part, {&range, 1});
      if (result == DeviceResult::kOk) continue;
      damaged_ = true;
      return engine_.Failure(part, result, "the restoring of a session");
    }
    kv += tokens * plane.row_bytes;
  }
  return Status();
}

void Session::Arrived(uint64_t tokens) {
  position_ = tokens;
  ++moves_;
  floor_ = most_back_ == std::numeric_limits<uint64_t>::max() ? 0 : position_;
  EndCheckpointsAbove(0);
  damaged_ = has_logits_ = false;
  untraced_ = true;
  if (drafter_ != nullptr) drafter_->Forget(position_);
}

Status Session::CopyOf(const Session& other, const qrt_allocator* allocator) {
  if (other.damaged_) return Damaged();
  uint64_t most_staged = 256 << 10;
  for (size_t part = 0; part < engine_.part_count(); ++part) {
    if (engine_.device(part).copies_wait()) most_staged = 8 << 20;
  }
  const uint64_t tokens = other.position_;
  const uint64_t room = std::min(Payload(tokens).value(), most_staged);
  Memory stage;
  if (room != 0 && !stage.Allocate(allocator, room)) throw std::bad_alloc();
  for (size_t part = 0; part < engine_.part_count(); ++part) {
    // Equal lengths in one order: both are of the same plan and tokens.
    std::vector<CopyRange> from = other.Ranges(part, stage.data(), tokens),
                           to = Ranges(part, stage.data(), tokens);
    std::vector<CopyRange> read, write;  // what is staged together
    uint64_t staged = 0;
    const auto move = [&] {
      DeviceResult result = engine_.Read(part, read);
      if (result == DeviceResult::kOk) result = engine_.Write(part, write);
      read.clear();
      write.clear();
      staged = 0;
      return result;
    };
    DeviceResult result = DeviceResult::kOk;
    for (size_t i = 0; i < from.size() && result == DeviceResult::kOk; ++i) {
      for (uint64_t done = 0; done < from[i].bytes && result == DeviceResult::kOk;) {
        const uint64_t bytes = std::min(from[i].bytes - done, room - staged);
        read.push_back({from[i].buffer, from[i].offset + done, stage.data() + staged, bytes});
        write.push_back({to[i].buffer, to[i].offset + done, stage.data() + staged, bytes});
        done += bytes;
        staged += bytes;
        if (staged == room) result = move();
      }
    }
    if (result == DeviceResult::kOk && staged != 0) result = move();
    if (result != DeviceResult::kOk) {
      damaged_ = true;
      return engine_.Failure(part, result, "the copying of a session");
    }
  }
  Arrived(tokens);
  foreign_ = other.foreign_;
  has_logits_ = other.has_logits_;
  if (has_logits_) std::memcpy(logits_.data(), other.logits_.data(), logits_.size());
  return Status();
}

}  // namespace qrt
