// Values into text: what the template language takes over from Python's formatting.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "runtime/text/decimal.h"
#include "runtime/text/template_filters.h"
#include "runtime/text/unicode.h"

namespace qrt::text {
namespace {

constexpr int kMaxWidth = 1000;

// A field of a format: %-08.3f
struct Field {
  bool left = false, zeros = false, plus = false, space = false;
  int width = 0, precision = -1;
  char type = 0;
};

// Reads what stands behind a '%' at text[*at]; *at goes behind the field.
bool ReadField(Interpreter& in, std::string_view text, size_t* at, Field* field) {
  const auto next = [&] { return *at < text.size() ? text[*at] : '\0'; };
  for (;; ++*at) {
    if (next() == '-') {
      field->left = true;
    } else if (next() == '0') {
      field->zeros = true;
    } else if (next() == '+') {
      field->plus = true;
    } else if (next() == ' ') {
      field->space = true;
    } else {
      break;
    }
  }
  const auto number = [&](int* value) {
    const auto parsed = std::from_chars(text.data() + *at, text.data() + text.size(), *value);
    if (parsed.ec == std::errc::result_out_of_range) *value = kMaxWidth + 1;
    *at = static_cast<size_t>(parsed.ptr - text.data());
    return *value <= kMaxWidth;
  };
  bool fits = number(&field->width);
  if (next() == '.') {
    ++*at;
    field->precision = 0;
    fits = number(&field->precision) && fits;
  }
  if (!fits) return in.Fail("'format' takes widths up to " + std::to_string(kMaxWidth));
  field->type = next();
  if (field->type == 0 || std::string_view("srdiufFeEgGxXo%").find(field->type) == std::string_view::npos) {
    return in.Fail("'format' does not know this conversion: %" + std::string(field->type != 0, field->type));
  }
  ++*at;
  return true;
}

// Conversions by a capital letter write capital letters.
std::string Case(std::string digits, char type) {
  if (type >= 'a') return digits;
  for (char& c : digits) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return digits;
}

bool FormatNumber(Interpreter& in, const Field& field, const Value& value, std::string* digits) {
  if (!value.is_number()) {
    if (value.is_undefined()) return in.Fail(value.undefined_reason());
    return in.Fail(std::string("'format': %") + field.type + " needs a number, found " + value.type_name());
  }
  const double real = value.as_double();
  if (std::string_view("fFeEgG").find(field.type) != std::string_view::npos) {
    const char style = static_cast<char>(field.type | 0x20);
    const int precision = field.precision < 0 ? 6 : field.precision;
    const std::string text = std::isnan(real)   ? "nan"
                             : std::isinf(real) ? "inf"
                                                : DecimalText(std::fabs(real), style, precision);
    *digits = Case(text, field.type);
    if (std::signbit(real)) digits->insert(0, 1, '-');
    return true;
  }
  const bool whole = field.type == 'd' || field.type == 'i' || field.type == 'u';
  if (value.is_float() && (!whole || !(std::fabs(real) < 9.2e18))) {
    return in.Fail(std::string("'format': %") + field.type + " needs an integer");
  }
  const int64_t integer = value.is_float() ? static_cast<int64_t>(real) : value.as_int();
  const int base = whole ? 10 : field.type == 'o' ? 8 : 16;
  const uint64_t size = integer < 0 ? 0 - static_cast<uint64_t>(integer) : static_cast<uint64_t>(integer);
  std::array<char, 32> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), size, base).ptr;
  *digits = std::string(text.data(), end);
  *digits = Case(std::move(*digits), field.type);
  const auto least = static_cast<size_t>(std::max(field.precision, 0));
  if (digits->size() < least) digits->insert(0, least - digits->size(), '0');
  if (integer < 0) digits->insert(0, 1, '-');
  return true;
}

bool FormatField(Interpreter& in, const Field& field, const Value& value, std::string* out) {
  std::string text;
  const bool number = field.type != 's' && field.type != 'r';
  if (number) {
    if (!FormatNumber(in, field, value, &text)) return false;
    if (text[0] != '-' && (field.plus || field.space)) text.insert(0, 1, field.plus ? '+' : ' ');
  } else {
    const bool ok = field.type == 's' ? in.ToStr(value, &text) : in.AppendRepr(value, &text);
    if (!ok) return false;
    if (field.precision >= 0 && text.size() > static_cast<size_t>(field.precision)) {
      size_t end = 0;
      for (int i = 0; i < field.precision && end < text.size(); ++i) end = NextChar(text, end);
      text.resize(end);
    }
  }
  const size_t chars = CountChars(text);
  if (chars < static_cast<size_t>(field.width)) {
    const size_t pad = static_cast<size_t>(field.width) - chars;
    const bool sign = number && (text[0] == '-' || text[0] == '+' || text[0] == ' ');
    if (field.left) {
      text.append(pad, ' ');
    } else if (field.zeros && number) {
      text.insert(sign ? 1 : 0, pad, '0');
    } else {
      text.insert(0, pad, ' ');
    }
  }
  if (!in.Charge(text.size())) return false;
  if (out->size() + text.size() > in.limits().string_bytes) return in.Fail("a formatted string is too long");
  out->append(text);
  return true;
}

struct Calendar {
  int64_t year;
  int month, day;        // from 1
  int weekday, yearday;  // from 0: Sunday, January 1
  int hour, minute, second;
};

// Years of 365.2425 days that begin in March, so that February's length matters to nothing behind it.
Calendar CalendarOf(int64_t now) {
  Calendar c;
  const int64_t days = now / 86400, seconds = now % 86400;
  c.hour = static_cast<int>(seconds / 3600);
  c.minute = static_cast<int>(seconds / 60 % 60);
  c.second = static_cast<int>(seconds % 60);
  c.weekday = static_cast<int>((days + 4) % 7);
  const int64_t from_march = days + 719468;  // since March 1 of the year 0
  const int64_t era = from_march / 146097, of_era = from_march % 146097;
  const int64_t year_of_era = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
  const int64_t of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  const int64_t shifted = (5 * of_year + 2) / 153;  // the month, from March
  c.day = static_cast<int>(of_year - (153 * shifted + 2) / 5 + 1);
  c.month = static_cast<int>(shifted < 10 ? shifted + 3 : shifted - 9);
  c.year = year_of_era + era * 400 + (c.month <= 2);
  const bool leap = (c.year % 4 == 0 && c.year % 100 != 0) || c.year % 400 == 0;
  // January and February are the last two of such a year.
  c.yearday = static_cast<int>(c.month <= 2 ? of_year - 306 : of_year + 59 + leap);
  return c;
}

constexpr const char* kWeekdays[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                     "Thursday", "Friday", "Saturday"};
constexpr const char* kMonths[] = {"January", "February", "March",     "April",   "May",      "June",
                                   "July",    "August",   "September", "October", "November", "December"};

// The text of one directive; false: there is none of that name. `pad`: whether numbers have their usual
// width.
bool TimeField(const Calendar& c, int64_t now, char directive, bool pad, std::string* out) {
  const auto number = [&](int64_t value, size_t width, char fill = '0') {
    const std::string digits = std::to_string(value);
    if (pad && digits.size() < width) out->append(width - digits.size(), fill);
    out->append(digits);
    return true;
  };
  const auto each = [&](std::string_view format) {
    for (const char d : format) {
      if (std::string_view("/-: ").find(d) != std::string_view::npos) {
        out->push_back(d);
      } else {
        TimeField(c, now, d, true, out);
      }
    }
    return true;
  };
  switch (directive) {
    case 'a':
      return out->append(kWeekdays[c.weekday], 3), true;
    case 'A':
      return out->append(kWeekdays[c.weekday]), true;
    case 'b':
    case 'h':
      return out->append(kMonths[c.month - 1], 3), true;
    case 'B':
      return out->append(kMonths[c.month - 1]), true;
    case 'd':
      return number(c.day, 2);
    case 'e':
      return number(c.day, 2, ' ');
    case 'H':
      return number(c.hour, 2);
    case 'I':
      return number((c.hour + 11) % 12 + 1, 2);
    case 'j':
      return number(c.yearday + 1, 3);
    case 'm':
      return number(c.month, 2);
    case 'M':
      return number(c.minute, 2);
    case 'p':
      return out->append(c.hour < 12 ? "AM" : "PM"), true;
    case 's':
      return number(now, 1);
    case 'S':
      return number(c.second, 2);
    case 'u':
      return number((c.weekday + 6) % 7 + 1, 1);
    case 'w':
      return number(c.weekday, 1);
    case 'y':
      return number(c.year % 100, 2);
    case 'Y':
      return number(c.year, 1);
    case 'z':
      return out->append("+0000"), true;
    case 'Z':
      return out->append("UTC"), true;
    case 'c':
      return each("a b e H:M:S Y");
    case 'D':
    case 'x':
      return each("m/d/y");
    case 'F':
      return each("Y-m-d");
    case 'R':
      return each("H:M");
    case 'T':
    case 'X':
      return each("H:M:S");
    case '%':
      return out->push_back('%'), true;
    default:
      return false;
  }
}

}  // namespace

bool Escape(Interpreter& in, std::string_view name, const Value& input, const CallArgs& args, Value* out) {
  std::string text, escaped;
  if (!in.Bind(name, args, {}, 0, nullptr) || !in.ToStr(input, &text)) return false;
  // The longest of what a character becomes.
  if (!in.Charge(5 * text.size())) return false;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&#34;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += c;
    }
  }
  return in.MakeString(std::move(escaped), out);
}

bool Format(Interpreter& in, std::string_view name, const Value& input, const CallArgs& args, Value* out) {
  if (!args.named.empty()) return in.Fail("'" + std::string(name) + "' takes no named values");
  std::string text, formatted;
  if (!in.ToStr(input, &text) || !in.Charge(text.size())) return false;
  size_t used = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t percent = std::min(text.find('%', at), text.size());
    formatted.append(text, at, percent - at);
    at = percent + 1;
    if (percent == text.size()) break;
    Field field;
    if (!in.Step() || !ReadField(in, text, &at, &field)) return false;
    if (field.type == '%') {
      formatted += '%';
      continue;
    }
    if (used == args.positional.size()) return in.Fail("'format' has more fields than values");
    if (!FormatField(in, field, args.positional[used++], &formatted)) return false;
  }
  if (used != args.positional.size()) return in.Fail("'format' has more values than fields");
  return in.MakeString(std::move(formatted), out);
}

bool FormatMethod(Interpreter& in, const std::string& text, const CallArgs& args, Value* out) {
  std::string formatted;
  size_t next = 0;
  for (size_t at = 0; at < text.size();) {
    const char c = text[at++];
    if (c != '{' && c != '}') {
      formatted += c;
      continue;
    }
    if (at < text.size() && text[at] == c) {
      formatted += c;
      ++at;
      continue;
    }
    const size_t close = text.find('}', at);
    if (c == '}' || close == std::string::npos) return in.Fail("'format': a brace stands alone");
    const std::string field = text.substr(at, close - at);
    at = close + 1;
    if (!in.Step() || !in.Charge(field.size())) return false;
    const Value* value = nullptr;
    size_t index = next;
    const auto parsed = std::from_chars(field.data(), field.data() + field.size(), index);
    if (field.empty() || (parsed.ec == std::errc() && parsed.ptr == field.data() + field.size())) {
      if (field.empty()) ++next;
      if (index < args.positional.size()) value = &args.positional[index];
    } else {
      for (const auto& [key, named] : args.named) {
        if (key == field) value = &named;
      }
    }
    if (value == nullptr) return in.Fail("'format' has no value for {" + field.substr(0, 60) + "}");
    if (!in.AppendStr(*value, &formatted)) return false;
  }
  return in.MakeString(std::move(formatted), out);
}

bool FormatTime(Interpreter& in, const CallArgs& args, int64_t now, Value* out) {
  const Value* slots[1];
  if (!in.Bind("strftime_now", args, {"format"}, 1, slots)) return false;
  if (!slots[0]->is_string()) return in.Fail("'strftime_now' needs a string");
  const std::string& format = slots[0]->as_string();
  if (format.size() > kMaxWidth) return in.Fail("'strftime_now' takes formats up to 1000 bytes");
  const Calendar calendar = CalendarOf(now);
  std::string text;
  for (size_t at = 0; at < format.size(); ++at) {
    if (format[at] != '%') {
      text += format[at];
      continue;
    }
    const bool bare = at + 1 < format.size() && format[at + 1] == '-';
    at += bare ? 2 : 1;
    if (at >= format.size() || !TimeField(calendar, now, format[at], !bare, &text)) {
      return in.Fail("'strftime_now' does not know this directive: " + format.substr(0, 60));
    }
  }
  return in.MakeString(std::move(text), out);
}

}  // namespace qrt::text
