// The last step of a row's experts: y += weight * product of each slot, one after the other, either with the
// products or behind them. Both give the same bits.
#include <algorithm>

#include "codegen/gpu/kernels/kernel_args.h"
#include "codegen/gpu/kernels/linear_products.h"
#include "codegen/gpu/kernels/moe.h"

namespace qcc::gpu {
namespace {

constexpr int kThreads = kLinearThreads, kLanes = kLinearLanes;
constexpr int kParts = kThreads / kLanes;
// Slots whose products a workgroup makes at once, where it may have so many threads: with more, threads would
// have too few registers.
constexpr int kMostAtOnce = 4;

// As SplitKernel of linear_split.cc, for one row by each of its slots. 128 threads have a slot.
class RowSlotsKernel {
 public:
  RowSlotsKernel(Builder& b, const LinearSpec& spec, int at_once) : b_(b), spec_(spec), at_once_(at_once) {}
  void Emit() {
    b_.If(LtS(args_.first_row, args_.rows), [&] {
      StoreParts();
      b_.Barrier();
      b_.If(LtS(b_.Thread(), b_.I32(kLanes * units_here_)), [&] { Finish(); });
    });
  }

 private:
  void StoreParts();
  void Finish();

  Builder& b_;
  const LinearSpec& spec_;
  const int at_once_;
  const LinearArgs args_{b_, spec_, 1};
  const int parts_ = spec_.parts(), units_here_ = kParts / parts_;
  const Val thread_ = b_.Thread() & (kThreads - 1), lane_ = thread_ & (kLanes - 1);
  const Val place_ = ShrU(thread_, 4);  // of the unit's parts, unit by unit
  const Val first_unit_ = b_.BlockX() * units_here_;
  const Shared partial_ = b_.AllocShared(Type::kF32, static_cast<int>(spec_.top_k) * kThreads);
};

void RowSlotsKernel::StoreParts() {
  const Val unit = MinS(first_unit_ + DivU(place_, parts_), args_.units - 1), part = place_ & (parts_ - 1);
  const Val first = DivU(b_.Thread(), kThreads), end = b_.I32(static_cast<int32_t>(spec_.top_k));
  b_.For(first, end, b_.I32(at_once_), [&](Val slot) {
    const LinearArgs args = args_.OfSlot(slot);
    const std::vector<Val> sums = LinearPart(b_, spec_, args, lane_, {unit * spec_.group_bytes()},
                                             StoredRows(b_, spec_, args, {args.Input(args.first_row)}),
                                             PartLow(spec_, part), PartHigh(spec_, part), Loading::kTogether);
    b_.StoreShared(partial_, slot * kThreads + thread_, sums[0]);
  });
}

// The thread's element: lane, then unit.
void RowSlotsKernel::Finish() {
  const Val local = place_, unit = first_unit_ + local;
  b_.If(LtS(unit, args_.units), [&] {
    const Val at = args_.first_row * args_.y_row_bytes + (unit * kLanes + lane_) * 4;
    const Val before = b_.Load(Type::kF32, args_.y, at);
    const std::vector<Val> y =
        b_.For(b_.I32(0), b_.I32(static_cast<int32_t>(spec_.top_k)), b_.I32(1), {before},
               [&](Val slot, const std::vector<Val>& carried) -> std::vector<Val> {
                 const LinearArgs args = args_.OfSlot(slot);
                 Val sum = b_.F32(0.f);
                 const Val from = slot * kThreads + local * (parts_ * kLanes) + lane_;
                 for (int p = 0; p < parts_; ++p) sum = sum + b_.LoadShared(partial_, from + p * kLanes);
                 return {carried[0] + args.Output(args.first_row).weight * Scaled(sum, args.scale)};
               });
    b_.Store(args_.y, at, y[0]);
  });
}

class SumKernel {
 public:
  SumKernel(Builder& b, int64_t n, int64_t top_k) : b_(b), n_(n), top_k_(static_cast<int32_t>(top_k)) {}
  void Emit() {
    const Val row = b_.BlockY(), quad = b_.BlockX() * kThreads + b_.Thread();
    const Val rows = b_.Load(Type::kI32, args_.count, b_.I32(0));
    b_.If(And(LtS(row, rows), LtS(quad, b_.I32(static_cast<int32_t>(n_ / 4)))), [&] { Add(row, quad << 4); });
  }

 private:
  void Add(Val row, Val at) {
    const Val y_at = row * (4 * n_) + at;
    const Val before = b_.Load(Type::kF32x4, args_.y, y_at);
    std::vector<Val> y;
    for (int c = 0; c < 4; ++c) y.push_back(b_.Extract(before, c));
    y = b_.For(b_.I32(0), b_.I32(top_k_), b_.I32(1), y, [&](Val i, const std::vector<Val>& carried) {
      std::vector<Val> sums = carried;
      const Val slot = row * top_k_ + i;
      const Val weight = b_.Load(Type::kF32, args_.weights, slot << 2);
      const Val products = b_.Load(Type::kF32x4, args_.products, slot * (4 * n_) + at);
      for (int c = 0; c < 4; ++c) sums[c] = sums[c] + weight * b_.Extract(products, c);
      return sums;
    });
    b_.Store(args_.y, y_at, b_.Vector(y));
  }

  Builder& b_;
  const int64_t n_;
  const int32_t top_k_;
  const MoeSumArgs<Val> args_ = ReadArgs<MoeSumArgs>(b_);
};

}  // namespace

bool TakesRowSlots(const Profile& profile, const LinearSpec& spec) {
  return spec.parts() <= kParts && spec.top_k * kThreads * 4 <= profile.max_shared;
}

Launch LinearRowSlots(const LinearSpec& spec, const Profile& profile, int64_t units, int64_t rows) {
  int at_once = 1;
  while (at_once < kMostAtOnce && at_once < spec.top_k && 2 * at_once * kThreads <= profile.max_workgroup) {
    at_once *= 2;
  }
  Launch launch;
  launch.name = spec.name() + ".s" + std::to_string(at_once);
  launch.emit = [spec, at_once](Builder& b) { RowSlotsKernel(b, spec, at_once).Emit(); };
  launch.workgroup_size = at_once * kThreads;
  launch.grid[0] = static_cast<uint32_t>(CeilDiv(units, kParts / spec.parts()));
  launch.grid[1] = static_cast<uint32_t>(rows);
  return launch;
}

Launch MoeSum(int64_t n, int64_t top_k, int64_t rows) {
  Launch launch;
  launch.name = "moe_linear.sum.n" + std::to_string(n) + ".x" + std::to_string(top_k);
  launch.emit = [n, top_k](Builder& b) { SumKernel(b, n, top_k).Emit(); };
  launch.workgroup_size = kThreads;
  launch.grid[0] = static_cast<uint32_t>(CeilDiv(n / 4, kThreads));
  launch.grid[1] = static_cast<uint32_t>(rows);
  launch.barrier = true;
  return launch;
}

}  // namespace qcc::gpu
