#include "codegen/gpu/kernels/sample_math.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "codegen/gpu/kernels/launch.h"
#include "dialects/layouts/layouts.h"
#include "runtime/abi/gpu_step.h"
#include "runtime/abi/sampling.h"

namespace qcc::gpu {
namespace {

constexpr int32_t kSign = INT32_MIN;
constexpr int32_t kExponent = 0x7F800000;
constexpr int32_t kImplicit = 0x00800000;
// Bits of a float are (exponent << 23 | mantissa); this exponent has the unit of fixed point in its mantissa.
constexpr int32_t kUnitExponent = 150 - QRT_SAMPLING_POINT;
constexpr int64_t kHuge = (int64_t{2} * kImplicit - 1) << QRT_SAMPLING_MAX_SHIFT;

Val I64(Val like, uint64_t value) {
  return like.builder()->I64(static_cast<int64_t>(value));
}
Val IsNegative(Val x) {
  Builder& b = *x.builder();
  return b.Compare(Builder::Cmp::kLtS, x, Const(x, 0));
}
Val ShiftRight(Val x, Val by) {
  return x.builder()->Binary(Builder::Op::kShrU, x, by);
}
Val ShiftLeft(Val x, Val by) {
  return x.builder()->Binary(Builder::Op::kShl, x, by);
}
Val BitsOfKey(Val key) {
  return Select(IsNegative(key), key ^ kSign, key ^ -1);
}

Val KeyOfBits(Val bits) {
  return Select(IsNegative(bits), bits ^ -1, bits | kSign);
}

// The bits of the float that `fixed` (i64) is, rounded towards zero.
Val BitsOfFixed(Val fixed) {
  Builder& b = *fixed.builder();
  const Val negative = IsNegative(fixed);
  // The highest bit of the size goes to bit 63.
  Val size = Select(negative, 0 - fixed, fixed);
  const Val zero = Eq(size, 0);
  Val place = b.I32(63);
  for (int shift = 32; shift != 0; shift /= 2) {
    const Val far = Eq(ShrU(size, 64 - shift), 0);
    size = Select(far, size << shift, size);
    place = Select(far, place - shift, place);
  }
  const Val mantissa = b.Truncate(ShrU(size, 40));
  const Val exponent = place + (kUnitExponent - 23);
  const Val bits = ((exponent - 1) << 23) + mantissa + Select(negative, b.I32(kSign), b.I32(0));
  return Select(zero, b.I32(0), bits);
}

}  // namespace

int32_t SampleChunk(int64_t columns) {
  constexpr int64_t kLeastOfThread = 8, kMostChunks = kSampleWorkgroup;
  return static_cast<int32_t>(std::max(kLeastOfThread, CeilDiv(columns, kMostChunks * kSampleWorkgroup)) *
                              kSampleWorkgroup);
}

Val MinU(Val a, Val b) {
  return a.builder()->Binary(Builder::Op::kMinU, a, b);
}
Val MaxU(Val a, Val b) {
  return a.builder()->Binary(Builder::Op::kMaxU, a, b);
}
Val LeU(Val a, Val b) {
  return a.builder()->Compare(Builder::Cmp::kLeU, a, b);
}
Val Ne(Val a, Val b) {
  return a.builder()->Compare(Builder::Cmp::kNe, a, b);
}

Val KeyOfLogit(Val bits) {
  Builder& b = *bits.builder();
  const Val key = KeyOfBits(Select(Eq(bits, b.I32(kSign)), b.I32(0), bits));
  const Val excluded = Eq(bits, b.I32(kSign | kExponent));
  const Val special = Select(excluded, b.I32(kExcludedKey), b.I32(kBadKey));
  return Select(Eq(bits & kExponent, b.I32(kExponent)), special, key);
}

Val IsFiniteKey(Val key) {
  Builder& b = *key.builder();
  return And(Ne(key, b.I32(kExcludedKey)), Ne(key, b.I32(kBadKey)));
}

KeyRange NoKeys(Builder& b) {
  return {b.I32(kBadKey), b.I32(kExcludedKey)};
}

KeyRange With(const KeyRange& range, Val key) {
  return {MinU(range.lowest, key), MaxU(range.highest, key)};
}

KeyRange WithIf(Val counts, const KeyRange& range, Val key) {
  const KeyRange with = With(range, key);
  return {Select(counts, with.lowest, range.lowest), Select(counts, with.highest, range.highest)};
}

Val FaultOf(const KeyRange& range, bool several) {
  Builder& b = *range.lowest.builder();
  Val fault = b.I32(0);
  if (several) fault = Select(Eq(range.lowest, range.highest), b.I32(QRT_GPU_SAMPLE_ALL_EQUAL), fault);
  fault = Select(Eq(range.lowest, b.I32(kExcludedKey)), b.I32(QRT_GPU_SAMPLE_MINUS_INFINITY), fault);
  return Select(Eq(range.highest, b.I32(kBadKey)), b.I32(QRT_GPU_SAMPLE_BAD_LOGIT), fault);
}

Val IsChoosable(Val words, Val id) {
  Builder& b = *id.builder();
  const Val word = b.Load(Type::kI32, words, ShrU(id, 5) * 4);
  return Ne(ShiftRight(word, id & 31) & 1, b.I32(0));
}

Val UnitKeysRow(Val units) {
  return ShrU(units + 1, 1) << 4;
}

Val ChoosableBits(Val words, Val first, int count) {
  Builder& b = *first.builder();
  const Val word = b.Load(Type::kI32, words, ShrU(first, 5) * 4);
  return ShiftRight(word, first & 31) & ((1 << count) - 1);
}

// Key above, complement of the id below.
Val Ranked(Val key, Val id) {
  Builder& b = *key.builder();
  return (b.ExtendU(key) << 32) | b.ExtendU(id ^ -1);
}

Val KeyOfRanked(Val ranked) {
  return ranked.builder()->Truncate(ShrU(ranked, 32));
}

Val IdOfRanked(Val ranked) {
  return ranked.builder()->Truncate(ranked) ^ -1;
}

Val FixedOfKey(Val key) {
  Builder& b = *key.builder();
  const Val bits = BitsOfKey(key);
  const Val exponent = ShrU(bits, 23) & 255;
  const Val mantissa = (bits & (kImplicit - 1)) | Select(Eq(exponent, 0), b.I32(0), b.I32(kImplicit));
  const Val shift = exponent - kUnitExponent;
  const auto within = [&](Val x, int most) {
    return b.Binary(Builder::Op::kMaxS, MinS(x, b.I32(most)), b.I32(0));
  };
  const Val whole = ShiftRight(mantissa, within(0 - shift, 31));
  Val size = ShiftLeft(b.ExtendU(whole), b.ExtendU(within(shift, QRT_SAMPLING_MAX_SHIFT)));
  size = Select(LtS(b.I32(QRT_SAMPLING_MAX_SHIFT), shift), b.I64(kHuge), size);
  return Select(IsNegative(bits), 0 - size, size);
}

Val WeightOf(Val distance, Val scale) {
  Builder& b = *distance.builder();
  const Val fraction = distance * scale;
  const Val halvings = b.MulHighU(distance, scale);
  Val sum = I64(distance, qrt_sampling_terms[QRT_SAMPLING_TERMS - 1]);
  for (int i = QRT_SAMPLING_TERMS - 1; i-- > 0;) {
    sum = I64(distance, qrt_sampling_terms[i]) - b.MulHighU(sum, fraction);
  }
  const Val most = b.I64(QRT_SAMPLING_WEIGHT_BITS);
  const Val weight = ShiftRight(sum, MinU(halvings, most) + (62 - QRT_SAMPLING_WEIGHT_BITS));
  return Select(LeU(halvings, most), weight, b.I64(0));
}

Val PenalizedKey(Val key, Val repeat, Val repeat_inverse, Val off) {
  Builder& b = *key.builder();
  const Val logit = FixedOfKey(key);
  const Val negative = IsNegative(logit);
  const Val size = Select(negative, 0 - logit, logit);
  const Val factor = Select(negative, repeat, repeat_inverse);
  const Val high = b.MulHighU(size, factor), low = size * factor;
  const Val whole = (high << (64 - QRT_SAMPLING_FACTOR_POINT)) | ShrU(low, QRT_SAMPLING_FACTOR_POINT);
  const Val huge = b.I64(kHuge);
  const Val scaled = Select(Eq(ShrU(high, 29), 0), MinU(whole, huge), huge);
  return KeyOfBits(BitsOfFixed(Select(negative, 0 - scaled, scaled) - off));
}

int64_t Vocabulary::choices() const {
  if (choosable.empty()) return size;
  int64_t count = 0;
  for (const uint32_t word : choosable) count += std::popcount(word);
  return count;
}

UnitKeys UnitKeysOf(int64_t rows, const Vocabulary& vocabulary, Expansion& expansion) {
  const int64_t units = CeilDiv(vocabulary.size, layouts::kGroupRows);
  UnitKeys made = {{Space::kScratch, 0, static_cast<uint64_t>(rows * CeilDiv(units, 2) * 16)}, {}};
  Vocabulary some = vocabulary;
  if (some.choosable.empty() && vocabulary.size % layouts::kGroupRows == 0) return made;
  if (some.choosable.empty()) {
    some.choosable.assign(static_cast<size_t>(vocabulary.size / 32), ~0u);
    if (vocabulary.size % 32) some.choosable.push_back((1u << vocabulary.size % 32) - 1);
  }
  made.choosable = ChoosableArg(some, expansion);
  return made;
}

Arg ChoosableArg(const Vocabulary& vocabulary, Expansion& expansion) {
  std::vector<uint8_t> bytes(vocabulary.choosable.size() * sizeof(uint32_t));
  std::memcpy(bytes.data(), vocabulary.choosable.data(), bytes.size());
  return expansion.Constant(bytes);
}

SharedWide::SharedWide(Builder& builder, int words)
    : b_(builder),
      low_(builder.AllocShared(Type::kI32, words)),
      high_(builder.AllocShared(Type::kI32, words)) {}

Val SharedWide::Load(Val index) const {
  return b_.ExtendU(b_.LoadShared(low_, index)) | (b_.ExtendU(b_.LoadShared(high_, index)) << 32);
}

void SharedWide::Store(Val index, Val value) const {
  b_.StoreShared(low_, index, b_.Truncate(value));
  b_.StoreShared(high_, index, b_.Truncate(ShrU(value, 32)));
}

WideCollective::WideCollective(Builder& builder, int threads)
    : b_(builder), threads_(threads), words_{{builder, threads}, {builder, threads}} {}

// Two arrays in turn, so that one barrier per round separates reads from the writes of the next round.
WideCollective::Sums WideCollective::Scan(Val value) {
  const Val thread = b_.Thread();
  b_.Barrier();  // others may still read what the last call left
  Val sum = value;
  int turn = 0;
  words_[turn].Store(thread, sum);
  b_.Barrier();
  for (int reach = 1; reach < threads_; reach *= 2) {
    const Val from = thread - reach;
    const Val other = words_[turn].Load(b_.Binary(Builder::Op::kMaxS, from, b_.I32(0)));
    sum = sum + Select(IsNegative(from), b_.I64(0), other);
    turn = 1 - turn;
    words_[turn].Store(thread, sum);
    b_.Barrier();
  }
  return {sum - value, words_[turn].Load(b_.I32(threads_ - 1))};
}

Val WideCollective::Reduce(Val value, const std::function<Val(Val, Val)>& both) {
  const Val thread = b_.Thread();
  b_.Barrier();
  Val of_all = value;
  int turn = 0;
  for (int reach = 1; reach < threads_; reach *= 2) {
    words_[turn].Store(thread, of_all);
    b_.Barrier();
    of_all = both(of_all, words_[turn].Load(thread ^ reach));
    turn = 1 - turn;
  }
  return of_all;
}

Val WideCollective::Max(Val value) {
  return Reduce(value, [](Val a, Val b) { return MaxU(a, b); });
}

KeyRange WideCollective::Range(const KeyRange& mine) {
  const auto word = [&](const KeyRange& range) {
    return b_.ExtendU(range.lowest) | (b_.ExtendU(range.highest) << 32);
  };
  const auto range = [&](Val of) { return KeyRange{b_.Truncate(of), b_.Truncate(ShrU(of, 32))}; };
  return range(Reduce(word(mine), [&](Val a, Val b) {
    const KeyRange one = range(a), other = range(b);
    return word({MinU(one.lowest, other.lowest), MaxU(one.highest, other.highest)});
  }));
}

}  // namespace qcc::gpu
