#include "codegen/gpu/kernels/packed_codes.h"

#include <utility>

namespace qcc::gpu {
namespace {

using layouts::kVectorBytes;

constexpr int32_t kEachByte = 0x01010101;
constexpr int32_t kSigns = static_cast<int32_t>(0x80808080);

int32_t InEachByte(int32_t byte) {
  return static_cast<int32_t>(static_cast<uint32_t>(kEachByte) * static_cast<uint8_t>(byte));
}

Val Shifted(Val v, int left) {
  return left < 0 ? ShrU(v, -left) : left ? v << left : v;
}
Val ShiftRight(Val v, Val by) {
  return v.builder()->Binary(Builder::Op::kShrU, v, by);
}

// A choice among table[first] .. table[first + 2^levels - 1] in each byte by the codes' low bits, as a tree
// of bitwise selections; `bits[k]` has 0xff in the bytes whose code has bit k. A subtree of one value is that
// constant.
class LookupTree {
 public:
  LookupTree(const PlainForm& form, std::vector<Val> bits) : form_(form), bits_(std::move(bits)) {}

  Val Root() const {
    const Node root = Select(0, static_cast<int>(bits_.size()));
    return root.value ? root.value : bits_[0].builder()->I32(root.constant);
  }

 private:
  struct Node {
    int32_t constant = 0;
    Val value;  // null: the constant
  };

  int32_t Leaf(int code) const {
    // Codes beyond the table do not occur.
    return InEachByte(form_.table[code < form_.table_size ? code : form_.table_size - 1]);
  }

  Node Select(int first, int levels) const {
    if (levels == 0) return {Leaf(first), Val()};
    const Node low = Select(first, levels - 1), high = Select(first + (1 << (levels - 1)), levels - 1);
    const Val bit = bits_[static_cast<size_t>(levels - 1)];
    if (low.value || high.value) {
      const Val a = Value(low), b = Value(high);
      return {0, a ^ ((a ^ b) & bit)};
    }
    if (low.constant == high.constant) return low;
    return {0, (bit & (low.constant ^ high.constant)) ^ low.constant};
  }
  Val Value(const Node& node) const {
    return node.value ? node.value : bits_[0].builder()->I32(node.constant);
  }

  const PlainForm& form_;
  const std::vector<Val> bits_;
};

}  // namespace

Val LookUp(const PlainForm& form, Val codes) {
  if (const int step = EqualSteps(form)) return LessOffset(step == 1 ? codes : codes * step, -form.table[0]);
  std::vector<Val> bits;
  for (int k = 0; k < form.bits; ++k) bits.push_back((Shifted(codes, -k) & kEachByte) * 0xff);
  return LookupTree(form, std::move(bits)).Root();
}

Val LessOffset(Val codes, int32_t offset) {
  if (offset == 0) return codes;
  // The sign bit, set, keeps one byte from borrowing of the next.
  return ((codes | kSigns) - InEachByte(offset)) ^ kSigns;
}

std::vector<PackedCodes::Plane> PackedCodes::Planes() const {
  const layouts::Tile tile = layouts::TileOf(form_);
  std::vector<Plane> planes{{tile.low_bits, 0, 0}};
  if (tile.high_bits) planes.push_back({tile.high_bits, tile.high_at(), tile.low_bits});
  return planes;
}

Val PackedCodes::Vector(const Plane& plane, int32_t vector) const {
  return base_.builder()->Load(Type::kI32, base_, at_, plane.at + kVectorBytes * vector);
}

std::vector<Val> PackedCodes::LoadAll() const {
  std::vector<Val> loaded;
  for (const Plane& plane : Planes())
    for (int32_t v = 0; v < Vectors(plane); ++v) loaded.push_back(Vector(plane, v));
  return loaded;
}

std::vector<Val> PackedCodes::All(const std::vector<Val>& loaded) const {
  const std::vector<Plane> planes = Planes();
  const auto field = [&](size_t p, int32_t word) {
    const Plane& plane = planes[p];
    const int32_t first = p == 0 ? 0 : Vectors(planes[0]);
    const Val vector =
        loaded[static_cast<size_t>(first) + static_cast<size_t>(layouts::VectorOfWord(plane.width, word))];
    const Val moved = Shifted(vector, plane.moved - layouts::ShiftOfWord(plane.width, word));
    return plane.width == 8 ? moved : moved & (plane.mask() << plane.moved);
  };
  std::vector<Val> codes(8);
  const int together = form_.bits == 8 ? 1 : 2;  // words that lie in one vector of the low plane
  for (int i = 0; i < 8 / together; ++i) {
    for (int t = i; t < 8; t += 8 / together) codes[t] = field(0, t);
    for (int t = i; t < 8; t += 8 / together) {
      if (planes.size() > 1) codes[t] = codes[t] | field(1, t);
      codes[t] = Read(codes[t]);
    }
  }
  return codes;
}

Val PackedCodes::Load(const Plane& plane, Val vector, int32_t more) const {
  return base_.builder()->Load(Type::kI32, base_, at_ + (vector << 6), plane.at + kVectorBytes * more);
}

Val PackedCodes::LoadFields(const Plane& plane, Val word) const {
  if (plane.width == 4) return Load(plane, word);
  if (plane.width == 1) return Vector(plane, 0);
  return Load(plane, ShrU(word, 1));
}

Val PackedCodes::Fields(const Plane& plane, Val loaded, Val word) const {
  if (plane.width == 4) return loaded;
  return ShiftRight(loaded, plane.width == 1 ? word : (word & 1) << 1);
}

std::vector<Val> PackedCodes::LoadPair(Val word) const {
  const std::vector<Plane> planes = Planes();
  if (form_.bits == 8) return {Load(planes[0], word), Load(planes[0], word, 4)};
  std::vector<Val> loaded;
  loaded.reserve(planes.size());
  for (const Plane& plane : planes) loaded.push_back(LoadFields(plane, word));
  return loaded;
}

std::vector<Val> PackedCodes::Pair(const std::vector<Val>& loaded, Val word) const {
  if (form_.bits == 8) return {Read(loaded[0]), Read(loaded[1])};
  const std::vector<Plane> planes = Planes();
  std::vector<Val> codes(2);
  for (size_t p = 0; p < planes.size(); ++p) {
    const Plane& plane = planes[p];
    const Val fields = Fields(plane, loaded[p], word);
    const Val first = Shifted(fields & plane.mask(), plane.moved);
    codes[0] = codes[0] ? codes[0] | first : first;
    const Val second = Shifted(fields, plane.moved - 4) & (plane.mask() << plane.moved);
    codes[1] = codes[1] ? codes[1] | second : second;
  }
  return {Read(codes[0]), Read(codes[1])};
}

Val PackedCodes::Field(const Plane& plane, Val word, Val upper) const {
  if (plane.width == 1) return ShiftRight(Vector(plane, 0), word);
  if (plane.width == 4) {
    const Val shift = upper << 2;
    return ShiftRight(Load(plane, word & 3), shift);
  }
  const Val vector = ShrU(word, 1) & 1;
  const Val shift = ((word & 1) + upper * 2) << 1;
  return ShiftRight(Load(plane, vector), shift);
}

Val PackedCodes::One(Val word) const {
  const std::vector<Plane> planes = Planes();
  if (form_.bits == 8) return Read(Load(planes[0], word));
  const Val upper = ShrU(word, 2);
  Val codes;
  for (const Plane& plane : planes) {
    const Val part = Shifted(Field(plane, word, upper) & plane.mask(), plane.moved);
    codes = codes ? codes | part : part;
  }
  return Read(codes);
}

Val PackedCodes::Read(Val codes) const {
  if (!ReadsValues(form_)) return codes;
  return form_.table_size ? LookUp(form_, codes) : codes ^ kSigns;
}

}  // namespace qcc::gpu
