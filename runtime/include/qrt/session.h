/* Sequences of an engine: appending, drafts, stepping back, prefixes, saving, traces.
 * A part of qrt.h, which has the contract and includes it. */
#ifndef QRT_SESSION_H_
#define QRT_SESSION_H_
#ifndef QRT_QRT_H_
#error "include <qrt/qrt.h>"
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct qrt_session qrt_session;
typedef struct qrt_sampler qrt_sampler; /* chooses tokens: see text.h */

/* Who guesses the tokens of a session that its model then checks (qrt_session_generate). Since 1.3. */
typedef int32_t qrt_draft;
enum {
  QRT_DRAFT_NONE = 0,
  QRT_DRAFT_MODEL = 1, /* the model's own draft, or the one linked to it: see qrt_engine_info.drafts */
  QRT_DRAFT_LOOKUP = 2 /* what followed the last few tokens where they came before in the sequence */
};

/* Of qrt_session_options.draft_tokens. Since 1.3. */
#define QRT_DRAFT_TOKENS_AUTO 0u
/* Of qrt_session_options.tokens_ahead, and the most that it stands for. Since 1.3. */
#define QRT_TOKENS_AHEAD_AUTO 0u
#define QRT_TOKENS_AHEAD_MOST 8u

typedef struct qrt_session_options {
  size_t struct_size;
  uint64_t context_tokens; /* capacity; 0: the smaller of 4096 and the model's context length */
  /* Since 1.3: how many tokens a model with recurrent state can step back at once (qrt_session_rewind): at
   * most 16. Doubles what that state takes. 0: none. */
  uint32_t max_rewind;
  /* Since 1.3, for qrt_session_generate: */
  qrt_draft draft;
  /* Guesses at once, 1 to 15, where there is a draft, or QRT_DRAFT_TOKENS_AUTO: as many as make text come
   * fastest, by what steps and guesses take on this machine and how often guesses are right; none where they
   * do not pay. max_rewind is at least that, or 15. */
  uint32_t draft_tokens;
  /* Without a draft, of a device that chooses tokens itself (qrt_engine_info.samples_on_device): how many it
   * decodes one behind the other before the host looks at them, 1 to 16, or QRT_TOKENS_AHEAD_AUTO: as many as
   * take 20 ms, up to QRT_TOKENS_AHEAD_MOST and one more than max_rewind. What lies behind the last token of
   * a text is taken back: max_rewind is at least one less. Samplers that penalize look at each. */
  uint64_t tokens_ahead;
} qrt_session_options;

/* An empty sequence. Its KV is reserved for the whole context; in the system's memory it is resident only as
 * far as it is used, on a GPU and in an injected allocator's all of it.
 * Errors: OUT_OF_MEMORY, INVALID_ARGUMENT (context of more than 2147483583 tokens), UNAVAILABLE (Q5334: draft
 * MODEL of a model without one). */
QRT_API qrt_status qrt_session_create(qrt_engine* engine, const qrt_session_options* options,
                                      qrt_session** out, qrt_error* error);
QRT_API void qrt_session_release(qrt_session* session);

/* Since 1.3: another session of the same engine with the same options, which goes on from where this one is:
 * sequence and logits are its own copies, at the cost of those bytes (qrt_session_save_size) and of a new
 * session's memory. What it can take back, and who guesses, begin anew as after a restore. This session must
 * not be in use by another thread meanwhile. Errors: as qrt_session_create; INVALID_ARGUMENT (a step of this
 * session failed), DEVICE_LOST, DEVICE_FAILED. */
QRT_API qrt_status qrt_session_fork(const qrt_session* session, qrt_session** out, qrt_error* error);

/* Tokens taken so far, and how many fit. 0 for NULL. */
QRT_API uint64_t qrt_session_position(const qrt_session* session);
QRT_API uint64_t qrt_session_capacity(const qrt_session* session);

/* Back to the empty sequence; keeps the memory. Errors: INVALID_ARGUMENT, DEVICE_LOST, DEVICE_FAILED. */
QRT_API qrt_status qrt_session_reset(qrt_session* session, qrt_error* error);

/* Since 1.3: how many tokens qrt_session_rewind can take back now. Of a model with KV alone, all; with
 * recurrent state, at most the last max_rewind tokens that were ever appended, none after a restore. 0 for
 * NULL. */
QRT_API uint64_t qrt_session_rewindable(const qrt_session* session);

/* Since 1.3: takes the last `tokens` tokens back, in constant time: what is appended next has the bits that
 * it has in a session which never saw them. Logits and traces are gone until then (0 tokens: nothing is).
 * Errors: INVALID_ARGUMENT (more than qrt_session_rewindable; the session is unchanged). */
QRT_API qrt_status qrt_session_rewind(qrt_session* session, uint64_t tokens, qrt_error* error);

/* A place to go back to from further on than qrt_session_rewind reaches. Since 1.3. */
typedef struct qrt_checkpoint qrt_checkpoint;

/* Since 1.3: marks where the session is. Takes what the model's recurrent state takes there (a model with KV
 * alone: nothing), for KV stays in the session; qrt_checkpoint_bytes. The checkpoint keeps its session alive
 * and is used by its thread, its release too. Errors: OUT_OF_MEMORY, INVALID_ARGUMENT (a step of the session
 * failed), DEVICE_LOST, DEVICE_FAILED. */
QRT_API qrt_status qrt_session_checkpoint(qrt_session* session, qrt_checkpoint** out, qrt_error* error);
QRT_API void qrt_checkpoint_release(qrt_checkpoint* checkpoint);
/* Tokens of the session when it was taken, and bytes that it takes. 0 for NULL. Since 1.3. */
QRT_API uint64_t qrt_checkpoint_position(const qrt_checkpoint* checkpoint);
QRT_API uint64_t qrt_checkpoint_bytes(const qrt_checkpoint* checkpoint);
/* 1: qrt_session_rewind_to can go back to it. It can until the session is at fewer tokens than it marks: by a
 * rewind, also to an earlier checkpoint, or a reset; and until the session gets another sequence (restore,
 * qrt_session_begin): every sequence begins with the mark of no tokens, which holds on. While a failed step
 * has left the session to be reset or restored, none holds. Since 1.3. */
QRT_API int32_t qrt_checkpoint_holds(const qrt_checkpoint* checkpoint);

/* Since 1.3: takes back what was appended since `checkpoint` was taken of this session, which keeps its
 * worth: any number of tries can begin from it. What is appended next has the bits that it has in a session
 * which never saw the rest. Logits and traces are gone until then; qrt_session_rewindable is what it is after
 * qrt_session_rewind to the same place where that reaches it, else 0. Errors: INVALID_ARGUMENT (Q5350: it
 * does not hold any more, or is another session's; the session is unchanged), OUT_OF_MEMORY (unchanged, too),
 * DEVICE_LOST, DEVICE_FAILED (the session must be reset). */
QRT_API qrt_status qrt_session_rewind_to(qrt_session* session, const qrt_checkpoint* checkpoint,
                                         qrt_error* error);

/* Tokens of a prompt that an engine has met before. Since 1.3. */
typedef struct qrt_prefix {
  size_t struct_size;
  uint64_t reused; /* the session begins with them; not with the prompt's last one */
  uint64_t shared; /* its begin that some kept prefix has, in whole blocks of 16: at least `reused`. Where it
                    * is more, prompts branch off there, and others may: a place to keep */
} qrt_prefix;

/* Since 1.3, for engines with prefix_bytes: the session, whatever it holds, becomes the longest kept prefix
 * of `tokens`, which fits its context and leaves one token at least to append; empty where there is none. The
 * tokens that follow have the bits of a session that was fed all of them; what it can take back, and who
 * guesses, begin anew as after a restore. *prefix (struct_size set by the caller; may be NULL) says how many
 * tokens these are. Sessions of one engine find what any of them kept, whatever their options are, also at
 * once on several threads. Errors: UNAVAILABLE (Q5353: an engine without prefix_bytes, or of a model that
 * cannot), INVALID_ARGUMENT, OUT_OF_MEMORY, DEVICE_LOST, DEVICE_FAILED: with the last three the session must
 * be reset. */
QRT_API qrt_status qrt_session_begin(qrt_session* session, const int32_t* tokens, size_t count,
                                     qrt_prefix* prefix, qrt_error* error);

/* Since 1.3: keeps what the session holds, in whole blocks of 16 tokens, for qrt_session_begin. `tokens` are
 * all `count` tokens that it was fed: that they are these is the caller's to answer for. A model with
 * recurrent state keeps that here, and begins only from where it was kept, so the session must hold a
 * multiple of 16 tokens or be able to step back to one (Q5351): append a prompt up to there, keep, append the
 * rest. KV is kept once for each block, however many prefixes go through it. What was not used for the
 * longest time makes way; *kept (may be NULL): tokens that are kept now, 0 where there is no whole block, no
 * room beside what is pinned, or a session that is qrt_session_foreign. Errors: UNAVAILABLE (Q5353),
 * INVALID_ARGUMENT (also Q5351: another count than the session holds), OUT_OF_MEMORY, DEVICE_LOST,
 * DEVICE_FAILED. */
QRT_API qrt_status qrt_session_keep(const qrt_session* session, const int32_t* tokens, size_t count,
                                    uint64_t* kept, qrt_error* error);

/* Since 1.3: the longest kept prefix of `tokens` stays, whatever else is kept, until it was unpinned as
 * often: *pinned tokens, 0: none is kept. Unpinning takes exactly those tokens. Errors: UNAVAILABLE (Q5353),
 * INVALID_ARGUMENT (Q5352: it is not pinned). */
QRT_API qrt_status qrt_engine_pin_prefix(qrt_engine* engine, const int32_t* tokens, size_t count,
                                         uint64_t* pinned, qrt_error* error);
QRT_API qrt_status qrt_engine_unpin_prefix(qrt_engine* engine, const int32_t* tokens, size_t count,
                                           qrt_error* error);

typedef int32_t qrt_logits_want;
enum {
  QRT_LOGITS_NONE = 0, /* only advance the state: no LM head is computed */
  QRT_LOGITS_LAST = 1, /* of the last token: see qrt_session_logits */
  QRT_LOGITS_ALL = 2   /* of every token, through the callback, in order */
};

/* Receives `vocab_size` logits after the token at `position`. Valid during the call only. Runs on the calling
 * thread, inside the engine's lock: must not call qrt functions on this engine or its sessions
 * (qrt_session_cancel and qrt_sampler_* are fine). Non-zero return: stop (QRT_CANCELLED); tokens of steps
 * already run stay. In a batch no step follows, but what this one gives the others they get. */
typedef int32_t (*qrt_logits_fn)(void* ctx, qrt_session* session, uint64_t position, const float* logits,
                                 size_t vocab_size);

typedef struct qrt_append_options {
  size_t struct_size;
  qrt_logits_want want;    /* LAST where options are NULL */
  qrt_logits_fn on_logits; /* needed for ALL; with LAST called for that row too when set */
  void* ctx;
  /* Since 1.1: with a sampler, the token after the last one of this append is chosen and written to *next; it
   * is not recorded (qrt_sampler_accept). A GPU chooses by itself and reads back the id only, unless `want`
   * asks for logits. The token is the one that qrt_sampler_sample would give for the same logits once
   * qrt_sampler_seek has named its position, that of the session behind the append. Both are used during the
   * call only; where a callback cancels behind the choice, it is written, too. */
  qrt_sampler* sampler; /* NULL: none */
  int32_t* next;        /* needed with a sampler; left alone where no token could be chosen */
} qrt_append_options;

/* Feeds `count` tokens. However a sequence is cut into calls, the logits have the same bits, for one code
 * variant on one device. `count` 0 does nothing, and is refused with a sampler. Errors: CONTEXT_FULL (nothing
 * taken), INVALID_ARGUMENT (nothing taken: a token outside the vocabulary, Q5355: a sampler of another one,
 * ...), CANCELLED (position tells how many tokens were taken; the session can go on from there), INTERNAL
 * (the injected thread pool refused: as CANCELLED, or where an earlier part of the model had run as what
 * follows), DEVICE_LOST, DEVICE_FAILED, OUT_OF_MEMORY (of a GPU): the session takes no more tokens until it
 * is reset or restored, or, where all layers had run and only logits failed, has taken these. With a sampler
 * also NUMERIC_FAULT (Q5325; until 1.2 INVALID_ARGUMENT): the logits to choose from are damaged; all tokens
 * were taken. */
QRT_API qrt_status qrt_session_append(qrt_session* session, const int32_t* tokens, size_t count,
                                      const qrt_append_options* options, qrt_error* error);

typedef struct qrt_generate_options {
  size_t struct_size;
  qrt_sampler* sampler; /* needed */
  /* Asked about each chosen token, in order: non-zero: it is the last of this call, whatever was guessed
   * behind it. As qrt_logits_fn in what it may do. NULL: none. */
  int32_t (*ends)(void* ctx, int32_t token);
  void* ctx;
  /* To measure what drafts would pay at another share of right guesses: asked about each guess that is
   * checked, `index` being its place in the step, from 0; non-zero: it counts as right and is chosen, 0: as
   * wrong. All work is done as ever, but the text is nobody's. As qrt_logits_fn in what it may do. NULL: the
   * sampler says what is right. */
  int32_t (*agrees)(void* ctx, uint32_t index);
} qrt_generate_options;

/* Since 1.3: appends `token` and chooses those that follow it, at least one, at most `capacity` >= 1. A
 * session with a draft has it guess up to draft_tokens of them, checks all in one step, and goes on as far as
 * the guesses are what the sampler chooses; one without chooses one, or up to tokens_ahead on a device that
 * chooses tokens itself. *count tokens are written to `tokens`; all but the last have been appended too, and
 * recorded in the sampler (qrt_sampler_accept), so a loop records and hands in the last one next. For the
 * same sampler and tokens the text, and the session's bytes (qrt_session_save), are the same with every
 * draft, every draft_tokens and tokens_ahead, and without: they only change how many steps it takes and when
 * text comes. Logits (qrt_session_logits) are gone. Errors: as qrt_session_append; with NUMERIC_FAULT *count
 * tokens were chosen before the one that could not be; INVALID_ARGUMENT also for no sampler, no room in
 * `tokens`. */
QRT_API qrt_status qrt_session_generate(qrt_session* session, int32_t token,
                                        const qrt_generate_options* options, int32_t* tokens, size_t capacity,
                                        size_t* count, qrt_error* error);

typedef struct qrt_draft_counters {
  size_t struct_size;
  uint64_t steps;    /* calls of qrt_session_generate that chose a token */
  uint64_t guessed;  /* tokens, by the draft */
  uint64_t accepted; /* of them chosen */
} qrt_draft_counters;

/* Since the session was made. Errors: INVALID_ARGUMENT. Since 1.3. */
QRT_API qrt_status qrt_session_draft_counters(const qrt_session* session, qrt_draft_counters* out,
                                              qrt_error* error);

/* Logits [vocab_size] of the last token, from the last append that wanted LAST or ALL and ended with that
 * token; NULL otherwise. Borrowed until the next append, reset, restore or release of this session. */
QRT_API const float* qrt_session_logits(const qrt_session* session);

/* One item of a batch: the next `count` tokens of one session. */
typedef struct qrt_batch_item {
  qrt_session* session;
  const int32_t* tokens;
  size_t count;
  qrt_append_options options; /* struct_size set, as for qrt_session_append */
} qrt_batch_item;

/* Appends to several different sessions of this engine with shared steps: rows of many sequences go through
 * the weights together. Results have the same bits as separate appends.
 * All items are checked before any is run. Errors: as qrt_session_append, the note names the item;
 * INVALID_ARGUMENT also for a session that occurs twice or belongs to another engine. NUMERIC_FAULT names the
 * first item whose token could not be chosen; all items' tokens were taken, and *next is right wherever it
 * was written: left alone where no token could be chosen.
 * CANCELLED: each session's position tells how far it came. */
QRT_API qrt_status qrt_engine_append(qrt_engine* engine, const qrt_batch_item* items, size_t count,
                                     qrt_error* error);

/* Makes the append now running, or else the next, stop between two steps with QRT_CANCELLED. Any thread; safe
 * in a signal handler. Cleared by the append that it stopped and by reset. In a batch it stops the whole
 * call. */
QRT_API void qrt_session_cancel(qrt_session* session);

/* Since 1.3: takes back a qrt_session_cancel that has stopped nothing: one that came behind the last step of
 * the request it was meant for, before another request uses the session. Any thread. */
QRT_API void qrt_session_forget_cancel(qrt_session* session);

/* Bytes that qrt_session_save writes at the current position. 0 for NULL. */
QRT_API uint64_t qrt_session_save_size(const qrt_session* session);

/* Writes the sequence (state, KV so far, position; not the logits) to memory, with a checksum, bound to the
 * artifact and the geometry. Errors: BUFFER_TOO_SMALL, INVALID_ARGUMENT, DEVICE_LOST, DEVICE_FAILED. *written
 * may be NULL. */
QRT_API qrt_status qrt_session_save(const qrt_session* session, void* buffer, size_t capacity,
                                    size_t* written, qrt_error* error);

/* Replaces the sequence by a saved one; the bytes are not trusted. Capacities may differ as long as the saved
 * tokens fit, and so may the device: the tokens that follow are the same in f32, in int8 devices round
 * differently. Errors: SNAPSHOT_MISMATCH, CONTEXT_FULL, OUT_OF_MEMORY (session unchanged); DEVICE_LOST,
 * DEVICE_FAILED, OUT_OF_MEMORY of a GPU: it must be reset. */
QRT_API qrt_status qrt_session_restore(qrt_session* session, const void* buffer, size_t size,
                                       qrt_error* error);

/* Since 1.3: 1 where some of the sequence was restored from a snapshot of another device or code variant,
 * which rounds otherwise (in f32 the last bits): it goes on, but is not, to the bit, what this engine makes
 * of its tokens. Until the session is reset or begins another sequence. 0 for NULL. */
QRT_API int32_t qrt_session_foreign(const qrt_session* session);

/* What the last token's row looked like behind one layer: a place to begin where an answer is nonsense. */
typedef struct qrt_layer_trace {
  size_t struct_size;
  uint32_t layer;
  uint64_t length;               /* values of the row: the model's embedding length */
  uint64_t nonzero;              /* of them not 0, NaN included */
  uint64_t nan, infinite;        /* of them no numbers; infinite */
  double minimum, maximum, mean; /* of those that are numbers, infinite included; 0 where there is none */
} qrt_layer_trace;

/* How many layers an artifact of `qcc compile --traceable` traces; 0 of others, and for NULL. Since 1.3. */
QRT_API size_t qrt_session_traced_layers(const qrt_session* session);

/* Fills *out (struct_size set by the caller) with layer number `index` of those, by rising layer. Zeros
 * before the first token. Errors: UNAVAILABLE (not a traceable artifact), INVALID_ARGUMENT (`index`; a step
 * failed), OUT_OF_MEMORY, DEVICE_LOST, DEVICE_FAILED. Since 1.3. */
QRT_API qrt_status qrt_session_trace(const qrt_session* session, size_t index, qrt_layer_trace* out,
                                     qrt_error* error);

/* A value that a layer computes under a name. Since 1.3. */
typedef struct qrt_layer_value {
  size_t struct_size;
  const char* role; /* llama.cpp's name where it has one: "attn_norm", "Qcur", "l_out"; the engine's memory */
  uint32_t layer;
  uint64_t length;  /* floats of its row; 0: it is not kept */
  const char* into; /* of one that is not kept: the kind of kernel inside of which it is computed and which
                     * does not store it; "": it is stored, and `qcc compile --traceable=all` keeps it */
} qrt_layer_value;

/* How many the artifact knows of, first those that it keeps, by layer and as they are computed; 0 for NULL.
 */
QRT_API size_t qrt_session_values(const qrt_session* session);

/* Fills *out, and `row` with the `length` floats of the last token where it is kept and `row` is not NULL.
 * Errors: INVALID_ARGUMENT (`index`; a step failed), DEVICE_LOST, DEVICE_FAILED. */
QRT_API qrt_status qrt_session_value(const qrt_session* session, size_t index, qrt_layer_value* out,
                                     float* row, qrt_error* error);

#ifdef __cplusplus
}
#endif
#endif /* QRT_SESSION_H_ */
