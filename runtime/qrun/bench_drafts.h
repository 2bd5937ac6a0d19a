// What drafts pay: plain decoding beside decoding with guesses.
#ifndef RUNTIME_QRUN_BENCH_DRAFTS_H_
#define RUNTIME_QRUN_BENCH_DRAFTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/qrun/generation.h"
#include "runtime/qrun/model.h"
#include "runtime/qrun/outcome.h"

namespace qrun {

struct DraftSpeed {
  std::string draft;                   // as the command line names it
  uint32_t tokens = 0;                 // guesses at once; QRT_DRAFT_TOKENS_AUTO: as many as pay
  std::optional<double> forced;        // the share of guesses that counted as right whatever the model said
  std::vector<double> plain, drafted;  // tokens per second, of each repetition
  uint64_t steps = 0, guessed = 0, accepted = 0;  // of all that was drafted
  uint64_t chosen = 0;                            // tokens of those steps

  // The median of what each repetition's drafts gained.
  double Ratio() const;
  double TokensPerStep() const;
};

// Greedy text of `count` tokens behind the first `depth` + 1 of `tokens`, `repeat` + 1 times without drafts
// and with, in turn, by two sessions; the first time is not counted. The history is fed again each time: a
// draft has to see it. Errors: of sessions and steps; usage.
Outcome MeasureDrafts(const Model& model, const DraftFlags& flags, std::optional<double> forced,
                      const std::vector<int32_t>& tokens, size_t depth, size_t count, size_t repeat,
                      DraftSpeed* out);

// For people, a line; an object, with `drafted`, the samples as bench prints them.
std::string DraftLine(const DraftSpeed& speed);
std::string DraftJson(const DraftSpeed& speed, const std::string& drafted);

}  // namespace qrun

#endif  // RUNTIME_QRUN_BENCH_DRAFTS_H_
