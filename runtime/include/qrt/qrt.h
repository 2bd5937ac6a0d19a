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
 *            one thread pool), so several sessions gain by qrt_engine_append, not by threads. Steps come in the order
 *            in which threads ask for them: a long prompt keeps another thread from no more than one.
 *            session, sampler: one thread at a time (qrt_session_cancel excepted).
 *            There is no global or thread-local state: two engines do not know of each other.
 * Stack      A thread that calls these functions needs QRT_CALL_STACK bytes of stack; QRT_TEXT_STACK for those that take
 *            messages (of qrt_text, qrt_generate_chat, qrt_generator_encode_chat, qrt_generator_resume) or make a
 *            qrt_text, as chat templates nest; a thread of an injected pool, which only runs steps, QRT_STEP_STACK. The
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

/* Serves arenas, state, KV, logits, checkpoints, kept prefixes and handles. What is small beside them comes
 * from C++ operator new, whose failure is QRT_OUT_OF_MEMORY too: what parsing makes, and lists of token ids
 * (a sampler's and a text's with some tens of bytes for each token of the vocabulary, those of a generator
 * and of drafts with a few for each token of the context). Called from the thread that made the call, never
 * from workers; by several of them at once where several make calls. Must outlive every object made with it.
 * Default: malloc, and mmap for KV (so that only the part of the context in use is resident). */
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

/* Maps the file and verifies header, section table, bounds and the hashes of everything but the weights. Of
 * an executable that `qcc bundle` made: the artifact in it. Errors: NOT_FOUND, IO_ERROR, ARTIFACT_CORRUPT,
 * ARTIFACT_INCOMPATIBLE, OUT_OF_MEMORY, INVALID_ARGUMENT. */
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
  const char* name;   /* "v3", "sg32-dot", ...; borrowed from the artifact */
  const char* target; /* "cpu", "vulkan", "cuda", or one that this release does not know; borrowed from the
                         artifact */
  uint64_t bytes;
  uint32_t supported; /* 1: this machine can run it, on some device */
  char missing[256]; /* what it needs and this machine lacks; of a GPU's code a sentence: why it cannot run */
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
  uint32_t threads; /* threads of a step, at most: 1..QRT_MAX_THREADS; 0: one per physical core available */
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
      cache_dir; /* Vulkan: where what the driver makes of SPIR-V is kept between runs; made if missing and
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
  /* Since 1.3: */
  uint64_t cpu_steps;    /* of the engine's parts on the CPU so far */
  uint64_t step_threads; /* that they ran on, together: fewer than `threads` each while other programs take
                          * cores from the engine's own pool, which then is faster on the rest */
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

#ifdef __cplusplus
}
#endif

/* The rest of the interface. */
#include "session.h"
#include "text.h"

#endif /* QRT_QRT_H_ */
