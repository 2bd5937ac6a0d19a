// What the kernels of the delta rule share: the tokens of a step in one block of a sequence, and what these
// and those before them in the block are to one another. Private to gated_delta_*.cc.
#ifndef QCC_CODEGEN_GPU_KERNELS_GATED_DELTA_BLOCK_H_
#define QCC_CODEGEN_GPU_KERNELS_GATED_DELTA_BLOCK_H_

#include <optional>
#include <vector>

#include "codegen/gpu/kernels/builder.h"
#include "codegen/gpu/kernels/gated_delta.h"

namespace qcc::gpu {

// Of a token t and a value head, with g_i the product of the decays after token i of the block up to t,
// multiplied up one token at a time: floats
//   [15] -g_i (k_i.k_t); decay since the block's begin; [16] g_i (k_i.q_t); [16] g_i
// Of tokens i after t (of the first 15: from t on) they hold anything.
struct DeltaFactors {
  static constexpr int kKey = 0, kSinceBegin = 15, kQuery = 16, kDecay = 32, kCount = 48;
};

// Of a sequence in a step; places are i32, 0..15 in the block, and on into the next.
struct DeltaPiece {
  Val state;       // i64: where the block keeps S and its entries
  Val origin;      // row of the block's first token, had the step begun there
  Val begin, end;  // places of the step's tokens
  Val EndHere() const { return MinS(end, Const(end, kDeltaBlock)); }
};

// Where what was mixed of the step's rows lies: numbers of floats from `mixed` and `gates`, i32.
struct DeltaMixed {
  Val mixed, gates;  // i64
  // Of all rows and heads; else of the one row that there is what a workgroup mixed for itself.
  bool all = true;
  // Behind a mix that keeps: where as many rows again begin. Where two blocks of a sequence lie in one place,
  // the mix writes entries of the second over those of the first, which are still to be read: each row of a
  // second block has key and decay of the first one's entry at its place there.
  int replaced = 0;

  Val Query(const DeltaSpec& s, Val row, Val key_head) const;
  Val Key(const DeltaSpec& s, Val row, Val key_head) const;
  // `column`: of the workgroup's, which begin with `first` among the values of all heads.
  Val Value(const DeltaSpec& s, Val row, Val first, Val column) const;
  Val Decay(const DeltaSpec& s, Val row, Val head) const;
  Val Beta(const DeltaSpec& s, Val row, Val head) const;
};
// The part of DeltaMixRuleArgs::own that is workgroup `group`'s.
DeltaMixed OwnMixed(Builder& b, const DeltaSpec& s, Val own, Val group);

class DeltaBlock {
 public:
  // `threads` of a workgroup: kDeltaParts of them share a vector of key_dim numbers.
  DeltaBlock(Builder& b, const DeltaSpec& s, int threads, const DeltaMixed& mixed);

  int elements() const { return elements_; }
  // The vector that a thread has a part of, and which part; i32.
  Val vector() const { return vector_; }
  Val part() const { return part_; }
  // Which of a vector's numbers is the thread's number `i`.
  Val Number(int i) const { return part_ * width_ + Offset(i); }

  // The thread's numbers of the key of a head at a place before the piece's end.
  std::vector<Val> Key(const DeltaPiece& piece, Val key_head, Val place) const;
  // Byte offset of a float of a token's entry, from DeltaPiece::state.
  Val EntryAt(Val place, int64_t first) const;
  Val EntryAt(Val place, Val number, int64_t first) const { return EntryAt(place, first) + (number << 2); }

  // The products of each vector with keys and queries of tokens first, first + 1, ..., four or `tokens` of
  // them, before the piece's end: part p gets that of token first + p % 4, by the key for p < 4, by the query
  // for others. Adds in one order whatever `tokens` and the workgroup are. All threads call; `scratch` has
  // ScratchWords() from `at` on, and from `rows_at` on, where there are such, rows that StoreRows left.
  Val Products(const std::vector<Val>& own, const DeltaPiece& piece, Val key_head, Val first, int tokens,
               const Shared& scratch, int at, std::optional<int> rows_at) const;
  int ScratchWords() const;

  // Keys and queries of the piece's tokens in workgroup memory: [place][key, query][key_dim]. ptxas computes
  // with one loaded vector before it asks for the next, whatever PTX says, and of those few subgroups that a
  // multiprocessor has each then waits 32 times for four tokens; so they are loaded side by side into memory
  // that is near. 16 KiB for heads of 128. In two steps: the thread's quads, and where they go.
  bool CanStageRows() const;
  int RowWords() const { return 2 * kDeltaBlock * s_.key_dim; }
  std::vector<Val> LoadRows(const DeltaPiece& piece, Val key_head) const;
  void StoreRows(const std::vector<Val>& quads, const Shared& memory, int at) const;
  // The thread's numbers of the key of the piece's token at `place`, from there.
  std::vector<Val> StagedKey(Val place, const Shared& memory, int at) const {
    return LoadStaged(memory, place * (2 * s_.key_dim) + at);
  }

  // Stores the decays of the block's tokens up to the piece's end: words at .. at + 15. Threads 0 to 15 do.
  void StageDecays(const DeltaPiece& piece, Val head, const Shared& memory, int at) const;
  // From these, after a barrier, kDecay and kSinceBegin of the factors of all 16 tokens, which begin at word
  // `to`. Threads 0 to 16 do.
  void StoreDecays(const Shared& memory, int at, const Shared& factors, int to) const;

 private:
  // Whether the key and decay of the token at `place` are in its entry; else in which row they were mixed.
  struct Place {
    Val in_entry, row;
  };
  Place PlaceOf(const DeltaPiece& piece, Val place) const;
  int Offset(int i) const { return i / width_ * width_ * kDeltaParts + i % width_; }
  std::vector<Val> Load(Val base, Val first) const;
  std::vector<Val> LoadStaged(const Shared& memory, Val first) const;

  Builder& b_;
  const DeltaSpec& s_;
  const int threads_, elements_, width_;  // width_: loaded at once
  const DeltaMixed mixed_;
  const Val vector_, part_;
};

}  // namespace qcc::gpu

#endif  // QCC_CODEGEN_GPU_KERNELS_GATED_DELTA_BLOCK_H_
