/* The public API used from C11, as docs/reference/c-api.md shows it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/include/qrt/qrt.h"

const char* qrt_c_answer(const char* path, const char* prompt, char* answer, size_t capacity);

static char failure[700];

#define TRY(call)                                                                 \
  do {                                                                            \
    if ((call) != QRT_OK) {                                                       \
      snprintf(failure, sizeof failure, "%s [Q%04u]", error.message, error.code); \
      goto done;                                                                  \
    }                                                                             \
  } while (0)

/* Answers `prompt` greedily into `answer`; NULL, or what went wrong. */
const char* qrt_c_answer(const char* path, const char* prompt, char* answer, size_t capacity) {
  qrt_error error = {.struct_size = sizeof error};
  qrt_artifact* artifact = NULL;
  qrt_text* text = NULL;
  qrt_engine* engine = NULL;
  qrt_session* session = NULL;
  qrt_sampler* sampler = NULL;
  int32_t* tokens = NULL;
  size_t used = 0;
  failure[0] = '\0';

  TRY(qrt_artifact_open(path, NULL, &artifact, &error));
  TRY(qrt_text_create(artifact, &text, &error));
  const qrt_engine_options engine_options = {.struct_size = sizeof engine_options, .threads = 2};
  TRY(qrt_engine_create(artifact, &engine_options, &engine, &error));
  const qrt_session_options session_options = {.struct_size = sizeof session_options, .context_tokens = 512};
  TRY(qrt_session_create(engine, &session_options, &session, &error));
  qrt_sampler_options sampling = {.struct_size = sizeof sampling};
  TRY(qrt_sampler_defaults(artifact, &sampling, &error));
  sampling.temperature = 0;
  TRY(qrt_sampler_create(artifact, &sampling, &sampler, &error));
  qrt_artifact_release(artifact); /* the others keep it alive */
  artifact = NULL;

  const qrt_chat_message message = {.role = "user", .content = prompt};
  size_t count = 0;
  if (qrt_text_encode_chat(text, &message, 1, NULL, NULL, 0, &count, &error) != QRT_BUFFER_TOO_SMALL) {
    TRY(error.status);
  }
  tokens = malloc(count * sizeof *tokens);
  if (tokens == NULL) return "malloc";
  TRY(qrt_text_encode_chat(text, &message, 1, NULL, tokens, count, &count, &error));

  int32_t token = 0;
  const qrt_append_options append = {
      .struct_size = sizeof append, .want = QRT_LOGITS_NONE, .sampler = sampler, .next = &token};
  TRY(qrt_session_append(session, tokens, count, &append, &error));
  while (qrt_session_position(session) < qrt_session_capacity(session)) {
    qrt_sampler_accept(sampler, token);
    if (qrt_text_is_end(text, token)) break;
    size_t size = 0;
    const char* bytes = qrt_text_token_bytes(text, token, &size);
    if (!qrt_text_is_special(text, token) && used + size < capacity) {
      memcpy(answer + used, bytes, size);
      used += size;
    }
    const int32_t last = token;
    TRY(qrt_session_append(session, &last, 1, &append, &error));
  }

done:
  answer[used] = '\0';
  free(tokens);
  qrt_sampler_release(sampler);
  qrt_session_release(session);
  qrt_engine_release(engine);
  qrt_text_release(text);
  qrt_artifact_release(artifact);
  return failure[0] != '\0' ? failure : NULL;
}
