#include "tests/device/interpreter.h"

#include <algorithm>
#include <numeric>

#include "tests/device/access_log.h"
#include "tests/device/address_ranges.h"
#include "tests/device/interpreter_values.h"
#include "tests/device/value_builder.h"
#include "tests/device/workgroup_memory.h"

namespace qcc::gpu {
namespace {

class Machine : public ValueBuilder {
 public:
  Machine(const Profile& profile, const HostMemory& memory) : profile_(profile), memory_(memory) {}

  std::string RunAll(std::span<const Launch> launches) {
    for (const Launch& launch : launches) {
      if (launch.barrier) {
        ++phase_;
        group_ = 0;
      }
      RunLaunch(launch);
      if (!error_.empty()) {
        break;
      }
    }
    return error_;
  }

  const Profile& profile() const override { return profile_; }

  Val Arg(int index) override {
    if (index < 0 || index >= static_cast<int>(args_.size())) {
      Fail("argument " + std::to_string(index) + " of " + std::to_string(args_.size()));
      return Splat(Type::kI64, 0);
    }
    return Splat(Type::kI64, args_[index]);
  }
  Val BlockX() override { return Splat(Type::kI32, block_[0]); }
  Val BlockY() override { return Splat(Type::kI32, block_[1]); }
  Val BlockZ() override { return Splat(Type::kI32, block_[2]); }
  Val Thread() override {
    return Each(Type::kI32, [](int t) { return static_cast<uint64_t>(t); });
  }

  using Builder::Load;
  Val Load(Type type, Val base, Val byte_offset, int32_t more) override {
    Val result = Splat(type, 0);
    int words = type == Type::kI64 ? 2 : lanesOf(type);
    if (more != 0) base = Binary(Op::kAdd, base, I64(more));
    EachAddress("load", type, base, byte_offset, words, Access::kRead, [&](int t, uint64_t address) {
      auto* memory = reinterpret_cast<const uint32_t*>(address);
      if (type == Type::kI64) {
        C(result)[t] = memory[0] | static_cast<uint64_t>(memory[1]) << 32;
      } else {
        for (int i = 0; i < words; ++i) {
          C(result)[i * threads_ + t] = memory[i];
        }
      }
    });
    return result;
  }
  void Store(Val base, Val byte_offset, Val value) override {
    Type type = value.type();
    int words = type == Type::kI64 ? 2 : lanesOf(type);
    EachAddress("store", type, base, byte_offset, words, Access::kWrite, [&](int t, uint64_t address) {
      auto* memory = reinterpret_cast<uint32_t*>(address);
      for (int i = 0; i < words; ++i) {
        memory[i] =
            static_cast<uint32_t>(type == Type::kI64 ? C(value)[t] >> (32 * i) : C(value)[i * threads_ + t]);
      }
    });
  }
  Val AtomicAdd(Val base, Val byte_offset, Val value) override {
    Expect(value, Type::kI32, "atomic add");
    Val old = Splat(Type::kI32, 0);
    EachAddress("atomic add", Type::kI32, base, byte_offset, 1, Access::kAtomic,
                [&](int t, uint64_t address) {
                  auto* word = reinterpret_cast<uint32_t*>(address);
                  C(old)[t] = *word;
                  *word += static_cast<uint32_t>(C(value)[t]);
                });
    return old;
  }

  Shared AllocShared(Type type, int words) override {
    if (type != Type::kI32 && type != Type::kF32) {
      Fail(std::string("workgroup memory of type ") + nameOf(type));
    }
    const Shared shared = shared_.Allocate(type, words);
    if (shared_.bytes() > profile_.max_shared) {
      Fail(std::to_string(shared_.bytes()) + " bytes of workgroup memory, profile " + profile_.name +
           " has " + std::to_string(profile_.max_shared));
    }
    return shared;
  }
  Val LoadShared(const Shared& shared, Val index) override {
    Val result = Splat(shared.type, 0);
    EachShared("load", shared, index, Access::kRead, [&](int t, SharedCell& cell) {
      C(result)[t] = cell.bits;
    });
    return result;
  }
  void StoreShared(const Shared& shared, Val index, Val value) override {
    Expect(value, shared.type, "store to workgroup memory");
    EachShared("store", shared, index, Access::kWrite, [&](int t, SharedCell& cell) {
      cell.bits = static_cast<uint32_t>(C(value)[t]);
      cell.written = true;
    });
  }
  Val AtomicAddShared(const Shared& shared, Val index, Val value) override {
    return AtomicShared("atomic add", shared, index, value, [](uint32_t a, uint32_t b) { return a + b; });
  }
  Val AtomicMaxSharedU(const Shared& shared, Val index, Val value) override {
    return AtomicShared("atomic max", shared, index, value,
                        [](uint32_t a, uint32_t b) { return std::max(a, b); });
  }
  void Barrier() override {
    for (int t = 0; t < threads_; ++t) {
      if (!active_[t]) {
        FailAt(t, "does not reach a barrier that other threads of its workgroup reach");
        return;
      }
    }
    ++epoch_;
    turns_.assign(threads_, 0);
  }
  void SubgroupBarrier() override {
    const int size = profile_.subgroup;
    if (size == 0 || threads_ % size != 0) {
      return Fail("a barrier of subgroups, " + std::to_string(threads_) + " threads, subgroups of " +
                  std::to_string(size));
    }
    EachWholeSubgroup(size, "a barrier", [&](int first) { ++turns_[SubgroupOf(first)]; });
  }
  // Orders nothing. Where subgroups are of another size or none, those of CUDA come together.
  void BeginLoads() override {
    EachWholeSubgroup(std::gcd(threads_, 32), "the beginning of loads", [](int) {});
  }

  void AwaitEarlier() override {
    for (int t = 0; t < threads_; ++t) {
      if (!active_[t]) {
        FailAt(t, "does not wait for earlier launches where other threads of its workgroup do");
        return;
      }
    }
    if (awaited_) {
      FailAt(0, "waits for earlier launches twice");
    }
    awaited_ = true;
  }
  void LetNextBegin() override {}
  void Prefetch(Val base, Val byte_offset) override {
    const Val word = base + ExtendU(byte_offset);
    for (int t = 0; t < threads_ && error_.empty(); ++t) {
      if (active_[t] && !ranges_.Covers(C(word)[t], 1, false)) {
        FailAt(t,
               At("prefetch", Type::kI32, C(word)[t], C(base)[t]) + ": outside the ranges that it may read");
      }
    }
  }

  void If(Val condition, const std::function<void()>& then) override {
    Expect(condition, Type::kBool, "condition");
    CellStack::Mark mark = cells_.mark();
    Masked(condition, true, then);
    cells_.Reset(mark);
  }
  std::vector<Val> IfElse(Val condition, const std::function<std::vector<Val>()>& then,
                          const std::function<std::vector<Val>()>& otherwise) override {
    Expect(condition, Type::kBool, "condition");
    // Nothing is computed any more, but the kernel goes on with as many results as there are.
    if (!error_.empty()) {
      return then();
    }
    std::vector<Val> a, b;
    bool ran_a = Masked(condition, true, [&] { a = then(); });
    bool ran_b = Masked(condition, false, [&] { b = otherwise(); });
    if (!ran_a || !ran_b) {
      return ran_a ? a : b;
    }
    if (a.size() != b.size()) {
      Fail("the two sides of a choice have different numbers of results");
      return a;
    }
    for (size_t i = 0; i < a.size(); ++i) {
      a[i] = Select(condition, a[i], b[i]);
    }
    return a;
  }
  std::vector<Val> For(
      Val low, Val high, Val step, const std::vector<Val>& carried,
      const std::function<std::vector<Val>(Val i, const std::vector<Val>& carried)>& body) override {
    Expect(low, Type::kI32, "bound of a loop");
    Expect(high, Type::kI32, "bound of a loop");
    Expect(step, Type::kI32, "step of a loop");
    std::vector<Val> last;
    for (Val v : carried) {
      last.push_back(Copy(v));
    }
    std::vector<int64_t> i(threads_);
    for (int t = 0; t < threads_; ++t) {
      i[t] = Signed(C(low)[t]);
      if (active_[t] && Signed(C(step)[t]) <= 0) {
        FailAt(t, "a loop's step is " + std::to_string(Signed(C(step)[t])));
      }
    }
    CellStack::Mark mark = cells_.mark();
    size_t shared_mark = shared_.mark();
    std::vector<uint8_t> outer = active_;
    while (error_.empty()) {
      bool any = false;
      for (int t = 0; t < threads_; ++t) {
        active_[t] = outer[t] && i[t] < Signed(C(high)[t]);
        any = any || active_[t];
      }
      if (!any) {
        break;
      }
      shared_.Rewind(shared_mark);
      Val index = Each(Type::kI32, [&](int t) { return static_cast<uint32_t>(i[t]); });
      std::vector<Val> now;
      for (Val v : last) {
        now.push_back(Copy(v));
      }
      std::vector<Val> next = body(index, now);
      if (next.size() != last.size()) {
        Fail("a loop carries " + std::to_string(last.size()) + " values, its body returns " +
             std::to_string(next.size()));
        break;
      }
      for (size_t k = 0; k < last.size(); ++k) {
        Expect(next[k], last[k].type(), "carried value of a loop");
        for (int lane = 0; lane < lanesOf(last[k].type()); ++lane) {
          for (int t = 0; t < threads_; ++t) {
            if (active_[t]) {
              C(last[k])[lane * threads_ + t] = C(next[k])[lane * threads_ + t];
            }
          }
        }
      }
      for (int t = 0; t < threads_; ++t) {
        i[t] += active_[t] ? Signed(C(step)[t]) : 0;
      }
      cells_.Reset(mark);
    }
    active_ = outer;
    return last;
  }

  Val ShuffleXor(Val v, int mask) override {
    int size = profile_.subgroup;
    if (size == 0 || mask <= 0 || mask >= size || threads_ % size != 0) {
      Fail("a shuffle by " + std::to_string(mask) + ", " + std::to_string(threads_) +
           " threads, subgroups of " + std::to_string(size));
      return v;
    }
    for (int t = 0; t < threads_; ++t) {
      if (active_[t] && !active_[t ^ mask]) {
        FailAt(t, "shuffles with thread " + std::to_string(t ^ mask) + ", which is idle");
      }
    }
    Val r = New(v.type());
    for (int lane = 0; lane < lanesOf(v.type()); ++lane) {
      for (int t = 0; t < threads_; ++t) {
        C(r)[lane * threads_ + t] = C(v)[lane * threads_ + (t ^ mask)];
      }
    }
    return r;
  }

  std::vector<Val> MmaS8(const std::vector<Val>& a, const std::vector<Val>& b,
                         const std::vector<Val>& c) override {
    return Mma(a, b, c, Type::kI32, MmaS8Fragments);
  }
  std::vector<Val> MmaF16(const std::vector<Val>& a, const std::vector<Val>& b,
                          const std::vector<Val>& c) override {
    return Mma(a, b, c, Type::kF32, MmaFloatFragments<HalfTerm>);
  }
  std::vector<Val> MmaBf16(const std::vector<Val>& a, const std::vector<Val>& b,
                           const std::vector<Val>& c) override {
    return Mma(a, b, c, Type::kF32, MmaFloatFragments<Bf16Term>);
  }

  // Read and written by the first thread of the subgroup, as far as races go: only a barrier orders it with
  // what the others do. Where rows may begin is what Vulkan wants of cooperative matrices.
  void DotTile(const SharedRows& a, int a_rows, const SharedRows& b, int b_rows, int columns,
               const SharedRows& d) override {
    const MatrixUnits& units = profile_.matrix;
    if (units.kind != MatrixUnits::Kind::kCooperative || a_rows % units.m || b_rows % units.n ||
        columns % units.k || threads_ % profile_.subgroup) {
      Fail("matrices of " + std::to_string(a_rows) + " and " + std::to_string(b_rows) + " rows of " +
           std::to_string(columns) + " columns in profile " + profile_.name);
      return;
    }
    for (int first = 0; first < threads_ && error_.empty(); first += profile_.subgroup) {
      const auto end = active_.begin() + first + profile_.subgroup;
      int idle = static_cast<int>(std::count(active_.begin() + first, end, 0));
      if (idle == profile_.subgroup) {
        continue;
      }
      if (idle != 0) {
        FailAt(first, "matrices in a subgroup with " + std::to_string(idle) + " idle threads");
      }
      for (const SharedRows* rows : {&a, &b, &d}) {
        for (int t = first; t < first + profile_.subgroup; ++t) {
          if (C(rows->at)[t] != C(rows->at)[first]) {
            FailAt(t, "matrices that threads of one subgroup have at different places");
          }
        }
      }
      const auto misplaced = [&](const SharedRows& rows, int bytes_of_row) {
        const int words = std::min(kMatrixAlignment, bytes_of_row) / 4;
        const bool wrong = Signed(C(rows.at)[first]) % words != 0 || rows.stride % words != 0;
        if (wrong) {
          FailAt(first, "rows of a matrix at " + std::to_string(Signed(C(rows.at)[first])) + ", " +
                            std::to_string(rows.stride) + " apart: no multiples of " + std::to_string(words));
        }
        return wrong;
      };
      if (misplaced(a, units.k) || misplaced(b, units.k) || misplaced(d, 4 * units.m)) {
        return;
      }
      // [row][column]
      const auto bytes = [&](const SharedRows& rows, int count) {
        std::vector<int> all;
        for (int r = 0; r < count && error_.empty(); ++r) {
          for (int w = 0; w < columns / 4; ++w) {
            const int64_t at = Signed(C(rows.at)[first]) + int64_t{r} * rows.stride + w;
            const SharedCell* cell = SharedAt(first, rows.memory, at, "matrix load", Access::kRead);
            for (int i = 0; i < 4; ++i) {
              all.push_back(cell != nullptr ? Byte(cell->bits, i) : 0);
            }
          }
        }
        all.resize(static_cast<size_t>(count) * columns);
        return all;
      };
      const std::vector<int> left = bytes(a, a_rows), right = bytes(b, b_rows);
      for (int j = 0; j < b_rows && error_.empty(); ++j) {
        for (int i = 0; i < a_rows && error_.empty(); ++i) {
          const int64_t at = Signed(C(d.at)[first]) + int64_t{j} * d.stride + i;
          SharedCell* cell = SharedAt(first, d.memory, at, "matrix store", Access::kWrite);
          if (cell != nullptr) {
            const int* row = &left[static_cast<size_t>(i) * columns];
            const int sum =
                std::inner_product(row, row + columns, &right[static_cast<size_t>(j) * columns], 0);
            cell->bits = static_cast<uint32_t>(sum);
            cell->written = true;
          }
        }
      }
    }
  }

 private:
  static constexpr int kMatrixAlignment = 16;  // bytes

  std::vector<Val> Mma(const std::vector<Val>& a, const std::vector<Val>& b, const std::vector<Val>& c,
                       Type sum, decltype(MmaS8Fragments)* multiply) {
    if (profile_.matrix.kind != MatrixUnits::Kind::kMma || profile_.subgroup != 32 || threads_ % 32 != 0 ||
        a.size() != 4 || b.size() != 2 || c.size() != 4) {
      Fail("mma of fragments of " + std::to_string(a.size()) + ", " + std::to_string(b.size()) + " and " +
           std::to_string(c.size()) + " words in profile " + profile_.name);
      return c;
    }
    std::vector<Val> d;
    for (int i = 0; i < 4; ++i) {
      d.push_back(New(sum));
    }
    for (int warp = 0; warp < threads_; warp += 32) {
      int idle = static_cast<int>(std::count(active_.begin() + warp, active_.begin() + warp + 32, 0));
      if (idle == 32) {
        continue;
      }
      if (idle != 0) {
        FailAt(warp, "mma in a subgroup with " + std::to_string(idle) + " idle threads");
      }
      uint32_t fragments[3][4][32], sums[4][32];
      const std::vector<Val>* operands[] = {&a, &b, &c};
      for (int f = 0; f < 3; ++f) {
        for (size_t w = 0; w < operands[f]->size(); ++w) {
          Expect((*operands[f])[w], f == 2 ? sum : Type::kI32, "fragment of mma");
          std::transform(C((*operands[f])[w]) + warp, C((*operands[f])[w]) + warp + 32, fragments[f][w],
                         [](uint64_t cell) { return static_cast<uint32_t>(cell); });
        }
      }
      multiply(fragments[0], fragments[1], fragments[2], sums);
      for (int w = 0; w < 4; ++w) {
        std::copy_n(sums[w], 32, C(d[w]) + warp);
      }
    }
    return d;
  }

  void RunLaunch(const Launch& launch) {
    launch_ = &launch;
    block_[0] = block_[1] = block_[2] = 0;
    if (launch.workgroup_size <= 0 || launch.workgroup_size > profile_.max_workgroup) {
      return Fail("workgroup of " + std::to_string(launch.workgroup_size) + " threads, profile " +
                  profile_.name + " has " + std::to_string(profile_.max_workgroup));
    }
    if (launch.args.size() > 16) {
      return Fail(std::to_string(launch.args.size()) + " arguments, at most 16");
    }
    threads_ = launch.workgroup_size;
    SetArguments(launch);
    for (block_[2] = 0; block_[2] < launch.grid[2]; ++block_[2]) {
      for (block_[1] = 0; block_[1] < launch.grid[1]; ++block_[1]) {
        for (block_[0] = 0; block_[0] < launch.grid[0]; ++block_[0]) {
          active_.assign(threads_, 1);
          shared_.Clear();
          ++epoch_;
          turns_.assign(threads_, 0);
          ++group_;
          cells_.Reset({0, 0});
          awaited_ = false;
          if (error_.empty()) {
            EmitKernel(*this, launch);
          }
          if (error_.empty() && !awaited_) {
            FailAt(0, "does not wait for earlier launches");
          }
          if (error_.empty() && launch.beside && shared_.bytes() > launch.shared_bytes) {
            Fail("has " + std::to_string(shared_.bytes()) + " bytes of workgroup memory, says " +
                 std::to_string(launch.shared_bytes));
          }
          if (!error_.empty()) {
            return;
          }
        }
      }
    }
  }

  void SetArguments(const Launch& launch) {
    args_.clear();
    ranges_.Clear();
    for (const gpu::Arg& arg : launch.args) {
      if (arg.space == Space::kImmediate) {
        args_.push_back(arg.value);
        continue;
      }
      const HostBytes& space = memory_.spaces[static_cast<size_t>(arg.space)];
      if (arg.value > space.bytes || arg.bytes > space.bytes - arg.value) {
        Fail("argument " + std::to_string(args_.size()) + ": " + std::to_string(arg.bytes) + " bytes at " +
             std::to_string(arg.value) + " of " + SpaceName(arg.space) + ", which has " +
             std::to_string(space.bytes));
      }
      args_.push_back(reinterpret_cast<uint64_t>(space.data) + arg.value);
      bool constant =
          arg.space == Space::kWeights || arg.space == Space::kStep || arg.space == Space::kConstants;
      ranges_.Add(static_cast<const char*>(space.data) + arg.value, arg.bytes, arg.space, !constant);
    }
    for (const HostBytes& more : memory_.writable) {
      ranges_.Add(more.data, more.bytes, kStateOrKv, true);
    }
  }

  bool Masked(Val condition, bool side, const std::function<void()>& body) {
    std::vector<uint8_t> outer = active_;
    bool any = false;
    for (int t = 0; t < threads_; ++t) {
      active_[t] = outer[t] && (C(condition)[t] != 0) == side;
      any = any || active_[t];
    }
    if (any && error_.empty()) {
      body();
    }
    active_ = outer;
    return any;
  }

  std::string At(const char* what, Type type, uint64_t address, uint64_t base) const {
    return std::string(what) + " of " + nameOf(type) + ranges_.Describe(address, base);
  }
  // By its first thread; one with idle threads among others is an error, one of idle threads is left out.
  template <typename F>
  void EachWholeSubgroup(int size, const char* what, F&& f) {
    for (int first = 0; first < threads_; first += size) {
      const auto begin = active_.begin() + first;
      const auto idle = std::count(begin, begin + size, 0);
      if (idle != 0 && idle != size) {
        FailAt(first, std::string(what) + " in a subgroup with " + std::to_string(idle) + " idle threads");
      }
      if (idle == 0) f(first);
    }
  }
  // Access by access, as a device may order them within one instruction.
  template <typename F>
  void EachAddress(const char* what, Type type, Val base, Val offset, int words, Access access, F&& f) {
    Expect(base, Type::kI64, "address");
    Expect(offset, Type::kI32, "byte offset");
    uint64_t alignment = type == Type::kBool ? 0 : 4 * static_cast<uint64_t>(words);
    for (int t = 0; t < threads_ && error_.empty(); ++t) {
      if (!active_[t]) {
        continue;
      }
      uint64_t address = C(base)[t] + static_cast<uint32_t>(C(offset)[t]);
      if (alignment == 0 || address % alignment != 0) {
        FailAt(t, At(what, type, address, C(base)[t]) + ": not aligned to " + std::to_string(alignment));
        return;
      }
      // What a launch may write, one that still runs may write, too.
      if (!awaited_ && ranges_.Covers(address, 4 * words, true)) {
        FailAt(t, At(what, type, address, C(base)[t]) + ": ahead of the wait for earlier launches");
        return;
      }
      if (!ranges_.Covers(address, 4 * words, access != Access::kRead)) {
        FailAt(t, At(what, type, address, C(base)[t]) + ": outside the ranges that it may " +
                      (access == Access::kRead ? "read" : "write"));
        return;
      }
      for (int w = 0; w < words; ++w) {
        if (const char* other = log_.At(address + 4 * w).Touch(access, PlaceOf(t, 0))) {
          FailAt(t, At(what, type, address + 4 * w, C(base)[t]) + ": races with " + other);
          return;
        }
      }
      f(t, address);
    }
  }
  uint32_t SubgroupOf(int t) const { return static_cast<uint32_t>(t / std::max(profile_.subgroup, 1)); }
  Place PlaceOf(int t, uint32_t turn) const {
    return {static_cast<uint32_t>(t), SubgroupOf(t), group_, epoch_, phase_, turn};
  }
  // Null after an error.
  SharedCell* SharedAt(int t, const Shared& shared, int64_t index, const char* what, Access access) {
    std::string why;
    SharedCell* cell = shared_.At(shared, index, what, access, PlaceOf(t, turns_[SubgroupOf(t)]), &why);
    if (cell == nullptr) {
      FailAt(t, why);
    }
    return cell;
  }
  template <typename F>
  void EachShared(const char* what, const Shared& shared, Val index, Access access, F&& f) {
    Expect(index, Type::kI32, "index of workgroup memory");
    for (int t = 0; t < threads_ && error_.empty(); ++t) {
      if (!active_[t]) {
        continue;
      }
      SharedCell* cell = SharedAt(t, shared, Signed(C(index)[t]), what, access);
      if (cell == nullptr) {
        return;
      }
      f(t, *cell);
    }
  }
  template <typename F>
  Val AtomicShared(const char* what, const Shared& shared, Val index, Val value, F&& f) {
    Expect(value, Type::kI32, what);
    Val old = Splat(Type::kI32, 0);
    EachShared(what, shared, index, Access::kAtomic, [&](int t, SharedCell& cell) {
      C(old)[t] = cell.bits;
      cell.bits = f(cell.bits, static_cast<uint32_t>(C(value)[t]));
    });
    return old;
  }

  Profile profile_;
  const HostMemory& memory_;

  std::vector<uint64_t> args_;
  AddressRanges ranges_;

  WorkgroupMemory shared_;

  MemoryLog log_;
  uint32_t epoch_ = 0, phase_ = 1, group_ = 0;
  std::vector<uint32_t> turns_;  // by subgroup: its barriers since the last one of the workgroup
  bool awaited_ = false;         // the workgroup, for earlier launches
};

}  // namespace

std::string Interpret(const Profile& profile, std::span<const Launch> launches, const HostMemory& memory) {
  return Machine(profile, memory).RunAll(launches);
}

}  // namespace qcc::gpu
