// Which program serves a step.
#ifndef RUNTIME_ENGINE_SCHEDULE_H_
#define RUNTIME_ENGINE_SCHEDULE_H_

#include <cstdint>
#include <vector>

#include "runtime/engine/model_plan.h"

namespace qrt {

// The program table sorted for choosing. Immutable.
class Schedule {
 public:
  Schedule() = default;
  // Programs with 0 rows are ignored. Throws std::bad_alloc.
  explicit Schedule(const std::vector<Program>& programs);

  struct Choice {
    uint32_t program = 0;   // place in the program table
    uint32_t rows = 0;      // its bucket
    bool has_head = false;  // writes logits itself
  };

  bool empty() const { return trunks_.empty(); }
  bool has_heads() const { return !heads_.empty(); }
  // True when some program leaves rows without logits.
  bool needs_heads() const { return needs_heads_; }
  uint32_t max_rows() const { return trunks_.empty() ? 0 : trunks_.back().rows; }
  // The most rows of logits that one program writes.
  uint32_t max_out_rows() const { return max_out_rows_; }

  // For the next step of `pending` >= 1 rows: the smallest bucket that takes them all, or the largest there
  // is. Among equal buckets a decode program (it brings the head along).
  const Choice& Trunk(uint64_t pending) const { return Smallest(trunks_, pending); }
  // The same for `pending` >= 1 output rows.
  const Choice& Head(uint64_t pending) const { return Smallest(heads_, pending); }

 private:
  static const Choice& Smallest(const std::vector<Choice>& choices, uint64_t pending);

  std::vector<Choice> trunks_;  // ascending rows, one per bucket
  std::vector<Choice> heads_;
  uint32_t max_out_rows_ = 0;
  bool needs_heads_ = false;
};

}  // namespace qrt

#endif  // RUNTIME_ENGINE_SCHEDULE_H_
