// The template language: what it gives and what it refuses.
#include "runtime/text/chat_template.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/unit/runtime/text_rendering.h"
#include "tests/unit/runtime/text_vocab.h"

namespace qrt::text {
namespace {

// Every case of the data file: a template and what Jinja 3.1, set up as for chat templates, makes of it.
TEST(Template, ConformanceCases) {
  const Value file = Json(ReadTestFile("template_cases.json"));
  ASSERT_TRUE(file.is_map());
  const auto& variables = file.as_map().Find("variables")->as_map().entries;
  const auto& cases = file.as_map().Find("cases")->as_list().items;
  ASSERT_GT(cases.size(), 100u);
  const int64_t now = file.as_map().Find("now")->as_int();
  for (const Value& c : cases) {
    const std::string& source = c.as_list().items[0].as_string();
    const Result<std::string> text = Render(source, variables, {}, now);
    if (!text.ok()) {
      ADD_FAILURE() << text.status().ToString() << "\nof " << source;
    } else {
      EXPECT_EQ(*text, c.as_list().items[1].as_string()) << "of " << source;
    }
  }
}

// Templates put together as those of other families of models are, each with what Jinja makes of a
// conversation with tool calls, and of a single question.
TEST(Template, FamiliesOfTemplates) {
  const Value file = Json(ReadTestFile("template_families.json"));
  ASSERT_TRUE(file.is_map());
  const auto& variables = file.as_map().Find("variables")->as_map();
  const int64_t now = file.as_map().Find("now")->as_int();
  const auto& templates = file.as_map().Find("templates")->as_map().entries;
  ASSERT_GT(templates.size(), 9u);
  for (const auto& [family, value] : templates) {
    const auto& entry = value.as_map();
    for (const char* kind : {"tools", "plain"}) {
      const auto text =
          Render(entry.Find("source")->as_string(), variables.Find(kind)->as_map().entries, {}, now);
      const Value& expected = *entry.Find(kind);
      if (expected.is_none()) {
        EXPECT_FALSE(text.ok()) << family << ", " << kind << ": Jinja refuses";
      } else {
        ASSERT_TRUE(text.ok()) << family << ", " << kind << ": " << text.status().ToString();
        EXPECT_EQ(*text, expected.as_string()) << family << ", " << kind;
      }
    }
  }
}

TEST(Template, TheTimeIsGivenAndInUtc) {
  const std::string format = "{{ strftime_now('%Y-%m-%d %H:%M:%S %j %a %y %-d') }}";
  const std::pair<int64_t, const char*> kTimes[] = {
      {0, "1970-01-01 00:00:00 001 Thu 70 1"},          {951782399, "2000-02-28 23:59:59 059 Mon 00 28"},
      {951782400, "2000-02-29 00:00:00 060 Tue 00 29"}, {978220800, "2000-12-31 00:00:00 366 Sun 00 31"},
      {4107542400, "2100-03-01 00:00:00 060 Mon 00 1"}, {253402300799, "9999-12-31 23:59:59 365 Fri 99 31"}};
  for (const auto& [now, expected] : kTimes) {
    const auto text = Render(format, {}, {}, now);
    ASSERT_TRUE(text.ok()) << text.status().ToString();
    EXPECT_EQ(*text, expected) << now;
  }
  EXPECT_EQ(RenderOk("{{ strftime_now is defined }}"), "False") << "no time is given";
  for (const char* source : {"{{ strftime_now('%Q') }}", "{{ strftime_now('%') }}",
                             "{{ strftime_now('a%-') }}", "{{ strftime_now(5) }}", "{{ strftime_now() }}"}) {
    const auto text = Render(source, {}, {}, 0);
    EXPECT_EQ(text.status().number(), 7002u) << source;
  }
}

TEST(Template, BlocksThatCallMacros) {
  const std::string macro = "{% macro m(x) %}<{{ caller(x) if caller is defined }}>{% endmacro %}";
  EXPECT_EQ(RenderOk(macro + "{% call(y) m(1) %}{{ y + 1 }}{% endcall %}{{ m(2) }}"), "<2><>")
      << "and a plain call has no caller";
  EXPECT_EQ(
      RenderOk(macro + "{% for i in [1, 2] %}{% call(y) m(i) %}{% for k in [1, 2] %}{% if k == 2 %}{% break "
                       "%}{% endif %}{{ i }}{% endfor %}{% endcall %}{% endfor %}"),
      "<1><2>");
  const std::pair<const char*, uint32_t> kRefused[] = {
      {"{% call m %}{% endcall %}", 7001},
      {"{% call range(3) %}{% endcall %}", 7002},
      {"{% call nosuch() %}{% endcall %}", 7002},
      {"{% call(a, a) m(1) %}{% endcall %}", 7001},
      {"{% for i in [1] %}{% call m(1) %}{% break %}{% endcall %}{% endfor %}", 7001}};
  for (const auto& [source, number] : kRefused) {
    const auto text = Render(macro + source);
    EXPECT_EQ(text.status().number(), number)
        << source << ": " << (text.ok() ? *text : text.status().ToString());
  }
}

struct Refusal {
  const char* source;
  uint32_t number;
  int line;
  const char* message;  // a part of it
};

const Refusal kRefusals[] = {
    // Found while parsing.
    {"a\n{% nosuch %}", 7001, 2, "statement 'nosuch' is not supported"},
    {"{% include 'x' %}", 7001, 1, "statement 'include'"},
    {"{% import 'x' as y %}", 7001, 1, "statement 'import'"},
    {"{% extends 'x' %}", 7001, 1, "statement 'extends'"},
    {"{% if x %}\n\na", 7001, 3, "inside 'if' of line 1: expected 'endif'"},
    {"{% for x in y %}\n{% if x %}{% endfor %}", 7001, 2, "innermost open statement is 'if'"},
    {"{% endif %}", 7001, 1, "'endif' without its beginning"},
    {"\n\n{{ a b }}", 7001, 3, "expected '}}', found 'b'"},
    {"{{ 1 + }}", 7001, 1, "expected an expression, found '}}'"},
    {"{{ (1 }}", 7001, 1, "unexpected '}', expected ')'"},
    {"{{ ] }}", 7001, 1, "unexpected ']'"},
    {"{{ 'abc }}", 7001, 1, "string is never closed"},
    {"a {# b", 7001, 1, "comment is never closed"},
    {"\n{{ a ", 7001, 2, "never closed with '}}'"},
    {"{% raw %}{{ x }}", 7001, 1, "'raw' is never closed"},
    {"{{ a ? b }}", 7001, 1, "unexpected character '?'"},
    {"{{ a & b }}", 7001, 1, "unexpected character '&'"},
    {"{{ x|nosuch }}", 7001, 1, "unknown filter 'nosuch'"},
    {"{{ x is nosuch }}", 7001, 1, "unknown test 'nosuch'"},
    {"{% set 1 = 2 %}", 7001, 1, "expected a variable"},
    {"{% set true = 2 %}", 7001, 1, "cannot assign to 'true'"},
    {"{% set loop = 2 %}", 7001, 1, "cannot assign to 'loop'"},
    {"{% for x y %}{% endfor %}", 7001, 1, "expected 'in', found 'y'"},
    {"{% break %}", 7001, 1, "'break' outside of a loop"},
    {"{% for x in y %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}", 7001, 1, "outside of a loop"},
    {"{% macro m(a, a) %}{% endmacro %}", 7001, 1, "parameter 'a' occurs twice"},
    {"{% macro m(a=1, b) %}{% endmacro %}", 7001, 1, "without default"},
    {"{{ f(a=1, 2) }}", 7001, 1, "positional argument follows"},
    {"{{ f(a=1, a=2) }}", 7001, 1, "given twice"},
    {"{{ f(*a) }}", 7001, 1, "arguments are not supported"},
    {"{% for x in y recursive %}{% endfor %}", 7001, 1, "recursive loops"},
    {"{{ 99999999999999999999 }}", 7001, 1, "out of range"},
    {"{{ a[1:2:3:4] }}", 7001, 1, "at most three parts"},
    {"{{ a[] }}", 7001, 1, "expected an index"},
    {"{{ '\\ud800' }}", 7001, 1, "escape"},
    {"{{ }}", 7001, 1, "expected an expression"},
    // Found while rendering.
    {"a\nb\n{{ raise_exception('no ' ~ 1) }}", 7002, 3, "the template refuses: no 1"},
    {"{{ missing.x }}", 7002, 1, "'missing' is undefined"},
    {"{{ missing['x'] }}", 7002, 1, "'missing' is undefined"},
    {"{{ d.zz.yy }}", 7002, 1, "'dict' has no attribute 'zz'"},
    {"{{ missing() }}", 7002, 1, "'missing' is undefined"},
    {"{{ missing + 1 }}", 7002, 1, "'missing' is undefined"},
    {"{{ -missing }}", 7002, 1, "'missing' is undefined"},
    {"{{ missing < 1 }}", 7002, 1, "'missing' is undefined"},
    {"{{ missing[1:] }}", 7002, 1, "'missing' is undefined"},
    {"{{ missing|tojson }}", 7002, 1, "'missing' is undefined"},
    {"{{ strftime_now('%Y') }}", 7002, 1, "'strftime_now' is undefined"},
    {"{{ s.__class__ }}", 7002, 1, "'__class__' is not allowed"},
    {"{{ d['__class__'] }}", 7002, 1, "'__class__' is not allowed"},
    {"{{ l.append(1) }}", 7002, 1, "'list' has no attribute 'append'"},
    {"{{ d.update({}) }}", 7002, 1, "'dict' has no attribute 'update'"},
    {"{{ 'a' + 1 }}", 7002, 1, "'+' does not work on 'str' and 'int'"},
    {"{{ 'a' - 'b' }}", 7002, 1, "'-' does not work on 'str' and 'str'"},
    {"{{ 1 / 0 }}", 7002, 1, "division by zero"},
    {"{{ 1 % 0 }}", 7002, 1, "division by zero"},
    {"{{ 0 ** -1 }}", 7002, 1, "negative power"},
    {"{{ 9223372036854775807 + 1 }}", 7002, 1, "integer overflow"},
    {"{{ 2 ** 64 }}", 7002, 1, "integer overflow"},
    {"{{ '9223372036854775808'|int }}", 7002, 1, "integer overflow"},
    {"{{ 1e19|int }}", 7002, 1, "integer overflow"},
    {"{{ (0 - 9223372036854775807 - 1) // -1 }}", 7002, 1, "integer overflow"},
    {"{{ 'a' < 1 }}", 7002, 1, "'str' and 'int' cannot be ordered"},
    {"{{ none < 1 }}", 7002, 1, "cannot be ordered"},
    {"{{ 1 in 5 }}", 7002, 1, "'in' does not work"},
    {"{{ 1 in 'a' }}", 7002, 1, "needs a string on its left"},
    {"{% for x in 5 %}{% endfor %}", 7002, 1, "cannot be iterated over"},
    {"{% for x in none %}{% endfor %}", 7002, 1, "cannot be iterated over"},
    {"{{ 5|length }}", 7002, 1, "has no length"},
    {"{{ s() }}", 7002, 1, "cannot be called"},
    {"{% set a, b = [1] %}", 7002, 1, "expected 2 values to unpack, found 1"},
    {"{% set d.a = 1 %}", 7002, 1, "not a namespace"},
    {"{{ l[::0] }}", 7002, 1, "slice step cannot be zero"},
    {"{{ l['a':] }}", 7002, 1, "slice bounds must be integers"},
    {"{{ {1: 2} }}", 7002, 1, "dict keys must be strings"},
    {"{{ 'a'.split('') }}", 7002, 1, "not empty"},
    {"{{ 'a'.split(1) }}", 7002, 1, "needs a string"},
    {"{{ 'a'.startswith() }}", 7002, 1, "needs argument 'prefix'"},
    {"{{ 'a'.strip('b', 'c') }}", 7002, 1, "at most 1 arguments"},
    {"{{ 'a'.index('b') }}", 7002, 1, "substring not found"},
    {"{{ s|trim(nope=1) }}", 7002, 1, "has no argument 'nope'"},
    {"{{ d|items|first|items }}", 7002, 1, "needs a dict"},
    {"{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", 7002, 1, "takes 1 arguments, found 2"},
    {"{% macro m(a) %}{% endmacro %}{{ m(z=2) }}", 7002, 1, "no parameter 'z'"},
    {"{% macro m(a) %}{% endmacro %}{{ m(1, a=2) }}", 7002, 1, "argument 'a' twice"},
    {"{% macro m() %}{% endmacro %}{{ m }}", 7002, 1, "a macro cannot be turned into text"},
    {"{{ namespace(a=1) }}", 7002, 1, "a namespace cannot be turned into text"},
    {"{{ [range]|tojson }}", 7002, 1, "function cannot be written as JSON"},
    {"{{ range(1, 2, 0) }}", 7002, 1, "step that is not 0"},
    {"{{ range('a') }}", 7002, 1, "needs an integer"},
    {"{{ 'x'|map('nosuch')|list }}", 7002, 1, "needs a filter's name"},
    {"{{ l|select('nosuch')|list }}", 7002, 1, "needs a test's name"},
    {"{{ 3 is divisibleby 0 }}", 7002, 1, "not 0"},
    {"{{ 'a' is odd }}", 7002, 1, "needs a number"},
    {"a\n{% macro m() %}\n{{ nope.x }}\n{% endmacro %}\n{{ m() }}", 7002, 3, "'nope' is undefined"},
};

TEST(Template, RefusalsNameLineAndReason) {
  const auto variables = Json(R"({"s": "text", "d": {"a": 1}, "l": [1, 2, 3]})").as_map().entries;
  for (const Refusal& refusal : kRefusals) {
    const Result<std::string> text = Render(refusal.source, variables);
    if (text.ok()) {
      ADD_FAILURE() << "rendered as '" << *text << "': " << refusal.source;
      continue;
    }
    EXPECT_EQ(text.status().code(), Code::kTemplateError);
    EXPECT_EQ(text.status().number(), refusal.number)
        << text.status().ToString() << "\nof " << refusal.source;
    EXPECT_NE(text.status().message().find(refusal.message), std::string::npos)
        << text.status().ToString() << "\nof " << refusal.source << "\nexpected " << refusal.message;
    EXPECT_EQ(text.status().note(), "chat template, line " + std::to_string(refusal.line))
        << text.status().ToString() << "\nof " << refusal.source;
  }
}

TEST(Template, VariablesOfTheCallerHideNothingElse) {
  EXPECT_EQ(RenderOk("{{ range }}", {{"range", Value(5)}}), "5") << "a variable hides a function";
  EXPECT_EQ(RenderOk("{{ x }}{{ y is defined }}", {{"x", Value(1)}, {"unused", Value(2)}}), "1False");
}

TEST(Template, RangesReachTheEndsOfIntegers) {
  EXPECT_EQ(RenderOk("{{ range(-9000000000000000000, 9000000000000000000, 5000000000000000000)|list }}"),
            "[-9000000000000000000, -4000000000000000000, 1000000000000000000, 6000000000000000000]");
  EXPECT_EQ(RenderOk("{{ range(9223372036854775807, -9223372036854775807, -9223372036854775807)|list }}"),
            "[9223372036854775807, 0]");
}

TEST(Template, StripsWhatIsInTheSet) {
  EXPECT_EQ(RenderOk("{{ 'aé€aé'.strip('éa') }}|{{ 'aé€aé'.lstrip('aé') }}|{{ 'aé€aé'.rstrip('€éa') }}|"
                     "{{ '𝄞x𝄞'.strip('y𝄞z') }}|{{ 'abc'.strip('') }}|{{ 'Ã©'.strip('é') }}"),
            "€|€aé||x|abc|Ã©");
  EXPECT_EQ(RenderOk("{{ x.strip(y) }}", {{"x", Value("\xC3-\xC3\xA9-\xA9")}, {"y", Value("\xA9-")}}),
            "\xC3-\xC3\xA9")
      << "a part of a character is not that character";
  std::string all;
  for (char c = '0'; c <= 'z'; ++c) all += c;
  const std::string text(3'000'000, 'z');
  EXPECT_EQ(RenderOk("{{ x.strip(y) }}", {{"x", Value(text)}, {"y", Value(all)}}), "")
      << "a character costs the same whatever the set";
}

TEST(Template, TextOfUsersIsNotTemplateText) {
  EXPECT_EQ(RenderOk("{{ x }}", {{"x", Value("{{ 1 + 1 }}{% if %}")}}), "{{ 1 + 1 }}{% if %}");
}

TEST(Template, StringsThatAreNoUtf8AreKept) {
  EXPECT_EQ(RenderOk("{{ x }}{{ x|length }}{{ x[::-1] }}", {{"x", Value("a\xFF\xC3\xA9")}}),
            "a\xFF\xC3\xA9"
            "3\xC3\xA9\xFF"
            "a");
}

TEST(Template, MacrosOutliveTheLoopThatMadeThem) {
  EXPECT_EQ(RenderOk("{% set ns = namespace() %}{% for x in [1, 2] %}{% macro m() %}{{ x }}{% endmacro %}"
                     "{% if loop.first %}{% set ns.m = m %}{% endif %}{% endfor %}{{ ns.m() }}"),
            "1");
}

TEST(Template, CirclesOfNamespacesAreFreed) {
  // Only a leak checker sees the difference.
  EXPECT_EQ(RenderOk("{% set a = namespace() %}{% set b = namespace(a=a) %}{% set a.b = b %}{% set a.l = [a, "
                     "b] %}{{ 1 }}"),
            "1");
}

}  // namespace
}  // namespace qrt::text
