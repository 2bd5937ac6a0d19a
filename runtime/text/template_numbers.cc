// Filters of numbers.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <system_error>

#include "runtime/text/decimal.h"
#include "runtime/text/template_filters.h"
#include "runtime/text/template_interpreter.h"
#include "runtime/text/unicode.h"

namespace qrt::text {
namespace {

// Reading a text as a number: white space at its ends, and the digits up to twice.
bool ChargeNumber(Interpreter& in, const Value& input) {
  return !input.is_string() || in.Charge(4 * input.as_string().size());
}

bool IsDigitOfAnyBase(char c) {
  return IsAsciiDigit(c) || (AsciiLower(c) >= 'a' && AsciiLower(c) <= 'z');
}

// A number as std::from_chars reads it: no white space, no '+', no 0x where `prefix` is 'x', no '_' between
// digits. Empty where Python would not read one.
std::string Bare(std::string_view text, bool (*digit)(char), char prefix = 0) {
  text = Strip(text, true, true);
  std::string bare;
  if (!text.empty() && (text[0] == '+' || text[0] == '-')) {
    if (text[0] == '-') bare = "-";
    text.remove_prefix(1);
  }
  if (prefix != 0 && text.size() > 2 && text[0] == '0' && AsciiLower(text[1]) == prefix)
    text.remove_prefix(text[2] == '_' ? 3 : 2);
  if (text.starts_with('-')) return "";
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      bare += text[i];
    } else if (i == 0 || i + 1 == text.size() || !digit(text[i - 1]) || !digit(text[i + 1])) {
      return "";
    }
  }
  return bare;
}

bool ParseFloat(std::string_view text, double* value) {
  const std::string bare = Bare(text, IsAsciiDigit);
  const auto parsed = std::from_chars(bare.data(), bare.data() + bare.size(), *value);
  return parsed.ec == std::errc() && parsed.ptr == bare.data() + bare.size();
}

// What std::from_chars says of all of the text; invalid_argument where it is no integer.
std::errc ParseInt(std::string_view text, int base, int64_t* value) {
  const char prefix = base == 16 ? 'x' : base == 8 ? 'o' : base == 2 ? 'b' : 0;
  const std::string bare = Bare(text, IsDigitOfAnyBase, prefix);
  const auto parsed = std::from_chars(bare.data(), bare.data() + bare.size(), *value, base);
  return parsed.ptr == bare.data() + bare.size() ? parsed.ec : std::errc::invalid_argument;
}

}  // namespace

bool Abs(Interpreter& in, std::string_view name, const Value& input, const CallArgs& args, Value* out) {
  if (!in.Bind(name, args, {}, 0, nullptr)) return false;
  if (!input.is_number()) return in.Fail(std::string("'abs' needs a number, found ") + input.type_name());
  if (input.is_float()) {
    *out = Value(std::fabs(input.as_double()));
    return true;
  }
  if (input.as_int() == INT64_MIN) return in.Fail("integer overflow in 'abs'");
  *out = Value(input.as_int() < 0 ? -input.as_int() : input.as_int());
  return true;
}

bool Int(Interpreter& in, std::string_view name, const Value& input, const CallArgs& args, Value* out) {
  const Value* slots[2];
  if (!in.Bind(name, args, {"default", "base"}, 0, slots)) return false;
  int64_t base = 10;
  if (slots[1] != nullptr) {
    if (!slots[1]->is_int()) return in.Fail("'int' needs an integer base");
    base = slots[1]->as_int();
    if (base < 2 || base > 36) return in.Fail("'int' needs a base of 2 to 36");
  }
  if (!ChargeNumber(in, input)) return false;
  *out = slots[0] != nullptr ? *slots[0] : Value(0);
  double number = 0;
  if (input.is_int() || input.is_bool()) {
    *out = Value(input.as_int());
    return true;
  }
  if (input.is_float()) {
    number = input.as_double();
  } else if (input.is_string()) {
    int64_t value = 0;
    const std::errc error = ParseInt(input.as_string(), static_cast<int>(base), &value);
    if (error == std::errc::result_out_of_range) return in.Fail("integer overflow in 'int'");
    if (error == std::errc()) {
      *out = Value(value);
      return true;
    }
    if (!ParseFloat(input.as_string(), &number)) return true;
  } else {
    return true;
  }
  if (!std::isfinite(number)) return true;
  if (!(std::fabs(number) < 9.2e18)) return in.Fail("integer overflow in 'int'");
  *out = Value(static_cast<int64_t>(number));
  return true;
}

bool Float(Interpreter& in, std::string_view name, const Value& input, const CallArgs& args, Value* out) {
  const Value* slots[1];
  if (!in.Bind(name, args, {"default"}, 0, slots) || !ChargeNumber(in, input)) return false;
  double number = 0;
  if (input.is_number()) {
    *out = Value(input.as_double());
  } else if (input.is_string() && ParseFloat(input.as_string(), &number)) {
    *out = Value(number);
  } else {
    *out = slots[0] != nullptr ? *slots[0] : Value(0.0);
  }
  return true;
}

namespace {

// To the nearest multiple of 10^places, of two the even one.
bool RoundInt(Interpreter& in, int64_t value, int64_t places, Value* out) {
  int64_t unit = 1, rounded = 0;
  for (int64_t i = 0; i < places; ++i) unit *= 10;
  int64_t count = value / unit;
  const int64_t rest = std::abs(value % unit), half = unit / 2;
  if (places > 0 && (rest > half || (rest == half && count % 2 != 0))) count += value < 0 ? -1 : 1;
  if (__builtin_mul_overflow(count, unit, &rounded)) return in.Fail("integer overflow in 'round'");
  *out = Value(rounded);
  return true;
}

}  // namespace

bool Round(Interpreter& in, std::string_view name, const Value& input, const CallArgs& args, Value* out) {
  const Value* slots[2];
  if (!in.Bind(name, args, {"precision", "method"}, 0, slots)) return false;
  if (!input.is_number()) return in.Fail(std::string("'round' needs a number, found ") + input.type_name());
  const bool whole = slots[0] == nullptr || slots[0]->is_int() || slots[0]->is_bool();
  const int64_t precision = slots[0] != nullptr && whole ? slots[0]->as_int() : 0;
  const int64_t least = input.is_float() ? 0 : -15;
  if (!whole || precision < least || precision > 15)
    return in.Fail("'round' needs a precision of " + std::to_string(least) + " to 15");
  const std::string method = slots[1] != nullptr && slots[1]->is_string() ? slots[1]->as_string() : "common";
  const double x = input.as_double(), scale = std::pow(10.0, static_cast<double>(precision));
  if (method == "common" && !input.is_float()) {
    return RoundInt(in, input.as_int(), std::max<int64_t>(-precision, 0), out);
  } else if (method == "ceil") {
    *out = Value((std::ceil(x * scale) + 0.0) / scale);  // 0, not -0
  } else if (method == "floor") {
    *out = Value(std::floor(x * scale) / scale);
  } else if (method == "common") {
    // To the nearest, as decimals, ties to even: what printing does.
    double rounded = x;
    if (std::isfinite(x)) {
      const std::string text = DecimalText(x, 'f', static_cast<int>(precision));
      std::from_chars(text.data(), text.data() + text.size(), rounded);
    }
    *out = Value(rounded);
  } else {
    return in.Fail("'round' knows the methods common, ceil and floor");
  }
  return true;
}

}  // namespace qrt::text
