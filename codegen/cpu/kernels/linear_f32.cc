// linear with f32 activations.
#include "codegen/cpu/kernels/linear_f32.h"

namespace qk {
namespace {

template <class S>
QK_INLINE void linear_f32(const linear_args& a) {
  const F32Linear<S> t{a.k, a.k * 4, S::group_bytes(a.k)};
  linear_groups(t, reinterpret_cast<const uint8_t*>(a.x), a);
}

}  // namespace
}  // namespace qk

#define QK_LINEAR(source, id, name)                                       \
  QK_SIGNATURE_AS(qk_linear_##id##_f32, "qk_linear_" name "_f32", linear) \
  QK_EXPORT void qk_linear_##id##_f32(const linear_args* args) {          \
    const linear_args a = *args;                                          \
    qk::linear_f32<qk::source<qcc::Format::id>>(a);                       \
  }
#define QK_BLOCK_FORMAT(id, name) QK_LINEAR(BlockSource, id, name)
#define QK_PLAIN_FORMAT(id, name) QK_LINEAR(PlainSource, id, name)
#include "codegen/cpu/kernels/kernels.def"
