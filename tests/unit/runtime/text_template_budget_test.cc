// That no template can run away: budgets of steps, bytes and depth, and mutated templates.
#include <gtest/gtest.h>

#include <iterator>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "runtime/text/chat_template.h"
#include "tests/unit/runtime/text_rendering.h"
#include "tests/unit/runtime/text_vocab.h"

namespace qrt::text {
namespace {

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
  // A tenth of the default budgets, to be quick. Without a budget each of these takes hours or all memory,
  // which is what ends the test then.
  RenderLimits limits;
  limits.steps /= 10;
  limits.output_bytes /= 10;
  limits.string_bytes /= 10;
  limits.total_bytes /= 10;
  std::vector<Attack> attacks = Attacks();
  for (Attack& attack : FormatAttacks()) attacks.push_back(std::move(attack));
  for (const Attack& attack : attacks) {
    SCOPED_TRACE(attack.name);
    const Result<std::string> text = Render(attack.source, {}, limits);
    ASSERT_FALSE(text.ok()) << "gave " << text->size() << " bytes";
    bool found = false;
    std::stringstream alternatives(attack.message);
    for (std::string part; std::getline(alternatives, part, '|');) {
      found |= text.status().message().find(part) != std::string::npos;
    }
    EXPECT_TRUE(found) << text.status().ToString() << "\nexpected " << attack.message;
  }
}

// Work of every kind counts, and before it is done: each of these reads or makes a hundred times a megabyte,
// which the budget does not hold, and takes hours or all memory within the other budgets when scaled up.
TEST(TemplateBudget, AllBytesThatAreReadCount) {
  RenderLimits limits;
  limits.total_bytes = 40 << 20;
  const std::string set =
      "{% set x = '7' * 1000000 %}{% set m = {'a': 1, x: 2} %}{% set i = 1 %}"
      "{% set no_number = x ~ 'z' %}";
  const std::string loop = "{% for i in range(100) %}", end = "{% endfor %}";
  const std::string each[] = {
      "{{ no_number|int }}",
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
