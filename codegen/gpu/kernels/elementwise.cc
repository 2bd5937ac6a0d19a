// swiglu, add: a thread has four elements (one, where a row is not a multiple of four).
#include <functional>
#include <string>

#include "codegen/gpu/kernels/families.h"
#include "codegen/gpu/kernels/math.h"
#include "codegen/gpu/kernels/step.h"
#include "dialects/plan/pack_layout.h"

namespace qcc::gpu {
namespace {

constexpr int kThreads = 128;
constexpr int64_t kMaxGridX = 65535;  // what every Vulkan device has (maxComputeWorkGroupCount)

// out[i] = fn(a[i], b[i]) over the elements of the step's rows; `out` may be `b`.
Launch Elementwise(const std::string& name, const Dispatch& dispatch, Expansion& expansion, const Arg& a,
                   const Arg& b, const Arg& out, std::function<Val(Val, Val)> fn) {
  const int64_t cols = dispatch.integer("cols"), rows = dispatch.rows;
  const int width = cols % 4 ? 1 : 4;
  Launch launch;
  launch.name = name + ".v" + std::to_string(width);
  launch.workgroup_size = kThreads;
  launch.emit = [width, fn](Builder& b) {
    const Val first = b.Arg(0), second = b.Arg(1), result = b.Arg(2);
    const Val count = StepRows(b.Arg(3)) * b.Truncate(b.Arg(4));
    const Val block = b.BlockY() * b.Truncate(b.Arg(5)) + b.BlockX();
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
  const int64_t blocks = plan::align_up(elements, kThreads * width) / (kThreads * width);
  launch.grid[1] = static_cast<uint32_t>(plan::align_up(blocks, kMaxGridX) / kMaxGridX);
  launch.grid[0] = static_cast<uint32_t>(plan::align_up(blocks, launch.grid[1]) / launch.grid[1]);
  launch.args = {a, b, out, StepArg(expansion), Number(static_cast<uint64_t>(cols)), Number(launch.grid[0])};
  launch.read_bytes = static_cast<uint64_t>(8 * elements);
  launch.write_bytes = static_cast<uint64_t>(4 * elements);
  return launch;
}

}  // namespace

std::vector<Launch> Expand_swiglu(const Dispatch& dispatch, Expansion& expansion) {
  Launch launch = Elementwise("swiglu", dispatch, expansion, dispatch.arg("gate"), dispatch.arg("up"),
                              dispatch.arg("out"), [](Val gate, Val up) { return Silu(gate) * up; });
  launch.ops = static_cast<uint64_t>(dispatch.rows * dispatch.integer("cols") * 16);
  return {launch};
}

std::vector<Launch> Expand_add(const Dispatch& dispatch, Expansion& expansion) {
  Launch launch = Elementwise("add", dispatch, expansion, dispatch.arg("x"), dispatch.arg("y"),
                              dispatch.arg("y"), [](Val x, Val y) { return y + x; });
  launch.ops = static_cast<uint64_t>(dispatch.rows * dispatch.integer("cols"));
  return {launch};
}

}  // namespace qcc::gpu
