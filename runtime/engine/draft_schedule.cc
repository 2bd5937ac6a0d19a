#include "runtime/engine/draft_schedule.h"

#include <algorithm>

namespace qrt {
namespace {

// Takes tokens with the trunk's rows.
bool Follows(const ProgramFacts& facts, uint32_t embedding_length) {
  return facts.takes == (kTokens | kGiven) && facts.given_cols == embedding_length && facts.leaves >= 0;
}

bool AdvancesKvAlone(const ProgramFacts& facts, const ModelPlan& plan) {
  return !facts.advances.empty() &&
         std::all_of(facts.advances.begin(), facts.advances.end(), [&plan](uint32_t state) {
           return std::any_of(plan.kv_planes.begin(), plan.kv_planes.end(),
                              [state](const KvPlane& plane) { return plane.state == state; });
         });
}

}  // namespace

DraftSchedule::DraftSchedule(const ModelPlan& plan) {
  const ProgramFacts* main = nullptr;
  for (const Program& program : plan.programs) {
    if (program.rows != 0 && Follows(program.facts, plan.embedding_length) &&
        program.facts.gives == Output::kLogits && AdvancesKvAlone(program.facts, plan)) {
      main = &program.facts;
      logits_cols_ = program.logits_cols;
      if (logits_cols_ != 0) tokens_ = plan.draft_tokens;
      break;
    }
  }
  if (main == nullptr) return;
  advances_ = main->advances;
  for (uint32_t i = 0; i < plan.programs.size(); ++i) {
    const Program& program = plan.programs[i];
    const ProgramFacts& facts = program.facts;
    if (program.rows == 0 || facts.advances != main->advances || facts.leaves != main->leaves) continue;
    if (facts.gives == Output::kLogits && program.logits_cols != logits_cols_) continue;
    if (Follows(facts, plan.embedding_length)) {
      if (facts.gives == Output::kLogits) with_logits_.push_back({i, program.rows, true});
      if (facts.gives == Output::kNothing) without_logits_.push_back({i, program.rows, false});
    }
    const bool goes_on = facts.takes == (kTokens | kStream) && facts.stream == main->leaves;
    if (goes_on && facts.gives == Output::kLogits && !next_) next_ = i;
  }
  const auto by_rows = [](const Schedule::Choice& a, const Schedule::Choice& b) { return a.rows < b.rows; };
  std::sort(with_logits_.begin(), with_logits_.end(), by_rows);
  std::sort(without_logits_.begin(), without_logits_.end(), by_rows);
}

bool DraftSchedule::Owns(const KvPlane& plane) const {
  return std::find(advances_.begin(), advances_.end(), plane.state) != advances_.end();
}

}  // namespace qrt
