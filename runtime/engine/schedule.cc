#include "runtime/engine/schedule.h"

#include <algorithm>

namespace qrt {
namespace {

// Takes the next tokens of sequences and nothing else, or their rows from the device before, and brings them
// on the way to logits of chosen rows.
bool Begins(const ProgramFacts& facts, PartPlace place) {
  const bool leaves = facts.gives == Output::kNothing && facts.leaves >= 0;
  return facts.takes == (place.first ? kTokens : kGiven) &&
         (leaves || (place.last && facts.gives == Output::kChosenLogits));
}

// Makes logits of chosen rows of what another program of the step left, and changes nothing else.
bool TakesStream(const ProgramFacts& facts) {
  return facts.takes == kStream && facts.gives == Output::kChosenLogits && facts.advances.empty();
}

bool LeadsToLogits(const ProgramFacts& facts, const std::vector<Program>& programs) {
  return facts.gives == Output::kChosenLogits ||
         std::any_of(programs.begin(), programs.end(), [&facts](const Program& p) {
           return p.rows != 0 && TakesStream(p.facts) && p.facts.stream == facts.leaves;
         });
}

// The stream from which logits are made: what `main` leaves, or where it changes it on its way to logits, the
// first that another program leaves which advances the same states. -1: none.
int32_t StreamOf(const ProgramFacts& main, const std::vector<Program>& programs, PartPlace place) {
  if (main.leaves >= 0) return main.leaves;
  for (const Program& p : programs) {
    if (p.rows != 0 && Begins(p.facts, place) && p.facts.leaves >= 0 && p.facts.advances == main.advances &&
        LeadsToLogits(p.facts, programs)) {
      return p.facts.leaves;
    }
  }
  return -1;
}

void SortOnePerBucket(std::vector<Schedule::Choice>& choices) {
  std::sort(choices.begin(), choices.end(), [](const Schedule::Choice& a, const Schedule::Choice& b) {
    if (a.rows != b.rows) return a.rows < b.rows;
    return a.gives_logits != b.gives_logits ? a.gives_logits : a.program < b.program;
  });
  const auto same = [](const Schedule::Choice& a, const Schedule::Choice& b) { return a.rows == b.rows; };
  choices.erase(std::unique(choices.begin(), choices.end(), same), choices.end());
}

}  // namespace

// The first program that leads from tokens to logits: what it advances is what a sequence of the model is.
const ProgramFacts* Schedule::Main(const std::vector<Program>& programs, PartPlace place) {
  for (const Program& program : programs) {
    const bool leads_on = !place.last || LeadsToLogits(program.facts, programs);
    if (program.rows != 0 && Begins(program.facts, place) && leads_on) return &program.facts;
  }
  return nullptr;
}

Schedule::Schedule(const std::vector<Program>& programs, PartPlace place) {
  const ProgramFacts* main = Main(programs, place);
  if (main == nullptr) return;
  const int32_t stream = StreamOf(*main, programs, place);
  for (uint32_t i = 0; i < programs.size(); ++i) {
    const ProgramFacts& facts = programs[i].facts;
    if (programs[i].rows == 0) continue;
    const Choice choice{i, programs[i].rows, facts.gives_logits()};
    const bool serves = facts.leaves == stream || (facts.leaves < 0 && choice.gives_logits);
    if (Begins(facts, place) && facts.advances == main->advances && serves) {
      for_tokens_.push_back(choice);
      if (!choice.gives_logits) without_logits_.push_back(i);
    } else if (TakesStream(facts) && facts.stream == stream) {
      for_stream_.push_back(choice);
    }
  }
  SortOnePerBucket(for_tokens_);
  SortOnePerBucket(for_stream_);
  for (const Choice& choice : for_tokens_) {
    if (choice.gives_logits) {
      max_out_rows_ = std::max(max_out_rows_, choice.rows);
    } else {
      leaves_stream_ = true;
    }
  }
  // Programs that leave no rows give logits themselves: what the others leave is then not behind the last
  // layer.
  leaves_every_row_ =
      std::all_of(for_tokens_.begin(), for_tokens_.end(),
                  [&programs](const Choice& choice) { return programs[choice.program].facts.leaves >= 0; }) &&
      std::any_of(for_tokens_.begin(), for_tokens_.end(),
                  [](const Choice& choice) { return choice.gives_logits; });
  if (!for_stream_.empty()) max_out_rows_ = std::max(max_out_rows_, for_stream_.back().rows);
}

const Schedule::Choice& Schedule::Smallest(const std::vector<Choice>& choices, uint64_t pending) {
  for (const Choice& choice : choices) {
    if (choice.rows >= pending) return choice;
  }
  return choices.back();
}

}  // namespace qrt
