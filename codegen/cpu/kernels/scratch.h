// What kernels need of their thread's scratch (`scratch` of their arguments): arrays that are too large for a
// thread's stack (QRT_STEP_STACK_BYTES); and of the scratch that threads share (`shared_scratch`), for what
// one leaves to another. The kernels cut them from it, the compiler says in the artifact how many bytes the
// largest takes (qrt_code_header). Stand-alone: also included by the kernels, which see no library.
#ifndef QCC_CODEGEN_CPU_KERNELS_SCRATCH_H_
#define QCC_CODEGEN_CPU_KERNELS_SCRATCH_H_

#include <stdint.h>

#include "codegen/cpu/kernels/limits.h"
#include "dialects/formats/descriptions.h"
#include "dialects/layouts/int8_row.h"
#include "dialects/layouts/sequence_state.h"
#include "dialects/layouts/x16.h"
#include "runtime/abi/integer_row.h"

namespace qcc::cpu {

// Multiples of 64.
struct ScratchBytes {
  int64_t thread = 0;  // of each
  int64_t shared = 0;  // of all together
};

// Floats at offsets that are multiples of 64 bytes, one array after the other.
constexpr int64_t ScratchArray(int64_t floats) {
  return (4 * floats + 63) / 64 * 64;
}

// linear with int8 rows, `terms` of k columns each, in programs of many rows: a group of weights, or one of
// each of a pair, with codes unpacked and scales decoded, once for all rows, and what starts each integer
// sum.
//
// A panel is the chunks (32 columns) of a group, left to right; a chunk, for each of its 16 matrix rows:
// codes u8 or i8 [8 words][16][4 columns], then f32 scale[sums][16] (the integer scales alone of formats
// whose chunks share a base) and, where the format has minima, shift[sums][16]. Behind all chunks, where they
// share a base: f32 base[k / block][16]. sums: 1, or 2 where a scale has 16 columns. starts i32 [rows][k / 32
// * sums]. weighted, of formats with minima, f32 the same: what these are multiplied by. products i32
// [ProductRing][16 rows][16], of a chunk [terms][sums] of them: what a matrix unit has made. tiles: the rows
// as it takes them, MatrixRowChunk [rows / 16][columns / 32].
//
// kScaled, of levels that multiply sums of two products by 16 bits: scale i16 [sums][16][2], each integer
// twice, and where codes are taken above the lowest value, in the place of shift, low i16 [16][2]: that value
// times the scale of columns 0..15 and of columns 16..31; starts i16 [rows][k / 32 * sums][2], of each chunk
// the first: the sums of x's codes over these columns.
//
// kWide, of levels that multiply pairs of 16 bits faster than bytes: codes i16 [8 words][even, odd
// columns][16][2], and `wide` i16 [rows][k / 32][even, odd columns][8 words][2]: the rows, their terms
// joined.
//
// Where a panel has only some of the columns (kPartColumns), those of its rows lie with it in the first-level
// cache; `sums` f32 [kPartGroups][rows][16] are what earlier columns gave. Levels with a matrix unit keep
// those of all columns, too.
enum class PanelCodes { kBytes, kScaled, kWide };

// Enough for any kind of codes: which of them a level takes is its own.
template <class BytesOf>
constexpr int64_t MostBytes(BytesOf bytes_of) {
  constexpr PanelCodes kAll[] = {PanelCodes::kBytes, PanelCodes::kScaled, PanelCodes::kWide};
  int64_t most = 0;
  for (const PanelCodes codes : kAll) {
    const int64_t bytes = bytes_of(codes);
    most = bytes > most ? bytes : most;
  }
  return most;
}

// Of 32 columns of 16 rows, as a matrix unit takes them: i8 [terms][16][32], f32 scale[16] and, of formats
// with minima, f32 weighted[sums][16].
struct MatrixRowChunk {
  static constexpr int64_t kRows = 16, kCodes = kRows * layouts::kChunkColumns;

  int64_t scale_at, weighted_at, bytes;
  constexpr MatrixRowChunk(const PlainForm& form, int64_t terms)
      : scale_at(terms * kCodes),
        weighted_at(scale_at + 4 * kRows),
        bytes(weighted_at + (form.minimum == Minimum::kNone ? 0 : 4 * kRows * Sums(form))) {}

  static constexpr int64_t Sums(const PlainForm& form) { return form.columns_per_scale == 16 ? 2 : 1; }
};

struct LinearScratch {
  static constexpr int64_t kRowBytes = 512
                                       << 10;   // of the rows that pass a panel while they stay in the cache
  static constexpr int64_t kRowsTogether = 16;  // a multiple of every level's tile
  static constexpr int64_t kProducts = 16 * layouts::kGroupRows;  // of 16 rows
  // Of so many of a chunk, those that are there at a time.
  static constexpr int64_t ProductRing(int64_t each) { return 4 * each; }
  // Columns up to which a panel has all of them, and of the parts of more.
  static constexpr int64_t kWholeColumns = 1024;
  static constexpr int64_t kPartColumns = 512;  // a multiple of every run of tiles
  // Rows that lie a power of two apart still find room in the second-level cache.
  static constexpr int64_t kPartRows = 256;
  static constexpr int64_t kPartGroups = 32;  // that pass some columns before the next

  int64_t columns;                    // of a panel
  int64_t scale_at, shift_at, chunk;  // bytes in a chunk, and of one
  int64_t base_at;                    // in a panel
  int64_t rows;                       // that are taken together
  int64_t panel, pair;                // offsets
  // The first two of at most as many rows and a tile, `wide`, `sums` and `tiles` too.
  int64_t starts, weighted, products, wide, sums, tiles, bytes;
  constexpr LinearScratch(const PlainForm& form, int64_t k, int64_t terms, PanelCodes codes,
                          int64_t most_columns, bool keeps)
      : columns(k < most_columns ? k : most_columns),
        scale_at((codes == PanelCodes::kWide ? 16 : 8) * layouts::kVectorBytes),
        shift_at(scale_at + layouts::kVectorBytes * Sums(form)),
        chunk(shift_at + layouts::kVectorBytes * Shifts(form, codes)),
        base_at(columns / layouts::kChunkColumns * chunk),
        rows(keeps ? kPartRows
                   : RowsTogether(codes == PanelCodes::kWide ? WideRowBytes(k)
                                                             : layouts::Int8RowBytes(terms * k))),
        panel(0),
        pair(base_at + (form.bases() == 1 ? columns / form.block * layouts::kVectorBytes : 0)),
        starts(2 * pair),
        weighted(starts + ScratchArray(MostRows() * Starts(form, columns))),
        products(weighted + (form.minimum == Minimum::kNone ? 0 : weighted - starts)),
        wide(products + ScratchArray(ProductRing(terms * Sums(form)) * kProducts)),
        sums(wide + (codes == PanelCodes::kWide ? MostRows() * WideRowBytes(columns) : 0)),
        tiles(sums + (keeps ? ScratchArray(kPartGroups * SumsStride()) : 0)),
        bytes(tiles + (keeps ? MostRows() / MatrixRowChunk::kRows * (columns / layouts::kChunkColumns) *
                                   MatrixRowChunk(form, terms).bytes
                             : 0)) {}

  static constexpr int64_t Bytes(const PlainForm& form, int64_t k, int64_t terms) {
    return MostBytes([&](PanelCodes codes) {
      const int64_t whole = LinearScratch(form, k, terms, codes, k, false).bytes;
      const int64_t most = k <= kWholeColumns ? kWholeColumns : kPartColumns;
      const int64_t kept = LinearScratch(form, k, terms, codes, most, true).bytes;
      return whole > kept ? whole : kept;
    });
  }

  constexpr int64_t MostRows() const { return rows + kRowsTogether; }
  // Floats from a group's sums to the next one's.
  constexpr int64_t SumsStride() const { return MostRows() * layouts::kGroupRows; }

  static constexpr int64_t Sums(const PlainForm& form) { return MatrixRowChunk::Sums(form); }
  static constexpr int64_t Shifts(const PlainForm& form, PanelCodes codes) {
    if (form.minimum != Minimum::kNone) return Sums(form);
    return codes == PanelCodes::kScaled && form.low() != 0 ? 1 : 0;
  }
  // Of a row.
  static constexpr int64_t Starts(const PlainForm& form, int64_t k) {
    return k / layouts::kChunkColumns * Sums(form);
  }
  static constexpr int64_t WideRowBytes(int64_t k) { return 2 * k; }
  static constexpr int64_t RowsTogether(int64_t row_bytes) {
    const int64_t fit = kRowBytes / row_bytes / kRowsTogether * kRowsTogether;
    return fit < kRowsTogether ? kRowsTogether : fit;
  }
};

// moe_linear with int8 rows: what linear has, and the rows of an expert, one behind the other as rows of k
// columns, with where the results of each go.
struct ExpertScratch {
  struct Target {
    float* y;
    float weight;
  };
  LinearScratch panels;
  int64_t gathered, targets, bytes;  // offsets; of panels.rows each
  constexpr ExpertScratch(const PlainForm& form, int64_t k, PanelCodes codes)
      : panels(form, k, 1, codes, k, false),
        gathered(panels.bytes),  // rows, or tiles of them, which take no more
        targets(gathered + panels.rows * layouts::Int8RowBytes(k)),
        bytes(targets + ScratchArray(panels.rows * static_cast<int64_t>(sizeof(Target) / 4))) {}

  static constexpr int64_t Bytes(const PlainForm& form, int64_t k) {
    return MostBytes([&](PanelCodes codes) { return ExpertScratch(form, k, codes).bytes; });
  }
};

// A row's attention in parts: positions of the cache whose sums are made apart and then folded, one after the
// other. How long they are depends on the row's position only, so that its bits do not depend on whether one
// thread makes all of them or several share them. Long enough that what a part leaves (head_dim floats a
// query head) is little beside what it reads; as many as keep 32 threads busy with two kv heads.
struct AttentionParts {
  static constexpr int64_t kMost = 32;    // parts
  static constexpr int64_t kLeast = 512;  // positions; a multiple of every tile

  // Positions of a part of a row that sees `seen` of them: a power of two.
  static constexpr int64_t Positions(int64_t seen) {
    int64_t positions = kLeast;
    while (kMost * positions < seen) positions *= 2;
    return positions;
  }
  static constexpr int64_t Count(int64_t seen) { return (seen + Positions(seen) - 1) / Positions(seen); }
};

// What the parts of few rows leave for a fold by other threads, in the scratch that all threads share, for
// each of [rows][q_heads][kMost]: f32 values[head_dim], then, from `top` on, the greatest score and the sum
// of weights.
struct SharedAttentionScratch {
  static constexpr int64_t kRows = 8;  // of programs whose threads share parts
  int64_t top, stride, bytes;          // the first two in floats, from one part to the next
  constexpr SharedAttentionScratch(int64_t rows, int64_t q_heads, int64_t head_dim)
      : top(ScratchArray(head_dim) / 4),
        stride(top + 16),
        bytes(4 * rows * q_heads * AttentionParts::kMost * stride) {}
};

// attention in f32, for `group` query heads of a kv head: queries, sums of a part and of all parts of the
// rows that are taken together, keys and values of a tile.
struct F32AttentionScratch {
  static constexpr int64_t kTile = 32;     // cache positions per step of the softmax
  static constexpr int64_t kRows = 8;      // rows that share a tile
  static constexpr int64_t kQueries = 64;  // rows * group stay within
  static_assert(kQueries >= kMaxQueryGroup);

  static constexpr int64_t Rows(int64_t group) { return kQueries / group < kRows ? kQueries / group : kRows; }
  int64_t query, acc, total, k, v, bytes;  // offsets
  constexpr F32AttentionScratch(int64_t head_dim, int64_t group)
      : query(0),
        acc(query + ScratchArray(Rows(group) * group * head_dim)),
        total(acc + ScratchArray(Rows(group) * group * head_dim)),
        k(total + ScratchArray(Rows(group) * group * head_dim)),
        v(k + ScratchArray(kTile * head_dim)),
        bytes(v + ScratchArray(kTile * head_dim)) {}
};

// attention over a cache of integers: the same, keys and values as pairs of integers.
struct Int16AttentionScratch {
  static constexpr int64_t kTile = qrt::IntegerRow::kTile;
  // Rows that share a tile, which is brought into pairs once for all of them.
  static constexpr int64_t kRows = 32;
  static constexpr int64_t kQueries = 128;
  static_assert(kQueries >= kMaxQueryGroup);
  // Multiples of every level's tile.
  static constexpr int64_t kQueriesTogether = 8, kColumns = 32;
  static constexpr int64_t kMostQueries = kQueries + kQueriesTogether;

  static constexpr int64_t Rows(int64_t group) { return kQueries / group < kRows ? kQueries / group : kRows; }
  int64_t width;  // of a row of values
  int64_t keys, values, queries, acc, total, bytes;
  constexpr Int16AttentionScratch(int64_t head_dim, int64_t group)
      : width((head_dim + kColumns - 1) / kColumns * kColumns),
        keys(0),
        values(keys + ScratchArray(head_dim / 2 * kTile)),
        queries(values + ScratchArray(kTile / 2 * width)),
        acc(queries + ScratchArray((Rows(group) * group + kQueriesTogether) * head_dim / 2)),
        total(acc + ScratchArray((Rows(group) * group + kQueriesTogether) * width)),
        bytes(total + ScratchArray(Rows(group) * group * head_dim)) {}
};

// gated_delta: the arrays of a block of tokens (DeltaBlock).
struct DeltaScratch {
  static constexpr int64_t kBlock = layouts::kStateBlock;

  int64_t q, k, v, r, o, u, pairs, tokens, bytes;  // offsets; pairs: four [16][16], tokens: four [16]
  constexpr DeltaScratch(int64_t key_dim, int64_t value_dim)
      : q(0),
        k(q + ScratchArray(kBlock * key_dim)),
        v(k + ScratchArray(kBlock * key_dim)),
        r(v + ScratchArray(kBlock * value_dim)),
        o(r + ScratchArray(kBlock * value_dim)),
        u(o + ScratchArray(kBlock * value_dim)),
        pairs(u + ScratchArray(kBlock * value_dim)),
        tokens(pairs + ScratchArray(4 * kBlock * kBlock)),
        bytes(tokens + ScratchArray(4 * kBlock)) {}
};

}  // namespace qcc::cpu

#endif  // QCC_CODEGEN_CPU_KERNELS_SCRATCH_H_
