#include "runtime/text/unicode.h"

#include <algorithm>
#include <bitset>
#include <cstring>
#include <iterator>

namespace qrt::text {
namespace {

// What the bytes at text[pos..] are: a whole sequence (whole > 0), or an ill-formed part of `part` bytes;
// `cut` says that the part runs into the end of the text and more bytes could still complete it.
struct Scan {
  size_t whole = 0;
  size_t part = 0;
  bool cut = false;
};

Scan ScanAt(std::string_view text, size_t pos) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(pos);
  if (lead < 0x80) return {1, 0, false};
  size_t need;
  unsigned char low = 0x80,
                high = 0xBF;  // range of the second byte, which excludes overlong forms and surrogates
  if (lead >= 0xC2 && lead <= 0xDF) {
    need = 2;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    need = 3;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    need = 4;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  } else {
    return {0, 1, false};
  }
  for (size_t i = 1; i < need; ++i) {
    if (pos + i >= text.size()) return {0, i, true};
    const unsigned char c = byte(pos + i);
    if (c < low || c > high) return {0, i, false};
    low = 0x80;
    high = 0xBF;
  }
  return {need, 0, false};
}

}  // namespace

size_t AsciiRun(std::string_view text, size_t pos) {
  size_t end = pos;
  uint64_t word;  // whole words where possible
  for (; text.size() - end >= sizeof(word); end += sizeof(word)) {
    std::memcpy(&word, text.data() + end, sizeof(word));
    if ((word & 0x8080808080808080u) != 0) break;
  }
  while (end < text.size() && static_cast<unsigned char>(text[end]) < 0x80) ++end;
  return end - pos;
}

size_t Utf8SequenceLength(std::string_view text, size_t pos) {
  return ScanAt(text, pos).whole;
}

char32_t DecodeUtf8(std::string_view text, size_t pos, size_t length) {
  auto byte = [&](size_t i) { return static_cast<char32_t>(static_cast<unsigned char>(text[pos + i])); };
  switch (length) {
    case 2:
      return (byte(0) & 0x1F) << 6 | (byte(1) & 0x3F);
    case 3:
      return (byte(0) & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
    case 4:
      return (byte(0) & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
    default:
      return byte(0);
  }
}

void AppendUtf8(char32_t c, std::string* out) {
  if (c < 0x80) {
    out->push_back(static_cast<char>(c));
  } else if (c < 0x800) {
    out->push_back(static_cast<char>(0xC0 | c >> 6));
    out->push_back(static_cast<char>(0x80 | (c & 0x3F)));
  } else if (c < 0x10000) {
    out->push_back(static_cast<char>(0xE0 | c >> 12));
    out->push_back(static_cast<char>(0x80 | (c >> 6 & 0x3F)));
    out->push_back(static_cast<char>(0x80 | (c & 0x3F)));
  } else {
    out->push_back(static_cast<char>(0xF0 | c >> 18));
    out->push_back(static_cast<char>(0x80 | (c >> 12 & 0x3F)));
    out->push_back(static_cast<char>(0x80 | (c >> 6 & 0x3F)));
    out->push_back(static_cast<char>(0x80 | (c & 0x3F)));
  }
}

size_t NextChar(std::string_view text, size_t pos) {
  const size_t n = ScanAt(text, pos).whole;
  return pos + (n == 0 ? 1 : n);
}

size_t CountChars(std::string_view text) {
  size_t count = 0;
  for (size_t pos = 0; pos < text.size();) {
    const size_t ascii = AsciiRun(text, pos);
    count += ascii;
    pos += ascii;
    if (pos < text.size()) {
      pos = NextChar(text, pos);
      ++count;
    }
  }
  return count;
}

std::vector<size_t> CharOffsets(std::string_view text) {
  std::vector<size_t> offsets;
  offsets.reserve(text.size() + 1);
  for (size_t pos = 0; pos < text.size(); pos = NextChar(text, pos)) offsets.push_back(pos);
  offsets.push_back(text.size());
  return offsets;
}

bool IsPythonSpace(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

namespace {

#include "runtime/text/printable_table.inc"

}  // namespace

bool IsPythonPrintable(char32_t c) {
  const auto* turn =
      std::upper_bound(std::begin(kPrintableTurns), std::end(kPrintableTurns), static_cast<uint32_t>(c));
  return (turn - std::begin(kPrintableTurns)) % 2 == 1;
}

size_t LineBreak(std::string_view text, size_t pos) {
  const auto c = static_cast<unsigned char>(text[pos]);
  if (c == '\r') return text.substr(pos, 2) == "\r\n" ? 2 : 1;
  if ((c >= '\n' && c <= '\f') || (c >= 0x1C && c <= 0x1E)) return 1;
  if (c == 0xC2) return text.substr(pos, 2) == "\xC2\x85" ? 2 : 0;
  if (c != 0xE2) return 0;
  const std::string_view three = text.substr(pos, 3);
  return three == "\xE2\x80\xA8" || three == "\xE2\x80\xA9" ? 3 : 0;
}

namespace {

// The characters of a text (as NextChar cuts it), to be looked up many times.
class CharSet {
 public:
  explicit CharSet(std::string_view chars) {
    for (size_t pos = 0, next = 0; pos < chars.size(); pos = next) {
      next = NextChar(chars, pos);
      const std::string_view c = chars.substr(pos, next - pos);
      if (c.size() == 1) {
        bytes_.set(static_cast<uint8_t>(c[0]));
      } else {
        longer_.push_back(Packed(c));
      }
    }
    std::sort(longer_.begin(), longer_.end());
  }
  bool Has(std::string_view c) const {
    return c.size() == 1 ? bytes_.test(static_cast<uint8_t>(c[0]))
                         : std::binary_search(longer_.begin(), longer_.end(), Packed(c));
  }

 private:
  // The two to four bytes of a character; their lead byte tells how many.
  static uint32_t Packed(std::string_view c) {
    uint32_t packed = 0;
    for (const char byte : c) packed = packed << 8 | static_cast<uint8_t>(byte);
    return packed;
  }

  std::bitset<256> bytes_;
  std::vector<uint32_t> longer_;
};

}  // namespace

std::string_view Strip(std::string_view text, bool left, bool right, const std::string_view* chars) {
  const CharSet set(chars != nullptr ? *chars : std::string_view());
  auto strippable = [&](size_t pos, size_t end) {
    if (chars != nullptr) return set.Has(text.substr(pos, end - pos));
    const size_t n = Utf8SequenceLength(text, pos);
    return n != 0 && IsPythonSpace(DecodeUtf8(text, pos, n));
  };
  size_t begin = 0, end = text.size();
  while (left && begin < end) {
    const size_t next = NextChar(text, begin);
    if (!strippable(begin, next)) break;
    begin = next;
  }
  while (right && end > begin) {
    size_t start = end - 1;
    for (size_t back = 1; back <= 4 && back <= end - begin; ++back) {
      if (Utf8SequenceLength(text.substr(0, end), end - back) == back) {
        start = end - back;
        break;
      }
    }
    if (!strippable(start, end)) break;
    end = start;
  }
  return text.substr(begin, end - begin);
}

void Utf8Stream::Push(std::string_view bytes, std::string* out) {
  std::string joined;
  if (size_ != 0) {
    joined.assign(held_, size_);
    joined.append(bytes);
    bytes = joined;
    size_ = 0;
  }
  size_t pos = 0, copied = 0;
  while (pos < bytes.size()) {
    const Scan scan = ScanAt(bytes, pos);
    if (scan.whole != 0) {
      pos += scan.whole;
      continue;
    }
    out->append(bytes.substr(copied, pos - copied));
    if (scan.cut) {
      size_ = scan.part;
      bytes.copy(held_, size_, pos);
      return;
    }
    out->append("\xEF\xBF\xBD");
    pos += scan.part;
    copied = pos;
  }
  out->append(bytes.substr(copied));
}

void Utf8Stream::Flush(std::string* out) {
  if (size_ != 0) out->append("\xEF\xBF\xBD");
  size_ = 0;
}

}  // namespace qrt::text
