// What the variants of the linear kernel share. y (op)= W x for each row x of the step.
//
// One order of operations for all variants, so that a row's result does not depend on the bucket: the columns
// are cut into `parts` runs of 32-column chunks; within a part chunks follow one another in one accumulator
// (f32 numerics: two, even and odd columns, added at the part's end); the result is ((0 + part 0) + part 1) +
// ...
#ifndef QCC_CODEGEN_GPU_KERNELS_LINEAR_H_
#define QCC_CODEGEN_GPU_KERNELS_LINEAR_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "codegen/gpu/kernels/launch.h"
#include "codegen/gpu/kernels/weights.h"

namespace qcc::gpu {

using plan::Epilogue;

// Everything that shapes the code of a linear kernel, but its tiling.
struct LinearSpec {
  Format format = Format::F32;
  bool int8 = false;  // numerics
  int64_t k = 0;      // a multiple of 32 and of the format's block
  Epilogue epilogue = Epilogue::Store;
  // Whether sums are multiplied ahead of the epilogue: those of the matrix, or gate, and those of up.
  bool scale = false, up_scale = false;

  int64_t chunks() const { return k / kChunkColumns; }
  int parts() const { return chunks() >= 8 ? 8 : chunks() >= 4 ? 4 : chunks() >= 2 ? 2 : 1; }
  int64_t chunks_per_part() const { return (chunks() + parts() - 1) / parts(); }
  int64_t x_row_bytes() const;
  int64_t group_bytes() const { return GroupBytes(format, k); }
  // Groups of weights behind 16 columns of y: gate and up for swiglu.
  int groups_per_unit() const { return epilogue == Epilogue::Swiglu ? 2 : 1; }
  std::string name() const;  // "linear.q4_k.int8.k1024.add", and ".scale", ".up_scale" where there are
};

// Arguments of every variant; behind them the scales that the spec has, scale first. count: where the step
// holds the number of rows. A unit is 16 columns of y.
template <typename T>
struct LinearArgList {
  T x, w, y, count, units, y_row_bytes;
};

// What a kernel makes of them.
struct LinearArgs {
  LinearArgs(Builder& b, const LinearSpec& spec);
  static std::vector<Arg> List(const LinearArgList<Arg>& args, const std::optional<Arg>& scale,
                               const std::optional<Arg>& up_scale);
  Val x, w, y;
  Val rows;             // i32: of this step
  Val units;            // i32
  Val y_row_bytes;      // i32
  Val scale, up_scale;  // where they are, null: none
};

// Accumulators [group][row] of one matrix row of each group in `groups` (byte offsets) with rows at byte
// offsets `x_rows`, over the chunks [low, high), i32.
std::vector<Val> LinearPart(Builder& b, const LinearSpec& spec, const LinearArgs& args, Val lane,
                            const std::vector<Val>& groups, const std::vector<Val>& x_rows, Val low,
                            Val high);

// First chunk of a part, and the one after its last.
Val PartLow(const LinearSpec& spec, Val part);
Val PartHigh(const LinearSpec& spec, Val part);

// The order of the parts, for variants in which a thread has all columns: `count` sums, of which `part` gives
// those over the chunks [low, high).
std::vector<Val> SumParts(Builder& b, const LinearSpec& spec, size_t count,
                          const std::function<std::vector<Val>(Val low, Val high)>& part);

// Finishes one element: `sums` has the sum of the unit's groups; `offset`: the element's place in y.
void StoreLinear(Builder& b, const LinearSpec& spec, const LinearArgs& args, Val offset,
                 const std::vector<Val>& sums);

// ---- variants: `launch.args` and costs are set by the caller ----

// Few rows: 16 threads a part, every weight read once for `tile_rows` rows.
Launch LinearSplit(const LinearSpec& spec, int tile_rows, int64_t units, int64_t rows);
// Many rows: a thread has `tile_rows` rows by two groups over all columns.
Launch LinearTiled(const LinearSpec& spec, int tile_rows, int64_t units, int64_t rows);
// Many rows of int8 numerics on matrix units of kind kMma: a subgroup has `tile_rows` rows (8, 16, 24 or
// 32) by two groups. Tiled: over all columns. Split: the subgroups of a workgroup share the parts of one
// tile.
Launch LinearMatrixTiled(const LinearSpec& spec, int tile_rows, int64_t units, int64_t rows);
Launch LinearMatrixSplit(const LinearSpec& spec, int tile_rows, int64_t units, int64_t rows);
// The same on those of kind kCooperative: a workgroup has 32 rows by four groups over all columns.
Launch LinearCooperative(const LinearSpec& spec, int64_t units, int64_t rows);

}  // namespace qcc::gpu

#endif  // QCC_CODEGEN_GPU_KERNELS_LINEAR_H_
