// Which programs draft: guess the tokens that a sequence will go on with.
#ifndef RUNTIME_ENGINE_DRAFT_SCHEDULE_H_
#define RUNTIME_ENGINE_DRAFT_SCHEDULE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/engine/model_plan.h"
#include "runtime/engine/schedule.h"

namespace qrt {

// The draft function of a model, where it has one: the first that takes tokens and with each a given row of
// the model's embedding length, leaves rows of its own, gives logits of every row, and advances KV alone. The
// given row is the one that the trunk left for the token before. Immutable.
class DraftSchedule {
 public:
  DraftSchedule() = default;
  // Throws std::bad_alloc.
  explicit DraftSchedule(const ModelPlan& plan);

  bool empty() const { return with_logits_.empty(); }
  // For `rows` >= 1 tokens with rows of the trunk, of which only what follows the last is asked for: the
  // smallest bucket that takes them all, or the largest there is.
  const Schedule::Choice& WithLogits(uint64_t rows) const { return Schedule::Smallest(with_logits_, rows); }
  // The same where nothing but the KV is asked for.
  const Schedule::Choice& WithoutLogits(uint64_t rows) const {
    return Schedule::Smallest(without_logits_.empty() ? with_logits_ : without_logits_, rows);
  }
  // Goes on from the row that the program before left at the begin of the arena; none: it drafts one token at
  // a time.
  const std::optional<uint32_t>& next() const { return next_; }
  // It chooses among so many tokens, and its rows of logits lie so many floats apart; 0: all, and as those of
  // the model.
  uint32_t logits_cols() const { return logits_cols_; }
  // The token of a column of its logits.
  int32_t token(size_t column) const {
    return static_cast<int32_t>(tokens_.empty() ? column : tokens_[column]);
  }
  // Whether a KV plane is the draft's and not the trunk's.
  bool Owns(const KvPlane& plane) const;

 private:
  std::vector<Schedule::Choice> with_logits_, without_logits_;  // ascending rows
  std::optional<uint32_t> next_;
  uint32_t logits_cols_ = 0;
  std::vector<uint32_t> tokens_;    // of the columns; empty: the first by id
  std::vector<uint32_t> advances_;  // places in the manifest's list of states
};

}  // namespace qrt

#endif  // RUNTIME_ENGINE_DRAFT_SCHEDULE_H_
