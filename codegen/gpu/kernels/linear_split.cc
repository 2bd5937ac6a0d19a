// linear of few rows: the threads of a workgroup, or its subgroups' matrix units, share the parts of a unit.
#include <algorithm>
#include <optional>

#include "codegen/gpu/kernels/linear_matrix.h"
#include "codegen/gpu/kernels/linear_matrix_floats.h"
#include "codegen/gpu/kernels/linear_products.h"
#include "codegen/gpu/kernels/sample_math.h"

namespace qcc::gpu {
namespace {

constexpr int kThreads = kLinearThreads, kLanes = kLinearLanes;
// Registers of a thread, from which Launch::at_once follows. Of matrix units: such a launch has at most a few
// workgroups for each multiprocessor. Where more is multiplied than int8 or halves: 128.
constexpr int kMatrixRegisters = 96, kMatrixFloatRegisters = 128;
// Of threads that load words ahead (kWordsAhead): ptxas 13.0 spills where it is not told that they may have
// so many. One row in a workgroup of more than kThreads needs fewer; then the 384 workgroups of gate and up
// of 6144 columns all run at once on the 132 multiprocessors of an H100.
constexpr int kSplitRegisters = 128, kWideRegisters = 80;
// Of more rows in f32.
constexpr int kFloatRegisters = 168;
int AtOnce(int registers, int threads) {
  constexpr int kOfMultiprocessor = 65536;
  return std::max(kOfMultiprocessor / (registers * threads), 1);
}

// Of workgroup memory.
int SplitWords(const LinearSpec& spec, int tile_rows, int threads) {
  return spec.groups_per_unit() * tile_rows * threads;
}

// Units of a workgroup of `threads`.
int UnitsHere(const LinearSpec& spec, int threads) {
  return std::max(threads / kLanes / spec.parts(), 1);
}

// Of workgroup memory, of a launch that leaves UnitKeys: a key of each element.
int KeyWords(const LinearSpec& spec, int tile_rows, int threads) {
  return spec.unit_keys ? kLanes * UnitsHere(spec, threads) * tile_rows : 0;
}

// Whose products they are of a split kernel.
enum class Units : uint8_t { kThreads, kMatrix };

// 16 threads, or a subgroup's matrix units in two turns at once, have a part; the parts of a unit meet in
// workgroup memory. Where a workgroup has threads for some of them only, it comes back for the others.
class SplitKernel {
 public:
  SplitKernel(Builder& b, const LinearSpec& spec, Units units, int tile_rows)
      : b_(b), spec_(spec), of_matrix_(units == Units::kMatrix), tile_rows_(tile_rows) {
    const int words = SplitWords(spec, tile_rows, threads_);
    // Rows that are read again may not be overwritten.
    reuses_ = spec.making != Making::kNothing && spec.int8 && rounds_ == 1;
    if (spec.making != Making::kNothing)
      made_.emplace(b, spec_, args_, tile_rows, reuses_ ? words : 0, of_matrix_);
    partial_ = reuses_ ? *made_->Reusable() : b.AllocShared(Type::kF32, words);
    if (spec.unit_keys) keys_ = b.AllocShared(Type::kI32, KeyWords(spec, tile_rows, threads_));
  }
  void Emit() {
    if (Awaits(spec_)) {
      BeginParts();
      if (b_.profile().overlap) {
        if (!AllBegun()) PrefetchWeights();
        if (args_.norm_weight) PrefetchNorm();
      }
      b_.AwaitEarlier();
    }
    b_.If(LtS(args_.first_row, args_.rows), [&] {
      if (made_) made_->Make();
      if (rounds_ > 1) {
        FinishRounds();
      } else {
        if (of_matrix_) {
          StoreMatrixParts();
        } else {
          StoreParts(slot_, begun_.empty() ? nullptr : &begun_);
        }
        b_.Barrier();
        for (int begin = 0; begin < elements_; begin += threads_) Finish(thread_ + begin);
      }
      if (spec_.unit_keys) LeaveKeys();
    });
  }

  // Which matrix a workgroup has may follow from what earlier launches wrote.
  static bool Awaits(const LinearSpec& spec) { return spec.rows_of == RowsOf::kStep; }

 private:
  // The first words of the thread's part, ahead of the rows that the workgroup waits for or makes: they come
  // meanwhile.
  void BeginParts();
  bool AllBegun() const {
    return begun_.size() == static_cast<size_t>(spec_.chunks_per_part()) * static_cast<size_t>(groups_);
  }
  void PrefetchWeights();
  void PrefetchNorm();
  // Of the parts of `slot` (i32), the thread's in this round.
  void StoreParts(Val slot, const std::vector<LoadedChunk>* begun);
  void StoreMatrixParts();
  void FinishRounds();
  // Sums [turn][group][kLaneSums] of the subgroup's slots.
  std::vector<Val> MatrixParts(Val subgroup, const MatrixInput& x) const;
  // An element of those of the workgroup: lane, unit, row, fastest first.
  struct Element {
    Val number, local, row;
  };
  Element ElementOf(Val number) const;
  // `sums`, of each group, and behind them the parts that lie in workgroup memory.
  std::vector<Val> AddPartials(const Element& element, std::vector<Val> sums);
  void Finish(Val number);
  void Finish(const Element& element, const std::vector<Val>& sums);
  void LeaveKeys();
  // `element`: of the parts' sums.
  void StorePartial(Val element, Val sum) {
    b_.StoreShared(partial_, element, reuses_ ? b_.AsI32(sum) : sum);
  }
  Val LoadPartial(Val element) {
    const Val word = b_.LoadShared(partial_, element);
    return reuses_ ? b_.AsF32(word) : word;
  }
  // Byte offsets of a slot's groups. Threads of a unit beyond the last go along with it, for the barrier.
  std::vector<Val> Groups(Val slot) const;
  Val PartOf(Val slot) const { return units_here_ == 1 ? slot : slot & (parts_ - 1); }

  Builder& b_;
  const LinearSpec& spec_;
  const bool of_matrix_;
  const int tile_rows_;
  const LinearArgs args_{b_, spec_, tile_rows_};
  const int threads_ = spec_.split_threads(b_.profile(), tile_rows_), slots_ = threads_ / kLanes,
            subgroups_ = threads_ / kMatrixSubgroup;
  const int parts_ = spec_.parts(), groups_ = spec_.groups_per_unit();
  // Times that a workgroup goes over its slots, which are all of one unit where it is more than once.
  const int rounds_ = spec_.split_rounds(b_.profile(), tile_rows_), parts_here_ = std::min(parts_, slots_);
  const int units_here_ = UnitsHere(spec_, threads_), elements_ = kLanes * units_here_ * tile_rows_;
  const Val thread_ = b_.Thread(), lane_ = thread_ & (kLanes - 1), slot_ = ShrU(thread_, 4);
  const Val first_unit_ = b_.BlockX() * units_here_;
  std::optional<MadeRows> made_;
  std::vector<LoadedChunk> begun_;
  bool reuses_ = false;  // the parts' sums lie where the rows were made
  Shared partial_, keys_;
};

std::vector<Val> SplitKernel::Groups(Val slot) const {
  const Val unit = units_here_ == 1 ? first_unit_ : MinS(first_unit_ + DivU(slot, parts_), args_.units - 1);
  std::vector<Val> offsets;
  offsets.reserve(static_cast<size_t>(groups_));
  for (int g = 0; g < groups_; ++g) offsets.push_back((unit * groups_ + g) * spec_.group_bytes());
  return offsets;
}

void SplitKernel::BeginParts() {
  if (of_matrix_ || rounds_ > 1 || !IsBlockFormat(spec_.format)) return;
  const int ahead = ChunksAhead(b_.profile(), spec_, static_cast<size_t>(groups_),
                                static_cast<size_t>(tile_rows_), Loading::kTogether);
  if (ahead == 1) return;
  begun_ = LoadChunks(b_, PackedRows(b_, spec_, args_.w, lane_, Groups(slot_)), PartLow(spec_, PartOf(slot_)),
                      ahead);
}

constexpr int kLineBytes = 128;

// The first lines of each part behind what is loaded already, one a thread: what all workgroups that run at a
// time ask for so (2048 on an H100, 16 KiB each) fits its second-level cache of 50 MB.
void SplitKernel::PrefetchWeights() {
  const int64_t chunk_bytes = spec_.group_bytes() / spec_.chunks();
  const Val last = b_.I32(static_cast<int32_t>(spec_.group_bytes() - 4));
  const int64_t begun = static_cast<int64_t>(begun_.size()) / groups_ * chunk_bytes;
  const Val at = MinS(PartLow(spec_, PartOf(slot_)) * chunk_bytes + (lane_ * kLineBytes + begun), last);
  for (const Val& group : Groups(slot_)) b_.Prefetch(args_.w, group + at);
}

// Of the norm that rows are made with: a token's other weights have driven them out of the caches.
void SplitKernel::PrefetchNorm() {
  const int64_t columns = spec_.making == Making::kGatedNormed ? spec_.norm_dim : spec_.k;
  const int lines = static_cast<int>(CeilDiv(4 * columns, int64_t{kLineBytes}));
  for (int first = 0; first < lines; first += threads_)
    b_.Prefetch(args_.norm_weight, MinS(thread_ + first, b_.I32(lines - 1)) * kLineBytes);
}

void SplitKernel::StoreParts(Val slot, const std::vector<LoadedChunk>* begun) {
  const std::vector<Val> offsets = Groups(slot);
  const Val number = PartOf(slot);
  const auto part = [&](const LinearInput& x) {
    return LinearPart(b_, spec_, args_, lane_, offsets, x, PartLow(spec_, number), PartHigh(spec_, number),
                      Loading::kTogether, begun);
  };
  const std::vector<Val> acc =
      made_ ? part(*made_) : part(StoredRows(b_, spec_, args_, Inputs(args_, args_.first_row, tile_rows_)));
  if (reuses_) b_.Barrier();
  for (size_t i = 0; i < acc.size(); ++i) StorePartial(thread_ + i * static_cast<size_t>(threads_), acc[i]);
}

void SplitKernel::FinishRounds() {
  const Element element = ElementOf(MinS(thread_, b_.I32(elements_ - 1)));
  const std::vector<Val> zero(static_cast<size_t>(groups_), b_.F32(0.f));
  const std::vector<Val> sums =
      b_.For(b_.I32(0), b_.I32(rounds_), b_.I32(1), zero, [&](Val round, const std::vector<Val>& carried) {
        StoreParts(slot_ + round * slots_, nullptr);
        b_.Barrier();
        std::vector<Val> added = AddPartials(element, carried);
        b_.Barrier();
        return added;
      });
  b_.If(LtS(thread_, b_.I32(elements_)), [&] { Finish(element, sums); });
}

// A subgroup has slot number `subgroup` and the one subgroups_ behind it, side by side: more loads are on
// their way at a time.
std::vector<Val> SplitKernel::MatrixParts(Val subgroup, const MatrixInput& x) const {
  const auto sums = [&](const std::vector<Val>& groups, Val slot, const std::vector<int64_t>& runs) {
    const Val part = PartOf(slot);
    return MatrixPart(b_, spec_, args_.w, groups, x, PartLow(spec_, part), PartHigh(spec_, part), runs);
  };
  std::vector<Val> groups = Groups(subgroup);
  const Val second = subgroup + subgroups_;
  // Four groups of floats are more than registers hold.
  const bool at_once = spec_.int8 || groups_ == 1;
  if (at_once && parts_ <= subgroups_) {  // the same part of another unit
    for (const Val& group : Groups(second)) groups.push_back(group);
    return sums(groups, subgroup, {0});
  }
  if (at_once && spec_.chunks() % parts_ == 0)
    return sums(groups, subgroup, {0, subgroups_ * spec_.chunks_per_part()});
  // One behind the other: also parts of two lengths.
  std::vector<Val> all = sums(groups, subgroup, {0});
  for (const Val& sum : sums(Groups(second), second, {0})) all.push_back(sum);
  return all;
}

void SplitKernel::StoreMatrixParts() {
  const MatrixLane lane(b_);
  const Val subgroup = ShrU(thread_, 5);
  const auto parts = [&](const MatrixInput& x) { return MatrixParts(subgroup, x); };
  const std::vector<Val> sums = made_ ? parts(MadeFragment(b_, spec_, *made_))
                                      : parts(StoredFragments(b_, spec_, args_, args_.first_row, 1));
  if (reuses_) b_.Barrier();
  // Rows that only fill the fragment are nobody's.
  b_.If(LtS(lane.quad * 2, b_.I32(tile_rows_)), [&] {
    for (int n = 0; n < static_cast<int>(sums.size()); ++n) {
      const int sum = n % kLaneSums;
      if (tile_rows_ == 1 && sum % 2 != 0) continue;
      const int group = n / kLaneSums % groups_, turn = n / kLaneSums / groups_;
      const Val row = lane.SumRow(0, sum) + group * tile_rows_;
      const Val column = SumColumn(spec_, lane, sum >> 1);
      StorePartial(row * threads_ + (subgroup + subgroups_ * turn) * kLanes + column,
                   sums[static_cast<size_t>(n)]);
    }
  });
}

SplitKernel::Element SplitKernel::ElementOf(Val number) const {
  const Val at = DivU(number, kLanes);
  return {number, RemU(at, units_here_), DivU(at, units_here_)};
}

std::vector<Val> SplitKernel::AddPartials(const Element& element, std::vector<Val> sums) {
  for (int g = 0; g < groups_; ++g) {
    const Val from =
        (element.row + g * tile_rows_) * threads_ + element.local * (parts_here_ * kLanes) + lane_;
    Val& sum = sums[static_cast<size_t>(g)];
    for (int p = 0; p < parts_here_; ++p) sum = sum + LoadPartial(from + p * kLanes);
  }
  return sums;
}

void SplitKernel::Finish(Val number) {
  const Element element = ElementOf(number);
  const auto finish = [&] {
    Finish(element, AddPartials(element, std::vector<Val>(static_cast<size_t>(groups_), b_.F32(0.f))));
  };
  if (elements_ % threads_ == 0) return finish();
  b_.If(LtS(number, b_.I32(elements_)), finish);
}

void SplitKernel::Finish(const Element& element, const std::vector<Val>& sums) {
  const Val out_unit = first_unit_ + element.local, out_row = args_.first_row + element.row;
  b_.If(And(LtS(out_unit, args_.units), LtS(out_row, args_.rows)), [&] {
    const Val y = StoreLinear(b_, spec_, args_, args_.Output(out_row), (out_unit * kLanes + lane_) * 4, sums);
    if (spec_.unit_keys) b_.StoreShared(keys_, element.number, KeyOfLogit(b_.AsI32(y)));
  });
}

// A thread has a unit of a row.
void SplitKernel::LeaveKeys() {
  b_.Barrier();
  const int count = elements_ / kLanes;
  b_.For(thread_, b_.I32(count), b_.I32(threads_), [&](Val at) {
    const Val unit = first_unit_ + RemU(at, units_here_), row = args_.first_row + DivU(at, units_here_);
    b_.If(And(LtS(unit, args_.units), LtS(row, args_.rows)), [&] {
      const Val bits = spec_.some ? ChoosableBits(args_.choosable, unit * kLanes, kLanes) : Val();
      KeyRange range = NoKeys(b_);
      for (int i = 0; i < kLanes; ++i) {
        const Val key = b_.LoadShared(keys_, at * kLanes + i);
        range = bits ? WithIf(Ne(bits & (1 << i), b_.I32(0)), range, key) : With(range, key);
      }
      const Val to = args_.unit_keys + b_.ExtendU(row) * b_.ExtendU(UnitKeysRow(args_.units));
      b_.Store(to, unit << 3, b_.Vector({range.highest, range.lowest}));
    });
  });
}

// registers: of a thread; 0: ptxas decides.
Launch SplitLaunch(const LinearSpec& spec, const Profile& profile, Units of, int tile_rows, int registers,
                   int64_t units, int64_t rows) {
  const int threads = spec.split_threads(profile, tile_rows);
  // Matrix units make no parts in turns: no launch, which nothing records.
  if (of == Units::kMatrix && spec.split_rounds(profile, tile_rows) > 1) return {};
  Launch launch;
  launch.name = spec.name() + (of == Units::kMatrix ? ".mr" : ".r") + std::to_string(tile_rows);
  launch.emit = [spec, of, tile_rows](Builder& b) { SplitKernel(b, spec, of, tile_rows).Emit(); };
  launch.awaits = SplitKernel::Awaits(spec);
  launch.workgroup_size = threads;
  if (registers != 0) launch.at_once = AtOnce(registers, threads);
  launch.beside = true;
  launch.shared_bytes = 4 * (SplitWords(spec, tile_rows, threads) + KeyWords(spec, tile_rows, threads) +
                             LinearArgs::SharedWords(spec));
  launch.grid[0] = static_cast<uint32_t>(CeilDiv(units, UnitsHere(spec, threads)));
  launch.grid[1] = static_cast<uint32_t>(spec.row_tiles(rows, tile_rows));
  return launch;
}

}  // namespace

Launch LinearSplit(const LinearSpec& spec, const Profile& profile, int tile_rows, int64_t units,
                   int64_t rows) {
  const bool wide = tile_rows == 1 && spec.split_threads(profile, tile_rows) > kThreads;
  const int registers = wide                          ? kWideRegisters
                        : tile_rows <= kMostRowsAhead ? kSplitRegisters
                        : spec.int8                   ? 0
                                                      : kFloatRegisters;
  return SplitLaunch(spec, profile, Units::kThreads, tile_rows, registers, units, rows);
}

Launch LinearMatrixFew(const LinearSpec& spec, const Profile& profile, int tile_rows, int64_t units,
                       int64_t rows) {
  const bool small = spec.int8 || (TakesHalves(spec.format) && spec.making == Making::kNothing);
  return SplitLaunch(spec, profile, Units::kMatrix, tile_rows,
                     small ? kMatrixRegisters : kMatrixFloatRegisters, units, rows);
}

}  // namespace qcc::gpu
