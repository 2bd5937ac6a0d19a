#include "runtime/qrun/model.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <set>

#include "runtime/aot/cache_layout.h"
#include "runtime/qrun/device_choice.h"
#include "runtime/qrun/escape.h"
#include "runtime/qrun/process.h"

namespace qrun {
namespace {

void WriteLog(void*, qrt_log_level, const char* line, size_t length) {
  Tell({line, length});
}

int32_t ShowUpload(void* line, uint64_t done, uint64_t total) {
  static_cast<ProgressLine*>(line)->Show(done, total);
  return Interrupts::Pending();
}

bool Names(const std::string& option, std::string_view name) {
  return option.substr(0, option.find('=')) == name;
}

// What qcc is asked for where the command line says what to run on: code for that.
std::vector<std::string> CompileOptions(const EngineChoice& choice) {
  std::vector<std::string> options = choice.compile;
  const std::string kind = choice.device.value_or("").substr(0, choice.device.value_or("").find(':'));
  const bool gpu = IsGpu(kind);
  const bool target = std::any_of(options.begin(), options.end(), [](const std::string& option) {
    return Names(option, "--target") || Names(option, "--layers");
  });
  if (gpu && !target) options.push_back("--target=" + kind);
  if (choice.cpu && !(gpu && choice.code() == nullptr))
    options.push_back((gpu ? "--gpu-profiles=" : "--cpu=") + *choice.cpu);
  return options;
}

// How many kinds of device the artifact holds code for.
Outcome CountTargets(const Model& model, size_t* count) {
  std::set<std::string> targets;
  for (uint32_t i = 0; i < model.info.code_count; ++i) {
    qrt_code_info code = {};
    code.struct_size = sizeof code;
    QRUN_CALL(qrt_artifact_code(model.artifact.get(), i, &code, &error));
    targets.insert(code.target);
  }
  *count = targets.size();
  return Outcome();
}

// Where there was a choice: what was taken, and why not a better one.
Outcome SayChoice(const Model& model, const EngineChoice& choice, const qrt_engine_info& engine) {
  size_t targets = 0;
  QRUN_RETURN_IF_ERROR(CountTargets(model, &targets));
  const bool asked = choice.device == "auto";
  if (choice.said.quiet || (!asked && (choice.device || targets < 2))) return Outcome();
  Tell("on " + std::string(engine.device) +
       (*engine.passed_over != '\0' ? "; " + std::string(engine.passed_over) : ""));
  return Outcome();
}

}  // namespace

void EngineChoice::AddTo(Options& options) {
  options.Integer("-t, --threads", "N", 1, QRT_MAX_THREADS, &threads,
                  "threads; default: one per physical core");
  options.Name("--cpu", "NAME", &cpu,
               "code variant to run; default, and native: the best that the device can");
  options.Name(
      "--device", "NAME", &device,
      std::string(kDevices) +
          ": the best that can be used; default: auto; of a model in parts one for each, with commas",
      {"cpu", kGpus[0], kGpus[1], "auto"});
  options.Number("--max-dispatch-ms", "X", 0, 1e6, &max_dispatch_ms,
                 "longest piece of work for a GPU; 0: no limit; default 200");
  AddOpeningTo(options);
}

void EngineChoice::AddOpeningTo(Options& options) {
  options.Text("--cache-dir", "DIR", &cache_dir,
               "where compiled models and GPU kernels are kept; default: ~/.cache/qcc");
  options.Flag("--no-cache", &no_cache, "keep nothing");
  options.PassOn(&compile, "an option of qcc compile, where the model is a GGUF");
  said.AddTo(options);
}

std::string EngineChoice::CacheFolder() const {
  return no_cache ? "" : cache_dir.value_or(qrt::aot::UsualCacheFolder());
}

void Verbosity::AddTo(Options& options) {
  options.Flag("-q, --quiet", &quiet, "say nothing on stderr but errors and what was asked for");
  options.Flag("-v, --verbose", &verbose, "say on stderr what is chosen and why");
}

void Verbosity::Warn(const std::string& text) const {
  if (!quiet) Tell("warning: " + text);
}

std::vector<std::string> EngineChoice::WithoutEffectOn(std::string_view devices) const {
  constexpr std::string_view kBetween = " + ";  // of a model in parts
  std::vector<std::string_view> kinds;
  std::string all;
  for (size_t begin = 0; begin <= devices.size();) {
    const size_t end = std::min(devices.find(kBetween, begin), devices.size());
    const std::string_view device = devices.substr(begin, end - begin);
    kinds.push_back(device.substr(0, device.find(':')));
    all += (all.empty() ? "" : " + ") + std::string(kinds.back());
    begin = end + kBetween.size();
  }
  const struct {
    const char* name;
    std::vector<std::string_view> kinds;  // of devices for which it means something
    bool given;
  } rows[] = {
      {"--threads", {"cpu"}, threads.has_value()},
      {"--max-dispatch-ms", {"vulkan", "cuda"}, max_dispatch_ms.has_value()},
  };
  std::vector<std::string> out;
  for (const auto& row : rows) {
    const bool means =
        std::find_first_of(kinds.begin(), kinds.end(), row.kinds.begin(), row.kinds.end()) != kinds.end();
    if (!row.given || means) continue;
    out.push_back(std::string(row.name) + " has no effect: the model runs on device " + all);
  }
  return out;
}

Outcome FindModel(const std::string& named, const EngineChoice& choice, const Options& options,
                  ModelFile* out) {
  out->path = named;
  if (!IsGguf(named)) return options.RefusePassed();
  if (choice.cpu && choice.cpu->find(',') != std::string::npos) {
    return Outcome::Fail(kExitUsage, 102, "--cpu is \"" + *choice.cpu + "\", expected one code variant", "",
                         "qcc compile takes several, for artifacts that run on several machines");
  }
  // Ahead of a compile, which takes long, what would be found wrong behind it.
  if (choice.device) QRUN_RETURN_IF_ERROR(CheckDeviceName(*choice.device));
  const auto cuts = [](const std::string& option) { return Names(option, "--layers"); };
  if (choice.device && choice.device->find(',') != std::string::npos &&
      std::none_of(choice.compile.begin(), choice.compile.end(), cuts)) {
    return Outcome::Fail(kExitUsage, 5018,
                         "--device is \"" + *choice.device + "\", but the model is not in parts", "",
                         "--layers=cpu:0-3,vulkan:4-7 says which layers run on which device");
  }
  if (!choice.draft.empty()) {
    ArtifactPtr draft;
    qrt_artifact_info info = {};
    QRUN_RETURN_IF_ERROR(OpenArtifact(choice.draft, false, &draft, &info));
  }
  CompileChoice compile = {choice.CacheFolder(), CompileOptions(choice), choice.said.quiet, nullptr};
  if (choice.device) compile.ahead = [&choice] { return CheckDeviceIsHere(*choice.device); };
  return CompiledModel(named, compile, options, out);
}

Outcome RefuseModel(const std::string& option, const std::string& output, const std::string& named,
                    const EngineChoice& choice) {
  for (const std::string& file : FilesOfModel(named)) {
    QRUN_RETURN_IF_ERROR(RefuseInput(option, output, "the model", file));
  }
  for (const std::string& passed : choice.compile) {  // "--mtp=FILE"
    const size_t equals = std::min(passed.find('='), passed.size() - 1);
    QRUN_RETURN_IF_ERROR(
        RefuseInput(option, output, "the file of " + passed.substr(0, equals), passed.substr(equals + 1)));
  }
  return Outcome();
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
  out->said = choice.said;
  QRUN_RETURN_IF_ERROR(OpenArtifact(path, choice.said.verbose, &out->artifact, &out->info));
  if (with_text) QRUN_RETURN_IF_ERROR(OpenText(*out, &out->text));
  qrt_engine_options options = {};
  options.struct_size = sizeof options;
  options.threads = static_cast<uint32_t>(choice.threads.value_or(0));
  options.cpu = choice.code();
  options.device = choice.device ? choice.device->c_str() : "auto";
  if (choice.max_dispatch_ms)
    options.max_dispatch_ms = *choice.max_dispatch_ms > 0 ? *choice.max_dispatch_ms : -1;
  const std::string cache = choice.CacheFolder();
  const std::string kernels = cache.empty() ? "" : qrt::aot::KernelFolder(cache);
  options.cache_dir = kernels.c_str();
  ProgressLine upload(choice.said.quiet ? "" : "copying weights to the device");
  options.progress = ShowUpload;
  options.progress_ctx = &upload;
  ArtifactPtr draft;
  if (!choice.draft.empty()) {
    qrt_artifact_info info = {};
    QRUN_RETURN_IF_ERROR(OpenArtifact(choice.draft, choice.said.verbose, &draft, &info));
    options.draft = draft.get();
  }
  qrt_engine* engine = nullptr;
  QRUN_CALL(qrt_engine_create(out->artifact.get(), &options, &engine, &error));
  out->engine.reset(engine);
  if (!choice.several_devices) {
    qrt_engine_info info;
    QRUN_RETURN_IF_ERROR(DescribeEngine(*out, &info));
    QRUN_RETURN_IF_ERROR(SayChoice(*out, choice, info));
    for (const std::string& warning : choice.WithoutEffectOn(info.device)) choice.said.Warn(warning);
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

double MeanThreads(const qrt_engine_info& engine) {
  if (engine.cpu_steps == 0) return engine.threads;
  return static_cast<double>(engine.step_threads) / static_cast<double>(engine.cpu_steps);
}

std::string ThreadsText(const qrt_engine_info& engine) {
  const double mean = MeanThreads(engine);
  char fewer[80] = "";
  if (engine.threads - mean >= 0.05)
    std::snprintf(fewer, sizeof fewer, " (%.1f on average, as cores were free)", mean);
  return std::to_string(engine.threads) + " threads" + fewer;
}

void WarnOfContext(const Model& model, uint64_t tokens, uint64_t history) {
  const uint64_t made_for = model.info.context_length;
  if (made_for == 0 || tokens <= made_for) return;
  const std::string behind = history == 0 ? "" : " (" + std::to_string(history) + " of them history)";
  model.said.Warn(std::to_string(tokens) + " tokens" + behind + " are more than the " +
                  std::to_string(made_for) + " that the model was made for");
}

Outcome NewSession(const Model& model, uint64_t context_tokens, SessionPtr* out, Drafting draft) {
  qrt_session_options options = {};
  options.struct_size = sizeof options;
  options.context_tokens = context_tokens;
  options.draft = draft.draft;
  options.draft_tokens = draft.tokens;
  options.tokens_ahead = draft.ahead;
  qrt_engine_info engine = {};
  QRUN_RETURN_IF_ERROR(DescribeEngine(model, &engine));
  if (draft.draft == QRT_DRAFT_NONE && draft.ahead == QRT_TOKENS_AHEAD_AUTO && engine.samples_on_device) {
    options.max_rewind = QRT_TOKENS_AHEAD_MOST - 1;
  }
  qrt_session* session = nullptr;
  QRUN_CALL(qrt_session_create(model.engine.get(), &options, &session, &error));
  out->reset(session);
  return Outcome();
}

namespace {

Outcome SamplerOf(const Model& model, float temperature, int32_t top_k, SamplerPtr* out) {
  qrt_sampler_options options = {};
  options.struct_size = sizeof options;
  options.temperature = temperature;
  options.top_k = top_k;
  options.top_p = options.repeat_penalty = 1;
  qrt_sampler* sampler = nullptr;
  QRUN_CALL(qrt_sampler_create(model.artifact.get(), &options, &sampler, &error));
  out->reset(sampler);
  return Outcome();
}

}  // namespace

Outcome GreedySampler(const Model& model, SamplerPtr* out) {
  return SamplerOf(model, 0, 0, out);
}
Outcome DrawingSampler(const Model& model, SamplerPtr* out) {
  return SamplerOf(model, 1, 40, out);
}

Outcome Tokenize(const qrt_text* text, std::string_view utf8, bool special, std::vector<int32_t>* out,
                 bool as_written) {
  const uint32_t flags =
      (special ? uint32_t{QRT_TOKENIZE_SPECIAL} : 0) | (as_written ? uint32_t{QRT_TOKENIZE_AS_WRITTEN} : 0);
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
