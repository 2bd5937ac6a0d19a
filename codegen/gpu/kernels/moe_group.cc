// moe_group: the slots of a step by expert, as a stable counting sort. One workgroup: what it sorts is
// little, and all that follows waits for it.
#include <algorithm>

#include "codegen/gpu/kernels/families.h"
#include "codegen/gpu/kernels/kernel_args.h"
#include "codegen/gpu/kernels/moe.h"
#include "codegen/gpu/kernels/sample_math.h"
#include "codegen/gpu/kernels/step.h"

namespace qcc::gpu {
namespace {

constexpr int kMostThreads = 512;
constexpr int64_t kMostExperts = 1024;
constexpr int kMaskWords = 2048;  // of workgroup memory
constexpr int kMostWords = 4;     // of an expert: more rows at a time are more to count for each slot

struct GroupSpec {
  int experts = 0, top_k = 0, threads = 0;
  // Words of a mask: a bit for each row of those that are placed at a time.
  int words() const { return std::min(kMostWords, kMaskWords / experts); }
  int block_rows() const { return 32 * words(); }
  // Of workgroup memory.
  int shared_words() const { return experts * (1 + words()) + WideCollective::SharedWords(threads); }
};

template <typename T>
struct GroupArgs {
  T step, ids, groups, order;
};

// How many bits of `x` are set.
Val Ones(Val x) {
  x = x - (ShrU(x, 1) & 0x55555555);
  x = (x & 0x33333333) + (ShrU(x, 2) & 0x33333333);
  return ShrU(((x + ShrU(x, 4)) & 0x0f0f0f0f) * 0x01010101, 24);
}

class GroupKernel {
 public:
  GroupKernel(Builder& b, const GroupSpec& spec) : b_(b), s_(spec) {}
  void Emit() {
    Count();
    Leave();
    b_.Barrier();
    b_.For(b_.I32(0), rows_, b_.I32(s_.block_rows()), [&](Val first) { PlaceBlock(first); });
  }

 private:
  void Count();
  void Leave();
  void PlaceBlock(Val first);
  Val OnesBefore(Val expert, Val row) const;
  // Calls fn(slot, its row, its expert) for the thread's slots of rows first .. end - 1.
  void ForSlots(Val first, Val end, const std::function<void(Val slot, Val row, Val expert)>& fn);
  void ForWords(const Shared& words, const std::function<void(Val i)>& fn) {
    b_.For(thread_, b_.I32(words.words), b_.I32(s_.threads), fn);
  }

  Builder& b_;
  const GroupSpec& s_;
  const GroupArgs<Val> args_ = ReadArgs<GroupArgs>(b_);
  const Val thread_ = b_.Thread(), rows_ = StepRows(args_.step);
  const Shared places_ = b_.AllocShared(Type::kI32, s_.experts);  // slots of each expert; then its next place
  const Shared masks_ = b_.AllocShared(Type::kI32, s_.experts* s_.words());  // [expert][word]
  WideCollective collective_{b_, s_.threads};
};

void GroupKernel::ForSlots(Val first, Val end, const std::function<void(Val slot, Val row, Val expert)>& fn) {
  b_.For(first * s_.top_k + thread_, end * s_.top_k, b_.I32(s_.threads),
         [&](Val slot) { fn(slot, DivU(slot, s_.top_k), b_.Load(Type::kI32, args_.ids, slot << 2)); });
}

void GroupKernel::Count() {
  ForWords(places_, [&](Val i) { b_.StoreShared(places_, i, b_.I32(0)); });
  b_.Barrier();
  ForSlots(b_.I32(0), rows_, [&](Val, Val, Val expert) { b_.AtomicAddShared(places_, expert, b_.I32(1)); });
  b_.Barrier();
}

// The groups, of which a thread has neighbouring experts.
void GroupKernel::Leave() {
  const int each = CeilDiv(s_.experts, s_.threads);
  const Val one = b_.I32(1), none = b_.I32(0);
  const Val low = MinS(thread_ * each, b_.I32(s_.experts)), high = MinS(low + each, b_.I32(s_.experts));
  // Slots, and in the upper half active experts.
  const Val own = b_.For(low, high, one, {b_.I64(0)}, [&](Val i, const std::vector<Val>& now) {
    const Val slots = b_.LoadShared(places_, i),
              active = Select(Eq(slots, 0), b_.I64(0), b_.I64(int64_t{1} << 32));
    return std::vector<Val>{now[0] + (b_.ExtendU(slots) | active)};
  })[0];
  const WideCollective::Sums sums = collective_.Scan(own);
  const Val begin = b_.Truncate(sums.before), number = b_.Truncate(ShrU(sums.before, 32));
  b_.For(low, high, one, {begin, number}, [&](Val i, const std::vector<Val>& now) {
    const Val slots = b_.LoadShared(places_, i), active = Select(Eq(slots, 0), none, one);
    b_.If(Eq(active, 1), [&] {
      b_.Store(args_.groups, GroupIdAt(now[1]), i);
      b_.Store(args_.groups, GroupBeginAt(s_.experts, now[1]), now[0]);
    });
    b_.StoreShared(places_, i, now[0]);
    return std::vector<Val>{now[0] + slots, now[1] + active};
  });
  b_.If(Eq(thread_, 0), [&] {
    const Val active = b_.Truncate(ShrU(sums.total, 32));
    b_.Store(args_.groups, none, active);
    b_.Store(args_.groups, GroupBeginAt(s_.experts, active), b_.Truncate(sums.total));
  });
}

// Rows from `first` on. A row has an expert once, so bits say all.
void GroupKernel::PlaceBlock(Val first) {
  const Val end = MinS(first + s_.block_rows(), rows_);
  ForWords(masks_, [&](Val i) { b_.StoreShared(masks_, i, b_.I32(0)); });
  b_.Barrier();
  ForSlots(first, end, [&](Val, Val row, Val expert) {
    const Val bit = b_.Binary(Builder::Op::kShl, b_.I32(1), row & 31);
    b_.AtomicAddShared(masks_, expert * s_.words() + ShrU(row - first, 5), bit);
  });
  b_.Barrier();
  ForSlots(first, end, [&](Val slot, Val row, Val expert) {
    const Val place = b_.LoadShared(places_, expert) + OnesBefore(expert, row - first);
    b_.Store(args_.order, place << 2, slot);
  });
  b_.Barrier();
  ForWords(places_, [&](Val i) {
    Val place = b_.LoadShared(places_, i);
    for (int w = 0; w < s_.words(); ++w) place = place + Ones(b_.LoadShared(masks_, i * s_.words() + w));
    b_.StoreShared(places_, i, place);
  });
  b_.Barrier();
}

// How many rows of the block before `row` have the expert.
Val GroupKernel::OnesBefore(Val expert, Val row) const {
  const Val word = ShrU(row, 5), below = b_.Binary(Builder::Op::kShl, b_.I32(1), row & 31) - 1;
  Val sum = b_.I32(0);
  for (int w = 0; w < s_.words(); ++w) {
    const Val mask = b_.LoadShared(masks_, expert * s_.words() + w);
    const Val counted = Select(LtS(b_.I32(w), word), mask, Select(Eq(word, w), mask & below, b_.I32(0)));
    sum = sum + Ones(counted);
  }
  return sum;
}

}  // namespace

std::vector<Launch> Expand_moe_group(const Dispatch<plan::MoeGroupSpec>& d, Expansion& expansion) {
  if (d.spec.experts > kMostExperts)
    return expansion.Refuse("experts", d.spec.experts, "up to " + std::to_string(kMostExperts));
  if (d.spec.top_k > d.spec.experts)
    return expansion.Refuse("top_k", d.spec.top_k, "up to the experts, " + std::to_string(d.spec.experts));
  GroupSpec spec;
  spec.experts = static_cast<int>(d.spec.experts);
  spec.top_k = static_cast<int>(d.spec.top_k);
  spec.threads = kMostThreads;
  const Profile& profile = expansion.profile();
  if (profile.max_workgroup < spec.threads || profile.max_shared < 4 * spec.shared_words())
    spec.threads = kSampleWorkgroup;
  Launch launch;
  launch.name = "moe_group.e" + std::to_string(spec.experts) + "x" + std::to_string(spec.top_k);
  launch.emit = [spec](Builder& b) { GroupKernel(b, spec).Emit(); };
  launch.workgroup_size = spec.threads;
  launch.args = ListArgs<GroupArgs>({.step = StepArg(expansion),
                                     .ids = *d.bindings.ids,
                                     .groups = *d.bindings.groups,
                                     .order = *d.bindings.order});
  const uint64_t slots = static_cast<uint64_t>(d.rows * d.spec.top_k);
  launch.read_bytes = 12 * slots;
  launch.write_bytes = 4 * slots + static_cast<uint64_t>(plan::moeGroupsBytes(d.spec.experts));
  launch.ops = 64 * slots;
  return {launch};
}

}  // namespace qcc::gpu
