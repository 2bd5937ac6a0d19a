#include "product.h"

#include <stdio.h>
#include <string.h>

product_action product_action_for(qrt_status status) {
  switch (status) {
    case QRT_OK:
      return PRODUCT_GO_ON;
    case QRT_INVALID_ARGUMENT:
    case QRT_BUFFER_TOO_SMALL:
    case QRT_INTERNAL:
      return PRODUCT_FIX_CALL;
    case QRT_OUT_OF_MEMORY:
      return PRODUCT_FREE_MEMORY;
    case QRT_NOT_FOUND:
    case QRT_IO_ERROR:
    case QRT_ARTIFACT_CORRUPT:
    case QRT_ARTIFACT_INCOMPATIBLE:
    case QRT_UNAVAILABLE:
    case QRT_TEMPLATE_ERROR:
    case QRT_NUMERIC_FAULT:
      return PRODUCT_OTHER_FILE;
    case QRT_DEVICE_UNSUPPORTED:
      return PRODUCT_OTHER_DEVICE;
    case QRT_DEVICE_LOST:
      return PRODUCT_NEW_ENGINE;
    case QRT_DEVICE_FAILED:
    case QRT_SNAPSHOT_MISMATCH:
      return PRODUCT_RESET;
    case QRT_CONTEXT_FULL:
      return PRODUCT_SHORTEN;
    case QRT_CANCELLED:
      return PRODUCT_STOPPED;
    default: /* of a library newer than this program: qrt_status_name has its name */
      return PRODUCT_FIX_CALL;
  }
}

static const char* words_for(product_action action) {
  switch (action) {
    case PRODUCT_GO_ON:
      return "nothing is wrong";
    case PRODUCT_FIX_CALL:
      return "this program made a mistake: please report it";
    case PRODUCT_FREE_MEMORY:
      return "close something and try again";
    case PRODUCT_OTHER_FILE:
      return "choose another model file";
    case PRODUCT_OTHER_DEVICE:
      return "choose another device";
    case PRODUCT_NEW_ENGINE:
      return "the device is started again";
    case PRODUCT_RESET:
      return "the conversation begins anew";
    case PRODUCT_SHORTEN:
      return "the conversation is too long: begin a new one";
    case PRODUCT_STOPPED:
      return "stopped, as you asked";
  }
  return "";
}

void product_tell(const qrt_error* error) {
  fprintf(stderr, "%s [Q%04u, %s]\n", error->message, (unsigned)error->code, qrt_status_name(error->status));
  if (error->note[0] != '\0') fprintf(stderr, "  at: %s\n", error->note);
  if (error->help[0] != '\0') fprintf(stderr, "  try: %s\n", error->help);
  fprintf(stderr, "  so: %s\n", words_for(product_action_for(error->status)));
}

qrt_status product_load(product* p, qrt_artifact* artifact, const char* device, uint64_t context,
                        qrt_error* error) {
  memset(p, 0, sizeof *p);
  qrt_engine_options engine = {.struct_size = sizeof engine, .device = device};
  qrt_session_options session = {.struct_size = sizeof session, .context_tokens = context};
  qrt_sampler_options sampling = {.struct_size = sizeof sampling};
  qrt_status status = qrt_text_create(artifact, &p->text, error);
  if (status == QRT_OK) status = qrt_engine_create(artifact, &engine, &p->engine, error);
  if (status == QRT_OK) status = qrt_session_create(p->engine, &session, &p->session, error);
  if (status == QRT_OK) status = qrt_generator_create(p->session, p->text, &p->generator, error);
  if (status == QRT_OK) status = qrt_sampler_defaults(artifact, &sampling, error);
  sampling.temperature = 0;
  if (status == QRT_OK) status = qrt_sampler_create(artifact, &sampling, &p->sampler, error);
  if (status != QRT_OK) product_unload(p);
  return status;
}

void product_unload(product* p) {
  qrt_sampler_release(p->sampler);
  qrt_generator_release(p->generator);
  qrt_session_release(p->session);
  qrt_engine_release(p->engine);
  qrt_text_release(p->text);
  memset(p, 0, sizeof *p);
}

qrt_status product_answer(product* p, const char* prompt, uint64_t most, product_piece_fn piece, void* ctx,
                          qrt_error* error) {
  const qrt_chat_message message = {.role = "user", .content = prompt};
  const qrt_answer_options options = {
      .struct_size = sizeof options, .sampler = p->sampler, .max_tokens = most, .on_text = piece, .ctx = ctx};
  qrt_answer answer = {.struct_size = sizeof answer};
  const qrt_status status = qrt_generate_chat(p->generator, &message, 1, NULL, &options, &answer, error);
  if (status != QRT_OK || answer.finish != QRT_FINISH_CANCELLED) return status;
  error->status = QRT_CANCELLED;
  error->code = 5311;
  snprintf(error->message, sizeof error->message, "the answer was stopped");
  return error->status;
}
