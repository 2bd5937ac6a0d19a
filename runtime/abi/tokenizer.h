/* The tokenizer section of an artifact: tables that are mapped, not parsed. Little endian, offsets from the
 * start of the section, every table aligned to 8. Stand-alone C.
 *
 * Written by compiler/artifact from the GGUF's vocabulary, checked by runtime/artifact before anyone reads
 * it. What is decided here once, so that no run has to: the byte-level alphabet is undone (tokens are the
 * bytes they stand for), merges are pairs of ids, special tokens are in the order in which text is searched
 * for them. */
#ifndef QRT_ABI_TOKENIZER_H_
#define QRT_ABI_TOKENIZER_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define QRT_TOKENIZER_MAGIC 0x314b5451u /* "QTK1" */
#define QRT_TOKENIZER_ABI 1u

/* Most tokens after any of which generation ends (manifest.fbs: eog). */
#define QRT_TOKENIZER_MAX_ENDS 4096u

/* Token types, numbered as in GGUF. */
enum {
  QRT_TOKEN_NORMAL = 1,
  QRT_TOKEN_UNKNOWN = 2,
  QRT_TOKEN_CONTROL =
      3, /* part of the protocol: matched in text only when the caller allows special tokens */
  QRT_TOKEN_USER_DEFINED = 4, /* always matched in text, before the pre-tokenizer */
  QRT_TOKEN_UNUSED = 5,       /* padding up to the rows of the head: never produced by the tokenizer */
  QRT_TOKEN_BYTE = 6
};

/* The pair (left, right) of neighbouring tokens becomes `result`; the lowest rank in a piece goes first. */
typedef struct qrt_tokenizer_merge {
  uint32_t left;
  uint32_t right;
  uint32_t rank;
  uint32_t result;
} qrt_tokenizer_merge;

typedef struct qrt_tokenizer_header {
  uint32_t magic;
  uint32_t abi;
  uint32_t n_tokens;
  uint32_t n_merges;
  uint32_t n_special;
  uint32_t max_token_bytes; /* length of the longest token */
  uint64_t blob_bytes;      /* size of the token bytes */
  uint64_t blob_offset;     /* u8 [blob_bytes]: the bytes of token 0, 1, ... one after another */
  uint64_t
      starts_offset;     /* u32 [n_tokens + 1]: token i is blob[starts[i] .. starts[i + 1]), not decreasing */
  uint64_t types_offset; /* u8 [n_tokens] */
  uint64_t byte_token_offset; /* u32 [256]: the token that is this one byte; every byte has one */
  uint64_t merges_offset;     /* qrt_tokenizer_merge [n_merges], sorted by (left, right), no pair twice */
  uint64_t special_offset;    /* u32 [n_special]: ids of unknown, control and user-defined tokens that are not
                                 empty,    longest bytes first, equal lengths by id */
} qrt_tokenizer_header;

/* The tokens that a sampler may choose, a bit each: token i is bit i % 32 of words[i / 32]. Rows of the head
 * beyond n_tokens, and tokens of type unused, stand for nothing. `words` [ceil(vocab_size / 32)] is all
 * zeros; returns how many are set. */
static inline uint32_t qrt_choosable_tokens(const uint8_t* types, uint32_t n_tokens, uint32_t* words) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < n_tokens; ++i) {
    if (types[i] == QRT_TOKEN_UNUSED) continue;
    words[i / 32] |= (uint32_t)1 << i % 32;
    ++count;
  }
  return count;
}

#ifdef __cplusplus
}
#endif
#endif /* QRT_ABI_TOKENIZER_H_ */
