// Values of the chat template language: Python's data model, cut down to what templates use.
#ifndef QRT_TEXT_VALUE_H_
#define QRT_TEXT_VALUE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace qrt::text {

// An immutable, cheaply copied value. Lists and maps are shared, never changed after they are made, and know
// how deeply they nest, so that code which walks them can bound its recursion (kMaxNesting). Strings are
// bytes, normally UTF-8.
class Value {
 public:
  enum class Kind : uint8_t {
    kUndefined,
    kNone,
    kBool,
    kInt,
    kFloat,
    kString,
    kList,
    kMap,
    // The kinds below exist only inside a render.
    kNamespace,
    kLoop,
    kMacro,
    kFunction,
    kMethod,
  };
  using Entry = std::pair<std::string, Value>;
  struct List;
  struct Map;

  // Deepest nesting of lists and maps that ParseJson and the interpreter build.
  static constexpr uint32_t kMaxNesting = 100;

  Value() = default;  // undefined
  Value(bool b) : kind_(Kind::kBool), int_(b) {}
  Value(int i) : kind_(Kind::kInt), int_(i) {}
  Value(int64_t i) : kind_(Kind::kInt), int_(i) {}
  Value(double f) : kind_(Kind::kFloat), float_(f) {}
  Value(std::string s);
  Value(std::string_view s) : Value(std::string(s)) {}
  Value(const char* s) : Value(std::string(s)) {}

  static Value None() { return Value(Kind::kNone, nullptr); }
  // An undefined value that explains itself when it is used: "'x' is undefined".
  static Value Undefined(std::string why);
  // An integer beyond 64 bits: calculated with as the float nearest to it, printed as its `digits`.
  static Value GreatInteger(double nearest, std::string_view digits);
  // `tuple` only changes how the list prints: (1, 2) instead of [1, 2].
  static Value MakeList(std::vector<Value> items, bool tuple = false);
  // Order is kept; of equal keys the first position and the last value stay.
  static Value MakeMap(std::vector<Entry> entries);
  // For the interpreter's own kinds; `nesting` is that of what the object holds.
  static Value MakeObject(Kind kind, std::shared_ptr<const void> object, uint32_t nesting = 0);

  Kind kind() const { return kind_; }
  bool is_undefined() const { return kind_ == Kind::kUndefined; }
  bool is_none() const { return kind_ == Kind::kNone; }
  bool is_bool() const { return kind_ == Kind::kBool; }
  bool is_int() const { return kind_ == Kind::kInt; }
  bool is_float() const { return kind_ == Kind::kFloat; }
  bool is_string() const { return kind_ == Kind::kString; }
  bool is_list() const { return kind_ == Kind::kList; }
  bool is_map() const { return kind_ == Kind::kMap; }
  // Bool, int and float: what arithmetic accepts.
  bool is_number() const { return is_bool() || is_int() || is_float(); }

  // Each accessor requires the matching kind; as_int also reads bools, as_double every number.
  bool as_bool() const { return int_ != 0; }
  int64_t as_int() const { return int_; }
  double as_double() const { return is_float() ? float_ : static_cast<double>(int_); }
  const std::string& as_string() const { return *static_cast<const std::string*>(object_.get()); }
  const List& as_list() const { return *static_cast<const List*>(object_.get()); }
  const Map& as_map() const { return *static_cast<const Map*>(object_.get()); }
  template <typename T>
  const T& object() const {
    return *static_cast<const T*>(object_.get());
  }
  // What a float prints as.
  std::string float_text() const;
  const void* identity() const { return object_.get(); }

  // Levels of lists and maps below and including this one; 0 for scalars.
  uint32_t nesting() const { return nesting_; }
  // What an undefined value says about itself.
  std::string undefined_reason() const;
  // Python's word for the type, for messages: "str", "dict", ...
  const char* type_name() const;

 private:
  Value(Kind kind, std::shared_ptr<const void> object) : kind_(kind), object_(std::move(object)) {}

  Kind kind_ = Kind::kUndefined;
  uint32_t nesting_ = 0;
  union {
    int64_t int_ = 0;
    double float_;
  };
  std::shared_ptr<const void> object_;
};

struct Value::List {
  std::vector<Value> items;
  bool tuple = false;
};

struct Value::Map {
  std::vector<Entry> entries;
  std::vector<uint32_t> by_key;  // entry numbers sorted by key, when there are enough entries to be worth it
  size_t longest_key = 0;

  const Value* Find(std::string_view key) const;
  // The most bytes that Find compares.
  uint64_t FindCost(std::string_view key) const;
};

// Python's repr of a float: the shortest digits that read back, with an exponent below 1e-4 and from 1e16 up.
std::string FormatFloat(double value);

}  // namespace qrt::text

#endif  // QRT_TEXT_VALUE_H_
