// What the kernel tests share: the kernels of each ISA level as a table of functions, buffers that fault when
// they are overrun, and random inputs.
#ifndef QCC_TESTS_UNIT_CODEGEN_CPU_KERNEL_HARNESS_H_
#define QCC_TESTS_UNIT_CODEGEN_CPU_KERNEL_HARNESS_H_

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "codegen/cpu/kernels/isa.h"
#include "codegen/cpu/kernels/native_table.h"
#include "codegen/cpu/kernels/scratch.h"
#include "dialects/formats/formats.h"
#include "tests/unit/codegen_cpu/instruction_emulator.h"

namespace qcc::cpu {

// The same bitcode that the compiler embeds, as native code.
inline const Kernels& kernels_of(Isa isa) {
  static constexpr const Kernels* (*kTables[])() = {
#define QCC_ISA(id, ...) &id##_qk_native_table,
#include "codegen/cpu/kernels/isa.def"
#undef QCC_ISA
  };
  return *kTables[static_cast<size_t>(isa)]();
}

struct FormatKernels {
  Format format;
  std::string name;
  qk_linear_fn* f32;
  qk_linear_fn* int8;  // null for plain formats
  qk_moe_linear_fn* moe_f32;
  qk_moe_linear_fn* moe_int8;  // likewise
  qk_embed_fn* embed;
};

inline std::vector<FormatKernels> format_kernels(const Kernels& k) {
  return {
#define QK_PLAIN_FORMAT(id, name) \
  {Format::id, name, k.qk_linear_##id##_f32, nullptr, k.qk_moe_linear_##id##_f32, nullptr, k.qk_embed_##id},
#define QK_BLOCK_FORMAT(id, name) \
  {Format::id,                    \
   name,                          \
   k.qk_linear_##id##_f32,        \
   k.qk_linear_##id##_int8,       \
   k.qk_moe_linear_##id##_f32,    \
   k.qk_moe_linear_##id##_int8,   \
   k.qk_embed_##id},
#include "codegen/cpu/kernels/kernels.def"
  };
}

// Array whose end (or, with `front`, whose beginning) touches an inaccessible page.
template <class T>
class Guarded {
 public:
  explicit Guarded(size_t n, bool front = false) : n_(n) {
    const size_t page = 4096, bytes = (n * sizeof(T) + page - 1) / page * page;
    size_ = bytes + 2 * page;
    base_ = static_cast<uint8_t*>(mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (base_ == MAP_FAILED || mprotect(base_ + page, bytes, PROT_READ | PROT_WRITE) != 0) std::abort();
    data_ = reinterpret_cast<T*>(base_ + page + (front ? 0 : bytes - n * sizeof(T)));
  }
  template <class C>
  static Guarded copy_of(const C& c) {
    Guarded g(c.size());
    std::copy(c.begin(), c.end(), g.begin());
    return g;
  }
  Guarded(Guarded&& o) noexcept : n_(o.n_), size_(o.size_), base_(o.base_), data_(o.data_) {
    o.base_ = nullptr;
  }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  ~Guarded() {
    if (base_) munmap(base_, size_);
  }
  T* data() { return data_; }
  const T* data() const { return data_; }
  T* begin() { return data_; }
  T* end() { return data_ + n_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + n_; }
  size_t size() const { return n_; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }

 private:
  size_t n_, size_;
  uint8_t* base_;
  T* data_;
};

// As a kernel finds its thread's scratch: no more than it asked for, with what another left in it.
inline Guarded<uint8_t> used_scratch(int64_t bytes) {
  Guarded<uint8_t> scratch(static_cast<size_t>(bytes));
  std::fill(scratch.begin(), scratch.end(), uint8_t{0xff});  // as floats: NaN
  return scratch;
}

class Random {
 public:
  explicit Random(uint32_t seed) : gen_(seed) {}
  float normal(float sigma = 1.f) { return sigma * normal_(gen_); }
  uint32_t below(uint32_t n) { return gen_() % n; }
  std::vector<float> normals(size_t n, float sigma = 1.f) {
    std::vector<float> v(n);
    for (float& x : v) x = normal(sigma);
    return v;
  }
  Guarded<float> guarded(size_t n, float sigma = 1.f) { return Guarded<float>::copy_of(normals(n, sigma)); }

 private:
  std::mt19937 gen_;
  std::normal_distribution<float> normal_;
};

// GGUF rows of `format`. Odd rows are arbitrary codes with sane scales, so that every code occurs; even rows
// are encoded.
std::vector<uint8_t> random_gguf(Format format, int64_t rows, int64_t cols, uint32_t seed);

// The x16 layout of `rows` x `cols`, or the x16_pair layout of two such matrices.
Guarded<uint8_t> packed(Format format, const std::vector<uint8_t>& gguf, int64_t rows, int64_t cols,
                        const std::vector<uint8_t>* second = nullptr);

// Equality of bits, reported with the place.
inline ::testing::AssertionResult same_bits(const float* a, const float* b, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    if (std::memcmp(a + i, b + i, 4) != 0) {
      return ::testing::AssertionFailure()
             << "element " << i << " of " << n << ": " << a[i] << " and " << b[i];
    }
  }
  return ::testing::AssertionSuccess();
}

// Runs once per ISA level; levels that this machine lacks are skipped by name.
class KernelTest : public ::testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (const std::string why = WhyNotHere(GetParam()); !why.empty()) GTEST_SKIP() << why;
    k = &kernels_of(GetParam());
  }
  const Kernels* k = nullptr;
};
// In a KernelTest of so many products that emulating them takes minutes. What remains are the tests of few,
// those that compare levels, and cpu_levels_test.
#define QCC_SKIP_WHERE_PRODUCTS_ARE_EMULATED() \
  if (ProductsAreEmulated(GetParam()))         \
  GTEST_SKIP() << "this machine lacks avx_vnni, and emulating as many products takes minutes"

inline std::vector<Isa> all_levels() {
  std::vector<Isa> levels;
  for (const IsaInfo& i : isa_table()) levels.push_back(i.id);
  return levels;
}

// Levels whose multiply-add rounds once, which agree bit for bit: those that this machine has, and of the
// others what each lacks.
struct FusedLevels {
  std::vector<Isa> here;
  std::string lacking;  // "; this machine lacks avx512f, which v4vnni needs"
};
inline FusedLevels fused_levels() {
  FusedLevels levels;
  for (Isa isa : all_levels()) {
    if (isa_info(isa).cpu_flags.find("fma") == std::string_view::npos) continue;
    const std::string why = WhyNotHere(isa);
    if (why.empty()) {
      levels.here.push_back(isa);
    } else {
      levels.lacking += "; " + why;
    }
  }
  return levels;
}
// In a test that compares them.
#define QCC_TWO_FUSED_LEVELS_OR_SKIP(levels)            \
  const auto [levels, lacking_levels] = fused_levels(); \
  if (levels.size() < 2) GTEST_SKIP() << "this machine has fewer than two levels with fma" << lacking_levels

#define QCC_INSTANTIATE_KERNEL_TEST(suite)                                                       \
  INSTANTIATE_TEST_SUITE_P(Isa, suite, ::testing::ValuesIn(all_levels()), [](const auto& info) { \
    return std::string(qcc::cpu::isa_info(info.param).name);                                     \
  })

}  // namespace qcc::cpu

#endif  // QCC_TESTS_UNIT_CODEGEN_CPU_KERNEL_HARNESS_H_
