/* A program of API 1.1, compiled against the first header of that version (data/api-1.1) and run with today's
 * library: old_caller ARTIFACT. Prints the answer's token ids; the exit code is the line of what failed, at
 * most 255. */
#include <qrt/qrt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if QRT_API_MAJOR != 1 || QRT_API_MINOR != 1
#error "this is about programs of API 1.1"
#endif

static int fail(int line, const char* what, const qrt_error* error) {
  fprintf(stderr, "old_caller.c:%d: %s: %s [Q%04u]\n", line, what, error->message, (unsigned)error->code);
  return line < 255 ? line : 255;
}
#define MUST(call)                                     \
  do {                                                 \
    if (!(call)) return fail(__LINE__, #call, &error); \
  } while (0)

/* A struct of the old size with bytes behind it that a newer library must leave alone. */
#define GUARDED(type, name)                  \
  struct {                                   \
    type value;                              \
    unsigned char behind[64];                \
  } name;                                    \
  memset(&name, 0xA5, sizeof name);          \
  memset(&name.value, 0, sizeof name.value); \
  name.value.struct_size = sizeof name.value
#define UNTOUCHED(name) untouched(name.behind)

static int untouched(const unsigned char* bytes) {
  for (int i = 0; i < 64; ++i) {
    if (bytes[i] != 0xA5) return 0;
  }
  return 1;
}

static int describe(qrt_artifact* artifact, qrt_engine* engine) {
  qrt_error error = {.struct_size = sizeof error};
  GUARDED(qrt_artifact_info, info);
  MUST(qrt_artifact_describe(artifact, &info.value, &error) == QRT_OK && UNTOUCHED(info));
  MUST(info.value.vocab_size > 0 && info.value.has_chat_template == 1);
  GUARDED(qrt_code_info, code);
  MUST(qrt_artifact_code(artifact, 0, &code.value, &error) == QRT_OK && UNTOUCHED(code));
  GUARDED(qrt_memory_plan, plan);
  MUST(qrt_artifact_memory_plan(artifact, 64, 2, &plan.value, &error) == QRT_OK && UNTOUCHED(plan));
  MUST(plan.value.total_bytes > plan.value.weight_bytes);
  GUARDED(qrt_cpu_info, cpu);
  MUST(qrt_cpu_describe(&cpu.value, &error) == QRT_OK && UNTOUCHED(cpu));
  GUARDED(qrt_engine_info, engine_info);
  MUST(qrt_engine_describe(engine, &engine_info.value, &error) == QRT_OK && UNTOUCHED(engine_info));
  MUST(engine_info.value.threads == 2 && strcmp(engine_info.value.device, "cpu") == 0);
  GUARDED(qrt_error, small);
  MUST(qrt_artifact_describe(NULL, &info.value, &small.value) == QRT_INVALID_ARGUMENT && UNTOUCHED(small));
  qrt_device_info devices[16];
  size_t count = 0;
  devices[0].struct_size = sizeof devices[0];
  MUST(qrt_devices_list(devices, 16, &count, &error) == QRT_OK && count >= 1);
  for (size_t i = 0; i < count; ++i) {
    MUST(devices[i].struct_size == sizeof devices[i] && strchr("cv", devices[i].id[0]) != NULL);
  }
  GUARDED(qrt_check_report, report);
  const qrt_status checked = qrt_engine_check(engine, &report.value, &error);
  MUST(checked == (info.value.has_goldens ? QRT_OK : QRT_UNAVAILABLE) && UNTOUCHED(report));
  return 0;
}

static int32_t stop_at_once(void* ctx, qrt_session* session, uint64_t position, const float* logits,
                            size_t vocab_size) {
  (void)session;
  (void)logits;
  *(uint64_t*)ctx += position + (vocab_size == 0);
  return 1;
}

/* Two sessions, alone, batched, saved and restored: the same tokens. */
static int run(qrt_artifact* artifact, qrt_engine* engine, const int32_t* tokens, size_t count) {
  qrt_error error = {.struct_size = sizeof error};
  const qrt_session_options options = {.struct_size = sizeof options, .context_tokens = 256};
  qrt_sampler_options sampling = {.struct_size = sizeof sampling};
  qrt_session *one = NULL, *two = NULL;
  qrt_sampler* sampler = NULL;
  MUST(qrt_sampler_defaults(artifact, &sampling, &error) == QRT_OK);
  sampling.temperature = 0;
  MUST(qrt_sampler_create(artifact, &sampling, &sampler, &error) == QRT_OK);
  MUST(qrt_session_create(engine, &options, &one, &error) == QRT_OK);
  MUST(qrt_session_create(engine, &options, &two, &error) == QRT_OK);
  int32_t first = -1, second = -1;
  qrt_append_options append = {.struct_size = sizeof append, .sampler = sampler, .next = &first};
  MUST(qrt_session_append(one, tokens, count, &append, &error) == QRT_OK && first >= 0);
  const size_t size = (size_t)qrt_session_save_size(one);
  void* saved = malloc(size);
  MUST(saved != NULL && qrt_session_save(one, saved, size, NULL, &error) == QRT_OK);
  MUST(qrt_session_restore(two, saved, size, &error) == QRT_OK);
  free(saved);
  for (int i = 0; i < 8; ++i) {
    printf("%d ", (int)first);
    const int32_t last[2] = {first, first};
    qrt_batch_item items[2] = {{.session = one, .tokens = &last[0], .count = 1, .options = append},
                               {.session = two, .tokens = &last[1], .count = 1, .options = append}};
    items[1].options.next = &second;
    MUST(qrt_engine_append(engine, items, 2, &error) == QRT_OK && first == second);
  }
  uint64_t seen = 0;
  append = (qrt_append_options){
      .struct_size = sizeof append, .want = QRT_LOGITS_ALL, .on_logits = stop_at_once, .ctx = &seen};
  MUST(qrt_session_append(one, tokens, 1, &append, &error) == QRT_CANCELLED && seen > 0);
  qrt_session_release(two);
  qrt_session_release(one);
  qrt_sampler_release(sampler);
  return 0;
}

int main(int argc, char** argv) {
  qrt_error error = {.struct_size = sizeof error};
  qrt_artifact* artifact = NULL;
  qrt_engine* engine = NULL;
  qrt_text* text = NULL;
  MUST(argc == 2);
  const qrt_artifact_options artifact_options = {.struct_size = sizeof artifact_options, .verify_weights = 1};
  MUST(qrt_artifact_open(argv[1], &artifact_options, &artifact, &error) == QRT_OK);
  const qrt_engine_options engine_options = {
      .struct_size = sizeof engine_options, .threads = 2, .device = "cpu"};
  MUST(qrt_engine_create(artifact, &engine_options, &engine, &error) == QRT_OK);
  MUST(qrt_text_create(artifact, &text, &error) == QRT_OK);
  int failed = describe(artifact, engine);
  const qrt_chat_message messages[2] = {{.role = "system", .content = "Be brief."},
                                        {.role = "user", .content = "hello"}};
  const qrt_chat_options chat = {
      .struct_size = sizeof chat, .add_generation_prompt = 1, .enable_thinking = -1};
  int32_t tokens[256];
  size_t count = 0;
  MUST(qrt_text_encode_chat(text, messages, 2, &chat, tokens, 256, &count, &error) == QRT_OK && count > 2);
  if (!failed) failed = run(artifact, engine, tokens, count);
  qrt_text_release(text);
  qrt_engine_release(engine);
  qrt_artifact_release(artifact);
  return failed;
}
