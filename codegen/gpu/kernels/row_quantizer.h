// Writing int8 rows (dialects/plan/kernel_families.md) in kernels.
#ifndef QCC_CODEGEN_GPU_KERNELS_ROW_QUANTIZER_H_
#define QCC_CODEGEN_GPU_KERNELS_ROW_QUANTIZER_H_

#include <cstdint>
#include <vector>

#include "codegen/gpu/kernels/reduce.h"

namespace qcc::gpu {

// Eight neighbouring threads make a block of 32 columns, four columns each.
class RowQuantizer {
 public:
  // k columns, a multiple of 32, of one or two terms.
  RowQuantizer(Builder& builder, int workgroup_size, int64_t k, int terms = 1);
  int64_t row_bytes() const;
  // `values`: columns 4 * quad .. 4 * quad + 3 of the row at byte offset `row` of `out_q`. quad modulo 8 is
  // the thread's index modulo
  // 8. Nothing is stored where `active` is false, but all threads of the workgroup must call.
  void Write(Val out_q, Val row, Val quad, Val active, const std::vector<Val>& values);

 private:
  // One term; what rounding leaves of the values, where `rest` is asked for.
  void WriteTerm(Val out_q, Val row, Val quad, Val active, const std::vector<Val>& values,
                 std::vector<Val>* rest);

  Builder& b_;
  int64_t k_;
  int terms_;
  Reducer block_, half_;
};

}  // namespace qcc::gpu

#endif  // QCC_CODEGEN_GPU_KERNELS_ROW_QUANTIZER_H_
