// The linear kernels on matrix units whose subgroups decode their own weights, and what they share with those
// that do not.
#include "codegen/gpu/kernels/linear_matrix.h"

#include <algorithm>
#include <utility>

#include "codegen/gpu/kernels/linear_matrix_floats.h"
#include "codegen/gpu/kernels/math.h"
#include "dialects/layouts/int8_row.h"

namespace qcc::gpu {
namespace {

constexpr int kThreads = kLinearThreads;
constexpr int kSubgroup = kMatrixSubgroup;
constexpr int kSubgroups = kThreads / kSubgroup;

}  // namespace

RowWords LoadNumbers(Builder& b, int64_t k, Val x, const XRow& row, Val number, Sums kind) {
  const Val at = row.at, chunk = row.Chunk(number), of_scale = at + (chunk << 2);
  RowWords words{b.Load(Type::kF32, x, of_scale), {}, {}};
  if (kind == Sums::kOne)
    words.weighted =
        b.Load(Type::kF32, x, of_scale + (layouts::Int8WeightedAt(k) - layouts::Int8ScalesAt(k)));
  if (kind != Sums::kTwo) return words;
  const Val first = at + (chunk << 3) + (layouts::Int8SumsAt(k) - layouts::Int8ScalesAt(k));
  if (k % 64 == 0) {
    const Val both = b.Load(Type::kI32x2, x, first);
    for (int s = 1; s >= 0; --s) words.sums[s] = b.Extract(both, s);
  } else {
    for (int s = 1; s >= 0; --s) words.sums[s] = b.Load(Type::kI32, x, s ? first + 4 : first);
  }
  return words;
}

RowNumbers NumbersOf(Builder& b, const RowWords& words, Sums kind) {
  RowNumbers n{words.scale, {}};
  if (kind == Sums::kOne) n.sums.push_back(words.weighted);
  if (kind == Sums::kTwo) {
    for (const Val& sum : words.sums) n.sums.push_back(n.scale * b.ToF32(sum));
  }
  return n;
}

NumberCounts CountNumbers(const LinearSpec& spec) {
  const PlainForm& form = description(spec.format).plain;
  const int scales = form.columns_per_scale < kChunkColumns ? 2 : 1;
  const bool rest = form.base == BaseScale::kE8m0, shift = form.minimum != Minimum::kNone;
  return {scales, scales * (1 + (rest ? 1 : 0) + (shift ? 1 : 0)), 1 + (shift ? scales : 0)};
}

void AddProduct(Builder& b, bool two_scales, const GroupChunk& w, const std::vector<Val>& x,
                const RowNumbers numbers[2], Val* acc) {
  // Sums that start at the bias become floats by one exact subtraction, where a conversion takes several
  // times as long. 32 products of signed bytes stay below 2^19.
  const Val none = b.I32(0), bias = b.I32(kFloatBiasBits);
  for (int s = 0; s < (two_scales ? 2 : 1); ++s) {
    std::vector<Val> a = w.a;
    // Columns of the other scale count as zero.
    if (two_scales) a[2 - 2 * s] = a[3 - 2 * s] = none;
    const std::vector<Val> dots = b.MmaS8(a, x, {bias, bias, bias, bias});
    for (int i = 0; i < kLaneSums; ++i) {
      Val dot = b.AsF32(dots[i]) - kFloatBias;
      if (w.scales[i >> 1].rest[s]) dot = dot * w.scales[i >> 1].rest[s];
      acc[i] = Fma(w.scales[i >> 1].scale[s] * numbers[i & 1].scale, dot, acc[i]);
    }
  }
  for (size_t s = 0; s < numbers[0].sums.size(); ++s) {
    for (int i = 0; i < kLaneSums; ++i)
      acc[i] = Fma(w.scales[i >> 1].shift[s], numbers[i & 1].sums[s], acc[i]);
  }
}

int UnitsOfPair(const LinearSpec& spec) {
  return 2 / spec.groups_per_unit();
}

void StorePair(Builder& b, const LinearSpec& spec, const LinearArgs& args, Val first_unit, Val row,
               Val column, const Val sums[2]) {
  b.If(LtS(row, args.rows), [&] {
    const YRow y = args.Output(row);
    const Val at = (first_unit * kGroupRows + column) * 4;
    if (UnitsOfPair(spec) == 1) {
      StoreLinear(b, spec, args, y, at, {sums[0], sums[1]});
      return;
    }
    StoreLinear(b, spec, args, y, at, {sums[0]});
    b.If(LtS(first_unit + 1, args.units),
         [&] { StoreLinear(b, spec, args, y, at + 4 * kGroupRows, {sums[1]}); });
  });
}

StoredFragments::StoredFragments(Builder& b, const LinearSpec& spec, const LinearArgs& args, Val first_row,
                                 int fragments)
    : b_(b), spec_(spec), x_(args.x) {
  const MatrixLane lane(b);
  for (int f = 0; f < fragments; ++f) {
    const XRow x = args.Input(first_row + lane.group + kFragmentRows * f);
    const int quad_bytes = spec.int8 ? 4 : 16;
    codes_.push_back((x.chunk ? x.at + (x.chunk << 5) : x.at) + lane.quad * quad_bytes);
    for (int i = 0; i < 2 && spec.int8; ++i) {
      numbers_.push_back(args.Input(first_row + lane.SumRow(f, i)));
      numbers_.back().at = numbers_.back().at + layouts::Int8ScalesAt(spec.x_cols());
    }
  }
}

std::vector<Val> StoredFragments::Codes(int fragment, Val number) const {
  const Val at = codes_[static_cast<size_t>(fragment)] + (number << 5);
  return {b_.Load(Type::kI32, x_, at), b_.Load(Type::kI32, x_, at + 16)};
}

RowNumbers StoredFragments::Numbers(int fragment, int sum, Val number) const {
  const XRow& row = numbers_[2 * static_cast<size_t>(fragment) + static_cast<size_t>(sum)];
  const Sums kind = SumsOf(spec_.format);
  return NumbersOf(b_, LoadNumbers(b_, spec_.x_cols(), x_, row, number, kind), kind);
}

std::vector<Val> StoredFragments::Values(int fragment, Val number) const {
  const Val at = codes_[static_cast<size_t>(fragment)] + number * (4 * kChunkColumns);
  std::vector<Val> values = LoadFour(b_, x_, at, 0);
  for (Val v : LoadFour(b_, x_, at, 2 * kChunkColumns)) values.push_back(v);
  return values;
}

MadeFragment::MadeFragment(Builder& b, const LinearSpec& spec, const MadeRows& rows)
    : rows_(rows), kind_(SumsOf(spec.format)), lane_(b) {
  const auto repeated = [&](Val row) { return row & (static_cast<int32_t>(rows.rows()) - 1); };
  row_ = repeated(lane_.group);
  for (int i = 0; i < 2; ++i) sum_rows_[i] = repeated(lane_.SumRow(0, i));
  if (!spec.int8) f32_row_ = rows.Of(row_);
}

std::vector<Val> MadeFragment::Codes(int, Val number) const {
  return {rows_.Code(row_, number, lane_.quad), rows_.Code(row_, number, lane_.quad + 4)};
}

RowNumbers MadeFragment::Numbers(int, int sum, Val number) const {
  const Val row = sum_rows_[sum];
  RowNumbers numbers{rows_.Scale(row, number), {}};
  const int products = kind_ == Sums::kNone ? 0 : kind_ == Sums::kOne ? 1 : 2;
  for (int i = 0; i < products; ++i) numbers.sums.push_back(rows_.Product(row, number, i));
  return numbers;
}

std::vector<Val> MadeFragment::Values(int, Val number) const {
  const Val at = number * (4 * kChunkColumns) + lane_.quad * 16;
  std::vector<Val> values = rows_.Four(f32_row_, at);
  for (Val v : rows_.Four(f32_row_, at + 2 * kChunkColumns)) values.push_back(v);
  return values;
}

namespace {

// What MatrixPart reads at a time: groups of one run or several.
class MatrixWeights {
 public:
  MatrixWeights(Builder& b, const LinearSpec& spec, Val w, const std::vector<Val>& groups,
                const std::vector<int64_t>& runs);
  const PackedRow& front() const { return rows_.front(); }
  // What Make makes chunks of: loads only.
  struct Loaded {
    std::vector<std::vector<Val>> codes;        // [run][group][2]
    std::vector<PackedRow::ScaleWords> scales;  // the same, or of pairs of items
  };
  Loaded Load(Val first) const;
  // [run][group]
  std::vector<GroupChunk> Make(const Loaded& loaded) const;

 private:
  // Of four lanes that have the same two rows of two groups each reads the scales of one row, which the
  // others then get: that is less than to read all of them.
  struct Shared {
    PackedRow row;
    Val further;  // chunks; null: none
  };
  void ReadScales(const PackedRow::Scales& own, GroupChunk pair[2]) const;
  Val ChunkOf(size_t item, Val first) const {
    const int64_t run = runs_[item / groups_];
    return run ? first + run : first;
  }

  Builder& b_;
  const MatrixLane lane_{b_};
  const Val odd_ = Eq(lane_.quad & 1, 1), upper_ = Eq(ShrU(lane_.quad, 1), 1);
  const size_t groups_;
  const std::vector<int64_t> runs_;
  std::vector<PackedRow> rows_;  // [group][2]
  std::vector<Shared> shared_;   // of pairs of items; empty where they are odd
};

MatrixWeights::MatrixWeights(Builder& b, const LinearSpec& spec, Val w, const std::vector<Val>& groups,
                             const std::vector<int64_t>& runs)
    : b_(b), groups_(groups.size()), runs_(runs) {
  constexpr int kHalf = kGroupRows / 2;
  for (Val group : groups) {
    for (int i = 0; i < 2; ++i) rows_.emplace_back(b, spec.format, spec.k, w, group, lane_.group + kHalf * i);
  }
  const size_t items = runs.size() * groups_;
  if (items % 2 != 0) return;
  const Val row = lane_.group + (lane_.quad & 1) * kHalf;
  for (size_t item = 0; item < items; item += 2) {
    const Val first = groups[item % groups_], second = groups[(item + 1) % groups_];
    const Val group = groups_ == 1 ? first : Select(upper_, second, first);
    const int64_t run = runs[item / groups_], other = runs[(item + 1) / groups_];
    const Val further =
        run == other ? (run ? b.I32(static_cast<int32_t>(run)) : Val())
                     : Select(upper_, b.I32(static_cast<int32_t>(other)), b.I32(static_cast<int32_t>(run)));
    shared_.push_back({PackedRow(b, spec.format, spec.k, w, group, row), further});
  }
}

void MatrixWeights::ReadScales(const PackedRow::Scales& own, GroupChunk pair[2]) const {
  const int count = front().two_scales() ? 2 : 1;
  for (auto kind : {&PackedRow::Scales::scale, &PackedRow::Scales::rest, &PackedRow::Scales::shift}) {
    for (int s = 0; s < count && (own.*kind)[s]; ++s) {
      const Val v = (own.*kind)[s], beside = b_.ShuffleXor(v, 1);
      const Val rows[2] = {Select(odd_, beside, v), Select(odd_, v, beside)};
      for (int i = 0; i < 2; ++i) {
        const Val of_other = b_.ShuffleXor(rows[i], 2);
        (pair[0].scales[i].*kind)[s] = Select(upper_, of_other, rows[i]);
        (pair[1].scales[i].*kind)[s] = Select(upper_, rows[i], of_other);
      }
    }
  }
}

MatrixWeights::Loaded MatrixWeights::Load(Val first) const {
  Loaded loaded;
  for (size_t item = 0; item < runs_.size() * groups_; ++item) {
    const PackedRow* rows = &rows_[2 * (item % groups_)];
    const PackedRow::Chunk at = rows[0].At(ChunkOf(item, first));
    for (int i = 0; i < 2; ++i) {
      loaded.codes.push_back(rows[i].LoadCodePair(at, lane_.quad));
      if (shared_.empty()) loaded.scales.push_back(rows[i].LoadScales(at));
    }
  }
  for (const Shared& shared : shared_) {
    const Val chunk = shared.further ? first + shared.further : first;
    loaded.scales.push_back(shared.row.LoadScales(shared.row.At(chunk)));
  }
  return loaded;
}

std::vector<GroupChunk> MatrixWeights::Make(const Loaded& loaded) const {
  std::vector<GroupChunk> all;
  for (size_t item = 0; item < runs_.size() * groups_; ++item) {
    GroupChunk c{std::vector<Val>(4), {}};
    const PackedRow* rows = &rows_[2 * (item % groups_)];
    for (size_t i = 0; i < 2; ++i) {
      const std::vector<Val> words = rows[i].ReadCodePair(loaded.codes[2 * item + i], lane_.quad);
      for (size_t w = 0; w < 2; ++w) c.a[2 * w + i] = LessOffset(words[w], rows[i].code_offset());
      if (shared_.empty()) c.scales[i] = rows[i].ReadScales(loaded.scales[2 * item + i]);
    }
    all.push_back(std::move(c));
  }
  for (size_t pair = 0; pair < shared_.size(); ++pair)
    ReadScales(shared_[pair].row.ReadScales(loaded.scales[pair]), &all[2 * pair]);
  return all;
}

// Fragments of x whose words are loaded before the first is used, together with the weights' own: of 32 rows
// all, so that a chunk waits for memory once. Experts' rows are looked up and two scales are kept, both in
// registers, so that four fragments would spill there (ptxas 13.0, sm_80); of two terms they do, too.
size_t FragmentsAhead(const LinearSpec& spec, bool two_scales) {
  return spec.terms == 2 || (spec.rows_of == RowsOf::kExpert && two_scales) ? 2 : 4;
}
struct FragmentWords {
  std::vector<Val> codes;
  RowNumbers numbers[2];
};
// In the order in which they are added.
struct FragmentTerm {
  size_t run, fragment;
  int term;
};
std::vector<FragmentTerm> FragmentTerms(const LinearSpec& spec, const MatrixInput& x, size_t runs) {
  std::vector<FragmentTerm> terms;
  for (size_t r = 0; r < runs; ++r)
    for (size_t f = 0; f < static_cast<size_t>(x.fragments()); ++f)
      for (int t = 0; t < spec.terms; ++t) terms.push_back({r, f, t});
  return terms;
}

}  // namespace

std::vector<Val> MatrixPart(Builder& b, const LinearSpec& spec, Val w, const std::vector<Val>& groups,
                            const MatrixInput& x, Val low, Val high, const std::vector<int64_t>& runs) {
  if (!spec.int8) return FloatMatrixPart(b, spec, w, groups, x, low, high, runs);
  const MatrixWeights weights(b, spec, w, groups, runs);
  const bool two_scales = weights.front().two_scales();
  const size_t fragments = static_cast<size_t>(x.fragments());
  const std::vector<Val> zero(runs.size() * groups.size() * fragments * kLaneSums, b.F32(0.f));
  const std::vector<FragmentTerm> terms = FragmentTerms(spec, x, runs.size());
  const size_t ahead = FragmentsAhead(spec, two_scales);
  return b.For(low, high, b.I32(1), zero, [&](Val first, const std::vector<Val>& carried) {
    std::vector<Val> acc = carried;
    const MatrixWeights::Loaded loaded = weights.Load(first);
    std::vector<GroupChunk> chunks;
    for (size_t begin = 0; begin < terms.size(); begin += ahead) {
      const size_t end = std::min(begin + ahead, terms.size());
      std::vector<FragmentWords> words;
      for (size_t i = begin; i < end; ++i) {
        const int f = static_cast<int>(terms[i].fragment);
        const Val number = first + (runs[terms[i].run] + terms[i].term * spec.chunks());
        words.push_back({x.Codes(f, number), {x.Numbers(f, 0, number), x.Numbers(f, 1, number)}});
      }
      b.BeginLoads();
      if (begin == 0) chunks = weights.Make(loaded);
      for (size_t i = begin; i < end; ++i) {
        const FragmentWords& of = words[i - begin];
        for (size_t g = 0; g < groups.size(); ++g) {
          const size_t item = terms[i].run * groups.size() + g;
          AddProduct(b, two_scales, chunks[item], of.codes, of.numbers,
                     &acc[(item * fragments + terms[i].fragment) * kLaneSums]);
        }
      }
    }
    return acc;
  });
}

namespace {

// Byte offsets of the groups of the units from `first_unit` on; units beyond the last repeat it.
std::vector<Val> GroupOffsets(const LinearSpec& spec, const LinearArgs& args, Val first_unit) {
  std::vector<Val> offsets;
  for (int i = 0; i < 2; ++i) {
    const Val group = UnitsOfPair(spec) == 1 ? first_unit * 2 + i : MinS(first_unit + i, args.units - 1);
    offsets.push_back(group * spec.group_bytes());
  }
  return offsets;
}

void EmitTiled(Builder& b, const LinearSpec& spec, int tile_rows, int row_tiles) {
  const LinearArgs args(b, spec, tile_rows * row_tiles);
  const MatrixLane lane(b);
  const int pairs = kSubgroups / row_tiles, fragments = tile_rows / kFragmentRows;
  const Val subgroup = ShrU(b.Thread(), 5);
  const Val first_unit = (b.BlockX() * pairs + (subgroup & (pairs - 1))) * UnitsOfPair(spec);
  const Val first_row = args.first_row + DivU(subgroup, pairs) * tile_rows;
  b.If(And(LtS(first_row, args.rows), LtS(first_unit, args.units)), [&] {
    const StoredFragments x(b, spec, args, first_row, fragments);
    const std::vector<Val> groups = GroupOffsets(spec, args, first_unit);
    const std::vector<Val> sums =
        SumParts(b, spec, size_t{2} * static_cast<size_t>(fragments) * kLaneSums, [&](Val low, Val high) {
          return MatrixPart(b, spec, args.w, groups, x, low, NotSeenThrough(high, args.y_row_bytes));
        });
    for (int f = 0; f < fragments; ++f) {
      for (int i = 0; i < kLaneSums; ++i) {
        Val both[2] = {sums[f * kLaneSums + i], sums[(fragments + f) * kLaneSums + i]};
        StorePair(b, spec, args, first_unit, first_row + lane.SumRow(f, i), SumColumn(spec, lane, i >> 1),
                  both);
      }
    }
  });
}

// Parts whose sums lie in workgroup memory at a time. All numbers of more parts are multiples of it.
int PartsAtOnce(const LinearSpec& spec) {
  return std::min(spec.parts(), 8);
}

int SumsEach(int tile_rows) {
  return 2 * (tile_rows / kFragmentRows) * kLaneSums;
}

// What a split tile's subgroups leave of a part, and what they make of the parts.
class SplitPartials {
 public:
  SplitPartials(Builder& b, const LinearSpec& spec, int tile_rows)
      : b_(b),
        at_once_(PartsAtOnce(spec)),
        fragments_(tile_rows / kFragmentRows),
        words_(SumsEach(tile_rows) * kSubgroup),
        memory_(b.AllocShared(Type::kF32, at_once_ * words_)) {}

  // `part`: of those that lie there at a time.
  void Store(Val part, const std::vector<Val>& sums) const {
    for (size_t i = 0; i < sums.size(); ++i)
      b_.StoreShared(memory_, part * words_ + lane_ + (i * kSubgroup), sums[i]);
  }
  // To `sums`, [fragment][group]: one of the kLaneSums per subgroup.
  std::vector<Val> AddTo(std::vector<Val> sums) const {
    for (int f = 0; f < fragments_; ++f) {
      for (int g = 0; g < 2; ++g) {
        Val& sum = sums[size_t{2} * static_cast<size_t>(f) + static_cast<size_t>(g)];
        const Val from = (ShrU(b_.Thread(), 5) + (g * fragments_ + f) * kLaneSums) * kSubgroup + lane_;
        for (int p = 0; p < at_once_; ++p) sum = sum + b_.LoadShared(memory_, from + p * words_);
      }
    }
    return sums;
  }

 private:
  Builder& b_;
  const int at_once_, fragments_, words_;
  const Shared memory_;
  const Val lane_ = b_.Thread() & (kSubgroup - 1);
};

void EmitSplit(Builder& b, const LinearSpec& spec, int tile_rows) {
  const LinearArgs args(b, spec, tile_rows);
  const MatrixLane place(b);
  const int at_once = PartsAtOnce(spec), fragments = tile_rows / kFragmentRows;
  const Val subgroup = ShrU(b.Thread(), 5);
  const Val first_unit = b.BlockX() * UnitsOfPair(spec), first_row = args.first_row;
  const SplitPartials partials(b, spec, tile_rows);
  b.If(LtS(first_row, args.rows), [&] {
    const StoredFragments x(b, spec, args, first_row, fragments);
    const std::vector<Val> groups = GroupOffsets(spec, args, first_unit);
    const auto round = [&](Val first, const std::vector<Val>& carried) {
      b.For(subgroup, b.I32(at_once), b.I32(kSubgroups), [&](Val part) {
        partials.Store(part, MatrixPart(b, spec, args.w, groups, x, PartLow(spec, first + part),
                                        PartHigh(spec, first + part)));
      });
      b.Barrier();
      return partials.AddTo(carried);
    };
    std::vector<Val> sums(2 * static_cast<size_t>(fragments), b.F32(0.f));
    if (at_once == spec.parts()) {
      sums = round(b.I32(0), sums);
    } else {
      sums = b.For(b.I32(0), b.I32(spec.parts()), b.I32(at_once), sums,
                   [&](Val first, const std::vector<Val>& carried) {
                     std::vector<Val> all = round(first, carried);
                     b.Barrier();
                     return all;
                   });
    }
    const Val row = first_row + place.quad * 2 + (subgroup & 1);
    const Val column = SumColumn(spec, place, ShrU(subgroup, 1));
    for (int f = 0; f < fragments; ++f)
      StorePair(b, spec, args, first_unit, row + kFragmentRows * f, column,
                &sums[2 * static_cast<size_t>(f)]);
  });
}
static_assert(kSubgroups == kLaneSums);

// Where ptxas would rather spill than have a workgroup fewer: with room for these, ptxas 13.0 for sm_80 gives
// a thread 184 to 186 registers, those of experts 122 to 128. All others are left to it: with a bound it
// takes more than it needs, and workgroups go.
int TiledAtOnce(const LinearSpec& spec, int tile_rows) {
  if (!spec.int8) return tile_rows > 16 ? 2 : TakesHalves(spec.format) ? 4 : 3;
  if (CountNumbers(spec).scales < 2) return 0;
  if (tile_rows > 16) return LooksUp(description(spec.format).plain) ? 2 : 0;
  return spec.rows_of == RowsOf::kExpert ? 4 : 0;
}
// The same, also for sm_90: with room for these 252 to 254 registers (scales of 16 columns with minima, or of
// values that are looked up), 160 to 168 (two terms).
int SplitAtOnce(const LinearSpec& spec, int tile_rows) {
  if (!spec.int8) return TiledAtOnce(spec, tile_rows);
  const NumberCounts numbers = CountNumbers(spec);
  if (numbers.scales == 2 && (numbers.of_x > 1 || LooksUp(description(spec.format).plain))) return 2;
  return spec.terms == 2 ? 3 : 0;
}

}  // namespace

Launch LinearMatrixTiled(const LinearSpec& spec, int tile_rows, int64_t units, int64_t rows) {
  const int row_tiles = spec.rows_together(rows) > tile_rows ? 2 : 1;
  Launch launch;
  launch.name = spec.name() + ".m" + std::to_string(tile_rows) + "x" + std::to_string(row_tiles);
  launch.at_once = TiledAtOnce(spec, tile_rows);
  launch.emit = [spec, tile_rows, row_tiles](Builder& b) { EmitTiled(b, spec, tile_rows, row_tiles); };
  launch.workgroup_size = kThreads;
  launch.beside = true;
  launch.shared_bytes = 4 * LinearArgs::SharedWords(spec);
  launch.grid[0] = static_cast<uint32_t>(CeilDiv(units, int64_t{kSubgroups} / row_tiles * UnitsOfPair(spec)));
  launch.grid[1] = static_cast<uint32_t>(spec.row_tiles(rows, int64_t{tile_rows} * row_tiles));
  return launch;
}

Launch LinearMatrixSplit(const LinearSpec& spec, int tile_rows, int64_t units, int64_t rows) {
  Launch launch;
  launch.name = spec.name() + ".mp" + std::to_string(tile_rows);
  launch.at_once = SplitAtOnce(spec, tile_rows);
  launch.emit = [spec, tile_rows](Builder& b) { EmitSplit(b, spec, tile_rows); };
  launch.workgroup_size = kThreads;
  launch.beside = true;
  launch.shared_bytes =
      4 * (PartsAtOnce(spec) * SumsEach(tile_rows) * kSubgroup + LinearArgs::SharedWords(spec));
  launch.grid[0] = static_cast<uint32_t>(CeilDiv(units, UnitsOfPair(spec)));
  launch.grid[1] = static_cast<uint32_t>(spec.row_tiles(rows, tile_rows));
  return launch;
}

}  // namespace qcc::gpu
