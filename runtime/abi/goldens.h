/* The goldens section of an artifact: a prompt and what the model must say about it, for `qrun check`. Little
 * endian. Stand-alone C. Layout: header; int32 tokens[n_tokens]; n_rows rows of: qrt_golden_row, then uint32
 * ids[n_top], then float values[n_top] (the n_top highest logits, highest first). All parts are multiples of
 * 4 bytes, none is padded. */
#ifndef QRT_ABI_GOLDENS_H_
#define QRT_ABI_GOLDENS_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define QRT_GOLDENS_MAGIC 0x31444751u /* "QGD1" */
#define QRT_GOLDENS_ABI 2u

typedef struct qrt_goldens_header {
  uint32_t magic;
  uint32_t abi;
  uint32_t n_tokens;
  uint32_t n_rows;
  uint32_t n_top;
  float tolerance;     /* largest accepted |logit - value| */
  float rms_tolerance; /* largest accepted root of the mean of (logit - value)^2, over all values */
} qrt_goldens_header;

typedef struct qrt_golden_row {
  uint32_t position; /* < n_tokens; rows are in rising order */
  uint8_t
      logits_hash[16]; /* XXH3-128 (canonical) of the f32 logits row; zeros: the bits depend on the target */
} qrt_golden_row;

#ifdef __cplusplus
}
#endif
#endif /* QRT_ABI_GOLDENS_H_ */
