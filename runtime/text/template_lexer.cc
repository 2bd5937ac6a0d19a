#include "runtime/text/template_lexer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "runtime/text/unicode.h"

namespace qrt::text {
namespace {

// Names end up in messages about undefined values, which a loop may make many times.
constexpr size_t kMaxNameBytes = 255;

std::string NormalizeNewlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out.push_back('\n');
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out.push_back(source[i]);
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

bool IsNameStart(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}
bool IsNameChar(char c) {
  return IsNameStart(c) || IsAsciiDigit(c);
}

class Lexer {
 public:
  Lexer(std::string_view source, std::vector<Token>* tokens, TemplateError* error)
      : source_(source), tokens_(tokens), error_(error) {}

  bool Run() {
    while (pos_ < source_.size()) {
      const size_t open = FindOpen(pos_);
      if (open == std::string_view::npos) {
        Text(source_.substr(pos_));
        Advance(source_.size());
        break;
      }
      const char kind = source_[open + 1];
      const char sign = open + 2 < source_.size() ? source_[open + 2] : '\0';
      std::string_view text = source_.substr(pos_, open - pos_);
      if (sign == '-') {
        text = Strip(text, false, true);
      } else if (sign != '+' && kind != '{') {
        const size_t newline = text.rfind('\n');
        const size_t line_begin = newline == std::string_view::npos ? 0 : newline + 1;
        // A tag that follows another tag on the same line keeps the blanks between them.
        if ((line_begin > 0 || at_line_start_) && Strip(text.substr(line_begin), true, true).empty()) {
          text = text.substr(0, line_begin);
        }
      }
      Text(text);
      line_ += static_cast<int>(std::count(source_.begin() + pos_, source_.begin() + open, '\n'));
      pos_ = open + 2;
      if (sign == '-' || sign == '+') ++pos_;
      bool ok;
      if (kind == '#') {
        ok = Comment();
      } else if (kind == '%' && IsRaw()) {
        ok = Raw();
      } else {
        Push(kind == '%' ? TokenKind::kBlockBegin : TokenKind::kVariableBegin);
        ok = Tag(kind == '%');
      }
      if (!ok) return false;
      at_line_start_ = pos_ > 0 && source_[pos_ - 1] == '\n';
    }
    Push(TokenKind::kEnd);
    return true;
  }

 private:
  bool Fail(int line, std::string message) {
    error_->line = line;
    error_->message = std::move(message);
    return false;
  }

  Token& Push(TokenKind kind) {
    tokens_->emplace_back();
    tokens_->back().kind = kind;
    tokens_->back().line = line_;
    return tokens_->back();
  }

  void Text(std::string_view text) {
    if (!text.empty()) Push(TokenKind::kText).text = std::string(text);
  }

  size_t FindOpen(size_t from) const {
    for (size_t p = source_.find('{', from); p != std::string_view::npos; p = source_.find('{', p + 1)) {
      if (p + 1 < source_.size() && (source_[p + 1] == '{' || source_[p + 1] == '%' || source_[p + 1] == '#'))
        return p;
    }
    return std::string_view::npos;
  }

  // Moves to `end`, counting lines.
  void Advance(size_t end) {
    line_ += static_cast<int>(std::count(source_.begin() + pos_, source_.begin() + end, '\n'));
    pos_ = end;
  }

  size_t SkipSpace(size_t p) const {
    while (p < source_.size()) {
      const size_t n = Utf8SequenceLength(source_, p);
      if (n == 0 || !IsPythonSpace(DecodeUtf8(source_, p, n))) break;
      p += n;
    }
    return p;
  }

  // After a closing tag whose sign was `sign`, skips what the white space rules drop.
  void AfterClose(char sign, bool trim_newline) {
    if (sign == '-') {
      Advance(SkipSpace(pos_));
    } else if (sign != '+' && trim_newline && pos_ < source_.size() && source_[pos_] == '\n') {
      Advance(pos_ + 1);
    }
  }

  bool Comment() {
    const int line = line_;
    const size_t close = source_.find("#}", pos_);
    if (close == std::string_view::npos) return Fail(line, "comment is never closed with '#}'");
    const char sign = close > pos_ ? source_[close - 1] : '\0';
    Advance(close + 2);
    AfterClose(sign, true);
    return true;
  }

  // Does the block tag whose content starts at pos_ say exactly `word`? Gives the position after its "%}" and
  // its sign.
  bool SimpleTag(size_t p, std::string_view word, size_t* after, char* sign) const {
    p = SkipSpace(p);
    if (source_.substr(p, word.size()) != word) return false;
    p = SkipSpace(p + word.size());
    *sign = '\0';
    if (p < source_.size() && (source_[p] == '-' || source_[p] == '+')) *sign = source_[p++];
    if (source_.substr(p, 2) != "%}") return false;
    *after = p + 2;
    return true;
  }

  bool IsRaw() const {
    size_t after;
    char sign;
    return SimpleTag(pos_, "raw", &after, &sign);
  }

  bool Raw() {
    const int line = line_;
    size_t after = 0;
    char sign = 0;
    SimpleTag(pos_, "raw", &after, &sign);
    Advance(after);
    AfterClose(sign, false);
    for (size_t p = source_.find("{%", pos_); p != std::string_view::npos; p = source_.find("{%", p + 2)) {
      size_t inside = p + 2;
      const char open_sign = inside < source_.size() ? source_[inside] : '\0';
      if (open_sign == '-' || open_sign == '+') ++inside;
      if (!SimpleTag(inside, "endraw", &after, &sign)) continue;
      std::string_view text = source_.substr(pos_, p - pos_);
      if (open_sign == '-') {
        text = Strip(text, false, true);
      } else if (open_sign != '+') {
        const size_t newline = text.rfind('\n');
        if (newline != std::string_view::npos && Strip(text.substr(newline + 1), true, true).empty()) {
          text = text.substr(0, newline + 1);
        }
      }
      Text(text);
      Advance(after);
      AfterClose(sign, true);
      return true;
    }
    return Fail(line, "'raw' is never closed with 'endraw'");
  }

  // The inside of {{ }} or {% %}, up to and including the closing marker.
  bool Tag(bool block) {
    const int begin_line = line_;
    const std::string_view close = block ? "%}" : "}}";
    std::string brackets;
    for (;;) {
      Advance(SkipSpace(pos_));
      if (pos_ >= source_.size()) {
        return Fail(begin_line, std::string("tag is never closed with '") + std::string(close) + "'");
      }
      if (brackets.empty()) {
        char sign = source_[pos_];
        if (sign != '-' && !(block && sign == '+')) sign = '\0';
        if (source_.substr(pos_ + (sign != 0), 2) == close) {
          Push(block ? TokenKind::kBlockEnd : TokenKind::kVariableEnd);
          pos_ += 2 + (sign != 0);
          AfterClose(sign, block);
          return true;
        }
      }
      const char c = source_[pos_];
      if (IsAsciiDigit(c)) {
        if (!Number()) return false;
      } else if (IsNameStart(c)) {
        const size_t begin = pos_;
        while (pos_ < source_.size() && IsNameChar(source_[pos_])) ++pos_;
        if (pos_ - begin > kMaxNameBytes) {
          return Fail(line_, "a name is longer than " + std::to_string(kMaxNameBytes) + " bytes");
        }
        Push(TokenKind::kName).text = std::string(source_.substr(begin, pos_ - begin));
      } else if (c == '"' || c == '\'') {
        if (!String(c)) return false;
      } else if (!Operator(&brackets)) {
        return false;
      }
    }
  }

  bool Number() {
    size_t p = pos_;
    std::string digits;
    auto run = [&](auto accept) {
      const size_t start = digits.size();
      while (p < source_.size() && (accept(source_[p]) || (source_[p] == '_' && digits.size() > start))) {
        if (source_[p] != '_') digits.push_back(source_[p]);
        ++p;
      }
      return digits.size() > start;
    };
    int base = 10;
    if (source_[p] == '0' && p + 1 < source_.size()) {
      const char mark = static_cast<char>(source_[p + 1] | 0x20);
      if (mark == 'x') base = 16;
      if (mark == 'o') base = 8;
      if (mark == 'b') base = 2;
    }
    bool is_float = false;
    if (base != 10) {
      p += 2;
      const bool any = run([base](char c) {
        if (IsAsciiDigit(c)) return c - '0' < base;
        const char lower = static_cast<char>(c | 0x20);
        return base == 16 && lower >= 'a' && lower <= 'f';
      });
      if (!any) return Fail(line_, "number without digits");
    } else {
      run(IsAsciiDigit);
      // "1.5" is a float, "1.x" an attribute of an int.
      if (p + 1 < source_.size() && source_[p] == '.' && IsAsciiDigit(source_[p + 1])) {
        is_float = true;
        digits.push_back('.');
        ++p;
        run(IsAsciiDigit);
      }
      if (p < source_.size() && (source_[p] | 0x20) == 'e') {
        size_t q = p + 1;
        if (q < source_.size() && (source_[q] == '+' || source_[q] == '-')) ++q;
        if (q < source_.size() && IsAsciiDigit(source_[q])) {
          is_float = true;
          digits.push_back('e');
          if (source_[p + 1] == '-') digits.push_back('-');
          p = q;
          run(IsAsciiDigit);
        }
      }
    }
    const char* first = digits.data();
    const char* last = first + digits.size();
    Token& token = Push(is_float ? TokenKind::kFloat : TokenKind::kInt);
    token.text = digits;
    std::errc ec;
    if (is_float) {
      double f = 0;
      ec = std::from_chars(first, last, f).ec;
      token.number = Value(f);
    } else {
      int64_t i = 0;
      ec = std::from_chars(first, last, i, base).ec;
      token.number = Value(i);
    }
    if (ec != std::errc()) return Fail(line_, "number '" + digits.substr(0, 40) + "' is out of range");
    pos_ = p;
    return true;
  }

  bool String(char quote) {
    const int line = line_;
    std::string text;
    size_t p = pos_ + 1;
    for (; p < source_.size() && source_[p] != quote; ++p) {
      if (source_[p] != '\\' || p + 1 >= source_.size()) {
        text.push_back(source_[p]);
        continue;
      }
      const char c = source_[++p];
      switch (c) {
        case 'n':
          text.push_back('\n');
          break;
        case 't':
          text.push_back('\t');
          break;
        case 'r':
          text.push_back('\r');
          break;
        case 'a':
          text.push_back('\a');
          break;
        case 'b':
          text.push_back('\b');
          break;
        case 'f':
          text.push_back('\f');
          break;
        case 'v':
          text.push_back('\v');
          break;
        case '\\':
        case '\'':
        case '"':
          text.push_back(c);
          break;
        case '\n':
          break;
        case 'x':
        case 'u':
        case 'U': {
          const size_t count = c == 'x' ? 2 : c == 'u' ? 4 : 8;
          uint32_t code = 0;
          const char* begin = source_.data() + p + 1;
          const bool enough = source_.size() - p - 1 >= count;
          const auto result = enough ? std::from_chars(begin, begin + count, code, 16)
                                     : std::from_chars_result{begin, std::errc::invalid_argument};
          if (result.ec != std::errc() || result.ptr != begin + count || code > 0x10FFFF ||
              (code >= 0xD800 && code <= 0xDFFF)) {
            return Fail(line, std::string("bad '\\") + c + "' escape in a string");
          }
          AppendUtf8(code, &text);
          p += count;
          break;
        }
        default:
          if (c >= '0' && c <= '7') {
            uint32_t code = 0;
            size_t n = 0;
            while (n < 3 && p + n < source_.size() && source_[p + n] >= '0' && source_[p + n] <= '7') {
              code = code * 8 + static_cast<uint32_t>(source_[p + n] - '0');
              ++n;
            }
            AppendUtf8(code, &text);
            p += n - 1;
          } else {
            // As in Python, an unknown escape stands for itself.
            text.push_back('\\');
            text.push_back(c);
          }
      }
    }
    if (p >= source_.size()) return Fail(line, "string is never closed");
    Push(TokenKind::kString).text = std::move(text);
    Advance(p + 1);
    return true;
  }

  bool Operator(std::string* brackets) {
    static constexpr std::array<std::string_view, 6> kLong = {"//", "**", "==", "!=", ">=", "<="};
    static constexpr std::string_view kShort = "+-*/%~[](){}<>=.:|,;";
    std::string_view op = source_.substr(pos_, 2);
    if (std::find(kLong.begin(), kLong.end(), op) == kLong.end()) {
      op = source_.substr(pos_, 1);
      if (kShort.find(op[0]) == std::string_view::npos) {
        const size_t next = NextChar(source_, pos_);
        return Fail(line_, "unexpected character '" + std::string(source_.substr(pos_, next - pos_)) + "'");
      }
      switch (op[0]) {
        case '(':
        case '[':
        case '{':
          brackets->push_back(op[0] == '(' ? ')' : op[0] == '[' ? ']' : '}');
          break;
        case ')':
        case ']':
        case '}':
          if (brackets->empty() || brackets->back() != op[0]) {
            return Fail(line_,
                        std::string("unexpected '") + op[0] + "'" +
                            (brackets->empty() ? "" : std::string(", expected '") + brackets->back() + "'"));
          }
          brackets->pop_back();
          break;
        default:
          break;
      }
    }
    Push(TokenKind::kOperator).text = std::string(op);
    pos_ += op.size();
    return true;
  }

  std::string_view source_;
  std::vector<Token>* tokens_;
  TemplateError* error_;
  size_t pos_ = 0;
  int line_ = 1;
  bool at_line_start_ = true;
};

}  // namespace

bool LexTemplate(std::string_view source, std::vector<Token>* tokens, TemplateError* error) {
  const std::string normalized = NormalizeNewlines(source);
  return Lexer(normalized, tokens, error).Run();
}

}  // namespace qrt::text
