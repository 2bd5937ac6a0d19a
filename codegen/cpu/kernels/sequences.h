// Which sequence a row of the step belongs to. Kernels only.
#ifndef QCC_CODEGEN_CPU_KERNELS_SEQUENCES_H_
#define QCC_CODEGEN_CPU_KERNELS_SEQUENCES_H_

#include "codegen/cpu/kernels/limits.h"
#include "codegen/cpu/kernels/vec.h"
#include "runtime/abi/program.h"

namespace qk {

// The sequences cover all rows in order (program.h), so the search ends.
QK_INLINE int64_t sequence_index(const qrt_seq* seqs, int64_t n_seqs, int64_t row) {
  int64_t s = 0;
  while (s + 1 < n_seqs && row >= seqs[s + 1].row_begin) ++s;
  return s;
}
QK_INLINE const qrt_seq& sequence_of_row(const qrt_seq* seqs, int64_t n_seqs, int64_t row) {
  return seqs[sequence_index(seqs, n_seqs, row)];
}

}  // namespace qk

#endif  // QCC_CODEGEN_CPU_KERNELS_SEQUENCES_H_
