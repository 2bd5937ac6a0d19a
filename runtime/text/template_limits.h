// Budgets of one chat template render.
#ifndef QRT_TEXT_TEMPLATE_LIMITS_H_
#define QRT_TEXT_TEMPLATE_LIMITS_H_

#include <cstdint>

namespace qrt::text {

// Going over any of them ends the render with an error that names the budget. The defaults leave room for
// conversations of tens of thousands of messages and bound a hostile template to about a second.
struct RenderLimits {
  uint64_t steps = 5'000'000;           // statements, expressions and items visited
  uint32_t depth = 400;                 // nested statements, expressions and macro calls
  uint64_t output_bytes = 64ull << 20;  // the rendered text
  uint64_t string_bytes = 64ull << 20;  // any single string
  uint64_t total_bytes = 1ull << 30;    // all strings and lists made on the way, together
};

}  // namespace qrt::text

#endif  // QRT_TEXT_TEMPLATE_LIMITS_H_
