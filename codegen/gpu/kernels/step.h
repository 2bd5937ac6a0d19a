// Reading the step block (runtime/abi/gpu_step.h) in kernels. Its parts come as arguments of their own, so
// that no kernel depends on the most rows of an artifact.
#ifndef QCC_CODEGEN_GPU_KERNELS_STEP_H_
#define QCC_CODEGEN_GPU_KERNELS_STEP_H_

#include <cstddef>

#include "codegen/gpu/kernels/builder.h"
#include "codegen/gpu/kernels/launch.h"
#include "runtime/abi/gpu_step.h"

namespace qcc::gpu {

// ---- arguments ----

// The header and the entries behind it.
inline Arg StepArg(const Expansion& expansion) {
  return {Space::kStep, 0, qrt_gpu_entries_end(static_cast<uint64_t>(expansion.max_rows()))};
}
// From the first entry's field at `offset` on, a field of `bytes` of each.
inline Arg EntriesArg(const Expansion& expansion, size_t offset, uint64_t bytes) {
  const uint64_t last = static_cast<uint64_t>(expansion.max_rows()) - 1;
  return {Space::kStep, qrt_gpu_entries_offset() + offset, last * sizeof(qrt_gpu_entry) + bytes};
}
inline Arg StepSeqsArg(const Expansion& expansion) {
  return EntriesArg(expansion, offsetof(qrt_gpu_entry, seq), sizeof(qrt_gpu_seq));
}
inline Arg StepOutsArg(const Expansion& expansion) {
  return EntriesArg(expansion, offsetof(qrt_gpu_entry, out_row), sizeof(uint32_t));
}
inline Arg StepSamplesArg(const Expansion& expansion) {
  return EntriesArg(expansion, offsetof(qrt_gpu_entry, sample), sizeof(qrt_gpu_sample));
}
// The whole block: the penalties begin where it says.
inline Arg StepPenaltiesArg(const Expansion& expansion) {
  return {Space::kStep, 0, qrt_gpu_step_bytes(static_cast<uint64_t>(expansion.max_rows()))};
}

// ---- in kernels: `step`, `seqs`, `outs` are the values of those arguments; rows and indices are i32 ----

inline Val StepWord(Val base, size_t offset) {
  return base.builder()->Load(Type::kI32, base, base.builder()->I32(static_cast<int32_t>(offset)));
}
inline Val StepRows(Val step) {
  return StepWord(step, offsetof(qrt_gpu_step, n_rows));
}
inline Val StepSeqs(Val step) {
  return StepWord(step, offsetof(qrt_gpu_step, n_seqs));
}
inline Val StepOuts(Val step) {
  return StepWord(step, offsetof(qrt_gpu_step, n_out));
}

inline Val RowWord(Val step, Val row, size_t offset) {
  const uint64_t at = qrt_gpu_entries_offset() + offsetof(qrt_gpu_entry, row) + offset;
  return step.builder()->Load(Type::kI32, step, row * sizeof(qrt_gpu_entry) + at);
}
inline Val RowToken(Val step, Val row) {
  return RowWord(step, row, offsetof(qrt_gpu_row, token));
}
inline Val RowSeq(Val step, Val row) {
  return RowWord(step, row, offsetof(qrt_gpu_row, seq));
}
inline Val RowPosition(Val step, Val row) {
  return RowWord(step, row, offsetof(qrt_gpu_row, position));
}
// `stream`: 0..3 for t, h, w, e.
inline Val RowRope(Val step, Val row, int stream) {
  return RowWord(step, row, offsetof(qrt_gpu_row, rope) + 4 * static_cast<size_t>(stream));
}

inline Val SeqField(Type type, Val seqs, Val seq, size_t offset) {
  return seqs.builder()->Load(type, seqs, seq * sizeof(qrt_gpu_entry) + offset);
}
inline Val SeqState(Val seqs, Val seq) {  // i64: device address
  return SeqField(Type::kI64, seqs, seq, offsetof(qrt_gpu_seq, state));
}
// Where an area of a sequence's state (dialects/layouts/sequence_state.h) keeps blocks of tokens; i64.
struct SeqStateBlocks {
  Val even, odd_offset;
  // `block`: its number, i32; -1 for the one before the first token.
  Val Of(Val block) const { return Select(Eq(block & 1, 0), even, even + odd_offset); }
  // Whether all blocks lie in one place.
  Val Shared() const { return Eq(odd_offset, 0); }
};
// `offset`: of the area in the state, i64.
inline SeqStateBlocks SeqStates(Val seqs, Val seq, Val offset) {
  return {SeqState(seqs, seq) + offset, SeqField(Type::kI64, seqs, seq, offsetof(qrt_gpu_seq, odd_offset))};
}
inline Val SeqKv(Val seqs, Val seq) {  // i64: device address
  return SeqField(Type::kI64, seqs, seq, offsetof(qrt_gpu_seq, kv));
}
inline Val SeqCapacity(Val seqs, Val seq) {  // i64: tokens
  return SeqField(Type::kI64, seqs, seq, offsetof(qrt_gpu_seq, kv_capacity));
}
inline Val SeqPast(Val seqs, Val seq) {
  return SeqField(Type::kI32, seqs, seq, offsetof(qrt_gpu_seq, past));
}
inline Val SeqRowBegin(Val seqs, Val seq) {
  return SeqField(Type::kI32, seqs, seq, offsetof(qrt_gpu_seq, row_begin));
}
inline Val SeqRowCount(Val seqs, Val seq) {
  return SeqField(Type::kI32, seqs, seq, offsetof(qrt_gpu_seq, row_count));
}

// What a kernel wants of a sequence, asked for at once: a thread of a decode kernel waits for each load that
// follows from another.
struct SeqFields {
  Val row_begin, row_count, past, state, odd_offset;
  // As SeqStates.
  SeqStateBlocks Blocks(Val offset) const { return {state + offset, odd_offset}; }
};
inline SeqFields LoadSeq(Val seqs, Val seq) {
  SeqFields fields = {SeqRowBegin(seqs, seq), SeqRowCount(seqs, seq), SeqPast(seqs, seq), SeqState(seqs, seq),
                      SeqField(Type::kI64, seqs, seq, offsetof(qrt_gpu_seq, odd_offset))};
  seqs.builder()->BeginLoads();
  return fields;
}

// The address of the table of penalties; `block`: of the whole block.
inline Val StepPenalties(Val block) {
  return block + block.builder()->ExtendU(StepWord(block, offsetof(qrt_gpu_step, penalties_at)));
}

// The row behind row `index` of logits.
inline Val OutRow(Val outs, Val index) {
  return outs.builder()->Load(Type::kI32, outs, index * sizeof(qrt_gpu_entry));
}

}  // namespace qcc::gpu

#endif  // QCC_CODEGEN_GPU_KERNELS_STEP_H_
