// For tests that compile: hears all and shows nothing.
#ifndef QCC_TESTS_UNIT_COMPILER_QUIET_SINK_H_
#define QCC_TESTS_UNIT_COMPILER_QUIET_SINK_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "compiler/pipeline/options.h"

namespace qcc::compiler {

class QuietSink : public ProgressSink {
 public:
  void BeginStage(int, int, std::string_view) override {}
  void Progress(uint64_t, uint64_t, std::string_view) override {}
  void EndStage(std::string_view) override {}
  void Warning(std::string_view text) override { warnings += std::string(text) + "\n"; }
  void Report(std::string_view) override {}
  bool Interrupted() const override { return false; }

  std::string warnings;  // a line each
};

}  // namespace qcc::compiler

#endif  // QCC_TESTS_UNIT_COMPILER_QUIET_SINK_H_
