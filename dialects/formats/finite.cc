// Looks for weights that are not finite without decoding them: codes are integers, so a block's values are
// all finite exactly if its half-precision scales are.
#include <algorithm>
#include <bit>
#include <cmath>

#include "dialects/formats/blocks.h"
#include "dialects/formats/codecs.h"

namespace qcc {
namespace codecs {
namespace {

bool half_is_finite(uint32_t bits) {
  return (bits & 0x7c00u) != 0x7c00u;
}

template <int kRow>
bool block_is_finite(const uint8_t* block) {
  constexpr const FormatDescription& d = kDescriptions[kRow];
  bool finite = true;
  for (int b = 0; b < d.plain.bases(); ++b) {
    [[maybe_unused]] const uint32_t bits = take_base<kRow>(block, b);
    if constexpr (d.plain.base == BaseScale::kHalf) finite &= half_is_finite(bits);
    // Up to 2^(252 - 127) every value of E2M1 is finite; above, it depends on the codes.
    if constexpr (d.plain.base == BaseScale::kE8m0) finite &= bits <= 252;
  }
  if constexpr (d.plain.minimum != Minimum::kNone) {
    finite &= half_is_finite(load_u16(block + d.layout.minimum));
  }
  if constexpr (d.plain.base == BaseScale::kE8m0) {
    if (finite) return true;
    PlainBlock apart;
    take_apart_block<kRow>(block, apart);
    float values[d.plain.block];
    plain_values(d.plain, apart, values);
    return std::all_of(values, values + d.plain.block, [](float v) { return std::isfinite(v); });
  }
  return finite;
}

// The first block that `finite` refuses, or null. Whole pieces first: that loop has no way out, so it is as
// fast as the memory.
template <int kBytes, typename Predicate>
const uint8_t* first_refused(const uint8_t* data, int64_t blocks, Predicate finite) {
  constexpr int64_t kPiece = 4096;
  for (int64_t begin = 0; begin < blocks; begin += kPiece) {
    const uint8_t* p = data + begin * kBytes;
    const int64_t count = std::min(kPiece, blocks - begin);
    uint32_t bad = 0;
    for (int64_t i = 0; i < count; ++i) bad += !finite(p + i * kBytes);
    if (bad == 0) continue;
    while (finite(p)) p += kBytes;
    return p;
  }
  return nullptr;
}

template <int kRow>
const uint8_t* first_not_finite_of(const uint8_t* data, int64_t blocks) {
  constexpr FormatDescription d = kDescriptions[kRow];
  if constexpr (d.id == Format::F32) {
    return first_refused<4>(data, blocks,
                            [](const uint8_t* p) { return (load_u16(p + 2) & 0x7f80u) != 0x7f80u; });
  } else if constexpr (d.id == Format::F16) {
    return first_refused<2>(data, blocks, [](const uint8_t* p) { return half_is_finite(load_u16(p)); });
  } else if constexpr (d.id == Format::BF16) {
    return first_refused<2>(data, blocks,
                            [](const uint8_t* p) { return (load_u16(p) & 0x7f80u) != 0x7f80u; });
  } else {
    return first_refused<block_bytes(d)>(data, blocks, &block_is_finite<kRow>);
  }
}

constexpr const uint8_t* (*kFirstNotFinite[])(const uint8_t*, int64_t) = {
#define QCC_FORMAT(id, ...) &first_not_finite_of<static_cast<int>(Format::id)>,
#include "dialects/formats/formats.def"
#undef QCC_FORMAT
};

}  // namespace
}  // namespace codecs

const uint8_t* first_not_finite(Format f, const uint8_t* data, int64_t blocks) {
  return codecs::kFirstNotFinite[static_cast<int>(f)](data, blocks);
}

}  // namespace qcc
