// The functions of specialised.cc, per ISA level.
#ifndef QCC_BENCHMARKS_MICRO_SPECIALISED_H_
#define QCC_BENCHMARKS_MICRO_SPECIALISED_H_

#include "codegen/cpu/kernels/kernels.h"

// x: f32 values or int8 rows.
typedef void BenchLinearFn(const float* x, const uint8_t* w, float* y, uint8_t* scratch, int64_t read_ahead,
                           int64_t begin, int64_t end);

struct BenchLinear {
  const char* name;    // format and numerics
  const char* format;  // name in formats.def
  BenchLinearFn *gemv, *gemm;
};

struct BenchTable {
  uint64_t (*read)(const uint8_t* p, int64_t bytes);
  void (*delta)(const float* qkv, const float* z, const float* ab, const float* w, const qrt_seq* seq,
                uint8_t* scratch, float* out, int64_t rows);
  void (*attention)(const float* q, const qrt_seq* seq, uint8_t* scratch, float* out, int64_t rows);
  void (*norm)(const float* x, const float* w, uint8_t* q, int64_t rows);
  const BenchLinear* linears;
  uint64_t linear_count;
};

#define QCC_ISA(id, ...) extern "C" const BenchTable* id##_bench_table();
#include "codegen/cpu/kernels/isa.def"
#undef QCC_ISA

#endif  // QCC_BENCHMARKS_MICRO_SPECIALISED_H_
