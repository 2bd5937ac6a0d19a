/* embed_errors WHAT MODEL.qbin [OTHER.qbin]: mistakes that examples/embed's main.c does not make, told by the
 * product as its other errors. The exit code is the qrt_status. WHAT: `buffer`, too small a one; `snapshot`,
 * of MODEL into a session of OTHER; `pool`, threads that do not run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "product.h"

static int32_t run_nothing(void* ctx, uint32_t count, void (*task)(void*, uint32_t, uint32_t), void* arg) {
  (void)ctx, (void)count, (void)task, (void)arg;
  return 1;
}

static qrt_status load(product* p, const char* path, const qrt_thread_pool* pool, qrt_error* error) {
  qrt_artifact* artifact = NULL;
  qrt_status status = qrt_artifact_open(path, NULL, &artifact, error);
  if (status != QRT_OK) return status;
  status = product_load(p, artifact, NULL, 256, error);
  if (status == QRT_OK && pool != NULL) {
    const qrt_engine_options engine = {.struct_size = sizeof engine, .threads = 2, .thread_pool = pool};
    const qrt_session_options session = {.struct_size = sizeof session, .context_tokens = 256};
    qrt_generator_release(p->generator);
    qrt_session_release(p->session);
    qrt_engine_release(p->engine);
    p->generator = NULL;
    p->session = NULL;
    p->engine = NULL;
    status = qrt_engine_create(artifact, &engine, &p->engine, error);
    if (status == QRT_OK) status = qrt_session_create(p->engine, &session, &p->session, error);
    if (status == QRT_OK) status = qrt_generator_create(p->session, p->text, &p->generator, error);
  }
  qrt_artifact_release(artifact);
  return status;
}

static int32_t ignore(void* ctx, const char* utf8, size_t length) {
  (void)ctx, (void)utf8, (void)length;
  return 0;
}

static qrt_status move_snapshot(product* from, product* to, qrt_error* error) {
  const uint64_t size = qrt_session_save_size(from->session);
  void* bytes = malloc(size);
  qrt_status status =
      bytes == NULL ? QRT_OUT_OF_MEMORY : qrt_session_save(from->session, bytes, size, NULL, error);
  if (status == QRT_OK) status = qrt_session_restore(to->session, bytes, size, error);
  free(bytes);
  return status;
}

int main(int argc, char** argv) {
  const qrt_thread_pool pool = {.run = run_nothing};
  qrt_error error = {.struct_size = sizeof error};
  product p, other;
  memset(&other, 0, sizeof other);
  if (argc < 3) return 64;
  qrt_status status = load(&p, argv[2], strcmp(argv[1], "pool") == 0 ? &pool : NULL, &error);
  if (status == QRT_OK && strcmp(argv[1], "buffer") == 0) {
    const qrt_chat_message message = {.role = "user", .content = "hello"};
    int32_t token = 0;
    size_t count = 0;
    status = qrt_text_encode_chat(p.text, &message, 1, NULL, &token, 1, &count, &error);
  } else if (status == QRT_OK && strcmp(argv[1], "pool") == 0) {
    status = product_answer(&p, "hello", 4, ignore, NULL, &error);
  } else if (status == QRT_OK && argc > 3 && strcmp(argv[1], "snapshot") == 0) {
    status = load(&other, argv[3], NULL, &error);
    if (status == QRT_OK) status = product_answer(&p, "hello", 4, ignore, NULL, &error);
    if (status == QRT_OK) status = move_snapshot(&p, &other, &error);
  }
  if (status != QRT_OK) product_tell(&error);
  product_unload(&other);
  product_unload(&p);
  return status;
}
