// trace: a workgroup copies 512 elements of the last row of one sequence to its state.
#include "codegen/gpu/kernels/families.h"
#include "codegen/gpu/kernels/kernel_args.h"
#include "codegen/gpu/kernels/step.h"

namespace qcc::gpu {
namespace {

constexpr int kThreads = 128;

template <typename T>
struct TraceArgs {
  T step, seqs, x, last, cols;
};

}  // namespace

std::vector<Launch> Expand_trace(const Dispatch<plan::TraceSpec>& dispatch, Expansion& expansion) {
  const int64_t cols = dispatch.spec.cols;
  const int width = cols % 4 ? 1 : 4;
  Launch launch;
  launch.name = "trace.v" + std::to_string(width);
  launch.workgroup_size = kThreads;
  launch.emit = [width](Builder& b) {
    const auto args = ReadArgs<TraceArgs>(b);
    const Type type = width == 1 ? Type::kF32 : Type::kF32x4;
    const Val seq = b.BlockY(), col = (b.BlockX() * kThreads + b.Thread()) * width;
    const Val cols = b.Truncate(args.cols);
    b.If(LtS(seq, StepSeqs(args.step)), [&] {
      b.If(LtS(col, cols), [&] {
        const Val row = SeqRowBegin(args.seqs, seq) + SeqRowCount(args.seqs, seq) - 1;
        b.Store(SeqState(args.seqs, seq) + args.last, col << 2,
                b.Load(type, args.x, (row * cols + col) << 2));
      });
    });
  };
  launch.grid[0] = static_cast<uint32_t>(CeilDiv(cols, kThreads * width));
  launch.grid[1] = static_cast<uint32_t>(dispatch.rows);
  launch.args = ListArgs<TraceArgs>({.step = StepArg(expansion),
                                     .seqs = StepSeqsArg(expansion),
                                     .x = *dispatch.bindings.x,
                                     .last = Number(dispatch.bindings.last->value),
                                     .cols = Number(static_cast<uint64_t>(cols))});
  launch.read_bytes = launch.write_bytes = static_cast<uint64_t>(4 * dispatch.rows * cols);
  return {launch};
}

}  // namespace qcc::gpu
