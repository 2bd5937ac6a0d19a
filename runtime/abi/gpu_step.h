/* What a GPU kernel reads about the running step: the step block. Stand-alone C; shared by the runtime, which
 * writes it, and by codegen/gpu, whose kernels read it with 32-bit loads at the offsets below. */
#ifndef QRT_ABI_GPU_STEP_H_
#define QRT_ABI_GPU_STEP_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bump when anything below or in gpu_code.fbs changes its meaning, or the end of the section
 * (QBIN_BASIS_BYTES). */
#define QRT_GPU_STEP_ABI 6u

typedef struct qrt_gpu_step {
  uint32_t n_rows; /* rows of this step, 1..bucket: kernels do nothing for rows beyond; of a program that
                    * takes rows of another: n_out */
  uint32_t n_seqs;
  uint32_t n_out;        /* rows of logits */
  uint32_t penalties_at; /* bytes from here to the table of penalties, behind the entries in use */
  uint32_t reserved[12];
} qrt_gpu_step;

typedef struct qrt_gpu_row {
  int32_t token;
  uint32_t seq;      /* index in the table of sequences */
  uint32_t position; /* place in the sequence: past + (row - row_begin) */
  uint32_t reserved;
  int32_t rope[4]; /* rope positions t, h, w, e */
} qrt_gpu_row;

typedef struct qrt_gpu_seq {
  uint64_t state;       /* device address: recurrent and conv state, layout as in the manifest */
  uint64_t odd_offset;  /* bytes from there to the state of blocks with odd numbers, or 0, as in qrt_seq */
  uint64_t kv;          /* device address; a layer's keys and values lie at offset * kv_capacity */
  uint64_t kv_capacity; /* tokens */
  uint32_t past;        /* tokens already in state and kv */
  uint32_t row_begin;
  uint32_t row_count;
  uint32_t reserved;
} qrt_gpu_seq;

/* How one row of logits becomes a token: the integer sampler of runtime/engine/sampler.h, which fills this
 * (Sampler::Describe) and says what the numbers mean. The greedy sample programs do not read it. */
typedef struct qrt_gpu_sample {
  uint64_t random;         /* the draw's 64 random bits */
  uint64_t top_p;          /* share of the weight to keep, times 2^64; UINT64_MAX: all */
  int64_t max_distance;    /* to the highest logit, times 2^24: min-p */
  uint64_t scale;          /* log2(e) / temperature, times 2^40 */
  uint64_t repeat;         /* factor of penalized logits below 0, times 2^32 */
  uint64_t repeat_inverse; /* of those above 0 */
  int64_t presence;        /* taken from penalized logits: presence + count * frequency, times 2^24 */
  int64_t frequency;
  uint32_t top_k;         /* 0: all */
  uint32_t penalty_begin; /* into the table of penalties */
  uint32_t penalty_count;
  uint32_t reserved;
} qrt_gpu_sample;

typedef struct qrt_gpu_penalty {
  uint32_t token; /* each at most once per row */
  uint32_t count; /* occurrences in the window, at most 2^20 */
} qrt_gpu_penalty;

/* Results: tokens, or what is wrong with the logits of those that can be chosen, the first that holds. */
#define QRT_GPU_SAMPLE_BAD_LOGIT (-1)      /* one is NaN or +infinity */
#define QRT_GPU_SAMPLE_MINUS_INFINITY (-2) /* one is -infinity */
#define QRT_GPU_SAMPLE_ALL_EQUAL (-3)      /* there are several, all equal */

#define QRT_GPU_MAX_PENALTIES 65536u
/* The highest top_k that the sample programs for few tokens are made for; the lowest is 1. */
#define QRT_GPU_FEW_TOKENS 64u

/* What a step says by number: of its row i, its sequence i and its row i of logits. One lies behind the
 * other, so that all that a step needs is one range from the block's begin on, and one copy to the device. */
typedef struct qrt_gpu_entry {
  qrt_gpu_row row;
  qrt_gpu_seq seq;
  qrt_gpu_sample sample;
  uint32_t out_row; /* the row behind the row of logits */
  uint32_t reserved[3];
} qrt_gpu_entry;

/* Byte offsets in the step block for programs of at most `max_rows` rows: of the entries, of their end. */
static inline uint64_t qrt_gpu_entries_offset(void) {
  return sizeof(qrt_gpu_step);
}
static inline uint64_t qrt_gpu_entries_end(uint64_t max_rows) {
  return qrt_gpu_entries_offset() + max_rows * sizeof(qrt_gpu_entry);
}
static inline uint64_t qrt_gpu_step_bytes(uint64_t max_rows) {
  return qrt_gpu_entries_end(max_rows) + QRT_GPU_MAX_PENALTIES * sizeof(qrt_gpu_penalty);
}

#ifdef __cplusplus
}
static_assert(sizeof(qrt_gpu_step) == 64 && sizeof(qrt_gpu_row) == 32 && sizeof(qrt_gpu_seq) == 48 &&
                  sizeof(qrt_gpu_sample) == 80 && sizeof(qrt_gpu_penalty) == 8 &&
                  sizeof(qrt_gpu_entry) == 176,
              "kernels address these by number");
#endif
#endif /* QRT_ABI_GPU_STEP_H_ */
