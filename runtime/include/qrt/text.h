/* Tokenizer and chat template, samplers, and the loop that answers a prompt.
 * A part of qrt.h, which has the contract and includes it. */
#ifndef QRT_TEXT_H_
#define QRT_TEXT_H_
#ifndef QRT_QRT_H_
#error "include <qrt/qrt.h>"
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct qrt_text qrt_text;

/* Builds the tokenizer tables and parses the chat template. Errors: UNAVAILABLE (no tokenizer in the
 * artifact), ARTIFACT_CORRUPT, ARTIFACT_INCOMPATIBLE (an unknown pre-tokenizer), OUT_OF_MEMORY,
 * INVALID_ARGUMENT. */
QRT_API qrt_status qrt_text_create(qrt_artifact* artifact, qrt_text** out, qrt_error* error);
QRT_API void qrt_text_release(qrt_text* text);

enum {
  QRT_TOKENIZE_SPECIAL =
      1u, /* special tokens written in the text become their ids; only for text you trust */
  QRT_TOKENIZE_AS_WRITTEN =
      2u /* the text is not normalized, also where the model's tokenizer does so. Since 1.3 */
};

/* Token ids of UTF-8 text of `length` bytes; hardly ever more than `length` ids (normalization makes a few
 * rare characters up to three times as long). Adds nothing in front or behind. Text is brought into Unicode's
 * form C where the model was trained so. Bytes that are no UTF-8 are kept (byte tokens). Errors:
 * BUFFER_TOO_SMALL (*count = needed), OUT_OF_MEMORY, INVALID_ARGUMENT. */
QRT_API qrt_status qrt_text_tokenize(const qrt_text* text, const char* utf8, size_t length, uint32_t flags,
                                     int32_t* tokens, size_t capacity, size_t* count, qrt_error* error);

/* Bytes of a token as they appear in text: maybe a part of a UTF-8 sequence, empty for an id outside the
 * vocabulary. Special tokens give their written form. Borrowed from `text`. */
QRT_API const char* qrt_text_token_bytes(const qrt_text* text, int32_t token, size_t* length);

/* Concatenated bytes of tokens. Errors: BUFFER_TOO_SMALL (*length = needed), INVALID_ARGUMENT (unknown id).
 */
QRT_API qrt_status qrt_text_detokenize(const qrt_text* text, const int32_t* tokens, size_t count, char* bytes,
                                       size_t capacity, size_t* length, qrt_error* error);

/* 1: generation ends after this token (end of turn, of text, ...). */
QRT_API int32_t qrt_text_is_end(const qrt_text* text, int32_t token);
/* All such tokens, rising: what the model's metadata names, and what its vocabulary is known to end with. Who
 * generates decides: add ids of your own, or pass over these. Errors: BUFFER_TOO_SMALL (*count = needed),
 * INVALID_ARGUMENT. Since 1.3. */
QRT_API qrt_status qrt_text_end_tokens(const qrt_text* text, int32_t* tokens, size_t capacity, size_t* count,
                                       qrt_error* error);
/* 1: a control token, which belongs to the protocol and not to the text. */
QRT_API int32_t qrt_text_is_special(const qrt_text* text, int32_t token);
/* The token a sequence must begin with, or -1 when the model wants none. */
QRT_API int32_t qrt_text_begin_token(const qrt_text* text);

/* Length of the longest prefix of `bytes` that does not end inside a UTF-8 sequence that more bytes could
 * complete. For streaming: write the prefix, keep the rest (at most 3 bytes) for the next token. */
QRT_API size_t qrt_utf8_whole_prefix(const char* bytes, size_t length);

typedef struct qrt_chat_message {
  const char* role;      /* "system", "user", "assistant", "tool" */
  const char* content;   /* UTF-8, NUL-terminated */
  const char* reasoning; /* thoughts of an assistant turn, or NULL */
} qrt_chat_message;

/* options NULL: {1, -1}, never stopped. */
typedef struct qrt_chat_options {
  size_t struct_size;
  uint32_t add_generation_prompt; /* 1: end with the opening of the assistant's turn */
  int32_t enable_thinking;        /* -1: as the template does by itself; 0 off, 1 on */
  /* Since 1.1: asked about every millisecond while the template runs, on the calling thread; non-zero: stop.
   * A template is the model's own code: its budgets end it after seconds, this does at once. NULL: none. */
  int32_t (*stop)(void* ctx);
  void* stop_ctx;
  /* Since 1.3: */
  const char* tools; /* JSON array: the tools that the model may call, each as its template wants it, mostly
                      * {"type": "function", "function": {"name": ..., "description": ..., "parameters":
                      * ...}}; NULL: none */
  /* NULL, or for each message NULL or a JSON object: what the template sees of the message besides role,
   * content and reasoning. In an assistant's turn "tool_calls" ([{"type": "function", "function": {"name":
   * ..., "arguments": {...}}}, ...]; arguments as an object, which all templates take), in that of a tool
   * "tool_call_id" and "name"; "content" may stand here as a list of parts, or null, where the message's own
   * is NULL. */
  const char* const* fields;
  uint32_t as_written; /* 1: as QRT_TOKENIZE_AS_WRITTEN */
  int64_t now; /* seconds since 1970, for templates that write the date (in UTC); 0: the system's clock */
} qrt_chat_options;

/* Token ids of a conversation: rendered with the artifact's own template, then tokenized. Control tokens
 * count where the template writes them; written in messages, their fields or tools they stay plain text, so
 * these need not be trusted. Adds nothing else in front or behind. Errors: UNAVAILABLE (no template),
 * TEMPLATE_ERROR (also when a message holds control tokens and the template changes messages such that they
 * cannot be told from its own), CANCELLED (by `stop`), BUFFER_TOO_SMALL (*count = needed), OUT_OF_MEMORY,
 * INVALID_ARGUMENT (also tools or fields that are not the JSON described: Q7005). */
QRT_API qrt_status qrt_text_encode_chat(const qrt_text* text, const qrt_chat_message* messages,
                                        size_t message_count, const qrt_chat_options* options,
                                        int32_t* tokens, size_t capacity, size_t* count, qrt_error* error);

/* The text of that conversation, to look at (UTF-8, not NUL-terminated). What the template wrote and what the
 * messages brought along cannot be told apart in it: the model's prompt comes from qrt_text_encode_chat.
 * Errors: UNAVAILABLE (no template), TEMPLATE_ERROR, CANCELLED (by `stop`), BUFFER_TOO_SMALL (*length =
 * needed), OUT_OF_MEMORY, INVALID_ARGUMENT. */
QRT_API qrt_status qrt_text_render_chat(const qrt_text* text, const qrt_chat_message* messages, size_t count,
                                        const qrt_chat_options* options, char* out, size_t capacity,
                                        size_t* length, qrt_error* error);

/* ---- sampler ---- */

typedef struct qrt_sampler_options {
  size_t struct_size;
  float temperature;       /* 0: greedy (the highest logit, the lowest id among equals) */
  int32_t top_k;           /* 0: off */
  float top_p;             /* 1: off */
  float min_p;             /* 0: off */
  float repeat_penalty;    /* 1: off */
  float presence_penalty;  /* 0: off */
  float frequency_penalty; /* 0: off */
  int32_t penalty_window;  /* tokens that the penalties look back; -1: all */
  /* Of the random numbers: each is a function of the seed and of the place of the token that it draws, so the
   * same seed, logits and position give the same token. Sequences of one seed are drawn with the same
   * numbers: give several answers to one prompt seeds of their own. */
  uint64_t seed;
} qrt_sampler_options;

/* Fills *options (struct_size set by the caller) with what the model's metadata recommends, and plain
 * sampling (temperature 1, all filters off) where it says nothing. The seed is 0. Errors: INVALID_ARGUMENT.
 */
QRT_API qrt_status qrt_sampler_defaults(const qrt_artifact* artifact, qrt_sampler_options* options,
                                        qrt_error* error);

/* `options` NULL: qrt_sampler_defaults. Errors: INVALID_ARGUMENT (NaN, negative, ...), OUT_OF_MEMORY. */
QRT_API qrt_status qrt_sampler_create(const qrt_artifact* artifact, const qrt_sampler_options* options,
                                      qrt_sampler** out, qrt_error* error);
QRT_API void qrt_sampler_release(qrt_sampler* sampler);

/* Chooses a token; does not record it. A new sampler chooses the token at position 0 of a sequence, that is
 * behind none, and each call one for the position after the last one chosen: qrt_sampler_seek says where a
 * sequence is. Rows of the vocabulary that stand for no token, and tokens of type
 * unused, are never chosen, whatever their logits are; a logit of -infinity excludes a token. Allocates
 * nothing. Errors: INVALID_ARGUMENT (vocab_size is not the artifact's, a logit is NaN or infinity, none is
 * finite). */
QRT_API qrt_status qrt_sampler_sample(qrt_sampler* sampler, const float* logits, size_t vocab_size,
                                      int32_t* token, qrt_error* error);

/* Records a token of the sequence, for the penalties. */
QRT_API void qrt_sampler_accept(qrt_sampler* sampler, int32_t token);
/* Since 1.3: the next qrt_sampler_sample chooses the token at `position`: as many tokens stand before it
 * (qrt_session_position behind the append that gave the logits). What a session draws by itself, in appends
 * and in qrt_session_generate, is for its own position, so it needs this never: what follows a rewind, a
 * restore or a fork is what would follow without. */
QRT_API void qrt_sampler_seek(qrt_sampler* sampler, uint64_t position);
/* Forgets the recorded tokens; the next qrt_sampler_sample is for position 0. */
QRT_API void qrt_sampler_reset(qrt_sampler* sampler);

/* ---- answers ---- */

/* Since 1.3: prompts in, text out. A generator is a session with a text: it feeds prompts, as little of them
 * as is new, samples, ends where the caller or the model says, and gives out whole characters. It keeps both
 * alive and is used by its session's thread. Between its calls the session is read only (position, save,
 * fork, trace): where something else has moved it, what it holds is forgotten and fed again. */
typedef struct qrt_generator qrt_generator;

/* Errors: INVALID_ARGUMENT (Q5355: a text with more tokens than the session's model), OUT_OF_MEMORY. Since
 * 1.3. */
QRT_API qrt_status qrt_generator_create(qrt_session* session, qrt_text* text, qrt_generator** out,
                                        qrt_error* error);
QRT_API void qrt_generator_release(qrt_generator* generator);

/* Of qrt_answer_options.max_tokens: as many as fit the context. Since 1.3. */
#define QRT_NO_LIMIT UINT64_MAX

/* The callbacks run on the calling thread, between steps: they may use the library, but for this generator
 * and its session (qrt_session_cancel is fine). Since 1.3. */
typedef struct qrt_answer_options {
  size_t struct_size;
  qrt_sampler* sampler; /* needed; it is reset, and the prompt recorded in it */
  uint64_t max_tokens;  /* at most so many, or QRT_NO_LIMIT; 0: the prompt is fed, and that is all */
  const char* const*
      stop_texts; /* UTF-8, NUL-terminated: the answer ends where one comes, wherever the borders
                   * of tokens lie; it is no part of the text. Empty ones stop nothing */
  size_t stop_text_count;
  const int32_t* stop_tokens; /* end it besides those of qrt_text_end_tokens */
  size_t stop_token_count;
  uint32_t ignore_end; /* 1: qrt_text_end_tokens end nothing */
  /* Receives the text as it comes: whole characters, with U+FFFD for bytes that are none. Non-zero: the
   * answer ends here. NULL: none. */
  int32_t (*on_text)(void* ctx, const char* utf8, size_t length);
  /* Called when the prompt is fed, before the first text; the session may be looked at (qrt_session_trace).
   * Non-zero: there is no answer. NULL: none. */
  int32_t (*on_prompt)(void* ctx);
  /* Asked before each step; non-zero: the answer ends. With it, a qrt_session_cancel only ends the step that
   * runs, and this says whether the answer ends, too; NULL: a cancel does. */
  int32_t (*stop)(void* ctx);
  void* ctx;
} qrt_answer_options;

/* Why an answer ended. Since 1.3. */
typedef int32_t qrt_finish;
enum {
  QRT_FINISH_END = 0,       /* a token that ends a turn, or one of stop_tokens */
  QRT_FINISH_STOP_TEXT = 1, /* one of stop_texts */
  QRT_FINISH_LENGTH = 2,    /* max_tokens, or the context is full */
  QRT_FINISH_CANCELLED = 3  /* a callback or qrt_session_cancel */
};

/* Since 1.3. */
typedef struct qrt_answer {
  size_t struct_size;
  /* Without control tokens and stop text, NUL-terminated; borrowed from the generator until its next call. It
   * may end with the first `cut_bytes` bytes of a character (shown as U+FFFD); what follows then
   * (qrt_generate_more, or a next answer where no control token stands between) begins with them. */
  const char* text;
  size_t text_length;
  size_t cut_bytes;
  uint64_t reused_tokens;  /* of the prompt: were in the session, or in a prefix that the engine keeps */
  uint64_t prompt_tokens;  /* of it: fed */
  uint64_t tokens;         /* of the answer, the one that ended it included */
  uint64_t steps;          /* that decoded */
  uint64_t decoded_tokens; /* which they chose: not the first of the answer, which its prompt's last step did,
                            * but one more where max_tokens ended it */
  uint64_t guessed_tokens; /* for them, by a draft */
  uint64_t accepted_tokens; /* of those chosen */
  double reuse_seconds;     /* to get at the reused tokens */
  double prompt_seconds;    /* to feed the prompt */
  double decode_seconds;
  qrt_finish finish;
} qrt_answer;

/* Since 1.3: answers the prompt `tokens`, from its first token on: what the session holds of its begin stays,
 * or is gone back to (qrt_session_rewind, a checkpoint), or taken from what the engine keeps (`prefix_bytes`
 * of qrt_engine_options), whichever leaves the least to feed; such an engine is given the prompt to keep,
 * too. `keep`: there will be a checkpoint behind so many tokens, unless the session holds more of the prompt
 * already, since the next prompt begins with them; 0: none. The text is that of the same prompt in a new
 * session, bit for bit, with any draft and none, but where it goes on from one that is qrt_session_foreign.
 * *answer (struct_size set by the caller; may be NULL) is filled as far as it came also where the call fails.
 * Errors: INVALID_ARGUMENT (an empty prompt, ids or a sampler of another vocabulary, no sampler),
 * CONTEXT_FULL, and as qrt_session_append, but CANCELLED is an answer's end. */
QRT_API qrt_status qrt_generate(qrt_generator* generator, const int32_t* tokens, size_t count, uint64_t keep,
                                const qrt_answer_options* options, qrt_answer* answer, qrt_error* error);

/* Since 1.3: the same for a conversation, rendered with the artifact's template up to an answer's begin
 * (add_generation_prompt of `chat` is not looked at). Where the messages go on from the last answer, its
 * tokens stay as they were sampled wherever the template allows it. Errors: of both
 * qrt_text_encode_chat and qrt_generate. */
QRT_API qrt_status qrt_generate_chat(qrt_generator* generator, const qrt_chat_message* messages, size_t count,
                                     const qrt_chat_options* chat, const qrt_answer_options* options,
                                     qrt_answer* answer, qrt_error* error);

/* Since 1.3: goes on where the last answer ended, in its prompt where it was cancelled there, or what was
 * resumed. The next prompt of the conversation begins with both, as they were sampled, where no end of a turn
 * stands between. Errors: as qrt_generate. */
QRT_API qrt_status qrt_generate_more(qrt_generator* generator, const qrt_answer_options* options,
                                     qrt_answer* answer, qrt_error* error);

/* Since 1.3, for who wants the steps of qrt_generate_chat apart: the tokens of a conversation, as the prompt
 * that it would answer, and its `keep`. Errors: as qrt_text_encode_chat. */
QRT_API qrt_status qrt_generator_encode_chat(qrt_generator* generator, const qrt_chat_message* messages,
                                             size_t count, const qrt_chat_options* chat, int32_t* tokens,
                                             size_t capacity, size_t* needed, uint64_t* keep,
                                             qrt_error* error);

/* Since 1.3: makes the session hold these tokens, as qrt_generate begins; `options` may be NULL. What follows
 * them can be given to qrt_generate then, with them in front. Errors: as qrt_generate. */
QRT_API qrt_status qrt_generator_feed(qrt_generator* generator, const int32_t* tokens, size_t count,
                                      uint64_t keep, const qrt_answer_options* options, qrt_answer* answer,
                                      qrt_error* error);

/* How many of a prompt's first tokens qrt_generate would not feed, prefixes that the engine keeps left out of
 * account. 0 for NULL. Since 1.3. */
QRT_API size_t qrt_generator_reusable(const qrt_generator* generator, const int32_t* tokens, size_t count);

/* Since 1.3: all tokens, prompts' and answers'. The session holds all of them or all but the last one, as its
 * position says, unless another call moved it (rewind, reset, ...). *next (may be NULL): the token that was
 * chosen to follow, in no answer yet; -1: none. To be saved beside qrt_session_save. Errors: BUFFER_TOO_SMALL
 * (*needed), INVALID_ARGUMENT. */
QRT_API qrt_status qrt_generator_tokens(const qrt_generator* generator, int32_t* tokens, size_t capacity,
                                        size_t* needed, int32_t* next, qrt_error* error);

/* Since 1.3: the session was restored: what it holds, as qrt_generator_tokens gave it. `messages`: the
 * conversation that they are, up to the last answer, for qrt_generate_chat to go on from; 0: none, or that of
 * the prompt which qrt_generator_encode_chat made last, where they begin it. Errors: INVALID_ARGUMENT (Q5354:
 * other tokens than the session holds, or `next` behind one that it does not hold; ids outside the
 * vocabulary), and of qrt_text_encode_chat. */
QRT_API qrt_status qrt_generator_resume(qrt_generator* generator, const int32_t* tokens, size_t count,
                                        int32_t next, const qrt_chat_message* messages, size_t message_count,
                                        const qrt_chat_options* chat, qrt_error* error);

#ifdef __cplusplus
}
#endif
#endif /* QRT_TEXT_H_ */
