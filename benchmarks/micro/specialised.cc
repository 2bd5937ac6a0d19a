// The kernels with constant shapes; compiled to bitcode, linked with the kernels' bitcode and optimised, as
// qcc does.
#include "benchmarks/micro/specialised.h"

#include "benchmarks/micro/shapes.h"

namespace {

// Sum of 64-bit words in 32 chains: as fast as this level can read.
uint64_t bench_read(const uint8_t* p, int64_t bytes) {
  typedef uint64_t V __attribute__((ext_vector_type(8)));
  V a = 0, b = 0, c = 0, d = 0;
  for (int64_t i = 0; i + 256 <= bytes; i += 256) {
    const V* v = reinterpret_cast<const V*>(p + i);
    a += v[0];
    b += v[1];
    c += v[2];
    d += v[3];
  }
  const V s = (a + b) + (c + d);
  return s[0] + s[1] + s[2] + s[3] + s[4] + s[5] + s[6] + s[7];
}

// Of a matrix that the format and the kernel's numerics say nothing of: a kernel reads neither.
static inline __attribute__((always_inline)) linear_args product(const float* x, const uint8_t* w, float* y,
                                                                 uint8_t* scratch, int64_t k, int64_t n,
                                                                 int64_t rows, int64_t read_ahead,
                                                                 int64_t begin, int64_t end) {
  return {.format = 0,
          .numerics = QK_Numerics_F32,
          .k = k,
          .n = n,
          .epilogue = QK_Epilogue_Store,
          .rows = QK_RowsFrom_Rows,
          .x = x,
          .xq = reinterpret_cast<const uint8_t*>(x),
          .w = w,
          .scale = nullptr,
          .up_scale = nullptr,
          .y = y,
          .scratch = scratch,
          .read_ahead = read_ahead,
          .n_rows = rows,
          .begin = begin,
          .end = end};
}

#define BENCH_LINEAR(kernel, name)                                                                          \
  void gemv_##name(const float* x, const uint8_t* w, float* y, uint8_t* scratch, int64_t read_ahead,        \
                   int64_t begin, int64_t end) {                                                            \
    const linear_args args = product(x, w, y, scratch, kGemvColumns, kGemvRows, 1, read_ahead, begin, end); \
    kernel(&args);                                                                                          \
  }                                                                                                         \
  void gemm_##name(const float* x, const uint8_t* w, float* y, uint8_t* scratch, int64_t read_ahead,        \
                   int64_t begin, int64_t end) {                                                            \
    const linear_args args =                                                                                \
        product(x, w, y, scratch, kGemmColumns, kGemmRows, kBatch, read_ahead, begin, end);                 \
    kernel(&args);                                                                                          \
  }
#define QK_PLAIN_FORMAT(id, name) BENCH_LINEAR(qk_linear_##id##_f32, id##_f32)
#define QK_BLOCK_FORMAT(id, name) \
  QK_PLAIN_FORMAT(id, name)       \
  BENCH_LINEAR(qk_linear_##id##_int8, id##_int8)
#include "codegen/cpu/kernels/kernels.def"

void bench_gated_delta(const float* qkv, const float* z, const float* ab, const float* w, const qrt_seq* seq,
                       uint8_t* scratch, float* out, int64_t rows) {
  const gated_delta_args args = {.key_heads = kHeads,
                                 .value_heads = kHeads,
                                 .key_dim = kDim,
                                 .value_dim = kDim,
                                 .taps = kTaps,
                                 .l2_eps = 1e-6f,
                                 .l2_form = QK_L2Form_Sum,
                                 .norm_eps = 1e-6f,
                                 .scale = 0.088388f,
                                 .ld_ab = 2 * kHeads,
                                 .heads = QK_HeadOrder_Tiled,
                                 .qkv = qkv,
                                 .z = z,
                                 .alpha = ab,
                                 .beta = ab + kHeads,
                                 .conv_w = w,
                                 .ssm_a = w,
                                 .dt_bias = w,
                                 .norm_w = w,
                                 .conv_state_offset = 0,
                                 .delta_state_offset = 4 * kConvFloats,
                                 .out = out,
                                 .seqs = seq,
                                 .n_seqs = 1,
                                 .scratch = scratch,
                                 .n_rows = rows,
                                 .begin = 0,
                                 .end = kHeads};
  qk_gated_delta(&args);
}
void bench_attention(const float* q, const qrt_seq* seq, uint8_t* scratch, float* out, int64_t rows) {
  const attention_args args = {.q_heads = kQueryHeads,
                               .kv_heads = kKvHeads,
                               .head_dim = kHeadDim,
                               .scale = 0.0625f,
                               .gated = false,
                               .kv = QK_KvElement_B16,
                               .q = q,
                               .gate = nullptr,
                               .kv_offset = 0,
                               .out = out,
                               .seqs = seq,
                               .n_seqs = 1,
                               .scratch = scratch,
                               .shared_scratch = nullptr,
                               .n_rows = rows,
                               .begin = 0,
                               .end = rows * kKvHeads};
  qk_attention(&args);
}
void bench_norm(const float* x, const float* w, uint8_t* q, int64_t rows) {
  const norm_args args = {.cols = kGemvColumns,
                          .eps = 1e-6f,
                          .source = QK_RowsFrom_Rows,
                          .x = x,
                          .weight = w,
                          .out = nullptr,
                          .out_q = q,
                          .out_q2 = nullptr,
                          .out_rows = nullptr,
                          .n_rows = rows,
                          .begin = 0,
                          .end = rows};
  qk_norm(&args);
}

constexpr BenchLinear kLinears[] = {
#define QK_PLAIN_FORMAT(id, name) {name " f32", name, &gemv_##id##_f32, &gemm_##id##_f32},
#define QK_BLOCK_FORMAT(id, name)                             \
  {name " int8", name, &gemv_##id##_int8, &gemm_##id##_int8}, \
      {name " f32", name, &gemv_##id##_f32, &gemm_##id##_f32},
#include "codegen/cpu/kernels/kernels.def"
};
constexpr BenchTable kTable = {&bench_read, &bench_gated_delta, &bench_attention,
                               &bench_norm, kLinears,           sizeof kLinears / sizeof kLinears[0]};

}  // namespace

extern "C" const BenchTable* bench_table() {
  return &kTable;
}
