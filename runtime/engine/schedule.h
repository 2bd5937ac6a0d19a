// Which program serves a step.
#ifndef RUNTIME_ENGINE_SCHEDULE_H_
#define RUNTIME_ENGINE_SCHEDULE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/engine/model_plan.h"

namespace qrt {

// Where a device stands among those that run a step one after the other.
struct PartPlace {
  bool first = true;  // its programs take tokens; others the rows that the device before left
  bool last = true;   // its programs lead to logits; others leave rows for the next device
};

// The program table sorted for choosing, by what programs take, advance, leave and give. The first that leads
// from tokens to logits of chosen rows, alone or with one that takes the stream it leaves, says what a step
// is; programs that advance the same states and leave the same stream, or give logits and leave none, serve
// it too, the others are passed over. Of a device that is not the last the first program that leaves rows
// says it. Immutable.
class Schedule {
 public:
  Schedule() = default;
  // Programs with 0 rows are ignored. Throws std::bad_alloc.
  explicit Schedule(const std::vector<Program>& programs, PartPlace place = {});

  struct Choice {
    uint32_t program = 0;       // place in the program table
    uint32_t rows = 0;          // its bucket
    bool gives_logits = false;  // itself, of chosen rows
  };

  bool empty() const { return for_tokens_.empty(); }
  bool serves_stream() const { return !for_stream_.empty(); }
  // True when some program leaves a stream for another to make logits of.
  bool leaves_stream() const { return leaves_stream_; }
  uint32_t max_rows() const { return for_tokens_.empty() ? 0 : for_tokens_.back().rows; }
  // The programs that serve a step and give no logits, also such as another of their bucket goes before:
  // those among which Device::MostRows chooses.
  std::span<const uint32_t> without_logits() const { return without_logits_; }
  // The most rows of logits that one program writes.
  uint32_t max_out_rows() const { return max_out_rows_; }

  // For the next step of `pending` >= 1 rows: the smallest bucket that takes them all, or the largest there
  // is. Among equal buckets one that gives logits itself.
  const Choice& ForTokens(uint64_t pending) const { return Smallest(for_tokens_, pending); }
  // The same for `pending` >= 1 output rows of the stream.
  const Choice& ForStream(uint64_t pending) const { return Smallest(for_stream_, pending); }
  // Whether every step leaves the rows of all its tokens behind the last layer, which a draft goes on from.
  bool leaves_every_row() const { return leaves_every_row_; }
  // The smallest of `choices`, by ascending rows, that takes `pending` rows; else the largest.
  static const Choice& Smallest(const std::vector<Choice>& choices, uint64_t pending);

 private:
  static const ProgramFacts* Main(const std::vector<Program>& programs,
                                  PartPlace place);  // null: none serves

  std::vector<Choice> for_tokens_;  // ascending rows, one per bucket
  std::vector<Choice> for_stream_;
  std::vector<uint32_t> without_logits_;
  uint32_t max_out_rows_ = 0;
  bool leaves_stream_ = false;
  bool leaves_every_row_ = false;
};

}  // namespace qrt

#endif  // RUNTIME_ENGINE_SCHEDULE_H_
