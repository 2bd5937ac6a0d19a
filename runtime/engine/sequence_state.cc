#include "runtime/engine/sequence_state.h"

namespace qrt {
namespace {

// Entries of a state that a sequence of `tokens` tokens needs.
uint64_t LiveEntries(const StatePlace& place, uint32_t block, uint64_t tokens) {
  if (place.entry_bytes == 0) return 0;
  return place.history != 0 ? place.history : tokens % block;
}

}  // namespace

std::vector<StatePlace> PlacesOf(const Manifest& manifest) {
  std::vector<StatePlace> places;
  for (const StateInfo& state : manifest.states) {
    if (state.kind == StateKind::kKV) continue;
    StatePlace place = {state.offset, state.bytes - manifest.state_block * state.entry_bytes,
                        state.entry_bytes, 0, state.kind == StateKind::kTrace};
    if (state.kind == StateKind::kConv && state.entry_bytes != 0)
      place.history = static_cast<uint32_t>(state.shape[0]);
    places.push_back(place);
  }
  return places;
}

Checked LiveBytes(const std::vector<StatePlace>& places, uint32_t block, uint64_t tokens) {
  Checked bytes = 0;
  for (const StatePlace& place : places) {
    if (place.is_trace) continue;
    bytes = bytes + place.fixed_bytes + Checked(LiveEntries(place, block, tokens)) * place.entry_bytes;
  }
  return bytes;
}

void AppendLiveRanges(const std::vector<StatePlace>& places, const StateAreas& areas, uint64_t tokens,
                      const DeviceBuffer* memory, uint8_t* payload, std::vector<CopyRange>* ranges) {
  const auto append = [&](uint64_t offset, uint64_t bytes) {
    if (bytes == 0) return;
    ranges->push_back({memory, offset, payload, bytes});
    payload += bytes;
  };
  for (const StatePlace& place : places) {
    if (place.is_trace) continue;
    if (place.entry_bytes == 0) {
      append(place.offset, place.fixed_bytes);
      continue;
    }
    const uint64_t own = areas.at(tokens / areas.block) + place.offset;
    append(own, place.fixed_bytes);
    if (place.history == 0) {
      append(own + place.fixed_bytes, tokens % areas.block * place.entry_bytes);
      continue;
    }
    // Positions before the first token are places that no token has taken yet: zeros. Two blocks further on a
    // position has the same place, and none is negative.
    for (uint64_t back = place.history; back > 0; --back) {
      const uint64_t position = tokens + uint64_t{2} * areas.block - back;
      append(areas.at(position / areas.block) + place.offset + place.fixed_bytes +
                 position % areas.block * place.entry_bytes,
             place.entry_bytes);
    }
  }
}

}  // namespace qrt
