// Filters and tests of the template language.
#include <algorithm>

#include "runtime/text/json.h"
#include "runtime/text/template_filters.h"
#include "runtime/text/template_interpreter.h"
#include "runtime/text/template_parser.h"
#include "runtime/text/unicode.h"

namespace qrt::text {
namespace {

using FilterFn = bool (*)(Interpreter&, std::string_view name, const Value& input, const CallArgs&,
                          Value* out);
using TestFn = bool (*)(Interpreter&, std::string_view name, const Value& input, const CallArgs&, bool* out);

// ---- Filters ----

// Filters that are string methods under another roof: str(input).name(args).
bool StringFilter(Interpreter& in, std::string_view name, const Value& input, const CallArgs& args,
                  Value* out) {
  std::string text;
  if (!in.ToStr(input, &text)) return false;
  return in.CallMethod(MethodObject{Value(std::move(text)), name == "trim" ? "strip" : std::string(name)},
                       args, out);
}

// Not str.title: words begin where Jinja says they do.
bool Title(Interpreter& in, std::string_view name, const Value& input, const CallArgs& args, Value* out) {
  std::string text;
  if (!in.Bind(name, args, {}, 0, nullptr) || !in.ToStr(input, &text) || !in.Charge(text.size()))
    return false;
  bool begins = true;
  for (size_t pos = 0, next = 0; pos < text.size(); pos = next) {
    next = NextChar(text, pos);
    char& c = text[pos];
    const bool space = Utf8SequenceLength(text, pos) != 0 && IsPythonSpace(DecodeUtf8(text, pos, next - pos));
    c = begins ? AsciiUpper(c) : AsciiLower(c);
    begins = space || std::string_view("-({[<").find(c) != std::string_view::npos;
  }
  return in.MakeString(std::move(text), out);
}

bool String(Interpreter& in, std::string_view name, const Value& input, const CallArgs& args, Value* out) {
  if (!in.Bind(name, args, {}, 0, nullptr)) return false;
  if (input.is_string()) {
    *out = input;
    return true;
  }
  std::string text;
  return in.ToStr(input, &text) && in.MakeString(std::move(text), out);
}

bool Safe(Interpreter& in, std::string_view name, const Value& input, const CallArgs& args, Value* out) {
  // Nothing is escaped in chat templates, so marking text as safe only makes it a string.
  return String(in, name, input, args, out);
}

bool Length(Interpreter& in, std::string_view name, const Value& input, const CallArgs& args, Value* out) {
  int64_t length = 0;
  if (!in.Bind(name, args, {}, 0, nullptr) || !in.Length(input, &length)) return false;
  *out = Value(length);
  return true;
}

bool Default(Interpreter& in, std::string_view name, const Value& input, const CallArgs& args, Value* out) {
  const Value* slots[2];
  if (!in.Bind(name, args, {"default_value", "boolean"}, 0, slots)) return false;
  const bool by_truth = slots[1] != nullptr && Interpreter::Truthy(*slots[1]);
  if (input.is_undefined() || (by_truth && !Interpreter::Truthy(input))) {
    *out = slots[0] != nullptr ? *slots[0] : Value("");
  } else {
    *out = input;
  }
  return true;
}

bool ToJson(Interpreter& in, std::string_view name, const Value& input, const CallArgs& args, Value* out) {
  const Value* slots[4];
  if (!in.Bind(name, args, {"ensure_ascii", "indent", "separators", "sort_keys"}, 0, slots)) return false;
  // A lone positional argument is the indent, as in plain Jinja, unless it is a bool.
  if (args.positional.size() == 1 && args.positional[0].is_int()) std::swap(slots[0], slots[1]);
  JsonStyle style;
  style.ensure_ascii = slots[0] != nullptr && Interpreter::Truthy(*slots[0]);
  style.sort_keys = slots[3] != nullptr && Interpreter::Truthy(*slots[3]);
  if (slots[1] != nullptr && !slots[1]->is_none()) {
    if (!slots[1]->is_int() || slots[1]->as_int() < 0 || slots[1]->as_int() > 16) {
      return in.Fail("'tojson' needs an indent of 0 to 16 spaces");
    }
    style.indent = static_cast<int>(slots[1]->as_int());
  }
  if (slots[2] != nullptr && !slots[2]->is_none()) {
    const bool pair = slots[2]->is_list() && slots[2]->as_list().items.size() == 2 &&
                      slots[2]->as_list().items[0].is_string() && slots[2]->as_list().items[1].is_string();
    if (!pair) return in.Fail("'tojson' needs two strings as separators");
    for (const Value& separator : slots[2]->as_list().items) {
      if (!in.Charge(2 * separator.as_string().size())) return false;  // copied twice
    }
    style.item_separator = slots[2]->as_list().items[0].as_string();
    style.key_separator = slots[2]->as_list().items[1].as_string();
  }
  std::string text, error;
  if (!AppendJson(input, style, in.limits().string_bytes, &text, &error))
    return in.Fail("'tojson': " + error);
  return in.Step(text.size() / 16) && in.MakeString(std::move(text), out);
}

bool Items(Interpreter& in, std::string_view name, const Value& input, const CallArgs& args, Value* out) {
  if (!in.Bind(name, args, {}, 0, nullptr)) return false;
  if (input.is_undefined()) return in.MakeList({}, false, out);
  if (!input.is_map()) return in.Fail(std::string("'items' needs a dict, found ") + input.type_name());
  return in.CallMethod(MethodObject{input, "items"}, args, out);
}

bool ListFilter(Interpreter& in, std::string_view name, const Value& input, const CallArgs& args,
                Value* out) {
  std::vector<Value> items;
  return in.Bind(name, args, {}, 0, nullptr) && in.Iterate(input, &items) &&
         in.MakeList(std::move(items), false, out);
}

bool FirstLast(Interpreter& in, std::string_view name, const Value& input, const CallArgs& args, Value* out) {
  if (!in.Bind(name, args, {}, 0, nullptr)) return false;
  if (input.is_string() || input.is_list()) return in.GetItem(input, Value(name == "first" ? 0 : -1), out);
  std::vector<Value> items;
  if (!in.Iterate(input, &items)) return false;
  if (items.empty()) return in.MakeUndefined("the sequence is empty", out);
  *out = name == "first" ? items.front() : items.back();
  return true;
}

bool Join(Interpreter& in, std::string_view name, const Value& input, const CallArgs& args, Value* out) {
  const Value* slots[2];
  std::vector<Value> items;
  if (!in.Bind(name, args, {"d", "attribute"}, 0, slots) || !in.Iterate(input, &items)) return false;
  std::string separator, text;
  if (slots[0] != nullptr && !in.ToStr(*slots[0], &separator)) return false;
  const Value between(std::move(separator));
  for (size_t i = 0; i < items.size(); ++i) {
    Value item = items[i];
    if (slots[1] != nullptr && !slots[1]->is_none() && !FollowPath(in, items[i], *slots[1], nullptr, &item))
      return false;
    if (i != 0 && !in.AppendStr(between, &text)) return false;
    if (!in.AppendStr(item, &text)) return false;
  }
  return in.MakeString(std::move(text), out);
}

bool Reverse(Interpreter& in, std::string_view name, const Value& input, const CallArgs& args, Value* out) {
  std::vector<Value> items;
  if (!in.Bind(name, args, {}, 0, nullptr) || !in.Iterate(input, &items)) return false;
  std::reverse(items.begin(), items.end());
  if (!input.is_string()) return in.MakeList(std::move(items), false, out);
  std::string text;
  for (const Value& item : items) text += item.as_string();
  return in.MakeString(std::move(text), out);
}

bool Indent(Interpreter& in, std::string_view name, const Value& input, const CallArgs& args, Value* out) {
  const Value* slots[3];
  if (!in.Bind(name, args, {"width", "first", "blank"}, 0, slots)) return false;
  std::string pad(4, ' '), text, indented;
  if (slots[0] != nullptr) {
    if (slots[0]->is_string()) {
      if (!in.Charge(slots[0]->as_string().size())) return false;
      pad = slots[0]->as_string();
    } else if (slots[0]->is_int() && slots[0]->as_int() >= 0 && slots[0]->as_int() <= 1000) {
      pad.assign(static_cast<size_t>(slots[0]->as_int()), ' ');
    } else {
      return in.Fail("'indent' needs a width of 0 to 1000 or a string");
    }
  }
  const bool first = slots[1] != nullptr && Interpreter::Truthy(*slots[1]);
  const bool blank = slots[2] != nullptr && Interpreter::Truthy(*slots[2]);
  if (!in.ToStr(input, &text)) return false;
  // Jinja's own way to have a line for a text that is empty or ends with a line.
  text += '\n';
  Value split;
  if (!in.CallMethod(MethodObject{Value(std::move(text)), "splitlines"}, {}, &split)) return false;
  const std::vector<Value>& lines = split.as_list().items;
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::string& line = lines[i].as_string();
    if (i != 0) indented += '\n';
    if (i == 0 ? first : blank || !line.empty()) {
      if (!in.Charge(pad.size()) || indented.size() > in.limits().string_bytes) {
        return in.Fail("an indented string grew beyond its limit");
      }
      indented += pad;
    }
    indented += line;
  }
  return in.MakeString(std::move(indented), out);
}

CallArgs Rest(const CallArgs& args, size_t skip) {
  CallArgs rest;
  if (args.positional.size() > skip) {
    rest.positional.assign(args.positional.begin() + static_cast<std::ptrdiff_t>(skip),
                           args.positional.end());
  }
  rest.named = args.named;
  return rest;
}

bool Map(Interpreter& in, std::string_view name, const Value& input, const CallArgs& args, Value* out) {
  if (!Interpreter::Truthy(input)) return in.MakeList({}, false, out);  // none and 0, too
  std::vector<Value> items;
  if (!in.Iterate(input, &items) || !in.Afford(items.size() * sizeof(Value))) return false;
  std::vector<Value> mapped(items.size());
  if (args.positional.empty()) {
    const Value* slots[2];
    if (!in.Bind(name, args, {"attribute", "default"}, 1, slots)) return false;
    for (size_t i = 0; i < items.size(); ++i) {
      if (!in.Step() || !FollowPath(in, items[i], *slots[0], slots[1], &mapped[i])) return false;
    }
  } else {
    const Value filter = args.positional[0];
    if (!filter.is_string() || !IsKnownFilter(filter.as_string()))
      return in.Fail("'map' needs a filter's name");
    const CallArgs rest = Rest(args, 1);
    for (size_t i = 0; i < items.size(); ++i) {
      if (!in.Step() || !in.ApplyFilter(filter.as_string(), items[i], rest, &mapped[i])) return false;
    }
  }
  return in.MakeList(std::move(mapped), false, out);
}

// select, reject, selectattr, rejectattr.
bool Select(Interpreter& in, std::string_view name, const Value& input, const CallArgs& args, Value* out) {
  if (!Interpreter::Truthy(input)) return in.MakeList({}, false, out);  // none and 0, too
  const bool by_attribute = name == "selectattr" || name == "rejectattr";
  const bool keep = name[0] == 's';
  if (by_attribute && args.positional.empty())
    return in.Fail("'" + std::string(name) + "' needs an attribute");
  const size_t test_at = by_attribute ? 1 : 0;
  const Value* test = args.positional.size() > test_at ? &args.positional[test_at] : nullptr;
  if (test != nullptr && (!test->is_string() || !IsKnownTest(test->as_string()))) {
    return in.Fail("'" + std::string(name) + "' needs a test's name");
  }
  const CallArgs rest = Rest(args, test_at + 1);
  std::vector<Value> items, kept;
  if (!in.Iterate(input, &items)) return false;
  for (const Value& item : items) {
    Value value = item;
    if (by_attribute && !FollowPath(in, item, args.positional[0], nullptr, &value)) return false;
    bool pass = Interpreter::Truthy(value);
    if (!in.Step()) return false;
    if (test != nullptr && !in.ApplyTest(test->as_string(), value, rest, &pass)) return false;
    if (pass == keep) kept.push_back(item);
  }
  return in.MakeList(std::move(kept), false, out);
}

struct FilterEntry {
  std::string_view name;
  FilterFn apply;
};
constexpr FilterEntry kFilters[] = {
    {"abs", Abs},
    {"capitalize", StringFilter},
    {"center", StringFilter},
    {"count", Length},
    {"d", Default},
    {"default", Default},
    {"dictsort", DictSort},
    {"e", Escape},
    {"escape", Escape},
    {"first", FirstLast},
    {"float", Float},
    {"format", Format},
    {"indent", Indent},
    {"int", Int},
    {"items", Items},
    {"join", Join},
    {"last", FirstLast},
    {"length", Length},
    {"list", ListFilter},
    {"lower", StringFilter},
    {"map", Map},
    {"max", MinMax},
    {"min", MinMax},
    {"reject", Select},
    {"rejectattr", Select},
    {"replace", StringFilter},
    {"reverse", Reverse},
    {"round", Round},
    {"safe", Safe},
    {"select", Select},
    {"selectattr", Select},
    {"sort", Sort},
    {"string", String},
    {"sum", Sum},
    {"title", Title},
    {"tojson", ToJson},
    {"trim", StringFilter},
    {"unique", Unique},
    {"upper", StringFilter},
};

// ---- Tests ----

bool NoArgs(Interpreter& in, std::string_view name, const CallArgs& args) {
  return in.Bind(name, args, {}, 0, nullptr);
}

bool KindTest(Interpreter& in, std::string_view name, const Value& v, const CallArgs& args, bool* out) {
  if (name == "defined") {
    *out = !v.is_undefined();
  } else if (name == "undefined") {
    *out = v.is_undefined();
  } else if (name == "none") {
    *out = v.is_none();
  } else if (name == "true") {
    *out = v.is_bool() && v.as_bool();
  } else if (name == "false") {
    *out = v.is_bool() && !v.as_bool();
  } else if (name == "boolean") {
    *out = v.is_bool();
  } else if (name == "integer") {
    *out = v.is_int();
  } else if (name == "float") {
    *out = v.is_float();
  } else if (name == "number") {
    *out = v.is_number();
  } else if (name == "string") {
    *out = v.is_string();
  } else if (name == "mapping") {
    *out = v.is_map();
  } else if (name == "sequence" || name == "iterable") {
    // An undefined value is an empty sequence to Jinja.
    *out = v.is_string() || v.is_list() || v.is_map() || v.is_undefined();
  } else {  // callable
    *out = v.kind() == Value::Kind::kMacro || v.kind() == Value::Kind::kFunction ||
           v.kind() == Value::Kind::kMethod || v.is_undefined();
  }
  return NoArgs(in, name, args);
}

bool CompareTest(Interpreter& in, std::string_view name, const Value& v, const CallArgs& args, bool* out) {
  const Value* slots[1];
  if (!in.Bind(name, args, {"other"}, 1, slots)) return false;
  const Value& other = *slots[0];
  if (name == "eq" || name == "equalto" || name == "==") return in.Equal(v, other, out);
  if (name == "in") return in.Contains(other, v, out);
  if (name == "ne" || name == "!=") {
    if (!in.Equal(v, other, out)) return false;
    *out = !*out;
    return true;
  }
  if (name == "sameas") {
    if (v.kind() != other.kind()) {
      *out = false;
      return true;
    }
    if (v.identity() != nullptr) {
      *out = v.identity() == other.identity();
      return true;
    }
    return in.Equal(v, other, out);
  }
  int order = 0;
  if (!in.Order(v, other, &order)) return false;
  const auto is = [&](auto... names) { return ((name == names) || ...); };
  *out = is("lt", "<", "lessthan")      ? order < 0
         : is("le", "<=")               ? order <= 0
         : is("gt", ">", "greaterthan") ? order > 0
                                        : order >= 0;
  return true;
}

bool NumberTest(Interpreter& in, std::string_view name, const Value& v, const CallArgs& args, bool* out) {
  if (!v.is_number()) return in.Fail("'" + std::string(name) + "' needs a number, found " + v.type_name());
  const Value two(2);
  const Value* divisor = &two;
  if (name != "divisibleby") {
    if (!NoArgs(in, name, args)) return false;
  } else {
    if (!in.Bind(name, args, {"num"}, 1, &divisor)) return false;
    if (!divisor->is_number() || divisor->as_double() == 0)
      return in.Fail("'divisibleby' needs a number that is not 0");
  }
  Value rest;
  if (!ApplyBinary(in, Op::kMod, v, *divisor, &rest)) return false;
  *out = rest.as_double() == (name == "odd" ? 1 : 0);
  return true;
}

bool CaseTest(Interpreter& in, std::string_view name, const Value& v, const CallArgs& args, bool* out) {
  std::string text;
  if (!NoArgs(in, name, args) || !in.ToStr(v, &text)) return false;
  bool cased = false, other = false;
  for (char c : text) {
    const bool lower = c >= 'a' && c <= 'z', upper = c >= 'A' && c <= 'Z';
    cased |= name == "lower" ? lower : upper;
    other |= name == "lower" ? upper : lower;
  }
  *out = cased && !other;
  return true;
}

struct TestEntry {
  std::string_view name;
  TestFn apply;
};
constexpr TestEntry kTests[] = {
    {"!=", CompareTest},         {"<", CompareTest},           {"<=", CompareTest},
    {"==", CompareTest},         {">", CompareTest},           {">=", CompareTest},
    {"boolean", KindTest},       {"callable", KindTest},       {"defined", KindTest},
    {"divisibleby", NumberTest}, {"eq", CompareTest},          {"equalto", CompareTest},
    {"even", NumberTest},        {"false", KindTest},          {"float", KindTest},
    {"ge", CompareTest},         {"greaterthan", CompareTest}, {"gt", CompareTest},
    {"in", CompareTest},         {"integer", KindTest},        {"iterable", KindTest},
    {"le", CompareTest},         {"lessthan", CompareTest},    {"lower", CaseTest},
    {"lt", CompareTest},         {"mapping", KindTest},        {"ne", CompareTest},
    {"none", KindTest},          {"number", KindTest},         {"odd", NumberTest},
    {"sameas", CompareTest},     {"sequence", KindTest},       {"string", KindTest},
    {"true", KindTest},          {"undefined", KindTest},      {"upper", CaseTest},
};

template <typename Entry, size_t N>
const Entry* FindEntry(const Entry (&table)[N], std::string_view name) {
  const Entry* it =
      std::lower_bound(table, table + N, name, [](const Entry& e, std::string_view n) { return e.name < n; });
  return it != table + N && it->name == name ? it : nullptr;
}

template <typename Entry, size_t N>
constexpr bool Sorted(const Entry (&table)[N]) {
  for (size_t i = 1; i < N; ++i) {
    if (!(table[i - 1].name < table[i].name)) return false;
  }
  return true;
}
static_assert(Sorted(kFilters) && Sorted(kTests), "the tables are searched by bisection");

}  // namespace

bool IsKnownFilter(std::string_view name) {
  return FindEntry(kFilters, name) != nullptr;
}
bool IsKnownTest(std::string_view name) {
  return FindEntry(kTests, name) != nullptr;
}

bool Interpreter::ApplyFilter(std::string_view name, const Value& input, const CallArgs& args, Value* out) {
  const FilterEntry* filter = FindEntry(kFilters, name);
  if (filter == nullptr) return Fail("unknown filter '" + std::string(name) + "'");
  // 'map' can call itself by name.
  if (depth_ > limits_.depth) return Fail("filters are nested too deeply");
  ++depth_;
  const bool ok = filter->apply(*this, name, input, args, out);
  --depth_;
  return ok;
}

bool Interpreter::ApplyTest(std::string_view name, const Value& input, const CallArgs& args, bool* out) {
  const TestEntry* test = FindEntry(kTests, name);
  if (test == nullptr) return Fail("unknown test '" + std::string(name) + "'");
  return test->apply(*this, name, input, args, out);
}

}  // namespace qrt::text
