#include "codegen/gpu/kernels/linear_input.h"

#include <algorithm>
#include <utility>

#include "codegen/gpu/kernels/gated_norm.h"
#include "codegen/gpu/kernels/norm.h"
#include "dialects/layouts/int8_row.h"

namespace qcc::gpu {
namespace {

constexpr int kThreads = kLinearThreads;
static_assert(kThreads == kNormThreads);

// Of a chunk in workgroup memory: 8 words of codes, the scale's bits, the sums of both halves or the bits of
// products. An odd number, so that parts of a row lie in different banks.
constexpr int kScaleWord = 8, kSumWord = 9, kChunkWords = 11;
// Heads whose squares are added up at a time: barriers are fewer, and the sums stay in registers.
constexpr int kHeadsAtOnce = 8;

int Heads(const LinearSpec& spec) {
  return static_cast<int>(spec.k / spec.norm_dim);
}
int HeadsAtOnce(const LinearSpec& spec) {
  return std::min(kHeadsAtOnce, Heads(spec));
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
    const Val v = b_.Load(Type::kI32x4, x_, half ? at + 16 : at);
    for (int i = 0; i < 4; ++i) c.codes.push_back(b_.Extract(v, i));
  }
  c.scale = b_.Load(Type::kF32, x_, begin + (chunk << 2) + layouts::Int8ScalesAt(k));
  const Val sums = begin + (chunk << 3) + layouts::Int8SumsAt(k);
  if (k % 64 == 0) {
    const Val v = b_.Load(Type::kI32x2, x_, sums);
    c.sums[0] = b_.Extract(v, 0);
    c.sums[1] = b_.Extract(v, 1);
  } else {
    c.sums[0] = b_.Load(Type::kI32, x_, sums);
    c.sums[1] = b_.Load(Type::kI32, x_, sums + 4);
  }
  return c;
}

std::vector<Val> StoredRows::Quad(size_t row, Val from, int quad) const {
  const Val v = b_.Load(Type::kF32x4, x_, rows_[row].at + from + 16 * quad);
  return {b_.Extract(v, 0), b_.Extract(v, 1), b_.Extract(v, 2), b_.Extract(v, 3)};
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
  const int made = rows * RowWords(spec, profile, rows);
  int words = spec.int8 ? std::max(made, later) : made + later;
  if (spec.making == Making::kNormed) words += Reducer::SharedWords(profile, kThreads, kThreads);
  if (spec.making == Making::kGatedNormed) {
    words += Reducer::SharedWords(profile, kThreads, kThreads, HeadsAtOnce(spec)) + Heads(spec);
  }
  if (spec.int8) words += RowQuantizer::SharedWords(profile, kThreads);
  return words;
}

MadeRows::MadeRows(Builder& b, const LinearSpec& spec, const LinearArgs& args, int rows, int later,
                   bool products)
    : b_(b),
      spec_(spec),
      args_(args),
      count_(rows),
      row_words_(RowWords(spec, b.profile(), rows)),
      products_(products) {
  if (norms()) reducer_.emplace(b, kThreads, kThreads);
  if (gated()) {
    reducer_.emplace(b, kThreads, kThreads, HeadsAtOnce(spec));
    head_scales_ = b.AllocShared(Type::kF32, Heads(spec));
  }
  if (spec.int8) quantizer_.emplace(b, kThreads, spec.k, spec.terms);
  const int made = rows * row_words_;
  made_ = spec.int8 ? b.AllocShared(Type::kI32, std::max(made, later)) : b.AllocShared(Type::kF32, made);
}

void MadeRows::Make() {
  b_.For(b_.I32(0), b_.I32(count_), b_.I32(1), [&](Val row) {
    const Val source = args_.Input(args_.first_row + row).at;
    const Val scale = norms() ? NormScale(b_, *reducer_, args_.x, source, spec_.k, args_.norm_eps) : Val();
    if (gated()) MakeHeadScales(source);
    if (spec_.int8) return Round(row, source, scale);
    b_.If(Eq(b_.Thread(), 0), [&] { b_.StoreShared(made_, row, scale); });
  });
  b_.Barrier();
  for (int m = 0; !spec_.int8 && m < count_; ++m) {
    sources_.push_back(args_.Input(args_.first_row + m).at);
    scales_.push_back(b_.LoadShared(made_, b_.I32(m)));
  }
}

// By the same sums, in the same order, as gated_delta's own norm.
void MadeRows::MakeHeadScales(Val source) {
  const int dim = static_cast<int>(spec_.norm_dim), heads = Heads(spec_), at_once = HeadsAtOnce(spec_);
  const Val begin = ShrU(source, 2);
  b_.Barrier();  // scales of the row before may still be read
  b_.For(b_.I32(0), b_.I32(heads), b_.I32(at_once), [&](Val first) {
    std::vector<Val> squares;
    for (int i = 0; i < at_once; ++i) {
      const Val head = MinS(first + i, b_.I32(heads - 1));
      squares.push_back(OwnSquares(b_, args_.x, begin + head * dim, dim));
    }
    const std::vector<Val> sums = (*reducer_)(Reduction::kSum, squares);
    for (int i = 0; i < at_once; ++i) {
      b_.If(And(Eq(b_.Thread(), i), LtS(first + i, b_.I32(heads))), [&] {
        const Val scale = GatedNormScale(b_, sums[static_cast<size_t>(i)], dim, args_.norm_eps);
        b_.StoreShared(head_scales_, first + i, scale);
      });
    }
  });
  b_.Barrier();
}

void MadeRows::Round(Val row, Val source, Val scale) {
  const Val end = b_.I32(static_cast<int32_t>(spec_.k / 4));
  // All threads go round together: the quantizer has barriers.
  b_.For(b_.I32(0), end, b_.I32(kThreads), [&](Val first) {
    const Val quad = first + b_.Thread(), active = LtS(quad, end), at = MinS(quad, end - 1) << 4;
    std::vector<Val> values = Values(source, at, scale);
    const std::vector<Val> scales = quantizer_->Scales(values);
    for (int t = 0; t < spec_.terms; ++t) {
      std::vector<Val> rest;
      const Val of_term = scales[static_cast<size_t>(t)];
      const RoundedQuad rounded = quantizer_->Round(values, of_term, t + 1 < spec_.terms ? &rest : nullptr);
      const Val number = ShrU(quad, 3) + t * spec_.chunks();
      const Val to = Place(row, number), word = quad & 7;
      b_.If(active, [&] { b_.StoreShared(made_, to + word, rounded.word); });
      StoreNumbers(rounded, of_term, to, word, active);
      values = std::move(rest);
    }
  });
}

void MadeRows::StoreNumbers(const RoundedQuad& rounded, Val scale, Val to, Val word, Val active) {
  const Sums kind = SumsOf(spec_.format);
  const bool halves = !products_ || kind == Sums::kTwo;
  Val sum;
  if (halves) sum = quantizer_->HalfSum(rounded);
  if (products_ && kind != Sums::kNone)
    sum = b_.AsI32(scale * (halves ? b_.ToF32(sum) : quantizer_->Sum(rounded)));
  b_.If(active, [&] {
    b_.If(Eq(word, 0), [&] {
      b_.StoreShared(made_, to + kScaleWord, b_.AsI32(scale));
      if (sum && !halves) b_.StoreShared(made_, to + kSumWord, sum);
    });
    if (halves) b_.If(Eq(word & 3, 0), [&] { b_.StoreShared(made_, to + ShrU(word, 2) + kSumWord, sum); });
  });
}

std::vector<Val> MadeRows::Values(Val source, Val at, Val scale) const {
  if (scale) return NormQuad(b_, args_.x, source, args_.norm_weight, at, scale);
  const auto quad = [&](Val base, Val byte) {
    const Val v = b_.Load(Type::kF32x4, base, byte);
    return std::vector<Val>{b_.Extract(v, 0), b_.Extract(v, 1), b_.Extract(v, 2), b_.Extract(v, 3)};
  };
  std::vector<Val> values = quad(args_.x, source + at);
  if (!gated()) return values;
  const int head_bytes = 4 * static_cast<int>(spec_.norm_dim);
  const std::vector<Val> weights = quad(args_.norm_weight, RemU(at, head_bytes)),
                         gates = quad(args_.gate, source + at);
  const Val of_head = b_.LoadShared(head_scales_, DivU(at, head_bytes));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = GatedNormed(values[i], of_head, weights[i], gates[i]);
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

std::vector<Val> MadeRows::Quad(size_t row, Val from, int quad) const {
  return Values(sources_[row], from + 16 * quad, scales_[row]);
}

}  // namespace qcc::gpu
