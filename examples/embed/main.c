/* product MODEL.qbin PROMPT [TOKENS [CONTEXT [DEVICE [MOST_BYTES]]]]: answers one prompt. Ctrl-C ends the
 * answer; so does the callback, after MOST_BYTES. The exit code is the qrt_status. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "product.h"

static qrt_session* answering; /* for the handler: set before it is installed, cleared after */

static void on_interrupt(int number) {
  (void)number;
  qrt_session_cancel(answering);
}

struct screen {
  size_t written;
  size_t most; /* bytes, then the product has enough */
};

static int32_t on_piece(void* ctx, const char* utf8, size_t length) {
  struct screen* screen = ctx;
  fwrite(utf8, 1, length, stdout);
  fflush(stdout);
  screen->written += length;
  return screen->written >= screen->most;
}

static int fail(const qrt_error* error) {
  product_tell(error);
  return error->status;
}

int main(int argc, char** argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: %s MODEL.qbin PROMPT [TOKENS [CONTEXT [DEVICE [MOST_BYTES]]]]\n", argv[0]);
    return 64;
  }
  const uint64_t tokens = argc > 3 ? strtoull(argv[3], NULL, 10) : 32;
  const uint64_t context = argc > 4 ? strtoull(argv[4], NULL, 10) : 0;
  const char* device = argc > 5 && argv[5][0] != '\0' ? argv[5] : NULL;
  struct screen screen = {.most = argc > 6 ? strtoull(argv[6], NULL, 10) : SIZE_MAX};
  qrt_error error = {.struct_size = sizeof error};
  qrt_artifact* artifact = NULL;
  if (qrt_artifact_open(argv[1], NULL, &artifact, &error) != QRT_OK) return fail(&error);
  product p;
  const qrt_status loaded = product_load(&p, artifact, device, context, &error);
  qrt_artifact_release(artifact); /* the product keeps it alive */
  if (loaded != QRT_OK) return fail(&error);
  answering = p.session;
  signal(SIGINT, on_interrupt);
  const qrt_status status = product_answer(&p, argv[2], tokens, on_piece, &screen, &error);
  signal(SIGINT, SIG_DFL);
  putchar('\n');
  if (status != QRT_OK) fail(&error);
  product_unload(&p);
  return status;
}
