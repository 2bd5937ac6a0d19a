// Budgets of one chat template render.
#ifndef QRT_TEXT_TEMPLATE_LIMITS_H_
#define QRT_TEXT_TEMPLATE_LIMITS_H_

#include <cstdint>
#include <functional>

namespace qrt::text {

// Going over any of them ends the render with an error that names the budget. The defaults leave room for
// conversations of tens of thousands of messages and bound a hostile template to about a second.
struct RenderLimits {
  uint64_t steps = 5'000'000;           // statements, expressions and items visited
  uint32_t depth = 400;                 // nested statements, expressions and macro calls
  uint64_t output_bytes = 64ull << 20;  // the rendered text
  uint64_t string_bytes = 64ull << 20;  // any single string
  // All values made on the way, with what their memory costs, and all text that is read to compare, search,
  // parse or copy it, together. Charged before the memory is taken or the work done.
  uint64_t total_bytes = 1ull << 30;
  // Asked after every millisecond or so of work, and at least once for every piece of it that takes longer
  // (one string); true ends the render. May be empty.
  std::function<bool()> stop;
};

}  // namespace qrt::text

#endif  // QRT_TEXT_TEMPLATE_LIMITS_H_
