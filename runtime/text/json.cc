#include "runtime/text/json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>
#include <vector>

#include "runtime/text/unicode.h"

namespace qrt::text {
namespace {

class Reader {
 public:
  Reader(std::string_view text, std::string* error) : text_(text), error_(error) {}

  bool Document(Value* value) {
    if (!Element(value, 0)) return false;
    Space();
    return pos_ == text_.size() || Fail("unexpected text after the JSON value");
  }

 private:
  bool Fail(const char* what) {
    *error_ = std::string(what) + " at byte " + std::to_string(pos_);
    return false;
  }
  void Space() {
    while (pos_ < text_.size() &&
           (text_[pos_] == ' ' || text_[pos_] == '\n' || text_[pos_] == '\t' || text_[pos_] == '\r')) {
      ++pos_;
    }
  }
  bool Eat(char c) {
    Space();
    if (pos_ >= text_.size() || text_[pos_] != c) return false;
    ++pos_;
    return true;
  }
  bool Word(std::string_view word) {
    if (text_.substr(pos_, word.size()) != word) return false;
    pos_ += word.size();
    return true;
  }

  bool Element(Value* value, uint32_t depth) {
    Space();
    if (pos_ >= text_.size()) return Fail("the JSON text ends where a value is expected");
    switch (text_[pos_]) {
      case '{':
        return Object(value, depth + 1);
      case '[':
        return Array(value, depth + 1);
      case '"': {
        std::string s;
        if (!String(&s)) return false;
        *value = Value(std::move(s));
        return true;
      }
      default:
        break;
    }
    if (Word("true")) return *value = Value(true), true;
    if (Word("false")) return *value = Value(false), true;
    if (Word("null")) return *value = Value::None(), true;
    return Number(value);
  }

  bool Object(Value* value, uint32_t depth) {
    if (depth > Value::kMaxNesting) return Fail("JSON nested too deeply");
    ++pos_;
    std::vector<Value::Entry> entries;
    if (!Eat('}')) {
      do {
        Space();
        Value::Entry entry;
        if (pos_ >= text_.size() || text_[pos_] != '"') return Fail("expected a string as key");
        if (!String(&entry.first)) return false;
        if (!Eat(':')) return Fail("expected ':'");
        if (!Element(&entry.second, depth)) return false;
        entries.push_back(std::move(entry));
      } while (Eat(','));
      if (!Eat('}')) return Fail("expected ',' or '}'");
    }
    *value = Value::MakeMap(std::move(entries));
    return true;
  }

  bool Array(Value* value, uint32_t depth) {
    if (depth > Value::kMaxNesting) return Fail("JSON nested too deeply");
    ++pos_;
    std::vector<Value> items;
    if (!Eat(']')) {
      do {
        Value item;
        if (!Element(&item, depth)) return false;
        items.push_back(std::move(item));
      } while (Eat(','));
      if (!Eat(']')) return Fail("expected ',' or ']'");
    }
    *value = Value::MakeList(std::move(items));
    return true;
  }

  bool Hex4(char32_t* code) {
    if (text_.size() - pos_ < 4) return Fail("cut-off \\u escape");
    const char* begin = text_.data() + pos_;
    uint32_t v = 0;
    const auto [end, ec] = std::from_chars(begin, begin + 4, v, 16);
    if (ec != std::errc() || end != begin + 4) return Fail("bad \\u escape");
    pos_ += 4;
    *code = v;
    return true;
  }

  bool String(std::string* out) {
    ++pos_;
    while (pos_ < text_.size()) {
      const char c = text_[pos_++];
      if (c == '"') return true;
      if (static_cast<unsigned char>(c) < 0x20) return Fail("control character inside a string");
      if (c != '\\') {
        out->push_back(c);
        continue;
      }
      if (pos_ >= text_.size()) break;
      const char escape = text_[pos_++];
      switch (escape) {
        case '"':
        case '\\':
        case '/':
          out->push_back(escape);
          break;
        case 'b':
          out->push_back('\b');
          break;
        case 'f':
          out->push_back('\f');
          break;
        case 'n':
          out->push_back('\n');
          break;
        case 'r':
          out->push_back('\r');
          break;
        case 't':
          out->push_back('\t');
          break;
        case 'u': {
          char32_t code = 0;
          if (!Hex4(&code)) return false;
          if (code >= 0xD800 && code <= 0xDBFF) {
            char32_t low = 0;
            if (!Word("\\u")) return Fail("unpaired surrogate escape");
            if (!Hex4(&low)) return false;
            if (low < 0xDC00 || low > 0xDFFF) return Fail("unpaired surrogate escape");
            code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
          } else if (code >= 0xDC00 && code <= 0xDFFF) {
            return Fail("unpaired surrogate escape");
          }
          AppendUtf8(code, out);
          break;
        }
        default:
          return Fail("unknown escape in a string");
      }
    }
    return Fail("the JSON text ends inside a string");
  }

  bool Number(Value* value) {
    const size_t begin = pos_;
    size_t p = pos_;
    auto digits = [&] {
      const size_t start = p;
      while (p < text_.size() && text_[p] >= '0' && text_[p] <= '9') ++p;
      return p - start;
    };
    if (p < text_.size() && text_[p] == '-') ++p;
    const size_t whole = p;
    if (digits() == 0) return Fail("expected a JSON value");
    if (text_[whole] == '0' && p - whole > 1) return Fail("number with a leading zero");
    bool integral = true;
    if (p < text_.size() && text_[p] == '.') {
      integral = false;
      ++p;
      if (digits() == 0) return Fail("expected digits after '.'");
    }
    if (p < text_.size() && (text_[p] == 'e' || text_[p] == 'E')) {
      integral = false;
      ++p;
      if (p < text_.size() && (text_[p] == '+' || text_[p] == '-')) ++p;
      if (digits() == 0) return Fail("expected digits in the exponent");
    }
    const char* first = text_.data() + begin;
    const char* last = text_.data() + p;
    if (integral) {
      int64_t i = 0;
      if (std::from_chars(first, last, i).ec == std::errc()) {
        pos_ = p;
        *value = Value(i);
        return true;
      }
    }
    double f = 0;
    if (std::from_chars(first, last, f).ec != std::errc()) {
      // Too small rounds to zero; too large has no value.
      long double wide = 0;
      if (std::from_chars(first, last, wide).ec != std::errc() || std::fabs(wide) > 1)
        return Fail("number out of range");
      f = std::copysign(0.0, text_[begin] == '-' ? -1.0 : 1.0);
    }
    pos_ = p;
    *value = integral ? Value::GreatInteger(f, text_.substr(begin, p - begin)) : Value(f);
    return true;
  }

  std::string_view text_;
  std::string* error_;
  size_t pos_ = 0;
};

class Writer {
 public:
  Writer(const JsonStyle& style, size_t max_size, std::string* out, std::string* error)
      : style_(style),
        item_separator_(!style.item_separator.empty() ? style.item_separator
                        : style.indent >= 0           ? ","
                                                      : ", "),
        key_separator_(!style.key_separator.empty() ? style.key_separator : ": "),
        max_size_(max_size),
        out_(out),
        error_(error) {}

  bool Write(const Value& value, int level) {
    if (out_->size() > max_size_) return TooLong();
    switch (value.kind()) {
      case Value::Kind::kNone:
        out_->append("null");
        return true;
      case Value::Kind::kBool:
        out_->append(value.as_bool() ? "true" : "false");
        return true;
      case Value::Kind::kInt:
        out_->append(std::to_string(value.as_int()));
        return true;
      case Value::Kind::kFloat: {
        const double f = value.as_double();
        out_->append(std::isnan(f)   ? "NaN"
                     : std::isinf(f) ? (f < 0 ? "-Infinity" : "Infinity")
                                     : value.float_text());
        return true;
      }
      case Value::Kind::kString:
        return String(value.as_string());
      case Value::Kind::kList: {
        const auto& items = value.as_list().items;
        if (items.empty()) return out_->append("[]"), true;
        out_->push_back('[');
        for (size_t i = 0; i < items.size(); ++i) {
          if (i != 0) out_->append(item_separator_);
          Line(level + 1);
          if (!Write(items[i], level + 1)) return false;
        }
        Line(level);
        out_->push_back(']');
        return true;
      }
      case Value::Kind::kMap:
        return Object(value.as_map(), level);
      default:
        *error_ = value.is_undefined() ? value.undefined_reason() + ", which JSON cannot express"
                                       : std::string("a ") + value.type_name() + " cannot be written as JSON";
        return false;
    }
  }

 private:
  bool TooLong() {
    *error_ = "the JSON text is longer than the limit of " + std::to_string(max_size_) + " bytes";
    return false;
  }

  void Line(int level) {
    if (style_.indent < 0) return;
    out_->push_back('\n');
    out_->append(static_cast<size_t>(style_.indent) * static_cast<size_t>(level), ' ');
  }

  bool Object(const Value::Map& map, int level) {
    if (map.entries.empty()) return out_->append("{}"), true;
    std::vector<const Value::Entry*> order;
    order.reserve(map.entries.size());
    for (const auto& entry : map.entries) order.push_back(&entry);
    if (style_.sort_keys) {
      std::sort(order.begin(), order.end(), [](auto* a, auto* b) { return a->first < b->first; });
    }
    out_->push_back('{');
    for (size_t i = 0; i < order.size(); ++i) {
      if (i != 0) out_->append(item_separator_);
      Line(level + 1);
      if (!String(order[i]->first)) return false;
      out_->append(key_separator_);
      if (!Write(order[i]->second, level + 1)) return false;
    }
    Line(level);
    out_->push_back('}');
    return true;
  }

  void Escape(uint32_t unit) {
    static constexpr char kHex[] = "0123456789abcdef";
    out_->append("\\u");
    for (int shift = 12; shift >= 0; shift -= 4) out_->push_back(kHex[unit >> shift & 15]);
  }

  bool String(std::string_view s) {
    if (s.size() > max_size_) return TooLong();
    out_->push_back('"');
    for (size_t i = 0; i < s.size(); ++i) {
      if (out_->size() > max_size_) return TooLong();  // a character becomes up to six
      const unsigned char c = static_cast<unsigned char>(s[i]);
      switch (c) {
        case '"':
          out_->append("\\\"");
          break;
        case '\\':
          out_->append("\\\\");
          break;
        case '\n':
          out_->append("\\n");
          break;
        case '\r':
          out_->append("\\r");
          break;
        case '\t':
          out_->append("\\t");
          break;
        case '\b':
          out_->append("\\b");
          break;
        case '\f':
          out_->append("\\f");
          break;
        default:
          if (c < 0x20 || (c == 0x7F && style_.ensure_ascii)) {
            Escape(c);
          } else if (c >= 0x80 && style_.ensure_ascii) {
            const size_t n = Utf8SequenceLength(s, i);
            const char32_t code = n == 0 ? 0xFFFD : DecodeUtf8(s, i, n);
            if (code >= 0x10000) {
              Escape(0xD800 + ((code - 0x10000) >> 10));
              Escape(0xDC00 + ((code - 0x10000) & 0x3FF));
            } else {
              Escape(code);
            }
            if (n > 1) i += n - 1;
          } else {
            out_->push_back(static_cast<char>(c));
          }
      }
    }
    out_->push_back('"');
    return out_->size() <= max_size_ || TooLong();
  }

  const JsonStyle& style_;
  std::string item_separator_, key_separator_;
  size_t max_size_;
  std::string* out_;
  std::string* error_;
};

}  // namespace

bool ParseJson(std::string_view text, Value* value, std::string* error) {
  return Reader(text, error).Document(value);
}

bool AppendJson(const Value& value, const JsonStyle& style, size_t max_size, std::string* out,
                std::string* error) {
  if (!Writer(style, max_size, out, error).Write(value, 0)) return false;
  if (out->size() > max_size) {
    *error = "the JSON text is longer than the limit of " + std::to_string(max_size) + " bytes";
    return false;
  }
  return true;
}

}  // namespace qrt::text
