#include "runtime/text/nfc.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "runtime/text/unicode.h"

namespace qrt::text {
namespace {

#include "runtime/text/nfc_tables.inc"

constexpr uint64_t kPart = (1 << 21) - 1;

// Hangul syllables are made of a leading consonant, a vowel and maybe a trailing consonant, by arithmetic.
constexpr char32_t kSyllables = 0xAC00, kLeads = 0x1100, kVowels = 0x1161, kTails = 0x11A7;
constexpr uint32_t kVowelCount = 21, kTailCount = 28, kSyllableCount = 19 * kVowelCount * kTailCount;

// The range of a table of ranges (first << 11 | what belongs to it) that may hold `c`; null: none does.
template <size_t N>
const uint32_t* RangeAt(const uint32_t (&table)[N], char32_t c) {
  const uint32_t* it = std::upper_bound(std::begin(table), std::end(table), static_cast<uint32_t>(c),
                                        [](uint32_t x, uint32_t entry) { return x < entry >> 11; });
  return it == std::begin(table) ? nullptr : it - 1;
}

// A starter in form C that what comes before it does not change.
bool IsSettled(char32_t c) {
  if (c < 0x300 || (kUnsettledPages[c >> 14] >> (c >> 8) % 64 & 1) == 0) return true;
  const uint32_t* range = RangeAt(kUnsettled, c);
  return range == nullptr || c - (*range >> 11) > (*range & 0x7FF);
}

uint8_t ClassOf(char32_t c) {
  if (c < 0x300) return 0;
  const uint32_t* range = RangeAt(kClasses, c);
  if (range == nullptr || c - (*range >> 11) > (*range >> 8 & 7)) return 0;
  return static_cast<uint8_t>(*range);
}

// The character that `a` and `b` make; 0: none.
char32_t Compose(char32_t a, char32_t b) {
  const uint32_t lead = a - kLeads, vowel = b - kVowels, syllable = a - kSyllables, tail = b - kTails;
  if (lead < 19 && vowel < kVowelCount) return kSyllables + (lead * kVowelCount + vowel) * kTailCount;
  if (syllable < kSyllableCount && syllable % kTailCount == 0 && tail - 1 < kTailCount - 1) return a + tail;
  const uint64_t wanted = uint64_t{a} << 21 | b;
  const auto parts = [](uint16_t at) { return kParts[at] & (kPart << 21 | kPart); };
  const uint16_t* it = std::lower_bound(std::begin(kComposed), std::end(kComposed), wanted,
                                        [&](uint16_t at, uint64_t x) { return parts(at) < x; });
  return it != std::end(kComposed) && parts(*it) == wanted ? static_cast<char32_t>(kParts[*it] >> 42) : 0;
}

// A starter and what may combine with it.
class Segment {
 public:
  bool empty() const { return characters_.empty(); }
  void Add(char32_t c) { characters_.push_back(c); }

  // Appends it in form C and empties it.
  void Flush(std::string* out) {
    if (characters_.size() == 1 && IsSettled(characters_[0])) {
      AppendUtf8(characters_[0], out);
    } else if (!characters_.empty()) {
      marks_.clear();
      for (const char32_t c : characters_) Decompose(c);
      Order();
      Combine();
      for (const Mark& mark : marks_) AppendUtf8(mark.character, out);
    }
    characters_.clear();
  }

 private:
  struct Mark {
    char32_t character;
    uint8_t order;  // combining class; 0: a starter
  };

  void Decompose(char32_t c) {
    const uint32_t syllable = c - kSyllables;
    if (syllable < kSyllableCount) {
      marks_.push_back({kLeads + syllable / kTailCount / kVowelCount, 0});
      marks_.push_back({kVowels + syllable / kTailCount % kVowelCount, 0});
      if (syllable % kTailCount != 0) marks_.push_back({kTails + syllable % kTailCount, 0});
      return;
    }
    const uint64_t* it = std::lower_bound(std::begin(kParts), std::end(kParts), uint64_t{c} << 42);
    if (it == std::end(kParts) || *it >> 42 != c) {
      marks_.push_back({c, ClassOf(c)});
      return;
    }
    // Few steps deep.
    Decompose(static_cast<char32_t>(*it >> 21 & kPart));
    if ((*it & kPart) != 0) Decompose(static_cast<char32_t>(*it & kPart));
  }

  void Order() {
    for (size_t begin = 0; begin < marks_.size();) {
      size_t end = begin + 1;
      while (end < marks_.size() && marks_[end].order != 0) ++end;
      const auto first = marks_.begin() + static_cast<std::ptrdiff_t>(begin + (marks_[begin].order == 0));
      std::stable_sort(first, marks_.begin() + static_cast<std::ptrdiff_t>(end),
                       [](const Mark& a, const Mark& b) { return a.order < b.order; });
      begin = end;
    }
  }

  void Combine() {
    size_t kept = 0, starter = 0;
    bool has_starter = false;
    for (const Mark mark : marks_) {
      // Nothing between the two that has no lower class.
      const bool open = has_starter && (kept - 1 == starter ||
                                        (marks_[kept - 1].order != 0 && marks_[kept - 1].order < mark.order));
      const char32_t whole = open ? Compose(marks_[starter].character, mark.character) : 0;
      if (whole != 0) {
        marks_[starter].character = whole;
        continue;
      }
      if (mark.order == 0) {
        starter = kept;
        has_starter = true;
      }
      marks_[kept++] = mark;
    }
    marks_.resize(kept);
  }

  std::vector<char32_t> characters_;
  std::vector<Mark> marks_;
};

}  // namespace

std::string_view NormalizeNfc(std::string_view text, std::string* storage) {
  // All before `done` is in form C whatever follows; the character there may combine with the next ones.
  size_t done = 0, pos = 0;
  for (;;) {
    const size_t ascii = AsciiRun(text, pos);
    if (ascii != 0) done = pos + ascii - 1;
    pos += ascii;
    if (pos == text.size()) return text;
    const size_t length = Utf8SequenceLength(text, pos);
    if (length != 0 && !IsSettled(DecodeUtf8(text, pos, length))) break;
    done = length != 0 ? pos : pos + 1;
    pos += std::max<size_t>(length, 1);
  }
  storage->assign(text.substr(0, done));
  Segment segment;
  for (pos = done; pos < text.size();) {
    const size_t length = Utf8SequenceLength(text, pos);
    if (length == 0) {
      segment.Flush(storage);
      storage->push_back(text[pos++]);
      continue;
    }
    const char32_t c = DecodeUtf8(text, pos, length);
    if (IsSettled(c)) segment.Flush(storage);
    segment.Add(c);
    pos += length;
  }
  segment.Flush(storage);
  return *storage;
}

}  // namespace qrt::text
