#include "runtime/text/decimal.h"

#include <array>
#include <cfenv>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <string_view>
#include <utility>

namespace qrt::text {
namespace {

// While it lives, the calling thread rounds to nearest, also where glibc looks for it: in the x87's word.
class ToNearest {
 public:
  ToNearest() : host_(std::fegetround()) {
    if (host_ != FE_TONEAREST) std::fesetround(FE_TONEAREST);
  }
  ~ToNearest() {
    if (host_ != FE_TONEAREST) std::fesetround(host_);
  }
  ToNearest(const ToNearest&) = delete;
  ToNearest& operator=(const ToNearest&) = delete;

 private:
  const int host_;
};

bool Reads(std::string_view text, double value) {
  double read = 0;
  std::from_chars(text.data(), text.data() + text.size(), read);
  return read == value;
}

// Of a text with a point.
std::string WithoutZeros(std::string text) {
  const size_t e = text.find('e');
  size_t end = text.find_last_not_of('0', e - 1) + 1;
  if (text[end - 1] == '.') --end;
  return text.erase(end, e - end);
}

// With the last digit one higher; empty for a 9, as fewer digits say that.
std::string OneUp(std::string text) {
  char& digit = text[text.find('e') - 1];
  if (digit == '9') return "";
  ++digit;
  return text;
}

}  // namespace

std::string DecimalText(double value, char style, int precision) {
  const ToNearest rounding;
  const char format[] = {'%', '.', '*', style, '\0'};
  std::array<char, 1400> text;  // 309 digits, a separator of a few bytes and 1000 digits
  const int size = std::snprintf(text.data(), text.size(), format, precision, value);
  std::string out(text.data(), static_cast<size_t>(size));
  // What stands between digits is the locale's, of any bytes.
  const size_t begin = out.find_first_not_of("-+0123456789e");
  if (begin == std::string::npos) return out;
  const size_t end = out.find_first_of("0123456789e", begin);
  return out.replace(begin, end - begin, ".");
}

std::string ShortestText(double value) {
  const ToNearest rounding;
  // 15 digits bring back every decimal of as many: one of fewer stands there with zeros behind it.
  constexpr int kKept = 14, kEnough = 16;
  if (value == 0 || std::isnormal(value)) {
    std::string text = DecimalText(value, 'e', kKept);
    if (Reads(text, value)) return WithoutZeros(std::move(text));
    text = DecimalText(value, 'e', kKept + 1);
    if (Reads(text, value)) return text;
    // Above a power of two lies twice as much that is read as it as below: maybe not the closest decimal.
    text = OneUp(std::move(text));
    if (!text.empty() && Reads(text, value)) return text;
    return DecimalText(value, 'e', kEnough);
  }
  // Subnormal numbers have fewer digits, and as much below as above: what is closer is read as well.
  int least = 0, most = kEnough;
  while (least < most) {
    const int middle = (least + most) / 2;
    if (Reads(DecimalText(value, 'e', middle), value)) {
      most = middle;
    } else {
      least = middle + 1;
    }
  }
  return DecimalText(value, 'e', most);
}

}  // namespace qrt::text
