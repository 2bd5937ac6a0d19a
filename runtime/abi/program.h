/* The contract between compiled CPU code and the runtime that calls it. Stand-alone C: included by the
 * runtime, by the kernels (which see no libc) and by the compiler; must not depend on any of them.
 *
 * A program is ONE function, entered by all threads of a step together; it splits work by `thread`, with a
 * rest that goes to whoever comes first, and meets at barriers inside. It allocates nothing, calls nothing
 * but `wait` and `wake`, and keeps no state of its own. What is large it puts into its thread's scratch: of a
 * thread's stack it takes little, and the compiler checks that (QRT_STEP_STACK_BYTES). */
#ifndef QRT_ABI_PROGRAM_H_
#define QRT_ABI_PROGRAM_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bump when any struct below changes, or the end of the section (QBIN_BASIS_BYTES): part of the artifact's
 * code section, checked at load. */
#define QRT_PROGRAM_ABI 9u

/* The most that a step takes of the stack of each thread that runs it, callbacks of the barrier included. */
#define QRT_STEP_STACK_BYTES 16384u
/* Of which the callbacks have this much. */
#define QRT_STEP_CALLBACK_STACK_BYTES 2048u
/* The most scratch that code may ask for, for each thread. */
#define QRT_MAX_THREAD_SCRATCH (16u << 20)
/* And for all threads of a step together. */
#define QRT_MAX_SHARED_SCRATCH (256u << 20)

/* How many dispatches between two barriers have their work shared out as threads come. */
#define QRT_TICKETS 15
/* Up to so many threads of a step take what is theirs without a look at a line that others write. */
#define QRT_SHARING_THREADS 8u
/* The pieces at the end of a thread's share that others may take. */
#define QRT_SHARE_PIECES 4

/* What is taken of a thread's share of each dispatch, a cache line: a bit for each piece, and above them the
 * `phase` of which that is said, without its highest bits: of another, nothing is taken. */
typedef struct qrt_share_taken {
  uint32_t pieces[QRT_TICKETS];
  uint32_t pad;
} qrt_share_taken;

/* Barrier of one step. Zeroed by the runtime when the thread pool is made; reused for every step. */
typedef struct qrt_barrier {
  uint32_t arrived;              /* threads that reached the current barrier */
  uint32_t tickets[QRT_TICKETS]; /* counters of more than QRT_SHARING_THREADS; zeroed by the last to arrive,
                                  * and by the runtime ahead of a step. With `arrived` a cache line: every
                                  * thread writes these, all spin on `phase` */
  uint32_t phase;                /* incremented by the last thread to arrive */
  uint8_t pad1[60];
  void (*wait)(void* ctx, const uint32_t* phase,
               uint32_t seen); /* called after a bounded spin; returns when *phase != seen */
  void (*wake)(void* ctx, const uint32_t* phase); /* called by the last arriver when `sleepers` != 0 */
  void* ctx;
  uint32_t sleepers; /* threads inside or about to enter wait() */
  uint8_t pad2[36];
  qrt_share_taken taken[QRT_SHARING_THREADS]; /* by thread; zeroed by the runtime ahead of a step */
} qrt_barrier;

/* One sequence's part of a step: rows [row_begin, row_begin + row_count) are its next tokens, in order. */
typedef struct qrt_seq {
  uint8_t*
      state; /* recurrent and conv state: state_bytes of the artifact; zeros at the start of a sequence */
  int64_t odd_offset;  /* bytes from there to the state of blocks with odd numbers (manifest.fbs: State); 0:
                        * the same memory serves all */
  uint8_t* kv;         /* kv_bytes_per_token * kv_capacity */
  int64_t kv_capacity; /* tokens; past + row_count <= kv_capacity */
  int64_t past;        /* tokens already in state and kv */
  int64_t row_begin;
  int64_t row_count;
} qrt_seq;

/* What one thread's time goes into, where that is asked for. A stage is a place in the code: a dispatch, or a
 * barrier, where the thread waits for the others. */
typedef struct qrt_stage_time {
  uint64_t ticks; /* of the time stamp counter, from the end of the stage before, in all runs */
  uint64_t runs;
} qrt_stage_time;
typedef struct qrt_stage_clock {
  uint64_t last; /* when the thread's last stage, or the step's beginning, was over */
  uint64_t reserved[7];
  qrt_stage_time stages[]; /* [n_stages of the code] */
} qrt_stage_clock;

/* The most stages of a code. */
#define QRT_MAX_STAGES (1u << 16)

typedef struct qrt_step_args {
  const uint8_t* weights;   /* base of the packed weight section, 64-byte aligned */
  uint8_t* arena;           /* at least arena_bytes of the program, 64-byte aligned */
  const qrt_seq* seqs;      /* [n_seqs], in row order, covering all rows */
  int64_t n_seqs;           /* of a program that takes rows of another: 0 */
  int64_t n_rows;           /* rows of this step, 1..bucket; of a program that takes rows of another: n_out */
  const int32_t* tokens;    /* [n_rows], each < vocab (checked by the runtime) */
  const int32_t* positions; /* [n_rows][4]: rope positions t, h, w, e; text: all the sequence index */
  const int32_t*
      out_rows;  /* [n_out] rows whose logits are wanted, each < n_rows of the step that filled the arena */
  int64_t n_out; /* decode and head programs: 0..bucket */
  float* logits; /* [n_out][logits_stride of the artifact] */
  qrt_barrier* barrier;
  uint8_t* scratch;           /* 64-byte aligned; thread t has thread_scratch bytes (qrt_code_header) at
                               * t * scratch_stride, in which it finds anything and may leave anything */
  int64_t scratch_stride;     /* bytes, a multiple of 64, at least thread_scratch */
  uint8_t* shared_scratch;    /* 64-byte aligned, shared_scratch bytes (qrt_code_header), likewise */
  uint8_t* stage_clocks;      /* 64-byte aligned; that of thread t, a qrt_stage_clock, is at
                               * t * stage_clock_stride; null: nobody asks */
  int64_t stage_clock_stride; /* bytes, a multiple of 64 */
  int64_t read_ahead;         /* bytes: how far ahead of what it reads code asks for weights that it reads
                               * once; which distance is fast depends on the processor. Changes no result */
} qrt_step_args;

typedef void (*qrt_step_fn)(const qrt_step_args* args, uint32_t thread, uint32_t n_threads);

/* A code blob is flat and position independent: this header at offset 0, then read-only data and text.
 * entry[i] is the offset of program i (manifest order) from the start of the blob. */
#define QRT_CODE_MAGIC 0x31434351u /* "QCC1" */
typedef struct qrt_code_header {
  uint32_t magic;
  uint32_t abi; /* QRT_PROGRAM_ABI */
  uint32_t n_entries;
  uint32_t thread_scratch; /* bytes of scratch that each thread of a step needs: a multiple of 64, at most
                            * QRT_MAX_THREAD_SCRATCH */
  uint32_t n_stages;       /* at most QRT_MAX_STAGES; numbered over all programs */
  uint32_t shared_scratch; /* bytes of scratch for what goes from one thread to others: a multiple of 64, at
                            * most QRT_MAX_SHARED_SCRATCH */
  uint32_t entry[];        /* [n_entries] */
} qrt_code_header;

#ifdef __cplusplus
}
#endif
#endif /* QRT_ABI_PROGRAM_H_ */
