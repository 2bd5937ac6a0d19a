// What a row of logits says of a token's probability.
#ifndef RUNTIME_QRUN_LOG_SUM_EXP_H_
#define RUNTIME_QRUN_LOG_SUM_EXP_H_

#include <cstddef>
#include <span>

namespace qrun {

struct LogSumExp {
  // ln of the sum of e^logit, to 1e-12 of the sum: the probability of a token is e^(logit - value). With the
  // widest vectors of the processor.
  double value = 0;
  size_t bad = 0;  // the first logit that is NaN or +infinity, of which there is no sum; their number: none
};

// Of at least one logit, not all of which are -infinity.
LogSumExp LogSumExpOf(std::span<const float> logits);

// The same on processors without vectors beyond the baseline's; for tests.
LogSumExp LogSumExpOnAny(std::span<const float> logits);

}  // namespace qrun

#endif  // RUNTIME_QRUN_LOG_SUM_EXP_H_
