#include "codegen/gpu/kernels/linear_input.h"

#include <algorithm>
#include <utility>

#include "codegen/gpu/kernels/gated_norm.h"
#include "dialects/layouts/int8_row.h"

namespace qcc::gpu {
namespace {

// Of a chunk in workgroup memory: 8 words of codes, the scale's bits, the sums of both halves or the bits of
// products. An odd number, so that parts of a row lie in different banks.
constexpr int kScaleWord = 8, kSumWord = 9, kChunkWords = 11;
// Heads whose squares are added up at a time, of a row and of all that are made at a time: barriers are
// fewer, and the sums stay in registers. Without subgroups all threads' parts lie in workgroup memory, that
// rows need.
constexpr int kHeadsAtOnce = 8, kSumsAtOnce = 16, kHeadsWithoutSubgroups = 4;
// Rows that are made at a time: what a workgroup waits for, memory and one another's sums, it waits for once.
// Where subgroups are small, sums of more than one take workgroup memory that rows need.
constexpr int kRowsAtOnce = 4, kLeastSubgroup = 16;

int Heads(const LinearSpec& spec) {
  return static_cast<int>(spec.k / spec.norm_dim);
}
int RowsAtOnce(const Profile& profile, int rows) {
  return profile.subgroup < kLeastSubgroup ? 1 : std::min(kRowsAtOnce, rows);
}
int HeadsAtOnce(const LinearSpec& spec, const Profile& profile, int rows_at_once) {
  if (profile.subgroup == 0) return std::min(kHeadsWithoutSubgroups, Heads(spec));
  return std::min({kHeadsAtOnce, kSumsAtOnce / rows_at_once, Heads(spec)});
}

}  // namespace

Sums SumsOf(Format format) {
  const PlainForm& form = description(format).plain;
  if (form.minimum == Minimum::kNone) return Sums::kNone;
  return form.columns_per_scale < kChunkColumns ? Sums::kTwo : Sums::kOne;
}

Int8Chunk StoredRows::Chunk(size_t row, Val number) const {
  const int64_t k = spec_.x_cols();  // of a whole row
  Int8Chunk c;
  const Val begin = rows_[row].at, chunk = rows_[row].Chunk(number);
  const Val at = begin + (chunk << 5);
  for (int half = 0; half < 2; ++half) {
    const Val v = b_.Load(Type::kI32x4, x_, at, 16 * half);
    for (int i = 0; i < 4; ++i) c.codes.push_back(b_.Extract(v, i));
  }
  c.scale = b_.Load(Type::kF32, x_, begin + (chunk << 2), static_cast<int32_t>(layouts::Int8ScalesAt(k)));
  const Val sums = begin + (chunk << 3);
  const int32_t sums_at = static_cast<int32_t>(layouts::Int8SumsAt(k));
  if (k % 64 == 0) {
    const Val v = b_.Load(Type::kI32x2, x_, sums, sums_at);
    c.sums[0] = b_.Extract(v, 0);
    c.sums[1] = b_.Extract(v, 1);
  } else {
    c.sums[0] = b_.Load(Type::kI32, x_, sums, sums_at);
    c.sums[1] = b_.Load(Type::kI32, x_, sums, sums_at + 4);
  }
  return c;
}

std::vector<Val> LoadFour(Builder& b, Val base, Val at, int32_t more) {
  const Val v = b.Load(Type::kF32x4, base, at, more);
  return {b.Extract(v, 0), b.Extract(v, 1), b.Extract(v, 2), b.Extract(v, 3)};
}

LinearInput::Quad StoredRows::LoadQuad(size_t row, Val from, int quad) const {
  return [values = LoadFour(b_, x_, rows_[row].at + from, 16 * quad)] { return values; };
}

int MadeRows::RowWords(const LinearSpec& spec, const Profile& profile, int rows) {
  if (!spec.int8) return 1;
  const int words = static_cast<int>(spec.terms * spec.chunks()) * kChunkWords;
  // A fragment's lanes read four words of each of its rows: so many apart that they lie in different banks.
  const bool fragments = profile.matrix.kind == MatrixUnits::Kind::kMma && rows > 1;
  return fragments ? CeilDiv(words, 8) * 8 + 4 : words;
}

int MadeRows::SharedWords(const LinearSpec& spec, const Profile& profile, int rows, int later) {
  if (spec.making == Making::kNothing) return later;
  const int threads = spec.split_threads(profile, rows);
  const int made = rows * RowWords(spec, profile, rows);
  int words = spec.int8 && spec.split_rounds(profile, rows) == 1 ? std::max(made, later) : made + later;
  const int at_once = RowsAtOnce(profile, rows);
  if (spec.making == Making::kNormed) words += Reducer::SharedWords(profile, threads, kNormThreads, at_once);
  if (spec.making == Making::kGatedNormed) {
    words +=
        Reducer::SharedWords(profile, threads, kNormThreads, at_once * HeadsAtOnce(spec, profile, at_once)) +
        at_once * Heads(spec);
  }
  if (spec.int8) words += RowQuantizer::SharedWords(profile, threads);
  return words;
}

MadeRows::MadeRows(Builder& b, const LinearSpec& spec, const LinearArgs& args, int rows, int later,
                   bool products)
    : b_(b),
      spec_(spec),
      args_(args),
      count_(rows),
      at_once_(RowsAtOnce(b.profile(), rows)),
      row_words_(RowWords(spec, b.profile(), rows)),
      threads_(spec.split_threads(b.profile(), rows)),
      norm_thread_(threads_ == kNormThreads ? b.Thread() : b.Thread() & (kNormThreads - 1)),
      products_(products) {
  if (norms()) reducer_.emplace(b, threads_, kNormThreads, at_once_);
  if (gated()) {
    reducer_.emplace(b, threads_, kNormThreads, at_once_ * HeadsAtOnce(spec, b.profile(), at_once_));
    head_scales_ = b.AllocShared(Type::kF32, at_once_ * Heads(spec));
  }
  if (spec.int8) quantizer_.emplace(b, threads_, spec.k, spec.terms);
  const int made = rows * row_words_;
  made_ = spec.int8 ? b.AllocShared(Type::kI32, std::max(made, later)) : b.AllocShared(Type::kF32, made);
}

void MadeRows::Make() {
  b_.For(b_.I32(0), b_.I32(count_), b_.I32(at_once_), [&](Val row) {
    std::vector<Val> sources, scales(static_cast<size_t>(at_once_));
    for (int i = 0; i < at_once_; ++i) sources.push_back(args_.Input(args_.first_row + row + i).at);
    const std::vector<Words> kept = KeepWords(sources);
    if (norms()) scales = Scales(sources, kept);
    if (gated()) MakeHeadScales(sources);
    if (spec_.int8) return Round(row, sources, scales, kept);
    b_.If(Eq(b_.Thread(), 0), [&] {
      for (int i = 0; i < at_once_; ++i) b_.StoreShared(made_, row + i, scales[static_cast<size_t>(i)]);
    });
  });
  b_.Barrier();
  for (int m = 0; !spec_.int8 && m < count_; ++m) f32_rows_.push_back(Of(b_.I32(m)));
}

MadeRows::F32Row MadeRows::Of(Val row) const {
  return {args_.Input(args_.first_row + row).at, b_.LoadShared(made_, row)};
}

// By the same sums, in the same order, as gated_delta's own norm. Each kNormThreads of the workgroup have
// heads of their own; thread i of them finishes the sum of number i.
void MadeRows::MakeHeadScales(const std::vector<Val>& sources) {
  const int dim = static_cast<int>(spec_.norm_dim), heads = Heads(spec_),
            at_once = HeadsAtOnce(spec_, b_.profile(), at_once_);
  const Val row = DivU(norm_thread_, at_once), number = RemU(norm_thread_, at_once);
  const int teams = threads_ / kNormThreads;
  b_.Barrier();  // scales of the rows before may still be read
  b_.For(b_.I32(0), b_.I32(heads), b_.I32(teams * at_once), [&](Val first_of_all) {
    const Val first = teams == 1 ? first_of_all : first_of_all + DivU(b_.Thread(), kNormThreads) * at_once;
    std::vector<Val> sums;
    for (const Val& source : sources) {
      for (int i = 0; i < at_once; ++i) {
        const Val head = MinS(first + i, b_.I32(heads - 1));
        sums.push_back(OwnSquares(b_, norm_thread_, args_.x, ShrU(source, 2) + head * dim, dim));
      }
    }
    sums = (*reducer_)(Reduction::kSum, std::move(sums));
    Val own = sums[0];
    for (size_t i = 1; i < sums.size(); ++i)
      own = Select(Eq(norm_thread_, static_cast<int>(i)), sums[i], own);
    const Val head = first + number;
    b_.If(And(LtS(row, b_.I32(at_once_)), LtS(head, b_.I32(heads))), [&] {
      b_.StoreShared(head_scales_, row * heads + head, GatedNormScale(b_, own, dim, args_.norm_eps));
    });
  });
  b_.Barrier();
}

std::vector<Val> MadeRows::Scales(const std::vector<Val>& sources, const std::vector<Words>& kept) {
  if (kept.empty()) return NormScales(b_, *reducer_, norm_thread_, args_.x, sources, spec_.k, args_.norm_eps);
  std::vector<NormWords> words;
  words.reserve(kept.size());
  for (const Words& of : kept) words.push_back(of.norm);
  return NormScales(b_, *reducer_, norm_thread_, words, sources.size(), spec_.k, args_.norm_eps);
}

std::vector<MadeRows::Words> MadeRows::KeepWords(const std::vector<Val>& sources) const {
  std::vector<Words> kept;
  // Of gates there are as many quads again.
  // More threads round other quads than those whose squares they add up.
  if (!spec_.int8 || threads_ != kNormThreads ||
      !KeepsQuads(b_.profile(), sources.size() * (gated() ? 2 : 1), spec_.k))
    return kept;
  for (int turn = 0; turn < QuadTurns(spec_.k, threads_); ++turn) {
    const Val at = OfTurn(b_.I32(turn * threads_)).at;
    for (const Val& source : sources) kept.push_back(LoadWords(source, at));
  }
  b_.BeginLoads();
  return kept;
}

void MadeRows::Round(Val row, const std::vector<Val>& sources, const std::vector<Val>& scales,
                     const std::vector<Words>& kept) {
  if (!kept.empty()) {
    for (int turn = 0; turn < QuadTurns(spec_.k, threads_); ++turn) {
      RoundTurn(row, OfTurn(b_.I32(turn * threads_)), &kept[static_cast<size_t>(turn) * sources.size()],
                scales);
    }
    return;
  }
  const auto load = [&](Val first, std::vector<Val>& to) {
    const Val at = OfTurn(first).at;
    for (const Val& source : sources) AppendWords(LoadWords(source, at), to);
  };
  // All threads go round together: the quantizer has barriers. carried: what was loaded for the turns ahead.
  const size_t of_row = gated() ? 3 : norms() ? 2 : 1, of_turn = sources.size() * of_row;
  const int ahead = TurnsAhead(b_.profile(), of_turn, QuadTurns(spec_.k, threads_));
  std::vector<Val> begun;
  for (int turn = 0; turn < ahead; ++turn) load(b_.I32(turn * threads_), begun);
  b_.For(b_.I32(0), b_.I32(static_cast<int32_t>(spec_.k / 4)), b_.I32(threads_), begun,
         [&](Val first, const std::vector<Val>& carried) {
           std::vector<Val> loaded = carried;
           load(first + ahead * threads_, loaded);
           std::vector<Words> words;
           words.reserve(sources.size());
           for (size_t i = 0; i < sources.size(); ++i) words.push_back(WordsAt(loaded, i * of_row));
           RoundTurn(row, OfTurn(first), words.data(), scales);
           return std::vector<Val>(loaded.begin() + static_cast<std::ptrdiff_t>(of_turn), loaded.end());
         });
}

void MadeRows::AppendWords(const Words& words, std::vector<Val>& to) const {
  to.push_back(words.norm.x);
  if (words.norm.weight) to.push_back(words.norm.weight);
  if (words.gate) to.push_back(words.gate);
}

MadeRows::Words MadeRows::WordsAt(const std::vector<Val>& loaded, size_t at) const {
  Words words{{loaded[at], Val()}, Val()};
  if (norms() || gated()) words.norm.weight = loaded[at + 1];
  if (gated()) words.gate = loaded[at + 2];
  return words;
}

void MadeRows::RoundTurn(Val row, const TurnQuad& quad, const Words* words, const std::vector<Val>& scales) {
  const size_t rows = scales.size();
  std::vector<std::vector<Val>> values, of_terms;
  for (size_t i = 0; i < rows; ++i)
    values.push_back(Values(words[i], quad.at, scales[i], static_cast<int>(i)));
  for (size_t i = 0; i < rows; ++i) of_terms.push_back(quantizer_->Scales(values[i]));
  for (int t = 0; t < spec_.terms; ++t) {
    std::vector<Numbers> numbers;
    for (size_t i = 0; i < rows; ++i) {
      std::vector<Val> rest;
      const Val scale = of_terms[i][static_cast<size_t>(t)];
      numbers.push_back(
          NumbersOf(quantizer_->Round(values[i], scale, t + 1 < spec_.terms ? &rest : nullptr), scale));
      values[i] = std::move(rest);
    }
    const Val chunk = ShrU(quad.number, 3) + t * spec_.chunks();
    b_.If(quad.active, [&] {
      for (size_t i = 0; i < rows; ++i)
        Store(numbers[i], Place(row + static_cast<int>(i), chunk), quad.number & 7);
    });
  }
}

MadeRows::Numbers MadeRows::NumbersOf(const RoundedQuad& rounded, Val scale) {
  Numbers numbers = {rounded.word, scale, {}};
  if (SumsHalves()) numbers.sum = quantizer_->HalfSum(rounded);
  if (products_ && SumsOf(spec_.format) != Sums::kNone) {
    const Val sum = SumsHalves() ? b_.ToF32(numbers.sum) : quantizer_->Sum(rounded);
    numbers.sum = b_.AsI32(scale * sum);
  }
  return numbers;
}

void MadeRows::Store(const Numbers& numbers, Val to, Val word) {
  b_.StoreShared(made_, to + word, numbers.code);
  b_.If(Eq(word, 0), [&] {
    b_.StoreShared(made_, to + kScaleWord, b_.AsI32(numbers.scale));
    if (numbers.sum && !SumsHalves()) b_.StoreShared(made_, to + kSumWord, numbers.sum);
  });
  if (!SumsHalves()) return;
  b_.If(Eq(word & 3, 0), [&] { b_.StoreShared(made_, to + ShrU(word, 2) + kSumWord, numbers.sum); });
}

MadeRows::Words MadeRows::LoadWords(Val source, Val at) const {
  Words words;
  if (!gated()) {
    words.norm = LoadNorm(b_, args_.x, source, norms() ? args_.norm_weight : Val(), at);
    return words;
  }
  const int head_bytes = 4 * static_cast<int>(spec_.norm_dim);
  words.norm.x = b_.Load(Type::kF32x4, args_.x, source + at);
  words.norm.weight = b_.Load(Type::kF32x4, args_.norm_weight, RemU(at, head_bytes));
  words.gate = b_.Load(Type::kF32x4, args_.gate, source + at);
  return words;
}

std::vector<Val> MadeRows::Values(const Words& words, Val at, Val scale, int row) const {
  if (!gated()) return NormQuad(b_, words.norm, scale);
  const int head_bytes = 4 * static_cast<int>(spec_.norm_dim);
  const Val of_head = b_.LoadShared(head_scales_, DivU(at, head_bytes) + row * Heads(spec_));
  std::vector<Val> values(4);
  for (int c = 0; c < 4; ++c) {
    values[static_cast<size_t>(c)] = GatedNormed(b_.Extract(words.norm.x, c), of_head,
                                                 b_.Extract(words.norm.weight, c), b_.Extract(words.gate, c));
  }
  return values;
}

Val MadeRows::Place(Val row, Val number) const {
  return row * row_words_ + number * kChunkWords;
}

Val MadeRows::Code(Val row, Val number, Val word) const {
  return b_.LoadShared(made_, Place(row, number) + word);
}

Val MadeRows::Scale(Val row, Val number) const {
  return b_.AsF32(b_.LoadShared(made_, Place(row, number) + kScaleWord));
}

Val MadeRows::Product(Val row, Val number, int sum) const {
  return b_.AsF32(b_.LoadShared(made_, Place(row, number) + (kSumWord + sum)));
}

Int8Chunk MadeRows::Chunk(size_t row, Val number) const {
  const Val at = number * kChunkWords + static_cast<int>(row) * row_words_;
  Int8Chunk c;
  for (int i = 0; i < kScaleWord; ++i) c.codes.push_back(b_.LoadShared(made_, at + i));
  c.scale = b_.AsF32(b_.LoadShared(made_, at + kScaleWord));
  for (int half = 0; half < 2; ++half) c.sums[half] = b_.LoadShared(made_, at + (kSumWord + half));
  return c;
}

LinearInput::Quad MadeRows::LoadQuad(size_t row, Val from, int quad) const {
  const F32Row& of = f32_rows_[row];
  const NormWords words = LoadNorm(b_, args_.x, of.source, args_.norm_weight, from + 16 * quad);
  return [this, words, &of] { return NormQuad(b_, words, of.scale); };
}

}  // namespace qcc::gpu
