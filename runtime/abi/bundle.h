/* A bundle: one executable file of qrun, zeros up to a page, an artifact, and this trailer as its last bytes.
 * `qcc bundle` writes it; qrun looks for the trailer at the end of its own file. Little-endian. */
#ifndef QRT_ABI_BUNDLE_H_
#define QRT_ABI_BUNDLE_H_

#include <stdint.h>

#define QBUNDLE_MAGIC "\x89QBNDL\n"
#define QBUNDLE_MAGIC_BYTES 8u /* with the closing NUL */
#define QBUNDLE_VERSION 1u
#define QBUNDLE_ALIGNMENT 4096u /* of the artifact in the file: it is mapped */

typedef struct qbundle_trailer {
  uint64_t artifact_offset; /* a multiple of QBUNDLE_ALIGNMENT */
  uint64_t artifact_bytes;  /* the trailer follows at once, and ends the file */
  uint32_t version;         /* QBUNDLE_VERSION */
  uint32_t reserved;        /* 0 */
  char magic[QBUNDLE_MAGIC_BYTES];
} qbundle_trailer;

/* The ELF note by which a program shows that it looks for such a trailer. In a bundle it says that there is
 * one: a copy that was cut short or stripped is told by that. */
#define QBUNDLE_NOTE_OWNER "qrun"
#define QBUNDLE_NOTE_TYPE 1u
typedef struct qbundle_note {
  uint32_t owner_bytes;  /* of QBUNDLE_NOTE_OWNER, with the NUL */
  uint32_t fields_bytes; /* of version and carries */
  uint32_t type;
  char owner[8]; /* padded to 4 bytes */
  uint32_t version;
  uint32_t carries; /* 1: of a bundle; 0: of qrun alone */
} qbundle_note;

#endif /* QRT_ABI_BUNDLE_H_ */
