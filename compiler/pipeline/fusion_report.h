// What became of the groups that the fusion passes look for: for --report=fusion, a stage's summary, and
// --require-fused.
#ifndef QCC_COMPILER_PIPELINE_FUSION_REPORT_H_
#define QCC_COMPILER_PIPELINE_FUSION_REPORT_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "compiler/pipeline/diagnostics.h"
#include "compiler/pipeline/options.h"

namespace qcc::compiler {

using Remarks = std::span<const DiagnosticCollector::Remark>;

// One line per group, in the order of the model: what, where, and for a miss why; or one line of JSON with
// all.
std::string FusionReport(Remarks remarks, ReportForm form);
// "42 groups, 3 missed".
std::string FusionSummary(Remarks remarks);

// Kinds of groups that can be asked for, "gated_delta" also as "gdn".
std::vector<std::string> FusionKinds();
// Every kind of `required` (names of FusionKinds) was fused somewhere in `file` and missed nowhere. Errors:
// Q3007 with the place and the reason of the first miss.
absl::Status CheckRequiredFusion(std::span<const std::string> required, Remarks remarks,
                                 const std::string& file);

}  // namespace qcc::compiler

#endif  // QCC_COMPILER_PIPELINE_FUSION_REPORT_H_
