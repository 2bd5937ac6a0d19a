// linear of many rows where threads make the products: a thread has all columns.
#include <algorithm>

#include "codegen/gpu/kernels/linear_products.h"
#include "codegen/gpu/kernels/math.h"

namespace qcc::gpu {
namespace {

constexpr int kThreads = kLinearThreads, kLanes = kLinearLanes, kSlots = kThreads / kLanes;

void EmitTiled(Builder& b, const LinearSpec& spec, int tile_rows, int row_tiles) {
  const LinearArgs args(b, spec, tile_rows * row_tiles);
  const bool swiglu = spec.epilogue == Epilogue::Swiglu;
  const int units_each = swiglu ? 1 : 2, pairs = kSlots / row_tiles;
  const Val thread = b.Thread(), lane = thread & (kLanes - 1), slot = ShrU(thread, 4);
  // Neighbouring slots share their rows: a subgroup of 32 reads one place of x.
  const Val first_unit = (b.BlockX() * pairs + (slot & (pairs - 1))) * units_each;
  const Val first_row = args.first_row + DivU(slot, pairs) * tile_rows;
  b.If(And(LtS(first_row, args.rows), LtS(first_unit, args.units)), [&] {
    std::vector<Val> offsets;
    for (int g = 0; g < 2; ++g) {
      const Val group = swiglu ? first_unit * 2 + g : MinS(first_unit + g, args.units - 1);
      offsets.push_back(group * spec.group_bytes());
    }
    const StoredRows x(b, spec, args, Inputs(args, first_row, tile_rows));
    const std::vector<Val> sums =
        SumParts(b, spec, size_t{2} * static_cast<size_t>(tile_rows), [&](Val low, Val high) {
          return LinearPart(b, spec, args, lane, offsets, x, low, high, Loading::kAlone);
        });
    for (int m = 0; m < tile_rows; ++m) {
      b.If(LtS(first_row + m, args.rows), [&] {
        const YRow row = args.Output(first_row + m);
        const Val column = (first_unit * kLanes + lane) * 4;
        if (swiglu) {
          StoreLinear(b, spec, args, row, column, {sums[m], sums[tile_rows + m]});
          return;
        }
        StoreLinear(b, spec, args, row, column, {sums[m]});
        b.If(LtS(first_unit + 1, args.units),
             [&] { StoreLinear(b, spec, args, row, column + 4 * kLanes, {sums[tile_rows + m]}); });
      });
    }
  });
}

}  // namespace

Launch LinearTiled(const LinearSpec& spec, int tile_rows, int64_t units, int64_t rows) {
  int row_tiles = 1;
  while (row_tiles < 4 && row_tiles * tile_rows < spec.rows_together(rows)) row_tiles *= 2;
  const int units_each = spec.epilogue == Epilogue::Swiglu ? 1 : 2;
  Launch launch;
  launch.name = spec.name() + ".t" + std::to_string(tile_rows) + "x" + std::to_string(row_tiles);
  // As TiledAtOnce (linear_matrix.cc): of experts, what has minima and two matrices. 168 registers.
  const bool minima = spec.int8 && SumsOf(spec.format) != Sums::kNone;
  if (spec.rows_of == RowsOf::kExpert && minima && units_each == 1) launch.at_once = 3;
  launch.emit = [spec, tile_rows, row_tiles](Builder& b) { EmitTiled(b, spec, tile_rows, row_tiles); };
  launch.workgroup_size = kThreads;
  launch.beside = true;
  launch.shared_bytes = 4 * LinearArgs::SharedWords(spec);
  launch.grid[0] = static_cast<uint32_t>(CeilDiv(units, int64_t{kSlots} / row_tiles * units_each));
  launch.grid[1] = static_cast<uint32_t>(spec.row_tiles(rows, int64_t{tile_rows} * row_tiles));
  return launch;
}

}  // namespace qcc::gpu
