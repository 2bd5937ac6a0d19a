// What a model, a file or a path says steers no terminal and speaks with no voice of qrun's own.
#include <algorithm>

#include "runtime/qrun/escape.h"
#include "runtime/qrun/outcome.h"
#include "tests/unit/runtime/qrun_fixture.h"

namespace {

using qrun_test::Result;
using qrun_test::Terminal;
using qrun_test::WriteFile;

// Sets the title, clears the screen, and goes on in a line that looks like qrun's.
constexpr char kAttack[] = "x\x1b]0;owned\a\x1b[2J\xC2\x9B\nqrun: error: forged [Q9001]";

TEST(QrunEscape, MessagesAreOneLineOfHarmlessText) {
  EXPECT_EQ(qrun::OneLine("plain \"text\" \\n, gr\xC3\xBC\xC3\x9F \xF0\x9F\x98\x80"),
            "plain \"text\" \\n, gr\xC3\xBC\xC3\x9F \xF0\x9F\x98\x80");
  EXPECT_EQ(qrun::OneLine("a\nb\rc\td"), "a\\nb\\rc\\td");
  EXPECT_EQ(qrun::OneLine(std::string_view("\0\x01\x1b[31m\x7f", 8)), "\\x00\\x01\\x1b[31m\\x7f");
  EXPECT_EQ(qrun::OneLine("\xC2\x80\xC2\x9B\xC2\xA0"), "\\u{80}\\u{9b}\xC2\xA0");
  EXPECT_EQ(qrun::OneLine("\xE2\x80\xA8\xE2\x80\xAE\xE2\x81\xA6"), "\\u{2028}\\u{202e}\\u{2066}");
  EXPECT_EQ(qrun::OneLine("\x9B\xC3(\xE2\x82"), "\\x9b\\xc3(\\xe2\\x82") << "bytes that are no UTF-8";
}

TEST(QrunEscape, AnAnswerOnATerminalKeepsItsLinesAndTabs) {
  EXPECT_EQ(qrun::ForTerminal("a\n\tb\r\x1b[2J\xC2\x9B"), "a\n\tb\\r\\x1b[2J\\u{9b}");
  EXPECT_EQ(qrun::ForTerminal("\xE2\x80\xAB\xD7\x90"), "\xE2\x80\xAB\xD7\x90")
      << "right to left is how some languages are written";
}

TEST(QrunEscape, JsonIsWellFormedWhateverTheBytesAre) {
  EXPECT_EQ(qrun::Quoted("a\"b\\c\n\x1b\x7f\xC2\x9B\xFF\xC3\xA9"),
            "\"a\\\"b\\\\c\\u000a\\u001b\\u007f\\u009b\\ufffd\xC3\xA9\"");
}

TEST(QrunEscape, AnErrorHasThreeLinesWhateverItSays) {
  const qrun::Outcome outcome = qrun::Outcome::Fail(qrun::kExitInput, 8001, kAttack, kAttack, kAttack);
  const std::string text = outcome.Text();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3) << text;
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  const std::string with_nul = qrun::Outcome::Fail(qrun::kExitInput, 8001, std::string("a\0b", 3)).Text();
  EXPECT_EQ(with_nul, "qrun: error: a\\x00b [Q8001]\n") << "a NUL cut the message";
}

class QrunUntrusted : public qrun_test::QrunCli {
 protected:
  // `errors`: how many lines may begin as qrun's errors do.
  static void ExpectHarmless(const std::string& said, int errors) {
    for (const char c : said) {
      EXPECT_TRUE(static_cast<uint8_t>(c) >= 0x20 || c == '\n' || c == '\r') << static_cast<int>(c);
    }
    EXPECT_EQ(said.find("\xC2\x9B"), std::string::npos) << "a C1 control character";
    int found = 0;
    const std::string mark = "qrun: error:";
    for (size_t at = said.find(mark); at != std::string::npos; at = said.find(mark, at + 1)) {
      if (at == 0 || said[at - 1] == '\n') ++found;
    }
    EXPECT_EQ(found, errors) << said;
    EXPECT_NE(said.find("\\x1b]0;owned"), std::string::npos) << "it was not shown at all: " << said;
  }
  static std::string Model(const std::string& name, const qrt::testing::SampleParts& parts) {
    WriteParts(parts, File(name));
    return File(name);
  }
};

TEST_F(QrunUntrusted, TheModelsName) {
  qrt::testing::SampleParts parts = toy::ToyParts();
  parts.manifest.name = kAttack;
  Terminal terminal({Model("name.qbin", parts)});
  ExpectHarmless(terminal.ReadUntil("> "), 0);
  terminal.Type("/exit\n");
  EXPECT_EQ(terminal.Wait(), 0);
}

TEST_F(QrunUntrusted, WhatATemplateRaises) {
  const std::string text = std::string("{{ raise_exception('") + kAttack + "') }}";
  const Result result = Run({Model("raise.qbin", toy::ToyParts(text)), "-p", "hello"});
  ExpectError(result, 4, "Q7002");
  ExpectHarmless(result.err, 1);
  const std::string nul("{{ raise_exception('begin\0end') }}", 34);
  ExpectError(Run({Model("raise.qbin", toy::ToyParts(nul)), "-p", "hello"}), 4, "begin?end");
}

TEST_F(QrunUntrusted, NamesInTheManifest) {
  qrt::testing::SampleParts parts = toy::ToyParts();
  parts.manifest.code[0].isa = std::string("future") + kAttack;
  parts.manifest.code[1].isa = std::string("toy") + kAttack;
  const std::string model = Model("names.qbin", parts);
  ExpectHarmless(Ok({"devices", model}), 0);
  ExpectHarmless(Ok({"check", model}), 0);
  ExpectHarmless(Ok({"bench", model, "-p", "1", "-n", "1", "-r", "1"}), 0);
  ExpectHarmless(Run({model, "-p", "x", "-n", "1", "-v", "--timing"}).err, 0);
  EXPECT_EQ(Ok({"devices", model, "--json"}).find('\x1b'), std::string::npos);
}

TEST_F(QrunUntrusted, TokenFilesPathsAndArguments) {
  const std::string ids = File("ids.txt");
  WriteFile(ids, "1 2 " + std::string("\0", 1) + "\x1b]0;owned\a\nqrun: error:");
  Result result = Run({"logits", model(), "--tokens", ids, "-o", File("out.bin")});
  ExpectError(result, 3, "\"\\x00\\x1b]0;owned\\x07\" is no token id");
  EXPECT_NE(result.err.find(", byte 4\n"), std::string::npos) << "a NUL cut the message: " << result.err;
  ExpectHarmless(result.err, 1);
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{kAttack, "-p", "x"},
                                                    {model(), "-p", "x", "--threads", kAttack},
                                                    {model(), "-f", kAttack}}) {
    result = Run(arguments);
    EXPECT_NE(result.exit, 0);
    ExpectHarmless(result.err, 1);
  }
}

TEST_F(QrunUntrusted, AnAnswerSteersATerminalOnlyThroughAPipe) {
  qrt::testing::SampleParts parts = toy::ToyParts();
  parts.manifest.tokenizer->eog = {271};  // which the toy never says, so that it says enough
  parts.tokenizer = qrt::testing::SampleTokenizer('e', 0x1b);  // what the toy says with an e in it
  const std::string model = Model("escape.qbin", parts);
  const std::vector<std::string> arguments = {model,         "-p", "go on and on", "--greedy",
                                              "--think=off", "-n", "90",           "--timing=json"};
  const Result piped = Run(arguments);
  ASSERT_EQ(piped.exit, 0) << piped.err;
  ASSERT_NE(piped.out.find('\x1b'), std::string::npos) << "the toy model said no e: nothing was tested";
  Terminal terminal(arguments);
  const std::string shown = terminal.ReadUntil("}\r\n");
  EXPECT_EQ(terminal.Wait(), 0);
  EXPECT_EQ(shown.find('\x1b'), std::string::npos) << shown;
  EXPECT_EQ(shown.substr(0, shown.find("\r\n{")), qrun::ForTerminal(piped.out));
}

}  // namespace
