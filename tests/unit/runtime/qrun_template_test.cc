// What qrun tells a chat template besides what is said: tools, and whether to think.
#include "tests/unit/runtime/qrun_chat_fixture.h"

namespace {

using qrun_test::kThinkBlock;
using qrun_test::Result;
using qrun_test::Terminal;
using qrun_test::TimingIn;
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
  static std::string Reading() {
    return WithTemplate("reads.qbin", std::string(kShowsTools) + kShowsThinking + kThinkBlock);
  }
  // One answer, with `options`; what it says on stderr ends with its timing.
  static Result Ask(const std::string& prompt, const std::vector<std::string>& options) {
    std::vector<std::string> arguments = {Reading(), "-p", prompt, "-n", "6", "--timing=json"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const Result result = Run(arguments);
    EXPECT_EQ(result.exit, 0) << result.err;
    return result;
  }
};

TEST_F(QrunTemplate, WhatItDoesNotReadIsWarnedOf) {
  const std::string no_tools =
      "qrun: warning: --tools has no effect: the model's chat template makes the same prompt without them\n";
  const std::string no_think =
      "qrun: warning: --think has no effect: the model's chat template makes the same prompt with on and "
      "off\n";
  const std::string deaf = WithTemplate("deaf.qbin", kThinkBlock);
  const std::string reads = Reading();
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

TEST_F(QrunTemplate, ASavedSessionKeepsWhatItWasTold) {
  const std::string file = File("told.session");
  int position =
      TimingIn(Ask("hello", {"--tools", Tools(), "--think=off", "--save-session", file}).err)["position"];
  for (int turn = 0; turn < 2; ++turn) {
    const Result more = Ask("and you", {"--load-session", file, "--save-session", file});
    EXPECT_EQ(more.err.find("{\"load"), 0u) << "nothing to warn of: " << more.err;
    EXPECT_EQ(TimingIn(more.err)["reused_tokens"], position) << "it begins otherwise, turn " << turn;
    position = TimingIn(more.err)["position"];
  }
  qrun::SavedSession saved;
  ASSERT_TRUE(qrun::ReadSession(file, &saved).ok());
  EXPECT_EQ(saved.tools, kToolsJson);
  EXPECT_EQ(saved.think, "off");
}

TEST_F(QrunTemplate, WhatIsSaidGoesBeforeWhatWasSaved) {
  const std::string file = File("said.session"), then = File("then.session"), none = File("none.json");
  Ask("hello", {"--tools", Tools(), "--think=off", "--save-session", file});
  WriteFile(none, "[]");
  const Result other =
      Ask("x", {"--load-session", file, "--save-session", then, "--tools", none, "--think=on"});
  EXPECT_EQ(other.err.find("qrun: warning: --tools " + none + " are others than " + file + " was saved with"),
            0u)
      << other.err;
  EXPECT_NE(other.err.find("qrun: warning: --think is on, " + file + " was saved with off"),
            std::string::npos)
      << other.err;
  EXPECT_EQ(TimingIn(other.err)["reused_tokens"], 0) << "the model was told of other tools";
  qrun::SavedSession saved;
  ASSERT_TRUE(qrun::ReadSession(then, &saved).ok());
  EXPECT_EQ(saved.tools, "[]");
  EXPECT_EQ(saved.think, "on");
  for (const std::vector<std::string>& options :
       {std::vector<std::string>{"--tools", Tools(), "--think=off"}, {"--tools", none, "--think=on", "-q"}}) {
    std::vector<std::string> loading = options;
    loading.insert(loading.end(), {"--load-session", file});
    const Result more = Ask("x", loading);
    EXPECT_EQ(more.err.find("{\"load"), 0u) << "the same again, or -q: " << more.err;
  }
  Ask("hello", {"--save-session", file});
  const Result first = Ask("x", {"--load-session", file, "--tools", Tools()});
  EXPECT_EQ(TimingIn(first.err)["reused_tokens"], 0) << "there were no tools before";
}

TEST_F(QrunTemplate, AChatThatIsLoadedGoesOnAsItWasTold) {
  const std::string file = File("chat.session");
  {
    Terminal terminal({Reading(), "-n", "6", "--tools", Tools(), "--think=off"});
    terminal.ReadUntil("> ");
    Say(terminal, "hello");
    EXPECT_EQ(Say(terminal, "/save " + file).find("error"), std::string::npos);
  }
  Terminal terminal({Reading(), "-n", "6", "--timing=json"});
  terminal.ReadUntil("> ");
  const int plain = TimingIn(Say(terminal, "hello"))["prompt_tokens"];
  EXPECT_EQ(Say(terminal, "/load " + file).find("error"), std::string::npos);
  const auto timing = TimingIn(Say(terminal, "and you"));
  ASSERT_TRUE(timing.is_object());
  EXPECT_GT(timing["reused_tokens"], plain) << "the tools were left out";
  Say(terminal, "/save " + file);
  qrun::SavedSession saved;
  ASSERT_TRUE(qrun::ReadSession(file, &saved).ok());
  EXPECT_EQ(saved.tools, kToolsJson);
  EXPECT_EQ(saved.think, "off");
  Say(terminal, "/new");
  EXPECT_EQ(TimingIn(Say(terminal, "hello"))["position"], TimingIn(Ask("hello", {}).err)["position"])
      << "a new conversation is told what the command line says";
}

TEST_F(QrunTemplate, SavedToolsAreNotTrusted) {
  const std::string file = File("lies.session");
  Ask("hello", {"--save-session", file});
  qrun::SavedSession saved;
  ASSERT_TRUE(qrun::ReadSession(file, &saved).ok());
  const auto load = [&](const std::string& tools) {
    saved.tools = tools;
    EXPECT_TRUE(qrun::WriteSession(file, saved).ok());
    return Run({Reading(), "--load-session", file, "-p", "x", "-n", "1"});
  };
  ExpectError(load(std::string("[]\0", 3)), 3, "contradicts itself [Q8004]");
  for (const char* tools : {"[", "{}", "\x1b"}) ExpectError(load(tools), 3, "[Q7005]");
  EXPECT_EQ(load("[]").exit, 0);
}

}  // namespace
