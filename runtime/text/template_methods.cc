// Methods of strings, lists and dicts, and the global functions, of the template language.
#include <algorithm>
#include <cstring>

#include "runtime/text/template_filters.h"
#include "runtime/text/template_interpreter.h"
#include "runtime/text/unicode.h"

namespace qrt::text {
namespace {

using Slots = const Value* const*;

constexpr std::string_view kStringMethods[] = {
    "capitalize",   "center",       "count",      "endswith",   "find",   "format", "index",      "isdigit",
    "islower",      "isspace",      "isupper",    "join",       "ljust",  "lower",  "lstrip",     "partition",
    "removeprefix", "removesuffix", "replace",    "rfind",      "rindex", "rjust",  "rpartition", "rsplit",
    "rstrip",       "split",        "splitlines", "startswith", "strip",  "title",  "upper",      "zfill",
};
constexpr std::string_view kListMethods[] = {"count", "index"};
constexpr std::string_view kMapMethods[] = {"get", "items", "keys", "values"};

// The largest range() that Jinja's sandbox allows.
constexpr int64_t kMaxRange = 100000;

size_t Find(std::string_view text, std::string_view part, size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (part.empty()) return from;
  const void* hit = memmem(text.data() + from, text.size() - from, part.data(), part.size());
  return hit == nullptr ? std::string_view::npos
                        : static_cast<size_t>(static_cast<const char*>(hit) - text.data());
}

// Offsets of the non-overlapping occurrences of `part` (not empty), from the left, `limit` at most.
bool FindAll(Interpreter& in, std::string_view text, std::string_view part, uint64_t limit,
             std::vector<size_t>* hits) {
  if (part.size() > 64 && !in.Charge(4 * (text.size() + part.size()))) return false;
  for (size_t at = Find(text, part, 0); at != std::string_view::npos && hits->size() < limit;
       at = Find(text, part, at + part.size())) {
    if (!in.Step()) return false;
    hits->push_back(at);
  }
  return true;
}

// The same from the end, where places that overlap are taken the last one first.
bool FindAllFromEnd(Interpreter& in, std::string_view text, std::string_view part, uint64_t limit,
                    std::vector<size_t>* hits) {
  // Searching from the end may compare the whole part at each place.
  if (!in.Charge(std::min(part.size(), text.size()) * text.size())) return false;
  for (size_t end = text.size(); end >= part.size() && hits->size() < limit;) {
    const size_t at = text.rfind(part, end - part.size());
    if (at == std::string_view::npos) break;
    if (!in.Step()) return false;
    hits->push_back(end = at);
  }
  std::reverse(hits->begin(), hits->end());
  return true;
}

bool IsLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || static_cast<unsigned char>(c) >= 0x80;
}

std::string ChangeCase(std::string text, std::string_view name) {
  bool inside_word = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char& c = text[i];
    if (name == "upper") {
      c = AsciiUpper(c);
    } else if (name == "lower") {
      c = AsciiLower(c);
    } else {
      const bool first = name == "capitalize" ? i == 0 : !inside_word;
      inside_word = IsLetter(c);
      c = first ? AsciiUpper(c) : AsciiLower(c);
    }
  }
  return text;
}

bool NeedString(Interpreter& in, const char* method, const Value* value) {
  if (value->is_string()) return true;
  if (value->is_undefined()) return in.Fail(value->undefined_reason());
  return in.Fail(std::string("'") + method + "' needs a string, found " + value->type_name());
}

bool NeedInt(Interpreter& in, const char* method, const Value* value) {
  if (value->is_int() || value->is_bool()) return true;
  return in.Fail(std::string("'") + method + "' needs an integer, found " + value->type_name());
}

// startswith and endswith take a string or a tuple of them.
bool Affix(Interpreter& in, const std::string& text, bool prefix, const CallArgs& args, Value* out) {
  const char* method = prefix ? "startswith" : "endswith";
  const Value* slots[1];
  if (!in.Bind(method, args, {prefix ? "prefix" : "suffix"}, 1, slots)) return false;
  auto matches = [&](const std::string& affix) {
    if (affix.size() > text.size()) return false;
    return text.compare(prefix ? 0 : text.size() - affix.size(), affix.size(), affix) == 0;
  };
  if (slots[0]->is_list()) {
    bool any = false;
    for (const Value& item : slots[0]->as_list().items) {
      if (!NeedString(in, method, &item)) return false;
      if (!in.Step() || !in.Charge(item.as_string().size())) return false;
      any |= matches(item.as_string());
    }
    *out = Value(any);
    return true;
  }
  if (!NeedString(in, method, slots[0])) return false;
  *out = Value(matches(slots[0]->as_string()));
  return true;
}

bool StripMethod(Interpreter& in, const std::string& text, const std::string& name, const CallArgs& args,
                 Value* out) {
  const Value* slots[1];
  if (!in.Bind(name, args, {"chars"}, 0, slots)) return false;
  const bool left = name != "rstrip", right = name != "lstrip";
  std::string_view stripped;
  if (slots[0] == nullptr || slots[0]->is_none()) {
    stripped = Strip(text, left, right);
  } else {
    if (!NeedString(in, name.c_str(), slots[0])) return false;
    const std::string_view chars = slots[0]->as_string();
    if (chars.size() > 256) return in.Fail("'" + name + "' takes at most 256 bytes of characters");
    // Before the work, as how much is stripped is not known. A single byte is looked up in a table, which the
    // text has paid for; a longer character takes a search.
    const bool longer =
        std::any_of(chars.begin(), chars.end(), [](char c) { return static_cast<unsigned char>(c) >= 0x80; });
    if (!in.Step(chars.size() / 8) || (longer && !in.Charge(4 * text.size()))) return false;
    stripped = Strip(text, left, right, &chars);
  }
  return in.MakeString(std::string(stripped), out);
}

// split and rsplit. Without separator: runs of white space, none at the ends.
bool Split(Interpreter& in, const std::string& text, bool from_right, const CallArgs& args, Value* out) {
  const char* method = from_right ? "rsplit" : "split";
  const Value* slots[2];
  if (!in.Bind(method, args, {"sep", "maxsplit"}, 0, slots)) return false;
  uint64_t limit = UINT64_MAX;
  if (slots[1] != nullptr) {
    if (!NeedInt(in, method, slots[1])) return false;
    if (slots[1]->as_int() >= 0) limit = static_cast<uint64_t>(slots[1]->as_int());
  }
  // Separators as byte ranges.
  std::vector<std::pair<size_t, size_t>> cuts;
  size_t begin = 0, end = text.size();
  if (slots[0] == nullptr || slots[0]->is_none()) {
    const std::string_view inner = Strip(text, true, true);
    if (inner.empty()) return in.MakeList({}, false, out);
    begin = static_cast<size_t>(inner.data() - text.data());
    const size_t inner_end = begin + inner.size();
    for (size_t pos = begin; pos < inner_end;) {
      const size_t n = Utf8SequenceLength(text, pos);
      if (n == 0 || !IsPythonSpace(DecodeUtf8(text, pos, n))) {
        pos += std::max<size_t>(n, 1);
      } else if (!cuts.empty() && cuts.back().second == pos) {
        cuts.back().second = pos += n;
      } else {
        if (!in.Step()) return false;
        cuts.emplace_back(pos, pos + n);
        pos += n;
      }
    }
    // With a limit, Python leaves the white space at the far end of the last piece alone.
    if (limit > cuts.size()) {
      end = inner_end;
    } else if (from_right) {
      end = inner_end;
      begin = 0;
    }
  } else {
    if (!NeedString(in, method, slots[0])) return false;
    const std::string& separator = slots[0]->as_string();
    if (separator.empty())
      return in.Fail(std::string("'") + method + "' needs a separator that is not empty");
    std::vector<size_t> hits;
    if (!(from_right ? FindAllFromEnd : FindAll)(in, text, separator, limit, &hits)) return false;
    for (size_t at : hits) cuts.emplace_back(at, at + separator.size());
  }
  if (!in.Charge(cuts.size() * sizeof(cuts[0]))) return false;
  if (cuts.size() > limit) {
    if (from_right) {
      cuts.erase(cuts.begin(), cuts.end() - static_cast<std::ptrdiff_t>(limit));
    } else {
      cuts.resize(limit);
    }
  }
  std::vector<Value> parts(cuts.size() + 1);
  for (size_t i = 0; i <= cuts.size(); ++i) {
    const size_t stop = i < cuts.size() ? cuts[i].first : end;
    if (!in.MakeString(text.substr(begin, stop - begin), &parts[i])) return false;
    if (i < cuts.size()) begin = cuts[i].second;
  }
  return in.MakeList(std::move(parts), false, out);
}

bool SplitLines(Interpreter& in, const std::string& text, const CallArgs& args, Value* out) {
  const Value* slots[1];
  if (!in.Bind("splitlines", args, {"keepends"}, 0, slots)) return false;
  const bool keep = slots[0] != nullptr && Interpreter::Truthy(*slots[0]);
  std::vector<Value> lines;
  for (size_t begin = 0, next = 0; begin < text.size(); begin = next) {
    size_t end = begin, length = 0;
    while (end < text.size() && (length = LineBreak(text, end)) == 0) ++end;
    next = end + length;
    Value line;
    if (!in.Step() || !in.MakeString(text.substr(begin, (keep ? next : end) - begin), &line)) return false;
    lines.push_back(std::move(line));
  }
  return in.MakeList(std::move(lines), false, out);
}

bool Replace(Interpreter& in, const std::string& text, const CallArgs& args, Value* out) {
  const Value* slots[3];
  if (!in.Bind("replace", args, {"old", "new", "count"}, 2, slots)) return false;
  if (!NeedString(in, "replace", slots[0]) || !NeedString(in, "replace", slots[1])) return false;
  uint64_t limit = UINT64_MAX;
  if (slots[2] != nullptr && !slots[2]->is_none()) {
    if (!NeedInt(in, "replace", slots[2])) return false;
    if (slots[2]->as_int() >= 0) limit = static_cast<uint64_t>(slots[2]->as_int());
  }
  const std::string &from = slots[0]->as_string(), &to = slots[1]->as_string();
  std::vector<size_t> hits;
  if (from.empty()) {
    if (!in.Step(text.size())) return false;
    hits = CharOffsets(text);
    if (hits.size() > limit) hits.resize(limit);
  } else if (!FindAll(in, text, from, limit, &hits)) {
    return false;
  }
  if (!to.empty() && hits.size() > in.limits().string_bytes / to.size()) {
    return in.Fail("'replace' makes a string of more than " + std::to_string(in.limits().string_bytes) +
                   " bytes");
  }
  std::string replaced;
  size_t begin = 0;
  for (size_t hit : hits) {
    replaced.append(text, begin, hit - begin);
    replaced.append(to);
    begin = hit + from.size();
  }
  replaced.append(text, begin);
  return in.MakeString(std::move(replaced), out);
}

bool FindMethod(Interpreter& in, const std::string& text, const std::string& name, const CallArgs& args,
                Value* out) {
  const Value* slots[1];
  if (!in.Bind(name, args, {"sub"}, 1, slots) || !NeedString(in, name.c_str(), slots[0])) return false;
  const std::string& part = slots[0]->as_string();
  if (name == "count") {
    std::vector<size_t> hits;
    if (!part.empty() && !FindAll(in, text, part, UINT64_MAX, &hits)) return false;
    *out = Value(static_cast<int64_t>(part.empty() ? CountChars(text) + 1 : hits.size()));
    return true;
  }
  if (!in.Charge(4 * (text.size() + part.size()))) return false;
  size_t at = std::string::npos;
  if (name == "rfind" || name == "rindex") {
    if (part.empty()) {
      at = text.size();
    } else {
      // All occurrences, overlapping ones too; the last starts at or after the last non-overlapping one.
      for (size_t hit = Find(text, part, 0); hit != std::string::npos; hit = Find(text, part, hit + 1)) {
        if (!in.Step() || !in.Charge(part.size())) return false;
        at = hit;
      }
    }
  } else {
    at = Find(text, part, 0);
  }
  if (at == std::string::npos) {
    if (name == "index" || name == "rindex") return in.Fail("'" + name + "': substring not found");
    *out = Value(-1);
  } else {
    *out = Value(static_cast<int64_t>(CountChars(std::string_view(text).substr(0, at))));
  }
  return true;
}

// The text around the first or last separator.
bool Partition(Interpreter& in, const std::string& text, const std::string& name, const CallArgs& args,
               Value* out) {
  const Value* slots[1];
  if (!in.Bind(name, args, {"sep"}, 1, slots) || !NeedString(in, name.c_str(), slots[0])) return false;
  const std::string& separator = slots[0]->as_string();
  if (separator.empty()) return in.Fail("'" + name + "' needs a separator that is not empty");
  const bool last = name == "rpartition";
  // Searching from the end may compare the whole separator at each place.
  const uint64_t compared = last ? std::min(separator.size(), text.size()) : 0;
  if (!in.Charge(4 * (text.size() + separator.size())) || !in.Charge(compared * text.size())) return false;
  const size_t at = last ? text.rfind(separator) : Find(text, separator, 0);
  std::string parts[3];
  if (at == std::string::npos) {
    parts[last ? 2 : 0] = text;
  } else {
    parts[0] = text.substr(0, at);
    parts[1] = separator;
    parts[2] = text.substr(at + separator.size());
  }
  std::vector<Value> values(3);
  for (size_t i = 0; i < 3; ++i) {
    if (!in.MakeString(std::move(parts[i]), &values[i])) return false;
  }
  return in.MakeList(std::move(values), true, out);
}

bool Justify(Interpreter& in, const std::string& text, const std::string& name, const CallArgs& args,
             Value* out) {
  const Value* slots[2] = {nullptr, nullptr};
  const bool zeros = name == "zfill";  // takes no other character
  const bool bound =
      zeros ? in.Bind(name, args, {"width"}, 1, slots) : in.Bind(name, args, {"width", "fillchar"}, 1, slots);
  if (!bound || !NeedInt(in, name.c_str(), slots[0])) return false;
  std::string fill = zeros ? "0" : " ";
  if (slots[1] != nullptr) {
    if (!NeedString(in, name.c_str(), slots[1])) return false;
    fill = slots[1]->as_string();
    if (fill.size() > 4 || CountChars(fill) != 1) return in.Fail("'" + name + "' fills with one character");
  }
  const auto chars = static_cast<int64_t>(CountChars(text));
  const int64_t missing = std::max<int64_t>(slots[0]->as_int() - chars, 0);
  if (slots[0]->as_int() > (1 << 20)) return in.Fail("'" + name + "' takes widths up to 1048576");
  if (!in.Charge(static_cast<uint64_t>(missing) * fill.size())) return false;
  std::string padding;
  for (int64_t i = 0; i < missing; ++i) padding += fill;
  const bool sign = zeros && !text.empty() && (text[0] == '-' || text[0] == '+');
  std::string filled = text;
  if (name == "center") {
    // The odd character goes to the left where the width is odd.
    const int64_t left = missing / 2 + (missing & slots[0]->as_int() & 1);
    filled.append(padding, static_cast<size_t>(left) * fill.size());
    padding.resize(static_cast<size_t>(left) * fill.size());
  }
  filled.insert(name == "ljust" ? text.size() : sign ? 1 : 0, padding);
  return in.MakeString(std::move(filled), out);
}

bool StringMethod(Interpreter& in, const std::string& text, const std::string& name, const CallArgs& args,
                  Value* out) {
  // Every method reads the text at most a few times.
  if (!in.Charge(text.size())) return false;
  if (name == "startswith" || name == "endswith") return Affix(in, text, name == "startswith", args, out);
  if (name == "strip" || name == "lstrip" || name == "rstrip") return StripMethod(in, text, name, args, out);
  if (name == "split" || name == "rsplit") return Split(in, text, name == "rsplit", args, out);
  if (name == "splitlines") return SplitLines(in, text, args, out);
  if (name == "replace") return Replace(in, text, args, out);
  if (name == "format") return FormatMethod(in, text, args, out);
  if (name == "partition" || name == "rpartition") return Partition(in, text, name, args, out);
  if (name == "ljust" || name == "rjust" || name == "center" || name == "zfill")
    return Justify(in, text, name, args, out);
  if (name == "islower" || name == "isupper") {
    bool is = false;
    if (!in.ApplyTest(name == "islower" ? "lower" : "upper", Value(text), args, &is)) return false;
    *out = Value(is);
    return true;
  }
  if (name == "find" || name == "rfind" || name == "index" || name == "rindex" || name == "count") {
    return FindMethod(in, text, name, args, out);
  }
  if (name == "upper" || name == "lower" || name == "capitalize" || name == "title") {
    if (!in.Bind(name, args, {}, 0, nullptr)) return false;
    return in.MakeString(ChangeCase(text, name), out);
  }
  if (name == "removeprefix" || name == "removesuffix") {
    const Value* slots[1];
    const bool prefix = name == "removeprefix";
    if (!in.Bind(name, args, {prefix ? "prefix" : "suffix"}, 1, slots)) return false;
    Value found;
    if (!NeedString(in, name.c_str(), slots[0]) || !Affix(in, text, prefix, args, &found)) return false;
    const size_t n = found.as_bool() ? slots[0]->as_string().size() : 0;
    return in.MakeString(text.substr(prefix ? n : 0, text.size() - n), out);
  }
  if (name == "isdigit" || name == "isspace") {
    if (!in.Bind(name, args, {}, 0, nullptr)) return false;
    const bool all = name == "isspace"
                         ? Strip(text, true, true).empty()
                         : std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
    *out = Value(!text.empty() && all);
    return true;
  }
  // join
  const Value* slots[1];
  std::vector<Value> items;
  if (!in.Bind(name, args, {"iterable"}, 1, slots) || !in.Iterate(*slots[0], &items)) return false;
  std::string joined;
  const Value between(text);
  for (size_t i = 0; i < items.size(); ++i) {
    if (!NeedString(in, "join", &items[i])) return false;
    if (i != 0 && !in.AppendStr(between, &joined)) return false;
    if (!in.AppendStr(items[i], &joined)) return false;
  }
  return in.MakeString(std::move(joined), out);
}

bool ListMethod(Interpreter& in, const Value& self, const std::string& name, const CallArgs& args,
                Value* out) {
  const Value* slots[1];
  if (!in.Bind(name, args, {"value"}, 1, slots)) return false;
  const auto& items = self.as_list().items;
  int64_t count = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    bool equal = false;
    if (!in.Equal(items[i], *slots[0], &equal)) return false;
    if (!equal) continue;
    ++count;
    if (name == "index") {
      *out = Value(static_cast<int64_t>(i));
      return true;
    }
  }
  if (name == "index") return in.Fail("'index': the value is not in the list");
  *out = Value(count);
  return true;
}

bool MapMethod(Interpreter& in, const Value& self, const std::string& name, const CallArgs& args,
               Value* out) {
  const auto& map = self.as_map();
  if (name == "get") {
    const Value* slots[2];
    if (!in.Bind(name, args, {"key", "default"}, 1, slots)) return false;
    const Value* found = nullptr;
    if (slots[0]->is_string() && !in.Find(map, slots[0]->as_string(), &found)) return false;
    *out = found != nullptr ? *found : slots[1] != nullptr ? *slots[1] : Value::None();
    return true;
  }
  if (!in.Bind(name, args, {}, 0, nullptr)) return false;
  if (!in.Afford(map.entries.size() * sizeof(Value))) return false;
  std::vector<Value> items;
  items.reserve(map.entries.size());
  for (const auto& [key, value] : map.entries) {
    Value item;
    if (name == "values") {
      item = value;
    } else if (!in.MakeString(key, &item)) {
      return false;
    }
    if (name == "items" && !in.MakeList({item, value}, true, &item)) return false;
    items.push_back(std::move(item));
  }
  return in.MakeList(std::move(items), false, out);
}

bool Range(Interpreter& in, const CallArgs& args, Value* out) {
  int64_t bounds[3] = {0, 0, 1};
  const size_t n = args.positional.size();
  if (n == 0 || n > 3 || !args.named.empty()) return in.Fail("'range' takes one to three integers");
  for (size_t i = 0; i < n; ++i) {
    if (args.positional[i].is_undefined()) return in.Fail(args.positional[i].undefined_reason());
    if (!NeedInt(in, "range", &args.positional[i])) return false;
    bounds[n == 1 ? 1 : i] = args.positional[i].as_int();
  }
  const auto [start, stop, step] = std::tuple(bounds[0], bounds[1], bounds[2]);
  if (step == 0) return in.Fail("'range' needs a step that is not 0");
  // In 128 bits, where the difference of two int64 fits, and i times the step.
  const __int128 span = step > 0 ? static_cast<__int128>(stop) - start : static_cast<__int128>(start) - stop;
  const __int128 stride = step > 0 ? static_cast<__int128>(step) : -static_cast<__int128>(step);
  const __int128 count = span <= 0 ? 0 : (span + stride - 1) / stride;
  if (count > kMaxRange) return in.Fail("'range' is longer than " + std::to_string(kMaxRange));
  std::vector<Value> items;
  items.reserve(static_cast<size_t>(count));
  for (__int128 i = 0; i < count; ++i) items.emplace_back(static_cast<int64_t>(start + i * step));
  return in.MakeList(std::move(items), false, out);
}

}  // namespace

bool IsKnownMethod(Value::Kind kind, std::string_view name) {
  auto has = [&](const auto& table) {
    return std::find(std::begin(table), std::end(table), name) != std::end(table);
  };
  switch (kind) {
    case Value::Kind::kString:
      return has(kStringMethods);
    case Value::Kind::kList:
      return has(kListMethods);
    case Value::Kind::kMap:
      return has(kMapMethods);
    default:
      return false;
  }
}

bool Interpreter::CallMethod(const MethodObject& method, const CallArgs& args, Value* out) {
  const Value& self = method.self;
  if (self.is_string()) return StringMethod(*this, self.as_string(), method.name, args, out);
  if (self.is_list()) return ListMethod(*this, self, method.name, args, out);
  if (self.is_map()) return MapMethod(*this, self, method.name, args, out);
  // loop.cycle: `self` is the iteration.
  if (args.positional.empty() || !args.named.empty()) return Fail("'cycle' needs values to cycle through");
  *out = args.positional[static_cast<size_t>(self.as_int()) % args.positional.size()];
  return true;
}

bool Interpreter::CallFunction(FunctionId id, const CallArgs& args, Value* out) {
  switch (id) {
    case FunctionId::kRange:
      return Range(*this, args, out);
    case FunctionId::kStrftimeNow:
      return FormatTime(*this, args, *now_, out);
    case FunctionId::kRaiseException: {
      const Value* slots[1];
      std::string message;
      if (!Bind("raise_exception", args, {"message"}, 1, slots) || !ToStr(*slots[0], &message)) return false;
      // Control text of a file stays short in messages.
      return Fail("the template refuses: " + message.substr(0, 400));
    }
    default:
      break;
  }
  // dict and namespace: an optional dict to start from, then named values.
  std::vector<Value::Entry> entries;
  const char* name = id == FunctionId::kDict ? "dict" : "namespace";
  if (args.positional.size() > 1 || (args.positional.size() == 1 && !args.positional[0].is_map())) {
    return Fail(std::string("'") + name + "' takes one dict and named values");
  }
  if (!args.positional.empty()) {
    const std::vector<Value::Entry>& given = args.positional[0].as_map().entries;
    uint64_t bytes = 0;
    for (const auto& entry : given) bytes += entry.first.size() + sizeof(entry);
    // For the copy here and, of a namespace, the one of its own.
    if (!Step(given.size()) || !Charge(2 * bytes)) return false;
    entries = given;
  }
  for (const auto& [key, value] : args.named) entries.emplace_back(std::string(key), value);
  Value map;
  if (!MakeMap(std::move(entries), &map)) return false;
  if (id == FunctionId::kNamespace) return MakeNamespace(map.as_map().entries, out);
  *out = std::move(map);
  return true;
}

}  // namespace qrt::text
