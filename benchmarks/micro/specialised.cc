// The kernels with constant shapes; compiled to bitcode, linked with the kernels' bitcode and optimised, as
// qcc does.
#include "benchmarks/micro/shapes.h"
#include "codegen/cpu/kernels/kernels.h"

extern "C" {

// Sum of 64-bit words in 16 chains: as fast as this level can read.
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

#define BENCH_INT8(suffix)                                                                     \
  void bench_gemv_##suffix##_int8(const uint8_t* x, const uint8_t* w, float* y, int64_t begin, \
                                  int64_t end) {                                               \
    qk_linear_##suffix##_int8(x, w, y, kGemvColumns, kGemvRows, QK_STORE, 1, begin, end);      \
  }                                                                                            \
  void bench_gemm_##suffix##_int8(const uint8_t* x, const uint8_t* w, float* y, int64_t begin, \
                                  int64_t end) {                                               \
    qk_linear_##suffix##_int8(x, w, y, kGemmColumns, kGemmRows, QK_STORE, kBatch, begin, end); \
  }
#define BENCH_F32(suffix)                                                                                  \
  void bench_gemv_##suffix##_f32(const float* x, const uint8_t* w, float* y, int64_t begin, int64_t end) { \
    qk_linear_##suffix##_f32(x, w, y, kGemvColumns, kGemvRows, QK_STORE, 1, begin, end);                   \
  }                                                                                                        \
  void bench_gemm_##suffix##_f32(const float* x, const uint8_t* w, float* y, int64_t begin, int64_t end) { \
    qk_linear_##suffix##_f32(x, w, y, kGemmColumns, kGemmRows, QK_STORE, kBatch, begin, end);              \
  }
#include "benchmarks/micro/specialised.def"

void bench_gated_delta(const float* qkv, const float* z, const float* ab, const float* w, const qrt_seq* seq,
                       float* out, int64_t rows) {
  qk_gated_delta(qkv, z, ab, ab + kHeads, w, w, w, w, seq, 1, out, 0, 4 * (kTaps - 1) * kChannels, kHeads,
                 kHeads, kDim, kDim, kTaps, 1e-6f, 0, 1e-6f, 0.088388f, 2 * kHeads, rows, 0, kHeads);
}
void bench_attention(const float* q, const qrt_seq* seq, float* out, int64_t rows) {
  qk_attention(q, nullptr, seq, 1, out, 0, kQueryHeads, kKvHeads, kHeadDim, 0.0625f, 1, rows, 0,
               rows * kKvHeads);
}
void bench_norm(const float* x, const float* w, uint8_t* q, int64_t rows) {
  qk_norm(x, w, nullptr, q, nullptr, kGemvColumns, 1e-6f, rows, 0, rows);
}
}
