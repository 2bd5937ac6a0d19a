// Filters of the template language that order the items of a sequence.
#include <algorithm>
#include <charconv>

#include "runtime/text/template_filters.h"

namespace qrt::text {
namespace {

bool Flag(const Value* slot, bool otherwise = false) {
  return slot == nullptr ? otherwise : Interpreter::Truthy(*slot);
}

// What an item is ordered by: what its attribute (may be null) is, in lower case unless `cased`.
bool KeyOf(Interpreter& in, const Value& item, const Value* attribute, bool cased, Value* key) {
  *key = item;
  if (attribute != nullptr && !attribute->is_none() && !FollowPath(in, item, *attribute, nullptr, key)) {
    return false;
  }
  if (cased || !key->is_string()) return true;
  return in.CallMethod(MethodObject{*key, "lower"}, {}, key);
}

struct Keyed {
  Value key;
  size_t at;
};

bool KeysOf(Interpreter& in, const std::vector<Value>& items, const Value* attribute, bool cased,
            std::vector<Keyed>* keys) {
  // Sorting takes as much again.
  if (!in.Charge(2 * items.size() * sizeof(Keyed))) return false;
  keys->reserve(items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    Keyed keyed{Value(), i};
    if (!in.Step() || !KeyOf(in, items[i], attribute, cased, &keyed.key)) return false;
    keys->push_back(std::move(keyed));
  }
  return true;
}

// Equal keys keep their order, also when it is the reverse one.
bool SortKeys(Interpreter& in, bool reverse, std::vector<Keyed>* keys) {
  bool ok = true;
  std::stable_sort(keys->begin(), keys->end(), [&](const Keyed& a, const Keyed& b) {
    int order = 0;
    // After a failure all are equal, which every way of sorting comes to an end with.
    if (ok) ok = in.Order(a.key, b.key, &order);
    return ok && (reverse ? order > 0 : order < 0);
  });
  return ok;
}

bool InOrder(Interpreter& in, const std::vector<Value>& items, const std::vector<Keyed>& keys, Value* out) {
  std::vector<Value> sorted;
  sorted.reserve(items.size());
  for (const Keyed& keyed : keys) sorted.push_back(items[keyed.at]);
  return in.MakeList(std::move(sorted), false, out);
}

}  // namespace

bool FollowPath(Interpreter& in, const Value& object, const Value& path, const Value* fallback, Value* out) {
  *out = object;
  auto replace = [&] {
    if (out->is_undefined() && fallback != nullptr) *out = *fallback;
    return true;
  };
  if (path.is_int()) return in.GetItem(object, path, out) && replace();
  if (!path.is_string()) return in.Fail("an attribute must be a string or a number");
  const std::string& text = path.as_string();
  for (size_t begin = 0; begin <= text.size();) {
    const size_t dot = std::min(text.find('.', begin), text.size());
    // The search for the dot, two copies, and reading it as a number.
    if (!in.Step() || !in.Charge(4 * (dot - begin))) return false;
    const std::string part = text.substr(begin, dot - begin);
    int64_t index = 0;
    const auto parsed = std::from_chars(part.data(), part.data() + part.size(), index);
    const bool number = !part.empty() && parsed.ec == std::errc() && parsed.ptr == part.data() + part.size();
    const Value current = *out;
    if (!in.GetItem(current, number ? Value(index) : Value(part), out)) return false;
    replace();
    begin = dot + 1;
  }
  return true;
}

bool DictSort(Interpreter& in, std::string_view name, const Value& input, const CallArgs& args, Value* out) {
  const Value* slots[3];
  if (!in.Bind(name, args, {"case_sensitive", "by", "reverse"}, 0, slots)) return false;
  if (!input.is_map()) return in.Fail(std::string("'dictsort' needs a dict, found ") + input.type_name());
  int64_t by = 0;
  if (slots[1] != nullptr) {
    const bool known =
        slots[1]->is_string() && (slots[1]->as_string() == "key" || slots[1]->as_string() == "value");
    if (!known) return in.Fail("'dictsort' sorts by 'key' or 'value'");
    by = slots[1]->as_string() == "value";
  }
  Value pairs;
  if (!in.CallMethod(MethodObject{input, "items"}, {}, &pairs)) return false;
  const std::vector<Value>& items = pairs.as_list().items;
  const Value attribute(by);
  std::vector<Keyed> keys;
  return KeysOf(in, items, &attribute, Flag(slots[0]), &keys) && SortKeys(in, Flag(slots[2]), &keys) &&
         InOrder(in, items, keys, out);
}

bool Sort(Interpreter& in, std::string_view name, const Value& input, const CallArgs& args, Value* out) {
  const Value* slots[3];
  std::vector<Value> items;
  if (!in.Bind(name, args, {"reverse", "case_sensitive", "attribute"}, 0, slots)) return false;
  if (!in.Iterate(input, &items)) return false;
  std::vector<Keyed> keys;
  return KeysOf(in, items, slots[2], Flag(slots[1]), &keys) && SortKeys(in, Flag(slots[0]), &keys) &&
         InOrder(in, items, keys, out);
}

bool Unique(Interpreter& in, std::string_view name, const Value& input, const CallArgs& args, Value* out) {
  const Value* slots[2];
  std::vector<Value> items, kept;
  if (!in.Bind(name, args, {"case_sensitive", "attribute"}, 0, slots)) return false;
  if (!in.Iterate(input, &items)) return false;
  std::vector<Keyed> keys, seen;
  if (!KeysOf(in, items, slots[1], Flag(slots[0]), &keys)) return false;
  for (Keyed& keyed : keys) {
    bool known = false;
    for (size_t i = 0; i < seen.size() && !known; ++i) {
      if (!in.Equal(seen[i].key, keyed.key, &known)) return false;
    }
    if (known) continue;
    kept.push_back(items[keyed.at]);
    seen.push_back(std::move(keyed));
  }
  return in.MakeList(std::move(kept), false, out);
}

bool MinMax(Interpreter& in, std::string_view name, const Value& input, const CallArgs& args, Value* out) {
  const Value* slots[2];
  std::vector<Value> items;
  if (!in.Bind(name, args, {"case_sensitive", "attribute"}, 0, slots)) return false;
  if (!in.Iterate(input, &items)) return false;
  std::vector<Keyed> keys;
  if (!KeysOf(in, items, slots[1], Flag(slots[0]), &keys)) return false;
  if (items.empty()) return in.MakeUndefined("the sequence is empty", out);
  size_t best = 0;
  for (size_t i = 1; i < keys.size(); ++i) {
    int order = 0;
    if (!in.Order(keys[i].key, keys[best].key, &order)) return false;
    if (name == "min" ? order < 0 : order > 0) best = i;
  }
  *out = items[best];
  return true;
}

bool Sum(Interpreter& in, std::string_view name, const Value& input, const CallArgs& args, Value* out) {
  const Value* slots[2];
  std::vector<Value> items;
  if (!in.Bind(name, args, {"attribute", "start"}, 0, slots) || !in.Iterate(input, &items)) return false;
  Value sum = slots[1] != nullptr ? *slots[1] : Value(0);
  for (const Value& item : items) {
    Value term, total;
    if (!in.Step() || !KeyOf(in, item, slots[0], true, &term)) return false;
    if (!ApplyBinary(in, Op::kAdd, sum, term, &total)) return false;
    sum = std::move(total);
  }
  *out = std::move(sum);
  return true;
}

}  // namespace qrt::text
