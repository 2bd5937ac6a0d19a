// The template language: what it gives, what it refuses, and that no template can run away.
#include "runtime/text/chat_template.h"

#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <string>

#include "runtime/text/json.h"
#include "tests/unit/runtime/text_vocab.h"

namespace qrt::text {
namespace {

Value Json(std::string_view text) {
  Value value;
  std::string error;
  EXPECT_TRUE(ParseJson(text, &value, &error)) << error;
  return value;
}

Result<std::string> Render(std::string_view source, const std::vector<Value::Entry>& variables = {},
                           const RenderLimits& limits = {}, std::optional<int64_t> now = std::nullopt) {
  Result<ChatTemplate> parsed = ChatTemplate::Parse(source);
  if (!parsed.ok()) return parsed.status();
  return parsed->RenderWith(variables, limits, now);
}

std::string RenderOk(std::string_view source, const std::vector<Value::Entry>& variables = {}) {
  const Result<std::string> text = Render(source, variables);
  EXPECT_TRUE(text.ok()) << text.status().ToString() << "\nof " << source;
  return text.ok() ? *text : "";
}

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
    {"{{ 'a' is odd }}", 7002, 1, "needs an integer"},
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

// ---- Budgets ----

struct Attack {
  const char* name;
  std::string source;
  const char* message;
};

std::string Repeat(const std::string& part, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += part;
  return text;
}

std::vector<Attack> Attacks() {
  const std::string three =
      "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}";
  const std::string end = "{% endfor %}{% endfor %}{% endfor %}";
  return {
      {"nested loops", three + end, "steps"},
      {"nested loops that print", three + "{{ a }}" + end, "steps"},
      {"a huge range", "{{ range(10 ** 12)|length }}", "range"},
      {"a huge string", "{{ 'a' * 10 ** 9 }}", "too long"},
      {"a huge string, other way round", "{{ 10 ** 9 * 'a' }}", "too long"},
      {"a huge list", "{{ ([0] * 10 ** 9)|length }}", "too long"},
      {"doubling a string",
       "{% set ns = namespace(x='a') %}{% for i in range(99) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
       "bytes"},
      {"doubling with +",
       "{% set ns = namespace(x='a') %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
       "bytes"},
      {"doubling a list",
       "{% set ns = namespace(x=[1]) %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
       "template"},
      {"doubling by replace",
       "{% set ns = namespace(x='a') %}{% for i in range(99) %}{% set ns.x = ns.x.replace('a', 'aa') %}{% "
       "endfor %}",
       "bytes|steps"},
      {"doubling by join",
       "{% set ns = namespace(x='a') %}{% for i in range(99) %}{% set ns.x = ns.x.join([ns.x, ns.x]) %}{% "
       "endfor %}",
       "bytes"},
      {"doubling by blocks",
       "{% set ns = namespace(x='a') %}{% for i in range(99) %}{% set y %}{{ ns.x }}{{ ns.x }}{% endset %}{% "
       "set ns.x = y %}{% endfor %}",
       "bytes"},
      {"a list that holds itself twice, printed",
       "{% set ns = namespace(x=[1]) %}{% for i in range(90) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ "
       "ns.x }}",
       "steps"},
      {"a list that holds itself twice, as JSON",
       "{% set ns = namespace(x=[1]) %}{% for i in range(90) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ "
       "ns.x|tojson }}",
       "longer"},
      {"a list that holds itself twice, compared",
       "{% set a = namespace(x=[1]) %}{% set b = namespace(x=[1]) %}{% for i in range(90) %}{% set a.x = "
       "[a.x, a.x] %}"
       "{% set b.x = [b.x, b.x] %}{% endfor %}{{ a.x == b.x }}",
       "steps"},
      {"deep lists",
       "{% set ns = namespace(x=[]) %}{% for i in range(99999) %}{% set ns.x = [ns.x] %}{% endfor %}",
       "nested too deeply"},
      {"deep dicts",
       "{% set ns = namespace(x={}) %}{% for i in range(99999) %}{% set ns.x = {'a': ns.x} %}{% endfor %}",
       "nested too deeply"},
      {"deep methods",
       "{% set ns = namespace(x=[]) %}{% for i in range(99999) %}{% set ns.x = [ns.x.count] %}{% endfor %}",
       "attribute 'count'|nested too deeply"},
      {"endless recursion", "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "deeper"},
      {"recursion that doubles", "{% macro m(n) %}{{ m(n + 1) }}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}",
       "deeper"},
      {"exponential recursion",
       "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(40) }}", "steps"},
      {"recursion in a default", "{% macro m(a=m()) %}{% endmacro %}{{ m() }}", "deeper"},
      {"nested parentheses", "{{ " + Repeat("(", 100000) + "1" + Repeat(")", 100000) + " }}",
       "nested deeper"},
      {"nested lists", "{{ " + Repeat("[", 100000) + Repeat("]", 100000) + " }}", "nested deeper"},
      {"nested not", "{{ " + Repeat("not ", 100000) + "1 }}", "nested deeper"},
      {"nested signs", "{{ " + Repeat("- ", 100000) + "1 }}", "nested deeper"},
      {"a long sum", "{{ 1" + Repeat("+1", 100000) + " }}", "nested deeper"},
      {"a long filter chain", "{{ 1" + Repeat("|string", 100000) + " }}", "nested deeper"},
      {"a long attribute chain", "{{ a" + Repeat(".a", 100000) + " }}", "nested deeper"},
      {"a long if-else expression", "{{ " + Repeat("1 if 0 else ", 50000) + "1 }}", "nested deeper"},
      {"nested blocks", Repeat("{% if 1 %}", 40000) + Repeat("{% endif %}", 40000), "nested deeper"},
      {"nested loops, many", Repeat("{% for a in b %}", 40000), "nested deeper"},
      {"a huge template", std::string(3 << 20, 'a'), "the limit is"},
      {"many parts", Repeat("{{1}}", 200000), "parts"},
      {"a long name", "{{ " + std::string(100000, 'a') + " }}", "longer than"},
      {"many comparisons of long strings",
       "{% set x = 'a' * 1000000 %}{% set y = 'a' * 1000000 %}{% for i in range(99999) %}{{ x == y }}{% "
       "endfor %}",
       "bytes"},
      {"many searches in long strings",
       "{% set x = 'a' * 1000000 %}{% for i in range(99999) %}{{ 'b' in x }}{% endfor %}", "bytes"},
      {"a quadratic search",
       "{% set x = 'a' * 2000000 %}{% for i in range(999) %}{{ ('a' * 1000000 ~ 'b') in x }}{% endfor %}",
       "bytes"},
      {"many lengths of long strings",
       "{% set x = 'a' * 1000000 %}{% for i in range(99999) %}{{ x|length }}{% endfor %}", "bytes"},
      {"many characters", "{% for c in 'a' * 3000000 %}{% endfor %}", "steps|bytes"},
      {"strip with a large set", "{{ ('ab' * 9999).strip('a' * 100000) }}", "256"},
      {"deep map", "{{ [[1]]|map('map', 'map', 'map', 'map', 'string')|list }}", "iterated|needs"},
      {"indent",
       "{% set ns = namespace(x='\\n') %}{% for i in range(30) %}{% set ns.x = (ns.x ~ ns.x)|indent(1000, "
       "true, true) %}{% endfor %}",
       "bytes|limit"},
  };
}

// Of what orders and formats values.
std::vector<Attack> FormatAttacks() {
  return {
      {"sorting long strings that begin alike",
       "{% set x = 'a' * 500000 %}{% for i in range(999) %}{{ ([x] * 1000)|sort }}{% endfor %}", "bytes"},
      {"unique of many", "{% for i in range(999) %}{{ range(90000)|unique|list|length }}{% endfor %}",
       "steps"},
      {"a search from the end", "{{ ('a' * 3000000).rpartition('b' ~ 'a' * 1000000) }}", "bytes"},
      {"wide columns", "{% for i in range(99999) %}{{ 'a'.ljust(1000000)|length }}{% endfor %}", "bytes"},
      {"a format of many fields", "{% for i in range(99999) %}{{ ('%1000s' * 99999)|format(1) }}{% endfor %}",
       "more fields"},
      {"a format that doubles",
       "{% set ns = namespace(x='a') %}{% for i in range(99) %}{% set ns.x = '{0}{0}'.format(ns.x) %}{% "
       "endfor %}",
       "bytes|beyond|long"},
      {"a huge width", "{{ '%9999999999999d' % 1 }}", "widths"},
      {"escapes that grow",
       "{% set ns = namespace(x='&') %}{% for i in range(99) %}{% set ns.x = (ns.x * 9)|e %}{% endfor %}",
       "bytes|beyond|long"},
      {"endless calls", "{% macro m() %}{% call m() %}{% endcall %}{% endmacro %}{{ m() }}", "deeper"},
  };
}

TEST(TemplateBudget, NoTemplateRunsAway) {
  // A tenth of the default budgets, to be quick.
  RenderLimits limits;
  limits.steps /= 10;
  limits.output_bytes /= 10;
  limits.string_bytes /= 10;
  limits.total_bytes /= 10;
  std::vector<Attack> attacks = Attacks();
  for (Attack& attack : FormatAttacks()) attacks.push_back(std::move(attack));
  for (const Attack& attack : attacks) {
    SCOPED_TRACE(attack.name);
    const auto begin = std::chrono::steady_clock::now();
    const Result<std::string> text = Render(attack.source, {}, limits);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    ASSERT_FALSE(text.ok()) << "gave " << text->size() << " bytes";
    bool found = false;
    std::stringstream alternatives(attack.message);
    for (std::string part; std::getline(alternatives, part, '|');) {
      found |= text.status().message().find(part) != std::string::npos;
    }
    EXPECT_TRUE(found) << text.status().ToString() << "\nexpected " << attack.message;
    // Generous: sanitizers and a busy machine. Without the budget each of these takes hours or all memory.
    EXPECT_LT(seconds.count(), 60) << "took " << seconds.count() << " s";
  }
}

// Work of every kind counts, and before it is done: each of these reads or makes a hundred times a megabyte,
// which the budget does not hold, and takes hours or all memory within the other budgets when scaled up.
TEST(TemplateBudget, AllBytesThatAreReadCount) {
  RenderLimits limits;
  limits.total_bytes = 40 << 20;
  const std::string set = "{% set x = '7' * 1000000 %}{% set m = {'a': 1, x: 2} %}{% set i = 1 %}";
  const std::string loop = "{% for i in range(100) %}", end = "{% endfor %}";
  const std::string each[] = {
      "{{ x|int }}",
      "{{ x|float }}",
      "{{ m[x] }}",
      "{{ m.get(x) }}",
      "{{ x in m }}",
      "{{ m == {'a': 1, x: 3} }}",
      "{{ [i]|map(attribute=x)|list|length }}",
      "{{ [i]|map(attribute='a' ~ x, default=1)|list|length }}",
      "{{ [i]|selectattr(x)|list|length }}",
      "{{ [1]|tojson(separators=[x, x]) }}",
      "{{ 'a'|indent(x) }}",
      "{{ dict(m)|length }}",
      "{% set n = namespace(m) %}",
      "{{ {x: 1, x ~ x: 2}|length }}",
      "{{ x == x ~ '' }}",
      "{{ x < x ~ '' }}",
      "{{ x is eq(x ~ '') }}",
  };
  for (const std::string& one : each) {
    RenderLimits once = limits;
    EXPECT_TRUE(Render(set + one, {}, once).ok())
        << one << ": " << Render(set + one, {}, once).status().ToString();
    const Result<std::string> text = Render(set + loop + one + end, {}, limits);
    ASSERT_FALSE(text.ok()) << one << " is free";
    EXPECT_NE(text.status().message().find("bytes of values"), std::string::npos) << text.status().ToString();
  }
}

TEST(TemplateBudget, EveryPieceOfWorkIsAStep) {
  RenderLimits limits;
  limits.steps = 20000;
  for (const char* source : {
           "{{ [1]|map(attribute='.' * 100000, default=1)|list }}",
           "{{ [1]|map(attribute='a.' * 100000, default={})|list }}",
           "{% set nothing = ('', ) * 9000 %}{% for i in range(9) %}{{ 'a'.startswith(nothing) }}{% endfor "
           "%}",
           "{{ ('\n' * 50000).splitlines()|length }}",
           "{{ ('a' * 50000)|list|length }}",
       }) {
    const Result<std::string> text = Render(source, {}, limits);
    ASSERT_FALSE(text.ok()) << source;
    EXPECT_NE(text.status().message().find("20000 steps"), std::string::npos)
        << source << ": " << text.status().ToString();
  }
}

// Templates of a line that made gigabytes before their budget was asked.
TEST(TemplateBudget, MemoryIsPaidForBeforeItIsTaken) {
  RenderLimits limits;
  limits.total_bytes = 64 << 20;
  const uint64_t before = PeakBytes();
  for (const char* source : {
           "{{ ('a' * 9 ** 8)|list }}",
           "{{ ('a' * 9 ** 7)|list }}",
           "{{ ('a' * 9 ** 8)[1:] }}",
           "{{ ('a' * 9 ** 8)[::2] }}",
           "{{ [0] * 4000000 }}",
           "{{ ('\n' * 9 ** 8).splitlines() }}",
           "{{ ('a' * 9 ** 7).split('a') }}",
           "{% set x = '\x01' * 30000000 %}{{ [x] }}",
           "{% set x = '\x01' * 30000000 %}{{ {x: 1} }}",
           "{% set x = 'a' * 9000000 %}{{ {'a' ~ x: 1, 'b' ~ x: 1, 'c' ~ x: 1, 'd' ~ x: 1, 'e' ~ x: 1} }}",
           "{% set x = 'a' * 30000000 %}{% set m = {x: x} %}{{ dict(m) }}",
           "{{ (range(99999)|list * 20 + range(99999)|list * 20)[1:] }}",
           "{{ range(99999)|map(attribute='missing')|list * 20 }}",
           "{% set n = namespace(l=[]) %}{% for i in range(99999) %}{% for j in range(9) %}"
           "{% set n.l = [n.l, nobody][1:] %}{% endfor %}{% endfor %}",
       }) {
    const Result<std::string> text = Render(source, {}, limits);
    EXPECT_FALSE(text.ok()) << source;
  }
  EXPECT_LT(PeakBytes() - before, 768u << 20);
}

TEST(TemplateBudget, TheCallerCanStopIt) {
  int asked = 0;
  RenderLimits limits;
  limits.steps = UINT64_MAX;
  limits.stop = [&] { return ++asked == 5; };
  const std::string loop = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}";
  const Result<std::string> steps = Render(loop, {}, limits);
  EXPECT_EQ(steps.status().code(), Code::kCancelled) << steps.status().ToString();
  EXPECT_EQ(steps.status().number(), 5311u);
  EXPECT_EQ(asked, 5);
  asked = 0;
  const Result<std::string> bytes =
      Render("{% set x = 'a' * 3000000 %}{{ x|length }}{{ x|length }}{{ x|length }}", {}, limits);
  EXPECT_EQ(bytes.status().code(), Code::kCancelled) << "work on long strings: " << asked;
  asked = 0;
  EXPECT_EQ(*Render("{% for i in range(9) %}{{ i }}{% endfor %}", {}, limits), "012345678");
  EXPECT_EQ(asked, 0) << "asking has its cost, too";
}

TEST(TemplateBudget, EachLimitIsEnforced) {
  RenderLimits limits;
  limits.steps = 100;
  EXPECT_NE(Render("{% for i in range(1000) %}{% endfor %}", {}, limits).status().message().find("100 steps"),
            std::string::npos);
  limits = {};
  limits.output_bytes = 10;
  EXPECT_NE(Render("12345678901", {}, limits).status().message().find("output"), std::string::npos);
  EXPECT_TRUE(Render("1234567890", {}, limits).ok());
  limits = {};
  limits.string_bytes = 10;
  EXPECT_FALSE(Render("{{ 'aaaaaa' ~ 'bbbbbb' }}", {}, limits).ok());
  EXPECT_FALSE(Render("{{ 'aaaaaa' + 'bbbbbb' }}", {}, limits).ok());
  limits = {};
  limits.depth = 10;
  EXPECT_FALSE(Render("{{ [[[[[[[[[[[[1]]]]]]]]]]]] }}", {}, limits).ok());
  limits = {};
  limits.total_bytes = 1000;
  EXPECT_FALSE(
      Render("{% for i in range(100) %}{% set x = 'abcdefghij' ~ i %}{% endfor %}", {}, limits).ok());
}

// Without that, a template of many names takes hours within its steps.
TEST(TemplateBudget, LookingThroughVariablesTakesSteps) {
  RenderLimits limits;
  limits.steps = 20000;
  std::string many, last, params, values;
  for (int i = 0; i < 1000; ++i) many += "{% set a" + std::to_string(i) + " = 1 %}";
  for (int i = 0; i < 1000; ++i) last += "{{ a999 }}";
  for (int i = 0; i < 1000; ++i) params += "p" + std::to_string(i) + (i < 999 ? ", " : "");
  for (int i = 999; i >= 0; --i) values += "p" + std::to_string(i) + (i > 0 ? "=1, " : "=1");
  const auto refused = [&](const std::string& source) {
    const Result<std::string> text = Render(source, {}, limits);
    return !text.ok() && text.status().message().find("20000 steps") != std::string::npos;
  };
  EXPECT_TRUE(refused(many)) << "assignments";
  EXPECT_TRUE(refused("{% macro m(" + params + ") %}{% endmacro %}{{ m(" + values + ") }}")) << "arguments";
  limits.steps = 60000;
  EXPECT_TRUE(Render(many, {}, limits).ok());
  EXPECT_FALSE(Render(many + last, {}, limits).ok()) << "reading";
}

TEST(TemplateBudget, LongConversationsFit) {
  std::vector<Value> messages;
  for (int i = 0; i < 20000; ++i) {
    messages.push_back(Value::MakeMap({{"role", Value(i % 2 == 0 ? "user" : "assistant")},
                                       {"content", Value("text " + std::to_string(i))}}));
  }
  const std::string text =
      RenderOk(ReadTestFile("chat_template.jinja"), {{"messages", Value::MakeList(std::move(messages))}});
  EXPECT_GT(text.size(), 20000u * 30);
}

TEST(TemplateBudget, NestingOfVariablesIsChecked) {
  Value deep = Value::MakeList({});
  for (uint32_t i = 0; i < 200; ++i) deep = Value::MakeList({deep});
  EXPECT_EQ(Render("{{ x }}", {{"x", deep}}).status().number(), 7002u);
}

// Mutated templates and generated ones: anything but a crash or a hang is right. A fixed number of rounds
// with fixed seeds; the fuzzers in tests/fuzz go on from here.
TEST(TemplateMutation, ParserAndInterpreterSurvive) {
  const Value file = Json(ReadTestFile("template_cases.json"));
  const auto& variables = file.as_map().Find("variables")->as_map().entries;
  std::vector<std::string> seeds = {ReadTestFile("chat_template.jinja")};
  for (const Value& c : file.as_map().Find("cases")->as_list().items)
    seeds.push_back(c.as_list().items[0].as_string());
  const char* const kWords[] = {"{{",   "}}",   "{%",         "%}",       "{#",     "#}",       "-",   "+",
                                "(",    ")",    "[",          "]",        "{",      "}",        ":",   ",",
                                ".",    "|",    "~",          "is ",      "in ",    "not ",     "if ", "else",
                                "for ", "set ", "endif",      "endfor",   "macro ", "endmacro", "'",   "\"",
                                "\\",   "loop", "namespace(", "messages", "9",      "0x",       "\n",  "**",
                                "//",   "==",   "\xFF",       "\xC3\xA9"};
  RenderLimits limits;
  limits.steps = 20000;
  limits.output_bytes = limits.string_bytes = 1 << 16;
  limits.total_bytes = 1 << 20;
  std::mt19937 random(2024);
  auto pick = [&](size_t n) { return static_cast<size_t>(random() % n); };
  int rendered = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string source = seeds[pick(seeds.size())];
    for (size_t edits = 1 + pick(4); edits > 0; --edits) {
      const size_t at = pick(source.size() + 1);
      switch (pick(5)) {
        case 0:
          source.insert(at, kWords[pick(std::size(kWords))]);
          break;
        case 1:
          source.erase(at, pick(6));
          break;
        case 2:
          if (at < source.size()) source[at] = static_cast<char>(random());
          break;
        case 3: {
          const std::string& other = seeds[pick(seeds.size())];
          const size_t from = pick(other.size() + 1);
          source.insert(at, other.substr(from, pick(40)));
          break;
        }
        default:
          source.resize(at);
      }
    }
    const Result<std::string> text = Render(source, variables, limits);
    if (text.ok()) {
      ++rendered;
      EXPECT_LE(text->size(), limits.output_bytes);
    } else {
      ASSERT_FALSE(text.status().message().empty()) << source;
      ASSERT_NE(text.status().note().find("line "), std::string::npos) << source;
    }
  }
  EXPECT_GT(rendered, 100) << "the mutations are so wild that nothing renders: this tests only the lexer";
}

}  // namespace
}  // namespace qrt::text
