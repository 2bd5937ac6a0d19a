// The integer arithmetic of sampling (runtime/engine/sampler.h says what it means, runtime/abi/sampling.h has
// the numbers), and what workgroups compute with 64-bit integers.
#ifndef QCC_CODEGEN_GPU_KERNELS_SAMPLE_MATH_H_
#define QCC_CODEGEN_GPU_KERNELS_SAMPLE_MATH_H_

#include <cstdint>
#include <functional>

#include "codegen/gpu/kernels/builder.h"

namespace qcc::gpu {

inline constexpr int kSampleWorkgroup = 128;

// Columns of logits that a workgroup has: so many that there are at most kSampleWorkgroup chunks of them, and
// at least 8 of a thread.
int32_t SampleChunk(int64_t columns);

// Keys of logits: higher means more. Of finite logits they are neither of these.
inline constexpr int32_t kExcludedKey = 0;  // -infinity
inline constexpr int32_t kBadKey = -1;      // NaN, +infinity

// The key of the float with these bits (i32).
Val KeyOfLogit(Val bits);
Val IsFiniteKey(Val key);

// The lowest and the highest key of the logits to choose from (i32). Others are no part of it.
struct KeyRange {
  Val lowest, highest;
};
KeyRange NoKeys(Builder& b);
KeyRange With(const KeyRange& range, Val key);
KeyRange WithIf(Val counts, const KeyRange& range, Val key);
// QRT_GPU_SAMPLE_* for logits of that range, or 0. `several`: whether there is more than one to choose from.
Val FaultOf(const KeyRange& range, bool several);

// Of a list of 32-bit words (qrt_choosable_tokens): whether this token may be chosen.
Val IsChoosable(Val words, Val id);

// Bytes from one row of UnitKeys to the next.
Val UnitKeysRow(Val units);
// Of `count` (at most 16) columns from `first` on (i32): those that may be chosen, a bit each.
Val ChoosableBits(Val words, Val first, int count);

// A token by its place in the order (key down, id up), i64: the higher unsigned number comes first. No
// token's is 0.
Val Ranked(Val key, Val id);
Val KeyOfRanked(Val ranked);
Val IdOfRanked(Val ranked);

// A finite logit in fixed point (i64), from its key.
Val FixedOfKey(Val key);

// The weight (i64) of a token that is `distance` (i64, fixed point, not negative) below the highest.
Val WeightOf(Val distance, Val scale);

// The key of a finite logit after the penalties; `off` (i64, fixed point): what is subtracted.
Val PenalizedKey(Val key, Val repeat, Val repeat_inverse, Val off);

Val MinU(Val a, Val b);
Val MaxU(Val a, Val b);
Val LeU(Val a, Val b);
Val Ne(Val a, Val b);

// i64 words in workgroup memory, as two arrays of halves.
class SharedWide {
 public:
  SharedWide(Builder& builder, int words);
  Val Load(Val index) const;
  void Store(Val index, Val value) const;

 private:
  Builder& b_;
  Shared low_, high_;
};

// Over the threads of a workgroup, a power of two; all must call (barriers). Can be used again and again.
class WideCollective {
 public:
  explicit WideCollective(Builder& builder, int threads = kSampleWorkgroup);
  // Of workgroup memory.
  static int SharedWords(int threads) { return 4 * threads; }

  struct Sums {
    Val before;  // over the threads before this one
    Val total;
  };
  Sums Scan(Val value);
  // The largest of unsigned numbers; every thread gets it.
  Val Max(Val value);
  KeyRange Range(const KeyRange& mine);

 private:
  // `both` in any order, over all threads.
  Val Reduce(Val value, const std::function<Val(Val, Val)>& both);

  Builder& b_;
  int threads_;
  SharedWide words_[2];
};

}  // namespace qcc::gpu

#endif  // QCC_CODEGEN_GPU_KERNELS_SAMPLE_MATH_H_
