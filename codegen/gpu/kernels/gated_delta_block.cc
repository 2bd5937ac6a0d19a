#include "codegen/gpu/kernels/gated_delta_block.h"

#include <utility>

#include "codegen/gpu/kernels/reduce.h"

namespace qcc::gpu {
namespace {

constexpr int kUnroll = 4;
constexpr int kReadTokens = kDeltaParts / 2;  // by key and by query: as many sums as threads of a vector

// In two chains.
Val Dot(const std::vector<Val>& a, const std::vector<Val>& b) {
  Val sum[2];
  for (size_t i = 0; i < a.size(); ++i) {
    Val& chain = sum[i % 2];
    chain = chain ? Fma(a[i], b[i], chain) : a[i] * b[i];
  }
  return sum[1] ? sum[0] + sum[1] : sum[0];
}

}  // namespace

Val DeltaMixed::Query(const DeltaSpec& s, Val row, Val key_head) const {
  return all ? row * s.channels() + key_head * s.key_dim : Const(row, 0);
}

Val DeltaMixed::Key(const DeltaSpec& s, Val row, Val key_head) const {
  return all ? row * s.channels() + s.keys() + key_head * s.key_dim : Const(row, s.key_dim);
}

Val DeltaMixed::Value(const DeltaSpec& s, Val row, Val first, Val column) const {
  return all ? row * s.channels() + (first + column) + 2 * s.keys() : column + 2 * s.key_dim;
}

Val DeltaMixed::Decay(const DeltaSpec& s, Val row, Val head) const {
  return all ? row * s.gates() + head : Const(row, 0);
}

Val DeltaMixed::Beta(const DeltaSpec& s, Val row, Val head) const {
  return all ? row * s.gates() + head + s.value_heads : Const(row, 1);
}

DeltaMixed OwnMixed(Builder& b, const DeltaSpec& s, Val own, Val group) {
  const Val mixed = own + b.ExtendU(group * (4 * s.own_floats()));
  return {mixed, mixed + 4 * s.own_values(), false};
}

DeltaBlock::DeltaBlock(Builder& b, const DeltaSpec& s, int threads, const DeltaMixed& mixed)
    : b_(b),
      s_(s),
      threads_(threads),
      elements_(s.key_dim / kDeltaParts),
      width_(elements_ % 4 == 0   ? 4
             : elements_ % 2 == 0 ? 2
                                  : 1),
      mixed_(mixed),
      vector_(DivU(b.Thread(), kDeltaParts)),
      part_(RemU(b.Thread(), kDeltaParts)) {}

std::vector<Val> DeltaBlock::Load(Val base, Val first) const {
  const Type type = width_ == 4 ? Type::kF32x4 : width_ == 2 ? Type::kF32x2 : Type::kF32;
  const Val at = (first + Number(0)) << 2;
  std::vector<Val> numbers;
  for (int i = 0; i < elements_; i += width_) {
    const Val loaded = b_.Load(type, base, at + 4 * Offset(i));
    for (int lane = 0; lane < width_; ++lane) {
      numbers.push_back(width_ == 1 ? loaded : b_.Extract(loaded, lane));
    }
  }
  return numbers;
}

Val DeltaBlock::EntryAt(Val place, int64_t first) const {
  const int64_t begin = layouts::DeltaSlotFloats(s_.value_heads, s_.key_dim, s_.value_dim);
  return (place * s_.entry().floats + (begin + first)) << 2;
}

DeltaBlock::Place DeltaBlock::PlaceOf(const DeltaPiece& piece, Val place) const {
  const Val before = LtS(place, piece.begin), row = piece.origin + place;
  if (mixed_.replaced == 0) return {before, row};
  const Val replaced = place + kDeltaBlock;  // by the token at that place
  return {And(before, LeS(piece.end, replaced)), Select(before, row + (kDeltaBlock + mixed_.replaced), row)};
}

std::vector<Val> DeltaBlock::Key(const DeltaPiece& piece, Val key_head, Val place) const {
  const auto [in_entry, row] = PlaceOf(piece, place);
  const Val entry = ShrU(EntryAt(place, s_.entry().k), 2) + key_head * s_.key_dim;
  return Load(Select(in_entry, piece.state, mixed_.mixed),
              Select(in_entry, entry, mixed_.Key(s_, row, key_head)));
}

std::vector<Val> DeltaBlock::LoadStaged(const Shared& memory, Val first) const {
  const Val at = first + Number(0);
  std::vector<Val> numbers;
  numbers.reserve(static_cast<size_t>(elements_));
  for (int i = 0; i < elements_; ++i) numbers.push_back(b_.LoadShared(memory, at + Offset(i)));
  return numbers;
}

bool DeltaBlock::CanStageRows() const {
  const int quads = RowWords() / 4;
  return b_.profile().loads_ahead == LoadsAhead::kAlways && width_ == 4 && quads % threads_ == 0;
}

std::vector<Val> DeltaBlock::LoadRows(const DeltaPiece& piece, Val key_head) const {
  const int of_vector = s_.key_dim / 4;
  std::vector<Val> quads;
  for (int turn = 0; turn < RowWords() / 4; turn += threads_) {
    const Val number = b_.Thread() + turn, vector = DivU(number, of_vector);
    // Of tokens that the step does not have: another's, which nobody reads.
    const Val place = MinS(MaxS(ShrU(vector, 1), piece.begin), piece.EndHere() - 1);
    const Val row = piece.origin + place, is_query = Eq(vector & 1, 1);
    const Val first = Select(is_query, mixed_.Query(s_, row, key_head), mixed_.Key(s_, row, key_head));
    quads.push_back(b_.Load(Type::kF32x4, mixed_.mixed, (first + RemU(number, of_vector) * 4) << 2));
  }
  return quads;
}

void DeltaBlock::StoreRows(const std::vector<Val>& quads, const Shared& memory, int at) const {
  for (size_t i = 0; i < quads.size(); ++i) {
    const Val to = (b_.Thread() + static_cast<int>(i) * threads_) * 4;
    for (int c = 0; c < 4; ++c) b_.StoreShared(memory, to + (at + c), b_.Extract(quads[i], c));
  }
}

Val DeltaBlock::Products(const std::vector<Val>& own, const DeltaPiece& piece, Val key_head, Val first,
                         int tokens, const Shared& scratch, int at, std::optional<int> rows_at) const {
  std::vector<Val> sums(size_t{kDeltaParts}, b_.F32(0.f));
  for (int t = 0; t < tokens; ++t) {
    const Val place = MinS(first + t, piece.EndHere() - 1), row = piece.origin + place;
    const auto product = [&](bool query) {
      if (rows_at)
        return Dot(own, LoadStaged(scratch, (place * 2 + (query ? 1 : 0)) * s_.key_dim + *rows_at));
      const Val from = query ? mixed_.Query(s_, row, key_head) : mixed_.Key(s_, row, key_head);
      return Dot(own, Load(mixed_.mixed, from));
    };
    sums[static_cast<size_t>(t)] = product(false);
    sums[static_cast<size_t>(t) + size_t{kReadTokens}] = product(true);
  }
  return SumScattered(b_, threads_, std::move(sums), scratch, at);
}

int DeltaBlock::ScratchWords() const {
  return SumScatteredWords(b_.profile(), threads_, kDeltaParts);
}

void DeltaBlock::StageDecays(const DeltaPiece& piece, Val head, const Shared& memory, int at) const {
  const Val place = b_.Thread();
  b_.If(LtS(place, b_.I32(kDeltaBlock)), [&] {
    // Of tokens behind the step's: anything that was mixed.
    const Val token = MinS(place, piece.end - 1);
    const auto [in_entry, row] = PlaceOf(piece, token);
    const Val where = Select(in_entry, EntryAt(token, head, s_.entry().d), mixed_.Decay(s_, row, head) << 2);
    b_.StoreShared(memory, place + at,
                   b_.Load(Type::kF32, Select(in_entry, piece.state, mixed_.gates), where));
  });
}

void DeltaBlock::StoreDecays(const Shared& memory, int at, const Shared& factors, int to) const {
  const Val thread = b_.Thread();
  // Thread 0 multiplies from the block's begin on, thread 1 + i from behind token i on.
  b_.If(LtS(thread, b_.I32(kDeltaBlock + 1)), [&] {
    const Val where = Select(Eq(thread, 0), b_.I32(to + DeltaFactors::kSinceBegin),
                             thread + (to + DeltaFactors::kDecay - 1));
    b_.For(b_.I32(0), b_.I32(kDeltaBlock), b_.I32(kUnroll), {b_.F32(1.f)},
           [&](Val first, const std::vector<Val>& so_far) {
             Val product = so_far[0];
             for (int x = 0; x < kUnroll; ++x) {
               const Val t = first + x, decay = b_.LoadShared(memory, t + at);
               product = Select(LeS(thread, t), product * decay, product);
               b_.StoreShared(factors, where + t * DeltaFactors::kCount, product);
             }
             return std::vector<Val>{product};
           });
  });
}

}  // namespace qcc::gpu
