// rope_table: cos and sin of position * inv_freq, times a magnitude.
//
// inv_freq is f64, which GPUs may lack, and positions are large where f32 has no digits left. So the angle is
// computed in turns, as a 64-bit fraction: (position * (inv_freq / 2 pi)) mod 1, from the bits of the f64,
// with integers.
#include "codegen/gpu/kernels/families.h"
#include "codegen/gpu/kernels/kernel_args.h"
#include "codegen/gpu/kernels/math.h"
#include "codegen/gpu/kernels/step.h"

namespace qcc::gpu {
namespace {

constexpr int kThreads = 128;
constexpr uint64_t kInvTwoPi = 0xa2f9836e4e44152a;  // 2^66 / (2 pi), rounded

// inv_freq / 2 pi in units of 2^-64 turns, modulo a turn, from the bits of an f64 >= 0; subnormals count as
// 0.
Val TurnsPerPosition(Val bits) {
  Builder& b = *bits.builder();
  const auto shift = [&](Builder::Op op, Val v, Val by) { return b.Binary(op, v, by); };
  const Val exponent = b.Truncate(ShrU(bits, 52)) & 0x7ff;
  const Val mantissa = (bits << 11) | b.I64(INT64_MIN);  // its leading one at bit 63
  const Val constant = b.I64(static_cast<int64_t>(kInvTwoPi));
  // The product's units: 2^(exponent - 1024) for `high`, 2^-64 of that for `low`.
  const Val high = b.MulHighU(mantissa, constant), low = mantissa * constant;
  const Val down = b.I32(1024) - exponent;
  const Val zero = b.I64(0);
  // Shifts by 64 or more are undefined: keep them in range and select.
  const auto amount = [&](Val v) { return b.ExtendU(v & 63); };
  const Val small = Select(LtS(down, b.I32(64)), shift(Builder::Op::kShrU, high, amount(down)), zero);
  const Val up = exponent - 1024;
  const Val carry = shift(Builder::Op::kShrU, low, amount(b.I32(64) - up));
  const Val large = Select(LtS(up, b.I32(64)), shift(Builder::Op::kShl, high, amount(up)) | carry, zero);
  return Select(LtS(b.I32(0), up), large, small);
}

template <typename T>
struct RopeTableArgs {
  T inv_freq, out, step, magnitude;
};

void EmitRopeTable(Builder& b, int64_t pairs, const std::vector<int64_t>& sections) {
  const auto args = ReadArgs<RopeTableArgs>(b);
  const Val inv_freq = args.inv_freq, out = args.out, step = args.step;
  const Val magnitude = FloatOf(args.magnitude);
  const Val element = b.BlockX() * kThreads + b.Thread();
  const Val row = DivU(element, static_cast<int32_t>(pairs)),
            pair = RemU(element, static_cast<int32_t>(pairs));
  b.If(LtS(row, StepRows(step)), [&] {
    Val position = RowRope(step, row, 0);
    if (!sections.empty()) {
      const Val kind = RemU(pair, 3);
      const auto in = [&](int stream, int remainder) {
        return And(Eq(kind, remainder), LtS(pair, b.I32(static_cast<int32_t>(3 * sections[stream]))));
      };
      const Val h = RowRope(step, row, 1), w = RowRope(step, row, 2), e = RowRope(step, row, 3);
      position = Select(in(1, 1), h, Select(in(2, 2), w, Select(in(0, 0), position, e)));
    }
    const Val turns = TurnsPerPosition(b.Load(Type::kI64, inv_freq, pair << 3)) * b.ExtendS(position);
    // To the nearest of the 32 bits that are kept.
    const CosSin angle = CosSinOfTurn(b.Truncate(ShrU(turns + b.I64(int64_t{1} << 31), 32)));
    const Val at = row * (8 * pairs) + (pair << 2);
    b.Store(out, at, angle.cos * magnitude);
    b.Store(out, at + (4 * pairs), angle.sin * magnitude);
  });
}

}  // namespace

std::vector<Launch> Expand_rope_table(const Dispatch<plan::RopeTableSpec>& dispatch, Expansion& expansion) {
  const int64_t pairs = dispatch.spec.pairs, rows = dispatch.rows;
  std::vector<int64_t> sections = dispatch.spec.sections;
  int64_t total = 0;
  for (int64_t s : sections) total += s;
  if (total <= 0) sections.clear();
  Launch launch;
  launch.name = "rope_table.p" + std::to_string(pairs);
  for (int64_t s : sections) launch.name += ".s" + std::to_string(s);
  launch.emit = [pairs, sections](Builder& b) { EmitRopeTable(b, pairs, sections); };
  launch.workgroup_size = kThreads;
  launch.grid[0] = static_cast<uint32_t>(CeilDiv(rows * pairs, kThreads));
  launch.args = ListArgs<RopeTableArgs>({.inv_freq = *dispatch.bindings.inv_freq,
                                         .out = *dispatch.bindings.out,
                                         .step = StepArg(expansion),
                                         .magnitude = FloatNumber(dispatch.spec.magnitude)});
  launch.read_bytes = static_cast<uint64_t>(8 * pairs + 16 * rows);
  launch.write_bytes = static_cast<uint64_t>(8 * pairs * rows);
  launch.ops = static_cast<uint64_t>(30 * pairs * rows);
  return {launch};
}

}  // namespace qcc::gpu
