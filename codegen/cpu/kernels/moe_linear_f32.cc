// moe_linear with f32 activations.
#include "codegen/cpu/kernels/linear_f32.h"
#include "codegen/cpu/kernels/moe_linear.h"

namespace qk {
namespace {

template <class S>
QK_INLINE void moe_linear_f32(const moe_linear_args& a) {
  const int64_t columns = a.epilogue == QK_Epilogue_Add ? a.top_k * a.k : a.k;
  const F32Linear<S> t{a.k, columns * 4, S::group_bytes(a.k)};
  moe_linear(t, NoPanels{}, reinterpret_cast<const uint8_t*>(a.x), a);
}

}  // namespace
}  // namespace qk

#define QK_MOE_LINEAR(source, id, name)                                               \
  QK_SIGNATURE_AS(qk_moe_linear_##id##_f32, "qk_moe_linear_" name "_f32", moe_linear) \
  QK_EXPORT void qk_moe_linear_##id##_f32(const moe_linear_args* args) {              \
    const moe_linear_args a = *args;                                                  \
    qk::moe_linear_f32<qk::source<qcc::Format::id>>(a);                               \
  }
#define QK_BLOCK_FORMAT(id, name) QK_MOE_LINEAR(BlockSource, id, name)
#define QK_PLAIN_FORMAT(id, name) QK_MOE_LINEAR(PlainSource, id, name)
#include "codegen/cpu/kernels/kernels.def"
