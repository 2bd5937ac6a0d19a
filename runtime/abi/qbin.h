/* The artifact file: header and section table. Stand-alone C; docs/reference/qbin-format.md says the same in
 * prose.
 *
 * Goals
 *   One file: what a product ships is one artifact that the runtime maps and uses in place.
 *   Checked: every byte is covered by a hash or must be zero, so a damaged file is refused before any of it
 * is used. Canonical: the same content has one spelling. Sections follow each other in table order, each at
 * the first multiple of QBIN_ALIGNMENT after the one before; so overlap, gaps and hidden bytes cannot be
 * expressed. Deterministic: nothing in it depends on when, where or by whom it was written. Non-goals Editing
 * in place; compression (weights are mapped); big-endian machines; secrecy and authorship: the hashes find
 *   damage, not malice. Native code in an artifact is code: run only what you would also execute as a
 * program. */
#ifndef QRT_ABI_QBIN_H_
#define QRT_ABI_QBIN_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The first byte is no text, the line ends tell a transfer in text mode. */
#define QBIN_MAGIC "\x89QBIN\r\n"
#define QBIN_MAGIC_BYTES 8u /* with the closing NUL */

/* A reader of 2.x opens every 2.y whose required features it has; another major is another format. 1.x named
 * the use of each program; 2.0 describes what it takes, leaves and gives; in 2.1 code says what it was made
 * for. */
#define QBIN_MAJOR 2u
#define QBIN_MINOR 1u

#define QBIN_ALIGNMENT 4096u
#define QBIN_MAX_SECTIONS 1024u
#define QBIN_HASH_BYTES 16u
/* The end of a code section: the hash of what of the manifest the code takes for granted
 * (runtime/artifact/code_basis.h). */
#define QBIN_BASIS_BYTES QBIN_HASH_BYTES
#define QBIN_MAX_STRING 65536u /* bytes of a text in the manifest */

/* Required features: bits that a reader must know to use the file correctly; a new bit is for a change that
 * an older reader would silently get wrong. Selected rows: programs that take rows of another work on as many
 * rows as their step chooses: n_rows is n_out there (program.h, gpu_step.h). Parts: the model's layers run on
 * several devices (manifest.fbs). */
#define QBIN_FEATURE_SELECTED_ROWS UINT64_C(1)
#define QBIN_FEATURE_PARTS UINT64_C(2)
#define QBIN_KNOWN_FEATURES (QBIN_FEATURE_SELECTED_ROWS | QBIN_FEATURE_PARTS)

enum {
  QBIN_SECTION_MANIFEST = 1,      /* FlatBuffer, manifest.fbs; exactly one */
  QBIN_SECTION_CODE = 2,          /* native code, program.h; then QBIN_BASIS_BYTES */
  QBIN_SECTION_WEIGHTS = 3,       /* packed weights; the only kind whose hash is not checked at load */
  QBIN_SECTION_TOKENIZER = 4,     /* tokenizer.h; at most one */
  QBIN_SECTION_CHAT_TEMPLATE = 5, /* UTF-8 Jinja source; at most one */
  QBIN_SECTION_GOLDENS = 6        /* goldens.h; at most one */
};

enum {
  QBIN_SECTION_OPTIONAL =
      1u /* a reader that does not know the kind ignores the section (it is still hashed) */
};

/* Hashes are XXH3-128, seed 0, in canonical form (high 64 bits first, big endian). */
typedef struct qbin_section {
  uint32_t kind;
  uint32_t flags;
  uint64_t offset; /* multiple of QBIN_ALIGNMENT */
  uint64_t size;   /* > 0; the bytes up to the next section are zero */
  uint8_t hash[QBIN_HASH_BYTES];
} qbin_section;

/* At offset 0; the section table follows at once. The bytes from its end to the first section are zero. */
typedef struct qbin_header {
  uint8_t magic[QBIN_MAGIC_BYTES];
  uint16_t major;
  uint16_t minor;
  uint32_t section_count;
  uint64_t required_features;
  uint64_t file_bytes;           /* the end of the last section */
  uint8_t hash[QBIN_HASH_BYTES]; /* of header and section table, with these 16 bytes taken as zero */
} qbin_header;

#ifdef __cplusplus
}
static_assert(sizeof(qbin_section) == 40 && sizeof(qbin_header) == 48, "the file format has no padding");
#endif
#endif /* QRT_ABI_QBIN_H_ */
