// docs/reference/formats.md is made from the descriptions: the test writes the page anew and compares.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#include "dialects/formats/descriptions.h"
#include "dialects/formats/formats.h"

namespace qcc {
namespace {

std::string Codes(const FormatDescription& d) {
  const PlainForm& p = d.plain;
  std::ostringstream out;
  if (d.layout.book.count != 0) {
    out << d.layout.book.count << " points of " << d.layout.book.width << " weights; " << p.table_size
        << " values: ";
  } else if (p.table_size != 0) {
    out << p.bits << (p.bits == 1 ? " bit: " : " bits: ");
  } else {
    out << (d.layout.trits[0].run != 0 ? "base 3" : std::to_string(p.bits) + " bits");
    out << ", " << p.low() << " to " << (d.ternary && d.layout.trits[0].run != 0 ? 1 : p.high());
    return out.str();
  }
  for (int i = 0; i < p.table_size; ++i) out << (i == 0 ? "" : " ") << static_cast<int>(p.table[i]);
  return out.str();
}

std::string Base(const PlainForm& p) {
  const char* kind = p.base == BaseScale::kHalf   ? "half"
                     : p.base == BaseScale::kE8m0 ? "E8M0"
                                                  : "unsigned E4M3";
  std::ostringstream out;
  out << kind << " per " << p.columns_per_base;
  if (p.factor != 1) out << ", times " << p.factor;
  return out.str();
}

std::string Groups(const FormatDescription& d) {
  const PlainForm& p = d.plain;
  if (p.scale == GroupScale::kNone) return "-";
  const int low = d.layout.scale.bits() == 8 ? -128 : d.layout.scale_plus;
  const int high = low + ((1 << d.layout.scale.bits()) - 1) * d.layout.scale_times;
  std::ostringstream out;
  out << low << " to " << high << (d.layout.scale_times == 2 ? ", odd" : "") << ", per "
      << p.columns_per_scale;
  return out.str();
}

std::string MinimumOf(const FormatDescription& d) {
  switch (d.plain.minimum) {
    case Minimum::kNone:
      return "-";
    case Minimum::kHalf:
      return "+ half";
    case Minimum::kScaled:
      break;
  }
  std::ostringstream out;
  out << "- half * (0 to " << (1 << d.layout.min.bits()) - 1 << ")";
  return out.str();
}

std::string Page() {
  std::ostringstream out;
  out << "# Tensor formats\n\n"
         "Made from `dialects/formats/descriptions.h` by `tests/unit/formats/page_test.cc`, which fails when "
         "this page is "
         "stale.\n\n"
         "A weight is `base * group scale * value`, with a minimum `... + m` or `... - dmin * min`. Products "
         "are exact "
         "in f32, the sum rounds once.\nTwo layouts share id 42: the bytes that a tensor takes tell which it "
         "has.\n\n"
         "| format | GGUF id | weights | bytes | bits per weight | values | base scale | group scale | "
         "minimum |\n"
         "|---|---|---|---|---|---|---|---|---|\n";
  for (const FormatDescription& d : kDescriptions) {
    const FormatInfo& info = format_info(d.id);
    out << "| `" << info.name << "` | " << info.ggml_id << " | " << info.block_elems << " | "
        << info.block_bytes << " | " << 8.0 * info.block_bytes / info.block_elems << " | ";
    if (d.plain.block == 0) {
      out << "as they are | - | - | - |\n";
    } else {
      out << Codes(d) << " | " << Base(d.plain) << " | " << Groups(d) << " | " << MinimumOf(d) << " |\n";
    }
  }
  return out.str();
}

TEST(FormatsPage, IsMadeFromTheDescriptions) {
  const std::string path = QCC_SOURCE_DIR "/docs/reference/formats.md", fresh = QCC_BINARY_DIR "/formats.md";
  std::ifstream in(path);
  const std::string found{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  const std::string page = Page();
  if (found == page) return;
  std::ofstream(fresh) << page;
  ADD_FAILURE() << path << " is stale; take over the new one: cp " << fresh << " " << path;
}

}  // namespace
}  // namespace qcc
