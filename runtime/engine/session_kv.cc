// A session's KV, in runs of tokens, to and from blocks of the host's memory (prefix_store.h).
#include <algorithm>
#include <cstring>
#include <new>
#include <vector>

#include "runtime/base/memory.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/prefix_store.h"
#include "runtime/engine/session.h"

namespace qrt {

void Session::AppendKvRanges(size_t part, uint64_t begin, uint64_t run, uint8_t* bytes,
                             std::vector<CopyRange>* ranges) const {
  for (const KvPlane& plane : engine_.plan(part).kv_planes) {
    if (engine_.IsDraftsOwn(part, plane)) continue;
    ranges->push_back({&areas_[part].kv, plane.offset * kv_capacity_ + begin * plane.row_bytes, bytes,
                       run * plane.row_bytes});
    bytes += run * plane.row_bytes;
  }
}

DeviceResult Session::CopyKvDirectly(size_t part, uint64_t begin, uint64_t run,
                                     std::span<uint8_t* const> blocks, uint64_t offset, Way way) const {
  std::vector<CopyRange> ranges;
  for (size_t i = 0; i < blocks.size(); ++i) {
    AppendKvRanges(part, begin + i * run, run, blocks[i] + offset, &ranges);
  }
  if (ranges.empty()) return DeviceResult::kOk;
  return way == Way::kToHost ? engine_.Read(part, ranges) : engine_.Write(part, ranges);
}

DeviceResult Session::CopyKvByPlane(size_t part, uint64_t begin, uint64_t run,
                                    std::span<uint8_t* const> blocks, uint64_t offset, Way way) const {
  uint64_t widest = 0;
  for (const KvPlane& plane : engine_.plan(part).kv_planes) widest = std::max(widest, plane.row_bytes);
  if (widest == 0 || blocks.empty()) return DeviceResult::kOk;
  // Only the engine's store of prefixes copies so: what it takes is its allocator's.
  Memory staging;
  if (!staging.Allocate(engine_.prefixes()->allocator(), widest * run * blocks.size()))
    throw std::bad_alloc();
  for (const KvPlane& plane : engine_.plan(part).kv_planes) {
    if (engine_.IsDraftsOwn(part, plane)) continue;
    const uint64_t bytes = run * plane.row_bytes;
    for (size_t i = 0; way == Way::kToDevice && i < blocks.size(); ++i) {
      std::memcpy(staging.data() + i * bytes, blocks[i] + offset, bytes);
    }
    const CopyRange range = {&areas_[part].kv, plane.offset * kv_capacity_ + begin * plane.row_bytes,
                             staging.data(), bytes * blocks.size()};
    const DeviceResult result =
        way == Way::kToHost ? engine_.Read(part, {&range, 1}) : engine_.Write(part, {&range, 1});
    if (result != DeviceResult::kOk) return result;
    for (size_t i = 0; way == Way::kToHost && i < blocks.size(); ++i) {
      std::memcpy(blocks[i] + offset, staging.data() + i * bytes, bytes);
    }
    offset += bytes;
  }
  return DeviceResult::kOk;
}

Status Session::CopyKv(uint64_t begin, uint64_t run, std::span<uint8_t* const> blocks, Way way,
                       const char* what) const {
  constexpr size_t kAtOnce = 64;  // so that lists and copies stay short, however long the sequence is
  for (size_t first = 0; first < blocks.size(); first += kAtOnce) {
    const std::span<uint8_t* const> some = blocks.subspan(first, std::min(kAtOnce, blocks.size() - first));
    uint64_t offset = 0;
    for (size_t part = 0; part < engine_.part_count(); ++part) {
      const auto copy =
          engine_.device(part).copies_wait() ? &Session::CopyKvByPlane : &Session::CopyKvDirectly;
      const DeviceResult result = (this->*copy)(part, begin + first * run, run, some, offset, way);
      if (result != DeviceResult::kOk) return engine_.Failure(part, result, what);
      offset += engine_.KvBytes(part, run);
    }
  }
  return Status();
}

Status Session::ReadKv(uint64_t begin, uint64_t run, std::span<uint8_t* const> blocks) const {
  if (damaged_) return Damaged();
  return CopyKv(begin, run, blocks, Way::kToHost, "the reading of a session's KV");
}

Status Session::Become(uint64_t run, std::span<uint8_t* const> blocks, const uint8_t* state) {
  const char* const what = "the begin of a session from a stored prefix";
  damaged_ = true;  // until all is there
  QRT_RETURN_IF_ERROR(CopyKv(0, run, blocks, Way::kToDevice, what));
  QRT_RETURN_IF_ERROR(WriteState(blocks.size() * run, state, what));
  Arrived(blocks.size() * run);
  foreign_ = false;
  return Status();
}

}  // namespace qrt
