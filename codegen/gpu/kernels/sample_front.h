// The searches of a draw: what top-k and top-p keep.
#ifndef QCC_CODEGEN_GPU_KERNELS_SAMPLE_FRONT_H_
#define QCC_CODEGEN_GPU_KERNELS_SAMPLE_FRONT_H_

#include "codegen/gpu/kernels/sample_row.h"

namespace qcc::gpu::sample {

// The range with the key of a token, where that may be chosen.
KeyRange WithToken(Row& row, const KeyRange& range, Val id, Val key);
// The penalties of this chunk's tokens, on the keys in scratch, which others of the workgroup may have
// written: a barrier before. `count`: of the row's penalties.
void Penalize(Row& row, Val count);

// The launches of sample_row.h; `digit`: 0 .. kCountDigits - 1, kMassDigits - 1.
void EmitKeys(Builder& b, const Layout& l);
void EmitCount(Builder& b, const Layout& l, int digit);
void EmitMass(Builder& b, const Layout& l, int digit);

// The last key that top-k and top-p keep, and of how many tokens with it; for the launch after the last
// EmitMass. All threads of the workgroup must call; `highest` is a finite key.
struct FrontEnd {
  Val key, ties;
};
FrontEnd EndOfFront(Row& row, Val highest);

}  // namespace qcc::gpu::sample

#endif  // QCC_CODEGEN_GPU_KERNELS_SAMPLE_FRONT_H_
