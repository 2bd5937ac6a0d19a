// A kernel's arguments by name. A kernel declares them once, in order, as an aggregate of one type:
//
//   template <typename T>
//   struct AddArgs {
//     T x, y, step;
//   };
//
// The launch lists them, and the kernel reads them all, or one where it is needed:
//
//   launch.args = ListArgs<AddArgs>({.x = ..., .y = ..., .step = StepArg(expansion)});
//   const auto args = ReadArgs<AddArgs>(b);
//   const Val y = b.Arg(kArg<AddArgs>.y);
#ifndef QCC_CODEGEN_GPU_KERNELS_KERNEL_ARGS_H_
#define QCC_CODEGEN_GPU_KERNELS_KERNEL_ARGS_H_

#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "codegen/gpu/kernels/builder.h"
#include "codegen/gpu/kernels/launch.h"

namespace qcc::gpu {

template <template <typename> typename Args>
inline constexpr size_t kArgCount = sizeof(Args<int>) / sizeof(int);

// Each argument's number.
template <template <typename> typename Args>
inline constexpr Args<int> kArg = [] {
  std::array<int, kArgCount<Args>> numbers{};
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<int>(i);
  return std::bit_cast<Args<int>>(numbers);
}();

template <template <typename> typename Args>
std::vector<Arg> ListArgs(const Args<Arg>& args) {
  const auto list = std::bit_cast<std::array<Arg, kArgCount<Args>>>(args);
  return {list.begin(), list.end()};
}

template <template <typename> typename Args>
Args<Val> ReadArgs(Builder& b) {
  std::array<Val, kArgCount<Args>> values;
  for (size_t i = 0; i < values.size(); ++i) values[i] = b.Arg(static_cast<int>(i));
  return std::bit_cast<Args<Val>>(values);
}

// A float that goes as the bits of a number, and that number (i64) as a float again.
inline Arg FloatNumber(double value) {
  return Number(std::bit_cast<uint32_t>(static_cast<float>(value)));
}
inline Val FloatOf(Val number) {
  Builder& b = *number.builder();
  return b.AsF32(b.Truncate(number));
}

}  // namespace qcc::gpu

#endif  // QCC_CODEGEN_GPU_KERNELS_KERNEL_ARGS_H_
