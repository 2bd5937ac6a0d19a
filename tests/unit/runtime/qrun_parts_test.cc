// Option parsing and the UTF-8 stream of qrun.
#include <gtest/gtest.h>

#include "runtime/qrun/options.h"

namespace {

using qrun::Options;
using qrun::Outcome;

struct Parsed {
  bool flag = false;
  std::optional<std::string> text, word, bare, place, system;
  std::optional<int64_t> integer;
  std::optional<double> number;
  std::vector<std::string> texts;
  std::vector<int64_t> integers;
  Outcome outcome;
  bool help = false;
};

Parsed Parse(const std::vector<std::string>& arguments) {
  Parsed p;
  Options options("test", "about");
  options.Flag("-q, --quiet", &p.flag, "flag");
  options.Text("-p, --prompt", "TEXT", &p.text, "text");
  options.Integer("-n, --count", "N", -5, 10, &p.integer, "integer");
  options.Number("--temp", "X", 0, 2, &p.number, "number");
  options.Word("--think", {"on", "off"}, "", &p.word, "word");
  options.Word("--timing", {"text", "json"}, "text", &p.bare, "bare");
  options.Text("-sys, --system", "TEXT", &p.system, "a name of several letters with one dash");
  options.Texts("--stop", "TEXT", &p.texts, "several");
  options.Integers("--id", "N", 0, 9, &p.integers, "several numbers");
  options.Positional("MODEL", &p.place, "model");
  options.Text("-m, --model", "MODEL", &p.place, "the same");
  p.outcome = options.Parse(arguments);
  p.help = options.help_wanted();
  return p;
}

TEST(QrunOptions, TakesEveryFormOfAnOption) {
  const Parsed p = Parse({"-q", "m", "-p", "a b", "--count=-3", "--temp", "0.5", "--think=off", "--timing"});
  ASSERT_TRUE(p.outcome.ok()) << p.outcome.Text();
  EXPECT_TRUE(p.flag);
  EXPECT_EQ(p.place, "m");
  EXPECT_EQ(p.text, "a b");
  EXPECT_EQ(p.integer, -3);
  EXPECT_EQ(p.number, 0.5);
  EXPECT_EQ(p.word, "off");
  EXPECT_EQ(p.bare, "text");
  EXPECT_EQ(Parse({"m", "--timing=json"}).bare, "json");
  EXPECT_EQ(Parse({"m", "-n7"}).integer, 7);
  EXPECT_EQ(Parse({"m", "-n", "-2"}).integer, -2) << "a value may begin with a dash";
  EXPECT_EQ(Parse({"m", "-p", ""}).text, "") << "an empty value is a value";
  EXPECT_EQ(Parse({"m", "--prompt="}).text, "");
  EXPECT_EQ(Parse({"m", "--prompt=a=b"}).text, "a=b");
  EXPECT_EQ(Parse({"--", "-m"}).place, "-m");
  EXPECT_EQ(Parse({"-"}).place, "-");
  EXPECT_TRUE(Parse({"--help"}).help) << "help needs no model";
  EXPECT_EQ(Parse({"m", "--timing", "json"}).bare, "json");
  const Parsed bare = Parse({"--timing", "m"});
  EXPECT_EQ(bare.bare, "text");
  EXPECT_EQ(bare.place, "m") << "a word that is no value belongs to the next place";
  EXPECT_EQ(Parse({"m", "-sys", "be brief"}).system, "be brief");
  EXPECT_EQ(Parse({"m", "-sys=be brief"}).system, "be brief");
  EXPECT_EQ(Parse({"m", "--system", "-sys"}).system, "-sys") << "a value is no option";
  EXPECT_EQ(Parse({"m", "-p", "--timing", "--timing"}).text, "--timing");
  EXPECT_EQ(Parse({"-m", "m"}).place, "m");
  EXPECT_EQ(Parse({"m", "-qn3"}).integer, 3) << "a flag and an option in one argument";
  EXPECT_EQ(Parse({"m", "--stop", "a", "--stop=b", "--stop="}).texts,
            (std::vector<std::string>{"a", "b", ""}));
  EXPECT_EQ(Parse({"m", "--id", "1", "--id=2"}).integers, (std::vector<int64_t>{1, 2}));
  for (const char* value : {"[a,b]", "{}", "%%", "a,b", "-", "--", "$HOME"}) {
    EXPECT_EQ(Parse({"m", "-p", value}).text, value) << "a value is taken as it is";
    EXPECT_EQ(Parse({"m", "--prompt=" + std::string(value)}).text, value);
    EXPECT_EQ(Parse({"--", value}).place, value);
  }
}

TEST(QrunOptions, RefusesWhatItDoesNotUnderstand) {
  const struct {
    std::vector<std::string> arguments;
    const char* message;
  } cases[] = {{{}, "MODEL is missing"},
               {{"m", "n"}, "unexpected argument \"n\""},
               {{"m", "--nope"}, "unknown option --nope"},
               {{"m", "-x"}, "unknown option -x"},
               {{"m", "--tmep", "1"}, "help: did you mean --temp?"},
               {{"--qiet", "m"}, "help: did you mean --quiet?"},
               {{"m", "--promtp=a"}, "unknown option --promtp [Q0101]"},
               {{"m", "--temperature", "1"}, "help: did you mean --temp?"},
               {{"m", "-temp", "1"}, "help: did you mean --temp?"},
               {{"m", "--nope"}, "help: --help lists the options"},
               {{"m", "-m", "n"}, "unexpected argument \"m\""},
               {{"m", "--", "-q"}, "unexpected argument"},
               {{"m", "--id", "10"}, "expected a whole number from 0 to 9"},
               {{"m", "-q=1"}, "-q takes no value"},
               {{"m", "--quiet=1"}, "--quiet takes no value"},
               {{"m", "-q", "-q"}, "-q is given twice"},
               {{"m", "-p"}, "-p needs a value"},
               {{"m", "-n", "11"}, "expected a whole number from -5 to 10"},
               {{"m", "-n", "1x"}, "-n is \"1x\""},
               {{"m", "-n", ""}, "-n is \"\""},
               {{"m", "-n", "99999999999999999999"}, "expected a whole number"},
               {{"m", "--temp", "nan"}, "expected a number from 0 to 2"},
               {{"m", "--temp", "2.1"}, "--temp is \"2.1\""},
               {{"m", "--think", "maybe"}, "expected one of on|off"},
               {{"m", "--timing=xml"}, "expected one of text|json"}};
  for (const auto& c : cases) {
    const Parsed p = Parse(c.arguments);
    EXPECT_EQ(p.outcome.exit_code(), 2) << c.message;
    EXPECT_NE(p.outcome.Text().find(c.message), std::string::npos)
        << p.outcome.Text() << "expected: " << c.message;
    EXPECT_NE(p.outcome.Text().find("[Q0101]"), std::string::npos);
  }
}

}  // namespace
