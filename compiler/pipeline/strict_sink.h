// --strict: a warning is an error.
#ifndef QCC_COMPILER_PIPELINE_STRICT_SINK_H_
#define QCC_COMPILER_PIPELINE_STRICT_SINK_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "compiler/pipeline/options.h"
#include "frontends/base/error.h"
#include "frontends/base/text.h"

namespace qcc::compiler {

// Hands everything on; with `strict` it keeps the first warning instead, which then ends the compile. Every
// room warns through the sink, so none needs to know of it.
class StrictSink final : public ProgressSink {
 public:
  StrictSink(ProgressSink& sink, bool strict) : sink_(sink), strict_(strict) {}

  void BeginStage(int index, int count, std::string_view name) override {
    sink_.BeginStage(index, count, name);
  }
  void Progress(uint64_t done, uint64_t total, std::string_view unit) override {
    sink_.Progress(done, total, unit);
  }
  void EndStage(std::string_view summary) override { sink_.EndStage(summary); }
  void Warning(std::string_view text) override {
    if (!strict_) return sink_.Warning(text);
    if (first_.empty()) first_ = text;
  }
  void Report(std::string_view text) override { sink_.Report(text); }
  bool Interrupted() const override { return sink_.Interrupted(); }

  // The first warning as an error, if there was one.
  absl::Status Refusal(std::string_view input) const {
    if (first_.empty()) return absl::OkStatus();
    return MakeError("Q3008", Concat("with --strict a warning is an error: ", first_), std::string(input),
                     "correct the file or the options, or leave out --strict");
  }

 private:
  ProgressSink& sink_;
  bool strict_;
  std::string first_;
};

}  // namespace qcc::compiler

#endif  // QCC_COMPILER_PIPELINE_STRICT_SINK_H_
