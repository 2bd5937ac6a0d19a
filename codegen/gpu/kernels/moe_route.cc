// moe_route: a row's experts, ascending, and their weights. A workgroup has one row; a second one has the
// factor of its shared expert.
#include <algorithm>

#include "codegen/gpu/kernels/families.h"
#include "codegen/gpu/kernels/kernel_args.h"
#include "codegen/gpu/kernels/math.h"
#include "codegen/gpu/kernels/moe.h"
#include "codegen/gpu/kernels/reduce.h"
#include "codegen/gpu/kernels/step.h"
#include "dialects/layouts/layouts.h"

namespace qcc::gpu {
namespace {

constexpr int kThreads = 128;
constexpr int64_t kMaxExperts = 1024;  // of which a thread has 8, and which workgroup memory can hold
// Keys: larger for larger logits, as unsigned numbers. Those of numbers and infinities are above both.
constexpr int32_t kAbsentKey = 0, kNanKey = 1;
constexpr int32_t kSign = INT32_MIN, kExponent = 0x7f800000;

struct RouteSpec {
  int experts = 0, top_k = 0, cols = 0;
  bool softmax = false, normalise = false, shared = false, lists = false;

  int each() const { return CeilDiv(experts, kThreads); }      // experts of a thread
  int holders() const { return std::min(experts, kThreads); }  // threads that have any
  std::string name() const {
    return "moe_route.e" + std::to_string(experts) + "x" + std::to_string(top_k) +
           (softmax ? ".softmax" : ".sigmoid") + (normalise ? ".norm" : "") +
           (shared ? ".shared" + std::to_string(cols) : "") + (lists ? ".lists" : "");
  }
};

template <typename T>
struct RouteArgs {
  T step, logits, x, shared_router, ids, weights, factor, groups, order, norm_floor, scale;
};

Val GreaterU(Val a, Val b) {
  return LtU(b, a);
}

Val KeyOf(Val logit) {
  Builder& b = *logit.builder();
  const Val bits = b.AsI32(logit), size = bits & ~kSign;
  const Val key = Select(LtS(bits, b.I32(0)), bits ^ -1, bits | kSign);
  // Zeros are equal.
  const Val number = Select(Eq(size, 0), b.I32(kSign), key);
  return Select(LtS(b.I32(kExponent), size), b.I32(kNanKey), number);
}
// The logit of a key; NaN for that of a NaN.
Val LogitOf(Val key) {
  Builder& b = *key.builder();
  return b.AsF32(Select(LtS(key, b.I32(0)), key ^ kSign, key ^ -1));
}

class RouteKernel {
 public:
  RouteKernel(Builder& b, const RouteSpec& spec) : b_(b), s_(spec) {}
  void Emit() {
    b_.If(LtS(row_, rows_), [&] {
      if (!s_.shared) return Route();
      b_.If(Eq(b_.BlockY(), 0), [&] { Route(); });
      b_.If(Eq(b_.BlockY(), 1), [&] { Factor(); });
    });
    if (s_.lists) b_.If(And(Eq(rows_, 0), Eq(thread_ | b_.BlockY(), 0)), [&] { EndLists(0); });
  }

 private:
  void Route();
  void ReadKeys();
  Val FindLeast();
  void CollectFrom(Val least);
  void RankCandidates();
  void Weigh();
  Val Gate(Val key) const;
  void StoreSlot(Val slot, Val id);
  void EndLists(int32_t slots);
  void Factor();
  Val Place(Val index) const { return (row_ * s_.top_k + index) << 2; }

  Builder& b_;
  const RouteSpec& s_;
  const RouteArgs<Val> args_ = ReadArgs<RouteArgs>(b_);
  const Val row_ = b_.BlockX(), thread_ = b_.Thread(), rows_ = StepRows(args_.step);
  Reducer reducer_{b_, kThreads, kThreads};
  const Shared maxima_ = b_.AllocShared(Type::kI32, kThreads);
  const Shared found_ = b_.AllocShared(Type::kI32, 2);  // the least key of a candidate, how many there are
  const Shared keys_ = b_.AllocShared(Type::kI32, s_.experts), ids_ = b_.AllocShared(Type::kI32, s_.experts);
  const Shared chosen_keys_ = b_.AllocShared(Type::kI32, s_.top_k);  // the largest first
  const Shared chosen_ids_ = b_.AllocShared(Type::kI32, s_.top_k);
  const Shared gates_ = b_.AllocShared(Type::kF32, s_.top_k);  // by id
  std::vector<Val> own_;  // keys of experts thread, thread + kThreads, ...
  Val largest_, sum_;     // of all keys; of exponentials
};

// The largest of each thread's keys bound those of the row's experts from below: at least top_k are not below
// the top_k-th of them, and few more. Those are compared with each other.
void RouteKernel::Route() {
  ReadKeys();
  CollectFrom(FindLeast());
  RankCandidates();
  Weigh();
}

void RouteKernel::ReadKeys() {
  const Val first = row_ * static_cast<int32_t>(layouts::AlignUp(s_.experts, layouts::kGroupRows));
  const Val last = b_.I32(s_.experts - 1);
  Val most = b_.I32(kAbsentKey);
  for (int i = 0; i < s_.each(); ++i) {
    const Val expert = thread_ + i * kThreads;
    const Val logit = b_.Load(Type::kF32, args_.logits, (first + MinS(expert, last)) << 2);
    own_.push_back(Select(b_.Compare(Builder::Cmp::kLeS, expert, last), KeyOf(logit), b_.I32(kAbsentKey)));
    most = b_.Binary(Builder::Op::kMaxU, most, own_.back());
  }
  b_.StoreShared(maxima_, thread_, most);
  b_.If(Eq(thread_, 0), [&] { b_.StoreShared(found_, b_.I32(1), b_.I32(0)); });
  b_.Barrier();
}

Val RouteKernel::FindLeast() {
  const Val mine = b_.LoadShared(maxima_, thread_);
  const std::vector<Val> found = b_.For(
      b_.I32(0), b_.I32(s_.holders()), b_.I32(1), {b_.I32(0), b_.I32(0)},
      [&](Val i, const std::vector<Val>& now) -> std::vector<Val> {
        const Val other = b_.LoadShared(maxima_, i);
        const Val before = Select(LtS(i, thread_), GreaterU(other + 1, mine), GreaterU(other, mine));
        return {now[0] + Select(before, b_.I32(1), b_.I32(0)), b_.Binary(Builder::Op::kMaxU, now[1], other)};
      });
  largest_ = found[1];
  b_.If(And(Eq(found[0], s_.top_k - 1), LtS(thread_, b_.I32(s_.holders()))),
        [&] { b_.StoreShared(found_, b_.I32(0), mine); });
  b_.Barrier();
  return b_.LoadShared(found_, b_.I32(0));
}

void RouteKernel::CollectFrom(Val least) {
  for (int i = 0; i < s_.each(); ++i) {
    b_.If(b_.Compare(Builder::Cmp::kLeU, least, own_[i]), [&] {
      const Val at = b_.AtomicAddShared(found_, b_.I32(1), b_.I32(1));
      b_.StoreShared(keys_, at, own_[i]);
      b_.StoreShared(ids_, at, thread_ + i * kThreads);
    });
  }
  b_.Barrier();
}

// Which candidate has which place does not matter: keys and ids order them.
void RouteKernel::RankCandidates() {
  const Val count = b_.LoadShared(found_, b_.I32(1));
  b_.For(thread_, count, b_.I32(kThreads), [&](Val own) {
    const Val key = b_.LoadShared(keys_, own), id = b_.LoadShared(ids_, own);
    const Val rank = b_.For(b_.I32(0), count, b_.I32(1), {b_.I32(0)},
                            [&](Val i, const std::vector<Val>& now) -> std::vector<Val> {
                              const Val other = b_.LoadShared(keys_, i);
                              const Val tie = And(Eq(other, key), LtS(b_.LoadShared(ids_, i), id));
                              const Val before = b_.Binary(Builder::Op::kOr, GreaterU(other, key), tie);
                              return {now[0] + Select(before, b_.I32(1), b_.I32(0))};
                            })[0];
    b_.If(LtS(rank, b_.I32(s_.top_k)), [&] {
      b_.StoreShared(chosen_keys_, rank, key);
      b_.StoreShared(chosen_ids_, rank, id);
    });
  });
  b_.Barrier();
}

// The gate of a logit, NaN for NaN.
Val RouteKernel::Gate(Val key) const {
  const Val logit = LogitOf(key);
  const Val gate = s_.softmax ? Exp(logit - LogitOf(largest_)) : Sigmoid(logit);
  return Select(Eq(key, kNanKey), logit, gate);
}

void RouteKernel::Weigh() {
  if (s_.softmax) {
    Val sum = b_.F32(0.f);
    for (const Val& key : own_) sum = sum + Select(Eq(key, kAbsentKey), b_.F32(0.f), Gate(key));
    sum_ = reducer_.Sum(sum);
  }
  const Val end = b_.I32(s_.top_k), one = b_.I32(1), has_slot = LtS(thread_, end);
  b_.If(has_slot, [&] {
    const Val id = b_.LoadShared(chosen_ids_, thread_);
    const Val slot =
        b_.For(b_.I32(0), end, one, {b_.I32(0)}, [&](Val i, const std::vector<Val>& now) -> std::vector<Val> {
          return {now[0] + Select(LtS(b_.LoadShared(chosen_ids_, i), id), one, b_.I32(0))};
        })[0];
    const Val gate = Gate(b_.LoadShared(chosen_keys_, thread_));
    b_.StoreShared(gates_, slot, s_.softmax ? DivF(gate, sum_) : gate);
    StoreSlot(slot, id);
  });
  b_.Barrier();
  b_.If(has_slot, [&] {
    Val weight = b_.LoadShared(gates_, thread_);
    if (s_.normalise) {
      const Val sum = b_.For(b_.I32(0), end, one, {b_.F32(0.f)},
                             [&](Val i, const std::vector<Val>& now) -> std::vector<Val> {
                               return {now[0] + b_.LoadShared(gates_, i)};
                             })[0];
      weight = DivF(weight, AtLeast(sum, FloatOf(args_.norm_floor)));
    }
    b_.Store(args_.weights, Place(thread_), weight * FloatOf(args_.scale));
  });
  if (s_.lists) b_.If(Eq(thread_, 0), [&] { EndLists(s_.top_k); });
}

// Of one row, slots by expert are slots.
void RouteKernel::StoreSlot(Val slot, Val id) {
  b_.Store(args_.ids, Place(slot), id);
  if (!s_.lists) return;
  b_.Store(args_.groups, GroupIdAt(slot), id);
  b_.Store(args_.groups, GroupBeginAt(s_.experts, slot), slot);
  b_.Store(args_.order, slot << 2, slot);
}

void RouteKernel::EndLists(int32_t slots) {
  b_.Store(args_.groups, b_.I32(0), b_.I32(slots));
  b_.Store(args_.groups, GroupBeginAt(s_.experts, b_.I32(slots)), b_.I32(slots));
}

void RouteKernel::Factor() {
  const Val row = row_ * (4 * s_.cols);
  const std::vector<Val> zero(4, b_.F32(0.f));
  const std::vector<Val> dots = b_.For(thread_, b_.I32(s_.cols / 4), b_.I32(kThreads), zero,
                                       [&](Val quad, const std::vector<Val>& carried) {
                                         const Val x = b_.Load(Type::kF32x4, args_.x, row + (quad << 4));
                                         const Val w = b_.Load(Type::kF32x4, args_.shared_router, quad << 4);
                                         std::vector<Val> acc = carried;
                                         for (int c = 0; c < 4; ++c)
                                           acc[c] = Fma(b_.Extract(x, c), b_.Extract(w, c), acc[c]);
                                         return acc;
                                       });
  const Val dot = reducer_.Sum((dots[0] + dots[1]) + (dots[2] + dots[3]));
  b_.If(Eq(thread_, 0), [&] { b_.Store(args_.factor, row_ << 2, Sigmoid(dot)); });
}

}  // namespace

std::vector<Launch> Expand_moe_route(const Dispatch<plan::MoeRouteSpec>& d, Expansion& expansion) {
  if (d.spec.experts > kMaxExperts)
    return expansion.Refuse("experts", d.spec.experts, "up to " + std::to_string(kMaxExperts));
  if (d.spec.top_k > kThreads)
    return expansion.Refuse("top_k", d.spec.top_k, "up to " + std::to_string(kThreads));
  if (d.spec.top_k > d.spec.experts)
    return expansion.Refuse("top_k", d.spec.top_k, "up to the experts, " + std::to_string(d.spec.experts));
  if (d.spec.shared && d.spec.cols % 4) return expansion.Refuse("cols", d.spec.cols, MultiplesOf(4));
  const bool lists = d.bindings.groups.has_value();
  if (lists != d.bindings.order.has_value() || (lists && d.rows != 1)) return {};
  RouteSpec spec;
  spec.experts = static_cast<int>(d.spec.experts);
  spec.top_k = static_cast<int>(d.spec.top_k);
  spec.cols = d.spec.shared ? static_cast<int>(d.spec.cols) : 0;
  spec.softmax = d.spec.gating == plan::Gating::Softmax;
  spec.normalise = d.spec.normalise;
  spec.shared = d.spec.shared;
  spec.lists = lists;
  Launch launch;
  launch.name = spec.name();
  launch.emit = [spec](Builder& b) { RouteKernel(b, spec).Emit(); };
  launch.workgroup_size = kThreads;
  launch.grid[0] = static_cast<uint32_t>(d.rows);
  launch.grid[1] = spec.shared ? 2 : 1;
  const Arg none = Number(0);
  launch.args = ListArgs<RouteArgs>({.step = StepArg(expansion),
                                     .logits = *d.bindings.logits,
                                     .x = d.bindings.x.value_or(none),
                                     .shared_router = d.bindings.shared_router.value_or(none),
                                     .ids = *d.bindings.ids,
                                     .weights = *d.bindings.weights,
                                     .factor = d.bindings.factor.value_or(none),
                                     .groups = d.bindings.groups.value_or(none),
                                     .order = d.bindings.order.value_or(none),
                                     .norm_floor = FloatNumber(d.spec.norm_floor),
                                     .scale = FloatNumber(d.spec.scale)});
  const auto rows = static_cast<uint64_t>(d.rows), experts = static_cast<uint64_t>(d.spec.experts);
  const auto cols = static_cast<uint64_t>(spec.cols), top_k = static_cast<uint64_t>(d.spec.top_k);
  launch.read_bytes = 4 * (rows * experts + (rows + 1) * cols);
  launch.write_bytes = rows * (8 * top_k + (spec.shared ? 4 : 0)) + (lists ? 12 * top_k + 8 : 0);
  launch.ops = rows * (20 * experts + 2 * cols);
  return {launch};
}

}  // namespace qcc::gpu
