#include "codegen/gpu/kernels/gated_norm.h"

#include <vector>

#include "codegen/gpu/kernels/math.h"

namespace qcc::gpu {

Val OwnSquares(Builder& b, Val thread, Val x, Val first, int dim) {
  Val sum = b.F32(0.f);
  for (int i = 0; i < dim; i += kNormThreads) {
    const Val at = thread + i;
    const auto load = [&] { return std::vector<Val>{b.Load(Type::kF32, x, (first + at) << 2)}; };
    const Val own = i + kNormThreads <= dim ? load()[0] : b.IfElse(LtS(at, b.I32(dim)), load, [&] {
      return std::vector<Val>{b.F32(0.f)};
    })[0];
    sum = Fma(own, own, sum);
  }
  return sum;
}

Val GatedNormScale(Builder& b, Val squares, int dim, Val eps) {
  const Val mean = DivF(squares, b.F32(static_cast<float>(dim)));
  return DivF(b.F32(1.f), b.Call(Builder::Fn::kSqrt, mean + eps));
}

Val GatedNormed(Val x, Val scale, Val weight, Val gate) {
  return ((x * scale) * weight) * Silu(gate);
}

}  // namespace qcc::gpu
