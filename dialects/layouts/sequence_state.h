// The recurrent state of one sequence, as a function of position. Stand-alone and constexpr: kernels see no
// library.
//
// Tokens are taken in blocks of kStateBlock by position: token p lies in block p / 16, at place p % 16. A
// state is an area of memory that blocks take in turn: even blocks lie at the area, odd ones `odd_offset`
// bytes behind it (runtime/abi/program.h). With odd_offset 0 both are the same bytes: less memory, but no way
// back.
//
// conv: the convolution's inputs f32 [16][channels], column p at place p % 16 of p's block. Of positions
// before the first token: zeros.
// delta: S f32 [value_heads][key_dim][value_dim], the state before the block's first token B, then 16 entries
// of DeltaEntry::floats, what each token of the block wrote: k f32 [key_heads][key_dim] (normalised), u f32
// [value_heads][value_dim], d f32 [value_heads] (its decay). The state before token t of the block is
//   D(B..t-1) S + sum over i in B..t-1, ascending, of D(i+1..t-1) k_i u_i^T
// with D(i..j) the product of the decays of i..j, multiplied up one token at a time (the WY form, kept
// lazily; Yang et al., "Parallelizing Linear Transformers with the Delta Rule over Sequence Length", 2024).
// With the last token of a block the sum becomes the S of the next one.
#ifndef QCC_DIALECTS_LAYOUTS_SEQUENCE_STATE_H_
#define QCC_DIALECTS_LAYOUTS_SEQUENCE_STATE_H_

#include <stdint.h>

namespace qcc::layouts {

inline constexpr int64_t kStateBlock = 16;  // tokens

// Where the numbers of an entry lie, in floats; entries follow one another, each 64-byte aligned from S on.
struct DeltaEntry {
  int64_t k, u, d, floats;
  constexpr DeltaEntry(int64_t key_heads, int64_t value_heads, int64_t key_dim, int64_t value_dim)
      : k(0),
        u(key_heads * key_dim),
        d(u + value_heads * value_dim),
        floats((d + value_heads + 15) / 16 * 16) {}
};

// Floats of S, behind which the entries begin. Dimensions are multiples of 8, so that 64 divides its bytes.
constexpr int64_t DeltaSlotFloats(int64_t value_heads, int64_t key_dim, int64_t value_dim) {
  return value_heads * key_dim * value_dim;
}

}  // namespace qcc::layouts

#endif  // QCC_DIALECTS_LAYOUTS_SEQUENCE_STATE_H_
