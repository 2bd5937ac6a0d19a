// Where qrun writes files: never over what it reads, never in the place of a stream, for its user alone where
// they hold a conversation.
#include <sys/stat.h>

#include "tests/unit/runtime/qrun_fixture.h"

namespace {

using qrun_test::Process;
using qrun_test::Result;
using qrun_test::Slurp;
using qrun_test::Terminal;
using qrun_test::WriteFile;

class QrunOutputs : public qrun_test::QrunCli {
 protected:
  static Result SaveTo(const std::string& name, std::vector<std::string> more = {}) {
    more.insert(more.begin(), {model(), "-p", "x", "-n", "1", "--save-session", name});
    return Run(more);
  }
  static std::string Ids() {
    WriteFile(File("ids.txt"), "1 2 3");
    return File("ids.txt");
  }
};

TEST_F(QrunOutputs, LogitsGoIntoAStream) {
  const std::string ids = Ids(), link = File("link-to-stdout");
  const std::string expected = Ok({"logits", model(), "--tokens", ids, "-o", "-"});
  ASSERT_EQ(expected.substr(0, 4), "LGT1");
  if (access(link.c_str(), F_OK) != 0) {
    ASSERT_EQ(symlink("/proc/self/fd/1", link.c_str()), 0);
  }
  EXPECT_TRUE(Ok({"logits", model(), "--tokens", ids, "-o", link}) == expected)
      << "standard output lacks them";
  struct stat status;
  ASSERT_EQ(lstat(link.c_str(), &status), 0);
  EXPECT_TRUE(S_ISLNK(status.st_mode)) << "a file took the place of the link";
  const std::string input = File("link-to-stdin");
  ASSERT_EQ(symlink("/dev/fd/0", input.c_str()), 0);
  ExpectError(Run({"logits", model(), "--tokens", ids, "-o", input}, "kept"), 2,
              "the output is open already, as a stream [Q0103]");
}

TEST_F(QrunOutputs, ASessionIsAFile) {
  ASSERT_EQ(symlink("/dev/stdout", File("out").c_str()), 0);
  for (const std::string& name : {std::string("-"), std::string("/dev/null"), File("out")}) {
    ExpectError(SaveTo(name), 2, "the output is a stream or a device, not a file [Q0103]");
  }
  struct stat status;
  ASSERT_EQ(lstat(File("out").c_str(), &status), 0);
  EXPECT_TRUE(S_ISLNK(status.st_mode)) << "a file took the place of the link";
  ExpectError(SaveTo(""), 2, "the output has no name [Q0103]");
  Terminal terminal({model(), "-n", "3"});
  terminal.ReadUntil("> ");
  terminal.Type("hello\n");
  terminal.ReadUntil("\n> ");
  terminal.Type("/save -\n");
  const std::string screen = terminal.ReadUntil("\n> ");
  EXPECT_NE(screen.find("[Q0103]"), std::string::npos) << screen;
  EXPECT_EQ(screen.find("QRUNSES"), std::string::npos) << "the session came out on the terminal: " << screen;
  for (const std::string& name : {std::string("-"), folder().path()}) {
    terminal.Type("/load " + name + "\n");
    const std::string refused = terminal.ReadUntil("\n> ");
    EXPECT_NE(refused.find(name + " is not a regular file [Q8001]"), std::string::npos) << refused;
    EXPECT_EQ(refused.find("standard input"), std::string::npos) << "which is the terminal: " << refused;
  }
  terminal.Type("/exit\n");
  EXPECT_EQ(terminal.Wait(), 0);
}

TEST_F(QrunOutputs, ASessionLiesInNoFolderThatIsMadeFirst) {
  const std::string both = File("both");
  for (const std::vector<std::string>& more : std::vector<std::vector<std::string>>{
           {"--prompt-cache", both}, {"--prompt-cache", both + "/"}, {"--prompt-cache", both + "/in/it"}}) {
    const Result result = SaveTo(both, more);
    ExpectError(result, 2, "[Q0103]");
    EXPECT_EQ(result.out, "") << "an answer was written first";
    EXPECT_NE(access(both.c_str(), F_OK), 0) << "a folder was made";
  }
  EXPECT_EQ(SaveTo(both, {"--prompt-cache", File("beside")}).exit, 0);
}

TEST_F(QrunOutputs, ASessionIsForItsUserAlone) {
  const std::string file = File("private.session");
  WriteFile(file, "an older one");
  chmod(file.c_str(), 0644);
  ASSERT_EQ(SaveTo(file).exit, 0);
  struct stat status;
  ASSERT_EQ(stat(file.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u) << "others read what was said";
}

// As anybody may lay one into /tmp who guesses the process's id.
TEST_F(QrunOutputs, APlantedLinkIsNotFollowed) {
  const std::string victim = File("victim"), out = File("planted.bin");
  WriteFile(victim, "precious");
  const std::string script = "ln -s '" + victim + "' '" + out + "'.tmp-$$; exec '" QRUN_BINARY "' logits '" +
                             model() + "' --tokens '" + Ids() + "' -o '" + out + "'";
  EXPECT_EQ(std::system(script.c_str()), 0);
  EXPECT_EQ(Slurp(victim), "precious") << "the link was followed";
  EXPECT_EQ(Slurp(out).substr(0, 4), "LGT1");
}

TEST_F(QrunOutputs, APlaceThatIsNoneIsRefused) {
  const std::string missing = File("no/such/folder/out"), under_file = model() + "/out";
  for (const std::string& name : {missing, under_file}) {
    ExpectError(SaveTo(name), 2, "the output has no folder to lie in [Q0103]");
    ExpectError(Run({"logits", model(), "--tokens", Ids(), "-o", name}), 2, "the output has no folder");
  }
  ExpectError(SaveTo(folder().path()), 2, "the output is a folder [Q0103]");
  ExpectError(Run({"logits", model(), "--tokens", Ids(), "-o", folder().path()}), 2,
              "the output is a folder");
}

TEST_F(QrunOutputs, WhatIsReadIsNotReplaced) {
  const std::string bytes = Slurp(model());
  const std::string linked = File("link.qbin"), hard = File("hard.qbin"), ids = Ids();
  ASSERT_EQ(symlink(model().c_str(), linked.c_str()), 0);
  ASSERT_EQ(link(model().c_str(), hard.c_str()), 0);
  for (const std::string& name : {model(), linked, hard, folder().path() + "/./toy.qbin"}) {
    ExpectError(Run({"logits", model(), "--tokens", ids, "-o", name}), 2, "-o is the model itself [Q0103]");
    ExpectError(SaveTo(name), 2, "Q0103");
  }
  ExpectError(Run({"logits", model(), "--tokens", ids, "-o", ids}), 2, "-o is the token file itself");
  ExpectError(Run({model(), "-f", ids, "-n", "1", "--save-session", ids}), 2, "is the prompt itself");
  const std::string tools = File("tools.json"), draft = File("draft.qbin"), mtp = File("mtp.gguf");
  WriteFile(tools, "[]");
  WriteFile(draft, "a draft");
  WriteFile(mtp, "a block");
  ExpectError(SaveTo(tools, {"--tools", tools}), 2, "--save-session is the file of tools itself");
  ExpectError(SaveTo(draft, {"--draft", draft}), 2, "--save-session is the draft itself");
  ExpectError(SaveTo(mtp, {"--mtp=" + mtp}), 2, "--save-session is the file of --mtp itself");
  EXPECT_TRUE(Slurp(model()) == bytes);
  EXPECT_EQ(Slurp(ids), "1 2 3");
  EXPECT_EQ(Slurp(tools) + Slurp(draft) + Slurp(mtp), "[]a drafta block");
  Ok({"logits", model(), "--tokens", ids, "-o", "/dev/null"});
}

TEST_F(QrunOutputs, NoShardOfTheModelIsReplaced) {
  const auto shard = [](int i) { return File("split-0000" + std::to_string(i) + "-of-00003.gguf"); };
  for (int i = 1; i <= 3; ++i) WriteFile(shard(i), "GGUF shard");
  for (int i = 1; i <= 3; ++i) {
    ExpectError(Run({shard(1), "-p", "x", "--save-session", shard(i)}), 2,
                "--save-session is the model itself");
    ExpectError(Run({"logits", shard(2), "--tokens", Ids(), "-o", shard(i)}), 2, "-o is the model itself");
    EXPECT_EQ(Slurp(shard(i)), "GGUF shard");
  }
}

}  // namespace
