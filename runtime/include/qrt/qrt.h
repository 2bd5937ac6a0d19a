/* qrt: run a .qbin artifact. C11, no dependency but libc. docs/reference/c-api.md walks through it. */

/* clang-format off */
/* THE CONTRACT
 *
 * Objects    qrt_artifact (the mapped file) -> qrt_engine (the artifact on a device) -> qrt_session (one sequence);
 *            qrt_text (tokenizer and chat template) and qrt_sampler come from an artifact too.
 * Ownership  `qrt_*_create` and `qrt_artifact_open*` give one reference to the caller; `qrt_*_release` drops it and
 *            accepts NULL. An object keeps what it was made from alive, so any order of release is right.
 *            Pointers that an accessor returns are borrowed: each says for how long.
 * Threads    artifact, text: immutable, any number of threads at once.
 *            engine: any number of threads at once; steps of one engine run one after the other (it has one arena and
 *            one thread pool), so several sessions gain by qrt_engine_append, not by threads.
 *            session, sampler: one thread at a time (qrt_session_cancel excepted).
 *            There is no global or thread-local state: two engines do not know of each other.
 * Stack      A thread that calls these functions needs QRT_CALL_STACK bytes of stack, for those of qrt_text, whose chat
 *            templates nest, QRT_TEXT_STACK; a thread of an injected pool, which only runs steps, QRT_STEP_STACK. The
 *            embedder's own frames, callbacks and large thread-local variables come on top, and on a GPU its driver's.
 *            This holds for every artifact and every input: of a step the compiler has checked it, and its large
 *            arrays lie in memory that the engine takes when it is made. The engine's own threads have the system's
 *            default.
 * fork()     A child has none of its parent's threads: an engine of more than one thread or on a GPU, and its
 *            sessions, work only in the process that made it; elsewhere appends give QRT_INVALID_ARGUMENT (Q5324).
 *            What is on the CPU may be released in the child. Fork between calls, not while another thread is in one.
 * Errors     Every function that can fail returns a qrt_status and fills *error when it is not NULL. On failure no
 *            out parameter is written unless its comment says so, and the object is as it was before the call.
 *            No function exits, aborts, prints or lets a C++ exception out. When memory runs out the status is
 *            QRT_OUT_OF_MEMORY and everything already made stays usable.
 * File       An artifact is mapped, not read: while anything made from it lives, its file must not be written to or
 *            cut short (replace it by rename, as qcc does). Where it is, the kernel sends SIGBUS to the thread that
 *            meets the missing page, which may be one of the engine's own. The library installs no handlers and
 *            blocks no such signal; a host's handler learns from qrt_mapped_file_at whether a file is to blame, and
 *            cannot go on.
 * Options    Every options, info and error struct begins with `struct_size`, which the caller sets to sizeof. A
 *            caller built against an older header gives a smaller one: fields beyond it take their defaults, or are
 *            not written. A size smaller than in release 1.0 is refused, and so are options larger than the library
 *            knows (they may ask for what it cannot do). `options` may be NULL: all defaults.
 * Buffers    Functions that fill a caller's array take its capacity and always write the needed count. When it does
 *            not fit: QRT_BUFFER_TOO_SMALL, nothing written to the array. (NULL, 0) asks for the count.
 * Stability  Status values, Q numbers and struct fields keep their meaning; new ones are only added at the end. */
/* clang-format on */
#ifndef QRT_QRT_H_
#define QRT_QRT_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define QRT_API __attribute__((visibility("default")))
#else
#define QRT_API
#endif

/* Version of this interface: major changes break source or binary, minor ones add. */
#define QRT_API_MAJOR 1
#define QRT_API_MINOR 3

/* ---- status ---- */

typedef int32_t qrt_status;
enum {
  QRT_OK = 0,
  QRT_INVALID_ARGUMENT = 1, /* a NULL, a bad struct_size, a token id outside the vocabulary, a bad option */
  QRT_OUT_OF_MEMORY = 2,    /* the allocator or mmap refused */
  QRT_NOT_FOUND = 3,        /* no such file */
  QRT_IO_ERROR = 4,         /* the file cannot be opened, read or mapped */
  QRT_ARTIFACT_CORRUPT = 5, /* truncated, a hash or a bound is wrong: nothing of it was executed */
  QRT_ARTIFACT_INCOMPATIBLE = 6, /* another major version, an unknown required feature */
  QRT_DEVICE_UNSUPPORTED = 7,    /* no code in the artifact runs on this machine; names what is missing */
  QRT_CONTEXT_FULL = 8,          /* the tokens do not fit into the session's context; none was taken */
  QRT_BUFFER_TOO_SMALL = 9,      /* see Buffers above */
  QRT_CANCELLED = 10,            /* qrt_session_cancel or a callback asked to stop */
  QRT_SNAPSHOT_MISMATCH = 11,    /* a snapshot of another artifact or geometry, or a damaged one */
  QRT_UNAVAILABLE = 12,          /* the artifact does not carry this (no tokenizer, no chat template) */
  QRT_TEMPLATE_ERROR = 13,       /* the chat template failed or went over its budget */
  QRT_INTERNAL = 14,             /* a bug in qrt; please report it */
  QRT_DEVICE_LOST =
      15, /* the GPU is gone (reset, removed, timed out): make another engine; others are unaffected */
  QRT_DEVICE_FAILED =
      16, /* the GPU's driver reported an error; the session it befell must be reset or restored */
  QRT_NUMERIC_FAULT = 17 /* a step gave logits that are infinite, no numbers, or all equal. Since 1.3 */
};

/* What went wrong, for people. Memory of the caller; strings are UTF-8, NUL-terminated and cut to fit. They
 * quote models, files and drivers: escape control characters before a terminal shows them. */
typedef struct qrt_error {
  size_t struct_size;
  qrt_status status;
  uint32_t code;     /* stable number of the condition, printed as Q%04u; 0 when status is QRT_OK */
  char message[512]; /* what: found and expected */
  char note[512];    /* where (file, section, offset), or empty */
  char help[512];    /* what to do, or empty */
} qrt_error;

/* Name of a status, e.g. "context full"; never NULL. Static. */
QRT_API const char* qrt_status_name(qrt_status status);

/* Stack of threads, see above. */
#define QRT_TEXT_STACK (512u << 10)
#define QRT_CALL_STACK (128u << 10)
#define QRT_STEP_STACK (32u << 10)

/* Version of the library, "major.minor.patch". Static. */
QRT_API const char* qrt_version(void);

/* ---- injected services ---- */

/* Serves every allocation whose size follows the model or the context (arena, state, KV, logits, handles).
 * Small tables that parsing builds come from C++ operator new; its failure is QRT_OUT_OF_MEMORY too. Called
 * from the thread that made the call, never from workers. Must outlive every object made with it. Default:
 * malloc, and mmap for KV (so that only the part of the context in use is resident). */
typedef struct qrt_allocator {
  void* ctx;
  /* alignment: power of two <= 4096. NULL when out. */
  void* (*allocate)(void* ctx, size_t bytes, size_t alignment);
  void (*deallocate)(void* ctx, void* memory, size_t bytes, size_t alignment);
} qrt_allocator;

typedef int32_t qrt_log_level;
enum { QRT_LOG_DEBUG = 0, QRT_LOG_INFO = 1, QRT_LOG_WARNING = 2 };

/* Receives one line without newline. Called from the thread that made the call. Default: silence. */
typedef struct qrt_log_sink {
  void* ctx;
  void (*write)(void* ctx, qrt_log_level level, const char* line, size_t length);
} qrt_log_sink;

/* Runs task(arg, i, count) for every i in [0, count) AT THE SAME TIME on `count` threads (they meet at
 * barriers inside: queueing one behind another never ends) and returns 0 after the last has returned.
 * Non-zero: nothing was started. Default: the engine's own pool, whose workers sleep while the engine is
 * idle. */
typedef struct qrt_thread_pool {
  void* ctx;
  int32_t (*run)(void* ctx, uint32_t count, void (*task)(void* arg, uint32_t index, uint32_t count),
                 void* arg);
} qrt_thread_pool;

/* ---- artifact ---- */

typedef struct qrt_artifact qrt_artifact;

typedef struct qrt_artifact_options {
  size_t struct_size;
  const qrt_allocator* allocator; /* NULL: default */
  const qrt_log_sink* log;        /* NULL: silence */
  uint32_t verify_weights;        /* non-zero: also hash the weights now (reads the whole file) */
} qrt_artifact_options;

/* Maps the file and verifies header, section table, bounds and the hashes of everything but the weights.
 * Errors: NOT_FOUND, IO_ERROR, ARTIFACT_CORRUPT, ARTIFACT_INCOMPATIBLE, OUT_OF_MEMORY, INVALID_ARGUMENT. */
QRT_API qrt_status qrt_artifact_open(const char* path, const qrt_artifact_options* options,
                                     qrt_artifact** out, qrt_error* error);

/* Alignment of the bytes below. */
#define QRT_ARTIFACT_ALIGNMENT 64u

/* The same over an artifact of `size` bytes in the caller's memory: linked into the program, or mapped by it.
 * They are used where they lie and checked as a file's are, `size` being exactly the artifact's. `bytes` is a
 * multiple of QRT_ARTIFACT_ALIGNMENT. They must stay, unchanged, until the last object made from the artifact
 * is released (its engines, sessions, texts too), and need be readable only. Any number of artifacts may
 * share them. `name` stands for the path in messages and is copied; NULL: "memory". The code is copied to
 * become executable, as always; on a GPU that shares the host's memory the driver may read the pages they lie
 * in. Errors: INVALID_ARGUMENT (also Q4021: not aligned), ARTIFACT_CORRUPT, ARTIFACT_INCOMPATIBLE,
 * OUT_OF_MEMORY. Since 1.3. */
QRT_API qrt_status qrt_artifact_open_memory(const void* bytes, size_t size, const char* name,
                                            const qrt_artifact_options* options, qrt_artifact** out,
                                            qrt_error* error);

QRT_API void qrt_artifact_release(qrt_artifact* artifact);

/* Hashes the weights too, the one part that open leaves out. `progress` may be NULL; it gets bytes done and
 * in all now and then, and stops the work by returning non-zero. Errors: ARTIFACT_CORRUPT, CANCELLED. */
typedef int32_t (*qrt_progress_fn)(void* ctx, uint64_t done, uint64_t total);
QRT_API qrt_status qrt_artifact_verify(const qrt_artifact* artifact, qrt_progress_fn progress, void* ctx,
                                       qrt_error* error);

/* For a host's handler of SIGBUS: the file that is mapped at the address of the fault (siginfo_t.si_addr), an
 * artifact's or another one. Returns 1 and writes its path, NUL-terminated and cut to `capacity` bytes, and
 * the address's offset in the file; 0 where no file is mapped there. NULL leaves an output out.
 * Async-signal-safe. Since 1.2. */
QRT_API int32_t qrt_mapped_file_at(const void* address, char* path, size_t capacity, uint64_t* offset);

typedef struct qrt_artifact_info {
  size_t struct_size;
  const char* architecture; /* "qwen35", ...; borrowed from the artifact */
  const char* model_name;   /* from the source's metadata, may be empty; borrowed from the artifact */
  uint32_t vocab_size;      /* columns of a row of logits */
  uint32_t embedding_length;
  uint64_t context_length; /* tokens the model was made for */
  uint64_t file_bytes;
  uint64_t weight_bytes; /* packed weights */
  uint64_t state_bytes;  /* recurrent and conv state of one session */
  uint64_t kv_bytes_per_token;
  uint32_t program_count;
  uint32_t code_count;        /* code variants, see qrt_artifact_code */
  uint32_t has_tokenizer;     /* 0 or 1 */
  uint32_t has_chat_template; /* 0 or 1 */
  uint32_t has_goldens;       /* 0 or 1: see qrt_engine_check */
  uint8_t identity[16];       /* hash over the section table: equal only for equal artifacts */
  /* Since 1.3: devices that run the model's layers, one after the other (qcc compile --layers); else 1.
   * State, KV and weights above are those of all. (64 bits: older programs own what lies before the next
   * multiple of 8) */
  uint64_t parts;
  /* Since 1.3: of qcc compile --numerics, "f32" or "int8": whether other devices and code variants go on from
   * a snapshot with the same tokens. Static. */
  const char* numerics;
} qrt_artifact_info;

/* Errors: INVALID_ARGUMENT. */
QRT_API qrt_status qrt_artifact_describe(const qrt_artifact* artifact, qrt_artifact_info* info,
                                         qrt_error* error);

typedef struct qrt_code_info {
  size_t struct_size;
  const char* name;   /* "x86-64-v4-vnni", ...; borrowed from the artifact */
  const char* target; /* "cpu", "vulkan", "cuda", or one that this release does not know; borrowed from the
                         artifact */
  uint64_t bytes;
  uint32_t supported; /* 1: this machine can run it, on some device */
  char missing[256];  /* what it needs and this machine lacks */
} qrt_code_info;

/* Code variant `index` < code_count, best first: an engine takes the first that is supported.
 * Errors: INVALID_ARGUMENT. */
QRT_API qrt_status qrt_artifact_code(const qrt_artifact* artifact, uint32_t index, qrt_code_info* info,
                                     qrt_error* error);

typedef struct qrt_memory_plan {
  size_t struct_size;
  uint64_t weight_bytes; /* mapped from the file, shared by all engines and processes */
  uint64_t code_bytes;   /* of the engine */
  uint64_t engine_bytes; /* arena, scratch of the threads (one per physical core), rows of logits, buffers of
                          * a step */
  uint64_t state_bytes;  /* all sessions: recurrent and conv state */
  uint64_t kv_bytes;     /* all sessions, at full context */
  uint64_t logits_bytes; /* all sessions: the last row */
  uint64_t total_bytes;
  uint64_t device_weight_bytes; /* copied to the device's own memory; part of total_bytes; 0 on the CPU.
                                   Since 1.1 */
} qrt_memory_plan;

/* What one engine with `sessions` sessions of `context_tokens` each takes, before anything is allocated: on
 * the CPU, or on a GPU where the artifact holds code for GPUs only (then engine_bytes leaves out the driver's
 * own, and code_bytes is that of the first variant). code_bytes is that of the best supported code, 0 where
 * none is. Errors: INVALID_ARGUMENT. */
QRT_API qrt_status qrt_artifact_memory_plan(const qrt_artifact* artifact, uint64_t context_tokens,
                                            uint32_t sessions, qrt_memory_plan* plan, qrt_error* error);

/* ---- machine ---- */

typedef struct qrt_cpu_info {
  size_t struct_size;
  uint32_t physical_cores; /* that this process may use: affinity and cgroup quota considered */
  uint32_t logical_cores;
  char name[128];     /* brand string, may be empty */
  char features[512]; /* those that code variants can ask for, separated by spaces */
} qrt_cpu_info;

/* Errors: INVALID_ARGUMENT. */
QRT_API qrt_status qrt_cpu_describe(qrt_cpu_info* info, qrt_error* error);

/* Something that an engine can run on, or could if it were usable. Since 1.1. */
typedef struct qrt_device_info {
  size_t struct_size;
  char id[32];           /* what qrt_engine_options.device takes: "cpu", "vulkan:0", "cuda:1" */
  char name[256];        /* of the hardware, may be empty */
  char facts[256];       /* driver and abilities, for people */
  uint32_t usable;       /* 1: an engine can be made on it, if the artifact holds code that fits */
  char why_not[256];     /* where usable is 0 */
  uint64_t memory_bytes; /* of the device; 0: not known */
} qrt_device_info;

/* All devices of this machine: the CPU, then CUDA's, then Vulkan's. A kind without a driver is one entry that
 * is not usable and says why. devices[0].struct_size is that of every element and set by the caller. Errors:
 * BUFFER_TOO_SMALL (*count = needed), OUT_OF_MEMORY, INVALID_ARGUMENT. */
QRT_API qrt_status qrt_devices_list(qrt_device_info* devices, size_t capacity, size_t* count,
                                    qrt_error* error);

/* ---- engine ---- */

typedef struct qrt_engine qrt_engine;

#define QRT_MAX_THREADS 256u

typedef struct qrt_engine_options {
  size_t struct_size;
  uint32_t threads; /* threads of a step, 1..QRT_MAX_THREADS; 0: one per physical core available */
  const char* cpu;  /* name of the code variant to use, of a GPU's too; NULL: the best supported */
  const qrt_allocator* allocator;     /* NULL: the artifact's */
  const qrt_log_sink* log;            /* NULL: the artifact's */
  const qrt_thread_pool* thread_pool; /* NULL: own pool; otherwise `threads` is the count passed to run */
  /* Since 1.1: */
  const char* device;     /* "cpu", "vulkan", "vulkan:1", "cuda", "cuda:0", or "auto": CUDA, else a real GPU
                           * through     Vulkan, else the CPU; one that cannot be made (short of memory, say) is
                           * passed over. NULL: the CPU if the artifact holds code for CPUs, else as "auto".
                           * Of an artifact in parts one for each, "cpu,vulkan:1"; NULL or "auto": the best of
                           * each part's kind. Since 1.3 */
  double max_dispatch_ms; /* GPU: longest piece of work to hand over at once; 0: 200; negative: no limit */
  const char*
      cache_dir; /* GPU: where what the driver makes of SPIR-V or PTX is kept between runs; made if missing,
                  * kept below 256 MiB; any number of processes may share it. NULL: nowhere */
  qrt_progress_fn progress; /* GPU: bytes of weights copied so far, and in all; non-zero: stop. NULL: none */
  void* progress_ctx;
  /* Since 1.3: an artifact that guesses tokens for this one (qrt_session_generate), on a device of its kind
   * and with threads of its own: of `qcc compile --draft`, or of another, smaller model with the same
   * tokenizer, of which each session then has a session, too. Kept alive by the engine. NULL: none but the
   * model's own. */
  qrt_artifact* draft;
  /* Since 1.3: most bytes of the host's memory in which the engine keeps prefixes of sequences
   * (qrt_session_keep). 0: none are kept. */
  uint64_t prefix_bytes;
} qrt_engine_options;

/* Verifies the code's hash again over the private copy that becomes executable, allocates the arena and
 * scratch for each thread, starts workers; on a GPU copies the weights to it. Errors: DEVICE_UNSUPPORTED,
 * ARTIFACT_CORRUPT, OUT_OF_MEMORY, INVALID_ARGUMENT, DEVICE_LOST, DEVICE_FAILED, CANCELLED (by `progress`),
 * ARTIFACT_INCOMPATIBLE (Q5335: the draft is not one, or made for another model; Q5336: the artifact is a
 * draft). */
QRT_API qrt_status qrt_engine_create(qrt_artifact* artifact, const qrt_engine_options* options,
                                     qrt_engine** out, qrt_error* error);
QRT_API void qrt_engine_release(qrt_engine* engine);

typedef struct qrt_engine_info {
  size_t struct_size;
  uint32_t threads;
  const char* cpu;        /* code variant in use; borrowed from the artifact */
  uint32_t max_step_rows; /* rows of the largest program: longer prompts are run in several steps */
  uint32_t vocab_size;
  uint64_t memory_bytes; /* arena, scratch of the threads, rows of logits, buffers of a step */
  uint64_t code_bytes;
  /* Since 1.1: */
  const char* device;           /* "cpu", "vulkan:0 (...)"; borrowed from the engine */
  uint32_t samples_on_device;   /* 1: an append with a sampler reads back token ids only */
  uint64_t device_weight_bytes; /* copied to the device's own memory; 0: used where the file is mapped */
  uint64_t submissions;         /* by steps so far; a GPU's queue counts them, 0 on the CPU */
  uint64_t bytes_to_host;       /* copied back from a GPU by steps so far */
  /* Since 1.3: of device "auto", better kinds of device that were not taken, and why: "cuda: no driver";
   * empty: none. Borrowed from the engine */
  const char* passed_over;
  /* Since 1.3: devices that run the layers, as many as the artifact's parts; where there are several,
   * `device` and `cpu` name each, with " + " between them */
  uint64_t parts;
  uint64_t transfers;         /* of rows from one device to the next by steps so far: parts - 1 a step */
  uint64_t bytes_transferred; /* in them */
  uint64_t drafts;            /* 1: sessions can have QRT_DRAFT_MODEL */
  /* Since 1.3, of qrt_engine_options.prefix_bytes: */
  uint64_t prefix_bytes;  /* in use */
  uint64_t prefixes;      /* kept: places from which a session can begin with recurrent state; of models with
                           * KV alone those that no other goes on from */
  uint64_t prefix_hits;   /* calls of qrt_session_begin that found one */
  uint64_t prefix_tokens; /* that they found, together */
} qrt_engine_info;

/* Errors: INVALID_ARGUMENT. */
QRT_API qrt_status qrt_engine_describe(const qrt_engine* engine, qrt_engine_info* info, qrt_error* error);

/* Since 1.3: where the time of an engine's steps goes. A stage of a CPU is a place in the code of a program:
 * a kernel's run, or a barrier, where threads wait for each other; of a GPU it is launches of one kernel by
 * as many workgroups, as the device's own timestamps tell. What runs once for each layer is one stage. */
typedef struct qrt_stage_info {
  size_t struct_size;
  const char* program;       /* as in `qcc inspect`, or "greedy_1": a choice of tokens; borrowed from the
                              * engine, as the next two */
  const char* kernel;        /* NULL: a barrier */
  const char* specification; /* of the kernel: family, constants, what is bound; NULL: a barrier */
  uint64_t weight_bytes; /* that all threads together read in one run with as many rows as the program has */
  uint64_t runs;
  double seconds;    /* that the thread, or the GPU, took for them */
  const char* group; /* for sums: "attention", "delta", "experts", "linears", "norms", "embedding", "head",
                      * "choice", "other"; NULL: a barrier */
  uint32_t threads;  /* that have times of it: of a CPU its threads, of a GPU 1 */
  uint32_t device_clock; /* 1: by timestamps of the GPU */
} qrt_stage_info;

/* From now on, from 0 on. A step takes a few microseconds longer on a CPU; on a GPU each launch waits for the
 * one before, to be timed alone. Errors: UNAVAILABLE (Q5337: no device of the engine can), OUT_OF_MEMORY,
 * DEVICE_LOST, DEVICE_FAILED, INVALID_ARGUMENT. */
QRT_API qrt_status qrt_engine_time_stages(qrt_engine* engine, qrt_error* error);
/* How many there are, of all programs in the order of their code; 0 before qrt_engine_time_stages. */
QRT_API size_t qrt_engine_stages(const qrt_engine* engine);
/* Stage `index` on thread `thread` of its device's; both from 0. Between steps. Errors: INVALID_ARGUMENT. */
QRT_API qrt_status qrt_engine_stage(const qrt_engine* engine, size_t index, uint32_t thread,
                                    qrt_stage_info* info, qrt_error* error);

typedef struct qrt_check_report {
  size_t struct_size;
  uint32_t passed;      /* 1: every golden value is within the tolerance, all together within rms_tolerance */
  uint32_t tokens;      /* of the golden prompt */
  uint32_t values;      /* logits compared */
  float max_difference; /* largest |logit - golden value| */
  float tolerance;      /* accepted */
  uint32_t exact_rows;  /* rows whose bits equal the golden hash */
  uint32_t hashed_rows; /* rows that carry a hash */
  /* Root of the mean square of all differences, and what is accepted: one value may be off where a rounding
   * fell to the other side, many may not. Since 1.3. */
  double rms_difference; /* (doubles: older programs own what lies before the next multiple of 8) */
  double rms_tolerance;
} qrt_check_report;

/* Runs the golden prompt that the artifact carries and compares. Errors: UNAVAILABLE (no goldens in the
 * artifact), OUT_OF_MEMORY, INVALID_ARGUMENT, INTERNAL. Failing to meet the goldens is not an error of this
 * function. */
QRT_API qrt_status qrt_engine_check(qrt_engine* engine, qrt_check_report* report, qrt_error* error);

/* ---- session ---- */

typedef struct qrt_session qrt_session;
typedef struct qrt_sampler qrt_sampler; /* chooses tokens, see below */

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

/* An empty sequence. Its KV is reserved for the whole context, but resident only as far as it is used.
 * Errors: OUT_OF_MEMORY, INVALID_ARGUMENT (context of more than 2^31 - 1 tokens), UNAVAILABLE (Q5334: draft
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
 * it has in a session which never saw them. Logits and traces are gone until then. Errors: INVALID_ARGUMENT
 * (more than qrt_session_rewindable; the session is unchanged). */
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
 * qrt_session_begin). Since 1.3. */
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
 * once on several threads. Errors: UNAVAILABLE (Q5353: an engine without prefix_bytes), INVALID_ARGUMENT,
 * OUT_OF_MEMORY, DEVICE_LOST, DEVICE_FAILED: with the last three the session must be reset. */
QRT_API qrt_status qrt_session_begin(qrt_session* session, const int32_t* tokens, size_t count,
                                     qrt_prefix* prefix, qrt_error* error);

/* Since 1.3: keeps what the session holds, in whole blocks of 16 tokens, for qrt_session_begin. `tokens` are
 * all `count` tokens that it was fed: that they are these is the caller's to answer for. A model with
 * recurrent state keeps that here, and begins only from where it was kept, so the session must hold a
 * multiple of 16 tokens or be able to step back to one (Q5351): append a prompt up to there, keep, append the
 * rest. KV is kept once for each block, however many prefixes go through it. What was not used for the
 * longest time makes way; *kept (may be NULL): tokens that are kept now, 0 where there is no whole block, or
 * no room beside what is pinned. Errors: UNAVAILABLE (Q5353), INVALID_ARGUMENT (also Q5351: another count
 * than the session holds), OUT_OF_MEMORY, DEVICE_LOST, DEVICE_FAILED. */
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
 * already run stay. */
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
   * call only. */
  qrt_sampler* sampler; /* NULL: none */
  int32_t* next;        /* needed with a sampler; left alone where no token could be chosen */
} qrt_append_options;

/* Feeds `count` tokens. However a sequence is cut into calls, the logits have the same bits, for one code
 * variant on one device. `count` 0 does nothing. Errors: CONTEXT_FULL (nothing taken), INVALID_ARGUMENT
 * (nothing taken: a token outside the vocabulary, ...), CANCELLED (position tells how many tokens were taken;
 * the session can go on from there), INTERNAL (the injected thread pool refused: as CANCELLED, or where an
 * earlier part of the model had run as what follows), DEVICE_LOST, DEVICE_FAILED, OUT_OF_MEMORY (of a GPU):
 * the session takes no more tokens until it is reset or restored.
 * With a sampler also NUMERIC_FAULT (Q5325; until 1.2 INVALID_ARGUMENT): the logits to choose from are
 * damaged; all tokens were taken. */
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
 * All items are checked before any is run. Errors: as qrt_session_append, message names the item;
 * INVALID_ARGUMENT also for a session that occurs twice or belongs to another engine. CANCELLED: each
 * session's position tells how far it came. */
QRT_API qrt_status qrt_engine_append(qrt_engine* engine, const qrt_batch_item* items, size_t count,
                                     qrt_error* error);

/* Makes the append now running, or else the next, stop between two steps with QRT_CANCELLED. Any thread; safe
 * in a signal handler. Cleared by the append that it stopped and by reset. In a batch it stops the whole
 * call. */
QRT_API void qrt_session_cancel(qrt_session* session);

/* Bytes that qrt_session_save writes at the current position. 0 for NULL. */
QRT_API uint64_t qrt_session_save_size(const qrt_session* session);

/* Writes the sequence (state, KV so far, position; not the logits) to memory, with a checksum, bound to the
 * artifact and the geometry. Errors: BUFFER_TOO_SMALL, INVALID_ARGUMENT. *written may be NULL. */
QRT_API qrt_status qrt_session_save(const qrt_session* session, void* buffer, size_t capacity,
                                    size_t* written, qrt_error* error);

/* Replaces the sequence by a saved one; the bytes are not trusted. Capacities may differ as long as the saved
 * tokens fit, and so may the device: the tokens that follow are the same in f32, in int8 devices round
 * differently. Errors: SNAPSHOT_MISMATCH, CONTEXT_FULL (session unchanged). */
QRT_API qrt_status qrt_session_restore(qrt_session* session, const void* buffer, size_t size,
                                       qrt_error* error);

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

/* ---- text ---- */

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
 * behind none, and each call one for the position after the last call's: qrt_sampler_seek says where a
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

/* Errors: INVALID_ARGUMENT (Q5355: a text of another vocabulary), OUT_OF_MEMORY. Since 1.3. */
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
   * may end with the first `cut_bytes` bytes of a character (shown as U+FFFD); what follows then (a next
   * answer, qrt_generate_more) begins with them. */
  const char* text;
  size_t text_length;
  size_t cut_bytes;
  uint64_t reused_tokens;   /* of the prompt: were in the session, or in a prefix that the engine keeps */
  uint64_t prompt_tokens;   /* of it: fed */
  uint64_t tokens;          /* of the answer, the one that ended it included */
  uint64_t steps;           /* that decoded */
  uint64_t decoded_tokens;  /* which they chose: tokens, or one more that was chosen and is no part of it */
  uint64_t guessed_tokens;  /* for them, by a draft */
  uint64_t accepted_tokens; /* of those chosen */
  double reuse_seconds;     /* to get at the reused tokens */
  double prompt_seconds;    /* to feed the prompt */
  double decode_seconds;
  qrt_finish finish;
} qrt_answer;

/* Since 1.3: answers the prompt `tokens`, from its first token on: what the session holds of its begin stays,
 * or is gone back to (qrt_session_rewind, a checkpoint), or taken from what the engine keeps (`prefix_bytes`
 * of qrt_engine_options), whichever leaves the least to feed; such an engine is given the prompt to keep,
 * too. `keep`: there will be a checkpoint behind so many tokens, since the next prompt begins with them; 0:
 * none. The text is that of the same prompt in a new session, bit for bit, with any draft and none.
 * *answer (struct_size set by the caller; may be NULL) is filled as far as it came also where the call
 * fails. Errors: INVALID_ARGUMENT (an empty prompt, ids outside the vocabulary, no sampler), CONTEXT_FULL,
 * and as qrt_session_append, but CANCELLED is an answer's end. */
QRT_API qrt_status qrt_generate(qrt_generator* generator, const int32_t* tokens, size_t count, uint64_t keep,
                                const qrt_answer_options* options, qrt_answer* answer, qrt_error* error);

/* Since 1.3: the same for a conversation, rendered with the artifact's template up to an answer's begin
 * (add_generation_prompt of `chat` is not looked at). Where the messages go on from the last answer, its
 * tokens stay as they were sampled wherever the template allows it. Errors: of both
 * qrt_text_encode_chat and qrt_generate. */
QRT_API qrt_status qrt_generate_chat(qrt_generator* generator, const qrt_chat_message* messages, size_t count,
                                     const qrt_chat_options* chat, const qrt_answer_options* options,
                                     qrt_answer* answer, qrt_error* error);

/* Since 1.3: goes on where the last answer ended, or what was resumed. Errors: as qrt_generate. */
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
 * position says. *next (may be NULL): the token that was chosen to follow, in no answer yet; -1: none. To be
 * saved beside qrt_session_save. Errors: BUFFER_TOO_SMALL (*needed), INVALID_ARGUMENT. */
QRT_API qrt_status qrt_generator_tokens(const qrt_generator* generator, int32_t* tokens, size_t capacity,
                                        size_t* needed, int32_t* next, qrt_error* error);

/* Since 1.3: the session was restored: what it holds, as qrt_generator_tokens gave it. `messages`: the
 * conversation that they are, up to the last answer, for qrt_generate_chat to go on from; 0: none. Errors:
 * INVALID_ARGUMENT (Q5354: other tokens than the session holds; ids outside the vocabulary), and of
 * qrt_text_encode_chat. */
QRT_API qrt_status qrt_generator_resume(qrt_generator* generator, const int32_t* tokens, size_t count,
                                        int32_t next, const qrt_chat_message* messages, size_t message_count,
                                        const qrt_chat_options* chat, qrt_error* error);

#ifdef __cplusplus
}
#endif
#endif /* QRT_QRT_H_ */
