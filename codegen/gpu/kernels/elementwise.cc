// swiglu, add, concat, select_rows: a thread has four elements (one, where a row is not a multiple of four).
#include <functional>
#include <string>

#include "codegen/gpu/kernels/families.h"
#include "codegen/gpu/kernels/kernel_args.h"
#include "codegen/gpu/kernels/math.h"
#include "codegen/gpu/kernels/step.h"

namespace qcc::gpu {
namespace {

constexpr int kThreads = 128;

// grid_x: workgroups side by side, of grid.y rows of them.
template <typename T>
struct ElementwiseArgs {
  T a, b, out, step, cols, grid_x;
};

template <typename T>
struct ConcatArgs {
  T a, b, out, step, a_cols, b_cols;
};

template <typename T>
struct SelectRowsArgs {
  T x, out, step, outs, cols;
};

// out[i] = fn(a[i], b[i]) over the elements of the step's rows; `out` may be `b`.
Launch Elementwise(const std::string& name, int64_t rows, int64_t cols, Expansion& expansion, const Arg& a,
                   const Arg& b, const Arg& out, std::function<Val(Val, Val)> fn) {
  const int width = cols % 4 ? 1 : 4;
  Launch launch;
  launch.name = name + ".v" + std::to_string(width);
  launch.workgroup_size = kThreads;
  launch.emit = [width, fn](Builder& b) {
    constexpr const ElementwiseArgs<int>& kAt = kArg<ElementwiseArgs>;
    const Val first = b.Arg(kAt.a), second = b.Arg(kAt.b), result = b.Arg(kAt.out);
    const Val count = StepRows(b.Arg(kAt.step)) * b.Truncate(b.Arg(kAt.cols));
    const Val block = b.BlockY() * b.Truncate(b.Arg(kAt.grid_x)) + b.BlockX();
    const Val element = (block * kThreads + b.Thread()) * width;
    b.If(LtS(element, count), [&] {
      const Val at = element << 2;
      if (width == 1) {
        b.Store(result, at, fn(b.Load(Type::kF32, first, at), b.Load(Type::kF32, second, at)));
        return;
      }
      const Val u = b.Load(Type::kF32x4, first, at), v = b.Load(Type::kF32x4, second, at);
      std::vector<Val> values;
      for (int c = 0; c < 4; ++c) values.push_back(fn(b.Extract(u, c), b.Extract(v, c)));
      b.Store(result, at, b.Vector(values));
    });
  };
  const int64_t elements = rows * cols;
  const int64_t blocks = CeilDiv(elements, kThreads * width);
  launch.grid[1] = static_cast<uint32_t>(CeilDiv(blocks, kMostWorkgroups));
  launch.grid[0] = static_cast<uint32_t>(CeilDiv(blocks, launch.grid[1]));
  launch.args = ListArgs<ElementwiseArgs>({.a = a,
                                           .b = b,
                                           .out = out,
                                           .step = StepArg(expansion),
                                           .cols = Number(static_cast<uint64_t>(cols)),
                                           .grid_x = Number(launch.grid[0])});
  launch.read_bytes = static_cast<uint64_t>(8 * elements);
  launch.write_bytes = static_cast<uint64_t>(4 * elements);
  return launch;
}

}  // namespace

std::vector<Launch> Expand_swiglu(const Dispatch<plan::SwigluSpec>& dispatch, Expansion& expansion) {
  Launch launch = Elementwise("swiglu", dispatch.rows, dispatch.spec.cols, expansion, *dispatch.bindings.gate,
                              *dispatch.bindings.up, *dispatch.bindings.out,
                              [](Val gate, Val up) { return Silu(gate) * up; });
  launch.ops = static_cast<uint64_t>(dispatch.rows * dispatch.spec.cols * 16);
  return {launch};
}

std::vector<Launch> Expand_add(const Dispatch<plan::AddSpec>& dispatch, Expansion& expansion) {
  Launch launch = Elementwise("add", dispatch.rows, dispatch.spec.cols, expansion, *dispatch.bindings.x,
                              *dispatch.bindings.y, *dispatch.bindings.y, [](Val x, Val y) { return y + x; });
  launch.ops = static_cast<uint64_t>(dispatch.rows * dispatch.spec.cols);
  return {launch};
}

// A row for each block in y; a thread has elements of one input only, as both are whole numbers of its width.
std::vector<Launch> Expand_concat(const Dispatch<plan::ConcatSpec>& dispatch, Expansion& expansion) {
  const int64_t a_cols = dispatch.spec.a_cols, b_cols = dispatch.spec.b_cols;
  const int width = a_cols % 4 || b_cols % 4 ? 1 : 4;
  Launch launch;
  launch.name = "concat.v" + std::to_string(width);
  launch.workgroup_size = kThreads;
  launch.emit = [width](Builder& b) {
    const Type type = width == 1 ? Type::kF32 : Type::kF32x4;
    constexpr const ConcatArgs<int>& kAt = kArg<ConcatArgs>;
    const Val row = b.BlockY();
    const Val a_cols = b.Truncate(b.Arg(kAt.a_cols)), b_cols = b.Truncate(b.Arg(kAt.b_cols));
    const Val cols = a_cols + b_cols, col = (b.BlockX() * kThreads + b.Thread()) * width;
    const Val to = (row * cols + col) << 2;
    const auto copy = [&](int from, Val element) {
      b.Store(b.Arg(kAt.out), to, b.Load(type, b.Arg(from), element << 2));
    };
    b.If(LtS(row, StepRows(b.Arg(kAt.step))), [&] {
      b.If(LtS(col, a_cols), [&] { copy(kAt.a, row * a_cols + col); });
      b.If(LeS(a_cols, col),
           [&] { b.If(LtS(col, cols), [&] { copy(kAt.b, row * b_cols + col - a_cols); }); });
    });
  };
  const int64_t cols = a_cols + b_cols;
  launch.grid[0] = static_cast<uint32_t>(CeilDiv(cols, kThreads * width));
  launch.grid[1] = static_cast<uint32_t>(dispatch.rows);
  launch.args = ListArgs<ConcatArgs>({.a = *dispatch.bindings.a,
                                      .b = *dispatch.bindings.b,
                                      .out = *dispatch.bindings.out,
                                      .step = StepArg(expansion),
                                      .a_cols = Number(static_cast<uint64_t>(a_cols)),
                                      .b_cols = Number(static_cast<uint64_t>(b_cols))});
  launch.read_bytes = launch.write_bytes = static_cast<uint64_t>(4 * dispatch.rows * cols);
  return {launch};
}

// A row for each block in y.
std::vector<Launch> Expand_select_rows(const Dispatch<plan::SelectRowsSpec>& dispatch, Expansion& expansion) {
  const int64_t cols = dispatch.spec.cols;
  const int width = cols % 4 ? 1 : 4;
  Launch launch;
  launch.name = "select_rows.v" + std::to_string(width);
  launch.workgroup_size = kThreads;
  launch.emit = [width](Builder& b) {
    const Type type = width == 1 ? Type::kF32 : Type::kF32x4;
    constexpr const SelectRowsArgs<int>& kAt = kArg<SelectRowsArgs>;
    const Val row = b.BlockY(), cols = b.Truncate(b.Arg(kAt.cols));
    const Val col = (b.BlockX() * kThreads + b.Thread()) * width;
    b.If(And(LtS(row, StepRows(b.Arg(kAt.step))), LtS(col, cols)), [&] {
      const Val from = OutRow(b.Arg(kAt.outs), row) * cols + col;
      b.Store(b.Arg(kAt.out), (row * cols + col) << 2, b.Load(type, b.Arg(kAt.x), from << 2));
    });
  };
  launch.grid[0] = static_cast<uint32_t>(CeilDiv(cols, kThreads * width));
  launch.grid[1] = static_cast<uint32_t>(dispatch.rows);
  launch.args = ListArgs<SelectRowsArgs>({.x = *dispatch.bindings.x,
                                          .out = *dispatch.bindings.out,
                                          .step = StepArg(expansion),
                                          .outs = StepOutsArg(expansion),
                                          .cols = Number(static_cast<uint64_t>(cols))});
  launch.read_bytes = launch.write_bytes = static_cast<uint64_t>(4 * dispatch.rows * cols);
  return {launch};
}

}  // namespace qcc::gpu
