// What the variants of the linear kernel share. y (op)= W x for each row x of the step, or of those that go
// to an expert (moe_linear).
//
// One order of operations for all variants, so that a row's result does not depend on the bucket: the columns
// are cut into `parts` runs of 32-column chunks; within a part chunks follow one another in one accumulator
// (f32 numerics: two, even and odd columns, added at the part's end); the result is ((0 + part 0) + part 1) +
// ... Float weights on matrix units have an order of their own (linear_matrix_floats.cc), for any number of
// rows.
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
#include "dialects/layouts/layouts.h"

namespace qcc::gpu {

using plan::Epilogue;

// Which rows a workgroup has. Of moe_linear: a row's i-th expert is its i-th slot, a row of y or of what
// becomes one; slot row * top_k + i is a row here.
enum class RowsOf : uint8_t {
  kStep,    // of the step, all by one matrix
  kSlot,    // one slot; `ids` says its expert
  kRow,     // all slots of one row of the step
  kExpert,  // slots of one expert, as `groups` and `order` have them
};

// What a workgroup makes of the f32 rows that it gets, itself, where a launch for that would take longer.
enum class Making : uint8_t {
  kNothing,     // rows are as the numerics want them
  kRounded,     // int8 rows (quantize)
  kNormed,      // their norm, for int8 numerics as int8 rows
  kGatedNormed  // int8 rows of the norm of each head times silu of its gate
};

// Everything that shapes the code of a linear kernel, but its tiling.
struct LinearSpec {
  Format format = Format::F32;
  bool int8 = false;  // numerics
  int terms = 1;      // of int8 rows: 2, k columns each, for int8x2
  int64_t k = 0;      // a multiple of 32 and of the format's block
  Epilogue epilogue = Epilogue::Store;
  // Whether sums are multiplied ahead of the epilogue: those of the matrix, or gate, and those of up.
  bool scale = false, up_scale = false;
  RowsOf rows_of = RowsOf::kStep;
  Making making = Making::kNothing;  // of kStep
  int64_t norm_dim = 0;              // of kGatedNormed: columns of a head
  // A head's: leaves UnitKeys, by those columns that may be chosen or by all. Of split variants.
  bool unit_keys = false, some = false;
  // moe_linear: slots of a row; whether a scale is one of many, by expert; whether what `add` adds is
  // multiplied by the slot's weight; whether each slot has k columns of its own in a row of x.
  int64_t experts = 1, top_k = 1;
  bool scale_each = false, up_scale_each = false;
  bool weighted = false, own_columns = false;

  int64_t x_cols() const { return own_columns ? top_k * k : terms * k; }
  // Of `rows` (slots, for experts): how many are likely to have the same matrix, and into how many tiles they
  // fall at most.
  int64_t rows_together(int64_t rows) const;
  int64_t row_tiles(int64_t rows, int64_t tile_rows) const;
  int64_t chunks() const { return k / kChunkColumns; }
  int parts() const;
  int64_t chunks_per_part() const { return (chunks() + parts() - 1) / parts(); }
  // Threads of a workgroup of the split variants, of `tile_rows` rows: 16 for each part, or kLinearThreads
  // where the profile has no room for so many or for their sums, or there are fewer.
  int split_threads(const Profile& profile, int tile_rows) const;
  // Times that these go over the parts.
  int split_rounds(const Profile& profile, int tile_rows) const;
  int64_t x_row_bytes() const;
  int64_t group_bytes() const { return GroupBytes(format, k); }
  // Groups of weights behind 16 columns of y: gate and up for swiglu.
  int groups_per_unit() const { return epilogue == Epilogue::Swiglu ? 2 : 1; }
  std::string name() const;  // "linear.q4_k.int8.k1024.add", and ".scale", ".up_scale" where there are
};

constexpr int kLinearThreads = 128;                // of a workgroup of any variant but the split ones
constexpr int kLinearLanes = layouts::kGroupRows;  // threads side by side, one matrix row each

// Arguments of every variant. count: where the step holds the number of rows. A unit is 16 columns of y.
template <typename T>
struct LinearArgList {
  T x, w, y, count, units, y_row_bytes;
};
// Behind them, in this order, those that the spec has. Bytes from one expert's weights to the next; of the
// lists of kernel_families.md, kSlot and kRow have `ids`, kExpert the others.
struct LinearMoreArgs {
  std::optional<Arg> scale = {}, up_scale = {}, weights = {}, expert_bytes = {}, ids = {}, groups = {},
                     order = {}, unit_keys = {}, choosable = {}, norm_weight = {}, norm_eps = {}, gate = {};
};

// A row of x: its byte offset and, unless null, the chunk (i32) at which its columns begin.
struct XRow {
  Val at, chunk;
  Val Chunk(Val number) const { return chunk ? number + chunk : number; }
};
// A row of y: its byte offset and, unless null, its weight.
struct YRow {
  Val at, weight;
};

// What a kernel makes of its arguments: a workgroup's rows, and the matrix and the scales that they have.
class LinearArgs {
 public:
  // Of workgroup memory. Joined launches are close to what there is, so it counts.
  static int SharedWords(const LinearSpec& spec) { return spec.rows_of == RowsOf::kExpert ? kFoundWords : 0; }
  // `tile_rows`: rows of a workgroup of kStep and kExpert. All threads of the workgroup must call (barriers).
  LinearArgs(Builder& b, const LinearSpec& spec, int tile_rows);
  static std::vector<Arg> List(const LinearArgList<Arg>& args, const LinearMoreArgs& more);

  // kRow: for slot `index` of the workgroup's row.
  LinearArgs OfSlot(Val index) const;
  // Rows beyond the last repeat it.
  XRow Input(Val row) const;
  YRow Output(Val row) const;

  Val x, w, y;
  Val rows;             // i32: of this step, or of the expert; kRow: of this step
  Val first_row;        // i32: the workgroup's first one; there is nothing to do unless it is less than rows
  Val units;            // i32
  Val y_row_bytes;      // i32
  Val scale, up_scale;  // where they are, null: none
  Val norm_weight, norm_eps, gate;
  Val unit_keys, choosable;

 private:
  static constexpr int kFoundWords = 4;  // expert, where its slots begin, how many, first row
  void FindExpert(int tile_rows);
  void SetExpert(Val expert);
  Val Slot(Val row) const;

  Builder& b_;
  const LinearSpec& spec_;
  Val weights_, expert_bytes_, ids_, groups_, order_;
  Val first_slot_;  // kSlot: the slot; kExpert: where its slots begin in `order`
};

// First chunk of a part, and the one after its last.
Val PartLow(const LinearSpec& spec, Val part);
Val PartHigh(const LinearSpec& spec, Val part);

// The order of the parts, for variants in which a thread has all columns: `count` sums, of which `part` gives
// those over the chunks [low, high).
std::vector<Val> SumParts(Builder& b, const LinearSpec& spec, size_t count,
                          const std::function<std::vector<Val>(Val low, Val high)>& part);

// `high`, of which compilers do not know how far it is from the part's first chunk: ptxas 13.0 writes out the
// four steps of a short part, and spills where steps are large. `number`: one less than 2^30 of which they do
// not know that. Arguments of joined launches are constants (together.h), LinearArgs::rows never is.
Val NotSeenThrough(Val high, Val number);

// `sum` times the matrix's scale, if it has one (null: none).
Val Scaled(Val sum, Val scale);
// Finishes one element, and returns it: `sums` has the sum of the unit's groups; `column`: its byte offset in
// the row of y.
Val StoreLinear(Builder& b, const LinearSpec& spec, const LinearArgs& args, const YRow& row, Val column,
                const std::vector<Val>& sums);

// ---- variants: `launch.args` and costs are set by the caller; `rows`: slots, for experts ----

// Few rows: 16 threads a part, every weight read once for `tile_rows` rows. This one and LinearMatrixFew make
// rows.
Launch LinearSplit(const LinearSpec& spec, const Profile& profile, int tile_rows, int64_t units,
                   int64_t rows);
// Many rows: a thread has `tile_rows` rows by two groups over all columns.
Launch LinearTiled(const LinearSpec& spec, int tile_rows, int64_t units, int64_t rows);
// The same on matrix units of kind kMma, of int8 numerics (4 or 8 rows) or float weights (1 to 8).
Launch LinearMatrixFew(const LinearSpec& spec, const Profile& profile, int tile_rows, int64_t units,
                       int64_t rows);
// Many rows on the same units: a subgroup has `tile_rows` rows (8, 16, 24 or
// 32) by two groups. Tiled: over all columns. Split: the subgroups of a workgroup share the parts of one
// tile.
Launch LinearMatrixTiled(const LinearSpec& spec, int tile_rows, int64_t units, int64_t rows);
Launch LinearMatrixSplit(const LinearSpec& spec, int tile_rows, int64_t units, int64_t rows);
// Many rows on the same units: a workgroup has `tile_rows` rows (64 or 128) by four groups over all columns,
// and decodes weights once for all of them.
Launch LinearMatrixShared(const LinearSpec& spec, int tile_rows, int64_t units, int64_t rows);
// The same of float weights: 32 rows by eight groups, and rows of x are made ready once for all groups.
Launch LinearFloatsShared(const LinearSpec& spec, int64_t units, int64_t rows);
// Int8 numerics on matrix units of kind kCooperative: a workgroup has 32 rows by four groups over all
// columns.
Launch LinearCooperative(const LinearSpec& spec, int64_t units, int64_t rows);
// The one place that picks among them. Any may be picked for any bucket: all give the same bits.
Launch ChooseLinear(const LinearSpec& spec, const Profile& profile, int64_t units, int64_t rows);

// A norm or quantize, or a gated norm and quantize, of which linears are to make their rows themselves.
struct MadeOf {
  Making making = Making::kRounded;
  Arg x, weight = {};  // weight, eps: of norms
  float eps = 0;
  Arg gate = {};  // f32 [R][k]; gate, norm_dim: of kGatedNormed
  int64_t norm_dim = 0;
};
// The linear with rows that it makes. Empty where it cannot, or where so many workgroups would make them that
// a launch of its own takes less: the bits are the same.
std::vector<Launch> ExpandMaking(const Dispatch<plan::LinearSpec>& dispatch, const MadeOf& made,
                                 Expansion& expansion);

// The linear of a head that leaves `keys` of its rows. Empty where it cannot.
std::vector<Launch> ExpandLeavingKeys(const Dispatch<plan::LinearSpec>& dispatch, const UnitKeys& keys,
                                      Expansion& expansion);

// Whether there are kernels for the format, numerics and k of `spec`.
bool TakesLinear(const LinearSpec& spec);
// What is returned where it does not.
std::vector<Launch> RefuseLinear(const LinearSpec& spec, Expansion& expansion);

}  // namespace qcc::gpu

#endif  // QCC_CODEGEN_GPU_KERNELS_LINEAR_H_
