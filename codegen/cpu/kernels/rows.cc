// norm, quantize, swiglu, add: one row is one work item.
#include "codegen/cpu/kernels/kernels.h"
#include "codegen/cpu/kernels/math.h"
#include "codegen/cpu/kernels/row_ops.h"

namespace qk {
namespace {

// fn(column, lanes) over a row: vectors of 16, then of 1.
template <class Fn16, class Fn1>
QK_INLINE void for_each_column(int64_t cols, Fn16 fn16, Fn1 fn1) {
  int64_t c = 0;
  for (; c + 16 <= cols; c += 16) fn16(c);
  for (; c < cols; ++c) fn1(c);
}

}  // namespace
}  // namespace qk

QK_EXPORT void qk_norm(const float* x, const float* weight, float* out, uint8_t* out_q,
                       const int32_t* row_ids, int64_t cols, float eps, int64_t rows, int64_t begin,
                       int64_t end) {
  using namespace qk;
  for (int64_t r = begin; r < end; ++r) {
    const float* v = x + (row_ids ? row_ids[r] : r) * cols;
    const float scale = rms_scale(v, cols, eps);
    if (out) {
      float* o = out + r * cols;
      for_each_column(
          cols,
          [&](int64_t c)
              QK_LAMBDA { store<F32<16>>(o + c, (loadf<16>(v + c) * scale) * loadf<16>(weight + c)); },
          [&](int64_t c) QK_LAMBDA { o[c] = (v[c] * scale) * weight[c]; });
    }
    if (out_q) {
      uint8_t* q = out_q + r * int8_row_stride(cols);
      for (int64_t c = 0; c < cols; c += 32) {
        quantize32((loadf<16>(v + c) * scale) * loadf<16>(weight + c),
                   (loadf<16>(v + c + 16) * scale) * loadf<16>(weight + c + 16), q, cols, c);
      }
    }
  }
}

QK_EXPORT void qk_quantize(const float* x, uint8_t* out_q, int64_t cols, int64_t rows, int64_t begin,
                           int64_t end) {
  using namespace qk;
  for (int64_t r = begin; r < end; ++r) {
    const float* v = x + r * cols;
    uint8_t* q = out_q + r * int8_row_stride(cols);
    for (int64_t c = 0; c < cols; c += 32) quantize32(loadf<16>(v + c), loadf<16>(v + c + 16), q, cols, c);
  }
}

QK_EXPORT void qk_swiglu(const float* gate, const float* up, float* out, int64_t cols, int64_t rows,
                         int64_t begin, int64_t end) {
  using namespace qk;
  for (int64_t r = begin; r < end; ++r) {
    const float *g = gate + r * cols, *u = up + r * cols;
    float* o = out + r * cols;
    for_each_column(
        cols,
        [&](int64_t c) QK_LAMBDA { store<F32<16>>(o + c, silu<16>(loadf<16>(g + c)) * loadf<16>(u + c)); },
        [&](int64_t c) QK_LAMBDA { o[c] = silu<4>(splat<4>(g[c])).x * u[c]; });
  }
}

QK_EXPORT void qk_add(const float* x, float* y, int64_t cols, int64_t rows, int64_t begin, int64_t end) {
  using namespace qk;
  for (int64_t r = begin; r < end; ++r) {
    const float* a = x + r * cols;
    float* b = y + r * cols;
    for_each_column(
        cols, [&](int64_t c) QK_LAMBDA { store<F32<16>>(b + c, loadf<16>(b + c) + loadf<16>(a + c)); },
        [&](int64_t c) QK_LAMBDA { b[c] = b[c] + a[c]; });
  }
}
