// The linear kernels themselves.
#include <algorithm>

#include <optional>

#include "codegen/gpu/kernels/linear_matrix.h"
#include "codegen/gpu/kernels/linear_matrix_floats.h"
#include "codegen/gpu/kernels/sample_math.h"

namespace qcc::gpu {
namespace {

constexpr int kThreads = kLinearThreads;
constexpr int kLanes = 16;                 // threads side by side, one matrix row each
constexpr int kSlots = kThreads / kLanes;  // of a workgroup of kThreads
// Registers of a thread, from which Launch::at_once follows. Of matrix units: such a launch has at most a few
// workgroups for each multiprocessor. Where more is multiplied than int8 or halves: 128.
constexpr int kMatrixRegisters = 96, kMatrixFloatRegisters = 128;
// Of threads that load words ahead (kWordsAhead): ptxas 13.0 spills where it is not told that they may have
// so many. One row in a workgroup of more than kThreads needs fewer; then the 384 workgroups of gate and up
// of 6144 columns all run at once on the 132 multiprocessors of an H100.
constexpr int kSplitRegisters = 128, kWideRegisters = 80;
int AtOnce(int registers, int threads) {
  constexpr int kOfMultiprocessor = 65536;
  return std::max(kOfMultiprocessor / (registers * threads), 1);
}

// acc + the product of 32 columns: integer dot products per scale, exact, then scales in f32.
Val Int8Product(Builder& b, const PackedRow& row, const std::vector<Val>& codes,
                const PackedRow::Scales& scales, const Int8Chunk& x, Val acc) {
  const int offset = row.code_offset();
  const bool two = row.two_scales();
  const Val both = x.sums[0] + x.sums[1];
  for (int s = 0; s < (two ? 2 : 1); ++s) {
    Val dot = offset ? (two ? x.sums[s] : both) * -offset : b.I32(0);
    for (int t = two ? 4 * s : 0; t < (two ? 4 * s + 4 : 8); ++t) dot = b.Dot4(codes[t], x.codes[t], dot);
    Val product = b.ToF32(dot);
    if (scales.rest[s]) product = product * scales.rest[s];
    acc = Fma(scales.scale[s] * x.scale, product, acc);
  }
  if (!scales.shift[0]) return acc;
  if (!two) return Fma(scales.shift[0], x.scale * b.ToF32(both), acc);
  for (int s = 0; s < 2; ++s) acc = Fma(scales.shift[s], x.scale * b.ToF32(x.sums[s]), acc);
  return acc;
}

std::vector<PackedRow> Rows(Builder& b, const LinearSpec& spec, Val w, Val lane,
                            const std::vector<Val>& groups) {
  std::vector<PackedRow> rows;
  for (Val group : groups) rows.emplace_back(b, spec.format, spec.k, w, group, lane);
  return rows;
}

// What a chunk of one row of a matrix is read from.
struct LoadedChunk {
  std::vector<Val> codes;
  PackedRow::ScaleWords scales;
};

// [chunk][row], of `count` chunks from `first` on.
std::vector<LoadedChunk> LoadChunks(Builder& b, const std::vector<PackedRow>& rows, Val first, int count) {
  std::vector<LoadedChunk> loaded;
  for (int i = 0; i < count; ++i) {
    for (const PackedRow& row : rows) {
      const PackedRow::Chunk at = row.At(first + i);
      loaded.push_back({row.LoadCodes(at), row.LoadScales(at)});
    }
  }
  if (count > 1) b.BeginLoads();
  return loaded;
}

// In decode a multiprocessor has a few subgroups, which hide no latency for one another, so what counts is
// how often a thread waits for memory. Left to itself, ptxas puts each load next to its use: two waits in a
// chunk. So a thread loads the words of several chunks before it uses the first; of Q4_K and 3584 columns,
// whose parts have 14 chunks, it waits three times. As many words at most as leave it within 128 registers.
// Drivers of Vulkan keep loads where code has them: Mesa's compiler for AMD's chips waited in every chunk.
constexpr int kWordsAhead = 40, kMostChunksAhead = 5, kMostLongChunks = 2, kMostRowsAhead = 2;
// Of two groups by a thread that has kWideRegisters.
constexpr int kWordsAheadOfWide = 20;
// Words of four columns of f32 rows that are loaded before the first is used.
constexpr int kQuadsAhead = 8;
bool LoadsTogether(const Profile& profile, const LinearSpec& spec, Loading loading) {
  return profile.loads_ahead != LoadsAhead::kNever && loading == Loading::kTogether &&
         spec.chunks() % spec.parts() == 0;
}
// As many as make batches of a part even.
int ChunksAhead(const Profile& profile, const LinearSpec& spec, size_t groups, size_t rows, Loading loading) {
  if (!LoadsTogether(profile, spec, loading) || rows > kMostRowsAhead) return 1;
  const int64_t words =
      CeilDiv(spec.group_bytes(), spec.chunks() * kLanes * 4) * static_cast<int64_t>(groups);
  // A chunk whose products are f32, or whose values are looked up, is as much code as several others.
  const bool much = !spec.int8 || LooksUp(description(spec.format).plain);
  const int64_t code = profile.loads_ahead == LoadsAhead::kLittleCode && much
                           ? kMostLongChunks / static_cast<int64_t>(groups)
                           : kMostChunksAhead;
  const bool wide = groups == 2 && rows == 1 && spec.split_threads(profile, 1) > kThreads;
  const int64_t most =
      std::clamp<int64_t>((wide ? kWordsAheadOfWide : kWordsAhead) / words, 1, std::max<int64_t>(code, 1));
  const int64_t chunks = spec.chunks_per_part();
  return static_cast<int>(CeilDiv(chunks, CeilDiv(chunks, most)));
}

// Carries sums over the chunks [low, high) of a part; `step` adds `loaded`, which begin with chunk `first`.
// With more than one ahead, parts are equal (ChunksAhead). `begun`: the first ones, if they are loaded
// already.
using Step = std::function<std::vector<Val>(Val first, const std::vector<LoadedChunk>& loaded,
                                            const std::vector<Val>& carried)>;
std::vector<Val> OverChunks(Builder& b, const LinearSpec& spec, const std::vector<PackedRow>& rows, Val low,
                            Val high, int ahead, const std::vector<LoadedChunk>* begun, std::vector<Val> sums,
                            const Step& step) {
  const auto add = [&](Val first, int count, const std::vector<Val>& carried) {
    return step(first, LoadChunks(b, rows, first, count), carried);
  };
  const int64_t part = spec.chunks_per_part();
  const int left = static_cast<int>(part % ahead);
  if (begun) sums = step(low, *begun, sums);
  if (!begun || part >= 2 * int64_t{ahead}) {
    sums = b.For(begun ? low + ahead : low, left ? high - left : high, b.I32(ahead), sums,
                 [&](Val chunk, const std::vector<Val>& carried) { return add(chunk, ahead, carried); });
  }
  return left ? add(high - left, left, sums) : sums;
}

std::vector<Val> Int8Part(Builder& b, const LinearSpec& spec, const LinearArgs& args, Val lane,
                          const std::vector<Val>& groups, const LinearInput& x, Val low, Val high,
                          Loading loading, const std::vector<LoadedChunk>* begun) {
  const std::vector<PackedRow> rows = Rows(b, spec, args.w, lane, groups);
  const size_t m_count = x.rows();
  const std::vector<Val> zero(groups.size() * m_count, b.F32(0.f));
  const auto step = [&](Val first, const std::vector<LoadedChunk>& loaded, const std::vector<Val>& carried) {
    std::vector<Val> acc = carried;
    for (int i = 0; i < static_cast<int>(loaded.size() / rows.size()); ++i) {
      std::vector<std::vector<Val>> codes;
      std::vector<PackedRow::Scales> scales;
      for (size_t g = 0; g < rows.size(); ++g) {
        const LoadedChunk& of = loaded[static_cast<size_t>(i) * rows.size() + g];
        codes.push_back(rows[g].ReadCodes(of.codes));
        scales.push_back(rows[g].ReadScales(of.scales));
      }
      for (size_t m = 0; m < m_count; ++m) {
        for (int t = 0; t < spec.terms; ++t) {
          const Int8Chunk of_x = x.Chunk(m, first + (i + t * spec.chunks()));
          for (size_t g = 0; g < rows.size(); ++g) {
            Val& a = acc[g * m_count + m];
            a = Int8Product(b, rows[g], codes[g], scales[g], of_x, a);
          }
        }
      }
    }
    return acc;
  };
  return OverChunks(b, spec, rows, low, high, ChunksAhead(b.profile(), spec, groups.size(), m_count, loading),
                    begun, zero, step);
}

std::vector<Val> F32Part(Builder& b, const LinearSpec& spec, const LinearArgs& args, Val lane,
                         const std::vector<Val>& groups, const LinearInput& x, Val low, Val high,
                         Loading loading, const std::vector<LoadedChunk>* begun) {
  const std::vector<PackedRow> rows = Rows(b, spec, args.w, lane, groups);
  const size_t m_count = x.rows(), n = groups.size() * m_count;
  // Even columns, then odd ones.
  const std::vector<Val> zero(2 * n, b.F32(0.f));
  const bool together = LoadsTogether(b.profile(), spec, loading);
  // Adds the products of `words` words of four columns from byte `from` of x on.
  const auto add = [&](const std::vector<std::vector<Val>>& values, Val from, int words,
                       std::vector<Val>& acc) {
    const int at_once = std::clamp(kQuadsAhead / static_cast<int>(m_count), 1, words);
    for (int begin = 0; begin < words; begin += at_once) {
      const int end = std::min(begin + at_once, words);
      std::vector<LinearInput::Quad> quads;  // [word][row]
      for (int t = begin; t < end; ++t)
        for (size_t m = 0; m < m_count; ++m) quads.push_back(x.LoadQuad(m, from, t));
      if (together) b.BeginLoads();
      for (size_t q = 0; q < quads.size(); ++q) {
        const size_t t = static_cast<size_t>(begin) + q / m_count, m = q % m_count;
        const std::vector<Val> quad = quads[q]();
        for (size_t c = 0; c < 4; ++c) {
          for (size_t g = 0; g < rows.size(); ++g) {
            Val& a = acc[(c & 1) * n + g * m_count + m];
            a = Fma(values[g][4 * t + c], quad[c], a);
          }
        }
      }
    }
  };
  constexpr int kWords = kChunkColumns / 4, kPlainWords = kWords / 2;
  // Plain formats have no scales to share: half of a chunk, which keeps the kernel small.
  const auto half_chunk = [&](Val i, const std::vector<Val>& carried) {
    std::vector<Val> acc = carried;
    const Val chunk = DivU(i, 2), first = RemU(i, 2) * kPlainWords;
    std::vector<std::vector<Val>> values(rows.size());
    for (size_t g = 0; g < rows.size(); ++g) {
      const PackedRow::Chunk at = rows[g].At(chunk);
      for (int t = 0; t < kPlainWords; ++t)
        for (Val v : rows[g].ReadValues(at, first + t)) values[g].push_back(v);
    }
    add(values, i * (16 * kPlainWords), kPlainWords, acc);
    return acc;
  };
  const auto chunks = [&](Val first, const std::vector<LoadedChunk>& loaded,
                          const std::vector<Val>& carried) {
    std::vector<Val> acc = carried;
    for (int i = 0; i < static_cast<int>(loaded.size() / rows.size()); ++i) {
      std::vector<std::vector<Val>> values;
      for (size_t g = 0; g < rows.size(); ++g) {
        const LoadedChunk& of = loaded[static_cast<size_t>(i) * rows.size() + g];
        values.push_back(rows[g].ReadValues(of.codes, of.scales));
      }
      add(values, (first + i) * (16 * kWords), kWords, acc);
    }
    return acc;
  };
  const std::vector<Val> sums =
      IsBlockFormat(spec.format)
          ? OverChunks(b, spec, rows, low, high,
                       ChunksAhead(b.profile(), spec, groups.size(), m_count, loading), begun, zero, chunks)
          : b.For(low * 2, high * 2, b.I32(1), zero, half_chunk);
  std::vector<Val> result;
  for (size_t i = 0; i < n; ++i) result.push_back(sums[i] + sums[n + i]);
  return result;
}

// LinearPart, of whose chunks the first are loaded already.
std::vector<Val> Part(Builder& b, const LinearSpec& spec, const LinearArgs& args, Val lane,
                      const std::vector<Val>& groups, const LinearInput& x, Val low, Val high,
                      Loading loading, const std::vector<LoadedChunk>* begun) {
  return (spec.int8 ? Int8Part : F32Part)(b, spec, args, lane, groups, x, low, high, loading, begun);
}

// `count` rows from `first` on.
std::vector<XRow> Inputs(const LinearArgs& args, Val first, int count) {
  std::vector<XRow> inputs;
  for (int m = 0; m < count; ++m) inputs.push_back(args.Input(first + m));
  return inputs;
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
  for (int g = 0; g < groups_; ++g) offsets.push_back((unit * groups_ + g) * spec_.group_bytes());
  return offsets;
}

void SplitKernel::BeginParts() {
  if (of_matrix_ || rounds_ > 1 || !IsBlockFormat(spec_.format)) return;
  const int ahead = ChunksAhead(b_.profile(), spec_, static_cast<size_t>(groups_),
                                static_cast<size_t>(tile_rows_), Loading::kTogether);
  if (ahead == 1) return;
  begun_ =
      LoadChunks(b_, Rows(b_, spec_, args_.w, lane_, Groups(slot_)), PartLow(spec_, PartOf(slot_)), ahead);
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
    return Part(b_, spec_, args_, lane_, offsets, x, PartLow(spec_, number), PartHigh(spec_, number),
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

void EmitTiled(Builder& b, const LinearSpec& spec, int tile_rows, int row_tiles) {
  const LinearArgs args(b, spec, tile_rows * row_tiles);
  const bool swiglu = spec.epilogue == Epilogue::Swiglu;
  const int units_each = swiglu ? 1 : 2, pairs = kSlots / row_tiles;
  const Val thread = b.Thread(), lane = thread & (kLanes - 1), slot = ShrU(thread, 4);
  // Neighbouring slots share their rows: a subgroup of 32 reads one place of x.
  const Val first_unit = (b.BlockX() * pairs + (slot & (pairs - 1))) * units_each;
  const Val first_row = args.first_row + DivU(slot, pairs) * tile_rows;
  b.If(And(LtS(first_row, args.rows), LtS(first_unit, args.units)), [&] {
    std::vector<Val> offsets;
    for (int g = 0; g < 2; ++g) {
      const Val group = swiglu ? first_unit * 2 + g : MinS(first_unit + g, args.units - 1);
      offsets.push_back(group * spec.group_bytes());
    }
    const StoredRows x(b, spec, args, Inputs(args, first_row, tile_rows));
    const std::vector<Val> sums =
        SumParts(b, spec, size_t{2} * static_cast<size_t>(tile_rows), [&](Val low, Val high) {
          return LinearPart(b, spec, args, lane, offsets, x, low, high, Loading::kAlone);
        });
    for (int m = 0; m < tile_rows; ++m) {
      b.If(LtS(first_row + m, args.rows), [&] {
        const YRow row = args.Output(first_row + m);
        const Val column = (first_unit * kLanes + lane) * 4;
        if (swiglu) {
          StoreLinear(b, spec, args, row, column, {sums[m], sums[tile_rows + m]});
          return;
        }
        StoreLinear(b, spec, args, row, column, {sums[m]});
        b.If(LtS(first_unit + 1, args.units),
             [&] { StoreLinear(b, spec, args, row, column + 4 * kLanes, {sums[tile_rows + m]}); });
      });
    }
  });
}

}  // namespace

std::vector<Val> LinearPart(Builder& b, const LinearSpec& spec, const LinearArgs& args, Val lane,
                            const std::vector<Val>& groups, const LinearInput& x, Val low, Val high,
                            Loading loading) {
  return Part(b, spec, args, lane, groups, x, low, high, loading, nullptr);
}

Launch LinearSplit(const LinearSpec& spec, const Profile& profile, int tile_rows, int64_t units,
                   int64_t rows) {
  const bool wide = tile_rows == 1 && spec.split_threads(profile, tile_rows) > kThreads;
  const int registers = wide ? kWideRegisters : tile_rows <= kMostRowsAhead ? kSplitRegisters : 0;
  return SplitLaunch(spec, profile, Units::kThreads, tile_rows, registers, units, rows);
}

Launch LinearMatrixFew(const LinearSpec& spec, const Profile& profile, int tile_rows, int64_t units,
                       int64_t rows) {
  const bool small = spec.int8 || (TakesHalves(spec.format) && spec.making == Making::kNothing);
  return SplitLaunch(spec, profile, Units::kMatrix, tile_rows,
                     small ? kMatrixRegisters : kMatrixFloatRegisters, units, rows);
}

Launch LinearTiled(const LinearSpec& spec, int tile_rows, int64_t units, int64_t rows) {
  int row_tiles = 1;
  while (row_tiles < 4 && row_tiles * tile_rows < spec.rows_together(rows)) row_tiles *= 2;
  const int units_each = spec.epilogue == Epilogue::Swiglu ? 1 : 2;
  Launch launch;
  launch.name = spec.name() + ".t" + std::to_string(tile_rows) + "x" + std::to_string(row_tiles);
  // As TiledAtOnce (linear_matrix.cc): of experts, what has minima and two matrices. 168 registers.
  const bool minima = spec.int8 && SumsOf(spec.format) != Sums::kNone;
  if (spec.rows_of == RowsOf::kExpert && minima && units_each == 1) launch.at_once = 3;
  launch.emit = [spec, tile_rows, row_tiles](Builder& b) { EmitTiled(b, spec, tile_rows, row_tiles); };
  launch.workgroup_size = kThreads;
  launch.beside = true;
  launch.shared_bytes = 4 * LinearArgs::SharedWords(spec);
  launch.grid[0] = static_cast<uint32_t>(CeilDiv(units, int64_t{kSlots} / row_tiles * units_each));
  launch.grid[1] = static_cast<uint32_t>(spec.row_tiles(rows, int64_t{tile_rows} * row_tiles));
  return launch;
}

}  // namespace qcc::gpu
