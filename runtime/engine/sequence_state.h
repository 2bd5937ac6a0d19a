// What a sequence keeps besides its KV, as a function of position: runtime/abi/manifest.fbs, table State.
#ifndef RUNTIME_ENGINE_SEQUENCE_STATE_H_
#define RUNTIME_ENGINE_SEQUENCE_STATE_H_

#include <cstdint>
#include <vector>

#include "runtime/artifact/manifest.h"
#include "runtime/base/checked.h"
#include "runtime/device/device.h"

namespace qrt {

// One layer's state in the areas of a sequence.
struct StatePlace {
  uint64_t offset = 0;  // in an area
  uint64_t fixed_bytes =
      0;  // of the block, ahead of its entries; without entries: of the sequence, in the first area
  uint64_t entry_bytes = 0;  // of a token
  // What the next token needs of those before it: 0, the entries since its block's begin; else so many before
  // it.
  uint32_t history = 0;
  bool is_trace = false;  // nothing depends on it
};

// The places of a manifest's states, without KV. The manifest is verified.
std::vector<StatePlace> PlacesOf(const Manifest& manifest);

// Which memory a sequence's state has: two areas, where it can step back, or one.
struct StateAreas {
  uint32_t block = 0;       // tokens of a block; 0: no state has entries
  uint64_t odd_offset = 0;  // from the first area to the one of odd blocks; 0: it is the same
  uint64_t at(uint64_t block_number) const { return block_number % 2 == 0 ? 0 : odd_offset; }
};

// The state of a sequence of `tokens` tokens alone, without traces and what is left of others: the same for
// equal states, whatever memory they lie in. Bytes of it, and where they lie, in order, with `payload` on
// the host's side.
Checked LiveBytes(const std::vector<StatePlace>& places, uint32_t block, uint64_t tokens);
void AppendLiveRanges(const std::vector<StatePlace>& places, const StateAreas& areas, uint64_t tokens,
                      const DeviceBuffer* memory, uint8_t* payload, std::vector<CopyRange>* ranges);

}  // namespace qrt

#endif  // RUNTIME_ENGINE_SEQUENCE_STATE_H_
