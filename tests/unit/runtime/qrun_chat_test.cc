// Chats as people have them: editing, pasting, commands, and what of a conversation is fed again. About 3 s.
#include <sys/stat.h>

#include "runtime/qrun/prompt_history.h"
#include "runtime/qrun/saved_session.h"
#include "tests/unit/runtime/qrun_chat_fixture.h"

namespace {

using nlohmann::json;
using qrun_test::kThinkBlock;
using qrun_test::QrunChat;
using qrun_test::Result;
using qrun_test::Slurp;
using qrun_test::Terminal;
using qrun_test::TimingIn;
using qrun_test::WriteFile;

constexpr char kBegin[] = "\x1b[200~", kEnd[] = "\x1b[201~";  // of what is pasted
constexpr char kUp[] = "\x1b[A", kLeft[] = "\x1b[D";

// ---- What is fed again ----

// Of the past it shows what stands behind the first letter.
constexpr char kOtherPast[] =
    "{%- for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}{{ m.content[1:] }}"
    "{% else %}{{ m.content }}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

TEST_F(QrunChat, ASavedSessionFeedsOnlyWhatIsNew) {
  const std::string file = File("fed.session");
  for (const auto& [name, text, kept] :
       {std::tuple("think.qbin", kThinkBlock, true), std::tuple("other.qbin", kOtherPast, false)}) {
    const std::string path = WithTemplate(name, text);
    const Result first = Run({path, "-p", "hello", "-n", "12", "--save-session", file, "--timing=json"});
    ASSERT_EQ(first.exit, 0) << first.err;
    int position = TimingIn(first.err)["position"];
    for (int turn = 0; turn < 3; ++turn) {
      const Result more = Run({path, "--load-session", file, "-p", "and you", "-n", "12", "--save-session",
                               file, "--timing=json"});
      ASSERT_EQ(more.exit, 0) << more.err;
      const json timing = TimingIn(more.err);
      EXPECT_EQ(timing["reused_tokens"], kept ? position : 0) << name << ", turn " << turn;
      position = timing["position"];
    }
  }
}

TEST_F(QrunChat, AChatFeedsOnlyWhatIsNew) {
  for (const auto& [name, text, kept] :
       {std::tuple("think.qbin", kThinkBlock, true), std::tuple("other.qbin", kOtherPast, false)}) {
    Terminal terminal({WithTemplate(name, text), "-n", "12", "--timing=json"});
    terminal.ReadUntil("> ");
    const json first = TimingIn(Say(terminal, "hello"));
    ASSERT_TRUE(first.is_object());
    int position = first["position"], answer = first["generated_tokens"], fed = first["prompt_tokens"];
    for (int turn = 0; turn < 3; ++turn) {
      const json timing = TimingIn(Say(terminal, "and you"));
      ASSERT_TRUE(timing.is_object());
      const int reused = timing["reused_tokens"];
      if (kept) {
        EXPECT_EQ(reused, position) << name << ", turn " << turn;
      } else {
        EXPECT_LT(reused, position) << "the past is another one: " << name << ", turn " << turn;
        EXPECT_GT(reused, 0) << "it goes back to before the last answer, not to the begin";
        EXPECT_LE(position - reused, answer + fed) << "no more than the last answer and its opening";
      }
      position = timing["position"], answer = timing["generated_tokens"], fed = timing["prompt_tokens"];
    }
    Say(terminal, "/new");
    EXPECT_EQ(TimingIn(Say(terminal, "other words"))["reason"].is_string(), true);
    terminal.Type("/exit\n");
    EXPECT_EQ(terminal.Wait(), 0);
  }
}

TEST_F(QrunChat, AStopTextIsNotPartOfThePast) {
  const std::string whole = Answer("tell me"), file = File("stopped.session");
  const std::string stop = whole.substr(whole.size() - 3, 2);
  const Result first =
      Run({model(), "-p", "tell me", "--stop", stop, "--save-session", file, "--timing=json"});
  ASSERT_EQ(first.exit, 0) << first.err;
  const Result more = Run({model(), "--load-session", file, "-p", "more", "-n", "5", "--timing=json"});
  ASSERT_EQ(more.exit, 0) << more.err;
  EXPECT_LT(TimingIn(more.err)["reused_tokens"], TimingIn(first.err)["position"])
      << "the session's tokens hold the stop text, what was said does not";
}

// ---- Before an answer ----

TEST_F(QrunChat, APlaceThatCannotBeWrittenIsToldFirst) {
  ExpectError(Run({File("missing.qbin"), "-p", "x", "--save-session", File("no/such/folder/s.session")}), 2,
              "s.session");
  ExpectError(Run({File("missing.qbin"), "-p", "x", "--save-session", folder().path()}), 2, "is a folder");
  ExpectError(Run({File("missing.qbin"), "-p", "x", "--save-session", File("s.session")}), 4, "missing.qbin");
  for (const std::string& name : folder().Entries()) {
    EXPECT_EQ(name.find("s.session"), std::string::npos) << name << " was made although there was no answer";
  }
}

TEST_F(QrunChat, AnEmptyPromptIsRefused) {
  WriteFile(File("empty.txt"), "");
  for (const std::vector<std::string>& mode : std::vector<std::vector<std::string>>{{}, {"--raw"}}) {
    for (std::vector<std::string> prompt :
         std::vector<std::vector<std::string>>{{"-p", ""}, {"-f", File("empty.txt")}, {}}) {
      prompt.insert(prompt.begin(), model());
      prompt.insert(prompt.end(), mode.begin(), mode.end());
      ExpectError(Run(prompt), 3, "the prompt is empty [Q8002]");
    }
  }
}

TEST_F(QrunChat, AContextBeyondTheModelsIsWarnedOf) {
  qrt::testing::SampleParts parts = toy::ToyParts();
  const std::string most = std::to_string(parts.manifest.context_length);
  const auto warned = [&](const std::string& context, const char* more) {
    return Run({model(), "-p", "x", "-n", "1", "--ctx", context, more}).err;
  };
  ASSERT_NE(most, "0");
  EXPECT_EQ(warned(most, "--greedy"), "");
  EXPECT_EQ(warned(most + "0", "--greedy"), "qrun: warning: --ctx " + most + "0 is more than the " + most +
                                                " tokens that the model was made for\n");
  EXPECT_EQ(warned(most + "0", "-q"), "");
  const auto bench = [&](uint64_t depth, const std::vector<std::string>& more) {
    std::vector<std::string> call = {"bench", model(), "-d", std::to_string(depth), "-r", "1"};
    call.insert(call.end(), more.begin(), more.end());
    const Result result = Run(call);
    EXPECT_EQ(result.exit, 0) << result.err;
    return result.err;
  };
  const uint64_t context = parts.manifest.context_length;
  EXPECT_EQ(bench(context - 8, {"-p", "8", "-n", "3"}), "");
  EXPECT_EQ(bench(context - 8, {"-p", "3", "-n", "9"}),
            "qrun: warning: " + std::to_string(context + 1) + " tokens (" + std::to_string(context - 8) +
                " of them history) are more than the " + most + " that the model was made for\n");
  EXPECT_EQ(
      bench(0, {"-p", most + "0", "-n", "0"}),
      "qrun: warning: " + most + "0 tokens are more than the " + most + " that the model was made for\n");
  EXPECT_EQ(bench(context, {"-p", "1", "-n", "1", "-q"}), "");
  WriteFile(File("long.txt"), std::string(10 * context, 'x'));
  const auto scored = [&](const std::vector<std::string>& more) {
    std::vector<std::string> call = {"perplexity", model(), "-f", File("long.txt")};
    call.insert(call.end(), more.begin(), more.end());
    return Run(call).err;
  };
  EXPECT_NE(scored({}).find(" tokens are more than the " + most + " that the model was made for\n"),
            std::string::npos);
  EXPECT_EQ(scored({"-q"}), "");
}

TEST_F(QrunChat, ResultsAreJsonAndQuietWhereAsked) {
  EXPECT_EQ(json::parse(Ok({"tokenize", model(), "-p", "the", "--json", "-q"}))["tokens"], json({258}));
  const json checked = json::parse(Ok({"check", model(), "--json"}), nullptr, false);
  ASSERT_TRUE(checked.is_object());
  EXPECT_EQ(checked["hashes"], "ok");
  ASSERT_EQ(checked["code"].size(), 3u);
  EXPECT_EQ(checked["code"][0]["result"], "skipped");
  EXPECT_EQ(checked["code"][1]["result"], "unchecked");
  qrt::testing::SampleParts parts = toy::ToyParts();
  toy::AddGoldens(parts, true);
  WriteParts(parts, File("wrong.qbin"));
  const Result wrong = Run({"check", File("wrong.qbin"), "--json"});
  EXPECT_EQ(wrong.exit, 5);
  EXPECT_EQ(json::parse(wrong.out)["code"][1]["result"], "WRONG") << wrong.out;
  WriteFile(File("text.txt"), "the thin hen");
  EXPECT_EQ(Run({"perplexity", model(), "-f", File("text.txt"), "-q"}).err, "");
  for (const char* command : {"chat", "logits", "perplexity", "tokenize", "bench", "check", "devices"}) {
    const std::string help = Ok({command, "--help"});
    EXPECT_NE(help.find("-q, --quiet"), std::string::npos) << command;
    EXPECT_NE(help.find("-v, --verbose"), std::string::npos) << command;
  }
}

// ---- On a terminal ----

TEST_F(QrunChat, LinesAreEdited) {
  Terminal terminal({model(), "-n", "3"});
  terminal.ReadUntil("> ");
  Say(terminal, std::string("abc") + kLeft + "X");
  EXPECT_EQ(User(terminal, 0), "user: abXc");
  Say(terminal, "h\xC3\xA9!\xE2\x82\xAC");
  EXPECT_EQ(User(terminal, 2), "user: h\xC3\xA9!\xE2\x82\xAC") << "characters of several bytes";
  Say(terminal, std::string(kUp) + kUp + kUp + kUp + "Y");
  EXPECT_EQ(User(terminal, 4), "user: abXcY") << "the line before last, edited";
  terminal.Type("\x04");
  EXPECT_EQ(terminal.Wait(), 0);
}

// As a terminal of another encoding sends them, or a key that was let go halfway.
TEST_F(QrunChat, ABrokenCharacterTakesNoKeyAlong) {
  Terminal terminal({model(), "-n", "3"});
  terminal.ReadUntil("> ");
  Say(terminal, "caf\xE9");
  EXPECT_EQ(User(terminal, 0), "user: caf\xEF\xBF\xBD") << "Enter is a key";
  Say(terminal, "\xE4\xBD\xC3\xA9\xFFx");
  EXPECT_EQ(User(terminal, 2), "user: \xEF\xBF\xBD\xC3\xA9\xEF\xBF\xBDx");
  terminal.Type("\x04");
  EXPECT_EQ(terminal.Wait(), 0);
}

TEST_F(QrunChat, WhatIsPastedIsOneTurn) {
  Terminal terminal({model(), "-n", "3", "--ctx", "100000"});
  terminal.ReadUntil("> ");
  Say(terminal, std::string(kBegin) + "one\rtwo\n\nthree\ttab\n" + kEnd);
  EXPECT_EQ(User(terminal, 0), "user: one\ntwo\n\nthree\ttab");
  std::string text;  // more than the 4,095 bytes of a line that a terminal keeps
  for (int i = 0; i < 300; ++i) text += "line " + std::to_string(i) + " of a long paste, and some more\n";
  terminal.Paste(kBegin + text + kEnd);
  terminal.Type("\n");
  terminal.ReadUntil("length\r\n> ");
  EXPECT_EQ(User(terminal, 2) + "\n", "user: " + text);
  terminal.Paste(std::string(20000, 'x'));
  terminal.Type("\n");
  terminal.ReadUntil("length\r\n> ");
  EXPECT_EQ(User(terminal, 4), "user: " + std::string(20000, 'x')) << "a line typed very fast";
}

TEST_F(QrunChat, TheHistoryIsKept) {
  const std::string home = File("state"), file = home + "/qcc/history";
  for (const char* line : {"first", "second"}) {
    Terminal terminal({model(), "-n", "2"}, home);
    terminal.ReadUntil("> ");
    Say(terminal, line);
    terminal.Type("/exit\n");
    EXPECT_EQ(terminal.Wait(), 0);
  }
  struct stat info;
  ASSERT_EQ(stat(file.c_str(), &info), 0) << file;
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_EQ(Slurp(file), "first\n/exit\nsecond\n/exit\n");
  Terminal terminal({model(), "-n", "2"}, home);
  terminal.ReadUntil("> ");
  Say(terminal, std::string(kUp) + kUp);
  EXPECT_EQ(User(terminal, 0), "user: second");
  // A folder that cannot be made.
  WriteFile(File("plain"), "a file");
  Terminal other({model(), "-n", "2"}, File("plain"));
  other.ReadUntil("> ");
  const std::string screen = Say(other, "hello");
  EXPECT_EQ(screen.find("error"), std::string::npos) << screen;
  other.Type("/exit\n");
  EXPECT_EQ(other.Wait(), 0);
}

TEST_F(QrunChat, AHistoryStaysShort) {
  const std::string file = File("long.history");
  std::string text;
  for (size_t i = 0; i < 2 * qrun::kHistoryEntries; ++i) text += "entry " + std::to_string(i) + "\n";
  WriteFile(file, text);
  const qrun::PromptHistory history(file);
  history.Add("two\nlines \\n");
  std::vector<std::string> entries = history.Load();
  ASSERT_EQ(entries.size(), qrun::kHistoryEntries);
  EXPECT_EQ(entries.back(), "two\nlines \\n");
  EXPECT_EQ(entries[0], "entry " + std::to_string(qrun::kHistoryEntries + 1));
  EXPECT_LT(Slurp(file).size(), text.size()) << "the file was not shortened";
  EXPECT_EQ(qrun::PromptHistory(file).Load(), entries);
  history.Add(std::string(qrun::kHistoryEntryBytes + 1, 'x'));
  EXPECT_EQ(history.Load(), entries) << "a book is no line to repeat";
  EXPECT_TRUE(qrun::PromptHistory("").Load().empty());
  EXPECT_TRUE(qrun::PromptHistory(folder().path()).Load().empty()) << "a folder";
}

TEST_F(QrunChat, CommandsSteerTheChat) {
  const std::string file = File("chat.session");
  Terminal terminal({model(), "-n", "6", "--timing=json"});
  terminal.ReadUntil("> ");
  std::string screen = Say(terminal, "/help");
  for (const char* command :
       {"/help", "/save FILE", "/load FILE", "/system TEXT", "/retry", "/new", "/exit"}) {
    EXPECT_NE(screen.find(std::string("  ") + command), std::string::npos) << screen;
  }
  screen = Say(terminal, "/laod x");
  EXPECT_NE(screen.find("there is no command /laod [Q0101]"), std::string::npos) << screen;
  EXPECT_NE(screen.find("/help /save /load /system /retry /new /exit"), std::string::npos) << screen;
  EXPECT_NE(screen.find("did you mean /load?"), std::string::npos) << screen;
  EXPECT_NE(Say(terminal, "/retry").find("nothing was asked yet"), std::string::npos);
  EXPECT_NE(Say(terminal, "/save " + file).find("nothing was said yet"), std::string::npos);
  EXPECT_NE(Say(terminal, "/save").find("/save needs a file"), std::string::npos);
  EXPECT_NE(Say(terminal, "/new x").find("/new takes nothing behind it"), std::string::npos);
  Say(terminal, "//etc");
  std::vector<std::string> turns = Turns(terminal);
  ASSERT_EQ(turns.size(), 2u);
  EXPECT_EQ(turns[0], "user: /etc");
  EXPECT_NE(Say(terminal, "/save " + File("no/such/folder/x")).find("[Q0103]"), std::string::npos);
  EXPECT_EQ(Say(terminal, "/save " + file).find("error"), std::string::npos);
  const json retried = TimingIn(Say(terminal, "/retry"));
  ASSERT_TRUE(retried.is_object());
  EXPECT_GT(retried["reused_tokens"], 0) << "the prompt was fed again";
  EXPECT_EQ(Turns(terminal), turns) << "temperature 0 says the same again";
  Say(terminal, "/system be brief");
  EXPECT_EQ(TimingIn(Say(terminal, "more"))["reused_tokens"], 0) << "what comes first has changed";
  turns = Turns(terminal);
  ASSERT_EQ(turns.size(), 5u);
  EXPECT_EQ(turns[0], "system: be brief");
  EXPECT_EQ(turns[1], "user: /etc");
  EXPECT_EQ(turns[3], "user: more");
  EXPECT_EQ(Say(terminal, "/load " + file).find("error"), std::string::npos);
  EXPECT_GT(TimingIn(Say(terminal, "more"))["reused_tokens"], 20) << "the session was not loaded";
  turns = Turns(terminal);
  ASSERT_EQ(turns.size(), 4u);
  EXPECT_EQ(turns[0], "user: /etc");
  EXPECT_NE(Say(terminal, "/load " + model()).find("[Q8004]"), std::string::npos);
  EXPECT_EQ(Turns(terminal), turns) << "a file that is refused changes nothing";
  qrun::SavedSession lies;
  ASSERT_TRUE(qrun::ReadSession(file, &lies).ok());
  lies.tokens.pop_back();
  lies.held = lies.tokens.size();
  ASSERT_TRUE(qrun::WriteSession(File("lies.session"), lies).ok());
  EXPECT_NE(Say(terminal, "/load " + File("lies.session")).find("do not agree"), std::string::npos);
  EXPECT_EQ(TimingIn(Say(terminal, "yet more"))["reused_tokens"], 0) << "the session is not what is believed";
  Say(terminal, "/new");
  Say(terminal, "alone");
  EXPECT_EQ(Turns(terminal).size(), 2u);
  terminal.Type("/exit\n");
  EXPECT_EQ(terminal.Wait(), 0);
}

TEST_F(QrunChat, WhatASavedSessionDoesNotBeginWithIsFed) {
  const std::string file = File("other.session");
  Terminal terminal({model(), "-n", "6", "--timing=json"});
  terminal.ReadUntil("> ");
  Say(terminal, "hello");
  Say(terminal, "/system be brief");
  EXPECT_EQ(Say(terminal, "/save " + file).find("error"), std::string::npos);
  const json live = TimingIn(Say(terminal, "more"));
  EXPECT_EQ(Say(terminal, "/load " + file).find("error"), std::string::npos);
  const json loaded = TimingIn(Say(terminal, "more"));
  ASSERT_TRUE(live.is_object() && loaded.is_object());
  EXPECT_EQ(loaded["reused_tokens"], 0) << "the model was never told of the other system message";
  EXPECT_EQ(loaded["position"], live["position"]);
  terminal.Type("/exit\n");
  EXPECT_EQ(terminal.Wait(), 0);
}

TEST_F(QrunChat, OnlyWhatWasAnsweredIsSaved) {
  for (const char* raw : {"", "--raw"}) {
    std::vector<std::string> arguments = {model(), "-n", "5"};
    if (*raw != '\0') arguments.push_back(raw);
    Terminal terminal(arguments);
    terminal.ReadUntil("> ");
    Say(terminal, "hello");
    Say(terminal, "/new");
    const std::string screen = Say(terminal, "/save " + File("dropped.session"));
    EXPECT_NE(screen.find("there is no answer yet"), std::string::npos) << raw << screen;
    Say(terminal, "hello");
    EXPECT_EQ(Say(terminal, "/save " + File("kept.session")).find("error"), std::string::npos) << raw;
    terminal.Type("/exit\n");
    EXPECT_EQ(terminal.Wait(), 0);
  }
}

// As the chat leaves it out of what it goes on from.
TEST_F(QrunChat, TheTokenThatEndedARawAnswerIsNotGoneOnFrom) {
  const std::string file = File("ended.session");
  const std::vector<std::string> start = {model(), "--raw", "-p", "hello", "-n", "6", "--timing=json"};
  std::vector<std::string> first = start;
  first.insert(first.end(), {"--save-session", file});
  ASSERT_EQ(Run(first).exit, 0);
  qrun::SavedSession session;
  ASSERT_TRUE(qrun::ReadSession(file, &session).ok());
  first.insert(first.end(), {"--stop-id", std::to_string(session.tokens.back())});
  ASSERT_EQ(Run(first).exit, 0);
  ASSERT_TRUE(qrun::ReadSession(file, &session).ok());
  ASSERT_GT(session.tokens.size(), session.held) << "the last token is chosen and not fed";
  for (const bool ends : {false, true}) {
    std::vector<std::string> then = {model(),         "--raw",          "-p", "B", "-n", "2",
                                     "--timing=json", "--load-session", file};
    if (ends) then.insert(then.end(), {"--stop-id", std::to_string(session.tokens.back())});
    const Result more = Run(then);
    ASSERT_EQ(more.exit, 0) << more.err;
    EXPECT_EQ(TimingIn(more.err)["prompt_tokens"], ends ? 1 : 2);
  }
}

TEST_F(QrunChat, RetryingSaysSomethingElse) {
  Terminal terminal({model(), "-n", "20", "--temp", "5", "--seed", "7"});
  terminal.ReadUntil("> ");
  Say(terminal, "hello");
  const std::vector<std::string> first = Turns(terminal);
  Say(terminal, "/retry");
  const std::vector<std::string> second = Turns(terminal);
  ASSERT_EQ(first.size(), 2u);
  ASSERT_EQ(second.size(), 2u);
  EXPECT_EQ(first[0], second[0]);
  EXPECT_NE(first[1], second[1]);
}

TEST_F(QrunChat, RetryingAnswersWhatWasLoaded) {
  const std::string file = File("retry.session");
  std::vector<std::string> said;
  {
    Terminal terminal({model(), "-n", "6"});
    terminal.ReadUntil("> ");
    Say(terminal, "hello");
    Say(terminal, "and you");
    said = Turns(terminal);
    Say(terminal, "/save " + file);
  }
  Terminal terminal({model(), "-n", "6", "--timing=json"});
  terminal.ReadUntil("> ");
  Say(terminal, "other words");
  Say(terminal, "/load " + file);
  const std::string screen = Say(terminal, "/retry");
  EXPECT_TRUE(TimingIn(screen).is_object()) << screen;
  EXPECT_EQ(Turns(terminal), said) << "temperature 0 says the same again";
  EXPECT_EQ(TimingIn(Say(terminal, "more"))["reused_tokens"], TimingIn(screen)["position"]);
}

TEST_F(QrunChat, RetryingAnswersAsAnotherSystemMessageSays) {
  Terminal terminal({model(), "-n", "6", "--timing=json", "--ctx", "400"});
  terminal.ReadUntil("> ");
  Say(terminal, "/system be brief");
  EXPECT_NE(Say(terminal, "/retry").find("nothing was asked yet"), std::string::npos);
  const json before = TimingIn(Say(terminal, "hello"));
  Say(terminal, "/system be kind, and say more");
  const json retried = TimingIn(Say(terminal, "/retry"));
  ASSERT_TRUE(before.is_object() && retried.is_object());
  EXPECT_GT(retried["position"], before["position"]) << "the other message was not fed";
  const std::vector<std::string> turns = Turns(terminal);
  ASSERT_EQ(turns.size(), 3u);
  EXPECT_EQ(turns[0], "system: be kind, and say more");
  EXPECT_EQ(turns[1], "user: hello");
  Say(terminal, "/system " + std::string(600, 'x'));
  EXPECT_NE(Say(terminal, "/retry").find("[Q5310]"), std::string::npos);
  Say(terminal, "/system be kind, and say more");
  EXPECT_EQ(Turns(terminal), turns) << "what could not be answered again is answered no more";
  Say(terminal, "/system be brief");
  EXPECT_EQ(TimingIn(Say(terminal, "/retry"))["position"], before["position"]);
}

TEST_F(QrunChat, ARawSessionHasNoLineToRetry) {
  const std::string file = File("raw.session");
  Terminal terminal({model(), "--raw", "-n", "5", "--timing=json"});
  terminal.ReadUntil("> ");
  Say(terminal, "hello");
  Say(terminal, "/save " + file);
  Say(terminal, "/load " + file);
  EXPECT_NE(Say(terminal, "/retry").find("does not say where its last answer began"), std::string::npos);
  Say(terminal, "there");
  EXPECT_TRUE(TimingIn(Say(terminal, "/retry")).is_object());
}

TEST_F(QrunChat, APromptCacheChangesNoTurn) {
  const std::string path = WithTemplate("cached.qbin", kThinkBlock);
  const std::vector<std::string> lines = {"tell me of the ten men and of all that they said", "and you",
                                          "/retry", "more"};
  std::vector<std::string> said;
  std::vector<json> positions;
  enum { kWithout, kWrites, kReads };
  for (const int process : {kWithout, kWrites, kReads}) {
    std::vector<std::string> arguments = {path, "-n", "12", "--timing=json"};
    if (process != kWithout) arguments.push_back("--prompt-cache=" + File("prefixes"));
    Terminal terminal(arguments);
    terminal.ReadUntil("> ");
    std::vector<json> now;
    for (size_t i = 0; i < lines.size(); ++i) {
      const json timing = TimingIn(Say(terminal, lines[i]));
      ASSERT_TRUE(timing.is_object()) << lines[i];
      if (process == kReads && i == 0) {
        EXPECT_GT(timing["reused_tokens"], 16) << "nothing came from the folder";
      }
      if (i == 1 || i == 3) {
        EXPECT_GE(timing["reused_tokens"], now.back()) << lines[i];
      }
      now.push_back(timing["position"]);
    }
    const std::vector<std::string> turns = Turns(terminal);
    if (process == kWithout) said = turns, positions = now;
    EXPECT_EQ(now, positions) << "the prompts of process " << process;
    EXPECT_EQ(turns, said) << "of process " << process;
    terminal.Type("/exit\n");
    EXPECT_EQ(terminal.Wait(), 0);
  }
}

TEST_F(QrunChat, ALineThatIsRefusedIsForgotten) {
  const std::string path = WithTemplate("refusing.qbin", kThinkBlock);
  for (const bool raw : {false, true}) {
    std::vector<std::string> arguments = {path, "-n", "12", "--timing=json", "--ctx", "400"};
    if (raw) arguments.push_back("--raw");
    Terminal terminal(arguments);
    terminal.ReadUntil("> ");
    const json first = TimingIn(Say(terminal, "hello"));
    const std::vector<std::string> said = Turns(terminal);
    const std::string refused = Say(terminal, std::string(600, 'x'));
    EXPECT_NE(refused.find("[Q5310]"), std::string::npos) << refused;
    EXPECT_NE(refused.find("/new starts anew"), std::string::npos) << refused;
    const json again = TimingIn(Say(terminal, "/retry"));
    ASSERT_TRUE(first.is_object() && again.is_object()) << "the line before it cannot be answered again";
    EXPECT_EQ(again["position"], first["position"]);
    EXPECT_EQ(Turns(terminal), said);
    const json next = TimingIn(Say(terminal, "and you"));
    ASSERT_TRUE(next.is_object());
    EXPECT_EQ(next["reused_tokens"], again["position"])
        << "what was said is fed again" << (raw ? ", raw" : "");
  }
}

// Where nothing was said before, beginning anew makes no room.
TEST_F(QrunChat, AFirstLineThatDoesNotFitIsToldHowItCould) {
  const std::string path = WithTemplate("first.qbin", kThinkBlock);
  for (const char* more : {"", "--raw", "--system=be brief"}) {
    std::vector<std::string> arguments = {path, "-n", "4", "--ctx", "400"};
    if (*more != '\0') arguments.push_back(more);
    Terminal terminal(arguments);
    terminal.ReadUntil("> ");
    const std::string screen = Say(terminal, std::string(600, 'x'));
    EXPECT_NE(screen.find("make room with --ctx"), std::string::npos) << more << screen;
    EXPECT_EQ(screen.find("/new starts anew"), std::string::npos) << more << screen;
    EXPECT_EQ(screen.find("what /system says") != std::string::npos,
              std::string(more).rfind("--system", 0) == 0)
        << more << screen;
  }
}

TEST_F(QrunChat, FilesInTheHomeFolderAreNamedAsInAShell) {
  const std::string home = File("home");
  ASSERT_EQ(mkdir(home.c_str(), 0700), 0);
  Terminal terminal({model(), "-n", "4"}, home);
  terminal.ReadUntil("> ");
  Say(terminal, "hello");
  EXPECT_EQ(Say(terminal, "/save ~/home.session").find("error"), std::string::npos);
  EXPECT_EQ(Say(terminal, "/load ~/home.session").find("error"), std::string::npos);
  EXPECT_EQ(access((home + "/home.session").c_str(), R_OK), 0);
}

TEST_F(QrunChat, RawChatsGoOnFromWhatWasSaid) {
  Terminal terminal({model(), "--raw", "-n", "5", "--timing=json"});
  terminal.ReadUntil("> ");
  const json first = TimingIn(Say(terminal, "hello"));
  const json second = TimingIn(Say(terminal, "there"));
  ASSERT_TRUE(first.is_object() && second.is_object());
  EXPECT_EQ(second["reused_tokens"], first["position"]);
  const json again = TimingIn(Say(terminal, "/retry"));
  ASSERT_TRUE(again.is_object());
  EXPECT_EQ(again["prompt_tokens"], 1) << "the prompt was fed again";
  EXPECT_NE(Say(terminal, "/system x").find("--raw leaves out"), std::string::npos);
}

// While an answer is written the terminal is in its own line mode, and what ends the input is a mark of its
// own.
TEST_F(QrunChat, EndOfInputTypedAheadEnds) {
  Terminal terminal({model(), "-n", "600", "--ignore-eos", "--ctx", "1000"});
  terminal.ReadUntil("> ");
  terminal.Type("hello\n");
  terminal.ReadUntil("hello\r\n");
  terminal.Type("\x04");
  EXPECT_EQ(terminal.Wait(), 0);
}

// Otherwise the system and the editor both show what is typed at once.
TEST_F(QrunChat, WhoSeesThePromptIsReadByTheEditor) {
  Terminal terminal({model(), "-n", "1"});
  terminal.ReadUntil("> ");
  for (int turn = 0; turn < 20; ++turn) {
    ASSERT_FALSE(terminal.SystemEchoes()) << "turn " << turn;
    terminal.Type("/system\n");
    terminal.ReadUntil("\n> ");
  }
}

TEST_F(QrunChat, ATerminalThatCannotDrawStillChats) {
  Terminal terminal({model(), "-n", "3", "-q"}, "", "dumb");
  EXPECT_EQ(terminal.ReadUntil("> "), "> ") << "-q";
  const std::string screen = Say(terminal, "hello");
  EXPECT_EQ(screen.find('\x1b'), std::string::npos) << screen;
  EXPECT_EQ(User(terminal, 0), "user: hello");
}

TEST_F(QrunChat, AnErrorStandsOnALineOfItsOwn) {
  // Sampled wildly, the toy says the token sooner or later behind which it computes NaN.
  for (int seed = 0; seed < 40; ++seed) {
    const std::vector<std::string> arguments = {
        model(),        "--raw", "-p",  "hello", "--temp", "100",    "--top-k",           "0",
        "--ignore-eos", "-n",    "600", "--ctx", "1000",   "--seed", std::to_string(seed)};
    const Result result = Run(arguments);
    if (result.exit != 4 || result.out.empty() || result.out.back() == '\n') continue;
    EXPECT_EQ(result.err.rfind("qrun: error: ", 0), 0u) << "the answer is in a file, not on this line";
    Terminal terminal(arguments);
    const std::string screen = terminal.ReadUntil("[Q5325]");
    EXPECT_NE(screen.find("\nqrun: error: "), std::string::npos) << screen;
    EXPECT_EQ(terminal.Wait(), 4);
    return;
  }
  FAIL() << "no answer ended with an error: nothing was tested";
}

}  // namespace
