// Quotients for targets whose division may not round correctly (Profile::exact_division): of Vulkan's 2.5 ulp
// are allowed, and an NVIDIA H100 uses some of them. Products, sums and differences are rounded correctly
// there, too, and none is contracted (builder.h). Templates: of Val in kernels, of float in tests.
#ifndef QCC_CODEGEN_GPU_KERNELS_QUOTIENTS_H_
#define QCC_CODEGEN_GPU_KERNELS_QUOTIENTS_H_

namespace qcc::gpu {

// m / 127, correctly rounded, for m in [2^-94, 2^127): nothing that counts is subnormal or infinite.
//
// The first quotient q is off by less than 2 ulp, and m - 127 q is exact: 128 q is, and lies within a factor
// of 2 of m; their difference, near -q, within such a factor of -q (Sterbenz, both times). What the second
// quotient adds is off by 2^-45 of the whole, and no m / 127 lies closer than 2^-32 to where rounding turns:
// 127 times such a number is odd in 31 bits, and m has 24.
template <typename T>
T Over127(T m) {
  constexpr float kInverse = 1.f / 127.f;
  const T q = m * kInverse;
  return q + ((m - q * 128.f) + q) * kInverse;
}

}  // namespace qcc::gpu

#endif  // QCC_CODEGEN_GPU_KERNELS_QUOTIENTS_H_
