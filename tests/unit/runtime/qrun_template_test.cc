// What qrun tells a chat template besides what is said: tools, and whether to think.
#include "tests/unit/runtime/qrun_chat_fixture.h"

namespace {

using qrun_test::kThinkBlock;
using qrun_test::Result;
using qrun_test::Terminal;
using qrun_test::WriteFile;

constexpr char kToolsJson[] = R"([{"type": "function", "function": {"name": "weather"}}])";
constexpr char kShowsTools[] = "{% if tools %}{{ tools|tojson }}{% endif %}";
constexpr char kShowsThinking[] = "{% if enable_thinking is defined %}{{ enable_thinking }}{% endif %}";

class QrunTemplate : public qrun_test::QrunChat {
 protected:
  static std::string Tools() {
    WriteFile(File("tools.json"), kToolsJson);
    return File("tools.json");
  }
};

TEST_F(QrunTemplate, WhatItDoesNotReadIsWarnedOf) {
  const std::string no_tools =
      "qrun: warning: --tools has no effect: the model's chat template makes the same prompt without them\n";
  const std::string no_think =
      "qrun: warning: --think has no effect: the model's chat template makes the same prompt with on and "
      "off\n";
  const std::string deaf = WithTemplate("deaf.qbin", kThinkBlock);
  const std::string reads =
      WithTemplate("reads.qbin", std::string(kShowsTools) + kShowsThinking + kThinkBlock);
  for (const char* think : {"on", "off"}) {
    std::vector<std::string> told = {deaf, "-p", "x", "-n", "1", "--tools", Tools(), "--think", think};
    EXPECT_EQ(Run(told).err, no_tools + no_think) << think;
    told.push_back("-q");
    EXPECT_EQ(Run(told).err, "") << think;
    told.back() = "--system=be brief";
    told[0] = reads;
    EXPECT_EQ(Run(told).err, "") << think;
    EXPECT_EQ(Run({model(), "-p", "x", "-n", "1", "--think", think}).err, "")
        << "that off is the template's way is no reason to warn: --think " << think;
  }
  EXPECT_EQ(Run({deaf, "-p", "x", "-n", "1"}).err, "");
  Terminal terminal({deaf, "--tools", Tools()});
  EXPECT_NE(terminal.ReadUntil("> ").find("--tools has no effect"), std::string::npos);
}

TEST_F(QrunTemplate, WhatItRefusesIsNoReasonToWarn) {
  const std::string path = WithTemplate(
      "raises.qbin",
      std::string("{% if enable_thinking == false %}{{ raise_exception('must think') }}{% endif %}") +
          kThinkBlock);
  EXPECT_EQ(Run({path, "-p", "x", "-n", "1", "--think=on"}).err, "");
  ExpectError(Run({path, "-p", "x", "-n", "1", "--think=off"}), 4, "must think");
  WriteFile(File("bad.json"), "[1,");
  ExpectError(Run({path, "-p", "x", "--tools", File("bad.json")}), 3, "[Q7005]");
}

}  // namespace
