#include "runtime/qrun/model.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "runtime/qrun/escape.h"
#include "runtime/qrun/process.h"

namespace qrun {
namespace {

void WriteLog(void*, qrt_log_level, const char* line, size_t length) {
  Tell({line, length});
}

int32_t ShowUpload(void*, uint64_t done, uint64_t total) {
  if (isatty(STDERR_FILENO)) {
    std::fprintf(stderr, "\rqrun: copying weights to the device, %3.0f %%%s",
                 100.0 * static_cast<double>(done) / static_cast<double>(total), done == total ? "\n" : "");
  }
  return Interrupts::Pending();
}

// Empty: the environment names no home.
std::string UsualCacheFolder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache == '/') return std::string(cache) + "/qcc/kernels";
  const char* home = std::getenv("HOME");
  return home != nullptr && *home == '/' ? std::string(home) + "/.cache/qcc/kernels" : "";
}

}  // namespace

void EngineChoice::AddTo(Options& options) {
  options.Integer("-t, --threads", "N", 1, QRT_MAX_THREADS, &threads,
                  "threads; default: one per physical core");
  options.Text("--cpu", "NAME", &cpu, "code variant to run; default: the best that the device can");
  options.Text("--device", "NAME", &device,
               "cpu, vulkan, vulkan:N, cuda, cuda:N or auto; default: cpu if the artifact holds code for it");
  options.Number("--max-dispatch-ms", "X", 0, 1e6, &max_dispatch_ms,
                 "longest piece of work for a GPU; 0: no limit; default 200");
  options.Text("--cache-dir", "DIR", &cache_dir,
               "where compiled GPU kernels are kept; empty: nowhere; default: ~/.cache/qcc/kernels");
  options.Flag("-v, --verbose", &verbose, "say on stderr what is chosen and why");
}

std::vector<std::string> EngineChoice::WithoutEffectOn(std::string_view device) const {
  const std::string kind(device.substr(0, device.find(':')));
  const struct {
    const char* name;
    std::vector<std::string_view> kinds;  // of devices for which it means something
    bool given;
  } rows[] = {{"--threads", {"cpu"}, threads.has_value()},
              {"--max-dispatch-ms", {"vulkan", "cuda"}, max_dispatch_ms.has_value()},
              {"--cache-dir", {"vulkan"}, cache_dir.has_value()}};
  std::vector<std::string> out;
  for (const auto& row : rows) {
    if (!row.given || std::find(row.kinds.begin(), row.kinds.end(), kind) != row.kinds.end()) continue;
    out.push_back(std::string(row.name) + " has no effect: the model runs on device " + kind);
  }
  return out;
}

Outcome OpenArtifact(const std::string& path, bool verbose, ArtifactPtr* out, qrt_artifact_info* info) {
  const qrt_log_sink sink = {nullptr, WriteLog};
  qrt_artifact_options options = {};
  options.struct_size = sizeof options;
  options.log = verbose ? &sink : nullptr;
  qrt_artifact* artifact = nullptr;
  QRUN_CALL(qrt_artifact_open(path.c_str(), &options, &artifact, &error));
  out->reset(artifact);
  info->struct_size = sizeof *info;
  QRUN_CALL(qrt_artifact_describe(artifact, info, &error));
  return Outcome();
}

Outcome OpenText(const Model& model, TextPtr* out) {
  qrt_text* text = nullptr;
  QRUN_CALL(qrt_text_create(model.artifact.get(), &text, &error));
  out->reset(text);
  return Outcome();
}

Outcome OpenModel(const std::string& path, const EngineChoice& choice, bool with_text, Model* out) {
  const double start = Seconds();
  QRUN_RETURN_IF_ERROR(OpenArtifact(path, choice.verbose, &out->artifact, &out->info));
  if (with_text) QRUN_RETURN_IF_ERROR(OpenText(*out, &out->text));
  qrt_engine_options options = {};
  options.struct_size = sizeof options;
  options.threads = static_cast<uint32_t>(choice.threads.value_or(0));
  options.cpu = choice.cpu ? choice.cpu->c_str() : nullptr;
  options.device = choice.device ? choice.device->c_str() : nullptr;
  if (choice.max_dispatch_ms)
    options.max_dispatch_ms = *choice.max_dispatch_ms > 0 ? *choice.max_dispatch_ms : -1;
  const std::string cache = choice.cache_dir.value_or(UsualCacheFolder());
  options.cache_dir = cache.c_str();
  options.progress = ShowUpload;
  qrt_engine* engine = nullptr;
  QRUN_CALL(qrt_engine_create(out->artifact.get(), &options, &engine, &error));
  out->engine.reset(engine);
  if (!choice.several_devices) {
    qrt_engine_info info;
    QRUN_RETURN_IF_ERROR(DescribeEngine(*out, &info));
    for (const std::string& warning : choice.WithoutEffectOn(info.device)) Warn(warning);
  }
  out->load_seconds = Seconds() - start;
  return Outcome();
}

Outcome DescribeEngine(const Model& model, qrt_engine_info* out) {
  *out = {};
  out->struct_size = sizeof *out;
  QRUN_CALL(qrt_engine_describe(model.engine.get(), out, &error));
  return Outcome();
}

Outcome NewSession(const Model& model, uint64_t context_tokens, SessionPtr* out) {
  qrt_session_options options = {};
  options.struct_size = sizeof options;
  options.context_tokens = context_tokens;
  qrt_session* session = nullptr;
  QRUN_CALL(qrt_session_create(model.engine.get(), &options, &session, &error));
  out->reset(session);
  return Outcome();
}

Outcome Tokenize(const qrt_text* text, std::string_view utf8, bool special, std::vector<int32_t>* out,
                 bool as_written) {
  const uint32_t flags = (special ? QRT_TOKENIZE_SPECIAL : 0u) | (as_written ? QRT_TOKENIZE_AS_WRITTEN : 0u);
  out->resize(utf8.size());  // hardly ever more tokens than bytes
  for (;;) {
    size_t count = 0;
    qrt_error error = NewError();
    const qrt_status status =
        qrt_text_tokenize(text, utf8.data(), utf8.size(), flags, out->data(), out->size(), &count, &error);
    if (status != QRT_OK && status != QRT_BUFFER_TOO_SMALL) return Outcome::Of(error);
    out->resize(count);
    if (status == QRT_OK) return Outcome();
  }
}

}  // namespace qrun
