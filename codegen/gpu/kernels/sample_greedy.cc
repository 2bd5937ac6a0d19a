// The highest logit, the lowest id of equals (the highest Ranked; a bad logit wins over all): workgroups take
// chunks of the vocabulary, then one takes their results; or one takes what heads leave of each 16 columns.
#include <algorithm>
#include <cstring>
#include <string>

#include "codegen/gpu/kernels/kernel_args.h"
#include "codegen/gpu/kernels/launch.h"
#include "codegen/gpu/kernels/sample_math.h"
#include "codegen/gpu/kernels/step.h"
#include "dialects/layouts/layouts.h"

namespace qcc::gpu {
namespace {

constexpr int kThreads = kSampleWorkgroup, kMostThreads = 1024;
// Logits, and pairs of units, that a thread loads at a time: none waits for the one before.
constexpr int kTokensAtOnce = 8, kPairsAtOnce = 8;

struct Shape {
  int32_t vocab, stride, chunk, chunks;
  bool some, several;               // not all columns may be chosen; more than one may
  bool guess = false, ids = false;  // for a draft; whose columns stand for other tokens than the first
  // Of a row: for each chunk its best, then its range of keys.
  int64_t ranges() const { return int64_t{8} * chunks; }
  int64_t row_bytes() const { return int64_t{16} * chunks; }
};

Val RowOf(Builder& b, int argument, Val row, int64_t row_bytes) {
  return b.Arg(argument) + b.ExtendU(row) * b.I64(row_bytes);
}

// Of what a thread looked at: the best, Ranked, and the range of keys.
struct BestOf {
  Val ranked;
  KeyRange range;
};

// From token `first` on. Those behind `last` repeat it, which changes nothing.
BestOf OwnBest(Builder& b, const Shape& shape, Val logits, Val first, Val last) {
  const KeyRange none = NoKeys(b);
  const std::vector<Val> found =
      b.For(b.I32(0), b.I32(shape.chunk), b.I32(kTokensAtOnce * kThreads),
            {b.I64(0), none.lowest, none.highest}, [&](Val i, const std::vector<Val>& carried) {
              std::vector<Val> ids, loaded, counts;
              for (int t = 0; t < kTokensAtOnce; ++t) {
                ids.push_back(MinU(first + i + t * kThreads, last));
                loaded.push_back(b.Load(Type::kI32, logits, ids.back() * 4));
                if (shape.some) counts.push_back(IsChoosable(b.Arg(3), ids.back()));
              }
              Val ranked = carried[0];
              KeyRange range = {carried[1], carried[2]};
              for (size_t t = 0; t < ids.size(); ++t) {
                const Val key = KeyOfLogit(loaded[t]);
                const Val of_key = Select(Eq(key, kExcludedKey), b.I64(0), Ranked(key, ids[t]));
                ranked = MaxU(ranked, shape.some ? Select(counts[t], of_key, b.I64(0)) : of_key);
                range = shape.some ? WithIf(counts[t], range, key) : With(range, key);
              }
              return std::vector<Val>{ranked, range.lowest, range.highest};
            });
  return {found[0], {found[1], found[2]}};
}

// Arguments: step, logits, scratch; the choosable tokens, if not all are.
void EmitChunk(Builder& b, const Shape& shape) {
  const Val row = b.BlockY();
  b.If(LtU(row, StepOuts(b.Arg(0))), [&] {
    const Val logits = RowOf(b, 1, row, int64_t{4} * shape.stride);
    const Val first = b.BlockX() * shape.chunk;
    const BestOf mine = OwnBest(b, shape, logits, first + b.Thread(),
                                MinU(first + (shape.chunk - 1), b.I32(shape.vocab - 1)));
    WideCollective collective(b);
    const Val highest = collective.Max(mine.ranked);
    const KeyRange range = collective.Range(mine.range);
    b.If(Eq(b.Thread(), 0), [&] {
      const Val scratch = RowOf(b, 2, row, shape.row_bytes());
      b.Store(scratch, b.BlockX() * 8, highest);
      const Val ranges = scratch + b.I64(shape.ranges());
      b.Store(ranges, b.BlockX() * 8, range.lowest);
      b.Store(ranges, b.BlockX() * 8 + 4, range.highest);
    });
  });
}

// By the first thread of a workgroup. `ids`: of the columns, or null.
void LeaveGuess(Builder& b, Val results, Val row, Val found, Val ids) {
  // Nothing was found where all are -infinity.
  const Val column = Select(Eq(found, -1), b.I32(0), found);
  b.If(Eq(b.Thread(), 0),
       [&] { b.Store(results, row * 4, ids ? b.Load(Type::kI32, ids, column * 4) : column); });
}
void LeaveToken(Builder& b, Val results, Val row, Val token, Val fault) {
  b.If(Eq(b.Thread(), 0), [&] { b.Store(results, row * 4, Select(Eq(fault, 0), token, fault)); });
}

// Arguments: step, scratch, results; the columns' tokens, if they are not the first.
void EmitToken(Builder& b, const Shape& shape) {
  const Val row = b.BlockX(), thread = b.Thread();
  b.If(LtU(row, StepOuts(b.Arg(0))), [&] {
    const KeyRange none = NoKeys(b);
    const std::vector<Val> mine = b.IfElse(
        LtU(thread, b.I32(shape.chunks)),
        [&]() -> std::vector<Val> {
          const Val scratch = RowOf(b, 1, row, shape.row_bytes());
          const Val ranges = scratch + b.I64(shape.ranges());
          return {b.Load(Type::kI64, scratch, thread * 8), b.Load(Type::kI32, ranges, thread * 8),
                  b.Load(Type::kI32, ranges, thread * 8 + 4)};
        },
        [&]() -> std::vector<Val> {
          return {b.I64(0), none.lowest, none.highest};
        });
    WideCollective collective(b);
    const Val token = IdOfRanked(collective.Max(mine[0]));
    if (shape.guess) return LeaveGuess(b, b.Arg(2), row, token, shape.ids ? b.Arg(3) : Val());
    LeaveToken(b, b.Arg(2), row, token, FaultOf(collective.Range({mine[1], mine[2]}), shape.several));
  });
}

// Of UnitKeys: one workgroup a row.
struct UnitsShape {
  int32_t vocab, stride, units, threads;
  bool masked, several;     // not all columns of the units may be chosen; more than one may
  bool guess, ids = false;  // as of Shape
};
template <typename T>
struct UnitsArgs {
  T step, logits, keys, results;
};
constexpr int kMaskArg = static_cast<int>(kArgCount<UnitsArgs>);  // behind the others, if masked; then ids

// The first unit with the highest key, and the range of keys.
BestOf OwnBestUnit(Builder& b, const UnitsShape& shape, Val keys) {
  const int pairs = CeilDiv(shape.units, 2);
  const KeyRange none = NoKeys(b);
  const std::vector<Val> found =
      b.For(b.Thread(), b.I32(pairs), b.I32(kPairsAtOnce * shape.threads), {b.I64(0), none.lowest},
            [&](Val first, const std::vector<Val>& carried) {
              std::vector<Val> at, loaded;
              for (int i = 0; i < kPairsAtOnce; ++i) {
                at.push_back(MinS(first + i * shape.threads, b.I32(pairs - 1)));
                loaded.push_back(b.Load(Type::kI32x4, keys, at.back() << 4));
              }
              std::vector<Val> best = carried;
              for (size_t i = 0; i < loaded.size(); ++i) {
                for (int half = 0; half < 2; ++half) {
                  const Val unit = (at[i] << 1) + half;
                  Val highest = b.Extract(loaded[i], 2 * half), lowest = b.Extract(loaded[i], 2 * half + 1);
                  if (half && shape.units % 2) {
                    const Val is = LtS(unit, b.I32(shape.units));
                    highest = Select(is, highest, none.highest);
                    lowest = Select(is, lowest, none.lowest);
                  }
                  best[0] = MaxU(best[0], Ranked(highest, unit));
                  best[1] = MinU(best[1], lowest);
                }
              }
              return best;
            });
  return {found[0], {found[1], KeyOfRanked(found[0])}};
}

void EmitOfUnits(Builder& b, const UnitsShape& shape) {
  constexpr int kColumns = static_cast<int>(layouts::kGroupRows);
  const auto args = ReadArgs<UnitsArgs>(b);
  const Val row = b.BlockX(), thread = b.Thread();
  b.If(LtU(row, StepOuts(args.step)), [&] {
    const Val row_bytes = b.ExtendU(UnitKeysRow(b.I32(shape.units)));
    const BestOf mine = OwnBestUnit(b, shape, args.keys + b.ExtendU(row) * row_bytes);
    WideCollective collective(b, shape.threads);
    const Val best = collective.Max(mine.ranked);
    const KeyRange range = collective.Range(mine.range);
    // Which of its columns. Where nothing is to be chosen from it may be a unit that there is not.
    const Val unit = MinU(IdOfRanked(best), b.I32(shape.units - 1)), id = unit * kColumns + thread;
    const Val logits = args.logits + b.ExtendU(row) * b.I64(int64_t{4} * shape.stride);
    const Val ranked = b.IfElse(
        And(LtU(thread, b.I32(kColumns)), LtU(id, b.I32(shape.vocab))),
        [&]() -> std::vector<Val> {
          const Val key = KeyOfLogit(b.Load(Type::kI32, logits, id * 4));
          Val is = Eq(key, range.highest);
          if (shape.masked) is = And(is, IsChoosable(b.Arg(kMaskArg), id));
          return {Select(is, Ranked(key, id), b.I64(0))};
        },
        [&] { return std::vector<Val>{b.I64(0)}; })[0];
    const Val token = IdOfRanked(collective.Max(ranked));
    if (shape.guess) {
      const int ids = shape.masked ? kMaskArg + 1 : kMaskArg;
      return LeaveGuess(b, args.results, row, token, shape.ids ? b.Arg(ids) : Val());
    }
    LeaveToken(b, args.results, row, token, FaultOf(range, shape.several));
  });
}

Shape ShapeOf(int64_t columns, int64_t stride) {
  Shape shape = {};
  shape.several = true;
  shape.vocab = static_cast<int32_t>(columns);
  shape.stride = static_cast<int32_t>(stride);
  shape.chunk = SampleChunk(columns);
  shape.chunks = static_cast<int32_t>(CeilDiv(columns, shape.chunk));
  return shape;
}

// `choosable`: with shape.some; `ids`: with shape.ids.
std::vector<Launch> Launches(int64_t rows, const Shape& shape, const Arg& choosable, const Arg& ids,
                             Expansion& expansion, uint64_t* scratch_bytes) {
  const uint64_t n = static_cast<uint64_t>(rows);
  *scratch_bytes = n * static_cast<uint64_t>(shape.row_bytes());
  const uint64_t columns = static_cast<uint64_t>(shape.vocab);
  const Arg logits{Space::kLogits, 0, ((n - 1) * static_cast<uint64_t>(shape.stride) + columns) * 4};
  const Arg scratch{Space::kScratch, 0, *scratch_bytes};
  const Arg results{Space::kResults, 0, n * 4};
  const std::string kind = std::string(shape.some ? ".some" : "") + (shape.several ? "" : ".one");
  const std::string suffix = ".v" + std::to_string(shape.vocab) + kind;

  Launch chunk;
  chunk.name = "sample.greedy.chunk" + suffix + ".s" + std::to_string(shape.stride);
  chunk.emit = [shape](Builder& b) { EmitChunk(b, shape); };
  chunk.workgroup_size = kThreads;
  chunk.grid[0] = static_cast<uint32_t>(shape.chunks);
  chunk.grid[1] = static_cast<uint32_t>(rows);
  chunk.args = {StepArg(expansion), logits, scratch};
  if (shape.some) chunk.args.push_back(choosable);
  chunk.barrier = true;
  chunk.read_bytes = n * columns * 4;
  chunk.write_bytes = *scratch_bytes;

  Launch token;
  token.name =
      (shape.guess ? "sample.guess.token" : "sample.greedy.token") + suffix + (shape.ids ? ".ids" : "");
  token.emit = [shape](Builder& b) { EmitToken(b, shape); };
  token.workgroup_size = kThreads;
  token.grid[0] = static_cast<uint32_t>(rows);
  token.args = {StepArg(expansion), scratch, results};
  if (shape.ids) token.args.push_back(ids);
  token.barrier = true;
  token.read_bytes = *scratch_bytes;
  token.write_bytes = n * 4;
  return {chunk, token};
}

}  // namespace

std::vector<Launch> ExpandGreedy(int64_t rows, const Vocabulary& vocabulary, Expansion& expansion,
                                 uint64_t* scratch_bytes) {
  Shape shape = ShapeOf(vocabulary.size, expansion.logits_stride());
  shape.some = !vocabulary.choosable.empty();
  shape.several = vocabulary.choices() > 1;
  Arg choosable = {};
  if (shape.some) choosable = ChoosableArg(vocabulary, expansion);
  return Launches(rows, shape, choosable, {}, expansion, scratch_bytes);
}

namespace {

// A choice from `columns` columns, `stride` floats from one row to the next, of which heads left `keys`.
// `ids`: of the columns of a draft.
Launch OfUnits(int64_t rows, int64_t columns, int64_t stride, const UnitKeys& keys, UnitsShape shape,
               const std::optional<Arg>& ids, Expansion& expansion) {
  shape.vocab = static_cast<int32_t>(columns);
  shape.stride = static_cast<int32_t>(stride);
  shape.units = static_cast<int32_t>(CeilDiv(columns, layouts::kGroupRows));
  // The launch waits for memory: the more threads ask, the better.
  shape.threads = std::min(expansion.profile().max_workgroup, kMostThreads);
  shape.masked = keys.choosable.has_value();
  shape.ids = ids.has_value();
  const uint64_t n = static_cast<uint64_t>(rows);
  Launch launch;
  launch.name = std::string(shape.guess ? "sample.guess" : "sample.greedy") + ".units.v" +
                std::to_string(shape.vocab) + (shape.masked ? ".some" : "") + (shape.several ? "" : ".one") +
                ".s" + std::to_string(shape.stride) + (shape.ids ? ".ids" : "");
  launch.emit = [shape](Builder& b) { EmitOfUnits(b, shape); };
  launch.workgroup_size = shape.threads;
  launch.grid[0] = static_cast<uint32_t>(rows);
  launch.args = ListArgs<UnitsArgs>(
      {.step = StepArg(expansion),
       .logits = {Space::kLogits, 0,
                  4 * ((n - 1) * static_cast<uint64_t>(stride) + static_cast<uint64_t>(columns))},
       .keys = keys.keys,
       .results = {Space::kResults, 0, n * 4}});
  if (shape.masked) launch.args.push_back(*keys.choosable);
  if (shape.ids) launch.args.push_back(*ids);
  launch.barrier = true;
  launch.read_bytes = keys.keys.bytes + n * 4 * static_cast<uint64_t>(layouts::kGroupRows);
  launch.write_bytes = n * 4;
  return launch;
}

std::optional<Arg> IdsOf(const DraftColumns& columns, Expansion& expansion) {
  if (columns.tokens.empty()) return std::nullopt;
  std::vector<uint8_t> bytes(columns.tokens.size() * sizeof(int32_t));
  std::memcpy(bytes.data(), columns.tokens.data(), bytes.size());
  return expansion.Constant(bytes);
}

}  // namespace

std::vector<Launch> ExpandGreedyOfUnits(int64_t rows, const Vocabulary& vocabulary, Expansion& expansion,
                                        uint64_t* scratch_bytes) {
  const UnitKeys keys = UnitKeysOf(rows, vocabulary, expansion);
  *scratch_bytes = keys.keys.bytes;
  UnitsShape shape = {};
  shape.several = vocabulary.choices() > 1;
  return {OfUnits(rows, vocabulary.size, expansion.logits_stride(), keys, shape, {}, expansion)};
}

std::vector<Launch> ExpandGuess(int64_t rows, const DraftColumns& columns, Expansion& expansion,
                                uint64_t* scratch_bytes) {
  Shape shape = ShapeOf(columns.size, columns.stride);
  shape.guess = true;
  const std::optional<Arg> ids = IdsOf(columns, expansion);
  shape.ids = ids.has_value();
  return Launches(rows, shape, {}, ids.value_or(Arg{}), expansion, scratch_bytes);
}

std::vector<Launch> ExpandGuessOfUnits(int64_t rows, const DraftColumns& columns, Expansion& expansion,
                                       uint64_t* scratch_bytes) {
  const UnitKeys keys = UnitKeysOf(rows, columns.all(), expansion);
  *scratch_bytes = keys.keys.bytes;
  UnitsShape shape = {};
  shape.several = shape.guess = true;
  return {OfUnits(rows, columns.size, columns.stride, keys, shape, IdsOf(columns, expansion), expansion)};
}

}  // namespace qcc::gpu
