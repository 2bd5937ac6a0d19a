#include "codegen/gpu/kernels/reduce.h"

#include <algorithm>

namespace qcc::gpu {
namespace {

// Above this many values per group, threads first fold kFold of them each.
constexpr int kDirect = 16;
constexpr int kFold = 8;

Val Combine(Reduction reduction, Val a, Val b) {
  return reduction == Reduction::kSum ? a + b : MaxF(a, b);
}

}  // namespace

Reducer::Reducer(Builder& builder, int workgroup_size, int width, int values)
    : b_(builder), size_(workgroup_size), width_(width) {
  shuffled_ = std::min(std::max(builder.profile().subgroup, 1), width);
  leaders_ = width / shuffled_;
  if (leaders_ == 1) return;
  partial_ = builder.AllocShared(Type::kF32, values * (size_ / shuffled_));
  if (leaders_ > kDirect) folded_ = builder.AllocShared(Type::kF32, values * (size_ / shuffled_ / kFold));
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
      b_.StoreShared(partial_, DivU(thread, shuffled_) + static_cast<double>(i) * count, values[i]);
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
        const double base = static_cast<double>(i);
        b_.StoreShared(folded_, thread + base * folded, fold(partial_, thread * kFold + base * count, kFold));
      }
    });
    b_.Barrier();
    source = folded_;
    left /= kFold;
    stride = folded;
  }
  const Val first = width_ == size_ ? b_.I32(0) : DivU(thread, width_) * left;
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = fold(source, first + static_cast<double>(i) * stride, left);
  }
  return values;
}

Val WorkgroupSum(Builder& builder, int workgroup_size, Val value) {
  return Reducer(builder, workgroup_size, workgroup_size).Sum(value);
}

Val WorkgroupMax(Builder& builder, int workgroup_size, Val value) {
  return Reducer(builder, workgroup_size, workgroup_size).Max(value);
}

}  // namespace qcc::gpu
