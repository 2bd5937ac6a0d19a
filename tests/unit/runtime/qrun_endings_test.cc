// How answers end, and qrun when its reader goes away or it is interrupted, and what of a conversation a
// saved session keeps.
#include <chrono>
#include <nlohmann/json.hpp>

#include "runtime/qrun/saved_session.h"
#include "tests/unit/runtime/qrun_chat_fixture.h"

namespace {

using nlohmann::json;
using qrun_test::Process;
using qrun_test::Result;
using qrun_test::Slurp;
using qrun_test::Terminal;
using qrun_test::TimingIn;
using qrun_test::WriteFile;

class QrunEndings : public qrun_test::QrunCli {
 protected:
  static std::string Goldens(bool wrong) {
    qrt::testing::SampleParts parts = toy::ToyParts();
    toy::AddGoldens(parts, wrong);
    const std::string path = File(wrong ? "wrong.qbin" : "right.qbin");
    WriteParts(parts, path);
    return path;
  }
  // Fed and reused tokens of a prompt.
  static int PromptTokens(const Result& result) {
    EXPECT_EQ(result.exit, 0) << result.err;
    const json timing = json::parse(result.err, nullptr, false);
    if (!timing.is_object()) return -1;
    return timing["prompt_tokens"].get<int>() + timing["reused_tokens"].get<int>();
  }
};

// ---- What ends an answer ----

TEST_F(QrunEndings, StopTextsAreNotWritten) {
  const std::string whole = Answer("tell me");
  ASSERT_GT(whole.size(), 12u);
  for (size_t at = 0; at + 4 <= whole.size(); at += 3) {
    const std::string stop = whole.substr(at, 4);
    if (qrt_utf8_whole_prefix(stop.data(), stop.size()) != 4 || (stop[0] & 0xC0) == 0x80) continue;
    const Result result =
        Run({model(), "-p", "tell me", "--stop", "never said", "--stop=" + stop, "--timing=json"});
    EXPECT_EQ(result.exit, 0) << result.err;
    EXPECT_EQ(result.out, whole.substr(0, whole.find(stop))) << "stop \"" << stop << "\"";
    EXPECT_EQ(TimingIn(result.err)["reason"], "stop");
  }
  EXPECT_EQ(Ok({model(), "-p", "tell me", "--stop", "never said"}), whole);
  ExpectError(Run({model(), "-p", "tell me", "--stop", ""}), 2, "--stop");
}

TEST_F(QrunEndings, TokensThatEndAnAnswerAreChosen) {
  const std::string whole = Answer("tell me");
  const size_t ascii = whole.find_first_not_of("\xC3\xA9", 3);
  ASSERT_NE(ascii, std::string::npos);
  const std::string id = std::to_string(static_cast<int>(whole[ascii]));
  EXPECT_EQ(Ok({model(), "-p", "tell me", "--stop-id", "7", "--stop-id", id}),
            whole.substr(0, whole.find(whole[ascii])));
  ExpectError(Run({model(), "-p", "x", "--stop-id", "272"}), 2, "expected an id of the vocabulary, 0 to 271");
  const Result on = Run({model(), "-p", "tell me", "--ignore-eos", "-n", "60", "--timing=json"});
  EXPECT_EQ(TimingIn(on.err)["generated_tokens"], 60) << on.err;
  EXPECT_EQ(TimingIn(on.err)["reason"], "length");
  EXPECT_EQ(on.out.rfind(whole, 0), 0u) << on.out;
  EXPECT_GT(on.out.size(), whole.size());
}

TEST_F(QrunEndings, TheFrequencyPenaltyCounts) {
  const auto say = [](const char* penalty) {
    return Ok({model(), "-p", "tell me", "--greedy", "-n", "20", "--frequency-penalty", penalty});
  };
  EXPECT_EQ(say("0"), Ok({model(), "-p", "tell me", "--greedy", "-n", "20"}));
  EXPECT_NE(say("3"), say("0"));
}

// ---- `| head`, `| grep -q` ----

TEST_F(QrunEndings, CheckTellsWrongValuesWhoeverReads) {
  const std::string wrong = Goldens(true);
  Result result = RunUnread({"check", wrong});
  EXPECT_EQ(result.exit, 5) << result.err;
  EXPECT_NE(result.err.find("Q5007"), std::string::npos) << result.err;
  result = Run({"check", wrong});
  EXPECT_EQ(result.exit, 5) << result.err;
  EXPECT_NE(result.out.find("cpu toy: WRONG"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("cpu toy-2: WRONG"), std::string::npos) << "the first ended it: " << result.out;
  EXPECT_NE(result.err.find("note: toy\n"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("note: toy-2\n"), std::string::npos) << result.err;
  result = RunUnread({"check", Goldens(false)});
  EXPECT_EQ(result.exit, 0) << result.err;
  EXPECT_EQ(result.err, "");
}

TEST_F(QrunEndings, ASessionIsSavedWhenNobodyReadsTheAnswer) {
  const std::string file = File("unread.session");
  for (const std::vector<std::string>& mode :
       {std::vector<std::string>{"--raw"}, std::vector<std::string>{}}) {
    unlink(file.c_str());
    std::vector<std::string> begin = {model(), "-p", "go on and on", "--greedy", "--save-session", file};
    begin.insert(begin.end(), mode.begin(), mode.end());
    const Result begun = RunUnread(begin);
    EXPECT_EQ(begun.exit, 0) << begun.err;
    EXPECT_EQ(begun.err, "");
    ASSERT_NE(Slurp(file), "") << "no session was saved";
    std::vector<std::string> more = {model(), "--load-session", file, "-n", "5", "--greedy", "--timing=json"};
    more.insert(more.end(), mode.begin(), mode.end());
    const Result ended = Run(more);
    ASSERT_EQ(ended.exit, 0) << ended.err;
    EXPECT_EQ(json::parse(ended.err)["prompt_tokens"], 0) << "the session holds less than was sampled";
    std::vector<std::string> whole = {model(), "-p", "go on and on", "--greedy", "-n", "40"};
    whole.insert(whole.end(), mode.begin(), mode.end());
    std::string rest = ended.out;  // maybe from inside a character on
    while (rest.rfind("\xEF\xBF\xBD", 0) == 0) rest.erase(0, 3);
    while (rest.size() > 3 && rest.substr(rest.size() - 3) == "\xEF\xBF\xBD") rest.resize(rest.size() - 3);
    ASSERT_NE(rest, "");
    EXPECT_NE(Ok(whole).find(rest), std::string::npos) << rest;
  }
}

TEST_F(QrunEndings, LogitsThatNobodyReadsAreNoError) {
  std::string ids;
  for (int i = 0; i < 100; ++i) ids += "7 ";
  WriteFile(File("ids.txt"), ids);
  const Result result = RunUnread({"logits", model(), "--tokens", File("ids.txt"), "-o", "-"});
  EXPECT_EQ(result.exit, 0) << result.err;
  EXPECT_EQ(result.err, "");
  // So few that they are written at the end only.
  WriteFile(File("ids.txt"), "7");
  EXPECT_EQ(RunUnread({"logits", model(), "--tokens", File("ids.txt"), "-o", "-"}).exit, 0);
}

// ---- Ctrl-C ----

TEST_F(QrunEndings, AnInterruptedPromptReplacesNoSavedSession) {
  std::string prompt;
  for (int i = 0; i < 60000; ++i) prompt += "7 ";  // the toy model needs many seconds for that
  WriteFile(File("long.txt"), prompt);
  const std::string file = File("kept.session");
  Ok({model(), "--raw", "-p", "hello", "-n", "5", "--greedy", "--save-session", file});
  const std::string before = Slurp(file);
  for (const bool there : {true, false}) {
    if (!there) unlink(file.c_str());
    Process process(
        folder(), {model(), "--raw", "-f", File("long.txt"), "--ctx", "1000000", "--save-session", file}, "");
    process.ExpectWorks(std::chrono::milliseconds(400));
    process.Interrupt();
    const Result result = process.Wait();
    EXPECT_EQ(result.exit, 130) << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_NE(result.err.find(file + " is not written"), std::string::npos) << result.err;
    EXPECT_EQ(Slurp(file) == before, there) << "a half-fed prompt was saved";
    EXPECT_EQ(access(file.c_str(), F_OK) == 0, there);
  }
}

// ---- Bytes that are no text ----

TEST_F(QrunEndings, ANulByteIsNotTheEndOfAPrompt) {
  const std::string nul("tell\0me", 7);
  ExpectError(Run({model()}, nul), 3, "Q8005");
  WriteFile(File("nul.txt"), nul);
  const Result refused = Run({model(), "-f", File("nul.txt")});
  ExpectError(refused, 3, "contains a NUL byte");
  EXPECT_NE(refused.err.find("note: byte 4"), std::string::npos) << refused.err;
  EXPECT_EQ(PromptTokens(Run({model(), "--raw", "-f", File("nul.txt"), "-n", "1", "--timing=json"})), 7)
      << "--raw passes every byte on";
}

TEST_F(QrunEndings, ANulByteThatWasSaidIsNotTheEndOfATurn) {
  const std::string nul = File("nul.session"), other = File("other.session");
  const std::string replacement = "\xEF\xBF\xBD";
  Ok({model(), "-p", "one#two", "-n", "0", "--greedy", "--save-session", nul});
  qrun::SavedSession session;
  ASSERT_TRUE(qrun::ReadSession(nul, &session).ok());
  ASSERT_EQ(session.turns.at(0).content, "one#two");
  session.turns[0].content[3] = '\0';
  session.turns[1].content = "said";  // not what the session holds: all is rendered and fed anew
  ASSERT_TRUE(qrun::WriteSession(nul, session).ok());
  Ok({model(), "-p", "one" + replacement + "two", "-n", "0", "--greedy", "--save-session", other});
  ASSERT_TRUE(qrun::ReadSession(other, &session).ok());
  session.turns[1].content = "said";
  ASSERT_TRUE(qrun::WriteSession(other, session).ok());
  const auto tokens = [&](const std::string& file) {
    return PromptTokens(Run({model(), "--load-session", file, "-p", "more", "-n", "1", "--timing=json"}));
  };
  EXPECT_EQ(tokens(nul), tokens(other));
}

TEST_F(QrunEndings, ACharacterThatWasCutGoesOnInASavedSession) {
  const std::string file = File("cut.session"), replacement = "\xEF\xBF\xBD";
  const auto ends_cut = [&](const std::string& text) {
    return text.size() >= 3 && text.substr(text.size() - 3) == replacement;
  };
  const auto begin = [&](int tokens) {
    return Ok(
        {model(), "-p", "go on and on", "--greedy", "-n", std::to_string(tokens), "--save-session", file});
  };
  int cut = 1;
  std::string begun;
  while (cut < 80 && !ends_cut(begun = begin(cut))) ++cut;
  ASSERT_LT(cut, 80) << "the toy model wrote no character of several bytes: nothing was tested";
  begun.resize(begun.size() - replacement.size());
  // The next token completes it, or shows that nothing can.
  const std::string whole = Ok({model(), "-p", "go on and on", "--greedy", "-n", std::to_string(cut + 10)});
  const auto go_on = [&](int tokens) {
    return Ok(
        {model(), "--load-session", file, "-n", std::to_string(tokens), "--greedy", "--save-session", file});
  };
  EXPECT_EQ(begun + go_on(10), whole);
  const auto prompted = [&] {
    return PromptTokens(Run({model(), "--load-session", file, "-p", "more", "-n", "1", "--timing=json"}));
  };
  const int in_two = prompted();
  begin(cut + 10);
  EXPECT_EQ(in_two, prompted()) << "the saved conversation is another one";
  // Nothing is added to a cut, and the cut stays.
  begin(cut);
  go_on(0);
  EXPECT_EQ(begun + go_on(10), whole);
}

// ---- Logits that are no numbers ----

TEST_F(QrunEndings, ANumericFaultIsTheArtifacts) {
  // The toy model computes NaN behind this token.
  ExpectError(Run({model(), "--raw", "-p", "one \x01", "-n", "3"}), 4,
              "position 4, expected numbers that differ [Q5325]\n  note: program ");
  ExpectError(Run({model(), "--raw", "-p", "one \x01", "-n", "3", "--temp", "1"}), 4, "[Q5325]");
  WriteFile(File("nan.txt"), "one \x01 two");
  for (const std::vector<std::string>& form : {std::vector<std::string>{}, {"--json"}}) {
    std::vector<std::string> arguments = {"perplexity", model(), "-f", File("nan.txt")};
    arguments.insert(arguments.end(), form.begin(), form.end());
    ExpectError(Run(arguments), 4, "a logit that is no number, for token id 0 after position");
  }
}

// ---- A chat that goes on ----

TEST_F(QrunEndings, ARefusedLineIsForgotten) {
  const std::string text =
      "{%- for m in messages %}{% if 'bad' in m.content %}{{ raise_exception('no such words') }}{% endif %}"
      "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
      "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
  const std::string strict = File("strict.qbin");
  WriteParts(toy::ToyParts(text), strict);
  const auto last = [&](const std::vector<std::string>& lines) {
    Terminal terminal({strict, "--ctx", "160", "-n", "10", "--timing=json"});
    terminal.ReadUntil("> ");
    std::string screen;
    for (const std::string& line : lines) {
      terminal.Type(line + "\n");
      screen = terminal.ReadUntil("\r\n> ");
    }
    terminal.Type("/exit\n");
    EXPECT_EQ(terminal.Wait(), 0) << screen;
    return screen;
  };
  const auto fed = [](const std::string& screen) {
    const size_t begin = screen.find("{\"load"), end = screen.find('\n', begin);
    const json timing =
        json::parse(screen.substr(std::min(begin, screen.size()), end - begin), nullptr, false);
    if (!timing.is_object()) return std::pair(-1, -1);
    return std::pair(timing["prompt_tokens"].get<int>(), timing["reused_tokens"].get<int>());
  };
  const std::string refused = last({"hello", "bad"});
  EXPECT_NE(refused.find("qrun: error: the template refuses: no such words [Q7002]"), std::string::npos)
      << refused;
  const std::string too_long = last({"hello", std::string(200, '#')});
  EXPECT_NE(too_long.find("[Q5310]"), std::string::npos) << too_long;
  const auto expected = fed(last({"hello", "more"}));
  ASSERT_GT(expected.second, 0) << "nothing was kept of the first turn: nothing is tested";
  EXPECT_EQ(fed(last({"hello", "bad", "more"})), expected) << "the conversation before it was lost";
  EXPECT_EQ(fed(last({"hello", std::string(200, '#'), "more"})), expected);
}

}  // namespace
