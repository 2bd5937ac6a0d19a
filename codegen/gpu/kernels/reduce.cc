#include "codegen/gpu/kernels/reduce.h"

#include <algorithm>

namespace qcc::gpu {
namespace {

// Above this many values per group, threads first fold kFold of them each.
constexpr int kDirect = 16;
constexpr int kFold = 8;

// Of `width` threads, how many shuffles combine.
int Shuffled(const Profile& profile, int width) {
  return std::min(std::max(profile.subgroup, 1), width);
}

Val Combine(Reduction reduction, Val a, Val b) {
  if (reduction == Reduction::kSum) return a + b;
  return reduction == Reduction::kMax ? MaxF(a, b) : MaxMagnitude(a, b);
}

}  // namespace

Val MaxMagnitude(Val a, Val b) {
  Builder& builder = *a.builder();
  return builder.AsF32(MaxS(builder.AsI32(a), builder.AsI32(b)));
}

Reducer::Reducer(Builder& builder, int workgroup_size, int width, int values)
    : b_(builder), size_(workgroup_size), width_(width) {
  shuffled_ = Shuffled(builder.profile(), width);
  leaders_ = width / shuffled_;
  if (leaders_ == 1) return;
  partial_ = builder.AllocShared(Type::kF32, values * (size_ / shuffled_));
  if (leaders_ > kDirect) folded_ = builder.AllocShared(Type::kF32, values * (size_ / shuffled_ / kFold));
}

int Reducer::SharedWords(const Profile& profile, int workgroup_size, int width, int values) {
  const int shuffled = Shuffled(profile, width), leaders = width / shuffled,
            partial = workgroup_size / shuffled;
  if (leaders == 1) return 0;
  return values * (partial + (leaders > kDirect ? partial / kFold : 0));
}

std::vector<Val> Reducer::operator()(Reduction reduction, std::vector<Val> values) {
  for (int mask = 1; mask < shuffled_; mask *= 2) {
    for (Val& v : values) v = Combine(reduction, v, b_.ShuffleXor(v, mask));
  }
  if (leaders_ == 1) return values;

  const Val thread = b_.Thread();
  const int count = size_ / shuffled_;
  // Threads may still read what the last call left.
  b_.Barrier();
  const auto publish = [&] {
    for (size_t i = 0; i < values.size(); ++i) {
      b_.StoreShared(partial_, DivU(thread, shuffled_) + i * count, values[i]);
    }
  };
  if (shuffled_ == 1) {
    publish();
  } else {
    b_.If(Eq(RemU(thread, shuffled_), 0), publish);
  }
  b_.Barrier();

  // `n` values from `first` on.
  const auto fold = [&](const Shared& from, Val first, int n) {
    Val sum = b_.LoadShared(from, first);
    for (int j = 1; j < n; ++j) sum = Combine(reduction, sum, b_.LoadShared(from, first + j));
    return sum;
  };
  Shared source = partial_;
  int left = leaders_, stride = count;
  if (leaders_ > kDirect) {
    const int folded = count / kFold;
    b_.If(LtS(thread, b_.I32(folded)), [&] {
      for (size_t i = 0; i < values.size(); ++i) {
        b_.StoreShared(folded_, thread + i * folded, fold(partial_, thread * kFold + i * count, kFold));
      }
    });
    b_.Barrier();
    source = folded_;
    left /= kFold;
    stride = folded;
  }
  const Val first = width_ == size_ ? b_.I32(0) : DivU(thread, width_) * left;
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = fold(source, first + i * stride, left);
  }
  return values;
}

int SumScatteredWords(const Profile& profile, int workgroup_size, int values) {
  return profile.subgroup >= values ? 0 : workgroup_size * values;
}

Val SumScattered(Builder& b, int workgroup_size, std::vector<Val> values, const Shared& scratch, int at) {
  const int width = static_cast<int>(values.size());
  const Val thread = b.Thread();
  if (SumScatteredWords(b.profile(), workgroup_size, width) == 0) {
    // Half of the threads takes over half of the values, and so on.
    for (int mask = width / 2; mask >= 1; mask /= 2) {
      const Val lower = Eq(thread & mask, 0);
      for (int i = 0; i < mask; ++i) {
        const Val kept = Select(lower, values[i], values[i + mask]);
        values[i] = kept + b.ShuffleXor(Select(lower, values[i + mask], values[i]), mask);
      }
    }
    return values[0];
  }
  // Threads may still read what the last call left.
  b.Barrier();
  for (int i = 0; i < width; ++i) b.StoreShared(scratch, thread + (at + i * workgroup_size), values[i]);
  b.Barrier();
  const Val own = RemU(thread, width), first = thread - own + own * workgroup_size + at;
  Val sum = b.LoadShared(scratch, first);
  for (int i = 1; i < width; ++i) sum = sum + b.LoadShared(scratch, first + i);
  return sum;
}

}  // namespace qcc::gpu
