// plan.weight's layouts as the layouts room knows them.
#ifndef QCC_DIALECTS_PLAN_IR_PACKLAYOUT_H_
#define QCC_DIALECTS_PLAN_IR_PACKLAYOUT_H_

#include "dialects/layouts/layouts.h"
#include "dialects/plan/IR/Plan.h"

namespace qcc::plan {

constexpr layouts::Layout packLayout(Layout layout) {
  static_assert(static_cast<int>(Layout::X16) == static_cast<int>(layouts::Layout::kX16) &&
                static_cast<int>(Layout::X16Pair) == static_cast<int>(layouts::Layout::kX16Pair) &&
                static_cast<int>(Layout::F32) == static_cast<int>(layouts::Layout::kF32) &&
                static_cast<int>(Layout::ConvTaps) == static_cast<int>(layouts::Layout::kConvTaps));
  return static_cast<layouts::Layout>(layout);
}
constexpr Layout planLayout(layouts::Layout layout) {
  return static_cast<Layout>(layout);
}

}  // namespace qcc::plan

#endif  // QCC_DIALECTS_PLAN_IR_PACKLAYOUT_H_
