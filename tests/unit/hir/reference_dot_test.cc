// Products of the reference evaluator: one order of sums, whatever the machine has and however many are asked
// for at once.
#include <gtest/gtest.h>

#include <random>

#include "dialects/hir/eval/ReferenceMath.h"

namespace qcc::hir {
namespace {

// Sixteen partial sums in turns, added up in order, then what is left of n.
template <class T>
T inOrder(const T* a, const T* b, int64_t n) {
  volatile T lanes[16] = {};  // volatile: neither reordered nor contracted
  const int64_t whole = n / 16 * 16;
  for (int64_t i = 0; i < whole; ++i) {
    const volatile T product = a[i] * b[i];
    lanes[i % 16] = lanes[i % 16] + product;
  }
  volatile T sum = 0;
  for (int lane = 0; lane < 16; ++lane) sum = sum + lanes[lane];
  for (int64_t i = whole; i < n; ++i) {
    const volatile T product = a[i] * b[i];
    sum = sum + product;
  }
  return sum;
}

template <class T>
void expectOneOrder() {
  std::mt19937 random(7);
  std::normal_distribution<T> normal;
  for (const int64_t n : {1, 15, 16, 17, 40, 64, 1000}) {
    std::vector<T> a(n + 1), all(9 * n + 1);
    for (T& value : a) value = normal(random);
    for (T& value : all) value = normal(random);
    for (size_t count = 0; count <= 9; ++count) {
      std::vector<const T*> x;
      for (size_t i = 0; i < count; ++i) x.push_back(all.data() + 1 + i * n);  // one number off any alignment
      std::vector<T> found(count + 1, T(-7));
      dots(a.data() + 1, x, n, found.data());
      for (size_t i = 0; i < count; ++i)
        EXPECT_EQ(found[i], inOrder(a.data() + 1, x[i], n)) << n << " numbers, " << i << " of " << count;
      EXPECT_EQ(found[count], T(-7)) << "written behind the last of " << count;
    }
  }
}

TEST(ReferenceDot, HasOneOrderOfSums) {
  expectOneOrder<float>();
  expectOneOrder<double>();
}

}  // namespace
}  // namespace qcc::hir
