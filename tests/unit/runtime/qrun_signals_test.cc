// qrun told to end, met by a limit of the file size, or asked to write over what it reads: nothing is lost
// and nothing half-written stays.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/unit/runtime/qrun_fixture.h"

namespace {

using nlohmann::json;
using qrun_test::Process;
using qrun_test::Result;
using qrun_test::Slurp;
using qrun_test::Terminal;
using qrun_test::Until;
using qrun_test::WriteFile;

class QrunSignals : public qrun_test::QrunCli {
 protected:
  static bool HalfWritten() {
    const std::vector<std::string> names = folder().Entries();
    return std::any_of(names.begin(), names.end(),
                       [](const std::string& name) { return name.find(".tmp-") != std::string::npos; });
  }
  // A model that talks without end.
  static std::string Endless() {
    qrt::testing::SampleParts parts = toy::ToyParts();
    parts.manifest.tokenizer->eog = {271};
    WriteParts(parts, File("endless.qbin"));
    return File("endless.qbin");
  }
};

TEST_F(QrunSignals, AHalfWrittenFileIsRemoved) {
  std::string ids;
  for (int i = 0; i < 60000; ++i) ids += "7 ";  // the toy model needs many seconds for that
  WriteFile(File("many.txt"), ids);
  const struct {
    std::vector<int> signals;
    int exit;
  } cases[] = {{{SIGTERM}, 143}, {{SIGHUP, SIGHUP}, 129}, {{SIGINT}, 130}, {{SIGINT, SIGINT}, 130}};
  for (const auto& c : cases) {
    Process process(folder(), {"logits", model(), "--tokens", File("many.txt"), "-o", File("out.bin")}, "");
    EXPECT_TRUE(Until(HalfWritten));
    for (const int signal : c.signals) process.Signal(signal);
    EXPECT_EQ(process.Wait().exit, c.exit);
    EXPECT_FALSE(HalfWritten()) << "signal " << c.signals[0] << " left a file behind";
    EXPECT_NE(access(File("out.bin").c_str(), F_OK), 0);
  }
}

TEST_F(QrunSignals, TheSessionIsSaved) {
  const std::string endless = Endless(), file = File("ended.session");
  for (const auto& [signal, exit] : {std::pair(SIGTERM, 143), std::pair(SIGHUP, 129)}) {
    unlink(file.c_str());
    WriteFile(File("stdout"), "");
    Process process(folder(), {endless, "-p", "talk", "--ctx", "100000", "--save-session", file}, "");
    EXPECT_TRUE(Until([] { return Slurp(File("stdout")).size() > 20; }));
    process.Signal(signal);
    const Result result = process.Wait();
    EXPECT_EQ(result.exit, exit) << result.err;
    const Result more = Run({endless, "--load-session", file, "-n", "3", "--timing=json"});
    ASSERT_EQ(more.exit, 0) << more.err;
    EXPECT_EQ(json::parse(more.err)["prompt_tokens"], 0) << "the session holds less than was said";
  }
}

TEST_F(QrunSignals, AChatEnds) {
  const std::string endless = Endless();
  for (const bool answering : {true, false}) {
    Terminal terminal({endless, "--ctx", "100000"});
    terminal.ReadUntil("> ");
    if (answering) {
      terminal.Type("talk\n");
      terminal.ReadUntil("\xC3\xA9");
    }
    terminal.Signal(SIGTERM);
    EXPECT_EQ(terminal.Wait(), 143) << answering;
  }
}

TEST_F(QrunSignals, ALimitOfTheFileSizeIsAnError) {
  std::string ids;
  for (int i = 0; i < 150; ++i) ids += "7 ";
  WriteFile(File("ids.txt"), ids);
  Process process(folder(), {"logits", model(), "--tokens", File("ids.txt"), "-o", File("limited.bin")}, "",
                  false, 8192);
  const Result result = process.Wait();
  ExpectError(result, 6, "Q6003");
  EXPECT_FALSE(HalfWritten());
  EXPECT_NE(access(File("limited.bin").c_str(), F_OK), 0);
}

TEST_F(QrunSignals, WhatIsReadIsNotReplaced) {
  const std::string bytes = Slurp(model());
  const std::string linked = File("link.qbin"), hard = File("hard.qbin"), ids = File("few.txt");
  ASSERT_EQ(symlink(model().c_str(), linked.c_str()), 0);
  ASSERT_EQ(link(model().c_str(), hard.c_str()), 0);
  WriteFile(ids, "1 2 3");
  for (const std::string& name : {model(), linked, hard, folder().path() + "/./toy.qbin"}) {
    ExpectError(Run({"logits", model(), "--tokens", ids, "-o", name}), 2, "-o is the model itself [Q0103]");
    ExpectError(Run({model(), "-p", "x", "-n", "1", "--save-session", name}), 2, "Q0103");
  }
  ExpectError(Run({"logits", model(), "--tokens", ids, "-o", ids}), 2, "-o is the token file itself");
  ExpectError(Run({model(), "-f", ids, "-n", "1", "--save-session", ids}), 2, "is the prompt itself");
  EXPECT_TRUE(Slurp(model()) == bytes);
  EXPECT_EQ(Slurp(ids), "1 2 3");
  Ok({"logits", model(), "--tokens", ids, "-o", "/dev/null"});
}

}  // namespace
