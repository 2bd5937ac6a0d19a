#include "codegen/gpu/kernels/together.h"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "codegen/gpu/kernels/builder_view.h"

namespace qcc::gpu {
namespace {

// A launch as part of a joined one.
struct Part {
  std::array<uint32_t, 3> grid = {};  // its own
  uint32_t begin = 0, end = 0;  // its workgroups, in the dimension in which the launches lie side by side
  std::vector<Arg> own;         // its arguments
  std::vector<int> numbers;     // which of the joined launch's each is; -1 for a number

  uint32_t columns() const { return grid[0]; }
  uint32_t rows() const { return grid[1]; }
};

// Parts of one name.
struct Code {
  std::string name;
  std::function<void(Builder&)> emit;
  bool awaits = false;
  int shared_bytes = 0;
  std::vector<Part> parts;
};

struct Joined {
  int dimension = 0;
  // Grids differ in more than that one, which is the first: all of a launch's workgroups lie in it, row by
  // row.
  bool flat = false;
  std::vector<Code> codes;
  std::vector<Arg> args;

  // Of workgroup memory: a workgroup runs one of the codes.
  int shared_bytes() const {
    int most = 0;
    for (const Code& code : codes) most = std::max(most, code.shared_bytes);
    return most;
  }
};

bool Same(const Arg& a, const Arg& b) {
  return a.space == b.space && a.value == b.value && a.bytes == b.bytes && a.wide == b.wide;
}

// The dimension in which grids differ; none where they differ in two.
std::optional<int> DimensionOf(const std::vector<Launch>& launches) {
  std::optional<int> dimension;
  for (const Launch& launch : launches) {
    for (int i = 0; i < 3; ++i) {
      if (launch.grid[i] == launches.front().grid[i] || dimension == i) continue;
      if (dimension) return std::nullopt;
      dimension = i;
    }
  }
  return dimension.value_or(0);
}

uint64_t Workgroups(const std::array<uint32_t, 3>& grid) {
  return uint64_t{grid[0]} * grid[1] * grid[2];
}

std::vector<int> NumberArgs(const std::vector<Arg>& own, std::vector<Arg>& all) {
  std::vector<int> numbers;
  for (const Arg& arg : own) {
    if (arg.space == Space::kImmediate) {
      numbers.push_back(-1);
      continue;
    }
    const auto found = std::find_if(all.begin(), all.end(), [&](const Arg& a) { return Same(a, arg); });
    numbers.push_back(static_cast<int>(found - all.begin()));
    if (found == all.end()) all.push_back(arg);
  }
  return numbers;
}

// Nothing where there are more workgroups than can be counted.
std::optional<Joined> Join(const std::vector<Launch>& launches) {
  const std::optional<int> dimension = DimensionOf(launches);
  Joined joined;
  joined.dimension = dimension.value_or(0);
  joined.flat = !dimension;
  for (const Launch& launch : launches) {
    const auto known = std::find_if(joined.codes.begin(), joined.codes.end(),
                                    [&](const Code& code) { return code.name == launch.name; });
    Code& code = known == joined.codes.end()
                     ? joined.codes.emplace_back(
                           Code{launch.name, launch.emit, launch.awaits, launch.shared_bytes, {}})
                     : *known;
    code.parts.push_back({.grid = std::to_array(launch.grid), .own = launch.args, .numbers = {}});
  }
  uint64_t end = 0;
  for (Code& code : joined.codes) {
    for (Part& part : code.parts) {
      part.begin = static_cast<uint32_t>(end);
      end += joined.flat ? Workgroups(part.grid) : part.grid[static_cast<size_t>(joined.dimension)];
      if (end > INT32_MAX) return std::nullopt;
      part.end = static_cast<uint32_t>(end);
      part.numbers = NumberArgs(part.own, joined.args);
    }
  }
  return joined;
}

std::array<uint64_t, 3> GridOf(const Joined& joined) {
  const Part& last = joined.codes.back().parts.back();
  if (joined.flat) return {last.end, 1, 1};
  std::array<uint64_t, 3> grid = {last.grid[0], last.grid[1], last.grid[2]};
  grid[static_cast<size_t>(joined.dimension)] = last.end;
  return grid;
}

Val PlaceIn(Builder& b, int dimension) {
  return dimension == 0 ? b.BlockX() : dimension == 1 ? b.BlockY() : b.BlockZ();
}
Val EndOf(Builder& b, const Part& part) {
  return b.I32(static_cast<int32_t>(part.end));
}

// What a launch's kernel sees of the joined one: its own place and arguments, and all of `memory`, of which
// its arrays are runs of words, one behind the other: where one code has floats, another may have integers.
class PartView final : public BuilderView {
 public:
  PartView(Builder& b, const Joined& joined, const std::vector<Part>& parts, const Shared& memory)
      : BuilderView(b), b_(b), parts_(parts), memory_(memory), block_{b.BlockX(), b.BlockY(), b.BlockZ()} {
    Val& at = block_[static_cast<size_t>(joined.dimension)];
    for (size_t i = 0; i + 1 < parts_.size(); ++i) before_.push_back(LtS(at, EndOf(b_, parts_[i])));
    at = at - NumberOf(&Part::begin);
    if (!joined.flat) return;
    const Val columns = NumberOf(&Part::columns), rows = NumberOf(&Part::rows);
    const Val row = b_.Binary(Op::kDivU, at, columns);
    block_ = {b_.Binary(Op::kRemU, at, columns), b_.Binary(Op::kRemU, row, rows),
              b_.Binary(Op::kDivU, row, rows)};
  }

  Val Arg(int index) override {
    const auto i = static_cast<size_t>(index);
    return Choose(
        [&](const Part& part) {
          if (part.numbers[i] >= 0) return b_.Arg(part.numbers[i]);
          return b_.I64(static_cast<int64_t>(part.own[i].value));
        },
        [&](const Part& a, const Part& b) { return Same(a.own[i], b.own[i]); });
  }
  Val BlockX() override { return block_[0]; }
  Val BlockY() override { return block_[1]; }
  Val BlockZ() override { return block_[2]; }

  Shared AllocShared(Type type, int words) override {
    // A launch that has more than it says (Launch::shared_bytes) gets the rest for itself.
    const bool fits = used_ + words <= memory_.words;
    arrays_.push_back(fits ? Array{memory_, used_} : Array{b_.AllocShared(Type::kI32, words), 0});
    if (fits) used_ += words;
    return {static_cast<int>(arrays_.size()) - 1, type, words};
  }
  Val LoadShared(const Shared& shared, Val index) override {
    const Array& array = Of(shared);
    const Val bits = b_.LoadShared(array.memory, index + array.begin);
    return shared.type == Type::kF32 ? b_.AsF32(bits) : bits;
  }
  void StoreShared(const Shared& shared, Val index, Val value) override {
    const Array& array = Of(shared);
    b_.StoreShared(array.memory, index + array.begin, shared.type == Type::kF32 ? b_.AsI32(value) : value);
  }
  Val AtomicAddShared(const Shared& shared, Val index, Val value) override {
    const Array& array = Of(shared);
    return b_.AtomicAddShared(array.memory, index + array.begin, value);
  }
  Val AtomicMaxSharedU(const Shared& shared, Val index, Val value) override {
    const Array& array = Of(shared);
    return b_.AtomicMaxSharedU(array.memory, index + array.begin, value);
  }
  void DotTile(const SharedRows& a, int a_rows, const SharedRows& b, int b_rows, int columns,
               const SharedRows& d) override {
    const auto rows = [&](const SharedRows& of) {
      const Array& array = Of(of.memory);
      return SharedRows{array.memory, of.at + array.begin, of.stride};
    };
    b_.DotTile(rows(a), a_rows, rows(b), b_rows, columns, rows(d));
  }

 private:
  // What belongs to the part that the workgroup has.
  template <typename Value, typename Equal>
  Val Choose(Value value, Equal equal) {
    const bool one = std::all_of(parts_.begin(), parts_.end(),
                                 [&](const Part& part) { return equal(part, parts_.back()); });
    Val chosen = value(parts_.back());
    for (size_t i = parts_.size() - 1; !one && i-- > 0;) {
      chosen = b_.Select(before_[i], value(parts_[i]), chosen);
    }
    return chosen;
  }

  // A number of the part that the workgroup has.
  template <typename Of>
  Val NumberOf(Of of) {
    return Choose([&](const Part& part) { return b_.I32(static_cast<int32_t>(std::invoke(of, part))); },
                  [&](const Part& a, const Part& b) { return std::invoke(of, a) == std::invoke(of, b); });
  }

  struct Array {
    Shared memory;
    int begin;  // its first word there
  };
  const Array& Of(const Shared& shared) const { return arrays_[static_cast<size_t>(shared.id)]; }

  Builder& b_;
  const std::vector<Part>& parts_;
  const Shared memory_;
  std::vector<Array> arrays_;
  int used_ = 0;             // words of memory_
  std::vector<Val> before_;  // whether the workgroup lies before the end of part i; not of the last
  std::array<Val, 3> block_;
};

// Its workgroups are told from those of other codes by their place.
void EmitCode(Builder& b, const Joined& joined, const Code& code, const Shared& memory) {
  const auto emit = [&] {
    PartView view(b, joined, code.parts, memory);
    if (!code.awaits) view.AwaitEarlier();
    code.emit(view);
  };
  const bool first = &code == &joined.codes.front(), last = &code == &joined.codes.back();
  if (first && last) return emit();
  const Val at = PlaceIn(b, joined.dimension);
  const Val begin = b.I32(static_cast<int32_t>(code.parts.front().begin)), end = EndOf(b, code.parts.back());
  if (first) return b.If(LtS(at, end), emit);
  if (last) return b.If(LeS(begin, at), emit);
  b.If(And(LeS(begin, at), LtS(at, end)), emit);
}

// Says all that the joined code depends on: of each part where it ends, which arguments it has, and its
// numbers:
// "linear.q4_k.int8.k512.store.r1+linear.f32.k512.store.r1@x:3.0.1.2.3#6#384,4.0.1.4.5#2#128:5.6.1.7.8#2#80".
std::string NameOf(const Joined& joined) {
  std::string names, places;
  for (const Code& code : joined.codes) {
    names += (names.empty() ? "" : "+") + code.name;
    for (const Part& part : code.parts) {
      places += (&part == &code.parts.front() ? ":" : ",") + std::to_string(part.end);
      if (joined.flat) places += "/" + std::to_string(part.grid[0]) + "/" + std::to_string(part.grid[1]);
      for (size_t i = 0; i < part.own.size(); ++i) {
        places += part.numbers[i] >= 0 ? "." + std::to_string(part.numbers[i])
                                       : "#" + std::to_string(part.own[i].value);
      }
    }
  }
  return names + "@" + "xyz"[joined.dimension] + places;
}

}  // namespace

bool GoTogether(const std::vector<Launch>& launches, const Launch& next, const TogetherLimits& limits) {
  if (!next.beside || !launches.front().beside || next.workgroup_size != launches.front().workgroup_size) {
    return false;
  }
  std::vector<Launch> all = launches;
  all.push_back(next);
  const std::optional<Joined> joined = Join(all);
  if (!joined || joined->args.size() > limits.args) return false;
  const std::array<uint64_t, 3> grid = GridOf(*joined);
  for (size_t i = 0; i < grid.size(); ++i) {
    if (grid[i] > limits.grid[i]) return false;
  }
  return joined->shared_bytes() <= limits.shared_bytes;
}

Launch Together(const std::vector<Launch>& launches) {
  if (launches.size() == 1) return launches.front();
  Joined joined = *Join(launches);
  Launch launch = launches.front();
  launch.name = NameOf(joined);
  launch.awaits = true;
  launch.shared_bytes = joined.shared_bytes();
  launch.args = joined.args;
  const std::array<uint64_t, 3> grid = GridOf(joined);
  for (size_t i = 0; i < grid.size(); ++i) launch.grid[i] = static_cast<uint32_t>(grid[i]);
  for (size_t i = 1; i < launches.size(); ++i) {
    launch.at_once = std::min(launch.at_once, launches[i].at_once);  // 0: one of them has no bound
    launch.read_bytes += launches[i].read_bytes;
    launch.write_bytes += launches[i].write_bytes;
    launch.kv_bytes += launches[i].kv_bytes;
    launch.ops += launches[i].ops;
  }
  launch.emit = [joined = std::move(joined)](Builder& b) {
    const int words = joined.shared_bytes() / 4;
    const Shared memory = words > 0 ? b.AllocShared(Type::kI32, words) : Shared();
    for (const Code& code : joined.codes) EmitCode(b, joined, code, memory);
  };
  return launch;
}

}  // namespace qcc::gpu
