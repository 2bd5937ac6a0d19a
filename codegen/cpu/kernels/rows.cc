// norm, quantize, swiglu, add, concat, select_rows, trace: one row is one work item.
#include "codegen/cpu/kernels/kernels.h"
#include "codegen/cpu/kernels/math.h"
#include "codegen/cpu/kernels/row_ops.h"
#include "codegen/cpu/kernels/sequences.h"

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

QK_SIGNATURE(qk_norm, norm)
QK_EXPORT void qk_norm(const norm_args* args) {
  using namespace qk;
  const norm_args a = *args;
  const int64_t cols = a.cols;
  const float* weight = a.weight;
  for (int64_t r = a.begin; r < a.end; ++r) {
    const float* v = a.x + (a.source == QK_RowsFrom_OutRows ? a.out_rows[r] : r) * cols;
    const float scale = rms_scale(v, cols, a.eps);
    if (a.out) {
      float* o = a.out + r * cols;
      for_each_column(
          cols,
          [&](int64_t c)
              QK_LAMBDA { store<F32<16>>(o + c, (loadf<16>(v + c) * scale) * loadf<16>(weight + c)); },
          [&](int64_t c) QK_LAMBDA { o[c] = (v[c] * scale) * weight[c]; });
    }
    const auto normed = [&](int64_t c)
                            QK_LAMBDA { return (loadf<16>(v + c) * scale) * loadf<16>(weight + c); };
    if (a.out_q) quantize_row(normed, a.out_q + r * Int8RowBytes(cols), cols);
    if (a.out_q2) {
      uint8_t* q = a.out_q2 + r * Int8RowBytes(2 * cols);
      for (int64_t c = 0; c < cols; c += 32) quantize32_twice(normed(c), normed(c + 16), q, cols, c);
    }
  }
}

QK_SIGNATURE(qk_quantize, quantize)
QK_EXPORT void qk_quantize(const quantize_args* args) {
  using namespace qk;
  const quantize_args a = *args;
  const int64_t cols = a.cols;
  for (int64_t r = a.begin; r < a.end; ++r) {
    const float* v = a.x + r * cols;
    if (a.out_q) {
      quantize_row([&](int64_t c) QK_LAMBDA { return loadf<16>(v + c); }, a.out_q + r * Int8RowBytes(cols),
                   cols);
    }
    if (a.out_q2) {
      uint8_t* q = a.out_q2 + r * Int8RowBytes(2 * cols);
      for (int64_t c = 0; c < cols; c += 32) {
        quantize32_twice(loadf<16>(v + c), loadf<16>(v + c + 16), q, cols, c);
      }
    }
  }
}

QK_SIGNATURE(qk_swiglu, swiglu)
QK_EXPORT void qk_swiglu(const swiglu_args* args) {
  using namespace qk;
  const swiglu_args a = *args;
  for (int64_t r = a.begin; r < a.end; ++r) {
    const float *g = a.gate + r * a.cols, *u = a.up + r * a.cols;
    float* o = a.out + r * a.cols;
    for_each_column(
        a.cols,
        [&](int64_t c) QK_LAMBDA { store<F32<16>>(o + c, silu<16>(loadf<16>(g + c)) * loadf<16>(u + c)); },
        [&](int64_t c) QK_LAMBDA { o[c] = silu<4>(splat<4>(g[c])).x * u[c]; });
  }
}

QK_SIGNATURE(qk_add, add)
QK_EXPORT void qk_add(const add_args* args) {
  using namespace qk;
  const add_args a = *args;
  for (int64_t r = a.begin; r < a.end; ++r) {
    const float* x = a.x + r * a.cols;
    float* y = a.y + r * a.cols;
    for_each_column(
        a.cols, [&](int64_t c) QK_LAMBDA { store<F32<16>>(y + c, loadf<16>(y + c) + loadf<16>(x + c)); },
        [&](int64_t c) QK_LAMBDA { y[c] = y[c] + x[c]; });
  }
}

QK_SIGNATURE(qk_concat, concat)
QK_EXPORT void qk_concat(const concat_args* args) {
  using namespace qk;
  const concat_args a = *args;
  const int64_t cols = a.a_cols + a.b_cols;
  for (int64_t r = a.begin; r < a.end; ++r) {
    const float *x = a.a + r * a.a_cols, *y = a.b + r * a.b_cols;
    float *to_x = a.out + r * cols, *to_y = to_x + a.a_cols;
    for_each_column(
        a.a_cols, [&](int64_t c) QK_LAMBDA { store<F32<16>>(to_x + c, loadf<16>(x + c)); },
        [&](int64_t c) QK_LAMBDA { to_x[c] = x[c]; });
    for_each_column(
        a.b_cols, [&](int64_t c) QK_LAMBDA { store<F32<16>>(to_y + c, loadf<16>(y + c)); },
        [&](int64_t c) QK_LAMBDA { to_y[c] = y[c]; });
  }
}

QK_SIGNATURE(qk_trace, trace)
QK_EXPORT void qk_trace(const trace_args* args) {
  using namespace qk;
  const trace_args a = *args;
  for (int64_t r = a.begin; r < a.end; ++r) {
    const qrt_seq& seq = sequence_of_row(a.seqs, a.n_seqs, r);
    if (r != seq.row_begin + seq.row_count - 1) continue;
    const float* x = a.x + r * a.cols;
    float* last = reinterpret_cast<float*>(seq.state + a.last_offset);
    for_each_column(
        a.cols, [&](int64_t c) QK_LAMBDA { store<F32<16>>(last + c, loadf<16>(x + c)); },
        [&](int64_t c) QK_LAMBDA { last[c] = x[c]; });
  }
}

QK_SIGNATURE(qk_select_rows, select_rows)
QK_EXPORT void qk_select_rows(const select_rows_args* args) {
  using namespace qk;
  const select_rows_args a = *args;
  for (int64_t r = a.begin; r < a.end; ++r) {
    const float* x = a.x + a.out_rows[r] * a.cols;
    float* o = a.out + r * a.cols;
    for_each_column(
        a.cols, [&](int64_t c) QK_LAMBDA { store<F32<16>>(o + c, loadf<16>(x + c)); },
        [&](int64_t c) QK_LAMBDA { o[c] = x[c]; });
  }
}
