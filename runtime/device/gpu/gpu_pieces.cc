#include "runtime/device/gpu/gpu_pieces.h"

#include <algorithm>
#include <string>

namespace qrt {
namespace {

constexpr uint64_t kPieceAlignment = 256;

struct Range {
  uint64_t begin, end;
  const GpuDispatch* dispatch;
};

Status TooLarge(GpuSpace space, const Range& range, uint64_t limit) {
  std::string what = space == GpuSpace::kWeights ? "weights" : "scratch memory";
  std::string user = range.dispatch == nullptr ? "all programs" : range.dispatch->family;
  if (range.dispatch != nullptr && range.dispatch->layer >= 0)
    user += " of layer " + std::to_string(range.dispatch->layer);
  return Status(Code::kDeviceUnsupported, 5015,
                "the " + what + " of " + user + " take " + std::to_string(range.end - range.begin) +
                    " bytes in one piece, the device allocates at most " + std::to_string(limit),
                "device memory",
                space == GpuSpace::kWeights ? "use another device, or a smaller model"
                                            : "compile with a ladder of smaller buckets");
}

}  // namespace

Result<std::vector<GpuPiece>> CutSpace(const GpuCode& code, GpuSpace space, uint64_t limit) {
  std::vector<GpuPiece> pieces;
  const uint64_t total = code.bytes(space);
  if (total == 0) return pieces;
  if (total <= limit) {
    pieces.push_back({0, total});
    return pieces;
  }
  std::vector<Range> ranges;
  code.ForEachDispatch([&](const GpuDispatch& d) {
    for (const GpuArg& a : d.args) {
      // Rounded down, because a piece can begin at multiples of the alignment only.
      if (a.space == space) {
        ranges.push_back({a.value / kPieceAlignment * kPieceAlignment, a.value + a.bytes, &d});
      }
    }
  });
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  // Ranges that overlap stay together: islands, between which a cut may go.
  std::vector<Range> islands;
  for (const Range& r : ranges) {
    if (!islands.empty() && r.begin < islands.back().end) {
      islands.back().end = std::max(islands.back().end, r.end);
    } else {
      islands.push_back(r);
    }
  }
  const uint64_t most = limit / kPieceAlignment * kPieceAlignment;  // so that cuts are aligned
  if (most == 0) return TooLarge(space, {0, total, nullptr}, limit);
  uint64_t begin = 0;
  // What no argument reaches may be cut anywhere.
  const auto cut_until = [&](uint64_t at) {
    while (at - begin > most) {
      pieces.push_back({begin, begin + most});
      begin += most;
    }
  };
  for (const Range& island : islands) {
    if (island.end - island.begin > most) return TooLarge(space, island, limit);
    if (island.end - begin <= most) continue;
    cut_until(island.begin);
    if (island.begin > begin) {
      pieces.push_back({begin, island.begin});
      begin = island.begin;
    }
  }
  cut_until(total);
  pieces.push_back({begin, total});
  return pieces;
}

size_t FindPiece(const std::vector<GpuPiece>& pieces, uint64_t offset) {
  const auto after = std::upper_bound(pieces.begin(), pieces.end(), offset,
                                      [](uint64_t at, const GpuPiece& p) { return at < p.begin; });
  return static_cast<size_t>(after - pieces.begin()) - 1;
}

}  // namespace qrt
