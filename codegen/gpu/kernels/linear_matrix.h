// What the linear kernels on matrix units of kind kMma share: int8 numerics (mma.m16n8k32), and those of
// float weights (mma.m16n8k16: linear_matrix_floats.cc).
//
// A: the 16 matrix rows of a group by 32 columns; B: 8 rows of x, a fragment, by the same columns; C: their
// sums. Lane 4 * group + quad holds columns 4 * quad .. + 3 and 16 more of two matrix rows and of x row
// `group`; and sums 0..3 of the first matrix row, x rows 2 * quad and 2 * quad + 1, then the same of the
// second. The matrix rows are `group` and `group` + 8; of float weights 2 * group and the next, which lie
// side by side.
#ifndef QCC_CODEGEN_GPU_KERNELS_LINEAR_MATRIX_H_
#define QCC_CODEGEN_GPU_KERNELS_LINEAR_MATRIX_H_

#include <cstdint>
#include <vector>

#include "codegen/gpu/kernels/linear_input.h"
#include "codegen/gpu/kernels/matrix_lane.h"

namespace qcc::gpu {

using layouts::kGroupRows;

// Of one row of x and 32 columns, as they lie.
struct RowWords {
  Val scale;
  Val weighted;  // kOne: scale * sum of the codes
  Val sums[2];   // kTwo: of the codes of each scale
};
// `row.at`: of the row's scales. `k`: columns of a whole row.
RowWords LoadNumbers(Builder& b, int64_t k, Val x, const XRow& row, Val number, Sums kind);
// What products take of them.
struct RowNumbers {
  Val scale;
  std::vector<Val> sums;  // scale * sum of codes: of all columns, or of each scale's
};
RowNumbers NumbersOf(Builder& b, const RowWords& words, Sums kind);

// How many numbers scale 32 columns where workgroup memory has them. Of a matrix row [scale][rest][shift],
// each once or for each of two scales. Of a row of x: its scale, and as many products of sums as minima need.
struct NumberCounts {
  int scales, of_weights, of_x;
};
NumberCounts CountNumbers(const LinearSpec& spec);

// 32 columns of a group: the lane's words of A, and the scales of its two matrix rows.
struct GroupChunk {
  std::vector<Val> a;
  PackedRow::Scales scales[2];
};
// acc + the product of 32 columns, element by element as every variant does it (linear_products.cc). `x`: the
// lane's words of B; `numbers`: of the two rows that it has sums of.
void AddProduct(Builder& b, bool two_scales, const GroupChunk& w, const std::vector<Val>& x,
                const RowNumbers numbers[2], Val* acc);

// The rows of x as a subgroup's lanes read them: fragments.
class MatrixInput {
 public:
  virtual ~MatrixInput() = default;
  virtual int fragments() const = 0;
  // Of chunk `number` of the lane's row: its words of B.
  virtual std::vector<Val> Codes(int fragment, Val number) const = 0;
  // Of the row of sum `sum`, 0 or 1.
  virtual RowNumbers Numbers(int fragment, int sum, Val number) const = 0;
  // Of f32 rows, the lane's 8 columns of chunk `number`.
  virtual std::vector<Val> Values(int fragment, Val number) const = 0;
};

// As they lie in memory, from `first_row` on.
class StoredFragments final : public MatrixInput {
 public:
  StoredFragments(Builder& b, const LinearSpec& spec, const LinearArgs& args, Val first_row, int fragments);
  int fragments() const override { return static_cast<int>(codes_.size()); }
  std::vector<Val> Codes(int fragment, Val number) const override;
  RowNumbers Numbers(int fragment, int sum, Val number) const override;
  std::vector<Val> Values(int fragment, Val number) const override;

 private:
  Builder& b_;
  const LinearSpec& spec_;
  const Val x_;
  std::vector<Val> codes_;     // [fragment]: byte offsets in x of the lane's columns, also of f32 rows
  std::vector<XRow> numbers_;  // [fragment][2]: the scales of the rows that the lane has sums of
};

// As the workgroup made them: up to 8, which the fragment repeats.
class MadeFragment final : public MatrixInput {
 public:
  // `rows`: made, with products.
  MadeFragment(Builder& b, const LinearSpec& spec, const MadeRows& rows);
  int fragments() const override { return 1; }
  std::vector<Val> Codes(int fragment, Val number) const override;
  RowNumbers Numbers(int fragment, int sum, Val number) const override;
  std::vector<Val> Values(int fragment, Val number) const override;

 private:
  const MadeRows& rows_;
  const Sums kind_;
  MatrixLane lane_;
  Val row_, sum_rows_[2];
  MadeRows::F32Row f32_row_;
};

// Sums [run][group][fragment][kLaneSums] of the groups at byte offsets `groups` of `w`, over the chunks [low,
// high) and, for each run, as many that begin so many chunks behind them.
std::vector<Val> MatrixPart(Builder& b, const LinearSpec& spec, Val w, const std::vector<Val>& groups,
                            const MatrixInput& x, Val low, Val high, const std::vector<int64_t>& runs = {0});
// The same of float weights.
std::vector<Val> FloatMatrixPart(Builder& b, const LinearSpec& spec, Val w, const std::vector<Val>& groups,
                                 const MatrixInput& x, Val low, Val high, const std::vector<int64_t>& runs);

// The matrix row of a group that the lane has sums of: of the first (0) or the second (1).
template <typename T>
Val SumColumn(const LinearSpec& spec, const MatrixLane& lane, T second) {
  return spec.int8 ? lane.group + (kGroupRows / 2) * second : lane.group * 2 + second;
}
// Units of y behind two groups that lie side by side.
int UnitsOfPair(const LinearSpec& spec);
// Stores what there is of one element: x row `row` of the step by matrix row `column` of the units from
// `first_unit` on, which exists. `sums`: of the two groups.
void StorePair(Builder& b, const LinearSpec& spec, const LinearArgs& args, Val first_unit, Val row,
               Val column, const Val sums[2]);

}  // namespace qcc::gpu

#endif  // QCC_CODEGEN_GPU_KERNELS_LINEAR_MATRIX_H_
