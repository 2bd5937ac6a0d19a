// What the interpreter does with values: truth, text, comparison, iteration, members.
#include <algorithm>
#include <cstring>

#include "runtime/text/template_interpreter.h"
#include "runtime/text/unicode.h"

namespace qrt::text {
namespace {

// Python's repr of a string, for strings inside printed lists and dicts. Ends where *out is longer than
// `limit`.
void AppendStringRepr(std::string_view text, uint64_t limit, std::string* out) {
  static constexpr char kHex[] = "0123456789abcdef";
  const bool double_quotes =
      text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos;
  const char quote = double_quotes ? '"' : '\'';
  out->push_back(quote);
  const auto escape = [out](char kind, int digits, char32_t code_point) {
    out->push_back('\\');
    out->push_back(kind);
    for (int d = digits - 1; d >= 0; --d) out->push_back(kHex[code_point >> (4 * d) & 15]);
  };
  for (size_t pos = 0, next = 0; pos < text.size(); pos = next) {
    if (out->size() > limit) return;  // a byte becomes up to four
    next = NextChar(text, pos);
    const char c = text[pos];
    const bool sequence = Utf8SequenceLength(text, pos) != 0;
    const char32_t code_point = sequence ? DecodeUtf8(text, pos, next - pos) : 0;
    if (c == quote || c == '\\') {
      out->push_back('\\');
      out->push_back(c);
    } else if (c == '\n') {
      out->append("\\n");
    } else if (c == '\r') {
      out->append("\\r");
    } else if (c == '\t') {
      out->append("\\t");
    } else if (!sequence || IsPythonPrintable(code_point)) {
      out->append(text, pos, next - pos);
    } else if (code_point < 0x100) {
      escape('x', 2, code_point);
    } else if (code_point < 0x10000) {
      escape('u', 4, code_point);
    } else {
      escape('U', 8, code_point);
    }
  }
  out->push_back(quote);
}

bool CheckSize(Interpreter& interpreter, const std::string& text, size_t more = 0) {
  if (text.size() + more <= interpreter.limits().string_bytes) return true;
  return interpreter.Fail("a string grew beyond " + std::to_string(interpreter.limits().string_bytes) +
                          " bytes");
}

}  // namespace

bool Interpreter::Truthy(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::kUndefined:
    case Value::Kind::kNone:
      return false;
    case Value::Kind::kBool:
    case Value::Kind::kInt:
      return value.as_int() != 0;
    case Value::Kind::kFloat:
      return value.as_double() != 0;
    case Value::Kind::kString:
      return !value.as_string().empty();
    case Value::Kind::kList:
      return !value.as_list().items.empty();
    case Value::Kind::kMap:
      return !value.as_map().entries.empty();
    default:
      return true;
  }
}

bool Interpreter::AppendStr(const Value& value, std::string* out) {
  if (value.is_undefined()) return true;
  if (!value.is_string()) return AppendRepr(value, out);
  const std::string& text = value.as_string();
  if (!CheckSize(*this, *out, text.size()) || !Charge(text.size())) return false;
  out->append(text);
  return true;
}

bool Interpreter::AppendRepr(const Value& value, std::string* out) {
  if (!Step() || !CheckSize(*this, *out)) return false;
  switch (value.kind()) {
    case Value::Kind::kUndefined:
      out->append("Undefined");
      return true;
    case Value::Kind::kNone:
      out->append("None");
      return true;
    case Value::Kind::kBool:
      out->append(value.as_bool() ? "True" : "False");
      return true;
    case Value::Kind::kInt:
      out->append(std::to_string(value.as_int()));
      return true;
    case Value::Kind::kFloat:
      out->append(value.float_text());
      return true;
    case Value::Kind::kString:
      if (!Charge(value.as_string().size())) return false;
      AppendStringRepr(value.as_string(), limits_.string_bytes, out);
      return CheckSize(*this, *out);
    case Value::Kind::kList: {
      const auto& list = value.as_list();
      out->push_back(list.tuple ? '(' : '[');
      for (size_t i = 0; i < list.items.size(); ++i) {
        if (i != 0) out->append(", ");
        if (!AppendRepr(list.items[i], out)) return false;
      }
      if (list.tuple && list.items.size() == 1) out->push_back(',');
      out->push_back(list.tuple ? ')' : ']');
      return true;
    }
    case Value::Kind::kMap: {
      out->push_back('{');
      bool first = true;
      for (const auto& [key, item] : value.as_map().entries) {
        if (!first) out->append(", ");
        first = false;
        if (!Charge(key.size())) return false;
        AppendStringRepr(key, limits_.string_bytes, out);
        out->append(": ");
        if (!AppendRepr(item, out)) return false;
      }
      out->push_back('}');
      return true;
    }
    default:
      // In Python these print addresses; text that depends on them cannot be meant.
      return Fail(std::string("a ") + value.type_name() + " cannot be turned into text");
  }
}

bool Interpreter::ToStr(const Value& value, std::string* out) {
  out->clear();
  return AppendStr(value, out);
}

bool Interpreter::Equal(const Value& a, const Value& b, bool* equal) {
  if (!Step()) return false;
  if (a.is_number() && b.is_number()) {
    *equal = a.is_float() || b.is_float() ? a.as_double() == b.as_double() : a.as_int() == b.as_int();
    return true;
  }
  *equal = false;
  if (a.kind() != b.kind()) return true;
  switch (a.kind()) {
    case Value::Kind::kUndefined:
    case Value::Kind::kNone:
      *equal = true;
      return true;
    case Value::Kind::kString:
      if (a.as_string().size() != b.as_string().size()) return true;
      if (!Charge(a.as_string().size())) return false;
      *equal = a.as_string() == b.as_string();
      return true;
    case Value::Kind::kList: {
      const auto &x = a.as_list(), &y = b.as_list();
      if (x.items.size() != y.items.size() || x.tuple != y.tuple) return true;
      *equal = true;
      for (size_t i = 0; i < x.items.size() && *equal; ++i) {
        if (!Equal(x.items[i], y.items[i], equal)) return false;
      }
      return true;
    }
    case Value::Kind::kMap: {
      const auto &x = a.as_map(), &y = b.as_map();
      if (x.entries.size() != y.entries.size()) return true;
      *equal = true;
      for (const auto& [key, item] : x.entries) {
        const Value* other = nullptr;
        if (!Find(y, key, &other)) return false;
        if (other == nullptr) *equal = false;
        if (!*equal) return true;
        if (!Equal(item, *other, equal)) return false;
      }
      return true;
    }
    default:
      *equal = a.identity() == b.identity();
      return true;
  }
}

bool Interpreter::Order(const Value& a, const Value& b, int* order) {
  if (!Step()) return false;
  if (a.is_number() && b.is_number()) {
    if (a.is_float() || b.is_float()) {
      const double x = a.as_double(), y = b.as_double();
      *order = x < y ? -1 : x > y;
    } else {
      *order = a.as_int() < b.as_int() ? -1 : a.as_int() > b.as_int();
    }
    return true;
  }
  if (a.is_string() && b.is_string()) {
    if (!Charge(std::min(a.as_string().size(), b.as_string().size()))) return false;
    // Bytes of UTF-8 sort as the code points do.
    const int c = a.as_string().compare(b.as_string());
    *order = c < 0 ? -1 : c > 0;
    return true;
  }
  if (a.is_list() && b.is_list()) {
    const auto &x = a.as_list().items, &y = b.as_list().items;
    for (size_t i = 0; i < x.size() && i < y.size(); ++i) {
      bool equal = false;
      if (!Equal(x[i], y[i], &equal)) return false;
      if (!equal) return Order(x[i], y[i], order);
    }
    *order = x.size() < y.size() ? -1 : x.size() > y.size();
    return true;
  }
  if (a.is_undefined()) return Fail(a.undefined_reason());
  if (b.is_undefined()) return Fail(b.undefined_reason());
  return Fail(std::string("'") + a.type_name() + "' and '" + b.type_name() + "' cannot be ordered");
}

bool Interpreter::Contains(const Value& container, const Value& item, bool* contains) {
  *contains = false;
  switch (container.kind()) {
    case Value::Kind::kUndefined:
      return true;
    case Value::Kind::kString: {
      if (item.is_undefined()) return Fail(item.undefined_reason());
      if (!item.is_string()) {
        return Fail(std::string("'in <string>' needs a string on its left, found ") + item.type_name());
      }
      const std::string &text = container.as_string(), &part = item.as_string();
      // memmem stays linear on repetitive text, where std::string::find is quadratic.
      // It still costs more per byte with a long needle.
      if (!Charge(text.size() + (part.size() > 64 ? 4 * (text.size() + part.size()) : 0))) return false;
      *contains = part.empty() || memmem(text.data(), text.size(), part.data(), part.size()) != nullptr;
      return true;
    }
    case Value::Kind::kList:
      for (const Value& candidate : container.as_list().items) {
        if (!Equal(candidate, item, contains)) return false;
        if (*contains) return true;
      }
      return true;
    case Value::Kind::kMap: {
      const Value* found = nullptr;
      if (item.is_string() && !Find(container.as_map(), item.as_string(), &found)) return false;
      *contains = found != nullptr;
      return true;
    }
    default:
      return Fail(std::string("'in' does not work on a value of type ") + container.type_name());
  }
}

bool Interpreter::Iterate(const Value& value, std::vector<Value>* items) {
  items->clear();
  switch (value.kind()) {
    case Value::Kind::kUndefined:
      return true;
    case Value::Kind::kList: {
      const auto& list = value.as_list().items;
      if (!Step(list.size()) || !Charge(list.size() * sizeof(Value))) return false;
      *items = list;
      return true;
    }
    case Value::Kind::kMap: {
      const auto& entries = value.as_map().entries;
      if (!Step(entries.size()) || !Charge(entries.size() * sizeof(Value))) return false;
      items->reserve(entries.size());
      for (const auto& entry : entries) {
        Value key;
        if (!MakeString(entry.first, &key)) return false;
        items->push_back(std::move(key));
      }
      return true;
    }
    case Value::Kind::kString: {
      const std::string& text = value.as_string();
      if (!Charge(text.size())) return false;
      const size_t count = CountChars(text);
      if (!Step(count) || !Charge(text.size() + count * (sizeof(Value) + kObjectBytes))) return false;
      items->reserve(count);
      for (size_t pos = 0; pos < text.size();) {
        const size_t next = NextChar(text, pos);
        items->emplace_back(text.substr(pos, next - pos));
        pos = next;
      }
      return true;
    }
    default:
      return Fail(std::string("a value of type ") + value.type_name() + " cannot be iterated over");
  }
}

bool Interpreter::Length(const Value& value, int64_t* length) {
  switch (value.kind()) {
    case Value::Kind::kUndefined:
      *length = 0;
      return true;
    case Value::Kind::kString:
      if (!Charge(4 * value.as_string().size())) return false;
      *length = static_cast<int64_t>(CountChars(value.as_string()));
      return true;
    case Value::Kind::kList:
      *length = static_cast<int64_t>(value.as_list().items.size());
      return true;
    case Value::Kind::kMap:
      *length = static_cast<int64_t>(value.as_map().entries.size());
      return true;
    default:
      return Fail(std::string("a value of type ") + value.type_name() + " has no length");
  }
}

bool Interpreter::Find(const Value::Map& map, const std::string& key, const Value** found) {
  // Comparing short keys is a part of the step.
  const uint64_t cost = map.FindCost(key);
  if (cost > 512 && !Charge(cost)) return false;
  *found = map.Find(key);
  return true;
}

bool Interpreter::GetAttr(const Value& object, const std::string& name, Value* out) {
  if (name.size() >= 2 && name[0] == '_' && name[1] == '_')
    return Fail("attribute '" + name + "' is not allowed");
  switch (object.kind()) {
    case Value::Kind::kUndefined:
      return Fail(object.undefined_reason());
    case Value::Kind::kLoop:
      return LoopAttr(object.object<LoopObject>(), name, out);
    case Value::Kind::kNamespace: {
      const auto& attributes = object.object<NamespaceObject>().attributes;
      if (!Step(attributes.size() / 8)) return false;
      for (const auto& entry : attributes) {
        if (entry.first == name) {
          *out = entry.second;
          return true;
        }
      }
      break;
    }
    default:
      break;
  }
  // As in Python, a method hides a dict entry of the same name; d['items'] reaches the entry.
  if (IsKnownMethod(object.kind(), name)) {
    return MakeMethod(object, name, object.nesting(), out);
  }
  if (object.is_map()) {
    const Value* found = nullptr;
    if (!Find(object.as_map(), name, &found)) return false;
    if (found != nullptr) {
      *out = *found;
      return true;
    }
  }
  return MakeUndefined(std::string("'") + object.type_name() + "' has no attribute '" + name + "'", out);
}

bool Interpreter::GetItem(const Value& object, const Value& index, Value* out) {
  if (object.is_undefined()) return Fail(object.undefined_reason());
  if (index.is_string()) {
    if (object.is_map()) {
      const Value* found = nullptr;
      if (!Find(object.as_map(), index.as_string(), &found)) return false;
      if (found != nullptr) {
        *out = *found;
        return true;
      }
    }
    // Long keys are not echoed in the message of a missing one.
    if (index.as_string().size() > 255) {
      return MakeUndefined("the subscripted entry is undefined", out);
    }
    return GetAttr(object, index.as_string(), out);
  }
  if (index.is_int() || index.is_bool()) {
    int64_t i = index.as_int();
    if (object.is_list()) {
      const auto& items = object.as_list().items;
      if (i < 0) i += static_cast<int64_t>(items.size());
      if (i >= 0 && i < static_cast<int64_t>(items.size())) {
        *out = items[static_cast<size_t>(i)];
        return true;
      }
    } else if (object.is_string()) {
      const std::string& text = object.as_string();
      if (!Charge(8 * text.size())) return false;
      if (i < 0) i += static_cast<int64_t>(CountChars(text));
      size_t pos = 0;
      for (; i > 0 && pos < text.size(); --i) pos = NextChar(text, pos);
      if (i == 0 && pos < text.size()) return MakeString(text.substr(pos, NextChar(text, pos) - pos), out);
    }
    return MakeUndefined(
        std::string("'") + object.type_name() + "' has no element " + std::to_string(index.as_int()), out);
  }
  return MakeUndefined(
      std::string("'") + object.type_name() + "' has no element of a key of type " + index.type_name(), out);
}

bool Interpreter::LoopAttr(const LoopObject& loop, const std::string& name, Value* out) {
  const int64_t index = static_cast<int64_t>(loop.index), length = static_cast<int64_t>(loop.items.size());
  if (name == "index") {
    *out = Value(index + 1);
  } else if (name == "index0") {
    *out = Value(index);
  } else if (name == "revindex") {
    *out = Value(length - index);
  } else if (name == "revindex0") {
    *out = Value(length - index - 1);
  } else if (name == "first") {
    *out = Value(index == 0);
  } else if (name == "last") {
    *out = Value(index + 1 == length);
  } else if (name == "length") {
    *out = Value(length);
  } else if (name == "depth") {
    *out = Value(1);
  } else if (name == "depth0") {
    *out = Value(0);
  } else if (name == "previtem") {
    if (index == 0) return MakeUndefined("there is no previous item", out);
    *out = loop.items[loop.index - 1];
  } else if (name == "nextitem") {
    if (index + 1 == length) return MakeUndefined("there is no next item", out);
    *out = loop.items[loop.index + 1];
  } else if (name == "cycle") {
    return MakeMethod(Value(index), name, 0, out);
  } else {
    return MakeUndefined("'loop' has no attribute '" + name + "'", out);
  }
  return true;
}

}  // namespace qrt::text
