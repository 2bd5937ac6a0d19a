// The rows of x as the threads of a linear kernel read them: as they lie in memory, or as the workgroup made
// them.
#ifndef QCC_CODEGEN_GPU_KERNELS_LINEAR_INPUT_H_
#define QCC_CODEGEN_GPU_KERNELS_LINEAR_INPUT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "codegen/gpu/kernels/linear.h"
#include "codegen/gpu/kernels/norm.h"
#include "codegen/gpu/kernels/reduce.h"
#include "codegen/gpu/kernels/row_quantizer.h"

namespace qcc::gpu {

// Which sums of a row's codes a chunk's minima need: of all 32 columns, or of each scale's.
enum class Sums : uint8_t { kNone, kOne, kTwo };
Sums SumsOf(Format format);

// 32 columns of one int8 row.
struct Int8Chunk {
  std::vector<Val> codes;  // 8 words
  Val scale, sums[2];
};

class LinearInput {
 public:
  virtual ~LinearInput() = default;
  virtual size_t rows() const = 0;
  // int8: chunk `number` of a row's first term, or behind those of it of the second.
  virtual Int8Chunk Chunk(size_t row, Val number) const = 0;
  // f32: the four columns at byte `from` + 16 * quad of a row: loads what they are made of, and makes them
  // when the result is called.
  using Quad = std::function<std::vector<Val>()>;
  virtual Quad LoadQuad(size_t row, Val from, int quad) const = 0;
};

// The four f32 `more` bytes behind byte `at`.
std::vector<Val> LoadFour(Builder& b, Val base, Val at, int32_t more);

class StoredRows final : public LinearInput {
 public:
  StoredRows(Builder& b, const LinearSpec& spec, const LinearArgs& args, std::vector<XRow> rows)
      : b_(b), spec_(spec), x_(args.x), rows_(std::move(rows)) {}
  size_t rows() const override { return rows_.size(); }
  Int8Chunk Chunk(size_t row, Val number) const override;
  Quad LoadQuad(size_t row, Val from, int quad) const override;

 private:
  Builder& b_;
  const LinearSpec& spec_;
  const Val x_;
  const std::vector<XRow> rows_;
};

// Rows that the workgroup makes (LinearSpec::making) of those at args.x: int8 rows in workgroup memory; of
// f32 rows only what they are multiplied by, each reader multiplies anew.
class MadeRows final : public LinearInput {
 public:
  // `later`: words of workgroup memory that the workgroup needs when it has read the rows. Int8 rows are
  // large: they lie there.
  // `products`: for Product instead of sums of codes.
  MadeRows(Builder& b, const LinearSpec& spec, const LinearArgs& args, int rows, int later, bool products);
  // With the later ones, which lie elsewhere where the rows are read in several rounds.
  static int SharedWords(const LinearSpec& spec, const Profile& profile, int rows, int later);
  // Where int8 rows are; null for others. All threads have read them before something is stored there.
  const Shared* Reusable() const { return spec_.int8 ? &made_ : nullptr; }

  // All threads of the workgroup call, ahead of the first that reads.
  void Make();
  size_t rows() const override { return static_cast<size_t>(count_); }
  Int8Chunk Chunk(size_t row, Val number) const override;
  Quad LoadQuad(size_t row, Val from, int quad) const override;
  // Of int8 rows, a chunk of row `row` (i32), which a thread has of its own: word `word` (i32) of the codes,
  // the scale, and the scale times a sum of codes, of those that SumsOf the format says.
  Val Code(Val row, Val number, Val word) const;
  Val Scale(Val row, Val number) const;
  Val Product(Val row, Val number, int sum) const;
  // Of f32 rows: where row `row` (i32) comes from, and the four columns at byte `at` of it.
  struct F32Row {
    Val source, scale;
  };
  F32Row Of(Val row) const;
  std::vector<Val> Four(const F32Row& row, Val at) const {
    return Values(LoadWords(row.source, at), at, row.scale, 0);
  }

 private:
  bool norms() const { return spec_.making == Making::kNormed; }
  bool gated() const { return spec_.making == Making::kGatedNormed; }
  // Of the rows at bytes `sources` of x, what each head is multiplied by.
  void MakeHeadScales(const std::vector<Val>& sources);
  // From one row to the next.
  static int RowWords(const LinearSpec& spec, const Profile& profile, int rows);
  Val Place(Val row, Val number) const;
  TurnQuad OfTurn(Val first) const { return QuadOfTurn(b_, b_.Thread(), first, spec_.k); }
  // Four columns of a row as they lie in memory; gate: kGatedNormed.
  struct Words {
    NormWords norm;
    Val gate;
  };
  Words LoadWords(Val source, Val at) const;
  // As values that a loop carries, and back: x, and the others where there are such.
  void AppendWords(const Words& words, std::vector<Val>& to) const;
  Words WordsAt(const std::vector<Val>& loaded, size_t at) const;
  // [turn][row]: what is made of the rows at `sources`, where a thread keeps it (KeepsQuads).
  std::vector<Words> KeepWords(const std::vector<Val>& sources) const;
  // Of each row, what its norm multiplies by.
  std::vector<Val> Scales(const std::vector<Val>& sources, const std::vector<Words>& kept);
  // Rows `row`, row + 1, ...
  void Round(Val row, const std::vector<Val>& sources, const std::vector<Val>& scales,
             const std::vector<Words>& kept);
  // words: of each row.
  void RoundTurn(Val row, const TurnQuad& quad, const Words* words, const std::vector<Val>& scales);
  // Of four columns of a row, which a chunk's word is made of, what goes to workgroup memory.
  struct Numbers {
    Val code, scale, sum;  // sum: null for none
  };
  Numbers NumbersOf(const RoundedQuad& rounded, Val scale);
  // `word`: of the chunk at word `to`.
  void Store(const Numbers& numbers, Val to, Val word);
  bool SumsHalves() const { return !products_ || SumsOf(spec_.format) == Sums::kTwo; }
  // Of the `row`th of the rows that are made at a time the four columns at byte `at`, normed where rows are.
  std::vector<Val> Values(const Words& words, Val at, Val scale, int row) const;

  Builder& b_;
  const LinearSpec& spec_;
  const LinearArgs& args_;
  const int count_, at_once_, row_words_, threads_;
  const Val norm_thread_;  // the thread's index among its kNormThreads
  const bool products_;
  std::optional<Reducer> reducer_;
  std::optional<RowQuantizer> quantizer_;
  Shared made_;         // [row]: int8: chunks; f32: the norm's scale
  Shared head_scales_;  // kGatedNormed: of the rows that are made
  std::vector<F32Row> f32_rows_;
};

}  // namespace qcc::gpu

#endif  // QCC_CODEGEN_GPU_KERNELS_LINEAR_INPUT_H_
