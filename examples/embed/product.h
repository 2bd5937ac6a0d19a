/* A product's own small interface over libqrt: load a model once, answer prompts, say what to do about a
 * failure. */
#ifndef EXAMPLES_EMBED_PRODUCT_H_
#define EXAMPLES_EMBED_PRODUCT_H_

#include <qrt/qrt.h>

/* One loaded model and one conversation. */
typedef struct product {
  qrt_text* text;
  qrt_engine* engine;
  qrt_session* session;
  qrt_generator* generator; /* over the session */
  qrt_sampler* sampler;
} product;

/* Gets whole UTF-8 sequences as they are generated; non-zero: stop. */
typedef int32_t (*product_piece_fn)(void* ctx, const char* utf8, size_t length);

/* What the product does about a failure. */
typedef enum product_action {
  PRODUCT_GO_ON,        /* nothing is wrong */
  PRODUCT_FIX_CALL,     /* the product's own mistake: a bug report to its makers */
  PRODUCT_FREE_MEMORY,  /* release something and try again; everything made so far stays usable */
  PRODUCT_OTHER_FILE,   /* ask for another artifact */
  PRODUCT_OTHER_DEVICE, /* choose another device, or compile for this one */
  PRODUCT_NEW_ENGINE,   /* release engine and sessions and make them again */
  PRODUCT_RESET,        /* reset or restore the session, then go on */
  PRODUCT_SHORTEN,      /* a longer context, or fewer tokens */
  PRODUCT_STOPPED       /* as asked: no failure */
} product_action;

product_action product_action_for(qrt_status status);

/* Makes everything that answering needs; `context` tokens, 0: the usual. On failure the product is empty. */
qrt_status product_load(product* p, qrt_artifact* artifact, const char* device, uint64_t context,
                        qrt_error* error);
void product_unload(product* p);

/* Answers one prompt greedily, at most `most` tokens, handing out pieces. QRT_CANCELLED where `piece` or
 * qrt_session_cancel(p->session), from any thread or a signal handler, stopped it. */
qrt_status product_answer(product* p, const char* prompt, uint64_t most, product_piece_fn piece, void* ctx,
                          qrt_error* error);

/* Prints a failure as people want to read it, and what is done about it. */
void product_tell(const qrt_error* error);

#endif /* EXAMPLES_EMBED_PRODUCT_H_ */
