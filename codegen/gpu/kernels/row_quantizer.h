// Writing int8 rows (dialects/plan/kernel_families.md) in kernels.
#ifndef QCC_CODEGEN_GPU_KERNELS_ROW_QUANTIZER_H_
#define QCC_CODEGEN_GPU_KERNELS_ROW_QUANTIZER_H_

#include <cstdint>
#include <vector>

#include "codegen/gpu/kernels/reduce.h"

namespace qcc::gpu {

// What a thread knows of the block of 32 columns that it makes with seven others.
struct RoundedQuad {
  Val word;  // the codes of its four columns
  Val sum;   // of these codes, f32: at most 32 * 127, as exact as that of the block
};

// Eight neighbouring threads make a block of 32 columns, four columns each.
class RowQuantizer {
 public:
  // k columns, a multiple of 32, of one or two terms.
  RowQuantizer(Builder& builder, int workgroup_size, int64_t k, int terms = 1);
  static int SharedWords(const Profile& profile, int workgroup_size) {
    return Reducer::SharedWords(profile, workgroup_size, 8) +
           Reducer::SharedWords(profile, workgroup_size, 4);
  }
  int64_t row_bytes() const;
  // The scale of each term of the thread's block: the host's, to the bit, where that is no subnormal number.
  // Of a value that is none, or infinite, the scale is so too: no code says it. All threads of the workgroup
  // must call, here and below.
  std::vector<Val> Scales(const std::vector<Val>& values);
  // One term, of that scale; a code is one off where the device's division of a value next to a half is. What
  // rounding leaves of the values, where `rest` is asked for.
  RoundedQuad Round(const std::vector<Val>& values, Val scale, std::vector<Val>* rest);
  // f32: of the codes of the thread's block.
  Val Sum(const RoundedQuad& rounded) { return block_.Sum(rounded.sum); }
  // i32: of the codes of the thread's half of the block.
  Val HalfSum(const RoundedQuad& rounded);
  // `values`: columns 4 * quad .. 4 * quad + 3 of the row at byte offset `row` of `out_q`. quad modulo 8 is
  // the thread's index modulo 8. Nothing is stored where `active` is false.
  void Write(Val out_q, Val row, Val quad, Val active, const std::vector<Val>& values);

 private:
  // peak / 127.
  Val ScaleOf(Val peak);
  void WriteTerm(Val out_q, Val row, Val quad, Val active, const std::vector<Val>& values, Val scale,
                 std::vector<Val>* rest);

  Builder& b_;
  int64_t k_;
  int terms_;
  Reducer block_, half_;
};

}  // namespace qcc::gpu

#endif  // QCC_CODEGEN_GPU_KERNELS_ROW_QUANTIZER_H_
