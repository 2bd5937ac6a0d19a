// embed: decodes the rows of the step's tokens out of the 16-row groups; a thread has four columns.
#include <algorithm>

#include "codegen/gpu/kernels/families.h"
#include "codegen/gpu/kernels/kernel_args.h"
#include "codegen/gpu/kernels/step.h"
#include "codegen/gpu/kernels/weights.h"
#include "dialects/layouts/layouts.h"

namespace qcc::gpu {
namespace {

constexpr int kThreads = 128;

// The table's rows [first, first + count).
template <typename T>
struct EmbedArgs {
  T table, out, step, first, count;
};

void EmitEmbed(Builder& b, Format format, int64_t cols) {
  constexpr const EmbedArgs<int>& kAt = kArg<EmbedArgs>;
  const Val table = b.Arg(kAt.table), out = b.Arg(kAt.out), step = b.Arg(kAt.step);
  const Val first = b.Truncate(b.Arg(kAt.first)), count = b.Truncate(b.Arg(kAt.count));
  const Val row = b.BlockX(), quad = b.BlockY() * kThreads + b.Thread();
  b.If(And(LtS(row, StepRows(step)), LtS(quad, b.I32(static_cast<int32_t>(cols / 4)))), [&] {
    const Val id = RowToken(step, row) - first;
    // Another launch has the other tokens.
    b.If(LtU(id, count), [&] {
      const Val group = ShrU(id, 4) * GroupBytes(format, cols);
      const PackedRow packed(b, format, cols, table, group, id & 15);
      const std::vector<Val> values = packed.ReadValues(packed.At(ShrU(quad, 3)), quad & 7);
      b.Store(out, row * (4 * cols) + (quad << 4), b.Vector(values));
    });
  });
}

}  // namespace

std::vector<Launch> Expand_embed(const Dispatch<plan::EmbedSpec>& dispatch, Expansion& expansion) {
  const Format format = dispatch.spec.format;
  const int64_t cols = dispatch.spec.cols, rows = dispatch.rows;
  if (cols % WholeColumns(format)) return expansion.Refuse("cols", cols, MultiplesOf(WholeColumns(format)));
  const Arg& table = *dispatch.bindings.table;
  const int64_t group_bytes = GroupBytes(format, cols),
                groups = static_cast<int64_t>(table.bytes) / group_bytes;
  const int64_t most = static_cast<int64_t>(kMaxBindingBytes) / group_bytes;
  // Not even one group is within reach of 32-bit offsets.
  if (most == 0) return expansion.Refuse("bytes of 16 rows of the table", group_bytes, kUpToOneBinding);
  std::vector<Launch> launches;
  for (int64_t first = 0; first < groups; first += most) {
    const int64_t part = std::min(most, groups - first);
    Launch launch;
    launch.name = "embed." + std::string(format_info(format).name) + ".c" + std::to_string(cols);
    launch.emit = [format, cols](Builder& b) { EmitEmbed(b, format, cols); };
    launch.workgroup_size = kThreads;
    launch.grid[0] = static_cast<uint32_t>(rows);
    launch.grid[1] = static_cast<uint32_t>(CeilDiv(cols / 4, kThreads));
    const Arg window{table.space, table.value + static_cast<uint64_t>(first * group_bytes),
                     static_cast<uint64_t>(part * group_bytes)};
    launch.args = ListArgs<EmbedArgs>({.table = window,
                                       .out = *dispatch.bindings.out,
                                       .step = StepArg(expansion),
                                       .first = Number(static_cast<uint64_t>(first * layouts::kGroupRows)),
                                       .count = Number(static_cast<uint64_t>(part * layouts::kGroupRows))});
    // A row is spread over its group, and shares cache lines with the group's other rows.
    launch.read_bytes = static_cast<uint64_t>(rows * group_bytes / layouts::kGroupRows);
    launch.write_bytes = static_cast<uint64_t>(rows * 4 * cols);
    if (first) launch.read_bytes = launch.write_bytes = 0;
    launches.push_back(std::move(launch));
  }
  return launches;
}

}  // namespace qcc::gpu
