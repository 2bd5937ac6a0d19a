#include "runtime/text/value.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>

#include "runtime/text/decimal.h"

namespace qrt::text {
namespace {

// Up to this many entries a linear search beats the sorted index.
constexpr size_t kLinearEntries = 8;

}  // namespace

Value::Value(std::string s)
    : kind_(Kind::kString), object_(std::make_shared<const std::string>(std::move(s))) {}

Value Value::Undefined(std::string why) {
  return Value(Kind::kUndefined, std::make_shared<const std::string>(std::move(why)));
}

Value Value::MakeList(std::vector<Value> items, bool tuple) {
  uint32_t nesting = 0;
  for (const Value& item : items) nesting = std::max(nesting, item.nesting_);
  auto list = std::make_shared<List>();
  list->items = std::move(items);
  list->tuple = tuple;
  Value value(Kind::kList, std::move(list));
  value.nesting_ = nesting + 1;
  return value;
}

Value Value::MakeMap(std::vector<Entry> entries) {
  auto map = std::make_shared<Map>();
  std::vector<uint32_t> order(entries.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<uint32_t>(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return entries[a].first < entries[b].first; });
  std::vector<bool> drop(entries.size(), false);
  bool dropped = false;
  for (size_t i = 1; i < order.size(); ++i) {
    if (entries[order[i]].first != entries[order[i - 1]].first) continue;
    entries[order[i - 1]].second = std::move(entries[order[i]].second);
    drop[order[i]] = true;
    dropped = true;
    // Later duplicates must reach the same first entry.
    order[i] = order[i - 1];
  }
  if (dropped) {
    size_t kept = 0;
    for (size_t i = 0; i < entries.size(); ++i) {
      if (drop[i]) continue;
      if (kept != i) entries[kept] = std::move(entries[i]);
      ++kept;
    }
    entries.resize(kept);
    order.resize(kept);
    for (size_t i = 0; i < kept; ++i) order[i] = static_cast<uint32_t>(i);
    std::sort(order.begin(), order.end(),
              [&](uint32_t a, uint32_t b) { return entries[a].first < entries[b].first; });
  }
  uint32_t nesting = 0;
  for (const Entry& entry : entries) {
    nesting = std::max(nesting, entry.second.nesting_);
    map->longest_key = std::max(map->longest_key, entry.first.size());
  }
  map->entries = std::move(entries);
  if (map->entries.size() > kLinearEntries) map->by_key = std::move(order);
  Value value(Kind::kMap, std::move(map));
  value.nesting_ = nesting + 1;
  return value;
}

Value Value::MakeObject(Kind kind, std::shared_ptr<const void> object, uint32_t nesting) {
  Value value(kind, std::move(object));
  value.nesting_ = nesting;
  return value;
}

const Value* Value::Map::Find(std::string_view key) const {
  if (by_key.empty()) {
    for (const Entry& entry : entries) {
      if (entry.first == key) return &entry.second;
    }
    return nullptr;
  }
  auto it = std::lower_bound(by_key.begin(), by_key.end(), key,
                             [&](uint32_t i, std::string_view k) { return entries[i].first < k; });
  if (it == by_key.end() || entries[*it].first != key) return nullptr;
  return &entries[*it].second;
}

uint64_t Value::Map::FindCost(std::string_view key) const {
  const uint64_t comparisons =
      by_key.empty() ? entries.size() : static_cast<uint64_t>(std::bit_width(by_key.size())) + 1;
  return comparisons * std::min(key.size(), longest_key);
}

std::string Value::undefined_reason() const {
  return object_ ? as_string() : "the value is undefined";
}

const char* Value::type_name() const {
  switch (kind_) {
    case Kind::kUndefined:
      return "undefined";
    case Kind::kNone:
      return "None";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return "str";
    case Kind::kList:
      return as_list().tuple ? "tuple" : "list";
    case Kind::kMap:
      return "dict";
    case Kind::kNamespace:
      return "namespace";
    case Kind::kLoop:
      return "loop";
    case Kind::kMacro:
      return "macro";
    case Kind::kFunction:
      return "function";
    case Kind::kMethod:
      return "method";
  }
  return "value";
}

Value Value::GreatInteger(double nearest, std::string_view digits) {
  Value value(nearest);
  value.object_ = std::make_shared<const std::string>(digits);
  return value;
}

std::string Value::float_text() const {
  return object_ != nullptr ? as_string() : FormatFloat(float_);
}

std::string FormatFloat(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  const std::string shortest = ShortestText(value);
  std::string_view text = shortest;
  std::string out;
  if (text.front() == '-') {
    out.push_back('-');
    text.remove_prefix(1);
  }
  const size_t e = text.find('e');
  std::string digits(text.substr(0, 1));
  if (e > 2) digits.append(text.substr(2, e - 2));
  int exponent = 0;
  const char* exp_begin = text.data() + e + 1;
  if (*exp_begin == '+') ++exp_begin;
  std::from_chars(exp_begin, text.data() + text.size(), exponent);
  const int count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    out.append(digits, 0, 1);
    if (count > 1) out.append(".").append(digits, 1);
    out.append(exponent < 0 ? "e-" : "e+");
    const std::string magnitude = std::to_string(std::abs(exponent));
    if (magnitude.size() < 2) out.push_back('0');
    out.append(magnitude);
  } else if (exponent < 0) {
    out.append("0.").append(static_cast<size_t>(-exponent - 1), '0').append(digits);
  } else if (count <= exponent + 1) {
    out.append(digits).append(static_cast<size_t>(exponent + 1 - count), '0').append(".0");
  } else {
    out.append(digits, 0, static_cast<size_t>(exponent + 1)).append(".").append(digits, exponent + 1);
  }
  return out;
}

}  // namespace qrt::text
