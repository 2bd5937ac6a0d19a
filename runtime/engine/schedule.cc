#include "runtime/engine/schedule.h"

#include <algorithm>

namespace qrt {
namespace {

void SortOnePerBucket(std::vector<Schedule::Choice>& choices) {
  std::sort(choices.begin(), choices.end(), [](const Schedule::Choice& a, const Schedule::Choice& b) {
    if (a.rows != b.rows) return a.rows < b.rows;
    return a.has_head != b.has_head ? a.has_head : a.program < b.program;
  });
  const auto same = [](const Schedule::Choice& a, const Schedule::Choice& b) { return a.rows == b.rows; };
  choices.erase(std::unique(choices.begin(), choices.end(), same), choices.end());
}

}  // namespace

Schedule::Schedule(const std::vector<Program>& programs) {
  for (uint32_t i = 0; i < programs.size(); ++i) {
    const Program& program = programs[i];
    if (program.rows == 0) continue;
    const Choice choice{i, program.rows, program.phase != Phase::kPrefill};
    (program.phase == Phase::kHead ? heads_ : trunks_).push_back(choice);
  }
  SortOnePerBucket(trunks_);
  SortOnePerBucket(heads_);
  for (const Choice& choice : trunks_) {
    if (choice.has_head) {
      max_out_rows_ = std::max(max_out_rows_, choice.rows);
    } else {
      needs_heads_ = true;
    }
  }
  if (!heads_.empty()) max_out_rows_ = std::max(max_out_rows_, heads_.back().rows);
}

const Schedule::Choice& Schedule::Smallest(const std::vector<Choice>& choices, uint64_t pending) {
  for (const Choice& choice : choices) {
    if (choice.rows >= pending) return choice;
  }
  return choices.back();
}

}  // namespace qrt
